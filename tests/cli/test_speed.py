"""`mmagen build` and `inspect` are quick and small.

The limits are promises, in seconds on the machine for which they were set. On a slower machine, whose times vary by more than the
limits allow, Python function calls are counted instead.
"""

from __future__ import annotations

import os
import pstats
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone

SPEC = Path(__file__).resolve().parents[2] / "specs" / "sm80_gemm_classic.yaml"
# Seconds, and function calls: about 10 % above the present counts (Python 3.11; most are made by imports of libraries).
ONE = (0.35, 800_000)
FIVE_HUNDRED = (3.0, 9_000_000)
INSPECTED = (0.4, 680_000)
PEAK_MEGABYTES = 100

# Runs a command and prints its processor seconds and its peak memory; fails if it does.
_MEASURE = """import os, sys
said = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
_, status, usage = os.wait4(os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:]), 0)
os.write(said, f"{usage.ru_utime + usage.ru_stime} {usage.ru_maxrss}".encode())
sys.exit(os.waitstatus_to_exitcode(status))
"""


# What every build imports before it begins, and the most processor seconds that this takes on a machine that is fast enough: a
# build of one spec takes 2.6 to 3.6 times as long once its caches are full.
_LIBRARIES = "import click, jinja2, pydantic, yaml; pydantic.BaseModel"
_LIBRARIES_SECONDS = 0.1


def _environment(folder: Path) -> dict[str, str]:
    """As for a user, what Python and jinja2 compiled in one call is there for the next."""
    kept = {"PYTHONPYCACHEPREFIX": str(folder.parent / "pyc"), "MMAGEN_CACHE_DIR": str(folder.parent / "cache")}
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | kept


def _measured(environment: dict[str, str], *command: object) -> tuple[float, float]:
    """Processor seconds and peak memory in MB of a process. A small one stands in between: the peak of a child begins with
    what its parent had when it forked."""
    reported = subprocess.run(
        [sys.executable, "-S", "-c", _MEASURE, sys.executable, *command], env=environment, stdout=subprocess.PIPE, check=True
    )
    seconds, kilobytes = map(float, reported.stdout.split())
    return seconds, kilobytes / 1024 if sys.platform != "darwin" else kilobytes / 1024**2


def _calls(environment: dict[str, str], folder: Path, *command: object) -> int:
    """Function calls of a process of mmagen."""
    profile = folder.parent / "profile"
    profiled = [sys.executable, "-m", "cProfile", "-o", str(profile), "-m", "mmagen", *map(str, command)]
    subprocess.run(profiled, env=environment, stdout=subprocess.DEVNULL, check=True)
    return int(pstats.Stats(str(profile)).total_calls)  # type: ignore[attr-defined]


def _assert_within(folder: Path, limits: tuple[float, int], attempts: int, *command: object) -> None:
    """One of `attempts` processes of mmagen takes less than limits[0] seconds. If none did before the machine proved slower than
    that, a profiled one makes fewer than limits[1] calls. Each timed one needs less than PEAK_MEGABYTES.

    Processor seconds, which are those of the clock on an idle machine, and attempts some time apart: others may use the
    machine too.
    """
    limit, most_calls = limits
    environment = _environment(folder)
    slow, whole = False, float("inf")
    for attempt in range(attempts):
        if attempt:
            shutil.rmtree(folder, ignore_errors=True)
            time.sleep(2 * limit)
        start = time.perf_counter()
        seconds, megabytes = _measured(environment, "-m", "mmagen", *command)
        whole = min(whole, time.perf_counter() - start)
        assert megabytes < PEAK_MEGABYTES
        if seconds < limit:
            break
        slow = min(_measured(environment, "-c", _LIBRARIES)[0] for _ in range(3)) > _LIBRARIES_SECONDS
        if slow:
            break
    assert whole < 20 * limit, "it waits for something"
    if seconds < limit:
        return
    assert slow, f"{seconds} s"
    shutil.rmtree(folder, ignore_errors=True)
    assert _calls(environment, folder, *command) < most_calls


@pytest.fixture
def fast(tmp_path):
    """A folder in memory where there is room for it: a slow disk is not what is tested."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30
    with tempfile.TemporaryDirectory(dir=memory if roomy else tmp_path) as folder:
        yield Path(folder)


def test_one_spec(fast):
    _assert_within(fast / "out", ONE, 20, "build", SPEC, "-o", fast / "out")
    assert (fast / "out").is_dir()


def test_500_specs_in_one_call(fast):
    specs = fast / "specs"
    specs.mkdir()
    for number in range(500):
        text = SPEC.read_text("utf-8").replace(f"name: {SPEC.stem}", f"name: many_{number}")
        (specs / f"many_{number}.yaml").write_text(text)
    _assert_within(fast / "out", FIVE_HUNDRED, 6, "build", specs, "-o", fast / "out")
    assert len(list((fast / "out").iterdir())) == 500


@pytest.mark.parametrize("name", ["sm80_gemm_classic", "sm90_gemm_bf16_tn"])
def test_the_page_of_a_spec(fast, name):
    _assert_within(fast / "out", INSPECTED, 20, "inspect", SPEC.with_name(f"{name}.yaml"))
