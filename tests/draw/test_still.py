"""The pictures of layouts beside README.md: every cell has the colour and the label of the table that inspect draws."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from mmagen.draw.stored import BANKS, SWIZZLED, WORD
from mmagen.draw.svg import colour
from mmagen.draw.windows import owner_text, ranges
from mmagen.families import family_of
from mmagen.families import plan as planned
from mmagen.generate.collection import collect
from mmagen.generate.render import render
from mmagen.inspect.page import to_png
from mmagen.plan.bank_conflicts import byte_address
from mmagen.spec.load import load
from tests.support.mutations import SPECS

_SVG = "{http://www.w3.org/2000/svg}"
_HIGH = 20  # pixels of a cell
NAMES = [
    "hello_ownership",
    "ownership_sliced_k",
    "ownership_volta",
    "sm80_gemm_classic",
    "sm80_gemm_s8_nt_out8",
    "sm80_gemm_c64",
    "sm80_gemm_sparse_f16",
    "sm90_gemm_s4_bf16",
    "sm90_gemm_bf16_tt",
    "hello_peak",
]


def _plan(name: str):
    return planned(load((SPECS / f"{name}.yaml").read_bytes(), name).spec)


def _drawn(svg: bytes, wide: int) -> tuple[dict[tuple[int, int], str], list[list[str]]]:
    """Colours by row and column, and the labels of each row."""
    (body,) = ElementTree.fromstring(svg).findall(f"{_SVG}g")
    colours: dict[tuple[int, int], str] = {}
    for path in (path for path in body.findall(f"{_SVG}path") if path.get("fill") != "none"):  # without the outline
        for x, y, width in re.findall(rf"M(\d+) (\d+)h(\d+)v{_HIGH}h-\3z", path.get("d")):
            for column in range(int(x) // wide, (int(x) + int(width)) // wide):
                assert (int(y) // _HIGH, column) not in colours
                colours[int(y) // _HIGH, column] = path.get("fill")
    rows = body.findall(f"{_SVG}text")
    labels = [row.text.split() for row in rows]
    # All characters of a row are as wide, so that each label is above its cell.
    assert all(len(row.text) % len(found) == 0 for row, found in zip(rows, labels, strict=True))
    assert [int(row.get("textLength")) for row in rows] == [len(found) * wide for found in labels]
    return colours, labels


@pytest.mark.parametrize("name", NAMES)
def test_owners_are_those_of_the_table(name):
    it = _plan(name)
    first = next(iter(it.by_config.values()))
    of, files = family_of(first).maps(first)[-1], render(it)
    tables = [table for table in of.tables if table.stage is None]
    assert tables
    for table in tables:
        rows, columns = ranges(of, table, {})
        owners = table.owners()
        expected = [[owners[row * table.columns + column][0] for column in columns] for row in rows]
        colours, labels = _drawn(files[f"figures/{table.matrix}.svg"], 46)
        assert labels == [[owner_text(*cell) for cell in row] for row in expected]
        assert colours == {(i, j): colour(cell[0]) for i, row in enumerate(expected) for j, cell in enumerate(row)}
        readme = files["README.md"].decode()
        whole = len(rows) == table.rows and len(columns) == table.columns
        assert (f"rows 0 to {len(rows) - 1}, columns 0 to {len(columns) - 1}." in readme) or whole


@pytest.mark.parametrize("name", ["sm80_gemm_classic", "sm80_gemm_tf32_nt", "sm80_gemm_s8_nt_out8", "sm80_gemm_f64"])
def test_words_are_in_their_banks(name):
    it = _plan(name)
    files = render(it)
    for operand in it.operands:
        colours, labels = _drawn(files[f"figures/{operand.letter}-banks.svg"], 23)
        lines = {}
        for mn in range(operand.extent_mn):
            for k in range(operand.extent_k):
                line, along = (mn, k) if operand.contiguous_k else (k, mn)
                held = line, along * operand.element.bytes // 16
                for byte in range(byte_address(operand, mn, k), byte_address(operand, mn, k) + operand.element.bytes):
                    assert lines.setdefault(byte // WORD, held) == held
        expected = [[lines[row * BANKS + bank] for bank in range(BANKS)] for row in range(len(labels))]
        assert SWIZZLED <= len(labels) <= 2 * SWIZZLED  # more where an access reaches further
        assert labels == [[str(line) for line, _ in row] for row in expected]
        assert colours == {(i, j): colour(chunk % 8) for i, row in enumerate(expected) for j, (_, chunk) in enumerate(row)}


def test_no_project_has_more_than_150_kb_of_them():
    for path in sorted(SPECS.glob("*_library.yaml")) + [SPECS / f"{name}.yaml" for name in NAMES]:
        files = render(_plan(path.stem))
        assert sum(len(content) for name, content in files.items() if name.endswith(".svg")) < 150_000


def test_a_vendored_library_has_none():
    files = collect("kernels", [_plan("sm80_gemm_classic"), _plan("sm90_gemm_bf16_tn")])
    assert not [path for path in files if path.endswith(".svg")] and b".svg" not in files["README.md"]


def test_texts_are_drawn_as_png(tmp_path):
    resvg_py = pytest.importorskip("resvg_py")
    with_texts = '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="20"><text y="15">T00v0</text></svg>'
    if resvg_py.svg_to_bytes(with_texts, font_family="DejaVu Sans Mono") == resvg_py.svg_to_bytes(
        with_texts.replace("T00v0", "")
    ):
        pytest.skip("no DejaVu Sans Mono")
    (*_, image) = to_png(_plan("hello_ownership"), {}).values()
    assert len(image) > 50_000  # 5,000 without texts
