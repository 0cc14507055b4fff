"""One MMA operation of the catalogue as plain frozen values, and the C++ types made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mmagen.core.layout_text import IntTuple, LayoutText
from mmagen.core.targets import capability
from mmagen.mma.accumulation import Accumulation, accumulation

OPERANDS = ("A", "B", "C", "E", "SFA", "SFB")


@dataclass(frozen=True)
class ThreadValueLayout:
    """A thread-value layout of one operand: (thread, value) to row + rows * column.

    text: as CuTe prints it, without underscores. rows, columns: (M,K) of A, E and SFA, (N,K) of B and SFB, (M,N) of C.
    owners: how many (thread, value) pairs own each element: 1 for a bijection, more for a broadcast, 0 for a layout
    that leaves elements out, owns some more often than others, leaves the matrix or is no layout (see Operation.flaws).
    """

    text: str
    rows: int
    columns: int
    owners: int

    @property
    def layout(self) -> LayoutText:
        """The layout as shape and stride. ValueError where the header's are not congruent."""
        return LayoutText.parse(self.text)

    @property
    def threads(self) -> int:
        return self.layout.modes[0].size

    @property
    def values(self) -> int:
        """Values of each thread; logical ones, where a sparse operand stores fewer."""
        return self.layout.modes[1].size

    def table(self) -> list[list[int]]:
        """table()[thread][value]: the element row + rows * column."""
        threads, values = self.layout.modes
        offsets = _offsets(values)
        return [[start + offset for offset in offsets] for start in _offsets(threads)]


@dataclass(frozen=True)
class Registers:
    """What one thread passes to `fma` for an operand: `count` arguments of the C++ type `type`."""

    type: str
    count: int


@dataclass(frozen=True)
class Parameter:
    """A template parameter. values: legal C++ spellings, the representative first; default: C++ has one, values[0]."""

    name: str
    type: str
    values: tuple[str, ...]
    default: bool


@dataclass(frozen=True)
class Flaw:
    """Something wrong in the CUTLASS headers. operand: A, B, C, ... or "" for the operation as a whole.

    right: the operand's layout after the PTX ISA, None where a layout cannot mend it.
    """

    operand: str
    what: str
    right: ThreadValueLayout | None = None


@dataclass(frozen=True, eq=False)
class Variant:
    """Another instantiation of a template whose types or layouts are not the operation's own.

    arguments: those that differ from the representative's, for Operation.cxx and Operation.traits.
    """

    arguments: Mapping[str, str]
    m: int
    n: int
    k: int
    type_d: str
    type_a: str
    type_b: str
    type_c: str
    type_sf: str | None
    layouts: Mapping[str, ThreadValueLayout]


