"""Warnings of build: idle SMs are found, and each change that is named is accepted and does what it says."""

from __future__ import annotations

import re

import pytest
import yaml

from mmagen.cli.main import main
from mmagen.families import family_of, plan
from mmagen.families.warnings import EMPTY, GOOD, warnings
from mmagen.plan.devices import DEVICES
from mmagen.spec.model import Spec

H200 = DEVICES[-1]
LARGE = {
    "mmagen": 1,
    "name": "g",
    "kernel": "gemm",
    "atom": "SM90_64x256x16_F32BF16BF16_SS",
    "tile": [128, 256, 64],
    "atoms_layout": [2, 1, 1],
    "schedule": "cooperative",
    "epilogue": {"out": "bf16"},
}
CLASSIC = {
    "mmagen": 1,
    "name": "c",
    "kernel": "gemm",
    "atom": "SM80_16x8x16_F32F16F16F32_TN",
    "tile": [128, 128, 32],
    "atoms_layout": [2, 2, 1],
    "permutation": [32, 32, 16],
    "arch": ["sm_80"],
}
WGMMA_SP = LARGE | {"atom": "SM90::GMMA::SPARSE::GMMA_64x256x32_F32BF16BF16_SS", "tile": [128, 256, 128]}


def warned(head: dict, **keys) -> list[str]:
    return warnings(plan(Spec.model_validate(head | keys)))


def launched(head: dict, changes: str, **keys):
    """The first launch of the spec with the keys that a warning names."""
    changed = yaml.safe_load(changes.replace(" with ", "\n"))
    it = plan(Spec.model_validate(head | keys | changed))
    (numbers,) = family_of(it).numbers(it, H200 if it.arch == ("sm_90a",) else DEVICES[2], {})
    return numbers.launches[0][1]


def test_a_poor_last_wave():
    (text,) = warned(LARGE, problems=[[1536, 3072, 4096]])
    assert (
        "144 CTAs' work on the 132 that H200 SXM runs at once is 2 waves, 55% busy; stream_k: last_wave makes it 100%" in text
    )


def test_a_poor_last_wave_of_a_sparse_kernel():
    (text,) = warned(WGMMA_SP, problems=[[1536, 3072, 4096]])
    assert "55% busy; stream_k: last_wave makes it 100%" in text


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        (LARGE | {"stream_k": "never"}, [1536, 3072, 4096]),
        (CLASSIC, [1280, 3840, 1024]),
        (CLASSIC, [1536, 3328, 1024]),
    ],
)
def test_another_tile_does_what_the_warning_says(head, problem):
    (text,) = warned(head, problems=[problem])
    found = re.search(r"(\d+)% busy; (tile: .*) makes it (\d+)%", text)
    assert found and int(found[1]) < 80 and int(found[3]) >= 100 * GOOD
    assert f"{launched(head, found[2], problems=[problem]).busy:.0%}" == f"{found[3]}%"


@pytest.mark.parametrize(
    ("cluster", "problem", "better"), [([2, 1], [128, 8192, 4096], [1, 2]), ([4, 2], [128, 256, 4096], None)]
)
def test_clusters_that_are_half_empty(cluster, problem, better):
    (text,) = warned(LARGE, cluster=cluster, problems=[problem])
    assert "of the CTAs compute nothing" in text and (f"cluster: {better}" if better else "no cluster") in text
    it = launched(LARGE, f"cluster: {better or 'null'}", problems=[problem])
    assert it.tiles[0] * it.tiles[1] / it.work > 1 - EMPTY


def test_a_change_of_clusters_serves_the_other_problems_too():
    one_row, one_column = [100, 512, 4096], [256, 200, 4096]
    (text,) = warned(LARGE, cluster=[2, 1], problems=[one_row])
    assert "cluster: [1, 2] uses all" in text
    (text,) = warned(LARGE, cluster=[2, 1], problems=[one_row, one_column])
    assert "problem 100x512x4096" in text and "no cluster uses all" in text


@pytest.mark.parametrize(
    "keys",
    [
        {},  # no problems of its own
        {"problems": [[8192, 8192, 8192]]},
        {"problems": [[128, 256, 64]]},  # one tile fills no device, whatever the tile
        {"problems": [[1536, 3072, 256]]},  # too short to matter
        {"problems": [[1536, 3072, 4096]], "stream_k": "last_wave"},
    ],
)
def test_no_warning_without_a_remedy(keys):
    assert warned(LARGE, **keys) == []


def test_no_more_than_three_of_a_kind():
    assert len(warned(LARGE, problems=[[1536, 3072, 4096 + 64 * i] for i in range(9)])) == 3


def test_a_config_is_named():
    configs = [{"name": "few", "when": {"m": [1, 2000]}}, {"name": "rest", "cluster": [2, 1]}]
    (text,) = warned(LARGE, configs=configs, problems=[[1536, 3072, 4096]])
    assert text.startswith("config few, problem 1536x3072x4096: ")


def test_build_prints_them_and_succeeds(tmp_path, capsys):
    (tmp_path / "g.yaml").write_text(yaml.safe_dump(LARGE | {"problems": [[1536, 3072, 4096]]}))
    with pytest.raises(SystemExit) as ended:
        main(["build", str(tmp_path / "g.yaml"), "-o", str(tmp_path / "out")])
    assert ended.value.code == 0 and "mmagen: g: warning: problem 1536x3072x4096: 144 CTAs' work" in capsys.readouterr().err
