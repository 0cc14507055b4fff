"""Maps of owners: every cell of a grid is the element that the instruction's fragment has there, windows and colours included."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from mmagen.cli.commands import commands
from mmagen.cli.main import main
from mmagen.core.errors import UsageError
from mmagen.families import family_of, plan
from mmagen.inspect import maps
from mmagen.mma import images
from mmagen.mma.ownership import MODES, Ownership
from mmagen.plan.maps import Map
from mmagen.spec.load import load
from mmagen.spec.model import Spec

SPECS = Path(__file__).resolve().parents[2] / "specs"
CLASSIC = "SM80_16x8x16_F32F16F16F32_TN"


def maps_of(name: str) -> list[Map]:
    path = SPECS / f"{name}.yaml"
    it = plan(load(path.read_bytes(), path.name).spec)
    return family_of(it).maps(it)


def maps_like(**keys) -> list[Map]:
    it = plan(Spec.model_validate({"mmagen": 1, "name": "t", "kernel": "ownership"} | keys))
    return family_of(it).maps(it)


def grid(text: str, matrix: str) -> dict[tuple[int, int], str]:
    """Cells of the last grid of a matrix by row and column."""
    lines = text.split(f"\n  {matrix} (")[-1].split("\n\n")[0].splitlines()
    head = next(i for i, line in enumerate(lines) if re.match(r"\s+[mnk]\d", line))
    columns = [int(label[1:]) for label in lines[head].split()]
    cells = {}
    for line in lines[head + 1 :]:
        label, *owners = line.split()
        cells |= {(int(label[1:]), column): owner for column, owner in zip(columns, owners, strict=True)}
    return cells


def test_the_classic_atom_is_drawn_as_the_ptx_manual_has_it():
    """PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type": groupID is thread / 4."""
    (one,) = maps_of("hello_ownership")
    text = maps.text([one], {})
    a, b, c = (grid(text, matrix) for matrix in "ABC")
    assert [len(cells) for cells in (a, b, c)] == [256, 128, 128]
    for thread in range(32):
        group, lane = divmod(thread, 4)
        for v in range(4):
            assert c[group + 8 * (v // 2), 2 * lane + v % 2] == f"T{thread:02d}v{v}"
            assert b[group, 2 * lane + v % 2 + 8 * (v // 2)] == f"T{thread:02d}v{v}"
        for v in range(8):
            assert a[group + 8 * (v // 2 % 2), 2 * lane + v % 2 + 8 * (v // 4)] == f"T{thread:02d}v{v}"
    row = next(line for line in text.split("\n  C (")[1].splitlines() if line.startswith("  m0 "))
    assert row.split()[1:] == ["T00v0", "T00v1", "T01v0", "T01v1", "T02v0", "T02v1", "T03v0", "T03v1"]


def test_a_tile_is_cut_to_a_window_and_says_so():
    text = maps.text(maps_of("sm80_gemm_classic"), {})
    assert "CTA tile 128 x 128 x 32: 4 x 4 x 2 of the TiledMMA, which covers 32 x 32 x 16" in text
    assert "a window, m 0 to 31 of 128, n 0 to 31 of 128; --window m=BEGIN:END,n=BEGIN:END shows another" in text
    assert "2 threads own each element, T and T+64: the grid shows T" in text  # A, which both columns of warps need
    assert set(grid(text, "C")) == {(m, n) for m in range(32) for n in range(32)}


@pytest.mark.parametrize("name", ["sm80_gemm_classic", "ownership_sliced_k", "sm90_micro_e4m3_rs", "sm90_ownership"])
def test_any_window_shows_the_elements_of_the_whole(name):
    found = maps_of(name)
    whole = maps.text(found, None)
    window = maps.parse_window("m=5:40,n=3:21,k=7:26")
    part = maps.text(found, window)
    for table in found[-1].tables:
        if table.stage is None:
            cells = grid(whole, table.matrix)
            assert len(cells) == table.rows * table.columns
            inside = grid(part, table.matrix)
            assert inside and inside == {at: cells[at] for at in inside}
            ranges = [window["MNK"[mode]] for mode in MODES[table.matrix]]
            extents = (table.rows, table.columns)
            rows, columns = (range(b, min(e, extent)) for (b, e), extent in zip(ranges, extents, strict=True))
            assert set(inside) == {(row, column) for row in rows for column in columns}
            for element, owners in enumerate(table.owners()):
                assert cells[divmod(element, table.columns)] == "T{:02d}v{}".format(*owners[0])


def test_owners_that_are_not_a_step_apart_are_counted():
    table = Ownership("C", 1, 2, ((0,), (1, 0), (1,)))
    text = maps.text([Map("t", (1, 2, 1), (table,))], None)
    assert "2 threads own each element: the grid shows the first" in text


def test_quad_pairs_keep_the_numbers_of_their_threads():
    atom = maps_of("ownership_volta")[0]
    assert {owner[:3] for owner in grid(maps.text([atom], None), "C").values()} == {
        f"T{thread:02d}" for thread in (0, 1, 2, 3, 16, 17, 18, 19)
    }


@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("rows", [64, 32, 16])
def test_elements_of_a_stage_lie_where_the_canonical_layout_has_them(major, rows):
    """As mma.images packs operands of single instructions, which is compared with the hardware."""
    k = rows  # as many bytes of a line either way
    layout = {"a": "K" if major == "K" else "M", "b": "K" if major == "K" else "N"}
    atom = f"SM90_64x{rows}x16_F32BF16BF16_SS"
    found = maps_like(atom=atom, layout=layout, tile=[64, rows, k])[-1]
    for table, extent in zip(found.tables[:2], (64, rows), strict=True):
        codes = np.arange(extent * k, dtype=np.uint64).reshape(1, extent, k)
        line = min(128, 2 * (k if major == "K" else extent))
        packed = images.shared(codes, 16, major == "K", line).data.view(np.uint16)[: extent * k]
        assert list(table.elements[0]) == packed.tolist(), table.matrix


def test_a_stage_is_drawn_as_16_byte_rows_of_core_matrices():
    text = maps.text(maps_like(atom="SM90_64x64x16_F32BF16BF16_SS", tile=[64, 64, 64])[-1:], {})
    b = text.split("\n  B (")[1].split("\n\n")[0]
    assert "8,192 B in shared memory, K contiguous; each cell is 8 elements of 2 B along K" in b
    line = next(line for line in b.splitlines() if line.startswith("  n9 "))
    # Line 9 begins at byte 9 * 128; its chunks are exchanged by 9 % 8.
    assert re.findall(r"\((\d),(\d)\) (\w+)", line) == [("1", str(c), f"{9 * 128 + (c ^ 1) * 16:04x}") for c in range(8)]
    one = maps.text(maps_like(atom="SM90_64x64x16_F32BF16BF16_SS", tile=[64, 64, 64])[-1:], {"N": (9, 10), "K": (16, 24)})
    assert re.search(r"n9   \(1,2\) 04b0$", one, re.MULTILINE) and "a window, n 9 to 9 of 64, k 16 to 23 of 64" in one


@pytest.mark.parametrize("layout", ["TN", "NT"])
def test_a_window_within_a_chunk_shows_where_each_element_lies(layout):
    (found,) = maps_like(atom="SM90_64x64x16_F32BF16BF16_SS", layout=layout, tile=[64, 64, 64], atoms_layout=[1, 1, 1])[-1:]
    text = maps.text([found], {"M": (3, 6), "N": (21, 23), "K": (11, 13)})
    for table, rows in zip(found.tables[:2], (range(3, 6), range(21, 23)), strict=True):
        mode = "MN"["AB".index(table.matrix)].lower()
        of = text.split(f"\n  {table.matrix} (")[1].split("\n\n")[0]
        assert "each cell is an element of 2 B" in of
        for mn in rows:
            for k in (11, 12):
                line, along, chunk_mode = (f"{mode}{mn}", k, "k") if layout == "TN" else (f"k{k}", mn, mode)
                across = mn if layout == "TN" else k
                # PTX ISA: a line has 128 bytes, whose chunks of 16 are exchanged by its number.
                byte = across * 128 + (2 * along ^ across % 8 * 16)
                ruler = next(one for one in of.splitlines() if re.fullmatch(rf"( +{chunk_mode}\d+)+ *", one))
                (row,) = (one for one in of.splitlines() if one.split()[:1] == [line])
                cell = row.split()[1:][ruler.split().index(f"{chunk_mode}{along}") * 2 :][:2]
                assert cell == [f"({across // 8},{along // 8})", f"{byte:04x}"]


@pytest.mark.parametrize("name", sorted(path.stem for path in SPECS.glob("*.yaml")))
def test_every_spec_has_a_map(name):
    assert maps.text(maps_of(name), {}).count("\n\n  ") >= 1


@pytest.mark.parametrize("text", ["", "m", "m=4:4", "m=5:2", "x=0:4", "m=0:4,m=4:8", "m=-1:4", "ALL"])
def test_a_window_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="write ranges of modes as m=0:32"):
        maps.parse_window(text)


def test_a_window_beside_the_matrix_says_so():
    assert "the window lies outside" in maps.text(maps_of("hello_ownership"), {"M": (100, 120)})


def test_threads_are_coloured_alike_wherever_they_are():
    text = maps.text(maps_of("hello_ownership"), {}, colour=True)
    colours: dict[str, set[str]] = {}
    for colour, thread in re.findall(r"\x1b\[38;5;(\d+)m(T\d+)v", text):
        colours.setdefault(thread, set()).add(colour)
    assert len(colours) == 32 and all(len(found) == 1 for found in colours.values())
    assert all(colours[f"T{t:02d}"] != colours[f"T{t + 1:02d}"] for t in range(31))
    assert re.sub(r"\x1b\[[\d;]*m", "", text) == maps.text(maps_of("hello_ownership"), {})


def run(*arguments: str) -> str:
    done = CliRunner().invoke(commands, ["inspect", *arguments], standalone_mode=False)
    assert done.return_value == 0, done.output
    return done.stdout


def test_inspect_prints_the_maps_of_ownership_and_of_others_when_asked():
    gemm, own = str(SPECS / "sm80_gemm_classic.yaml"), str(SPECS / "hello_ownership.yaml")
    assert "T00v0 T00v1" in run(own) and "\x1b" not in run(own)
    assert "T00v0" not in run(gemm)
    assert "T00v0" in run(gemm, "--ownership") and "m8 " in run(gemm, "--window", "m=8:9,n=0:8,k=0:4")


def test_json_has_the_whole_map():
    document = json.loads(run(str(SPECS / "sm90_ownership.yaml"), "--json"))
    assert (document["name"], document["kernel"]) == ("sm90_ownership", "ownership")
    a, _, c = document["maps"][-1]["matrices"]
    assert c["threads"][4][:2] == [32, 33] and c["place"] == "registers"
    assert a["place"] == "shared memory" and sorted(a["bytes"]) == list(range(0, 128 * 64 * 2, 2))
    assert "maps" not in json.loads(run(str(SPECS / "sm80_gemm_classic.yaml"), "--json"))


def test_the_page_about_ownership_tells_the_truth():
    page = (SPECS.parent / "docs/ownership.md").read_text("utf-8")
    drawn = maps.text(maps_of("hello_ownership"), {}).split("\n  C (")[1].splitlines()
    assert "".join(f"    {line}\n" for line in [f"C ({drawn[0]}", *(line[2:] for line in drawn[1:])]) in page
    right = {(m, n): (4 * (m % 8) + n // 2, 2 * (m // 8) + n % 2) for m in range(16) for n in range(8)}
    claims = {
        128: lambda m, n: (4 * (m % 8) + n // 2, 2 * (m // 8) + n % 2),
        16: lambda m, n: (8 * (m % 8 // 2) + n, 2 * (m // 8) + m % 2),
        32: lambda m, n: (m % 4 + 4 * (n // 2) + 16 * (m // 4 % 2), 2 * (m // 8) + n % 2),
    }
    (table,) = [one for one in maps_of("hello_ownership")[0].tables if one.matrix == "C"]
    assert [owners[0] for owners in table.owners()] == list(right.values())
    for count, claim in claims.items():
        assert sum(claim(*at) == owner for at, owner in right.items()) == count and f"| {count} of 128 |" in page


@pytest.mark.nvcc
def test_verify_prints_the_map_that_it_verified(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["verify", "--on", "cpu", str(SPECS / "hello_ownership.yaml")])
    said = capsys.readouterr().out
    assert ended.value.code == 0 and "hello_ownership: every element is marked as this map says" in said
    assert grid(said.rstrip(), "C")[8, 1] == "T00v3"
