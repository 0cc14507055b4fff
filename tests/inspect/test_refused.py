"""Refused specs in inspect: every broken rule is marked at its key, and what follows from the others is there."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from mmagen.cli.main import main
from mmagen.families.reading import read
from mmagen.inspect import maps, refused
from tests.properties.draw import drawn

HEAD = {
    "mmagen": 1,
    "name": "g",
    "kernel": "gemm",
    "atom": "SM80_16x8x16_F32F16F16F32_TN",
    "tile": [128, 128, 32],
    "atoms_layout": [2, 2, 1],
    "permutation": [32, 32, 16],
}


def examined(text: str) -> refused.Refused:
    plan, diagnostics = read(text, "g.yaml")
    assert plan is None and diagnostics
    return refused.examine(text.encode(), "g.yaml", diagnostics)


def like(**keys) -> str:
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in (HEAD | keys).items())


def test_a_broken_rule_is_marked_below_its_key():
    lines = refused.text(examined(like(stages=30, tile=[128, 128, 32]))).splitlines()
    at = next(i for i, line in enumerate(lines) if line.split() == ["stages", "30"])
    assert lines[at + 1].split(maxsplit=2)[:2] == ["<--", "REFUSED:"]
    assert "stages: 30 need 491,520 B of shared memory, the maximum per CTA is 166,912 B; at most 10" in lines[at + 1]
    text = "\n".join(lines)
    assert text.startswith("g: refused, 1 rule broken")
    for fact in ("16,384 B: A 8,192 + B 8,192", "166,912 B per CTA at most", "128 registers", "4 x 4 x 2 of the TiledMMA"):
        assert fact in text


def test_all_faults_are_marked_once():
    it = examined(like(tile=[128, 100, 32], stages=-1, arch=["sm_70"], typo=3))
    assert len(it.diagnostics) == 4 and refused.text(it).count(refused.MARK) == 4
    assert "4 x 3.125 x 2 of the TiledMMA" in refused.text(it) and "B per CTA at most" not in refused.text(it)


def test_without_an_atom_or_a_tiled_mma_only_the_spec_is_shown():
    assert [title for title, _ in refused.sections(examined(like(atom="SM80_16x8x16_F33")))] == ["Spec"]
    it = examined(like(permutation=["(2,2):(1,1)", None, None]))
    assert [title for title, _ in refused.sections(it)] == ["Spec", "TiledMMA"]
    assert dict(refused.sections(it)[1][1]).keys() == {"atom"}


@pytest.mark.parametrize("text", ["", "atom: [", "- 1\n", "mmagen: 1\n"])
def test_a_file_that_is_no_spec_is_shown_too(text):
    assert refused.text(examined(text)).count(refused.MARK) == len(examined(text).diagnostics)


def test_owners_are_shown_if_the_tile_allows():
    assert "T00v0 T00v1" in maps.text(refused.maps(examined(like(stages=30))), {})
    assert refused.maps(examined(like(permutation=[2**20, 2**20, 16], tile=[2**20, 2**20, 32]))) == []


def test_owners_in_the_tiled_mma_are_shown_if_the_tile_does_not():
    for tile, why in (([128, 100, 32], "128 x 100 x 32 is no multiple"), ([16384, 16384, 32], "is too large to draw")):
        text = maps.text(refused.maps(examined(like(tile=tile))), {})
        assert why in text and "T00v0 T00v1" in text


def test_of_a_wgmma_those_in_registers_are_shown():
    spec = like(
        atom="SM90_64x64x16_F32BF16BF16_SS", permutation=[None] * 3, atoms_layout=[1, 1, 1], tile=[64, 64, 64], stages=99
    )
    *_, whole = refused.maps(examined(spec))
    assert [table.matrix for table in whole.tables] == ["C"]


def test_whatever_is_refused_can_be_shown():
    seen = 0
    for one in islice(drawn(5), 60):
        plan, diagnostics = read(one.text, "g.yaml")
        if plan is None:
            it = refused.examine(one.text.encode(), "g.yaml", diagnostics)
            assert refused.text(it).count(refused.MARK) == len(diagnostics)
            assert len(json.loads(refused.to_json(it))["refused"]) == len(diagnostics)
            seen += 1
    assert seen > 15


def test_inspect_shows_it_and_fails(tmp_path, capsys):
    (tmp_path / "bad.yaml").write_text(like(stages=30, name="bad"))
    (tmp_path / "good.yaml").write_text(like(name="good"))
    with pytest.raises(SystemExit) as ended:
        main(["inspect", str(tmp_path)])
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert "bad: refused, 1 rule broken" in said.out and "good: GEMM" in said.out and "at most 10" in said.err
