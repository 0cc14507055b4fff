"""What a library says of itself at run time: the facts behind the sentences of its errors, and its description."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Of the C interface's structs and functions: one more with every change that programs have to be adapted to.
INTERFACE_VERSION = 2
MOST_COUNTED = 2**31 - 1 - 16384  # what kernels count in 32 bits, e.g. an extent: mmagen::kLargestExtent
_LINE = 96  # characters of a string literal


@dataclass(frozen=True)
class Facts:
    """majors: the contiguous modes of A, B and D. bytes: of an element of A, B and D and of alpha, or what their pointers must be
    aligned to. needs: which devices the kernel runs on. smem_bytes: of a CTA. shape: the sentence of a kernel that computes a
    fixed shape. group_a, kept_a: of each group_a columns of a sparse A a call has kept_a. packed_b, packed_a: elements of B and
    of A in one of its memory. most_k: the longest K, 0 for that of every kernel. description: what <name>_description() returns.
    columns_of_element: of A B^T, that an element of D is made of."""

    needs: str
    majors: tuple[str, str, str] = ("K", "K", "N")
    bytes: tuple[int, int, int, int] = (4, 4, 4, 4)
    smem_bytes: int = 0
    cluster_ctas: int = 1
    shape: str = ""
    group_a: int = 1
    kept_a: int = 1
    packed_b: int = 1
    packed_a: int = 1
    most_k: int = 0
    description: Mapping[str, Any] = field(default_factory=dict)
    columns_of_element: int = 1

    @property
    def unusual(self) -> tuple[int, ...]:
        """The last members of mmagen::Interface, as far as one differs from what most kernels have."""
        values = (self.columns_of_element, self.group_a, self.kept_a, self.packed_b, self.packed_a, self.most_k)
        differing = [i for i, usual in enumerate((1, 1, 1, 1, 1, 0)) if values[i] != usual]
        return values[: max(differing, default=-1) + 1]


def needs(arch: Sequence[str]) -> str:
    """Devices that code for these targets runs on: "sm_90a"; "sm_80 or later", since PTX is forward compatible."""
    portable = [target for target in arch if target[-1].isdigit()]
    if portable:
        return f"{min(portable, key=lambda target: int(target.removeprefix('sm_')))} or later"
    return " or ".join(arch)


def cxx_string(value: Mapping[str, Any]) -> str:
    """A JSON object as a C++ string literal, in several lines where it is long."""
    text = json.dumps(value)
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return "\n         ".join('"' + line.replace("\\", "\\\\").replace('"', '\\"') + '"' for line in lines)


def cxx_char(letter: str) -> str:
    """'K'."""
    return f"'{letter}'"
