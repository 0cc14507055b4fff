"""The predicted time: C++ and Python agree, it is safe for any extents, and it behaves as kernels do."""

from __future__ import annotations

import math
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mmagen.core.templates import templates_folder
from mmagen.plan.cost import Call, KernelShape, predicted_us, schedule
from mmagen.spec.cost import Cost

COST = Cost(
    ctas=132,
    launch_us=2,
    overlap_us=0.5,
    tile_us=0.4,
    store_pitch=0.1,
    odd_store_us=0.7,
    k_tile_us=0.15,
    throttle=0.3,
    fixed_part=0.2,
    line_ns=1.5,
    dram_tbps=4.2,
    dram_spread=0.3,
    dram_rows=0.4,
    dram_columns=0.2,
    store_tbps=5,
    l2_tbps=12,
    l2_spread=0.4,
    l2_pitch=0.2,
    l2_odd_pitch=0.8,
    l2_ragged=0.1,
    fixup_us=1.5,
    part_us=0.1,
    fixup_tbps=3,
)
KERNEL = KernelShape((128, 128, 64), (1, 1), 1, -1, 0, (2, 2, 2))

PROGRAM = """\
#include "predicted_time.cuh"
#include <cstdio>
#include <vector>
int main() {
  mmagen::KernelShape k{};
  mmagen::Cost c{};
  double m, n, of_k, batch, pitch_a, pitch_b, pitch_d;
  int stream_k = 0, along = 0, widths = 0;
  while (std::scanf("%lf%lf%lf%lf%lf%lf%d%d%lf%lf%lf%d%d", &k.tile_m, &k.tile_n, &k.tile_k, &k.cluster_m, &k.cluster_n,
                    &k.split_k, &k.workspace_splits, &stream_k, &k.bytes_a, &k.bytes_b, &k.bytes_d, &along, &widths) == 13) {
    k.stream_k = stream_k;
    std::vector<double> extents(widths);
    for (double& extent : extents) {
      if (std::scanf("%lf", &extent) != 1) { return 1; }
    }
    double* const values = &c.ctas;
    for (int i = 0; i < 23; ++i) {
      if (std::scanf("%lf", values + i) != 1) { return 1; }
    }
    if (std::scanf("%lf%lf%lf%lf%lf%lf%lf", &m, &n, &of_k, &batch, &pitch_a, &pitch_b, &pitch_d) != 7) { return 1; }
    mmagen::CallShape const p = mmagen::call_shape(k, m, n, of_k, batch, pitch_a, pitch_b, pitch_d);
    mmagen::TimedKernel const whole(k, c);
    std::vector<mmagen::TimedKernel> narrower;
    for (double extent : extents) { narrower.push_back(along == 0 ? whole.with_rows(extent) : whole.with_columns(extent)); }
    mmagen::TimedKernel const& timed = mmagen::of_call(whole, narrower.data(), widths, p);
    mmagen::Demand const asked = mmagen::demand(timed, p);
    double const us = mmagen::predicted_us(timed, p, asked, INFINITY, true);
    double const alone = mmagen::predicted_us(timed, p, asked, INFINITY, false);
    std::printf("%.17g %.17g", us, alone);
    for (int part = 1; part < 8; ++part) {
      std::printf(" %.17g", mmagen::predicted_us(timed, p, asked, 0.25 * part * us, true) / us);
    }
    for (int part = 1; part < 8; ++part) {
      std::printf(" %.17g", mmagen::predicted_us(timed, p, asked, 0.25 * part * alone, false) / alone);
    }
    std::puts("");
  }
}
"""


def fields_of(kernel: KernelShape) -> tuple[float, ...]:
    """As PROGRAM reads them."""
    shares = (kernel.split_k, kernel.workspace_splits, kernel.stream_k)
    return (*kernel.tile, *kernel.cluster, *shares, *kernel.bytes, kernel.along, len(kernel.widths), *kernel.widths)


