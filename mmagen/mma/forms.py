"""The tests of an operation: its instantiations, their targets, and the distributions of inputs."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mmagen.core.errors import UsageError
from mmagen.core.instead import did_you_mean
from mmagen.mma.catalogue import nearest, operations
from mmagen.mma.operation import Operation

STEPS = 2  # along K: D of the first is C of the second
# Logical elements of A along K for which one byte of metadata speaks, and how many of them are kept.
METADATA = {"2:4": (8, 4), "1:2": (4, 2), "4:8": (16, 8)}
HOPPER = "sm_90a"
# Bytes of a line of wgmma's layouts in shared memory, 16 without a swizzle, in the order of a descriptor's codes.
SWIZZLES = (16, 128, 64, 32)


@dataclass(frozen=True)
class Form:
    """One instantiation of an operation: template arguments by name, and the majors they stand for."""

    operation: Operation
    arguments: tuple[tuple[str, str], ...] = ()
    major_a: str = "K"
    major_b: str = "K"

    @property
    def cxx(self) -> str:
        return self.operation.cxx(**dict(self.arguments))

    @property
    def lines(self) -> tuple[int, ...]:
        """Shared-memory lines to try: all of them for wgmma, none for others."""
        return SWIZZLES if self.operation.warpgroup else (0,)

    @property
    def a_in_registers(self) -> bool:
        return self.operation.a_in_registers

    @property
    def text(self) -> str:
        """The operands' majors, as a record spells them."""
        return f"A: {self.major_a} contiguous, B: {self.major_b} contiguous"

    @property
    def runs(self) -> bool:
        """Can it be run at all? tcgen05 works on tensor memory, which a lone instruction does not fill."""
        return not self.operation.tensor_memory


def forms(operation: Operation) -> list[Form]:
    """The representative, and for a wgmma that takes majors the one that reads M and N contiguously as well."""
    names = {parameter.name for parameter in operation.parameters}
    found = [Form(operation)]
    if operation.warpgroup and "tnspB" in names:
        a = "MN" if "MN" in operation.majors_a else "K"
        found.append(
            Form(operation, (("tnspA", f"cute::SM90::GMMA::Major::{a}"), ("tnspB", "cute::SM90::GMMA::Major::MN")), a, "MN")
        )
    return found


def distributions(operation: Operation) -> tuple[str, ...]:
    """small_int: exact in every accumulator. uniform: the whole range. overflow: sums leave the accumulator's range."""
    overflow = ("overflow",) if operation.type_d == "s32" and operation.tensor_core else ()
    return ("small_int", "uniform", *overflow)


def chosen_target(operation: Operation, wanted: Sequence[str] = (), native: Sequence[str] = (HOPPER,)) -> str | None:
    """What to compile it for: the first of `wanted` that has the instruction, None where none has; without any the
    first of `native`, what the GPU here understands, else the operation's own."""
    if wanted:
        return next((arch for arch in wanted if operation.runs_on(arch)), None)
    return next((arch for arch in native if operation.runs_on(arch)), operation.arch)


def native_targets(capability: tuple[int, int] | None) -> tuple[str, ...]:
    """The targets of a GPU, the one with its own instructions first; Hopper's where there is no GPU."""
    if capability is None:
        return (HOPPER,)
    plain = f"sm_{capability[0]}{capability[1]}"
    return (f"{plain}a", plain) if capability >= (9, 0) else (plain,)


_STRUCTURE: dict[str, Callable[[Operation], bool]] = {
    "sparse": lambda o: o.sparse,
    "dense": lambda o: not o.sparse,
    "block-scaled": lambda o: o.block_scaled,
    "ss": lambda o: o.places["A"] == "shared memory",
    "rs": lambda o: o.warpgroup and o.a_in_registers,
}


def chosen(texts: Sequence[str]) -> list[Operation]:
    """The operations that any of `texts` means. A text is `all`, a name, a pattern of names (SM90_64x128x*), or words
    that must all hold, joined by commas: sm80, wgmma, sparse, dense, block-scaled, ss, rs, bf16, s8, ...

    Raises UsageError for a text that means none.
    """
    found: dict[str, Operation] = {}
    for text in texts:
        mine = [operation for operation in operations() if _means(text, operation)]
        if not mine:
            near = nearest(text)
            remedy = did_you_mean(near) or (
                "write a name, a pattern such as SM90_64x128x*, or words such as sm80, wgmma, sparse, bf16"
            )
            raise UsageError(f"--atoms {text}: no MMA operation matches; {remedy}")
        found |= {operation.name: operation for operation in mine}
    return list(found.values())


def _means(text: str, operation: Operation) -> bool:
    if text == "all":
        return True
    pattern = re.sub(r"\s+|\bcute::", "", text).lower()
    if fnmatch.fnmatchcase(operation.name.lower(), pattern):
        return True
    return all(_holds(word.strip().lower(), operation) for word in text.split(","))


def _holds(word: str, operation: Operation) -> bool:
    if word in _STRUCTURE:
        return _STRUCTURE[word](operation)
    return word in (
        operation.family.lower(),
        operation.kind,
        operation.type_a,
        operation.type_b,
        operation.type_d,
        operation.type_sf,
    )
