"""Stands in for the program tests/tune.cu: speaks its protocol, with times by a formula and faults on request.

usage: stand_in.py [options of tune.cu]; FAULTS in the environment is JSON: {"crash": [kernel], "hang": [kernel], "wrong": [kernel],
"memory": [problem], "once": file}: a crash happens only while `once` does not exist, and makes it. Each start adds a line to the
file STARTS. TIMES, if set, is a JSON file with milliseconds: {kernel: {problem: ms}}, also of cuBLASLt's names.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from pathlib import Path

EMPTY = dict.fromkeys(
    [
        "layout",
        "types",
        "max_abs_err",
        "max_rel_err",
        "bound",
        "tflops",
        "gbps",
        "pct_peak",
        "peak_source",
        "baseline",
        "baseline_tflops",
        "ratio",
        "registers",
        "spill_bytes",
        "smem_bytes",
        "cutlass",
        "mmagen",
        "spec_sha",
        "seed",
        "input_dist",
    ]
)


def main(arguments: list[str]) -> int:
    faults = json.loads(os.environ.get("FAULTS", "{}"))
    words: dict[str, list[str]] = {}
    for option, value in zip(arguments, [*arguments[1:], ""], strict=True):
        if option.startswith("--") and option != "--json":
            words.setdefault(option, []).append(value)
    say({"machine": {"multiprocessors": 132, "clusters": {"1": 132, "2": 66, "4": 30}}})
    if starts := os.environ.get("STARTS"):
        with Path(starts).open("a") as file:
            print(os.getpid(), file=file)
    for line in sys.stdin if words["--problem"] == ["-"] else words["--problem"]:
        problem = line.strip()
        if problem in faults.get("memory", ()):
            say({"skipped": {"problem": problem, "reason": "cudaMalloc of 99 bytes: out of memory"}})
            say({"end": {"problem": problem}})
            continue
        records = []
        for kernel in words["--config"]:
            say({"at": {"problem": problem, "name": kernel, "step": "verify"}})
            once = faults.get("once")
            if kernel in faults.get("crash", ()) and not (once and Path(once).exists()):
                if once:
                    Path(once).touch()
                print("an illegal memory access was encountered", file=sys.stderr)
                return 4
            if kernel in faults.get("hang", ()):
                time.sleep(600)
            wrong = kernel in faults.get("wrong", ())
            records.append(
                record(kernel, problem, "incorrect" if wrong else "passed", None if wrong else milliseconds(kernel, problem))
            )
        time.sleep(float(os.environ.get("PAUSE", "0")))
        for name in ("cublasLt_first", "cublasLt_best8"):
            records.append(record(name, problem, "passed", given().get(name, {}).get(problem, 1.0)))
        say({"chosen": {"problem": problem, "config": words["--config"][0]}})
        for one in records:
            say(one)
        say({"end": {"problem": problem}})
    return 0


def milliseconds(kernel: str, problem: str) -> float:
    """Each kernel is fastest for one residue of the rows, if TIMES does not say how long it takes."""
    if kernel in given():
        return given()[kernel][problem]
    m, n, k = (int(extent) for extent in problem.split(":")[0].split(",")[:3])
    return (m * n * k) ** 0.5 * 1e-4 * (1 + 0.1 * ((sum(map(ord, kernel)) + m) % 7))


@functools.cache
def given() -> dict[str, dict[str, float]]:
    times = os.environ.get("TIMES")
    return json.loads(Path(times).read_text()) if times else {}


def record(name: str, problem: str, disposition: str, ms: float | None) -> dict[str, object]:
    timing = {"ms_median": ms, "ms_min": ms, "ms_max": ms}
    where = {
        "device": os.environ.get("DEVICE", "NVIDIA Stand-in"),
        "driver": "1.0",
        "cuda": "13.0",
        "sm_clock_mhz": 1800.0,
        "power_w": 400.0,
    }
    return {**EMPTY, **timing, **where, "name": name, "problem": problem, "disposition": disposition, "reason": None}


def say(item: dict[str, object]) -> None:
    print(json.dumps(item), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
