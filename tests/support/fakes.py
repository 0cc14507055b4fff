"""Fakes for tests of the command line: the modules that generate projects, and a machine with compilers and a GPU."""

from __future__ import annotations

import functools
import importlib
import json
import os
import pkgutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import mmagen
from mmagen.cli.main import main
from mmagen.core.errors import Diagnostic, UsageError
from mmagen.toolchain.find import COMPILE, Gpu, Tool, Toolchain
from tests.support.fake_builds import fake_build, printing, record


@dataclass(frozen=True)
class _Written:
    folder: Path
    changed: tuple = ()
    removed: tuple = ()
    unchanged: tuple = ()


def _read(data, file):
    text = data.decode()
    if text.startswith("unreadable"):
        return None, (Diagnostic(file, 1, 1, (), "not YAML", "write YAML"),)
    if text.startswith("illegal"):
        return None, (Diagnostic(file, 7, 9, ("stages",), "6 need too much", "at most 5"),)
    plan = SimpleNamespace(
        name=text.strip(),
        kernel="gemm",
        arch=("sm_80",),
        spec_sha="abc",
        problems=(),
        by_config={},
        by_kernel={},
        maps_are_verified=False,
        spec=SimpleNamespace(problems=None),
        extended=False,
        note="its layout is mended" if text.startswith("mended") else "",
    )
    return plan, ()


def _render(plan, *, tests=True, with_figures=True):
    manifest = {"name": plan.name, "kernel": plan.kernel, "arch": list(plan.arch), "tests": tests, "files": {"a.cu": "0"}}
    return {"a.cu": b"code", "mmagen.json": (json.dumps(manifest) + "\n").encode()}


def _write(files, folder, force=False):
    if (folder / "edited").exists() and not force:
        raise UsageError(f"{folder}/a.cu was edited by hand; pass --force")
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return _Written(folder, tuple(files))


def _check(files, folder):
    return tuple(name for name, data in files.items() if not (folder / name).exists() or (folder / name).read_bytes() != data)


@functools.cache
def _import_all() -> None:
    for module in pkgutil.walk_packages(mmagen.__path__, "mmagen."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def replace_module(monkeypatch: pytest.MonkeyPatch, name: str, **content: object) -> None:
    """Puts a module with this content in the place of mmagen's module of this name until the test ends.

    A module that is imported for the first time meanwhile would keep what it takes from the fake; hence all are imported before.
    """
    _import_all()
    module = ModuleType(name)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """The modules that generate projects as fakes, and a folder with two specs as the working directory."""
    fakes = {
        "families.reading": {"read": _read, "refusal_for": lambda plan, arch: ""},
        "generate.render": {"render": _render},
        "generate.write": {"write": _write, "check": _check},
        "inspect.page": {
            "inspect": lambda plan, device, columns: f"about {plan.name}",
            "to_json": lambda plan, maps, device: "{}",
        },
        "generate.vendor": {"vendor_cutlass": lambda include, extended: {"third_party/cutlass.h": b"header"}},
    }
    for name, content in fakes.items():
        replace_module(monkeypatch, f"mmagen.{name}", **content)
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        Path(f"{name}.yaml").write_text(f"{name}\n")
    return tmp_path


@pytest.fixture
def machine(monkeypatch):
    """A toolchain and a build that the test decides on: set .gpus, .sanitizer, .ok, .offered, .body and .programs,
    which there are besides "verify"; .calls says what was asked."""
    tool = Tool(Path("/usr/bin/tool"), "1.0", "PATH")
    state = SimpleNamespace(
        gpus=(Gpu("Fake", (9, 0), "1"),),
        sanitizer=None,
        calls=[],
        ok=True,
        offered=("verify", "bench"),
        programs=(),
        body=printing(record(name="NAME")),
    )

    def find(env=None, want=()):
        tools = dict.fromkeys(COMPILE, tool)
        return Toolchain(
            **tools,
            gpus=state.gpus,
            sanitizer=state.sanitizer,
            wanted=tuple(want),
            remedies={"gpus": "no NVIDIA GPU found", "sanitizer": "install it"},
        )

    def build(projects, toolchain, **options):
        state.calls.append(
            options | {"projects": list(projects), "toolchain": toolchain, "files": [sorted(os.listdir(p)) for p in projects]}
        )
        root = Path.cwd() / "cache"
        names = [json.loads((p / "mmagen.json").read_text())["name"] for p in projects]
        made = [
            fake_build(root / str(i), state.body.replace("NAME", name), name=name, offered=state.offered)
            for i, name in enumerate(names)
        ]
        made = [replace(b, programs=b.programs | dict.fromkeys(state.programs, b.programs["verify"])) for b in made]
        return [b if state.ok else replace(b, ok=False, programs={}, reason="no", errors=("a.cu(1): error: no",)) for b in made]

    monkeypatch.setattr("mmagen.toolchain.find.find_toolchain", find)
    monkeypatch.setattr("mmagen.build.build.build", build)
    return state


def typed(capsys, *arguments):
    """The exit code of a command line, and what it printed to both streams."""
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return ended.value.code, out, err
