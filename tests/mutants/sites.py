"""The mutants of the headers under templates/runtime/mmagen, and samples of them."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutants.edits import Edit
from tests.mutants.operators import edits
from tests.mutants.syntax import nodes, parse
from tests.support.mutations import project

HEADERS = Path(__file__).resolve().parents[2] / "templates" / "runtime" / "mmagen"

# Specs that between them use every header and policy and have every decision of a config header, with kernels that are quick to
# emulate.
SPECS = (
    *("hello_ownership", "hello_micro", "micro_sliced_k", "sm90_ownership", "sm90_micro_bf16", "sm90_micro_e4m3_rs"),
    *("fma_gemm_f32", "sm70_gemm_f16", "sm75_gemm_s8", "sm80_gemm_classic", "sm80_gemm_sliced_k", "sm80_gemm_s8_nt_out8"),
    *("sm80_gemm_tf32_nt", "sm80_gemm_f16_col_d", "sm89_gemm_e4m3", "sm90_gemm_f64", "sm90_gemm_warpgroup"),
    *("sm90_gemm_bf16_nt", "sm90_gemm_bf16_pingpong", "sm90_gemm_bf16_rs", "sm90_gemm_e4m3_precise", "sm90_gemm_splitk"),
    *("rs_m_major", "c2_stream", "c3_parts", "pp3", "wg3", "22_nt", "n8", "sm90_gemm_skinny", "groups", "groups_masked"),
    *("sm80_gemm_f16_epilogue", "sm89_gemm_e4m3_amax", "sm90_gemm_bf16_swiglu", "sm90_gemm_swapped_epilogue"),
    *("sc1_blocks", "sc2_rows", "sc3_mixed", "sparse_bf16", "sparse_s8", "sparse_tf32", "mx1_s4", "mx2_u4"),
    *(
        "sm80_gemm_sparse_s8",
        "sm90_gemm_bf16_sums",
        "pc1_x6",
        "pc2_x3",
        "pc4_mma_x6",
        "pointers_pingpong",
        "pointers_swapped",
        "groups_swapped",
    ),
    *("groups_rows", "sm80_gemm_sparse_tf32", "sm90_gemm_e5m2_blocks", "sm80_gemm_s4", "sm80_gemm_u4", "sm80_gemm_c64"),
    *("few_rows", "tile_n", "clusters"),
    *("mx3_s8", "sm90_gemm_e4m3_bf16", "sm90_gemm_s8_bf16", "sm90_gemm_swapped", "pointers_rows", "sm80_micro_s4"),
)

# A library's choice of a kernel and the choice of a split decide how fast a right result comes; tests/build/test_choice_compiled.py
# and test_library_compiled.py compare them.
_OF_NO_KERNEL = {"choice.cuh", "predicted_time.cuh"}


@dataclass(frozen=True)
class Mutant:
    """An edit of a header."""

    header: str
    edit: Edit

    @property
    def name(self) -> str:
        """Stable as long as the edited line and the lines before and after it stay as they are."""
        return hashlib.sha256(repr((self.header, self._context(), self.edit.operator, self.edit.new)).encode()).hexdigest()[:10]

    @property
    def line(self) -> int:
        """The first edited line, from 1."""
        return _text(self.header)[: self.edit.begin].count(b"\n") + 1

    @property
    def old(self) -> str:
        """The text that the edit replaces."""
        return _text(self.header)[self.edit.begin : self.edit.end].decode()

    @property
    def on_device(self) -> bool:
        """Whether the edit is inside a function that the host cannot call."""
        return any(begin <= self.edit.begin and self.edit.end <= end for begin, end in _device_code(self.header))

    def apply(self) -> bytes:
        """The header with the edit."""
        text = _text(self.header)
        return text[: self.edit.begin] + self.edit.new.encode() + text[self.edit.end :]

    def _context(self) -> tuple[str, int] | tuple[str, int, int]:
        text = _text(self.header)
        lines = text.decode().splitlines()
        first = max(self.line - 2, 0)
        column = self.edit.begin - (text.rfind(b"\n", 0, self.edit.begin) + 1)
        context = "\n".join(lines[first : self.line + 1])
        # Equal lines in one header are told apart by how many come before.
        before = text[: self.edit.begin - column].count(f"{context}\n".encode())
        return (context, column, before) if before else (context, column)


@cache
def _text(header: str) -> bytes:
    return (HEADERS / header).read_bytes()


@cache
def _device_code(header: str) -> tuple[tuple[int, int], ...]:
    """Where the bodies of functions for the device alone begin and end."""
    text, found = _text(header), []
    for node in nodes(parse(text)):
        body = node.child_by_field_name("body") if node.type == "function_definition" else None
        head = b"" if body is None else text[node.start_byte : body.start_byte]
        on_device = re.search(rb"__device__|__global__|CUTE_DEVICE", head) and not re.search(rb"HOST|__host__", head)
        if body is not None and on_device:
            found.append((body.start_byte, body.end_byte))
    return tuple(found)


@cache
def mutants() -> dict[str, tuple[Mutant, ...]]:
    """Header -> its mutants, of the headers that a spec of SPECS uses."""
    headers = sorted(path.name for path in HEADERS.glob("*.cuh"))
    found = {header: mutants_of(header) for header in headers if header not in _OF_NO_KERNEL and specs_of(header)}
    return {header: of for header, of in found.items() if of}


@cache
def mutants_of(header: str) -> tuple[Mutant, ...]:
    """The mutants of one header. Two that give the same text are one."""
    unique = {Mutant(header, edit).apply(): Mutant(header, edit) for edit in edits(parse(_text(header)))}
    return tuple(mutant for text, mutant in unique.items() if text != _text(header))


@cache
def _files(spec: str) -> dict[str, bytes]:
    return project(spec, spec)


@cache
def specs_of(header: str) -> tuple[str, ...]:
    """Those of SPECS whose projects contain the header."""
    return tuple(spec for spec in SPECS if f"include/mmagen/{header}" in _files(spec))


def sample(count: int, seed: int, headers: Collection[str] = ()) -> list[Mutant]:
    """`count` mutants, or all, of these headers or of any: the headers and the operators take turns, so that none of them is left
    out. A larger count contains a smaller one of the same seed."""
    draw = random.Random(seed)
    queues: dict[str, list[Mutant]] = {}
    # Operators with few mutants in all the headers tend to come early in each, so that a small sample has them too.
    weights = {
        kind: number**0.5 for kind, number in Counter(one.edit.operator for of in mutants().values() for one in of).items()
    }
    for header, all_of in mutants().items():
        if headers and header not in headers:
            continue
        kinds: defaultdict[str, list[Mutant]] = defaultdict(list)
        for mutant in all_of:
            kinds[mutant.edit.operator].append(mutant)
        for kind in kinds.values():
            draw.shuffle(kind)
        order = sorted(kinds, key=lambda kind: draw.random() * weights[kind])
        queues[header] = [
            m for turn in range(max(map(len, kinds.values()), default=0)) for k in order for m in kinds[k][turn : turn + 1]
        ]
    # A header gets turns by the root of its number of mutants: small ones are not left out, large ones not neglected.
    turns = [
        ((position + 0.5) / max(1, round(len(queue) ** 0.5 / 3)), header, mutant)
        for header, queue in queues.items()
        for position, mutant in enumerate(queue)
    ]
    return [mutant for _, _, mutant in sorted(turns, key=lambda turn: turn[:2])][:count]
