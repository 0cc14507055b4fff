"""Runs a compiled project's program and collects its output: JSON lines, exit code, messages."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmagen.build.job import BuildResult
from mmagen.build.log import worst
from mmagen.core.errors import ExitCode
from mmagen.core.process import Finished, capture

# One line of a program's output: a value for each of RECORD_FIELDS.
Record = dict[str, Any]
# What a program's record holds, in the order of every report.
RECORD_FIELDS = (
    "name",
    "problem",
    "layout",
    "types",
    "disposition",
    "max_abs_err",
    "max_rel_err",
    "bound",
    "ms_median",
    "ms_min",
    "ms_max",
    "tflops",
    "gbps",
    "pct_peak",
    "peak_source",
    "baseline",
    "baseline_tflops",
    "ratio",
    "sm_clock_mhz",
    "power_w",
    "registers",
    "spill_bytes",
    "smem_bytes",
    "device",
    "driver",
    "cuda",
    "cutlass",
    "mmagen",
    "spec_sha",
    "seed",
    "input_dist",
    "reason",
    "seconds",
    "details",
)
# What programs leave out: mmagen takes the time (of the clock, inputs and reference included); only the emulator reports findings
# and traffic.
_OPTIONAL = ("seconds", "details")
DISPOSITIONS = ("passed", "incorrect", "failed", "not_run", "not_supported")

# Exit codes that a program may end with after saying what it has to say; its records then say what happened.
_ORDERLY = (ExitCode.OK, ExitCode.INCORRECT, ExitCode.RUN_FAILED, ExitCode.NOTHING_VERIFIED)
_SANITIZER_EXIT = 99
_DISABLED_FEATURE = ("Attempting to use", "_ENABLED")


@dataclass(frozen=True)
class RunResult:
    """The output of one program. records: its objects, in order; reason: what went wrong as a sentence, "" when nothing.

    exit_code is negative for a signal and None when the program never ran. seconds: from start to end. began: when, in seconds
    since 1970.
    """

    name: str
    program: str
    records: tuple[Record, ...] = ()
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    reason: str = ""
    began: float = 0.0


def run(
    result: BuildResult,
    *,
    program: str = "verify",
    args: Sequence[str] = (),
    timeout_s: float = 600.0,
    sanitizer: Sequence[str] = (),
) -> RunResult:
    """Run `program` of a successful build with `--json` and `args`, for at most `timeout_s` seconds.

    sanitizer: compute-sanitizer and its tool, e.g. [path, "memcheck"]; what it finds is a failure. Nothing that a
    program does raises: a crash, a timeout or output that is not what it should be is in the result's `reason`.
    """
    label = f"{program} under {sanitizer[1]}" if sanitizer else program
    path = result.programs.get(program)
    if path is None:
        return RunResult(result.name, label, reason=f"{result.name} has no program {program}")
    command = [str(path), "--json", *args]
    if sanitizer:
        command = [str(sanitizer[0]), "--tool", str(sanitizer[1]), "--error-exitcode", str(_SANITIZER_EXIT), *command]
    began = time.time()
    try:
        done = capture(command, timeout_s=timeout_s)
    except OSError as error:
        return RunResult(result.name, label, reason=f"{path.name} does not start: {error.strerror or error}")
    messages, printed, complaint = _read(done)
    records = tuple(_with_ptxas(record, result) | _under(record, sanitizer) for record in printed)
    stderr = done.stderr + "".join(f"{line}\n" for line in messages)
    reason = _trouble(done, timeout_s, label, stderr, bool(sanitizer)) or complaint
    return RunResult(result.name, label, records, done.exit_code, done.stdout, stderr, done.seconds, reason, began)


def _read(done: Finished) -> tuple[list[str], list[Record], str]:
    """compute-sanitizer's lines, the records, and what is wrong with them."""
    messages, records, complaint = [], [], ""
    before = 0.0
    # A last line may have no end.
    for number, line in enumerate(done.stdout.splitlines(), 1):
        came = done.arrivals[number - 1] if number <= len(done.arrivals) else done.seconds
        if line.startswith("========="):
            messages.append(line)
        elif line.strip():
            record, wrong = _record(line)
            if record is not None:
                records.append(record | {"seconds": round(came - before, 6)})
                before = came
            complaint = complaint or (f"line {number} of its output {wrong}" if wrong else "")
    return messages, records, complaint


def _record(line: str) -> tuple[Record | None, str]:
    try:
        record = json.loads(line)
    except ValueError:
        return None, f"is not JSON: {_short(line)}"
    if not isinstance(record, dict):
        return None, f"is not a JSON object: {_short(line)}"
    missing = [name for name in RECORD_FIELDS if name not in record and name not in _OPTIONAL]
    if missing:
        return None, f"lacks {', '.join(missing)}"
    if record["disposition"] not in DISPOSITIONS:
        return None, f"has the unknown disposition {_short(repr(record['disposition']))}"
    return dict.fromkeys(_OPTIONAL) | record, ""


def _under(record: Record, sanitizer: Sequence[str]) -> Record:
    """A record says under which tool it was made: it is not the same result as without it."""
    return {"input_dist": ", ".join(filter(None, (record["input_dist"], sanitizer[1])))} if sanitizer else {}


def _with_ptxas(record: Record, result: BuildResult) -> Record:
    """Registers and spills from ptxas where the program did not know them: those of the build's worst kernel."""
    known = worst(result.ptxas)
    return record | {name: known.get(name) for name in ("registers", "spill_bytes") if record[name] is None}


def _trouble(done: Finished, timeout_s: float, label: str, stderr: str, sanitized: bool) -> str:
    """Why this run counts as failed whatever its records say, or ""."""
    if done.timed_out:
        return f"{label} did not end within {timeout_s:g} s and was stopped"
    for line in (done.stdout + stderr).splitlines():
        if all(part in line for part in _DISABLED_FEATURE):
            return f"the device says: {_short(line.strip())}"
    if sanitized and done.exit_code == _SANITIZER_EXIT:
        return f"{label} found errors: {_sanitizer_headline(stderr)}"
    if done.exit_code < 0:
        return f"{label} was killed by {_signal_name(-done.exit_code)}{last_message(stderr)}"
    if done.exit_code not in _ORDERLY:
        return f"{label} ended with exit code {done.exit_code}{last_message(stderr)}"
    return ""


def _sanitizer_headline(stderr: str) -> str:
    lines = [line.removeprefix("=========").strip() for line in stderr.splitlines() if line.startswith("=========")]
    lines = [line for line in lines if line and not line.startswith("COMPUTE-SANITIZER")]
    return _short(lines[0]) if lines else "it does not say which"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_message(stderr: str) -> str:
    """ ": " and the last thing that a program complained about, or "" when it did not."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return f": {_short(lines[-1])}" if lines else ""


def _short(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
