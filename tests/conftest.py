"""Skips what cannot run here, by name and with the reason: `nvcc` tests without a compiler, `gpu` tests without a GPU, and
`more` tests unless MMAGEN_ALL_TESTS is set. While an `alone` test measures, the other workers wait."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.compiled import Compiled, Emulated


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch):
    """Screens fit COLUMNS, which pytest-xdist and some CI systems set; tests of their width set it themselves."""
    monkeypatch.delenv("COLUMNS", raising=False)


def pytest_addoption(parser):
    group = parser.getgroup("specs", "random specs, see tests/properties")
    group.addoption(
        "--specs-count", type=int, default=0, help="how many accepted specs to verify on the CPU besides those of CI"
    )
    group.addoption("--specs-seed", type=int, default=1)
    group.addoption("--specs-shard", default="1/1", metavar="I/N")


@functools.cache
def _missing_compiler() -> str:
    from mmagen.toolchain.find import COMPILE, find_toolchain

    toolchain = find_toolchain(want=COMPILE)
    return "; ".join(f"no {name}: {toolchain.remedies[name]}" for name in toolchain.missing())


@functools.cache
def _missing_gpu() -> str:
    from mmagen.toolchain.find import find_toolchain

    return find_toolchain(want=("gpus",)).remedies.get("gpus", "")


def pytest_collection_modifyitems(items):
    for item in items:
        reasons = [_missing_compiler()] if item.get_closest_marker("nvcc") or item.get_closest_marker("gpu") else []
        reasons += [_missing_gpu()] if item.get_closest_marker("gpu") else []
        if item.get_closest_marker("more") and not os.environ.get("MMAGEN_ALL_TESTS"):
            reasons.append("one of many alike, or slow; MMAGEN_ALL_TESTS=1 runs them all")
        why = "; ".join(reason for reason in reasons if reason)
        if why:
            item.add_marker(pytest.mark.skip(reason=f"{item.nodeid}: {why}"))


@pytest.fixture(scope="session")
def made_once(request, tmp_path_factory) -> Callable[[str, Callable[[Path], None]], Path]:
    """made_once(name, make): the folder that make(folder) filled, the same for all workers of a run.

    For what takes long to compile: modules are divided among workers, and each would make its own.
    """
    base = tmp_path_factory.getbasetemp()
    base = base.parent if hasattr(request.config, "workerinput") else base

    def folder_of(name: str, make: Callable[[Path], None]) -> Path:
        folder = base / name
        with (base / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / ".made").exists():
                folder.mkdir(exist_ok=True)
                make(folder)
                (folder / ".made").touch()
        return folder

    return folder_of


@pytest.fixture(scope="session")
def compiled(made_once) -> Callable[[str], Compiled]:
    """compiled(name): a spec of specs/ or tests/gpu/odd/ for the emulator, compiled once for all workers of a run."""
    from tests.support.compiled import compile_spec

    @functools.cache
    def of(name: str) -> Compiled:
        return compile_spec(name, made_once(f"emulated_{name}", lambda folder: compile_spec(name, folder)))

    return of


@pytest.fixture(scope="session")
def emulated(made_once, compiled) -> Callable[[str], Emulated]:
    """emulated(name): the records of a spec's own problems, emulated once for all workers of a run."""
    from tests.support.compiled import emulate

    @functools.cache
    def of(name: str) -> Emulated:
        def make(folder: Path) -> None:
            (folder / "records").write_bytes(pickle.dumps(emulate(compiled(name))))

        return pickle.loads((made_once(f"records_{name}", make) / "records").read_bytes())

    return of


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    if not hasattr(item.config, "workerinput"):
        return (yield)
    shared = item.config._tmp_path_factory.getbasetemp().parent  # of all workers of this run
    with _turn(shared, item.get_closest_marker("alone") is not None):
        return (yield)


@contextlib.contextmanager
def _turn(folder: Path, alone: bool) -> Iterator[None]:
    """Any number of tests at a time, or one that is alone. A test that waits to be alone holds the queue, so that later
    tests cannot overtake it."""
    with (folder / "running").open("w") as running:
        with (folder / "queue").open("w") as queue:
            fcntl.flock(queue, fcntl.LOCK_EX)
            fcntl.flock(running, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
