"""Forms to batches, and a batch to a project: one translation unit of many kernels and a small program around it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mmagen import __version__
from mmagen.core.targets import cmake_list
from mmagen.core.templates import templates_folder
from mmagen.generate import manifest
from mmagen.mma.forms import HOPPER, Form, chosen_target
from mmagen.mma.operation import Operation

SIZE = 128  # kernels: enough to make up for reading the headers, few enough for several processors to share the work


@dataclass(frozen=True)
class Batch:
    """Kernels of one translation unit, all for one target; entry(i) is the name of the kernel of forms[i]."""

    forms: tuple[Form, ...]
    arch: str

    @property
    def name(self) -> str:
        """Different for every content: two batches may be built together."""
        text = "\n".join((self.arch, *(form.cxx for form in self.forms)))
        return f"atoms_{self.arch}_{hashlib.sha256(text.encode()).hexdigest()[:10]}"

    def halves(self) -> list[Batch]:
        """Two batches of half the size, none for a batch of one."""
        middle = len(self.forms) // 2
        return [Batch(part, self.arch) for part in (self.forms[:middle], self.forms[middle:])] if middle else []


def entry(index: int) -> str:
    """The name of a batch's kernel in PTX and machine code."""
    return f"mmagen_atom_{index}"


def batches(forms: Sequence[Form], arch: Sequence[str] = (), native: Sequence[str] = (HOPPER,)) -> list[Batch]:
    """All forms, those that share headers and target together. Forms that no `arch` has are left out.

    arch, native: see chosen_target.
    """
    groups: dict[tuple[str, str], list[Form]] = {}
    for form in forms:
        target = chosen_target(form.operation, arch, native)
        if target:
            groups.setdefault((target, _unit_of(form.operation)), []).append(form)
    found = []
    for (target, _), members in groups.items():
        count = -(-len(members) // SIZE)
        # Wide and narrow ones mixed: each batch takes about as long as the others.
        found += [Batch(tuple(members[i::count]), target) for i in range(count)]
    return found


def _unit_of(operation: Operation) -> str:
    """Operations with the same word share a translation unit; wgmma's large headers have one each."""
    return operation.header if operation.warpgroup else operation.places["C"]


def project(batch: Batch) -> dict[str, bytes]:
    """All files of the batch's project, mmagen.json among them."""
    extended = any(form.operation.extended for form in batch.forms)
    context = {
        "name": batch.name,
        "version": __version__,
        "arch": cmake_list([batch.arch]),
        "headers": sorted({form.operation.include for form in batch.forms}),
        "definitions": ["NDEBUG", *(["CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED"] if extended else [])],
        "kernels": [
            {
                "entry": entry(i),
                "threads": form.operation.launch_threads,
                "comment": f"{form.operation.name} ({form.text})",
                "body": _body(form),
            }
            for i, form in enumerate(batch.forms)
        ],
    }
    root = templates_folder()
    files = {
        "CMakeLists.txt": _environment().get_template("CMakeLists.txt.j2").render(context).encode(),
        f"src/{batch.name}.cu": _environment().get_template("batch.cu.j2").render(context).encode(),
        "src/main.cu": (root / "atoms/main.cu").read_bytes(),
        "cmake/mmagen_cutlass.cmake": (root / "project/common/cmake/mmagen_cutlass.cmake").read_bytes(),
        **{
            f"include/mmagen/{name}.cuh": (root / f"runtime/atoms/{name}.cuh").read_bytes()
            for name in ("atom_call", "atom_kernel", "atom_main")
        },
    }
    facts = {"mmagen": __version__, "name": batch.name, "kernel": "atoms", "spec_sha": "", "arch": [batch.arch]}
    return {**files, manifest.MANIFEST: manifest.to_bytes(facts)}


def _body(form: Form) -> str:
    """The call that makes up the kernel."""
    operation = form.operation
    if operation.tensor_memory:
        return f"mmagen::atoms::compile_only(&{form.cxx}::fma, work)"
    if operation.warpgroup:
        return f"mmagen::atoms::multiply_wgmma<{form.cxx}, {'true' if form.a_in_registers else 'false'}>(work)"
    return f"mmagen::atoms::multiply<{form.cxx}>(work)"


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(templates_folder() / "atoms"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        auto_reload=False,
        autoescape=False,
    )
