"""`mmagen build` is quick and small: the limits are the project's promise, not a measurement."""

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
SECONDS_FOR_ONE = 0.4
SECONDS_FOR_500 = 5.0
PEAK_MEGABYTES = 150


def _quickest(specs: Path, folder: Path, limit: float, attempts: int) -> tuple[float, float]:
    """Seconds of the quickest whole process, and the peak memory in MB; ends with the first attempt below `limit`.

    Processor seconds, which are those of the clock on an idle machine, and attempts some time apart: others may use the
    machine too. As for a user, what Python and jinja2 compiled in one call is there for the next.
    """
    best, peak = float("inf"), 0.0
    kept = {"PYTHONPYCACHEPREFIX": str(folder.parent / "pyc"), "MMAGEN_CACHE_DIR": str(folder.parent / "cache")}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | kept
    for attempt in range(attempts):
        if attempt:
            shutil.rmtree(folder)
            time.sleep(2 * limit)
        command = [sys.executable, "-m", "mmagen", "build", specs, "-o", folder]
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        assert time.perf_counter() - start < 10 * limit, "it waits for something"
        best = min(best, usage.ru_utime + usage.ru_stime)
        peak = max(peak, usage.ru_maxrss / 1024 if sys.platform != "darwin" else usage.ru_maxrss / 1024**2)
        if best < limit:
            break
    return best, peak


@pytest.fixture
def fast(tmp_path):
    """A folder in memory where there is room for it: a slow disk is not what is tested."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30
    with tempfile.TemporaryDirectory(dir=memory if roomy else tmp_path) as folder:
        yield Path(folder)


def test_one_spec(fast):
    seconds, megabytes = _quickest(SPEC, fast / "out", SECONDS_FOR_ONE, attempts=20)
    assert seconds < SECONDS_FOR_ONE and megabytes < PEAK_MEGABYTES


def test_500_specs_in_one_call(fast):
    specs = fast / "specs"
    specs.mkdir()
    for number in range(500):
        text = SPEC.read_text("utf-8").replace(f"name: {SPEC.stem}", f"name: many_{number}")
        (specs / f"many_{number}.yaml").write_text(text)
    seconds, megabytes = _quickest(specs, fast / "out", SECONDS_FOR_500, attempts=6)
    assert len(list((fast / "out").iterdir())) == 500
    assert seconds < SECONDS_FOR_500 and megabytes < PEAK_MEGABYTES
