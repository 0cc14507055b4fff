"""Rules of the key `split`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mmagen.families.wgmma.breach import Breach
from mmagen.mma.atoms import Atom, find_atom
from mmagen.spec.model import Spec

_WITHOUT = {
    "scale": "pieces have no scales: omit scale",
    "weights": "weights are converted to one piece: omit weights",
    "grouped": "groups are not split into pieces: omit grouped",
}


def breaches(spec: Spec, atom: Atom) -> Iterator[Breach]:
    """What a kernel cannot do with pieces."""
    if spec.split is None:
        return
    if atom.type_a.word != "bf16" or atom.type_d.word != "f32" or atom.a_in_registers:
        name = f"SM90_64x{atom.n}x16_F32BF16BF16_SS"
        tries: list[dict[str, Any]] = [{"atom": name}] if find_atom(name) else []
        where = " with A in registers" if atom.a_in_registers else ""
        yield Breach(
            ("atom",),
            f"pieces of f32 are bf16 in shared memory, summed in f32; {atom.name} multiplies {atom.type_a.word}{where} and sums in "
            f"{atom.type_d.word}",
            "an atom such as SM90_64x128x16_F32BF16BF16_SS, or omit split",
            [*tries, {"split": None}],
        )
        return
    for key, remedy in _WITHOUT.items():
        if getattr(spec, key) is not None:
            yield Breach((key,), f"{key} does not go with split", remedy, ({key: None},))
    if spec.accumulation == "fast" and spec.split == "bf16x6":
        yield Breach(
            ("accumulation",),
            "the tensor core rounds toward zero after every 16 products, which over all of K loses more than the three smallest "
            "products of bf16x6 add",
            "precise, or split: bf16x3",
            ({"accumulation": None}, {"split": "bf16x3"}),
        )
