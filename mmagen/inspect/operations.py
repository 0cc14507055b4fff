"""An operation as a line of a table, as a page with all facts and ownership, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise

from mmagen.core.screen import fold
from mmagen.core.screen import table as laid_out
from mmagen.mma.operation import OPERANDS, Operation, ThreadValueLayout, flat

HEADERS = ("operation", "shape", "D = A x B", "from", "target", "scales", "note")
_AXES = {"A": "(m,k)", "B": "(n,k)", "C": "(m,n)", "E": "(m,k)", "SFA": "(m,k)", "SFB": "(n,k)"}
_MEANINGS = {"C": "C and D", "E": "metadata E", "SFA": "scales of A", "SFB": "scales of B"}
_LETTERS = {"registers": "R", "shared memory": "S", "tensor memory": "T"}
# A page shows this many values of an operand.
_VALUES, _FEW_VALUES = 8, 4


def table(found: Sequence[Operation], columns: int | None = None) -> str:
    """One line for each operation, and how many there are."""
    rows = [_row(operation) for operation in found]
    kept = [i for i in range(len(HEADERS)) if any(row[i] for row in rows)]
    lines = laid_out([HEADERS[i] for i in kept], [[row[i] for i in kept] for row in rows], columns)
    return f"{lines}\n\n{len(found)} operation{'s' * (len(found) != 1)}"


def _row(operation: Operation) -> tuple[str, ...]:
    notes = [
        f"sparse {operation.sparsity}" if operation.sparsity else "",
        "saturates" if operation.saturate else "",
        "known bad" if operation.known_bad else "",
    ]
    scales = f"{operation.type_sf}/{operation.vector}" if operation.block_scaled else ""
    return (
        operation.name,
        "x".join(map(str, operation.shape)),
        f"{operation.type_d} = {operation.type_a} x {operation.type_b}",
        "".join(_LETTERS[operation.places[operand]] for operand in "AB"),
        operation.arch,
        scales,
        ", ".join(filter(None, notes)),
    )


def page(operation: Operation, full: bool = False, columns: int | None = None) -> str:
    """Everything about one operation: facts, layouts, and the ownership of what lies in registers."""
    within = None if columns is None else columns - 2
    facts = laid_out((), _facts(operation), within)
    parts = [facts, _layouts(operation, within), _variants(operation, full, within), _ownership(operation, full, within)]
    return "\n\n".join([fold(operation.name, columns), *(_indented(text) for text in parts if text)])


def _facts(operation: Operation) -> list[tuple[str, str]]:
    m, n, k = operation.shape
    what = f"{operation.kind}, M {m}, N {n}, K {k}: {operation.type_d} = {operation.type_a} x {operation.type_b}"
    what += f" + {operation.type_c}" + ", saturating" * operation.saturate
    if operation.sparse:
        what += f"; A sparse, {operation.sparsity}"
    if operation.block_scaled:
        what += f"; a {operation.type_sf} scale for each {operation.vector} elements along K"
    threads = f"{operation.threads} ({operation.thr_id})" if not operation.tensor_memory else f"{operation.threads} CTA"
    facts = [
        ("what", what),
        *(("ptx", opcode) for opcode in operation.opcodes),
        ("targets", ", ".join(operation.targets) or f"{operation.arch} and later"),
        ("c++", operation.cxx() if operation.of_cutlass else "a struct of the project: CUTLASS has none; kernel: gemm"),
        ("traits", operation.traits() if operation.traits_take_parameters else ""),
        ("header", operation.header),
        ("threads", threads + "s" * (operation.tensor_memory and operation.threads > 1)),
        ("majors", f"A {' or '.join(operation.majors_a)}, B {' or '.join(operation.majors_b)}"),
        ("registers", ", ".join(f"{operand} {held.type}[{held.count}]" for operand, held in operation.registers.items())),
        ("values", ", ".join(f"{operand} {cxx}" for operand, cxx in operation.value_types.items())),
        *(
            ("parameter", f"{p.type} {p.name}: {_legal(p.values)}" + f"; {_short(p.values[0])} unless given" * p.default)
            for p in operation.parameters
        ),
        *(("requires", condition) for condition in operation.requires),
        *(("KNOWN BAD", f"{flaw.operand}: {flaw.what}" if flaw.operand else flaw.what) for flaw in operation.flaws),
    ]
    return [fact for fact in facts if fact[1]]


def _legal(values: Sequence[str]) -> str:
    """Values as they may be given to Operation.cxx; a long run of numbers by its ends."""
    if len(values) > 8 and all(value.isdecimal() for value in values):
        numbers = sorted(map(int, values))
        steps = {after - before for before, after in pairwise(numbers)}
        if len(steps) == 1:
            return f"{numbers[0]} to {numbers[-1]} in steps of {steps.pop()}"
    return ", ".join(map(_short, values))


def _short(value: str) -> str:
    return value.rpartition("::")[2]


def _layouts(operation: Operation, columns: int | None) -> str:
    rows = []
    for operand in operation.places:
        name, place = _MEANINGS.get(operand, operand), operation.places[operand]
        if operand not in operation.layouts:
            rows.append((name, place, "", "no thread-value layout: see CuTe's fragment", ""))
            continue
        for layout, note in _layouts_to_show(operation, operand):
            rows.append((name, place, _AXES[operand], layout.text, note or _owned(layout)))
    return laid_out(("operand", "lies in", "maps to", "(thread, value) layout", "each element"), rows, columns)


def _layouts_to_show(operation: Operation, operand: str) -> list[tuple[ThreadValueLayout, str]]:
    """The correct layout, and the header's if it differs."""
    right, upstream = operation.layout(operand), operation.layouts[operand]
    return [(right, "")] if right is upstream else [(right, ""), (upstream, "as CUTLASS has it: wrong")]


