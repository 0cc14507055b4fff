"""Pictures: every cell is drawn at its place, in the colour of its thread, and says what the tables say."""

from __future__ import annotations

import base64
import hashlib
import re
import time
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mmagen.cli.main import main
from mmagen.draw.maps import pictures
from mmagen.draw.svg import colour
from mmagen.draw.windows import owner_text
from mmagen.families import family_of, plan
from mmagen.inspect.maps import parse_window
from mmagen.inspect.page import pictures as page_pictures
from mmagen.inspect.page import to_html
from mmagen.mma.ownership import MODES
from mmagen.plan.bank_conflicts import byte_address, load
from mmagen.plan.model import Swizzle
from mmagen.spec.load import load as loaded
from tests.support.fakes import typed

SPECS = Path(__file__).resolve().parents[2] / "specs"
_SVG = "{http://www.w3.org/2000/svg}"
_VOID = ("meta",)


def planned(name: str):
    path = SPECS / f"{name}.yaml"
    return plan(loaded(path.read_bytes(), path.name).spec)


def drawn(name: str, window: str | None = None) -> dict[str, ET.Element]:
    it = planned(name)
    found = pictures(family_of(it).maps(it), parse_window(window) if window else {})
    return {one.name: ET.fromstring(one.svg) for one in found}


def cells(picture: ET.Element) -> dict[tuple[int, int], tuple[str, str, str]]:
    """(row, column) on the picture -> title, colour and text of each labelled cell."""
    found = {}
    for cell in picture.findall(f"{_SVG}g/{_SVG}g"):
        rect = cell.find(f"{_SVG}rect")
        at = int(rect.get("y")) // int(rect.get("height")), int(rect.get("x")) // int(rect.get("width"))
        found[at] = (cell.find(f"{_SVG}title").text, rect.get("fill"), cell.find(f"{_SVG}text").text)
    return found


@pytest.mark.parametrize("name", ["hello_ownership", "ownership_sliced_k", "ownership_volta", "sm90_micro_e4m3_rs"])
def test_every_cell_says_who_owns_it(name):
    it = planned(name)
    found = drawn(name, "m=0:16,n=0:8,k=0:16")
    for number, one in enumerate(family_of(it).maps(it)):
        for table in (table for table in one.tables if table.stage is None):
            of = cells(found[f"{number}-{table.matrix}"])
            extents = [
                min(extent, {"M": 16, "N": 8, "K": 16}["MNK"[mode]])
                for extent, mode in zip((table.rows, table.columns), MODES[table.matrix], strict=True)
            ]
            assert set(of) == {(row, column) for row in range(extents[0]) for column in range(extents[1])}
            owners = table.owners()
            for (row, column), (title, fill, text) in of.items():
                mine = owners[row * table.columns + column]
                assert title.startswith(f"{table.matrix}({row},{column}): ")
                assert [tuple(map(int, pair)) for pair in re.findall(r"thread (\d+) value (\d+)", title)] == mine
                assert (fill, text) == (colour(mine[0][0]), owner_text(*mine[0]))


