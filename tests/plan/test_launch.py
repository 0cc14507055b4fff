"""Launches: grids, waves, occupancy and traffic computed by hand, and as the schedulers have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mmagen.build import registers
from mmagen.build.job import BuildResult
from mmagen.build.log import KernelInfo
from mmagen.cli.commands import commands
from mmagen.cli.verbs.descriptions import DEVICE_NAMES
from mmagen.core.errors import UsageError
from mmagen.families import family_of, plan
from mmagen.generate.render import render
from mmagen.inspect.page import inspect
from mmagen.plan.devices import DEVICES, NAMES, device_for
from mmagen.plan.launch import launch, occupancy, roofline
from mmagen.spec.load import load
from mmagen.spec.model import Problem, Spec

SPECS = Path(__file__).resolve().parents[2] / "specs"
H200, A100 = (next(one for one in DEVICES if one.name == name) for name in ("h200", "a100"))
LARGE = {
    "mmagen": 1,
    "name": "g",
    "kernel": "gemm",
    "atom": "SM90_64x256x16_F32BF16BF16_SS",
    "tile": [128, 256, 64],
    "atoms_layout": [2, 1, 1],
    "cluster": [2, 1],
    "epilogue": {"out": "bf16"},
}


def planned(name: str):
    path = SPECS / f"{name}.yaml"
    return plan(load(path.read_bytes(), path.name).spec)


def like(**keys):
    return plan(Spec.model_validate(LARGE | keys))


def test_a_grid_of_tiles():
    it = launch(planned("sm80_gemm_classic"), Problem(shape=(1000, 1000, 1000), batch=2, beta=1.0), A100, 2)
    assert (it.tiles, it.ctas, it.work, it.at_once, it.k_tiles) == ((8, 8, 2), 128, 128, 216, 32)
    assert (it.waves, it.tail, it.busy) == (1, 128 / 216, 128 / 216)
    assert it.flop == 2 * 1000**3 * 2
    assert it.dram == 2 * (1000 * 1000 * 2) * 4  # A, B, C and D, f16
    assert it.l2 == 2 * (1000 * 1000 * 2) * (8 + 8)  # A for each column of tiles, B for each row


def test_matrices_that_a_batch_shares_are_read_once():
    shape, it = (512, 512, 512), planned("sm80_gemm_classic")
    own = launch(it, Problem(shape=shape, batch=4), A100, 2)
    shared = launch(it, Problem(shape=shape, batch=4, batch_stride_b=0), A100, 2)
    assert own.dram - shared.dram == 3 * 512 * 512 * 2 and own.l2 == shared.l2


def test_bytes_are_those_of_matrices_as_they_are_stored():
    """Of a sparse A half and two bits for each kept element, of 4-bit weights a byte for two and their scales, of gated columns one
    of two, and what the epilogue adds to or reads: never more than a kernel moves, or the least time is none."""
    m, n, k = 256, 512, 1024

    def dram(name: str, **keys) -> int:
        it = next(iter(planned(name).by_config.values()))
        return launch(it, Problem(shape=(m, n, k), **keys), H200, 1).dram

    assert dram("sm90_gemm_sparse_bf16") == m * k + m * k // 2 * 2 // 8 + (n * k + m * n) * 2
    assert dram("sm80_gemm_sparse_tf32") == m * k // 2 * 4 + m * k // 2 * 4 // 8 + (n * k + m * n) * 4
    assert dram("sm90_gemm_s4_bf16") == m * k * 2 + n * k // 2 + n * k // 128 * 2 + m * n * 2
    assert dram("sm80_gemm_s4") == (m + n) * k // 2 + m * n * 4
    assert dram("sm90_gemm_e4m3_blocks") == (m + n) * k + (m + n // 128) * k // 128 * 4 + m * n * 2
    assert dram("sm90_gemm_bf16_swiglu") == (m + n) * k * 2 + n * 4 + m * n // 2 * 2
    assert dram("sm90_gemm_bf16_sums") == (m + n) * k * 2 + m * 2 + 2 * (m + n) * 4 + m * n * 2
    batched = 3 * (m * k + m * k // 8 + (n * k + m * n) * 2)
    assert dram("sm90_gemm_sparse_bf16", batch=3) == batched
    sparse = next(iter(planned("sm90_gemm_sparse_bf16").by_config.values()))
    of = launch(sparse, Problem(shape=(m, n, k)), H200, 1)
    (across, along), tile = sparse.cluster_of_d, sparse.tile_of_d
    tiles_m, tiles_n = -(-m // (tile[0] * across)), -(-n // (tile[1] * along))
    assert of.l2 == m * k * tiles_n + n * k * 2 * tiles_m


def test_each_group_counts_with_its_own_extents():
    it = planned("sm90_gemm_e4m3_pointers")
    shapes = [(70, 272, 144), (0, 64, 64), (200, 33, 80), (64, 16, 0), (1, 130, 272)]
    found = launch(it, Problem.model_validate({"shape": [200, 272, 272], "groups": shapes}), H200, 1)
    assert found.flop == 2 * sum(m * n * k for m, n, k in shapes)
    tile_m, tile_n, tile_k = it.tile_of_d
    tiles = sum(-(-m // tile_m) * -(-n // tile_n) for m, n, _ in shapes)
    assert found.tiles == (tiles, 1, 1) and found.k_tiles == -(-272 // tile_k)
    own = sum((m * k + n * k + m * n * it.epilogue.out.bytes) * (m > 0) for m, n, k in shapes)
    scales = sum((m + -(-n // 128)) * -(-k // 128) * 4 * (m > 0) for m, n, k in shapes)
    bias = sum(n * 2 * (m > 0) for m, n, _ in shapes)
    assert found.dram == own + scales + bias + 4 * len(shapes)
    across, along = it.cluster_of_d
    clusters = sum(-(-m // (tile_m * across)) * -(-n // (tile_n * along)) for m, n, _ in shapes)
    assert found.work == clusters * across * along


def test_no_group_with_rows_is_a_launch_too():
    found = launch(
        planned("sm90_gemm_e4m3_pointers"), Problem.model_validate({"shape": [1, 8, 8], "groups": [[0, 8, 8]]}), H200, 1
    )
    assert (found.flop, found.k_tiles, found.work) == (0, 0, 1)


def test_waves_and_the_last_one():
    it = like()
    first = launch(it, Problem(shape=(128 * 12, 256 * 11, 64)), H200, 1)
    assert (first.work, first.at_once, first.waves, first.tail, first.busy) == (132, 132, 1, 1.0, 1.0)
    more = launch(it, Problem(shape=(128 * 12, 256 * 12, 64)), H200, 1)
    assert (more.work, more.waves) == (144, 2) and more.tail == pytest.approx(12 / 132) and more.busy == 144 / 264
    assert (first.ctas, more.ctas) == (132, 132), "persistent: no more CTAs than run at once"


def test_a_partial_cluster_counts():
    it = launch(like(), Problem(shape=(128, 2560, 4096)), H200, 1)
    assert (it.tiles[:2], it.work) == ((1, 10), 20)
    assert it.l2 == 128 * 4096 * 2 * 10 + 2560 * 4096 * 2, "both rows of a cluster load B once"


@pytest.mark.parametrize("name", [path.stem for path in sorted(SPECS.glob("sm[89]*_gemm*.yaml"))])
def test_work_is_that_of_the_schedulers(name):
    """work_of_a_cta is what the emulator's device is set up by."""
    for it in planned(name).kernels:
        for problem in (Problem(shape=(100, 300, 70)), Problem(shape=(4096, 4096, 4096), batch=3)):
            found = launch(it, problem, H200, 1)
            group = it.scheduler.cluster_ctas
            tiles, k_tiles = it.work_of_a_cta(problem, found.at_once // group)
            whole_tiles = tiles - it.scheduler.shares_last_wave
            if it.scheduler.workspace_splits == 0:  # the emulator's device is set up for any number of parts
                assert found.waves <= whole_tiles and found.k_tiles <= k_tiles
            else:
                assert (found.waves, found.k_tiles) == (whole_tiles, k_tiles)
            assert found.work % group == 0


def test_occupancy_and_what_limits_it():
    """Shared memory: (166,912 + 1,024) / (49,152 + 1,024). 214 registers are allocated as 216: 65,536 / (216 * 128)."""
    classic = planned("sm80_gemm_classic")
    it = occupancy(classic, 214)
    assert (it.by_smem, it.by_threads, it.by_registers, it.ctas, it.limiter) == (3, 16, 2, 2, "registers")
    assert occupancy(classic, 100).limiter == "shared memory" and occupancy(classic, 100).ctas == 3
    both = occupancy(classic, 168)
    assert (both.by_registers, both.limiter) == (3, "shared memory and registers")


@pytest.mark.parametrize(("arch", "most"), [("sm_80", 32), ("sm_86", 16), ("sm_89", 24)])
def test_an_sm_holds_a_number_of_ctas_however_small_they_are(arch: str, most: int):
    """One warp each: 2,048 or 1,536 threads would leave room for 64 or 48."""
    small = Spec.model_validate(
        {
            "mmagen": 1,
            "name": "g",
            "kernel": "gemm",
            "atom": "SM80_16x8x16_F32F16F16F32_TN",
            "tile": [16, 16, 16],
            "stages": 2,
            "arch": [arch],
        }
    )
    it = occupancy(plan(small), 24)
    assert it.by_threads > it.by_count == most and (it.ctas, it.limiter) == (most, "their number")


def test_registers_are_bounded_by_the_launch_bounds():
    """ctas_per_sm: 2 leaves 65,536 / (2 * 128) to a thread, and ptxas spills what is more."""
    classic = planned("sm80_gemm_classic").spec
    it = plan(classic.model_copy(update={"ctas_per_sm": 2}))
    assert occupancy(it, 300).registers == 256 and occupancy(it, 300).by_registers == 2


def test_the_roofline():
    it = launch(like(), Problem(shape=(8192, 8192, 8192)), H200, 1)
    least = roofline(it, H200, 4096)
    assert least.compute == pytest.approx(2 * 8192**3 / 989.4e12 * 1e6, rel=1e-3) and least.bound == "tensor cores"
    assert least.dram == pytest.approx(3 * 8192 * 8192 * 2 / 4800e9 * 1e6)
    thin = roofline(launch(like(), Problem(shape=(16, 8192, 8192)), H200, 1), H200, 4096)
    assert thin.bound == "DRAM" and thin.least == thin.dram
    assert roofline(it, H200, None).bound == "DRAM"


def test_the_roofline_of_scalar_fma():
    """2 x 4096^3 operations at 19.5 TFLOPS, which is 128 per SM and cycle."""
    keys = {"atom": "UniversalFMA<float>", "tile": [64, 64, 16], "atoms_layout": [8, 16, 1], "cluster": None, "epilogue": {}}
    it = like(**keys, arch=["sm_80"], problems=[[4096, 4096, 4096]])
    (found,) = family_of(it).numbers(it, A100, {})
    least = roofline(found.launches[0][1], A100, found.per_cycle, found.unit)
    assert (found.per_cycle, least.bound) == (128, "FMA units")
    assert least.least == pytest.approx(2 * 4096**3 / 19.5e6, rel=0.001)


@pytest.mark.parametrize(
    ("arch", "asked", "name"),
    [
        (("sm_80",), None, "a100"),
        (("sm_90a",), None, "h200"),
        (("sm_80", "sm_90a"), None, "h200"),
        (("sm_86",), None, "h200"),
        (("sm_75",), None, "t4"),
        (("sm_75",), "v100", None),
        (("sm_75",), "h100", "h100"),
        (("sm_90a",), "a100", None),
        (("sm_100a",), None, None),
    ],
)
def test_the_device_of_a_launch(arch, asked, name):
    found = device_for(arch, asked)
    assert (found.name if found else None) == name


def test_every_problem_of_every_gemm_has_its_line():
    for path in SPECS.glob("*_gemm_*.yaml"):
        it = planned(path.stem)
        found = family_of(it).numbers(it, H200, {})
        assert sorted(p.text for one in found for p, _ in one.launches) == sorted(p.text for p in it.problems)


def kernel(config: str, arch: str, count: int, name: str = "gemm_kernel") -> KernelInfo:
    return KernelInfo(name, arch, count, 0, 0, 0, 0, f"void mmagen::v0_1::{name}<{config}::Config, (bool)1>(Params)")


def test_registers_of_ptxas_take_the_place_of_the_estimate(tmp_path, monkeypatch):
    monkeypatch.setenv("MMAGEN_CACHE_DIR", str(tmp_path))
    it = planned("sm80_gemm_classic")
    files = render(it)
    assert "registers    236 per thread, estimated" in inspect(it)
    done = BuildResult(
        it.name, tmp_path, True, ptxas=(kernel(it.name, "sm_80", 168), kernel(it.name, "sm_90", 90)), spec_sha=it.spec_sha
    )
    registers.keep(done, files)
    assert "registers    168 per thread, by ptxas" in inspect(it)
    assert "registers    90 per thread, by ptxas" in inspect(it, "h200")
    (tmp_path / "registers").rename(tmp_path / "elsewhere")
    assert "estimated" in inspect(it)
    registers.keep(done, files | {"src/sm80_gemm_classic.cu": b"edited"})
    assert "estimated" in inspect(it), "of other sources"
    next((tmp_path / "registers").iterdir()).write_text("[1")
    registers.keep(done, files | {"README.md": b"edited"})
    assert "168 per thread, by ptxas" in inspect(it), "of the same kernels"


def test_registers_of_a_library_are_those_of_its_configs(tmp_path, monkeypatch):
    monkeypatch.setenv("MMAGEN_CACHE_DIR", str(tmp_path))
    it = planned("sm90_gemm_tf32")
    kernels = (
        kernel(f"{it.name}::mid", "sm_90a", 150, "sm90_kernel"),
        kernel(f"{it.name}::large", "sm_90a", 168, "sm90_kernel"),
        kernel(f"{it.name}::large", "sm_90a", 255, "sm90_unaligned_kernel"),
        kernel(f"{it.name}::mid", "sm_90a", 254, "sm90_few_rows_kernel"),
    )
    registers.keep(BuildResult(it.name, tmp_path, True, ptxas=kernels, spec_sha=it.spec_sha), render(it))
    text = inspect(it)
    assert (
        "150 per thread, by ptxas" in text
        and "168 per thread, by ptxas" in text
        and "255 per" not in text
        and "254 per" not in text
    )


def test_a_device_that_cannot_run_it_is_refused():
    with pytest.raises(UsageError, match="compiled for sm_90a and does not run on a100"):
        inspect(like(), "a100")


def test_the_command_line_names_every_device():
    assert DEVICE_NAMES == NAMES


def test_numbers_as_json():
    done = CliRunner().invoke(
        commands, ["inspect", str(SPECS / "sm90_gemm_tf32.yaml"), "--json", "--device", "h100"], standalone_mode=False
    )
    numbers = json.loads(done.stdout)["numbers"]
    assert [one["kernel"] for one in numbers] == ["mid", "large"] and numbers[0]["device"] == "h100"
    last = numbers[1]["launches"][-1]
    assert last["problem"] == "8192x8192x8192" and last["waves"] == 16 and last["bound_by"] == "tensor cores"
    assert last["least_us"] == pytest.approx(2 * 8192**3 / 494.7e6, rel=1e-3)
