"""A PTX text as frozen values: modules, entries, instructions and their operands."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

# Opcodes whose first operand is read, not written.
_NO_DESTINATION = ("st", "red", "cp", "stmatrix", "prefetch", "discard", "bra", "bar", "barrier", "membar", "fence", "call")


@dataclass(frozen=True)
class Location:
    """A place in CUDA source; `parent` is the call that this place was inlined into."""

    file: str
    line: int
    column: int
    parent: Location | None = None

    def frames(self) -> tuple[Location, ...]:
        """This place and the calls that led to it, innermost first."""
        frames: list[Location] = []
        place: Location | None = self
        while place is not None and len(frames) < 64:
            frames.append(place)
            place = place.parent
        return tuple(frames)


@dataclass(frozen=True)
class Register:
    """A register of an entry: `index` counts the entry's registers from 0; `type` is as declared, e.g. "b32"."""

    name: str
    type: str
    index: int


@dataclass(frozen=True)
class Negated:
    """A predicate operand read inverted: `!%p1`."""

    register: Register


@dataclass(frozen=True)
class Immediate:
    """A literal. value: an int, or a float for 0f.../0d.../decimal literals; bits: the raw bits of 0f and 0d, else None."""

    value: int | float
    bits: int | None = None


@dataclass(frozen=True)
class Special:
    """A special register without its percent sign: "tid.x"."""

    name: str


@dataclass(frozen=True)
class Symbol:
    """The address of a variable plus `offset` bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Vector:
    """`{a, b, ...}`."""

    elements: tuple[Operand, ...]


def elements_of(operand: Operand) -> tuple[Operand, ...]:
    """Of a vector; another operand is one by itself."""
    return operand.elements if isinstance(operand, Vector) else (operand,)


@dataclass(frozen=True)
class Address:
    """`[base + offset]`; base is a register, a symbol or, for an absolute address, None."""

    base: Register | Symbol | None
    offset: int = 0


@dataclass(frozen=True)
class Pair:
    """`a|b`: two destinations of setp, vote, shfl."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Name:
    """A bare word: a label, a function, or the sink `_`."""

    name: str


Operand = Register | Negated | Immediate | Special | Symbol | Vector | Address | Pair | Name


@dataclass(frozen=True)
class Instruction:
    """One statement. base: "ld"; modifiers: ("global", "v4", "u32"); `line` is the line in the PTX text."""

    index: int
    base: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | Negated | None
    line: int
    text: str
    location: Location | None = None

    def has(self, modifier: str) -> bool:
        return modifier in self.modifiers

    @property
    def type(self) -> str:
        """The last modifier: for most instructions the type."""
        return self.modifiers[-1] if self.modifiers else ""

    @property
    def _writes_first(self) -> bool:
        """Is the first operand a destination?"""
        if self.base in ("bar", "barrier"):
            return self.has("red")
        return self.base not in _NO_DESTINATION and not (self.base == "wmma" and self.has("store"))

    @cached_property
    def registers(self) -> tuple[tuple[Register, ...], tuple[Register, ...]]:
        """(registers read, registers written)."""
        reads: list[Register] = []
        writes: list[Register] = []
        to_first = writes if self._writes_first else reads
        for position, operand in enumerate(self.operands):
            _collect(operand, reads, reads if position else to_first)
        if self.guard is not None:
            _collect(self.guard, reads, reads)
        return tuple(reads), tuple(writes)


def _collect(operand: Operand, reads: list[Register], into: list[Register]) -> None:
    """Adds the registers of an operand; address bases and predicates are read in any case."""
    if isinstance(operand, Register):
        into.append(operand)
    elif isinstance(operand, Negated):
        reads.append(operand.register)
    elif isinstance(operand, Vector):
        for element in operand.elements:
            _collect(element, reads, into)
    elif isinstance(operand, Pair):
        _collect(operand.first, reads, into)
        _collect(operand.second, reads, into)
    elif isinstance(operand, Address) and isinstance(operand.base, Register):
        reads.append(operand.base)


@dataclass(frozen=True)
class Variable:
    """A declared variable. space: param, shared, local, const, global; size in bytes, 0 for `extern` arrays without one.
    kind: the PTX type of an element, e.g. "f32"."""

    name: str
    space: str
    size: int
    alignment: int
    offset: int = 0
    external: bool = False
    data: bytes = b""
    kind: str = ""


@dataclass(frozen=True)
class Limits:
    """What the directives of an entry say of its launches (PTX ISA 11.4, "Performance-Tuning Directives", and 11.5, "Cluster
    Dimension Directives"); 0 and () where there is none.

    max_threads: of a CTA, .maxntid. threads, cluster: the extents that a launch must have, .reqntid and .reqnctapercluster.
    explicit_cluster: a launch has to name a cluster. max_cluster: CTAs of a cluster. max_registers: of a thread, .maxnreg.
    min_ctas: CTAs that fit one SM, .minnctapersm.
    """

    max_threads: int = 0
    threads: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()
    explicit_cluster: bool = False
    max_cluster: int = 0
    max_registers: int = 0
    min_ctas: int = 0


@dataclass(frozen=True, eq=False)
class Entry:
    """A kernel: what `launch` runs. labels: name -> index of the instruction that follows. Equal to itself only."""

    name: str
    params: tuple[Variable, ...]
    registers: tuple[Register, ...]
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    variables: tuple[Variable, ...]
    line: int
    limits: Limits = Limits()

    @property
    def param_bytes(self) -> int:
        """Size of the parameter block."""
        return max((p.offset + p.size for p in self.params), default=0)


@dataclass(frozen=True, eq=False)
class Module:
    """One PTX text. variables: those outside of entries; file: the name that messages use."""

    file: str
    target: str
    entries: dict[str, Entry]
    variables: tuple[Variable, ...]
    functions: frozenset[str] = field(default_factory=frozenset)
