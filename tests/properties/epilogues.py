"""Epilogues of operations: lists that are mostly legal, of every operation, option and order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from mmagen.mma.atoms import Atom
from mmagen.plan.rules import OUT_TYPES
from mmagen.spec.epilogue import GATHERS

Document = dict[str, Any]

_INTEGERS = ("s32", "s8", "u8")
_GATES = ("relu", "gelu", "gelu_tanh", "silu", "sigmoid")
_BOUNDS = ([0, 6], [-1, 1], [None, 100], [-8, None], [0.25, 0.5], [-3.5, 1e30], [2, 2])
_NAMES = ("residual", "gate", "shift", "extra", "x1", "bias2", "d_old")
# What each kind of scalar has; of integers, what needs no fractions.
_PLAIN = ("alpha", "beta_c", "relu", "clamp", "bias", "bias", "add", "multiply", "row_sums", "column_sums")
_OF_FLOATS = (*_PLAIN, "gelu", "silu", "sigmoid", "amax")
_BEHIND_GATE = ("relu", "clamp", "silu", "sigmoid", "gelu")
_LEGAL = 0.9  # of the lists: only what the scalars have, and what goes with gated pairs


def operations(dice: random.Random, atom: Atom) -> list[Any]:
    """A list for an atom's accumulators."""
    legal = dice.random() < _LEGAL
    out = dice.choice((*OUT_TYPES[atom.type_d.word], None))
    integers = atom.type_d.word == "s32" and (out or "s32") in _INTEGERS
    words = _PLAIN if integers and legal else _OF_FLOATS
    gated = dice.random() < 0.15 and not (integers and legal)
    if gated and legal:
        words = tuple(word for word in words if word != "beta_c")
    listed = [dice.choice(words) for _ in range(dice.choice((1, 2, 2, 3, 3, 4, 5)))]
    listed = [word for i, word in enumerate(listed) if word not in ("alpha", "beta_c") or word not in listed[:i]]
    if gated:
        behind = _BEHIND_GATE if legal else words
        listed += ["gated", *(dice.choice(behind) for _ in range(dice.choice((0, 0, 1, 2))))]
    names = dice.sample(_NAMES, len(_NAMES))
    entries = [_entry(dice, word, names, atom, integers) for word in listed]
    return entries + _cast(dice, out, gated and legal)


def _entry(dice: random.Random, word: str, names: list[str], atom: Atom, integers: bool) -> Any:
    """One operation. names: those that are free, of which it takes one."""
    makers: dict[str, Callable[[], Any]] = {
        "clamp": lambda: {"clamp": list(dice.choice(_BOUNDS[:4] if integers else _BOUNDS))},
        "gelu": lambda: dice.choice(("gelu", {"gelu": "erf"}, {"gelu": "tanh"})),
        "gated": lambda: {"gated": dice.choice(_GATES)},
        **dict.fromkeys(GATHERS, lambda: word if dice.random() < 0.1 else {word: names.pop()}),
        "bias": lambda: {"bias": dice.choice(("row", "column")), "name": names.pop()} | _type(dice, atom, integers),
        "add": lambda: {"add": names.pop()} | _type(dice, atom, integers),
        "multiply": lambda: {"multiply": names.pop()} | _type(dice, atom, integers),
    }
    return makers[word]() if word in makers else word


def _type(dice: random.Random, atom: Atom, integers: bool) -> Document:
    if dice.random() < 0.5:
        return {}
    f64 = atom.type_d.word == "f64" or dice.random() < 0.05
    of_floats = ("f32", "f32", "f16", "bf16", "e4m3", "e5m2", "s8", "u8", "s32", *(("f64",) * 4 if f64 else ()))
    return {"type": dice.choice(_INTEGERS if integers else of_floats)}


def _cast(dice: random.Random, out: str | None, n_major: bool) -> list[Document]:
    if out is None:
        return []
    cast: Document = {"cast": out}
    if dice.random() < 0.4:
        cast["major"] = "N" if n_major else dice.choice("NM")
    if dice.random() < 0.25:
        cast["overflow"] = dice.choice(("saturate", "saturate", "infinity") if out in ("f16", "bf16", "f32") else ("saturate",))
    return [cast]


def with_scalars(dice: random.Random, document: Document) -> Document:
    """The document whose problems have, mostly, no alpha, beta or odd N that its epilogue does not."""
    listed = document.get("epilogue")
    if not isinstance(listed, list) or "problems" not in document or dice.random() > _LEGAL:
        return document
    unused = {key for word, key in (("alpha", "alpha"), ("beta_c", "beta")) if word not in listed}
    even = any(isinstance(one, dict) and "gated" in one for one in listed)
    return document | {"problems": [_fitted(problem, unused, even) for problem in document["problems"]]}


def _fitted(problem: Any, unused: set[str], even: bool) -> Any:
    if isinstance(problem, list):
        return [problem[0], problem[1] + problem[1] % 2, *problem[2:]] if even else problem
    m, n, k = problem["shape"]
    kept = {key: value for key, value in problem.items() if key not in unused}
    return kept | ({"shape": [m, n + n % 2, k]} if even else {})
