#!/usr/bin/env python3
"""Counts passes through shared memory and bank conflicts on this machine's GPU, or compares such counts with the emulator.

    python -m tests.emulate.ncu_conflicts tests/emulate/recorded/h200_ncu.json
    python -m tests.emulate.ncu_conflicts --compare tests/emulate/recorded/h200_ncu.json \\
        --markdown docs/results/h200-bank-conflicts.md

Recording builds the verify program of every spec in KERNELS and runs it once under Nsight Compute (ncu), on a problem of
one CTA tile. Exit code 77 if there is no ncu or no usable GPU, 1 if a program could not be counted. Comparing needs no
GPU: it emulates the same problems.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from mmagen.build.build import build
from mmagen.core.process import capture
from mmagen.generate.write import write
from mmagen.toolchain.find import COMPILE, find_toolchain
from tests.support.mutations import project as files_of

# Each problem is one CTA tile, so that every copy is whole. UNSWIZZLED after a spec's name: its project with the swizzle
# of the operand tiles taken out, which every spec has.
UNSWIZZLED = "-unswizzled"
KERNELS = {
    "sm80_gemm_classic": "128,128,128",
    "sm80_gemm_bf16_nt": "256,128,256",
    "sm80_gemm_f16_col_d": "128,96,160",
    "sm80_gemm_tf32_nt": "128,128,80",
    "sm80_gemm_f64": "64,64,80",
    "sm80_gemm_s8_nt_out8": "128,64,320",
    "sm80_gemm_sliced_k": "64,64,320",
    "sm80_gemm_tf32": "256,128,128",
    f"sm80_gemm_classic{UNSWIZZLED}": "128,128,128",
    f"sm80_gemm_bf16_nt{UNSWIZZLED}": "256,128,256",
}
# What is recorded -> the counter that tells it.
METRICS = {
    "load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "store_instructions": "smsp__inst_executed_op_shared_st.sum",
}
_TIMEOUT_S = 300
# The hardware repeats some passes, more in one launch than in the next (1 and 14 of 6,144 were seen of one program): the
# launch with the fewest tells what the addresses ask for.
LAUNCHES = 7
_NOTHING_HERE = 77


def parse_csv(text: str) -> dict[str, int]:
    """The counts in what `ncu --csv` prints for one kernel launch, the program's own output before it or not.

    Raises ValueError when a counter is missing, is no number, or was counted for more than one launch.
    """
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        raise ValueError("ncu printed no table")
    found: dict[str, str] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        name = row["Metric Name"]
        if name in found:
            raise ValueError(f"{name} is there for more than one launch")
        found[name] = row["Metric Value"]
    counts = {}
    for field, metric in METRICS.items():
        if not re.fullmatch(r"\d[\d,]*", found.get(metric, "")):
            raise ValueError(f"{metric} is {found.get(metric, 'missing')}")
        counts[field] = int(found[metric].replace(",", ""))
    return counts


def project(name: str, scratch: Path) -> Path:
    """Make the project that `name` means in `scratch`, and return its folder."""
    spec = name.removesuffix(UNSWIZZLED)
    write(files_of(spec, spec), scratch / name)
    if name.endswith(UNSWIZZLED):
        config = scratch / name / "include" / spec / "config.cuh"
        text, count = re.subn(r"cute::Swizzle<\d+,", "cute::Swizzle<0,", config.read_text("utf-8"))
        assert count == 2, f"{config} has {count} swizzles, not A's and B's"
        config.write_text(text, "utf-8")
    return scratch / name


def record(ncu: str, toolchain) -> dict:
    """What h200_ncu.json holds, of the first GPU. Raises ValueError when a program does not build or cannot be counted."""
    kernels = []
    with tempfile.TemporaryDirectory() as scratch:
        results = build([project(name, Path(scratch)) for name in KERNELS], toolchain, programs=("verify",))
    for (name, problem), result in zip(KERNELS.items(), results, strict=True):
        if not result.ok:
            raise ValueError(f"{name}: {result.reason}")
        launches = [_count(ncu, result.programs["verify"], name, problem) for _ in range(LAUNCHES)]
        counts = min(launches, key=lambda launch: launch["load_wavefronts"])
        kernels.append({"spec": name, "problem": problem, **counts})
        print(f"{name} {problem}: {counts}", file=sys.stderr)
    gpu = toolchain.gpus[0]
    version = re.search(r"Version (\d[\d.]*\d)", capture([ncu, "--version"], timeout_s=_TIMEOUT_S).stdout)
    return {
        "device": gpu.name,
        "driver": gpu.driver,
        "ncu": version[1] if version else "",
        "date": datetime.date.today().isoformat(),
        "kernels": kernels,
    }


def _count(ncu: str, program: Path, name: str, problem: str) -> dict[str, int]:
    """The counts of one launch of the kernel."""
    done = capture(
        [
            ncu,
            "--clock-control",
            "none",
            "-k",
            "regex:gemm_kernel",
            "-c",
            "1",
            "--metrics",
            ",".join(METRICS.values()),
            "--csv",
            program,
            "--no-timing",
            "--dist",
            "small_int",
            "--problem",
            problem,
        ],
        timeout_s=_TIMEOUT_S,
    )
    try:
        if done.exit_code != 0:
            raise ValueError(f"ncu ended with exit code {done.exit_code}")
        return parse_csv(done.stdout)
    except ValueError as error:
        raise ValueError(f"{name}: {error}\n{done.stdout[-800:]}{done.stderr[-800:]}") from None


def write_json(recorded: dict, out: Path) -> None:
    """One kernel a line."""
    about = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in recorded.items() if key != "kernels")
    kernels = ",\n".join(f"  {json.dumps(kernel)}" for kernel in recorded["kernels"])
    out.write_text(f'{{\n{about},\n "kernels": [\n{kernels}\n ]\n}}\n', "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?", help="the .json file to record into")
    parser.add_argument("--ncu", help="path of ncu, when it is not on PATH")
    parser.add_argument("--compare", type=Path, metavar="RECORDED", help="emulate what this .json file holds; no GPU needed")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="where the comparison goes; standard output without it")
    arguments = parser.parse_args()
    if bool(arguments.out) == bool(arguments.compare):
        parser.error("either a file to record into or --compare is needed")
    if arguments.compare:
        from tests.emulate.ncu_compare import page

        text = page(json.loads(arguments.compare.read_text("utf-8")))
        if arguments.markdown:
            arguments.markdown.parent.mkdir(parents=True, exist_ok=True)
            arguments.markdown.write_text(text, "utf-8")
        else:
            print(text, end="")
        return 0
    ncu = shutil.which(arguments.ncu or "ncu")
    toolchain = find_toolchain(want=(*COMPILE, "gpus"))
    if not ncu or not toolchain.gpus:
        why = toolchain.remedies["gpus"] if ncu else "no ncu on PATH (Nsight Compute, of the CUDA toolkit); name it with --ncu"
        print(f"nothing recorded: {why}", file=sys.stderr)
        return _NOTHING_HERE
    try:
        write_json(record(ncu, toolchain), arguments.out)
    except ValueError as error:
        print(f"nothing recorded: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
