"""`mmagen build` and `inspect` are quick and small: the limits are the project's promise, not a measurement."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone

SPEC = Path(__file__).resolve().parents[2] / "specs" / "sm80_gemm_classic.yaml"
SECONDS_FOR_ONE = 0.35
SECONDS_FOR_500 = 3.0
SECONDS_TO_INSPECT = 0.4
PEAK_MEGABYTES = 100

# Runs a command and prints its processor seconds and its peak memory; fails if it does.
_MEASURE = """import os, sys
said = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
_, status, usage = os.wait4(os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:]), 0)
os.write(said, f"{usage.ru_utime + usage.ru_stime} {usage.ru_maxrss}".encode())
sys.exit(os.waitstatus_to_exitcode(status))
"""


# What every build imports before it begins, and the processor seconds of that on the machine that the limits are for. A
# machine that needs longer for it, or has a bad minute, is given as much more for a build.
_LIBRARIES = "import click, jinja2, pydantic, yaml; pydantic.BaseModel"
_LIBRARIES_SECONDS = 0.2


def _measured(environment: dict[str, str], *command: object) -> tuple[float, float]:
    """Processor seconds and peak memory in MB of a process. A small one stands in between: the peak of a child begins with
    what its parent had when it forked."""
    reported = subprocess.run(
        [sys.executable, "-S", "-c", _MEASURE, sys.executable, *command], env=environment, stdout=subprocess.PIPE, check=True
    )
    seconds, kilobytes = map(float, reported.stdout.split())
    return seconds, kilobytes / 1024 if sys.platform != "darwin" else kilobytes / 1024**2


def _quickest(folder: Path, limit: float, attempts: int, *command: object) -> tuple[float, float]:
    """Seconds of the quickest whole process of mmagen as the machine of the limits would take, and the peak memory in MB; ends with
    the first attempt below `limit`.

    Processor seconds, which are those of the clock on an idle machine, and attempts some time apart: others may use the
    machine too. As for a user, what Python and jinja2 compiled in one call is there for the next.
    """
    best, libraries, whole, peak = float("inf"), float("inf"), float("inf"), 0.0
    kept = {"PYTHONPYCACHEPREFIX": str(folder.parent / "pyc"), "MMAGEN_CACHE_DIR": str(folder.parent / "cache")}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | kept
    for attempt in range(attempts):
        if attempt:
            shutil.rmtree(folder, ignore_errors=True)
            time.sleep(2 * limit)
        libraries = min(libraries, _measured(environment, "-c", _LIBRARIES)[0])
        start = time.perf_counter()
        seconds, megabytes = _measured(environment, "-m", "mmagen", *command)
        whole = min(whole, time.perf_counter() - start)
        best, peak = min(best, seconds), max(peak, megabytes)
        if best / max(1.0, libraries / _LIBRARIES_SECONDS) < limit:
            break
    assert whole < 20 * limit, "it waits for something"
    return best / max(1.0, libraries / _LIBRARIES_SECONDS), peak


def _built(specs: Path, folder: Path, limit: float, attempts: int) -> tuple[float, float]:
    return _quickest(folder, limit, attempts, "build", specs, "-o", folder)


@pytest.fixture
def fast(tmp_path):
    """A folder in memory where there is room for it: a slow disk is not what is tested."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30
    with tempfile.TemporaryDirectory(dir=memory if roomy else tmp_path) as folder:
        yield Path(folder)


def test_one_spec(fast):
    seconds, megabytes = _built(SPEC, fast / "out", SECONDS_FOR_ONE, attempts=20)
    assert seconds < SECONDS_FOR_ONE and megabytes < PEAK_MEGABYTES


def test_500_specs_in_one_call(fast):
    specs = fast / "specs"
    specs.mkdir()
    for number in range(500):
        text = SPEC.read_text("utf-8").replace(f"name: {SPEC.stem}", f"name: many_{number}")
        (specs / f"many_{number}.yaml").write_text(text)
    seconds, megabytes = _built(specs, fast / "out", SECONDS_FOR_500, attempts=6)
    assert len(list((fast / "out").iterdir())) == 500
    assert seconds < SECONDS_FOR_500 and megabytes < PEAK_MEGABYTES


@pytest.mark.parametrize("name", ["sm80_gemm_classic", "sm90_gemm_bf16_tn"])
def test_the_page_of_a_spec(fast, name):
    seconds, _ = _quickest(fast / "out", SECONDS_TO_INSPECT, 20, "inspect", SPEC.with_name(f"{name}.yaml"))
    assert seconds < SECONDS_TO_INSPECT
