"""What a spec is wanted for: the answers of `mmagen new`, and what follows from those that were not given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from mmagen.core.errors import UsageError
from mmagen.core.instead import instead, like, like_type
from mmagen.core.targets import capability
from mmagen.families import kernels_to_begin_with
from mmagen.mma.atoms import TYPES, Atom
from mmagen.plan.budgets import OLDEST_ARCH
from mmagen.plan.devices import Device, device_for
from mmagen.spec.epilogue import OutType
from mmagen.spec.model import LAYOUTS, Problem
from mmagen.spec.values import Name

# The type of sums for types of A: the most precise one that operations of tensor cores have.
_SUMS = {"f64": "f64", "c64": "c64", "s8": "s32", "u8": "s32"}
# The type of D where it is not the type of the sums.
_NARROW = {"f16": "f16", "bf16": "bf16", "e4m3": "bf16", "e5m2": "bf16"}


@dataclass(frozen=True)
class Wanted:
    """kernel: ownership, micro or gemm. arch: the target, e.g. sm_90a. type_a, type_b, sums, out: words of types. layout: TN, NT,
    NN or TT. major: the contiguous mode of D, N or M. problems: of a gemm, () for none in particular. name: of the spec.
    operations: of the epilogue, as YAML has them, () for alpha and beta * C; keys: further ones of the spec. remark: on
    these answers, a sentence."""

    kernel: str
    arch: str
    type_a: str
    type_b: str
    sums: str
    out: str
    layout: str
    major: str
    problems: tuple[Problem, ...]
    name: str
    operations: tuple[Any, ...] = ()
    keys: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""

    @property
    def multiplied(self) -> tuple[str, str, str]:
        """Types that the operation has: of f32 in pieces those of the pieces."""
        return ("bf16", "bf16", self.sums) if "split" in self.keys else (self.type_a, self.type_b, self.sums)

    @property
    def too_old(self) -> bool:
        """Does the toolkit no longer compile for the target?"""
        return capability(self.arch) < OLDEST_ARCH

    def target_of(self, atom: Atom) -> dict[str, list[str]]:
        """The key `arch`, where it says more than the operation: {} for the operation's own target."""
        return {} if self.too_old or atom.default_arch == self.arch else {"arch": [self.arch]}

    @property
    def device(self) -> Device | None:
        """The device that times are predicted for; None if no datasheet is known."""
        return device_for((self.arch,))


def wanted(
    *,
    kernel: str = "gemm",
    arch: str = "sm_90a",
    types: str = "bf16",
    sums: str | None = None,
    out: str | None = None,
    layout: str = "TN",
    major: str = "N",
    problems: tuple[Problem, ...] = (),
    name: str | None = None,
    operations: tuple[Any, ...] = (),
    keys: Mapping[str, Any] | None = None,
    remark: str = "",
) -> Wanted:
    """The answers with what follows from them. types: of A and B, `bf16`, or `e4m3,e5m2` for two. Raises UsageError."""
    type_a, _, type_b = types.partition(",")
    type_b = type_b or type_a
    for word in (type_a, type_b, *([sums] if sums else ())):
        if word not in TYPES:
            raise UsageError(f"{word!r} is {_no_type(word)}; {_types(word, TYPES)}")
    if layout not in LAYOUTS:
        remedy = instead(like(layout, LAYOUTS), list(LAYOUTS), "there are")
        raise UsageError(f"{layout!r} is not a layout; {remedy}: A and B K contiguous are TN")
    if major not in ("N", "M"):
        raise UsageError(f"the contiguous mode of D is N or M, not {major!r}")
    if kernel not in (known := kernels_to_begin_with()):
        raise UsageError(f"{kernel!r} is not a kernel to begin with; {instead(like(kernel, known), known, 'there are')}")
    kept = sums or _SUMS.get(type_a, "f32")
    stored = out or _NARROW.get(type_a, kept)
    if stored not in get_args(OutType):
        raise UsageError(f"D cannot be of type {stored}; {_types(stored, get_args(OutType))}")
    called = name or _name(kernel, arch, type_a, type_b, layout)
    try:
        TypeAdapter(Name).validate_python(called)
    except ValidationError as error:
        raise UsageError(f"the name cannot be used: {error.errors()[0]['msg']}") from None
    return Wanted(kernel, arch, type_a, type_b, kept, stored, layout, major, problems, called, operations, keys or {}, remark)


def _name(kernel: str, arch: str, type_a: str, type_b: str, layout: str) -> str:
    """`sm90_gemm_bf16_tn`."""
    types = type_a if type_a == type_b else f"{type_a}_{type_b}"
    return f"sm{capability(arch)}_{kernel}_{types}_{layout.lower()}"


def _no_type(word: str) -> str:
    """What a word is that is none of the types of elements here."""
    from mmagen.mma.catalogue import operations

    if any(word in (one.type_a, one.type_b) for one in operations()):
        return "multiplied by some operations (mmagen atoms --type), but not a type with which a spec can begin"
    return "not an element type"


def _types(word: str, known: Iterable[str]) -> str:
    """The type that was probably meant, and all."""
    return instead(like_type(word, known), list(known), "there are")