def test_a_whole_tile_has_a_path_for_each_thread():
    it = planned("sm80_gemm_classic")
    table = family_of(it).maps(it)[-1].tables[2]
    whole = drawn("sm80_gemm_classic", "all")["1-C"]
    seen: dict[tuple[int, int], str] = {}
    for path in whole.findall(f"{_SVG}g/{_SVG}path"):
        thread = int(path.find(f"{_SVG}title").text.split()[1])
        assert path.get("fill") == colour(thread)
        for x, y, width in re.findall(r"M(\d+) (\d+)h(\d+)v6h-\3z", path.get("d")):
            for column in range(int(x) // 6, (int(x) + int(width)) // 6):
                assert (int(y) // 6, column) not in seen
                seen[int(y) // 6, column] = thread
    assert seen == {divmod(element, 128): owners[0][0] for element, owners in enumerate(table.owners())}


@pytest.mark.parametrize("without", ["", "-plain"])
@pytest.mark.parametrize("name", ["sm80_gemm_classic", "sm80_gemm_tf32_nt", "sm80_gemm_s8_nt_out8", "sm80_gemm_f64"])
def test_operands_lie_in_the_banks_where_the_kernel_has_them(name, without):
    it, pictures_of_it = planned(name), drawn(name)
    for operand in it.operands:
        of = cells(pictures_of_it[f"1-{operand.letter}-banks{without}"])
        if without:
            operand = replace(operand, swizzle=Swizzle(0, 0, 0))
        for (row, bank), (title, _, text) in of.items():
            byte = row * 128 + bank * 4
            assert title.startswith(f"byte {byte}, bank {bank}: ")
            held = [tuple(map(int, at)) for at in re.findall(r"\((\d+),(\d+)\)", title)]
            size = operand.element.bytes
            assert [byte_address(operand, *at) for at in held] == [
                byte // size * size + i * size for i in range(max(1, 4 // size))
            ]
            assert int(text) == held[0][0 if operand.contiguous_k else 1]


def test_a_cell_of_an_operand_says_its_byte_and_bank():
    operand = planned("sm80_gemm_classic").operand("A")
    title = cells(drawn("sm80_gemm_classic")["1-A"])[5, 9][0]
    byte = byte_address(operand, 5, 9)
    plain = (5 * operand.line + 9) * 2  # no other chunk of the line comes first
    assert byte != plain
    assert title.endswith(
        f"; byte {byte} of its stage, bank {byte // 4 % 32}; without the swizzle byte {plain}, bank {plain // 4 % 32}"
    )


@pytest.mark.parametrize(
    ("name", "says", "held"),
    [
        ("sm80_gemm_u4", "bits 4 to 7 of byte {}", "B(0,0), B(0,1), B(0,2), B(0,3), B(0,4), B(0,5), B(0,6), B(0,7)"),
        (
            "sm80_gemm_sparse_bf16",
            "what is stored of columns 8 to 11 begins at byte {}",
            "one of A(0,0) to A(0,3), one of A(0,0) to A(0,3)",
        ),
    ],
)
def test_an_element_of_which_memory_has_a_part_or_a_group_says_where_that_is(name, says, held):
    it, letter = planned(name), held[held.index("(") - 1]
    operand, last = it.operand(letter), 9
    title = cells(drawn(name, "m=0:16,n=0:16,k=0:16")[f"1-{letter}"])[5, last][0]
    byte = byte_address(operand, 5, last // operand.group * operand.kept)
    assert f"; {says.format(byte)} of its stage, bank {byte // 4 % 32}" in title
    assert cells(drawn(name)[f"1-{letter}-banks"])[0, 0][0].startswith(f"byte 0, bank 0: {held}")


def test_a_small_tile_of_packed_elements_is_drawn():
    text = (SPECS / "sm80_gemm_u4.yaml").read_text().replace("128, 128, 128", "16, 16, 64").replace("[2, 2, 1]", "[1, 1, 1]")
    it = plan(loaded(text.replace("permutation: [32, 32, null]\n", ""), "small.yaml").spec)
    found = {one.name: one for one in pictures(family_of(it).maps(it), {})}
    for letter, rows in (("A", 16), ("B", 8)):
        assert len(cells(ET.fromstring(found[f"1-{letter}"].svg))) == rows * 32  # what the TiledMMA covers


@pytest.mark.parametrize(
    "name", ["sm80_gemm_classic", "sm80_gemm_tf32_nt", "sm80_gemm_s8_nt_out8", "sm80_gemm_f64_nt", "sm80_gemm_sparse_bf16"]
)
def test_the_banks_of_an_access_are_outlined(name):
    it = planned(name)
    first = next(iter(it.by_config.values()))
    pictures_of_it = {one.name: one for one in pictures(family_of(it).maps(it)[:2], {})}
    for operand in first.operands:
        counted, plain = load(first, operand), load(first, replace(operand, swizzle=Swizzle(0, 0, 0)))
        for without, passes in (("", counted), ("-plain", plain)):
            picture = pictures_of_it[f"1-{operand.letter}-banks{without}"]
            outline = ET.fromstring(picture.svg).find(f"{_SVG}g/{_SVG}path").get("d")
            words = [
                int(y) // 20 * 32 + int(x) // 23 + i
                for x, y, wide in re.findall(r"M(\d+) (\d+)h(\d+)v", outline)
                for i in range(int(wide) // 23 + 1)
            ]
            banks = Counter(word % 32 for word in words)
            assert words and max(banks.values()) == passes.ways
            assert f"{len(words)} words in {len(banks)} banks, " in picture.title


def test_a_picture_of_a_tile_is_small_and_quick():
    it = planned("sm80_gemm_classic")
    start = time.process_time()
    found = pictures(family_of(it).maps(it), None)
    assert time.process_time() - start < 2
    assert all(len(one.svg) < 300_000 for one in found)


class _Checked(HTMLParser):
    """Every element is closed, nothing is loaded, and the one script is that of the policy."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.cells = 0
        self.policy = ""
        self.scripts: list[str] = []

    def handle_starttag(self, tag, attributes):
        assert tag not in ("link", "img", "iframe") and not {"src", "href"} & {name for name, _ in attributes}
        if tag not in _VOID:
            self.open.append(tag)
        if ("http-equiv", "Content-Security-Policy") in attributes:
            self.policy = dict(attributes)["content"]
        self.cells += tag == "rect"

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", ["hello_ownership", "fma_micro", "sm90_gemm_tf32", "sm90_micro_sparse", "hello_peak"])
def test_the_page_stands_alone(name):
    text = to_html(planned(name), {})
    checked = _Checked()
    checked.feed(text)
    assert checked.open == [] and checked.cells > 0
    (script,) = checked.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in checked.policy and f"script-src 'sha256-{digest}'" in checked.policy
    namespace = "http://www.w3.org/2000/svg"
    assert re.findall(r"https?://[^\"]+", text) == [namespace] * (text.count("<svg") + script.count(namespace))
    assert "Choices" in text and planned(name).name in text


def test_kernels_of_a_library_share_their_pictures():
    """Most of them are alike; each title and each name is on the page, once."""
    it = planned("sm90_gemm_bf16_library")
    page = to_html(it, {})
    assert len(page) < 2_000_000
    all_of_them = page_pictures(it, {})
    for one in all_of_them:
        assert page.count(f'id="{one.name}"') == 1
        assert f">{escape(one.title)}<" in page
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len({re.sub(r'aria-label="[^"]*"', "", one) for one in drawings}) == len(drawings) < len(all_of_them) / 2
    drawn_there = "".join(re.sub(r'aria-label="[^"]*"', "", one) for one in drawings)
    assert all(one.svg.partition("<style>")[2].strip() in drawn_there for one in all_of_them)


def test_inspect_writes_them(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["inspect", str(SPECS / "hello_ownership.yaml"), "--html", str(tmp_path / "a"), "--svg", str(tmp_path / "b")])
    assert ended.value.code == 0 and "wrote" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["hello_ownership.html"]
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == [f"hello_ownership-0-{m}.svg" for m in "ABC"]
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        main(["inspect", str(SPECS / "hello_ownership.yaml"), "--html", str(tmp_path / "file" / "x")])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("name", "where", "says"),
    [
        ("sm90_gemm_bf16_tn", (), "say where, with --html, --svg or --png"),
        ("sm90_gemm_bf16_library", ("--svg", "out"), "make a spec of one of its configs"),
        ("hello_ownership", ("--svg", "out"), "has no pipeline to trace"),
    ],
)
def test_what_has_no_trace_is_refused(name, where, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, _, err = typed(capsys, "inspect", "--traced", *where, str(SPECS / f"{name}.yaml"))
    assert code == 2 and says in err and not list(tmp_path.iterdir())