def drawn(dice: random.Random) -> tuple[KernelShape, Cost, Call]:
    stream_k = dice.choice([0, 0, 0, 1, 2])
    workspace_splits = -1 if stream_k else dice.choice([-1, -1, 0, 3, 64])
    tile = (dice.choice([64, 128, 192, 256]), dice.choice([16, 32, 96, 128, 256]), dice.choice([32, 64, 128]))
    along = dice.choice([0, 1])
    widths = [*range(8, tile[along], 8)]
    kernel = KernelShape(
        tile=tile,
        cluster=dice.choice([(1, 1), (2, 1), (1, 2), (2, 2)]),
        split_k=1 if stream_k else dice.choice([1, 1, 2, 4]),
        workspace_splits=workspace_splits,
        stream_k=stream_k,
        bytes=dice.choice([(2, 2, 2), (1, 1, 2), (4, 4, 4)]),
        by_waves=stream_k == 0 and workspace_splits < 0,
        widths=tuple(sorted(dice.sample(widths, dice.choice([0, min(3, len(widths)), len(widths)])))),
        along=along,
    )
    values = {name: value * dice.uniform(0.5, 2) for name, value in COST.model_dump().items()}
    cost = Cost(**values | {"ctas": dice.choice([1, 66, 120, 132, 264])})
    extents = [max(1, round(math.exp(dice.uniform(0, math.log(most))))) for most in (1e6, 1e6, 1e6, 50)]
    pitches = tuple(dice.choice([2, 16, 32, 64, 128, 1]) * dice.randint(1, 4000) for _ in range(3))
    return kernel, cost, Call(*extents, pitches=pitches)


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("predicted")
    (folder / "main.cpp").write_text(PROGRAM)
    headers = templates_folder() / "runtime" / "mmagen"
    compiler = shutil.which("g++") or "c++"
    subprocess.run([compiler, "-std=c++17", "-O2", "-I", headers, folder / "main.cpp", "-o", folder / "main"], check=True)
    return folder / "main"


def test_cxx_and_python_predict_the_same(program):
    dice = random.Random(7)
    cases = [drawn(dice) for _ in range(3000)]
    lines = [
        " ".join(
            map(
                repr,
                (
                    *fields_of(kernel),
                    *cost.model_dump().values(),
                    *(call.m, call.n, call.k, call.batch),
                    *call.pitches,
                ),
            )
        )
        for kernel, cost, call in cases
    ]
    done = subprocess.run([program], input="\n".join(lines), text=True, capture_output=True, check=True)
    found = [[float(value) for value in line.split()] for line in done.stdout.splitlines()]
    assert len(found) == len(cases)
    early, decided = 0, set()
    for case, (value, without, *limits) in zip(cases, found, strict=True):
        kernel, cost, call = case
        if kernel.widths:
            decided.add(kernel.of_call(cost.ctas, call).part < 1)
        assert value == pytest.approx(predicted_us(kernel, cost, call), rel=1e-6), case  # powers are f32 in C++
        assert without == pytest.approx(predicted_us(kernel.without_workspace, cost, call), rel=1e-6), case
        # With a limit that the time reaches: a lower bound that reaches it too. With a higher limit: the time.
        for limited in (limits[:7], limits[7:]):
            for part, ratio in zip((0.25, 0.5, 0.75, 1.0), limited, strict=False):
                assert part * (1 - 1e-12) <= ratio <= 1 + 1e-12, case
                early += ratio < 1 - 1e-9
            assert limited[4:] == [1.0] * 3, case
    assert early > 2 * len(cases), "limits are seen before the whole time is computed"
    assert decided == {False, True}


@pytest.mark.parametrize("kernel", [KERNEL, replace(KERNEL, widths=(72, 96))])
def test_the_largest_extents_overflow_nothing(program, kernel):
    cost = COST
    fields = (*fields_of(kernel), *cost.model_dump().values())
    line = " ".join(map(repr, (*fields, *(2**63 - 1,) * 4, *(2**64,) * 3)))
    value = float(subprocess.run([program], input=line, text=True, capture_output=True, check=True).stdout.split()[0])
    assert math.isfinite(value) and value > 1e30


