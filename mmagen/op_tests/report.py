"""Verdicts on thousands of operations as one table: a row for each kind of operation, a line for each that did not pass."""

from __future__ import annotations

from collections.abc import Sequence

from mmagen.mma.operation import Operation
from mmagen.op_tests.check import needed
from mmagen.report.formats import footer, grid
from mmagen.verify.verdict import Verdict

_COLUMNS = ("kind", "types", "shapes", "operations", "verdict", "launches", "elements", "incorrect", "largest error / bound")
_MOST_COMPLAINTS = 40  # lines on operations that did not pass
# Kind, types and verdict.
_Key = tuple[str, str, str]


def table(
    operations: Sequence[Operation], verdicts: Sequence[Verdict], form: str = "simple", columns: int | None = None
) -> str:
    """A row for operations that differ in shape alone, by verdict; then why those that are wrong are."""
    groups: dict[_Key, list[tuple[Operation, Verdict]]] = {}
    for operation, verdict in zip(operations, verdicts, strict=True):
        groups.setdefault((_kind(operation), _types(operation), _word(verdict)), []).append((operation, verdict))
    rows = [_row(key, members) for key, members in groups.items()]
    body = grid(_COLUMNS, rows, form, columns=columns)
    bullet = "- " if form == "github" else ""
    lines = "\n".join(bullet + line for line in (*_totals(verdicts), *_complaints(operations, verdicts)))
    return "\n\n".join(part for part in (body, lines, footer(verdicts)) if part)


def page(operations: Sequence[Operation], verdicts: Sequence[Verdict], *, command: str, date: str) -> str:
    """The same as Markdown to commit."""
    tally, facts = footer(verdicts).split("\n")
    body = table(operations, verdicts, "github").rsplit("\n\n", 1)[0]
    explanation = (
        "Each operation is one kernel that executes the instruction twice, the second time upon what the first left; its operands "
        "are laid out, and D is read, by the registry's thread-value layouts. small_int and overflow must be equal, uniform is "
        "within a bound derived for each element. wgmma runs on every line of shared memory that its operands can have, 16-bit "
        "types in both majors."
    )
    head = f"# Every MMA operation\n\n{facts}. {date}. {tally[0].upper()}{tally[1:]}."
    return f"{head}\n\nMade by `{command}`. {explanation}\n\n{body}\n"


def _totals(verdicts: Sequence[Verdict]) -> list[str]:
    """All launches together, where there were any."""
    details = [record["details"] or {} for verdict in verdicts for record in verdict.records]
    launches, elements, incorrect = (sum(one.get(name, 0) for one in details) for name in ("launches", "elements", "incorrect"))
    return [f"{launches:,} launches, {elements:,} elements of D compared, {incorrect:,} incorrect"] if launches else []


def _word(verdict: Verdict) -> str:
    """The verdict's, and of what cannot be run here whether its instruction is in the code."""
    compiled = verdict.disposition == "not_supported" and verdict.build.ptxas
    return "compiled, not run" if compiled else verdict.word.replace("_", " ")


def _kind(operation: Operation) -> str:
    place = {"shared memory": " SS", "tensor memory": " TS"}.get(operation.places["A"], " RS" if operation.warpgroup else "")
    sparse = f" sparse {operation.sparsity}" if operation.sparse else ""
    return f"{operation.family} {operation.kind}{place}{sparse}{' saturating' if operation.saturate else ''}"


def _types(operation: Operation) -> str:
    scaled = f" x {operation.type_sf}/{operation.vector}" if operation.block_scaled else ""
    return f"{operation.type_a} x {operation.type_b}{scaled} -> {operation.type_d}"


def _row(key: _Key, members: Sequence[tuple[Operation, Verdict]]) -> list[str]:
    kind, types, word = key
    records = [record for _, verdict in members for record in verdict.records]
    counts = {
        name: sum((record["details"] or {}).get(name, 0) for record in records)
        for name in ("launches", "elements", "incorrect")
    }
    ran = bool(counts["launches"])
    shares = [
        record["max_abs_err"] / record["bound"] for record in records if record["bound"] and record["max_abs_err"] is not None
    ]
    share = f"{max(shares):.2g}" if shares else ""
    sums = [str(counts[name]) if ran else "" for name in counts]
    return [kind, types, _shapes([operation for operation, _ in members]), str(len(members)), word, *sums, share]


def _shapes(operations: Sequence[Operation]) -> str:
    """`64x8..256x16` for many N, else the shapes one by one."""
    shapes = sorted({operation.shape for operation in operations})
    m, k = {shape[0] for shape in shapes}, {shape[2] for shape in shapes}
    if len(shapes) > 3 and len(m) == len(k) == 1:
        return f"{shapes[0][0]}x{shapes[0][1]}..{shapes[-1][1]}x{shapes[0][2]}"
    return ", ".join("x".join(map(str, shape)) for shape in shapes)


def _complaints(operations: Sequence[Operation], verdicts: Sequence[Verdict]) -> list[str]:
    """Why operations failed, each; and once for each architecture what could not be run."""
    wrong = [f"{v.name}: {v.reason}" for v in verdicts if v.disposition in ("incorrect", "failed")]
    more = [f"… and {len(wrong) - _MOST_COMPLAINTS} more"] if len(wrong) > _MOST_COMPLAINTS else []
    missed: dict[str, int] = {}
    for operation, verdict in zip(operations, verdicts, strict=True):
        if verdict.disposition == "not_supported":
            if operation.broken:
                missed[f"{operation.name}: {operation.broken}"] = 0
                continue
            found = "the instruction is in the code, to run it " if verdict.build.ptxas else ""
            why = f"not run: {found}needs {needed(operation)}"
            missed[why] = missed.get(why, 0) + 1
    return wrong[:_MOST_COMPLAINTS] + more + [f"{count} {why}" if count else why for why, count in missed.items()]
