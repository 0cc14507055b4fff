"""Blocks to Python functions, each compiled when it is first run, or before that if an earlier process has kept its code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import NoReturn
from weakref import WeakKeyDictionary

import numpy as np

from mmagen.emulate.arrays import Mask, Registers, Values
from mmagen.emulate.batch import Batch
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.exec.blocks import Block, cut
from mmagen.emulate.exec.coverage import Branches
from mmagen.emulate.exec.dataflow import block_registers, past, unwritten_reads
from mmagen.emulate.exec.kept_code import KeptCode
from mmagen.emulate.exec.metadata import unkept
from mmagen.emulate.exec.unused import unused_reads
from mmagen.emulate.lanes.undefined import is_source, registers_to_follow
from mmagen.emulate.memory.global_memory import GlobalMemory
from mmagen.emulate.ops import table  # noqa: F401  (registers all instructions)
from mmagen.emulate.ops.cache_policy import check_policy
from mmagen.emulate.ops.emit import OPS, Emitter, storage_of
from mmagen.emulate.ops.undefined import continue_following, follow_undefined, guard_undefined
from mmagen.emulate.ops.wgmma import registers_in_flight, watch_registers
from mmagen.emulate.program.program import Places, Program
from mmagen.emulate.ptx.model import Entry, Instruction, Module

_PRODUCTS = ("fma", "dp4a", "dp2a")  # of kernels without tensor cores
_TOGETHER = ("shfl", "vote", "match", "redux", "elect")

Run = Callable[[Registers, Mask | None, Batch], None]
"""A block's body: registers, mask of the active lanes (None: all), batch."""