def _owned(layout: ThreadValueLayout) -> str:
    return "once" if layout.owners == 1 else f"{layout.owners} times"


def _variants(operation: Operation, full: bool, columns: int | None) -> str:
    """Other instantiations, for templates over types and tiles."""
    if not operation.variants:
        return ""
    shown = operation.variants if full else operation.variants[:6]
    rows = [
        (
            "x".join(map(str, (v.m, v.n, v.k))),
            f"{v.type_d} = {v.type_a} x {v.type_b}",
            v.type_sf or "",
            ", ".join(f"{name}={_short(value)}" for name, value in v.arguments.items()),
        )
        for v in shown
    ]
    if len(shown) < len(operation.variants):
        rows.append(("...", f"{len(operation.variants)} in all", "", "--full shows them"))
    return laid_out(("variant", "D = A x B", "scales", "given"), rows, columns)


def _ownership(operation: Operation, full: bool, columns: int | None) -> str:
    """Thread by value: the element, for the operands that lie in registers; metadata and scales in a table of their own."""
    owned = [operand for operand in OPERANDS if operation.places.get(operand) == "registers" and operand in operation.layouts]
    if not owned:
        return fold("No table of owners: the layouts give whole operands to the CTA, or to each of the two its half.", columns)
    parts = [[operand for operand in owned if operand in "ABC"], [operand for operand in owned if operand not in "ABC"]]
    reported = f"Who owns what: {', '.join(f'{operand} {_AXES[operand]}' for operand in owned)}"
    reported += "; of the values of A, all of its matrix's, registers hold the nonzeros" * operation.sparse
    reported += "" if full else "; threads left out add up from those shown, --full shows all"
    return "\n\n".join([fold(reported, columns), *(_grid(operation, part, full, columns) for part in parts if part)])


def _grid(operation: Operation, owned: Sequence[str], full: bool, columns: int | None) -> str:
    layouts = {operand: operation.layout(operand) for operand in owned}
    tables = {operand: layout.table() for operand, layout in layouts.items()}
    values = {operand: _values(layouts[operand].values, operand, full) for operand in owned}
    threads = range(operation.threads) if full else _threads(layouts.values())
    rows = [
        [
            str(thread),
            *(
                _cell(tables[operand][thread], value, layout.rows)
                for operand, layout in layouts.items()
                for value in values[operand]
            ),
        ]
        for thread in threads
    ]
    heads = ["thread", *("..." if value is None else f"{operand}{value}" for operand in owned for value in values[operand])]
    return laid_out(heads, rows, columns)


def _cell(elements: Sequence[int], value: int | None, extent: int) -> str:
    return "..." if value is None else f"{elements[value] % extent},{elements[value] // extent}"


def _values(count: int, operand: str, full: bool) -> list[int | None]:
    """Numbers of the values to show, None for those left out."""
    limit = _VALUES if operand in "ABC" else _FEW_VALUES
    return list(range(count)) if full or count <= limit else [*range(limit - 1), None, count - 1]


def _threads(layouts: Iterable[ThreadValueLayout]) -> list[int]:
    """Threads with one coordinate other than 0 in every layout's shape, which tell the steps of all, and the last."""
    chosen = {0}
    for layout in layouts:
        step = 1
        for extent in flat(layout.layout.modes[0].shape):
            chosen |= {step * i for i in range(extent)}
            step *= extent
        chosen.add(step - 1)
    return sorted(chosen)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())


def to_json(operation: Operation) -> str:
    """One line of JSON with everything the registry has."""

    def of(layout: ThreadValueLayout) -> dict[str, object]:
        return {"layout": layout.text, "rows": layout.rows, "columns": layout.columns, "owners": layout.owners}

    plain = {
        key: value
        for key, value in vars(operation).items()
        if key not in ("layouts", "registers", "parameters", "flaws", "variants", "m", "n", "k")
    }
    return json.dumps(
        {
            "name": operation.name,
            "shape": operation.shape,
            **plain,
            "cxx": operation.cxx(),
            "traits": operation.traits(),
            "registers": {operand: [held.type, held.count] for operand, held in operation.registers.items()},
            "layouts": {operand: of(layout) for operand, layout in operation.layouts.items()},
            "parameters": [vars(parameter) for parameter in operation.parameters],
            "flaws": [
                {"operand": flaw.operand, "what": flaw.what, "right": flaw.right and of(flaw.right)} for flaw in operation.flaws
            ],
            "variants": [
                {
                    **{key: value for key, value in vars(variant).items() if key not in ("layouts", "m", "n", "k")},
                    "shape": (variant.m, variant.n, variant.k),
                    "layouts": {operand: of(layout) for operand, layout in variant.layouts.items()},
                }
                for variant in operation.variants
            ],
        }
    )
