"""The registry of MMA operations: complete, each layout proved, and the ways to find an operation."""

from __future__ import annotations

from collections import Counter

import pytest

from mmagen.errors import UsageError
from mmagen.registry import find, nearest, operations, select


def test_every_operation_of_cutlass_4_2_is_there_once():
    assert len({operation.name for operation in operations()}) == len(operations()) == 2397
    assert Counter((operation.family, operation.kind, operation.sparse) for operation in operations()) == {
        ("SM61", "fma", False): 2, ("SM70", "mma.sync", False): 8, ("SM75", "mma.sync", False): 2,
        ("SM80", "mma.sync", False): 65, ("SM89", "mma.sync", False): 8, ("SM90", "mma.sync", False): 6,
        ("SM90", "wgmma", False): 1056, ("SM90", "wgmma", True): 1056, ("SM100", "fma", False): 2,
        ("SM100", "tcgen05", False): 24, ("SM100", "tcgen05", True): 12, ("SM103", "tcgen05", False): 2,
        ("SM120", "mma.sync", False): 77, ("SM120", "mma.sync", True): 77}


@pytest.mark.parametrize(("written", "meant"), [
    ("SM90_64x8x16_F16F16F16_SS", "SM90_64x8x16_F16F16F16_SS"),
    ("cute::SM90::GMMA::MMA_64x8x16_F16F16F16_SS", "SM90_64x8x16_F16F16F16_SS"),
    ("SM90_64x8x16_F16F16F16_SS<GMMA::Major::K, GMMA::Major::MN>", "SM90_64x8x16_F16F16F16_SS"),
    ("GMMA_64x8x32_F16F16F16_SS", "SM90::GMMA::SPARSE::GMMA_64x8x32_F16F16F16_SS"),
    ("SM120_16x8x32_TN< float_e2m1_t, float_e3m2_t, float >", "SM120_16x8x32_TN<float_e2m1_t,float_e3m2_t,float>"),
])
def test_names_are_found_however_they_are_qualified(written, meant):
    assert find(written).name == meant


def test_a_wrong_name_is_told_the_nearest():
    with pytest.raises(UsageError, match="perhaps you meant SM80_16x8x16_F32F16F16F32_TN"):
        find("sm80_16x8x16_f32f16f16f32_tn")
    assert nearest("SM90_64x128x16_F32F16F16_SR")[0].startswith("SM90_64x128x16_F32F16F16_")


def test_a_target_runs_what_it_can():
    hopper = select(target="sm_90a")
    assert len(hopper) == 2 + 8 + 2 + 65 - 3 + 8 + 6 + 2 * 1056  # without XORPOPC, which ends with sm_89
    assert [operation.name for operation in hopper if operation.broken] == ["SM61_DP2A"]
    assert {operation.family for operation in select(target="sm_80")} == {"SM61", "SM70", "SM75", "SM80"}
    assert not any(operation.kind == "wgmma" for operation in select(target="sm_100a"))
    assert not select(target="sm_120", family="SM120") and len(select(target="sm_120a", family="SM120")) == 154