class Compiled:
    """An entry's blocks and what they were compiled to so far; launches of the same entry share it.

    next: block -> the one that follows it. branches: of which the report says what was reached. tracked: registers that some
    path reads before it writes them, with `checks`. traced: scalar products are events of a trace, if the batch has one. kept:
    code of earlier processes. zeros: what each register holds at first; values are never changed in place. lasting: registers
    whose values a later block may use.
    """

    def __init__(self, entry: Entry, file: str, places: Places, checks: bool, traced: bool, kept: KeptCode | None = None):
        self._file, self._traced, self._kept = file, traced, kept
        self._name = entry.name, checks, traced
        self.blocks = cut(entry)
        order = sorted(self.blocks)
        self.next = dict(pairwise(order))
        self.branches = Branches(self.blocks, file)
        unused = unused_reads(entry) if checks else {}
        self.tracked = unwritten_reads(entry, self.blocks, unused) if checks else frozenset()
        in_flight = registers_in_flight(entry)
        self._in_flight = in_flight if checks else frozenset()
        # The lanes of another warpgroup may have wgmmas in flight that use the same registers.
        inner = block_registers(entry, self.blocks) - in_flight
        self.lasting = [index for index in range(len(entry.registers)) if index not in inner]
        self._emitter = Emitter(places.place_of, places.special, self.tracked, unused, inner)
        self._unkept = unkept(entry, self.blocks) if checks else {}
        self._instructions = entry.instructions
        self._followed = registers_to_follow(entry) if checks else frozenset()
        self._sources = frozenset(i.index for i in entry.instructions if is_source(i)) if checks else frozenset()
        self.zeros: Registers = [_zero(storage_of(register)) for register in entry.registers]
        self._past: dict[int, frozenset[int]] = {}
        self._functions: dict[tuple[int, bool, bool, int], Run] = {}

    def past(self, start: int) -> frozenset[int]:
        """The blocks behind the one that begins with a `.sync` instruction; see dataflow.past."""
        if start not in self._past:
            self._past[start] = past(self.blocks, start)
        return self._past[start]

    def function(self, block: Block, full: bool, follows: bool, first: int = 0) -> Run:
        """What runs a block's body, from its instruction `first` on. full: the active lanes are all that are live, so that
        results need no mask. follows: lanes hold values that are followed through the registers (lanes/undefined.py)."""
        key = block.start, full, follows, first
        if key not in self._functions:
            self._functions[key] = self._compile(block, full, follows, first)
        return self._functions[key]

    def _compile(self, block: Block, full: bool, follows: bool, first: int) -> Run:
        """An instruction that is not supported raises EmulationError, with file and line, only when it is reached."""
        emitter = self._emitter
        emitter.begin_function()
        for n, i in enumerate(block.body[first:], first + 1):
            if follows and self._followed:
                guard_undefined(emitter, i, self._followed)
            emitter.begin(i, full)
            try:
                if self._in_flight:
                    watch_registers(emitter, i, self._in_flight)
                for wgmma, register in self._unkept.get(i.index, {}).items():
                    multiply = emitter.bind(self._instructions[wgmma])
                    emitter.line(f"X.wgmmas.report_unkept({emitter.mask}, {register}, {multiply})")
                if follows and self._followed:
                    follow_undefined(emitter, i, self._followed)
                check_policy(emitter, i)
                OPS.get(i.base, _unknown)(emitter, i)
                if i.base in _TOGETHER:
                    emitter.line(f"X.hazards.converge({emitter.mask})")
                if self._traced and i.base in _PRODUCTS:
                    emitter.line(f"if X.trace: X.trace.of_mask('scalar', {emitter.mask})")
                if not follows and i.index in self._sources:
                    continue_following(emitter, i, self._rest(block, full, n))
            except EmulationError as error:
                _emit_error(emitter, f"{self._file}:{i.line}: {error}: {i.text}")
            except (KeyError, IndexError, ValueError, TypeError, AttributeError, StopIteration):
                # Builders take the forms that exist for granted; a text that was edited may hold others.
                _emit_error(emitter, f"{self._file}:{i.line}: this form of the instruction is not supported: {i.text}")
        source = "def run(R, m, X):\n" + "\n".join(emitter.lines or ["  pass"]) + "\n"
        name = f"<block {block.start}>"
        key = *self._name, block.start, full, follows, first
        exec(self._kept.code(key, source, name) if self._kept else compile(source, name, "exec"), emitter.namespace)
        run: Run = emitter.namespace["run"]
        return run

    def prepare(self) -> None:
        """Makes the functions that earlier processes have run, for processes that are forked off then."""
        for *name, start, full, follows, first in self._kept.functions if self._kept else ():
            if tuple(name) == self._name and start in self.blocks:
                self.function(self.blocks[start], full, follows, first)

    def _rest(self, block: Block, full: bool, first: int) -> Run:
        """A block's body from `first` on, with values to follow; compiled when there are some."""
        return lambda registers, mask, batch: self.function(block, full, True, first)(registers, mask, batch)


_COMPILED: WeakKeyDictionary[Entry, dict[tuple[bool, bool], Compiled]] = WeakKeyDictionary()


def compiled(program: Program, checks: bool, traced: bool, kept: KeptCode | None = None) -> Compiled:
    """The compiled blocks of a program's entry, which last as long as the entry does. kept: code of earlier processes."""
    known, how = _COMPILED.setdefault(program.entry, {}), (checks, traced)
    if how not in known:
        known[how] = Compiled(program.entry, program.module.file, program.places, checks, traced, kept)
    return known[how]


def prepare(module: Module, kept: KeptCode) -> None:
    """Makes the functions of a module's entries that earlier processes have run and kept the code of."""
    for name in {name for name, *_ in kept.functions}:
        entry = module.entries.get(name)
        if entry:
            # A launch that is not run: the functions do not depend on it.
            program = Program(module, entry, (1, 1, 1), (1, 1, 1), 0, bytes(entry.param_bytes), GlobalMemory())
            compiled(program, checks=True, traced=False, kept=kept).prepare()


@cache
def _zero(name: str) -> Values:
    zero = np.zeros(1, np.bool_ if name == "b1" else name)
    zero.setflags(write=False)
    return zero


def _unknown(emitter: Emitter, i: Instruction) -> None:
    raise emitter.unsupported("this instruction is not supported")


def _emit_error(emitter: Emitter, message: str) -> None:
    emitter.line(f"{emitter.bind(_unsupported)}({emitter.bind(message)})")


def _unsupported(message: str) -> NoReturn:
    raise EmulationError(message)