def call(m: int, n: int, k: int, batch: int = 1) -> Call:
    return Call(m, n, k, batch, (2 * k, 2 * k, 2 * n))


def test_waves_are_those_of_the_real_grid():
    full, one_more = (
        schedule(KERNEL, 132, call(128 * 12, 128 * 11, 64)),
        schedule(KERNEL, 132, call(128 * 12 + 1, 128 * 11, 64)),
    )
    assert (full.waves, full.used) == (1, 1.0)
    assert (one_more.waves, one_more.used) == (2, 143 / 264)


def test_a_cluster_along_m_wastes_half_of_the_ctas_where_there_is_one_row_of_tiles():
    alone, pairs = KERNEL, KernelShape((128, 128, 64), (2, 1), 1, -1, 0, (2, 2, 2))
    wide = call(128, 128 * 132, 4096)
    assert schedule(pairs, 132, wide).waves == 2 * schedule(alone, 132, wide).waves
    slow = COST.model_copy(update={"k_tile_us": 2.0})  # limited by wgmma
    assert predicted_us(pairs, slow, wide) > 1.8 * predicted_us(alone, slow, wide)


def test_stream_k_shares_a_last_wave_that_is_less_than_two_thirds_full():
    stream = KernelShape((128, 128, 64), (1, 1), 1, -1, 1, (2, 2, 2))
    small, fuller = call(128 * 10, 128 * 14, 4096), call(128 * 10, 128 * 22, 4096)
    assert schedule(stream, 132, small).path == -(-140 * 64 // 132)
    assert schedule(stream, 132, fuller).path == 2 * 64
    assert schedule(stream, 132, call(128, 128, 131072)).joined == 128, "all clusters but one leave their sums to the last"
    always = KernelShape((128, 128, 64), (1, 1), 1, -1, 2, (2, 2, 2))
    assert schedule(always, 132, fuller).path == -(-220 * 64 // 132)


@pytest.mark.parametrize("splits", [3, 0])
def test_splits_shorten_the_path(splits):
    split = KernelShape((128, 128, 64), (1, 1), 1, splits, 0, (2, 2, 2))
    found = schedule(split, 132, call(256, 256, 65536))
    assert found.splits == splits or (splits == 0 and found.splits > 8)
    assert found.path == -(-1024 // found.splits) * found.waves


@pytest.mark.parametrize("change", ["k_tile_us", "launch_us", "tile_us"])
def test_a_larger_coefficient_never_makes_a_call_faster(change):
    larger = COST.model_copy(update={change: 2 * getattr(COST, change)})
    assert predicted_us(KERNEL, larger, call(4096, 4096, 4096)) > predicted_us(KERNEL, COST, call(4096, 4096, 4096))


def test_rows_beside_multiples_of_32_bytes_take_longer():
    even, odd = call(4096, 4096, 4096), Call(4096, 4096, 4096, 1, (8208, 8208, 8192))
    assert predicted_us(KERNEL, COST, odd) > 1.05 * predicted_us(KERNEL, COST, even)


def test_threads_store_d_where_tma_cannot_but_not_if_a_second_kernel_does():
    without = COST.model_copy(update={"odd_store_us": 0.0})

    def added(kernel: KernelShape, pitch_d: int) -> float:
        one = Call(256, 250, 65536, 1, (2 * 65536, 2 * 65536, pitch_d))
        return predicted_us(kernel, COST, one) - predicted_us(kernel, without, one)

    split = KernelShape((128, 128, 64), (1, 1), 1, 3, 0, (2, 2, 2))
    assert added(KERNEL, 502) == pytest.approx(COST.odd_store_us) and added(KERNEL, 528) == 0
    assert added(split, 502) == 0 and added(split.without_workspace, 502) == pytest.approx(COST.odd_store_us)


def test_empty_parts_of_tiles_slow_down_reading():
    few, narrow, full = call(8, 131072, 8192), call(131072, 8, 8192), call(128, 131072, 8192)
    for one, name in ((few, "dram_rows"), (narrow, "dram_columns")):
        without = COST.model_copy(update={name: 0.0})
        assert predicted_us(KERNEL, COST, one) > 1.1 * predicted_us(KERNEL, without, one), name
        assert predicted_us(KERNEL, COST, full) == predicted_us(KERNEL, without, full), name


def test_a_call_takes_the_narrowest_tile_that_adds_no_wave():
    fitting = replace(KERNEL, widths=(72, 96, 112))

    def width(m: int, n: int, kernel: KernelShape = fitting, batch: int = 1) -> int:
        return kernel.of_call(132, call(m, n, 4096, batch)).tile[1]

    assert width(128 * 12, 112 * 11) == 112, "132 tiles"
    assert width(128 * 12, 112 * 11 + 1) == 128
    assert width(128 * 12, 96 * 11) == 96 and width(128 * 12, 96 * 11, replace(fitting, cluster=(2, 1))) == 96
    assert width(128 * 12, 500) == 72, "6 or 7 of 12 x 11 tiles"
    assert width(128 * 13, 96 * 10) == 96, "13 x 8 whole tiles are a wave, and so are 13 x 10"
    assert width(128, 72 * 11, batch=12) == 72
    assert width(128 * 132, 128 * 9) == 128, "nine whole waves"
    assert width(128 * 132, 96 * 40) == 128, "30 waves, of which narrower tiles would be more"
    along_m = replace(fitting, along=0)
    assert along_m.of_call(132, call(112 * 11, 128 * 12, 4096)).tile == (112, 128, 64)


def test_where_clusters_share_the_k_of_a_tile_narrower_ones_are_no_more_tiles():
    split = replace(KERNEL, widths=(72, 96, 112), workspace_splits=0, by_waves=False)
    one = call(1536, 280, 65536)
    assert split.of_call(132, one).tile[1] == 96 and split.without_workspace.of_call(132, one).tile[1] == 96, "three tiles"
    assert replace(split, by_waves=True).of_call(132, one).tile[1] == 72


def test_a_narrower_tile_takes_its_part_of_the_time():
    limited = COST.model_copy(update={"k_tile_us": 1.0, "throttle": 0.0})  # by wgmma
    one, whole = call(128 * 12, 96 * 11, 65536), call(128 * 12, 128 * 11, 65536)
    fitting = replace(KERNEL, widths=(96,))
    ratio = predicted_us(fitting, limited, one) / predicted_us(KERNEL, limited, whole)
    assert ratio == pytest.approx(0.2 + 0.8 * 96 / 128, rel=0.01)


def test_each_part_of_k_takes_time_in_the_second_kernel():
    split = KernelShape((64, 64, 64), (1, 1), 1, 40, 0, (2, 2, 2))
    without = COST.model_copy(update={"part_us": 0.0})
    one = call(64, 64, 65536)
    assert predicted_us(split, COST, one) - predicted_us(split, without, one) == pytest.approx(40 * COST.part_us)


def test_power_slows_down_long_calls_only():
    limited = COST.model_copy(update={"k_tile_us": 1.0})  # by wgmma
    without = limited.model_copy(update={"throttle": 0.0})
    short, long = (
        predicted_us(KERNEL, limited, one) / predicted_us(KERNEL, without, one)
        for one in (call(1024, 1024, 1024), call(8192, 8192, 8192))
    )
    assert short < 1.03 and 1.2 < long < 1 + COST.throttle


def test_costs_of_earlier_versions_lack_some_coefficients():
    lacking = dict.fromkeys(("odd_store_us", "throttle", "fixed_part", "dram_rows", "dram_columns", "part_us"), 0)
    old = {name: value for name, value in COST.model_dump().items() if name not in lacking}
    assert Cost(**old).model_dump() == COST.model_dump() | lacking
