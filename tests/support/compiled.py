"""Specs compiled for emulation, and what came of emulating them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mmagen.build.ptx import Ptx, compile_ptx
from mmagen.families import plan
from mmagen.generate.write import write
from mmagen.plan.project import ProjectPlan
from mmagen.spec.load import load
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated import host
from mmagen.verify.emulated.session import run_task, tasks
from tests.support.mutations import project


@dataclass(frozen=True)
class Compiled:
    """A spec's plan, and its kernels and host code for the emulator."""

    plan: ProjectPlan
    ptx: Ptx


def compile_spec(name: str, folder: Path) -> Compiled:
    """The spec of that name, of specs/ or of tests/gpu/odd/, as a project in `folder`. AssertionError where it does not
    compile; what is in mmagen's cache is not compiled again."""
    if not (folder / name).is_dir():
        write(project(name, name), folder / name)
    ptx = compile_ptx(folder / name, find_toolchain(want=COMPILE))
    assert not ptx.error, ptx.error
    return Compiled(plan(load((folder / name / "spec.yaml").read_bytes(), f"{name}.yaml").spec), ptx)


def changed(ptx: Ptx, pattern: str | re.Pattern[str], instead: str) -> Ptx:
    """With `instead` for every match of a pattern in the PTX of the main translation unit, which must have one."""
    text, count = re.subn(pattern, instead, ptx.text)
    assert count, pattern
    return replace(ptx, units={**ptx.units, ptx.name: text})


def change_calls(changes: Mapping[str, Callable[[Mapping[str, Any]], int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls get other members of the struct: what `changes` makes of the right ones."""
    right = host.argument_bytes

    def arguments(values: Mapping[str, Any], members: tuple[tuple[str, str], ...] = ()) -> bytes:
        return right({**values, **{name: of(values) for name, of in changes.items()}}, members)

    monkeypatch.setattr(host, "argument_bytes", arguments)


@dataclass(frozen=True)
class Emulated:
    """The records of the problems that `mmagen verify --on cpu` emulates of a spec, and the processor time that they took."""

    records: Sequence[Mapping[str, Any]]
    seconds: float


def emulate(compiled: Compiled) -> Emulated:
    """Emulate the problems that the spec chooses, one after another."""
    begin = time.process_time()
    results = [run_task(task) for task in tasks(compiled.plan, compiled.ptx, (), 1, None)]
    return Emulated([record for result in results for record in result.records], time.process_time() - begin)
