"""A suggested spec as YAML, with the reason for each choice."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from mmagen.core.targets import capability
from mmagen.plan.budgets import OLDEST_ARCH
from mmagen.suggest.rank import EQUAL, Candidate, Ranking, differs, document
from mmagen.suggest.wanted import Wanted

_WIDTH = 116  # of a line with its comment, where that fits
_SHOWN = 5  # candidates that a comment lists
EQUAL_FIRST = f"within {EQUAL - 1:.0%} of the least, the fewest keys come first"
_FIXED = {
    "mmagen": "version of the spec format",
    "name": "C identifier: project, CMake target, C++ namespace, header",
    "layout": "A is (M,K), B is (N,K); {majors}",
    "epilogue": "D = alpha * A * B + beta * C, stored as {out}, {major} contiguous",
    "problems": "for verify: M, N, K or M, N, K, batch",
    "permutation": "widens the TiledMMA to two atoms along N, so that one load of fragments serves both",
    "arch": "the operation is older; this compiles it only for {arch}",
    "cache": "one operand is small and read again by all CTAs, the other is read once",
    "scale": "factors that many elements share: f32 in device memory, arguments of a call",
    "split": "A and B are f32 in memory; the kernel multiplies bf16 pieces of them",
    "prefetch": "stages prefetched into L2 while the previous kernel of the stream still runs",
}
_KERNELS = {
    "ownership": "shows which thread owns which element",
    "micro": "one CTA, one tile: copy, load fragments, mma, store",
    "gemm": "any M, N, K, leading dimensions and batch",
}
# What a key costs or requires beyond time.
_NOTES = {
    "stream_k": "; needs a workspace",
    "split_k": "; parts of K are summed in a fixed order",
    "operands": "; the kernel computes the transpose of D",
}


def one_tile(want: Wanted, ranking: Ranking) -> str:
    """The YAML of a spec that has no choice of tile to rank."""
    comments = {"atom": about(ranking), "tile": "of the only CTA", "atoms_layout": "atoms side by side along M, N, K"}
    head = [
        f"{want.kernel} kernel for {want.arch}",
        f"mmagen inspect --ownership {want.name}.yaml shows which thread owns which element.",
    ]
    return _text(head, document(want, ranking.candidates[0].keys), comments, want)


def ranked(want: Wanted, ranking: Ranking) -> str:
    """The YAML of the first candidate."""
    best, others = ranking.candidates[0], ranking.candidates[1:]
    sizes = ", ".join(problem.text for problem in ranking.problems)
    given = sizes if want.problems else f"{sizes}, as no problem was given"
    head = [
        f"{want.type_a} x {want.type_b} + {want.sums} -> {want.out}, {want.layout}, for {want.arch}",
        f"Chosen among {len(ranking.candidates):,} candidates by predicted time on {ranking.device.title}, for {given}; "
        f"{EQUAL_FIRST}. "
        f"{_stands_in(want, ranking)}The coefficients are estimates, which serve to compare; mmagen tune measures.",
        *(f"{name} was passed over: {reason}." for name, reason in ranking.passed_over),
        *_instead(want),
        *_listed(ranking.candidates),
    ]
    comments = {"atom": about(ranking)} | {key: _reason(best, others, key) for key in best.keys if key not in ("atom", *_FIXED)}
    return _text(head, document(want, best.keys), comments, want)


def _instead(want: Wanted) -> Iterator[str]:
    """Why the types are not those of what was asked, and what is faster than scalar FMA and not the same."""
    if want.remark:
        yield f"{want.remark[0].upper()}{want.remark[1:]}."
    if (want.type_a, want.type_b) == ("f32", "f32") and "split" not in want.keys and capability(want.arch) >= 80:
        pieces = (
            "; of bf16 pieces (split: bf16x6) about as exact and several times as fast" if capability(want.arch) == 90 else ""
        )
        yield f"Tensor cores have no f32. tf32 (--type tf32) is the same in memory, and multiplies 11 bits{pieces}."


def _stands_in(want: Wanted, ranking: Ranking) -> str:
    if ranking.device.capability == capability(want.arch):
        return ""
    return f"It stands in for {want.arch}, of which mmagen has no datasheet. "


def about(ranking: Ranking) -> str:
    """The operation, in words."""
    scope = {1: "thread", 8: "quad pair", 32: "warp", 128: "warpgroup"}[ranking.atom.threads]
    atom = ranking.candidates[0].plan.atom
    return f"the {atom.kind} of these types; a {scope} multiplies {atom.m} x {atom.n} x {atom.k}"


def rows(ranking: Ranking, most: int = _SHOWN) -> list[tuple[str, ...]]:
    """Predicted microseconds, and the keys, of the first candidates."""
    return [(f"{one.us:,.1f}", text) for one, text in _shown(ranking.candidates[:most])]


def _listed(candidates: Sequence[Candidate]) -> Iterator[str]:
    for place, (one, text) in enumerate(_shown(candidates[:_SHOWN]), 1):
        yield f"{place}. {one.us:,.1f} us: {text}"


def _shown(candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, str]]:
    """With their keys; the permutation where without it two would look alike."""
    brief = [_keys(one, ("permutation", "arch")) for one in candidates]
    for one, text in zip(candidates, brief, strict=True):
        yield one, text if brief.count(text) == 1 else _keys(one, ("arch",))


def _keys(one: Candidate, without: Sequence[str]) -> str:
    return "; ".join(f"{key} {_flow(value)}" for key, value in one.keys.items() if key not in without)


def _reason(best: Candidate, others: Sequence[Candidate], key: str) -> str:
    """Why this value: by how much the best candidate with another one is slower."""
    other = differs(best, others, key)
    note = _NOTES.get(key, "")
    if other is None:
        return f"all candidates have it{note}"
    value = _flow(other.keys[key]) if key in other.keys else "none"
    slower = other.us / best.us - 1
    if slower >= 0.005:
        return f"the best with {value} is predicted {slower:.0%} slower{note}"
    if slower <= -0.005:
        return f"{value} is predicted {-slower:.0%} faster, which is less than the prediction's error{note}"
    return f"{value} is predicted to take as long{note}"


def _text(head: Sequence[str], keys: Mapping[str, Any], comments: Mapping[str, str], want: Wanted) -> str:
    if want.too_old:
        head = [*head, f"Compiled for sm_{OLDEST_ARCH}: nvcc 13 has no {want.arch}. With CUDA 12 add arch: [{want.arch}]."]
    if want.operations:
        comments = {**comments, "epilogue": f"in this order, of the f32 sums; D is {want.out}" if want.sums == "f32" else ""}
    facts = {"majors": _majors(want.layout), "out": want.out, "major": want.major, "arch": want.arch}
    fixed = {key: text.format(**facts) for key, text in _FIXED.items()}
    comments = {"kernel": _KERNELS.get(want.kernel, ""), **comments}
    lines = [f"# {line}" for text in head for line in textwrap.wrap(text, _WIDTH - 2, subsequent_indent="   ")]
    for key, value in keys.items():
        written = f"{key}: {_flow(value)}"
        comment = comments.get(key) or fixed.get(key, "")
        # A long value has its comment above it.
        lines += [f"{written:<44}  # {comment}"] if len(written) + len(comment) <= _WIDTH + 8 else [f"# {comment}", written]
    return "\n".join(lines) + "\n"


def _majors(layout: str) -> str:
    a, b = ("K" if layout[0] == "T" else "M"), ("K" if layout[1] == "N" else "N")
    return f"A is {a} contiguous, B is {b} contiguous"


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")
