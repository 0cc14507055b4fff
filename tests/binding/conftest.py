"""A library with the C interface that computes on the CPU, for arrays in host memory."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import mmagen
from mmagen.binding.kernel import Kernel
from mmagen.binding.shared_library import entries_in
from mmagen.binding.tensors import CPU
from mmagen.generate.render import render
from mmagen.plan.facts import INTERFACE_VERSION

SPEC = {"mmagen": 1, "kernel": "gemm", "atom": "UniversalFMA<float>", "tile": [64, 64, 8], "atoms_layout": [16, 16, 1]}


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Callable[..., Path]:
    """library(layout, **about): the shared library of a kernel in that layout; about: changes of its description."""

    def made(layout: str = "TN", major: str = "N", **about: Any) -> Path:
        name = f"host_{layout.lower()}_{major.lower()}"
        folder = tmp_path_factory.mktemp(name)
        plan = mmagen.plan({**SPEC, "name": name, "layout": layout, "epilogue": {"major": major}})
        (folder / f"{name}.h").write_bytes(render(plan)[f"include/{name}/{name}.h"])
        described: Mapping[str, Any] = {**plan.facts.description, "mmagen": "0", "interface": INTERFACE_VERSION, **about}
        quoted = json.dumps(json.dumps(described))
        (folder / "facts.h").write_text(f"#define DESCRIPTION {quoted}\n")
        majors = dict(zip(("A_M", "B_N", "D_M"), (m in mode for m, mode in zip("MNM", plan.majors, strict=True)), strict=True))
        defines = [f"-D{word}={int(value)}" for word, value in majors.items()]
        defines += [f"-DKERNEL={name}", f'-DHEADER="{name}.h"', "-include", str(folder / "facts.h")]
        source = Path(__file__).with_name("host_library.c")
        made_at = folder / f"lib{name}.so"
        command = [
            "gcc",
            "-std=c99",
            "-Wall",
            "-Werror",
            "-O1",
            "-shared",
            "-fPIC",
            "-I",
            folder,
            *defines,
            source,
            "-o",
            made_at,
        ]
        subprocess.run(command, check=True)
        return made_at

    return made


@pytest.fixture(scope="session")
def kernel(library) -> Callable[..., Kernel]:
    """kernel(layout, major): such a kernel, for arrays in host memory."""
    known: dict[tuple[str, str], Kernel] = {}

    def made(layout: str = "TN", major: str = "N", **about: Any) -> Kernel:
        if about or (layout, major) not in known:
            (entry,) = entries_in(library(layout, major, **about)).values()
            found = Kernel(entry, devices=(CPU,))
            if about:
                return found
            known[layout, major] = found
        return known[layout, major]

    return made
