"""Rules of the key `weights`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mmagen.families.wgmma import decisions, mixed
from mmagen.families.wgmma.breach import Breach
from mmagen.families.wgmma.changes import Change
from mmagen.mma.atoms import Atom, find_atom
from mmagen.plan.model import TiledMma
from mmagen.spec.model import Layout, Spec
from mmagen.spec.weights import CHUNK

_ACTIVATIONS = ("bf16", "f16")
_WITHOUT = {
    "scale": "the scales of weights are part of weights: omit scale",
    "grouped": "kernels with weights compute no groups: omit grouped",
    "accumulation": "the sum of each chunk is added in f32 registers anyway: omit accumulation",
}


def breaches(spec: Spec, atom: Atom, mma: TiledMma) -> Iterator[Breach]:
    """What the kernel that the spec describes, with A and B exchanged, cannot do with its weights."""
    weights = spec.weights
    if weights is None:
        return
    if atom.type_a.word not in _ACTIVATIONS or atom.type_d.word != "f32":
        yield Breach(
            ("atom",),
            f"weights are converted to bf16 or f16 and summed in f32; {atom.name} multiplies {atom.type_a.word} and sums in "
            f"{atom.type_d.word}",
            "an atom such as SM90_64x16x16_F32BF16BF16_RS",
            _atoms(atom, "F32BF16BF16_RS"),
        )
        return
    if not atom.a_in_registers:
        yield Breach(
            ("atom",),
            f"{atom.name} reads the weights from shared memory, where they are not converted",
            "an atom with A in registers",
            _atoms(atom, f"F32{atom.type_a.word.upper()}{atom.type_a.word.upper()}_RS"),
        )
    if not decisions.swapped(spec):
        yield Breach(
            ("operands",),
            "weights are B, and wgmma has A in registers",
            "swapped: the kernel computes the transpose of D with B as its A",
            [{"operands": "swapped"}],
        )
    if spec.layout.letters != "TN":
        yield Breach(("layout",), "weights and activations are K contiguous", "TN", [{"layout": Layout(a="K", b="K")}])
    if mixed.scale_type(spec).word not in (atom.type_a.word, "f32"):
        yield Breach(
            ("weights",),
            f"{mixed.scale_type(spec).word} scales of {atom.type_a.word} activations",
            f"scale: {atom.type_a.word}, or f32",
            [{"weights": weights.model_copy(update={"scale": atom.type_a.word})}],
        )
    if decisions.schedule(spec, mma) == "warpgroup":
        yield Breach(
            ("schedule",),
            "a producer loads weights and activations, and schedule warpgroup has none",
            "cooperative or pingpong",
            ({"schedule": "cooperative"}, {"schedule": "pingpong"}),
        )
    for key, remedy in _WITHOUT.items():
        if getattr(spec, key) is not None:
            yield Breach((key,), f"{key} does not go with weights", remedy, ({key: None},))


def warpgroup_breaches(spec: Spec, size: int, fewer: Iterable[Change]) -> Iterator[Breach]:
    """The number of consumer warpgroups, `size` of which share a tile; fewer: changes that make that less."""
    count, most = spec.warpgroups or size, mixed.MOST_WARPGROUPS
    if size > most:
        yield Breach(
            ("atoms_layout",),
            f"{size} atoms are {size} warpgroups; with weights there are at most {most}",
            f"1 to {most}",
            fewer,
        )
    elif count % size or count > most:
        legal = list(range(size, most + 1, size))
        yield Breach(
            ("warpgroups",),
            f"{count} warpgroups are not groups of the {size} of atoms_layout, of {most} warpgroups at most",
            f"one of {', '.join(map(str, legal))}, or omit it for {size}",
            [{"warpgroups": n} for n in sorted(legal, key=lambda n: abs(n - count))],
        )


def tile_breaches(spec: Spec, atom: Atom, mma: TiledMma, tile: decisions.Tile) -> Iterator[Breach]:
    """What depends on the tile."""
    if spec.weights and tile[2] % CHUNK:
        yield Breach(
            ("tile", 2),
            f"{tile[2]} columns are not whole chunks of {CHUNK}",
            f"a multiple of {CHUNK}",
            ({"tile": (tile[0], tile[1], k)} for k in mixed.depths(spec)),
        )
    parts = mixed.parts(spec, mma)
    if parts == 1:
        return
    a, b = (decisions.operand(letter, spec, atom, tile) for letter in "AB")
    most = decisions.most_stages(spec, mma, a, b, decisions.epilogue(spec, atom, mma, tile))
    if 2 <= most < 2 * parts:  # with fewer than two no kernel is possible, which is another rule
        yield Breach(
            ("warpgroups",),
            f"{parts} groups of warpgroups take k tiles in turn and need {2 * parts} stages, but shared memory has {most} of them",
            "fewer warpgroups, or a smaller tile",
            [{"warpgroups": n * mma.threads // mixed.WARPGROUP} for n in range(parts - 1, 0, -1)],
        )
    elif spec.stages and (spec.stages % parts or spec.stages < 2 * parts) and most >= 2 * parts:
        near = max(spec.stages // parts, 2) * parts
        yield Breach(
            ("stages",),
            f"{parts} groups of warpgroups take k tiles in turn, each into stages of its own, and keep one until the next is full",
            f"a multiple of {parts}, from {2 * parts} on",
            [{"stages": near}],
        )


def _atoms(atom: Atom, types: str) -> Iterator[dict[str, str]]:
    """The atom of the same N with those types, if there is one."""
    name = f"SM90_64x{atom.n}x16_{types}"
    if find_atom(name):
        yield {"atom": name}
