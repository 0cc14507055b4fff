"""Checks that the instruction is in the code, by the uncompressed PTX in a program."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from mmagen.op_tests.batch import Batch, entry

_ENTRY = re.compile(rb"\.entry\s+(mmagen_atom_\d+)\(")
_END = re.compile(rb"\.entry\s|\0")


def ptx_of(program: Path) -> dict[str, str]:
    """The PTX of each kernel in `program`, {} where it carries none."""
    data = program.read_bytes()
    bodies = {}
    for match in _ENTRY.finditer(data):
        end = _END.search(data, match.end())
        bodies[match[1].decode()] = data[match.end() : end.start() if end else match.end()].decode("utf-8", "replace")
    return bodies


def ptx_text(program: Path) -> str:
    """The PTX module that holds the kernels of `program`. Raises ValueError where it carries none."""
    data = program.read_bytes()
    at = _ENTRY.search(data)
    if not at:
        raise ValueError(f"{program.name} contains no PTX of its kernels")
    return data[data.rindex(b".version", 0, at.start()) : data.index(b"\0", at.end())].decode("utf-8", "replace")


def missing(batch: Batch, program: Path) -> dict[int, str]:
    """Which of the batch's kernels lack their instruction: index -> a sentence.

    An operation whose architecture is not enabled compiles to a kernel that does nothing, without a word.
    """
    bodies = ptx_of(program)
    faults = {}
    for index, form in enumerate(batch.forms):
        body = bodies.get(entry(index))
        opcodes = form.operation.opcodes
        if body is None:
            faults[index] = f"its kernel's PTX is not in {program.name}"
        elif not any(_has(body, opcode) for opcode in opcodes):
            faults[index] = f"{form.operation.opcode} is not in the code compiled for {batch.arch}"
    return faults


def _has(body: str, opcode: str) -> bool:
    """Does a line begin with `opcode`, not only with the beginning of it?"""
    return re.search(rf"(?:^|[\s;}}]){re.escape(opcode)}(?![\w.:])", body, re.MULTILINE) is not None


def assembled(functions: Collection[str], batch: Batch) -> dict[int, str]:
    """Which kernels ptxas did not report: index -> a sentence. functions: those that it did."""
    return {
        index: f"ptxas generated no machine code for it for {batch.arch}"
        for index in range(len(batch.forms))
        if entry(index) not in functions
    }
