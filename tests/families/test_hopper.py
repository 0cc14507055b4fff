"""plan for wgmma: the numbers of some tiles, by hand."""

from __future__ import annotations

import pytest

from mmagen.generate.render import render
from mmagen.plan.model import SmemCopy, Swizzle, Tma
from mmagen.spec.model import LAYOUTS, WGMMA_KEYS, Spec
from tests.support.wgmma_specs import FP8, LARGE, MMA_SYNC, NARROW, PINGPONG, SIMPLE, SPLIT, faults, planned


def test_the_large_tile():
    """128x256x64 for two warpgroups, B shared by two CTAs."""
    it = planned(LARGE)
    assert it.roles.schedule == "cooperative" and (it.roles.consumers, it.threads) == (2, 384)
    # 65536 / 384 registers are 168 in whole eights; 128 x 40 stay with the producer, 256 threads share the rest.
    assert (it.roles.producer_registers, it.roles.consumer_registers) == (40, (168 * 384 - 40 * 128) // 256) == (40, 232)
    assert (it.stages, it.epilogue.slice, it.epilogue.smem_bytes) == (4, 64, 8 * 2 * 16 * 64 * 2)
    assert it.smem_bytes == 4 * (128 + 256) * 64 * 2 + 32768 + 1024 == 230400
    assert (it.operand("A").tma, it.operand("B").tma) == (Tma(128, 1, 128, 1, "kNormal"), Tma(128, 1, 128, 1, "kNormal"))
    assert it.operand("A").swizzle == Swizzle(3, 3, 3) and it.operand("A").gmem_copies == ()
    assert it.scheduler.raster_group == 4 and it.arch == ("sm_90a",) and it.scheduler.persistent and not it.mainloop.promote


def test_the_large_tile_in_other_layouts():
    it = planned(LARGE, layout="NT")
    assert it.atom.cxx == ("cute::SM90_64x256x16_F32BF16BF16_SS<cute::SM90::GMMA::Major::MN, cute::SM90::GMMA::Major::MN>")
    # A panel is 64 elements of M (N) wide and 64 lines of K long, of which two CTAs load half each.
    assert (it.operand("A").tma, it.operand("B").tma) == (Tma(128, 2, 64, 1, "kNormal"), Tma(128, 4, 32, 1, "kNormal"))
    rs = planned(LARGE, atom="SM90_64x128x16_F32BF16BF16_RS", tile=[128, 128, 64], layout="NN")
    assert rs.atom.cxx.endswith("<cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::K>"), "in registers there is one order"
    assert (
        rs.operand("A").smem_copy == SmemCopy(matrices=4, transposed=True)
        and rs.operand("B").smem_copy is None
        and rs.fragment_registers == 64 * 64 // 128 // 2
    )


def test_a_line_does_not_reach_into_the_next_atom():
    it = planned(
        LARGE, atom="SM90_64x24x16_F32BF16BF16_SS", tile=[64, 96, 64], atoms_layout=[1, 1, 1], layout="TT", cluster=None
    )
    assert it.operand("B").tma == Tma(16, 12, 64, 1, "kNormal"), "96 elements are 64-byte lines, but an atom has 24"


def test_boxes_are_whole_swizzles_of_at_most_256_lines():
    it = planned(
        LARGE,
        atom="SM90_64x120x16_F32BF16BF16_SS",
        tile=[64, 360, 16],
        atoms_layout=[1, 3, 1],
        cluster=None,
        schedule="cooperative",
    )
    assert it.operand("B").tma == Tma(32, 1, 120, 3, "kNormal")


def test_schedules_and_their_registers():
    assert planned(SIMPLE).roles.schedule == "warpgroup" and planned(SIMPLE).threads == 128
    assert planned(SIMPLE).roles.consumer_registers == 0 and planned(SIMPLE).roles.usable_registers == 255
    three = planned(PINGPONG, warpgroups=3, atom="SM90_64x128x16_F32BF16BF16_SS", tile=[64, 128, 64])
    assert (three.roles.consumers, three.threads) == (3, 512)
    assert (three.roles.producer_registers, three.roles.consumer_registers) == (32, 160)
    one = planned(SIMPLE, schedule="cooperative")
    assert one.threads == 256 and one.roles.consumer_registers == 0, "256 threads have 255 registers each anyway"
    assert planned(SPLIT).scheduler.persistent is False and planned(PINGPONG).scheduler.persistent is True


@pytest.mark.parametrize(
    ("split_k", "cluster", "in_cluster", "through_workspace"),
    [
        (None, None, 1, None),
        (1, None, 1, None),
        (8, [2, 1], 8, None),
        (8, [2, 2], 1, 8),
        (3, None, 1, 3),
        (16, None, 1, 16),
        (1000, [2, 1], 1, 1000),
        ("auto", [1, 2], 1, 0),
    ],
)
def test_parts_of_k_are_summed_in_a_cluster_that_fits_them_and_else_through_a_workspace(
    split_k, cluster, in_cluster, through_workspace
):
    plan = planned(SPLIT, split_k=split_k, cluster=cluster)
    scheduler = plan.scheduler
    assert (scheduler.split_k, scheduler.workspace_splits) == (in_cluster, through_workspace)
    assert plan.sums_in_workspace == (through_workspace is not None) and not plan.leaves_flags
    assert scheduler.persistent == (in_cluster == 1)


@pytest.mark.parametrize(
    ("stream_k", "scheduler"),
    [("last_wave", "StreamKTileScheduler<Config, false>"), ("always", "StreamKTileScheduler<Config, true>")],
)
def test_last_waves_are_shared_however_full_they_are_only_where_the_spec_says_so(stream_k, scheduler):
    it = planned(LARGE, stream_k=stream_k)
    assert it.sums_in_workspace and it.leaves_flags and it.most_launches == 2, "copies of operands may come first"
    assert f"using TileScheduler = mmagen::{scheduler};" in render(it)["include/g/config.cuh"].decode()


SWAPPED = SIMPLE | {"atom": "SM90_64x16x16_F32BF16BF16_SS", "tile": [64, 16, 64], "schedule": "cooperative"}
SWAPPED |= {"operands": "swapped"}


@pytest.mark.parametrize(("layout", "computed"), [("TN", "TN"), ("NN", "TT"), ("TT", "NN"), ("NT", "NT")])
@pytest.mark.parametrize("major", ["N", "M"])
def test_a_swapped_kernel_computes_the_transpose(layout, computed, major):
    cache = {"a": "evict_last", "b": "evict_first"}
    it = planned(SWAPPED, layout=layout, epilogue={"out": "bf16", "major": major}, cache=cache, cluster=[1, 2])
    a, b = it.operands
    assert ("K" if a.contiguous_k else "M", "K" if b.contiguous_k else "N") == LAYOUTS[computed]
    assert (a.extent_mn, b.extent_mn, a.tma.hint, b.tma.hint) == (64, 16, "kEvictFirst", "kEvictLast")
    assert it.majors == (*LAYOUTS[layout], major) and it.d_row_major == (major == "M")
    assert [it.operand(letter).letter for letter in "AB"] == ["A", "B"]
    assert (it.tile, it.tile_of_d, it.cluster_of_d) == ((64, 16, 64), (16, 64, 64), (2, 1))
    straight = planned(SWAPPED, layout=computed, operands=None, epilogue={"out": "bf16", "major": "NM"["NM".index(major) - 1]})
    assert (a.swizzle, a.smem_copy, it.smem_bytes) == (straight.operand("A").swizzle, None, straight.smem_bytes)
    assert it.epilogue.slice == straight.epilogue.slice


def test_a_call_of_a_swapped_kernel_has_the_types_in_order():
    it = planned(FP8 | SWAPPED, atom="SM90_64x16x32_F32E4M3E5M2_SS_TN", tile=[64, 16, 128])
    assert it.types == "e5m2 x e4m3 + f32 -> bf16" and "e5m2 x e4m3" in it.text.title
    assert [one.element.word for one in it.operands] == ["e4m3", "e5m2"]


@pytest.mark.parametrize(("operands", "major", "other"), [("in_order", "N", "M"), ("swapped", "M", "N")])
def test_a_slice_that_tma_cannot_store_is_named_as_the_spec_has_it(operands, major, other):
    """Eight e4m3 of a row of the kernel's D are 8 bytes."""
    document = NARROW | {"atom": "SM90_64x8x32_F16E4M3E4M3_SS_TN", "operands": operands}
    out = {"out": "e4m3", "major": major}
    found = faults(document | {"epilogue": out})
    assert [one.key for one in found] == [("epilogue",)] and f"epilogue.major {other}" in found[0].remedy
    assert dict(found[0].change)[("epilogue",)]["major"] == major
    assert planned(document, epilogue=out | {"major": other}).epilogue.major == other


def test_there_is_one_buffer_where_the_stages_of_the_spec_fit_only_then():
    """128 x 192 x 64 in bf16: a stage has 40,960 B, a slice of 64 rows and columns 8,192 B, and two warpgroups stage them."""
    tall = PINGPONG | {"atom": "SM90_64x192x16_F32BF16BF16_SS", "tile": [128, 192, 64], "atoms_layout": [1, 1, 1]}
    tall |= {"epilogue": {"out": "bf16"}}
    asked = (planned(tall), planned(tall, stages=4), planned(tall, stages=5))
    assert [(it.stages, it.epilogue.buffers) for it in asked] == [(4, 2), (4, 2), (5, 1)]
    assert {it.epilogue.slice for it in asked} == {64}
    (fault,) = faults(tall | {"stages": 6})
    assert dict(fault.change) == {("stages",): 5} and fault.remedy.startswith("at most 5")
    assert planned(PINGPONG, stages=2).epilogue == planned(PINGPONG).epilogue
    deep = {
        "atom": "SM90_64x192x16_F32BF16BF16_SS",
        "tile": [256, 192, 112],
        "atoms_layout": [2, 1, 1],
        "schedule": "cooperative",
    }
    it = planned(PINGPONG | deep | {"epilogue": {"out": "bf16"}})
    assert (it.stages, it.epilogue.buffers) == (2, 1), "beside two buffers a second stage does not fit"


def test_accumulators_may_exceed_the_registers_at_launch():
    """Only one wgmma must fit the 168 registers at launch: 88 for 176 columns, and 26."""
    tall = PINGPONG | {"atoms_layout": [1, 1, 1], "epilogue": {"out": "bf16"}}
    it = planned(tall, atom="SM90_64x176x16_F32BF16BF16_SS", tile=[128, 176, 64])
    assert it.roles.consumer_registers > 176 > 65536 // it.threads
    refused = faults(tall | {"atom": "SM90_64x200x16_F32BF16BF16_SS", "tile": [128, 200, 64]})
    assert any("200 registers per thread for accumulators and about 40" in one.what for one in refused if one.key == ("tile",))


def test_split_k_gives_every_cta_as_many_slices():
    assert planned(SPLIT).epilogue.slice == 64
    assert planned(SPLIT, split_k=8).epilogue.slice == 32, "four slices of 64 columns are not enough for eight CTAs"


def test_the_sha_of_other_kernels_knows_nothing_of_wgmma():
    dumped = Spec.model_validate(MMA_SYNC).model_dump(mode="json")
    assert not set(WGMMA_KEYS) & set(dumped)
    assert Spec.model_validate(SPLIT).model_dump(mode="json")["split_k"] == 2