@dataclass(frozen=True, eq=False)
class Operation:
    """One MMA operation struct of CUTLASS. For a template: of its representative arguments, Parameter.values[0].

    name: what one writes after `cute::`, without blanks; wgmma and DMMA by their aliases, SM90_64x8x16_F16F16F16_SS.
    struct: the struct itself, qualified within cute, without template arguments; header: where it stands.
    family: SM61, SM70, SM75, SM80, SM89, SM90, SM100, SM103 or SM120. kind: fma, mma.sync, wgmma or tcgen05.
    arch: the lowest target that compiles it, with its suffix. targets: all of them, () where every later one will do.
    type_d ...: words of mma.atoms and ue8m0, ue4m3, e2m1, e2m3, e3m2, s4, u4, u1, c64 (complex<double>), gc64.
    value_types: CuTe's ValTypeA ... as C++: containers, sparse_elem. vector: elements that share one scale factor.
    registers: of D, A, B, C and E, SFA, SFB where there are; no D where C is updated in place.
    places: where each operand lies: registers, shared memory (through a descriptor) or tensor memory.
    layouts: of A, B, C and E, SFA, SFB where CuTe's traits have one. thr_id: logical thread to thread of the group.
    sparsity: "2:4" - nonzeros at most : out of - or None. majors_a, majors_b: legal ones, K or MN.
    opcodes: PTX without operands; the representative's, then those of other vector sizes. thr_id, threads: the
    logical threads that own values: 8 of Volta's quad pairs, 1 or 2 CTAs for tcgen05.
    requires: static_asserts on the template arguments, as C++ conditions.
    """

    name: str
    struct: str
    header: str
    family: str
    kind: str
    arch: str
    targets: tuple[str, ...]
    m: int
    n: int
    k: int
    type_d: str
    type_a: str
    type_b: str
    type_c: str
    type_sf: str | None
    value_types: Mapping[str, str]
    opcodes: tuple[str, ...]
    registers: Mapping[str, Registers]
    places: Mapping[str, str]
    threads: int
    thr_id: str
    layouts: Mapping[str, ThreadValueLayout]
    sparsity: str | None
    vector: int | None
    saturate: bool
    majors_a: tuple[str, ...]
    majors_b: tuple[str, ...]
    arguments: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    traits_take_parameters: bool
    requires: tuple[str, ...]
    flaws: tuple[Flaw, ...]
    variants: tuple[Variant, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.m, self.n, self.k

    @property
    def opcode(self) -> str:
        """The PTX instruction without operands, of the representative arguments."""
        return self.opcodes[0]

    @property
    def sparse(self) -> bool:
        return self.sparsity is not None

    @property
    def block_scaled(self) -> bool:
        return self.type_sf is not None

    @property
    def scales(self) -> tuple[str, int]:
        """Of a block-scaled operation the type of its scale factors, and how many elements share one."""
        if self.type_sf is None or self.vector is None:
            raise ValueError(f"{self.name} is not block-scaled")
        return self.type_sf, self.vector

    @property
    def warpgroup(self) -> bool:
        """Is it executed by a warpgroup, with B and possibly A read from shared memory through descriptors (wgmma)?"""
        return self.kind == "wgmma"

    @property
    def a_in_registers(self) -> bool:
        """Is A passed in registers?"""
        return self.places["A"] == "registers"

    @property
    def tensor_memory(self) -> bool:
        """Does it work on tensor memory (tcgen05), which a lone instruction does not fill?"""
        return self.kind == "tcgen05"

    @property
    def tensor_core(self) -> bool:
        """Is it executed by tensor cores? CuTe's scalar FMA and DP4A operations are not."""
        return self.kind != "fma"

    @property
    def accumulation(self) -> Accumulation:
        """What it keeps of its sums."""
        words = self.type_a, self.type_d
        return accumulation(capability(self.arch), *words, self.k, tensor_core=self.tensor_core, warpgroup=self.warpgroup)

    @property
    def launch_threads(self) -> int:
        """Threads of the smallest launch: a warpgroup or a warp, of which a quad pair or one thread may be enough."""
        return 128 if self.kind in ("wgmma", "tcgen05") else 32

    @property
    def of_cutlass(self) -> bool:
        """Is it a struct of CUTLASS's headers, not one that mmagen defines (mma/sparse_forms.py)?"""
        return bool(self.header)

    @property
    def extended(self) -> bool:
        """Does CuTe define it only with CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED?"""
        return self.header.endswith("_ext.hpp")

    @property
    def include(self) -> str:
        """The header to include: the extended shapes come with the others', where a definition asks for them."""
        return self.header.replace("_ext.hpp", ".hpp")

    @property
    def broken(self) -> str | None:
        """Why it cannot be used whatever its layouts, None when it can."""
        return next((flaw.what for flaw in self.flaws if flaw.right is None), None)

    @property
    def known_bad(self) -> str | None:
        """What is wrong upstream, None for nothing known."""
        return "; ".join(f"{flaw.operand}: {flaw.what}" if flaw.operand else flaw.what for flaw in self.flaws) or None

    def layout(self, operand: str) -> ThreadValueLayout:
        """The layout to trust: after the PTX ISA where the header's is flawed, else the header's. KeyError for none."""
        mended = [flaw.right for flaw in self.flaws if flaw.operand == operand and flaw.right]
        return mended[0] if mended else self.layouts[operand]

    def runs_on(self, target: str) -> bool:
        """Can `target`, e.g. sm_90a, compile it to the instruction? Plain targets run on all later ones as well."""
        if self.targets:
            return target in self.targets
        return capability(target) >= capability(self.arch)

    def cxx(self, **arguments: str) -> str:
        """The operation's type, e.g. cxx(tnspB="cute::SM90::GMMA::Major::MN"); K or MN, One or Neg and so on also do.

        Parameters not given take their representative value. ValueError for a wrong parameter or value.
        """
        chosen = self._chosen(arguments)
        if self.traits_take_parameters:
            return f"cute::{self.struct}"
        given = ", ".join((*self.arguments, *(value for _, value in chosen)))
        return f"cute::{self.struct}<{given}>" if given or self.parameters else f"cute::{self.struct}"

    def traits(self, **arguments: str) -> str:
        """CuTe's MMA_Traits of `cxx(**arguments)`; `cute::MMA_Atom<traits>` is the atom, for every operation."""
        extra = ""
        if self.traits_take_parameters:
            types = {parameter.name: parameter.type for parameter in self.parameters}
            chosen = dict(self._chosen(arguments, all_of_them=True))
            extra = "".join(f", {wrapped(types[name], value)}" for name, value in chosen.items())
        return f"cute::MMA_Traits<{self.cxx(**arguments)}{extra}>"

    def _chosen(self, arguments: Mapping[str, str], all_of_them: bool = False) -> list[tuple[str, str]]:
        """(parameter, value) in order, up to the last that must be spelled."""
        if unknown := set(arguments) - {parameter.name for parameter in self.parameters}:
            raise ValueError(f"{self.name} has no template parameter {sorted(unknown)[0]}")
        chosen = [(p.name, _spelled(self.name, p, str(arguments.get(p.name, p.values[0])))) for p in self.parameters]
        needed = [i for i, p in enumerate(self.parameters) if all_of_them or not p.default or p.name in arguments]
        return chosen[: needed[-1] + 1] if needed else []


def _spelled(name: str, parameter: Parameter, value: str) -> str:
    for legal in parameter.values:
        if value == legal or legal.endswith(f"::{value}"):
            return legal
    raise ValueError(f"{name}: {parameter.name} cannot be {value}; legal are {', '.join(parameter.values)}")


def wrapped(kind: str, value: str) -> str:
    """A template value as the type that stands for it."""
    if kind == "class":
        return value
    return f"cute::C<{value}>" if kind == "int" else f"cute::integral_constant<{value.rpartition('::')[0]}, {value}>"


def flat(shape: IntTuple) -> list[int]:
    """The integers of a nested tuple, left to right."""
    return [shape] if isinstance(shape, int) else [extent for mode in shape for extent in flat(mode)]


def _offsets(layout: LayoutText) -> list[int]:
    """Offsets of all coordinates, the first mode fastest."""
    if isinstance(layout.shape, int) and isinstance(layout.stride, int):
        return [i * layout.stride for i in range(layout.shape)]
    offsets = [0]
    for mode in layout.modes:
        offsets = [offset + step for step in _offsets(mode) for offset in offsets]
    return offsets
