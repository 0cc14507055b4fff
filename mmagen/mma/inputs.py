"""Input matrices for one operation, in distributions that expose different errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mmagen.mma import formats
from mmagen.mma.forms import METADATA, STEPS
from mmagen.mma.operation import Operation

_RANGE = 4  # of small integers: the largest that every type has, with all smaller ones
_PAIRS = [(i, j) for i in range(4) for j in range(i + 1, 4)]
_CHOICES: dict[str, Sequence[tuple[int, ...]]] = {
    "2:4": _PAIRS,
    "1:2": [(0,), (1,)],
    "4:8": [(2 * i, 2 * i + 1, 2 * j, 2 * j + 1) for i, j in _PAIRS],
}
# What metadata says of one nonzero of two (PTX ISA, sparse tf32).
_ONE_OF_TWO = (0b0100, 0b1110)


Codes = npt.NDArray[np.uint64]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Matrices:
    """Inputs as codes [instance, row, column, part], one of each step: a (stored elements only), b, e, sfa, sfb; c once.

    values_a, values_b: [step] of [instance, row, column, part] float64, zeros of a sparse A and scale factors included.
    """

    a: list[Codes]
    b: list[Codes]
    c: Codes
    values_a: list[Values]
    values_b: list[Values]
    values_c: Values
    e: list[Codes] = field(default_factory=list)
    sfa: list[Codes] = field(default_factory=list)
    sfb: list[Codes] = field(default_factory=list)


def draw(operation: Operation, distribution: str, rng: np.random.Generator, instances: int, steps: int = STEPS) -> Matrices:
    """Random inputs. small_int: integers up to 4, so that every sum is exact. uniform: floats in [-1, 1], integers of
    every size. overflow: products of one sign upon a C near the end of s32's range."""
    m, n, k = operation.shape
    kept = k // 2 if operation.sparse else k
    made: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in ("a", "b", "va", "vb", "e", "sfa", "sfb")}
    # In `overflow` sign_b says of each column of D at which end it is; rows of A are positive, or signed where B cannot be.
    overflow = distribution == "overflow"
    sign_a, sign_b = _signs(operation, rng, instances) if overflow else (np.ones(1), np.ones(1))
    for _ in range(steps):
        a = _encoded(operation.type_a, (instances, m, kept), distribution, rng, sign_a)
        b = _encoded(operation.type_b, (instances, n, k), distribution, rng, sign_b)
        value_a, value_b = formats.decode(a, operation.type_a), formats.decode(b, operation.type_b)
        if operation.sparse:
            value_a, metadata = _scattered(operation, value_a, k, rng)
            made["e"].append(metadata)
        if operation.block_scaled:
            type_sf, vector = operation.scales
            for key, rows in (("sfa", m), ("sfb", n)):
                made[key].append(_scales(type_sf, (instances, rows, k // vector, 1), distribution, rng))
            value_a = value_a * np.repeat(formats.decode(made["sfa"][-1], type_sf), vector, axis=2)
            value_b = value_b * np.repeat(formats.decode(made["sfb"][-1], type_sf), vector, axis=2)
        for key, item in (("a", a), ("b", b), ("va", value_a), ("vb", value_b)):
            made[key].append(item)
    c = _accumulators(operation, (instances, m, n), distribution, rng, sign_a, sign_b, steps)
    return Matrices(
        made["a"],
        made["b"],
        c,
        made["va"],
        made["vb"],
        formats.decode(c, operation.type_d),
        made["e"],
        made["sfa"],
        made["sfb"],
    )


def _signs(operation: Operation, rng: np.random.Generator, instances: int) -> tuple[Values, Values]:
    """Signs of A's rows and B's columns, so that all products of one element of D have the same one."""
    m, n, _ = operation.shape

    def choose(size: int, signed: bool) -> Values:
        shape = (instances, size, 1, 1)
        return rng.choice([-1.0, 1.0], shape) if signed else np.ones(shape)

    signed_b = operation.type_b[0] == "s"
    return choose(m, operation.type_a[0] == "s" and not signed_b), choose(n, signed_b)


def _encoded(word: str, shape: tuple[int, int, int], distribution: str, rng: np.random.Generator, sign: Values) -> Codes:
    full = (*shape, formats.PARTS.get(word, 1))
    if word == "u1":
        return rng.integers(0, 2, full).astype(np.uint64)
    if distribution == "overflow":
        low, high = formats.limits(word)
        return formats.encode(sign * rng.integers(max(1, int(high // 2)), int(high), full, endpoint=True), word)
    if distribution == "small_int":
        signed = word[0] != "u"
        numbers = rng.integers(1, _RANGE, full, endpoint=True) * (rng.choice([-1, 1], full) if signed else 1)
        return formats.encode(numbers.astype(np.float64), word)
    if formats.is_integer(word):
        low, high = formats.limits(word)
        return formats.encode(rng.integers(int(low), int(high), full, endpoint=True).astype(np.float64), word)
    # Formats of few bits have few values within [-1, 1].
    reach = 2.0 if formats.bits(word) < 8 else 1.0
    return formats.encode(rng.uniform(-reach, reach, full), word)


def _accumulators(
    operation: Operation,
    shape: tuple[int, int, int],
    distribution: str,
    rng: np.random.Generator,
    sign_a: Values,
    sign_b: Values,
    steps: int,
) -> Codes:
    word = operation.type_d
    full = (*shape, formats.PARTS.get(word, 1))
    if distribution == "overflow":
        low, high = formats.limits(word)
        # About half of the sums leave the range: C is as far from its end as a typical sum is long.
        typical = _typical_sum(operation, steps)
        room = rng.integers(0, 2 * typical, full, endpoint=True)
        up = (sign_a * np.swapaxes(sign_b, 1, 2)) > 0
        return formats.encode(np.where(up, high - room, low + room), word)
    if distribution == "small_int":
        return formats.encode(
            (rng.integers(1, 2 * _RANGE, full, endpoint=True) * rng.choice([-1, 1], full)).astype(np.float64), word
        )
    if formats.is_integer(word):
        return formats.encode(rng.integers(-(1 << 20), 1 << 20, full).astype(np.float64), word)
    return formats.encode(rng.uniform(-1, 1, full), word)


def _typical_sum(operation: Operation, steps: int) -> int:
    kept = operation.k // (2 if operation.sparse else 1)
    if operation.type_a == "u1":
        return steps * kept // (2 if "XOR" in operation.name else 4)  # bits that differ, or that are both set
    mean = [0.75 * formats.limits(word)[1] for word in (operation.type_a, operation.type_b)]
    return int(steps * kept * mean[0] * mean[1])


def _scattered(operation: Operation, stored: Values, k: int, rng: np.random.Generator) -> tuple[Values, Codes]:
    """(A with its zeros, metadata bytes [instance, row, byte, 1]) for randomly chosen places of the nonzeros."""
    assert operation.sparsity
    chunk, group = METADATA[operation.sparsity]
    options = np.array(_CHOICES[operation.sparsity])
    instances, rows, _, parts = stored.shape
    picked = rng.integers(0, len(options), (instances, rows, k // group))
    places = options[picked]  # [instance, row, group, nonzero]
    full = np.zeros((instances, rows, k // group, group, parts))
    values = stored.reshape(instances, rows, k // group, group // 2, parts)
    np.put_along_axis(full, np.broadcast_to(places[..., None], values.shape), values, axis=3)
    if operation.sparsity == "1:2":
        nibbles = np.array(_ONE_OF_TWO)[picked]
    else:
        pairs = places[..., ::2] // 2 if operation.sparsity == "4:8" else places
        nibbles = pairs[..., 0] | pairs[..., 1] << 2
    halves = nibbles.reshape(instances, rows, k // chunk, 2)
    metadata = (halves[..., 0] | halves[..., 1] << 4).astype(np.uint64)[..., None]
    return full.reshape(instances, rows, k, parts), metadata


def _scales(type_sf: str, shape: tuple[int, ...], distribution: str, rng: np.random.Generator) -> Codes:
    """Scale factors; powers of two where sums must stay exact."""
    if distribution == "uniform" and type_sf == "ue4m3":
        return formats.encode(rng.uniform(0.25, 4.0, shape), "ue4m3")
    return formats.encode(np.exp2(rng.integers(-1, 2, shape, endpoint=True).astype(np.float64)), type_sf)
