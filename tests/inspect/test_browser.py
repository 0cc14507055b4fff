"""The page of `inspect --html` in a real browser without a network: what it says of a place that is pointed at is what the plan has
there, by formulas of the PTX ISA where there is one; it asks for nothing, and reports no error.

Skipped without playwright or Chromium, but never with CI set, where that is a failure.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmagen.draw.maps import DOT, WIDE
from mmagen.draw.stored import WIDE as BANK
from mmagen.draw.svg import HIGH, MARGIN
from mmagen.families import family_of, pipelines, plan
from mmagen.inspect.page import to_html
from mmagen.mma.ownership import Ownership
from mmagen.plan.bank_conflicts import byte_address
from mmagen.plan.model import GmemCopy, Operand
from mmagen.plan.pipeline import work_tiles
from mmagen.spec.load import load
from tests.support.selection import representatives
from tools.site import browser

SPECS = Path(__file__).resolve().parents[2] / "specs"
SAMPLE = 4  # places of a picture, besides its corners
# mma.sync and wgmma, with A from registers and not, K contiguous and not, swizzled and not, and what has no shared memory.
NAMES = [
    "hello_ownership",
    "ownership_volta",
    "sm90_ownership",
    "sm90_micro_e4m3_rs",
    "sm80_gemm_classic",
    "sm80_gemm_tf32_nt",
    "fma_gemm_f32",
    "sm80_gemm_u4",
    "sm80_gemm_sparse_bf16",
    "sm90_gemm_bf16_nt",
    "sm90_gemm_bf16_rs",
]
# Copies by cp.async and by TMA, operands with K contiguous and not, whole elements, two in a byte and a sparse A; and a kernel
# without shared memory. sm90_gemm_bf16_rs is in a test below.
_IN_EVERY_RUN = ("hello_ownership", "sm80_gemm_classic", "sm80_gemm_u4", "sm80_gemm_sparse_bf16", "sm90_gemm_bf16_nt")


def planned(name: str):
    path = SPECS / f"{name}.yaml"
    return plan(load(path.read_bytes(), path.name).spec)


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Chromium]:
    why = browser.missing()
    if why and os.environ.get("CI"):
        pytest.fail(f"{why}; .ci/run installs it")
    if why:
        pytest.skip(why)
    with browser.chromium() as found:
        yield found


def page_of(name: str, folder: Path, window=()) -> Path:
    path = folder / f"{name}.html"
    path.write_text(to_html(planned(name), dict(window) if window is not None else None), "utf-8")
    return path


def some(rows: int, columns: int) -> list[tuple[int, int]]:
    """The corners, and others."""
    draw = random.Random(rows * columns)
    corners = [(0, 0), (0, columns - 1), (rows - 1, 0), (rows - 1, columns - 1)]
    return list(dict.fromkeys(corners + [(draw.randrange(rows), draw.randrange(columns)) for _ in range(SAMPLE)]))


def extents(page: browser.Shown, name: str, wide: int, high: int) -> tuple[int, int]:
    """Rows and columns of cells of a picture."""
    width, height = page.size(name)
    return (height - MARGIN) // high, (width - MARGIN) // wide


def said(page: browser.Shown, name: str, at: tuple[int, int], wide: int, high: int) -> str:
    row, column = at
    return page.hover(name, MARGIN + (column + 0.5) * wide, MARGIN + (row + 0.5) * high)


def owners_said(text: str) -> list[tuple[int, int]]:
    return [(int(thread), int(value)) for thread, value in re.findall(r"thread (\d+) value (\d+)", text)]


# --- Where an operand lies, without the code that draws it -------------------------------------------------------------


def places(operand: Operand, mn: int, k: int) -> tuple[int, int]:
    """Bytes of an element in its stage: with the swizzle and without it."""
    size, swizzle = operand.element.bytes, operand.swizzle
    if not operand.tma:
        byte = byte_address(operand, mn, k)
        chunks = swizzle.base + swizzle.shift  # the bits that are exchanged with others, from here
        plain = byte // size
        return byte, (plain ^ (plain >> chunks & (1 << swizzle.bits) - 1) << swizzle.base) * size
    # PTX ISA, "Shared Memory Matrix Layout": the 16-byte chunks of a line of 32, 64 or 128 bytes change places by the number of
    # its 128 bytes.
    along, across = (k, mn) if operand.contiguous_k else (mn, k)
    line = operand.line * size
    plain = (along // operand.line * operand.extent_across + across) * line + along % operand.line * size
    return plain ^ plain // 128 % (line // 16) * 16, plain


def where(operand: Operand, mn: int, k: int) -> str:
    byte, plain = places(operand, mn, k)
    text = f"; byte {byte} of its stage, bank {byte // 4 % 32}"
    return text + (f"; without the swizzle byte {plain}, bank {plain // 4 % 32}" if operand.swizzle.bits else "")


def where_of_matrix(operand: Operand, mn: int, k: int) -> str:
    """The same of column k of the matrix, of which memory may have fewer elements."""
    first = k // operand.group * operand.group
    text = where(operand, mn, first // operand.group * operand.kept)
    if operand.packed == 2:
        return text.replace("; byte", f"; bits {'4 to 7' if k % 2 else '0 to 3'} of byte", 1)
    if operand.kept < operand.group:
        return text.replace("; byte", f"; what is stored of columns {first} to {first + operand.group - 1} begins at byte", 1)
    return text


def columns_named(operand: Operand, k: int) -> set[int]:
    """Columns of the matrix that the title of a word names for column k of what memory has."""
    if operand.packed == 2:
        return {2 * k, 2 * k + 1}
    first = k // operand.kept * operand.group
    return {first, first + operand.group - 1} if operand.kept < operand.group else {k}


def operands_of(it) -> dict[str, Operand]:
    first = next(iter(it.by_config.values()))
    return {one.letter: one for one in getattr(first, "operands", getattr(first, "staged", ()))}


# --- Every kind of picture ---------------------------------------------------------------------------------------------


def check_owners(page, name: str, table: Ownership, operand: Operand | None, every: bool = False) -> None:
    wide, high = (DOT, DOT) if page.gridded(name) else (WIDE, HIGH)
    rows, columns = extents(page, name, wide, high)
    owners = table.owners()
    cells = [(i, j) for i in range(rows) for j in range(columns)] if every else some(rows, columns)
    for row, column in cells:
        text = said(page, name, (row, column), wide, high)
        assert text.startswith(f"{table.matrix}({row},{column}): thread ")
        assert owners_said(text) == owners[row * table.columns + column]
        assert text.partition(";")[2] == (where_of_matrix(operand, row, column).partition(";")[2] if operand else "")


def check_banks(page, name: str, operand: Operand) -> None:
    without = name.endswith("plain")
    rows, columns = extents(page, name, BANK, HIGH)
    held: dict[int, set[tuple[int, int]]] = {}
    for mn in range(operand.extent_mn):
        for k in range(operand.extent_k):
            byte = places(operand, mn, k)[without]
            for word in range(byte // 4, (byte + operand.element.bytes - 1) // 4 + 1):
                held.setdefault(word, set()).update((mn, column) for column in columns_named(operand, k))
    assert columns == 32
    for row, bank in some(rows, columns):
        text = said(page, name, (row, bank), BANK, HIGH)
        one_of = "one of " if operand.kept * operand.packed < operand.group else ""
        assert text.startswith(f"byte {row * 128 + bank * 4}, bank {bank}: {one_of}{operand.letter}(")
        found = [(int(mn), int(k)) for mn, k in re.findall(r"\((\d+),(\d+)\)", text)]
        assert set(found) == held[row * 32 + bank]
        (mn, k), word = found[0], row * 128 + bank * 4
        k = k // operand.group * operand.kept
        byte = places(operand, mn, k)[not without] + (word - places(operand, mn, k)[without])
        says = f"; {'with' if without else 'without'} the swizzle byte {byte}, bank {byte // 4 % 32}"
        assert text.partition(";")[2] == (says[1:] if operand.swizzle.bits else "")


def check_copy(page, name: str, operand: Operand, by: GmemCopy) -> None:
    """The thread is that of the place along the line, then of the line, in steps of what all of them copy."""
    wide, high = (DOT, DOT) if page.gridded(name) else (WIDE, HIGH)
    rows, columns = extents(page, name, wide, high)
    for mn, k in some(rows, columns):
        along, across = (k, mn) if operand.contiguous_k else (mn, k)
        text = said(page, name, (mn, k), wide, high)
        thread = across % by.across * by.along + along // by.vector % by.along
        steps = across // by.across * (operand.extent_along // (by.along * by.vector)) + along // (by.along * by.vector)
        value = steps * by.vector + along % by.vector
        assert text == f"{operand.letter}({mn},{k}): thread {thread} value {value}{where(operand, mn, k)}"


def check_tiles(page, name: str, pipeline) -> None:
    """Every tile says its place in the order."""
    columns, rows = ((extent - 2) // 26 for extent in page.size(name))
    m, n = (int(extent) for extent in re.findall(r"of the (\d+) x (\d+) tiles", page.caption(name))[0])
    orders = {(one.m, one.n): one.order for one in work_tiles(pipeline.scheduler, m, n, max(m, n))}
    for m, n in some(rows, columns):
        text = page.hover(name, 1 + (n + 0.5) * 26, 1 + (m + 0.5) * 26)
        assert text.startswith(f"tile ({m},{n}): number {orders[m, n]}, wave ")


def check_boxes(page, name: str, operand: Operand) -> None:
    size = operand.line * operand.tma.box_across * operand.element.bytes
    width, height = page.size(name)
    for x, y in ((2, 2), (width - 3, height - 3), (width / 2, height / 3)):
        text = page.hover(name, x, y)
        scale = (width - 2) / operand.extent_k
        mn, k = int((y - 1) / scale), int((x - 1) / scale)
        along, across = (k, mn) if operand.contiguous_k else (mn, k)
        first = across // operand.tma.box_across * operand.tma.box_across
        assert f"panel {along // operand.line}, lines {first} to {first + operand.tma.box_across - 1}, " in text
        assert text.endswith(f" {size:,} B")


def check_timeline(page, name: str, pipeline) -> None:
    """A lane of every stage: the k tiles that it says it multiplies are those that the ring puts there."""
    lanes = 1 + pipeline.stages + len(pipeline.consumers)
    width, height = page.size(name)
    assert height == lanes * 26
    for stage in range(pipeline.stages):
        texts = [page.hover(name, x, (1 + stage) * 26 + 11) for x in range(195, min(width, 900) - 2, 20)]
        numbers = [int(k) for text in texts for k in re.findall(r"^k tile (\d+) of tile 0, phase \d+: multiplied", text)]
        assert numbers and {k % pipeline.stages for k in numbers} == {stage}
        assert any("load in flight" in text for text in texts)


@pytest.mark.parametrize("name", representatives(NAMES, _IN_EVERY_RUN))
def test_what_is_pointed_at_is_what_the_plan_has(name, tmp_path, chromium):
    it = planned(name)
    made = time.process_time()
    path = page_of(name, tmp_path)
    assert time.process_time() - made < 2
    operands, lanes = operands_of(it), dict(pipelines(it))
    maps = family_of(it).maps(it)
    with chromium.open(path) as page:
        names = page.pictures()
        seen = set()
        for number, one in enumerate(maps):
            stored = {of.table.matrix for of in one.stored}
            for table in (table for table in one.tables if table.stage is None):
                operand = operands[table.matrix] if table.matrix in stored else None
                check_owners(page, f"{number}-{table.matrix}", table, operand, every=name == "hello_ownership")
                seen.add(f"{number}-{table.matrix}")
            for matrix in stored:
                for picture in (f"{number}-{matrix}-banks", f"{number}-{matrix}-banks-plain"):
                    if picture in names:
                        check_banks(page, picture, operands[matrix])
                        seen.add(picture)
                assert (f"{number}-{matrix}-banks-plain" in names) == bool(operands[matrix].swizzle.bits)
        for kernel, pipeline in lanes.items():
            prefix = f"{kernel}-" if kernel else ""
            for operand in pipeline.operands:
                if operand.tma:
                    check_boxes(page, f"{prefix}{operand.letter}-copy", operand)
                    seen.add(f"{prefix}{operand.letter}-copy")
                for kind, by in operand.gmem_copies:
                    check_copy(page, f"{prefix}{operand.letter}-copy-{kind.lower()}", operand, by)
                    seen.add(f"{prefix}{operand.letter}-copy-{kind.lower()}")
            check_timeline(page, f"{prefix}pipeline", pipeline)
            check_tiles(page, f"{prefix}raster", pipeline)
            seen |= {f"{prefix}pipeline", f"{prefix}raster"}
        assert seen == set(names), "a picture that is not pointed at"
        assert page.requests == [] and page.errors == []


@pytest.mark.parametrize("name", ["sm80_gemm_classic", "sm90_gemm_bf16_rs", "sm80_gemm_s8_nt_out8"])
def test_a_whole_tile_says_the_same(name, tmp_path, chromium):
    """There elements have no titles of their own."""
    it = planned(name)
    table_of = {f"{number}-{table.matrix}": table for number, one in enumerate(family_of(it).maps(it)) for table in one.tables}
    with chromium.open(page_of(name, tmp_path, window=None)) as page:
        gridded = [one for one in page.pictures() if one in table_of and page.gridded(one)]
        assert "1-C" in gridded
        for one in gridded:
            check_owners(page, one, table_of[one], operands_of(it).get(table_of[one].matrix) if one[0] == "1" else None)
            assert page.hover(one, MARGIN - 10, MARGIN + 10) == "", "a number of a row"
        assert page.requests == [] and page.errors == []


def test_arrow_keys_go_from_cell_to_cell(tmp_path, chromium):
    with chromium.open(page_of("sm80_gemm_classic", tmp_path)) as page:
        assert page.press("0-C", ["ArrowDown"]) == "C(0,0): thread 0 value 0"
        assert page.press("0-C", ["ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"]) == "C(1,3): thread 5 value 1"
        assert page.press("0-C", ["ArrowLeft", "ArrowUp", "ArrowUp"]) == "C(0,2): thread 1 value 0", "it stays at an edge"
        assert page.press("0-C", ["Escape"]) == ""
        page.press("A-copy-narrow", ["ArrowRight", "ArrowRight", "ArrowDown"])
        assert page.says().startswith("A(1,1): thread 33 value 0; byte ")
        assert page.press("pipeline", ["ArrowDown", "ArrowDown"]).startswith("k tile 0 of tile 0, phase 0: load in flight")
        assert page.errors == []


@pytest.mark.parametrize("script", [True, False])
def test_titles_say_it_without_the_script(script, tmp_path, chromium):
    path = page_of("sm80_gemm_classic", tmp_path)
    with chromium.open(path, script=script) as page:
        says = said(page, "1-A", (5, 9), WIDE, HIGH)
        titled = page.titled("1-A", MARGIN + 9.5 * WIDE, MARGIN + 5.5 * HIGH)
    # With the script no second one comes up.
    assert bool(says) == script and bool(titled) == (not script)
    assert (says or titled).startswith("A(5,9): thread 20 value 5, thread 84 value 5; byte 370 of its stage, bank 28")


def test_what_would_leave_the_page_is_stopped(tmp_path, chromium):
    """By the policy; and the browser tells."""
    path = page_of("hello_ownership", tmp_path)
    text = path.read_text()
    path.write_text(text.replace("<h1>", '<img src="http://127.0.0.1:9/a.png"><script>document.title = "other"</script><h1>'))
    with chromium.open(path) as page:
        assert page.run("document.title") == "hello_ownership", "no script but its own"
        assert any("img-src" in error or "default-src" in error for error in page.errors)
    path.write_text(re.sub(r"<meta http-equiv[^>]*>", "", path.read_text()))
    with chromium.open(path) as page:
        assert page.requests == ["http://127.0.0.1:9/a.png"] and page.run("document.title") == "other"
