"""The registry of MMA operations: complete, each layout proved, and the ways to find an operation."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter

import pytest

from mmagen.core.errors import UsageError
from mmagen.mma import catalogue
from mmagen.mma.catalogue import Catalogue, find, nearest, operations, select


def test_every_operation_of_cutlass_4_2_is_there_once():
    assert len({operation.name for operation in operations()}) == len(operations()) == 2397
    assert Counter((operation.family, operation.kind, operation.sparse) for operation in operations()) == {
        ("SM61", "fma", False): 2,
        ("SM70", "mma.sync", False): 8,
        ("SM75", "mma.sync", False): 2,
        ("SM80", "mma.sync", False): 65,
        ("SM89", "mma.sync", False): 8,
        ("SM90", "mma.sync", False): 6,
        ("SM90", "wgmma", False): 1056,
        ("SM90", "wgmma", True): 1056,
        ("SM100", "fma", False): 2,
        ("SM100", "tcgen05", False): 24,
        ("SM100", "tcgen05", True): 12,
        ("SM103", "tcgen05", False): 2,
        ("SM120", "mma.sync", False): 77,
        ("SM120", "mma.sync", True): 77,
    }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("SM90_64x8x16_F16F16F16_SS", "SM90_64x8x16_F16F16F16_SS"),
        ("cute::SM90::GMMA::MMA_64x8x16_F16F16F16_SS", "SM90_64x8x16_F16F16F16_SS"),
        ("SM90_64x8x16_F16F16F16_SS<GMMA::Major::K, GMMA::Major::MN>", "SM90_64x8x16_F16F16F16_SS"),
        ("GMMA_64x8x32_F16F16F16_SS", "SM90::GMMA::SPARSE::GMMA_64x8x32_F16F16F16_SS"),
        ("SM120_16x8x32_TN< float_e2m1_t, float_e3m2_t, float >", "SM120_16x8x32_TN<float_e2m1_t,float_e3m2_t,float>"),
    ],
)
def test_names_are_found_however_they_are_qualified(written, meant):
    assert find(written).name == meant


def test_a_wrong_name_is_told_the_nearest():
    with pytest.raises(UsageError, match="did you mean SM80_16x8x16_F32F16F16F32_TN"):
        find("sm80_16x8x16_f32f16f16f32_tn")
    assert nearest("SM90_64x128x16_F32F16F16_SR")[0].startswith("SM90_64x128x16_F32F16F16_")


def test_a_target_runs_what_it_can():
    hopper = select(target="sm_90a")
    assert len(hopper) == 2 + 8 + 2 + 65 - 3 + 8 + 6 + 2 * 1056  # without XORPOPC, which ends with sm_89
    assert [operation.name for operation in hopper if operation.broken] == ["SM61_DP2A"]
    assert {operation.family for operation in select(target="sm_80")} == {"SM61", "SM70", "SM75", "SM80"}
    assert not any(operation.kind == "wgmma" for operation in select(target="sm_100a"))
    assert not select(target="sm_120", family="SM120") and len(select(target="sm_120a", family="SM120")) == 154


@pytest.mark.parametrize(
    ("name", "given", "cxx"),
    [
        ("SM80_8x8x4_F64F64F64F64_TN", {}, "cute::SM80_8x8x4_F64F64F64F64_TN"),
        ("SM90_64x8x32_S32S8S8_SS_TN", {}, "cute::SM90::GMMA::MMA_64x8x32_S32S8S8_SS_TN"),
        ("SM90_64x8x8_F32TF32TF32_SS_TN", {}, "cute::SM90::GMMA::MMA_64x8x8_F32TF32TF32_SS_TN<>"),
        (
            "SM90_64x8x16_F16F16F16_SS",
            {"tnspB": "MN"},
            "cute::SM90::GMMA::MMA_64x8x16_F16F16F16_SS<cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::MN>",
        ),
        (
            "SM120_16x8x32_TN<float_e2m1_t,float_e3m2_t,half_t>",
            {},
            "cute::SM120_16x8x32_TN<cute::float_e2m1_t, cute::float_e3m2_t, cute::half_t>",
        ),
        (
            "SM100_MMA_S8_SS",
            {"M": "64", "N": 8, "a_type": "uint8_t", "c_sat": "True"},
            "cute::SM100_MMA_S8_SS<uint8_t, int8_t, int32_t, 64, 8, cute::UMMA::Major::K, cute::UMMA::Major::K, "
            "cute::UMMA::Saturate::True>",
        ),
    ],
)
def test_types_are_spelled_with_the_arguments_that_they_need(name, given, cxx):
    assert find(name).cxx(**given) == cxx
    assert find(name).traits(**given) == f"cute::MMA_Traits<{cxx}>"


def test_traits_take_what_the_struct_does_not():
    operation = find("SM100_MMA_F8F6F4_SS")
    assert operation.cxx(M="64") == "cute::SM100_MMA_F8F6F4_SS"
    assert "cute::C<64>, cute::C<256>, cute::integral_constant<cute::UMMA::Major, cute::UMMA::Major::K>" in operation.traits(
        M="64"
    )


@pytest.mark.parametrize("given", [{"M": "65"}, {"tnspA": "K"}])
def test_wrong_arguments_are_refused(given):
    with pytest.raises(ValueError, match=r"cannot be 65|no template parameter tnspA"):
        find("SM100_MMA_S8_SS").cxx(**given)


def test_importing_what_builds_a_project_loads_no_operations():
    program = (
        "import mmagen.generate.render, mmagen.families.reading, mmagen.families.mma_gemm, mmagen.families.wgmma.gemm\n"
        "from mmagen.mma import catalogue; print(catalogue._catalogue.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_one_operation_is_made_without_the_others():
    data = json.loads(catalogue._DATA.read_text("utf-8"))
    one = Catalogue(data)
    found = one.named("SM90_64x128x16_F32BF16BF16_SS")
    assert found and len(one._made) == 1 and one.named("SM90_64x129x16_F32BF16BF16_SS") is None
    assert vars(found) == vars(find(found.name)) and one.operations[operations().index(find(found.name))] is found


def test_loading_everything_is_quick():
    times = []
    for _ in range(3):
        catalogue._catalogue.cache_clear()
        start = time.process_time()
        operations()
        times.append(time.process_time() - start)
    assert min(times) < 0.25  # 0.03 s on a quiet machine
