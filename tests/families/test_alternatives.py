"""What wgmma kernels have as alternatives: the rules may refuse a cluster or a split of one, but no tile."""

from __future__ import annotations

import pytest

from mmagen import families
from mmagen.core.errors import SpecFaults
from mmagen.families.wgmma.alternatives import EVERY, NARROWER, alternatives, several_widths, with_parts_of_k
from mmagen.spec.model import Spec

ATOMS = {
    "bf16": "SM90_64x128x16_F32BF16BF16_SS",
    "s8": "SM90_64x128x32_S32S8S8_SS_TN",
    "e4m3": "SM90_64x128x32_F32E4M3E4M3_SS_TN",
    "tf32": "SM90_64x128x8_F32TF32TF32_SS_TN",
}


@pytest.mark.parametrize("atom", ATOMS.values(), ids=ATOMS)
def test_no_tile_is_refused(atom):
    of_several = ({key: value for key, value in keys.items() if key != "clusters"} for keys in several_widths(atom, NARROWER))
    seen = {}
    for keys in (*alternatives(atom, EVERY), *of_several):
        if not {"cluster", "split_k", "stream_k"} & {*keys}:
            seen[str([keys["tile"], keys["atoms_layout"], keys.get("operands")])] = keys
    base = {"mmagen": 1, "name": "it", "kernel": "gemm", "layout": "TN"}
    assert len(seen) > 100
    for what, keys in seen.items():
        try:
            families.plan(Spec.model_validate(base | keys))
        except SpecFaults as error:
            pytest.fail(f"{what}: {error}")


def test_bands_make_the_tiles_that_run_at_once_almost_square():
    bands = {tuple(keys["tile"][:2]): keys.get("raster", 8) for keys in alternatives(ATOMS["bf16"], (64, 96, 128, 192, 256))}
    for (rows, columns), band in bands.items():
        high, wide = band * rows, 132 / band * columns
        if rows >= 128:
            assert 0.45 < high / wide < 2.2, (rows, columns, band)
    assert (bands[128, 256], bands[128, 192], bands[128, 128]) == (16, 16, 8)


def test_kernels_with_weights_have_parts_of_k():
    weights = {"type": "s4", "group": 128, "scale": "bf16"}
    base = {"mmagen": 1, "name": "it", "kernel": "gemm", "layout": "TN", "weights": weights}
    legal = set()
    for keys in with_parts_of_k("SM90_64x64x16_F32BF16BF16_RS", (128, 256), 4):
        try:
            plan = families.plan(Spec.model_validate(base | keys))
        except SpecFaults:
            continue
        assert plan.mainloop.weights.parts == keys["warpgroups"]
        legal.add((keys["tile"][1], keys["warpgroups"]))
    columns = {8, *(n for n in EVERY if n <= 64)}
    assert legal >= {(n, parts) for n in columns for parts in (2, 3)} | {(n, 4) for n in columns if n <= 32}
