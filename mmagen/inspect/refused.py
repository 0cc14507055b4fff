"""A refused spec, shown as far as it can be: its keys with the rules that they break, and what follows from those that hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mmagen.core.errors import Diagnostic, MmagenError, SpecFaults
from mmagen.core.screen import table
from mmagen.mma import catalogue
from mmagen.mma.atoms import Atom, find_atom
from mmagen.plan import budgets, pages, rules, tiling
from mmagen.plan.maps import Map, of_tile
from mmagen.plan.model import TiledMma
from mmagen.spec.load import UnreadableSpec, load
from mmagen.spec.model import Spec
from mmagen.spec.yaml_text import Document, decode

MARK = "<-- REFUSED:"
_MOST_ELEMENTS = 2**18  # of a matrix whose map is made: more than any CTA holds


@dataclass(frozen=True)
class Refused:
    """A spec that no project can be built from. written: its keys as in the file; spec: with the keys that hold, None if too few
    do; atom, mma, tile: as far as they can be derived."""

    file: str
    diagnostics: tuple[Diagnostic, ...]
    written: tuple[tuple[str, object], ...]
    spec: Spec | None
    atom: Atom | None
    mma: TiledMma | None

    @property
    def name(self) -> str:
        """The spec's name, or the file's."""
        return str(dict(self.written).get("name", self.file))


def examine(data: bytes, file: str, diagnostics: Iterable[Diagnostic]) -> Refused:
    """What can be said about the spec in `data`."""
    mine = tuple(one for one in diagnostics if one.file == file)
    spec = _spec(data, file)
    atom = _atom(spec)
    # The rules of the TiledMMA decide whether its values mean anything.
    mma = tiling.tiled_mma(spec, atom) if spec and atom and not any(tiling.faults(spec, atom)) else None
    return Refused(file, mine, tuple(_written(data, file)), spec, atom, mma)


def _spec(data: bytes, file: str) -> Spec | None:
    try:
        return load(data, file).spec
    except UnreadableSpec as error:
        return error.rest
    except MmagenError:
        return None


def _atom(spec: Spec | None) -> Atom | None:
    try:
        found = find_atom(spec.atom) if spec else None
    except SpecFaults:
        return None
    return found.in_layout(spec.layout.letters) if found and spec else None


def _written(data: bytes, file: str) -> Iterable[tuple[str, object]]:
    try:
        document = Document(file)
        document.read(decode(data, file))
    except MmagenError:
        return ()
    return tuple(document.value.items()) if isinstance(document.value, dict) else ()


def text(it: Refused, columns: int | None = None) -> str:
    """The page: what is written, what is refused, and what follows."""
    parts = [f"{it.name}: refused, {pages.count(len(it.diagnostics), 'rule')} broken"]
    for title, rows in sections(it):
        parts.append(f"{title}\n{table((), rows, columns, indent='  ')}")
    return "\n\n".join(parts) + "\n"


def sections(it: Refused) -> list[pages.Section]:
    """The spec with its faults, the TiledMMA and the budgets."""
    return [section for section in (("Spec", _keys(it)), ("TiledMMA", _tiled(it)), ("Budgets", _budgets(it))) if section[1]]


def to_json(it: Refused) -> str:
    """The same as a line of JSON."""
    faults = [
        {"line": one.line, "column": one.column, "key": list(one.key), "what": one.what, "remedy": one.remedy}
        for one in it.diagnostics
    ]
    rows = [{"title": title, "rows": rows} for title, rows in sections(it)]
    return json.dumps({"name": it.name, "refused": faults, "sections": rows})


def _keys(it: Refused) -> list[pages.Row]:
    """A line for each key, and below it those of the rules that it breaks; last the faults of no key that is there."""
    rows: list[pages.Row] = []
    told: set[int] = set()
    for key, value in it.written:
        rows.append((key, json.dumps(value, default=str)))
        for number, one in enumerate(it.diagnostics):
            if one.key and str(one.key[0]) == key:
                rows.append(("", _marked(one)))
                told.add(number)
    rows += [(_path(one), _marked(one)) for number, one in enumerate(it.diagnostics) if number not in told]
    return rows


def _marked(one: Diagnostic) -> str:
    remedy = "; ".join(line.strip() for line in one.remedy.splitlines())  # a cell is folded anew
    return f"{MARK} {_path(one)}: {one.what}; {remedy}"


def _path(one: Diagnostic) -> str:
    first, *rest = one.key or ("the file",)
    return str(first) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest)


def _tiled(it: Refused) -> list[pages.Row]:
    atom, mma = it.atom, it.mma
    if not atom:
        return []
    rows: list[pages.Row] = [
        ("atom", f"{atom.name}, {pages.extents((atom.m, atom.n, atom.k))}, {pages.count(atom.threads, 'thread')}")
    ]
    if mma:
        rows += [
            ("atoms_layout", f"{mma.atoms_layout}: {pages.extents(mma.atoms)} atoms, {mma.threads} threads"),
            ("TiledMMA covers", pages.extents(mma.extent)),
        ]
        if it.spec and it.spec.tile:
            parts = " x ".join(f"{t / e:.4g}" for t, e in zip(it.spec.tile, mma.extent, strict=True))
            rows.append(("CTA tile", f"{pages.extents(it.spec.tile)} = {parts} of the TiledMMA"))
    return rows


def _budgets(it: Refused) -> list[pages.Row]:
    """Bytes and registers of the tile beside what a CTA has."""
    if not (it.spec and it.atom and it.mma):
        return []
    m, n, k = it.spec.tile or it.mma.extent
    a, b = m * k * it.atom.type_a.bits // 8, n * k * it.atom.type_b.bits // 8
    rows: list[pages.Row] = [("one stage", f"{a + b:,} B: A {a:,} + B {b:,}")]
    if it.spec.stages:
        rows.append(("stages", f"{it.spec.stages}, {it.spec.stages * (a + b):,} B"))
    if not any(rules.arch_faults(it.spec, it.atom)):
        limit = budgets.smem_limit(rules.compiled_for(it.spec, it.atom))
        rows.append(("shared memory", f"{limit:,} B per CTA at most"))
    sums = m * n * it.atom.type_d.bits // 32 // (it.mma.threads // it.mma.atoms[2])
    rows.append(("accumulators", f"{sums:,} registers per thread, of {budgets.REGISTERS_PER_THREAD} at most"))
    return rows


def maps(it: Refused) -> Sequence[Map]:
    """Who owns what of the matrices in registers, if atom and TiledMMA are those of a kernel: of the CTA tile, or of the TiledMMA
    where no kernel can have the tile."""
    if not (it.spec and it.atom and it.mma):
        return []
    operation = catalogue.known(it.atom.name)
    in_registers = "".join(one for one in "ABC" if operation is None or operation.places[one] == "registers")
    tile, why = it.spec.tile or it.mma.extent, ""
    if any(t % e for t, e in zip(tile, it.mma.extent, strict=True)):
        why = f", of which the CTA tile {pages.extents(tile)} is no multiple"
    elif _too_large(tile):
        why = f"; the CTA tile {pages.extents(tile)} is too large to draw"
    if why:
        tile = it.mma.extent
    if _too_large(tile):
        return []
    from mmagen.mma.ownership import ownership  # imports the layout algebra, which is slow

    *others, last = of_tile(
        it.atom, it.mma, tile, ownership(it.atom, it.mma.atoms_layout, it.mma.permutation, tile, in_registers)
    )
    return [*others, replace(last, title=f"TiledMMA {pages.extents(tile)}{why}") if why else last]


def _too_large(tile: tuple[int, int, int]) -> bool:
    m, n, k = tile
    return max(m * n, m * k, n * k) > _MOST_ELEMENTS
