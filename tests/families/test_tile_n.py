"""Launches that compute a part of the columns of a tile: choices, code, grids, and what is refused with which remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import takewhile

import pytest

from mmagen.core.errors import ABSENT, SpecFaults
from mmagen.families import family_of, pipelines, plan
from mmagen.families.library import choose
from mmagen.families.wgmma.page import sections
from mmagen.generate.render import render
from mmagen.mma.atoms import find_atom, with_columns
from mmagen.plan.cost import Call, KernelShape
from mmagen.plan.devices import device_for
from mmagen.plan.launch import launch
from mmagen.plan.model import LaunchShape
from mmagen.plan.trials import WAVE
from mmagen.spec.load import UnreadableSpec, load
from mmagen.spec.model import Problem
from mmagen.tuning.candidates import Candidate, candidates, compiled_together, guess, library_of, prune
from mmagen.tuning.database import digest
from mmagen.tuning.kernels import as_configs
from mmagen.tuning.measure import Machine
from mmagen.tuning.problems import random_problems
from mmagen.tuning.tune import serialized
from tests.support.launched import COST, planned

MACHINE = Machine(132, {1: 132, 2: 66, 4: 30})


def text(launches: str, atom: str = "SM90_64x128x16_F32BF16BF16_SS", layout: str = "TN", tile: str = "[128, 128, 64]") -> str:
    """launches: `2x1 2x1n96 1x1n[96,112]`."""
    each = []
    for one in launches.split():
        cluster, _, columns = one.partition("n")
        tile_n = f"tile_n: {columns}, " if columns else ""
        each.append(f"{{cluster: [{cluster.replace('x', ', ')}], {tile_n}cost: {COST}}}")
    return (
        f"mmagen: 1\nname: lib\nkernel: gemm\natom: {atom}\nlayout: {layout}\ntile: {tile}\natoms_layout: [2, 1, 1]\n"
        f"epilogue: {{out: bf16}}\nconfigs:\n  - {{name: tile, schedule: cooperative, clusters: [{', '.join(each)}]}}\n"
    )


def test_every_width_is_a_choice_and_all_are_one_kernel():
    it = planned(text("2x1 2x1n96 1x1n104"))
    assert [one.name for one in it.configs] == ["tile_c2x1", "tile_c2x1_n96", "tile_c1x1_n104"]
    assert [one.plan.tile_of_d for one in it.configs] == [(128, 128, 64), (128, 96, 64), (128, 104, 64)]
    assert {one.kernel for one in it.configs} == {"tile"}
    files = render(it)
    launches = re.findall(r"Launch::kYes, \{ (\d), (\d), (\d+) \}", files["src/tile.cu"].decode())
    assert launches == [("2", "1", "128"), ("2", "1", "96"), ("1", "1", "104")]
    code = files["include/lib/tile.cuh"].decode()
    assert re.search(r"using MmaOps = cute::tuple<[^;]*64x128x16[^;]*64x104x16[^;]*64x96x16[^;]*>;", code)
    assert "kTileNAtLaunch = true" in code and "include/mmagen/sm90_mainloop_tile_n.cuh" in files
    # CuTe has wgmma of N 104 in headers that are not included; the project defines it.
    assert "struct SM90_64x104x16_F32BF16BF16_SS" in code and "struct SM90_64x96x16" not in code


def test_its_pages_are_of_its_mainloop():
    """README.md lists its header, after the one that it is built on; pictures show when its stages are free."""
    several, whole = planned(text("2x1 2x1n96")), planned(text("2x1 1x1"))
    listed = [path for path, _ in several.text.reading]
    place = listed.index("include/mmagen/sm90_mainloop_tile_n.cuh")
    assert listed[place - 1] == "include/mmagen/sm90_mainloop_ss.cuh" and listed.count(listed[place]) == 1
    assert "sm90_mainloop_tile_n.cuh" in render(several)["README.md"].decode()
    assert not any("tile_n" in path for path, _ in whole.text.reading)
    assert [one.late for _, one in pipelines(several)] == [one.late for _, one in pipelines(whole)] == [True, True]


def test_a_kernel_of_whole_tiles_has_none_of_it():
    files = render(planned(text("2x1 1x1")))
    assert "kTileNAtLaunch = false" in files["include/lib/tile.cuh"].decode()
    assert "include/mmagen/sm90_mainloop_tile_n.cuh" not in files


def test_only_the_widths_of_launches_are_compiled():
    code = render(planned(text("2x1n64 1x1n96")))["include/lib/tile.cuh"].decode()
    (operations,) = re.findall(r"using MmaOps = cute::tuple<(.*?)>;", code)
    assert re.findall(r"64x(\d+)x16", operations) == ["96", "64"]


def test_the_wgmma_of_whole_tiles_is_defined_where_no_launch_computes_these():
    """Its Config names the one of N 160, which CuTe has in headers that are not included."""
    of_160 = text("1x1n152 1x1n144", atom="SM90_64x160x16_F32BF16BF16_SS", tile="[128, 160, 64]")
    code = render(planned(of_160))["include/lib/tile.cuh"].decode()
    assert re.findall(r"struct SM90_64x(\d+)x16_F32BF16BF16_SS", code) == ["160", "152", "144"]


def test_a_launch_whose_calls_decide_is_one_choice():
    it = planned(text("2x1n[64,96] 1x1n[88,104] 1x1"))
    assert [one.name for one in it.configs] == ["tile_c2x1_fit", "tile_c1x1_fit", "tile_c1x1"]
    assert {one.plan.tile_of_d for one in it.configs} == {(128, 128, 64)}
    files = render(it)
    code = files["src/tile.cu"].decode()
    assert re.findall(r"kWidths\[\] = \{ ([\d, ]+) \}", code) == ["64, 96", "88, 104"]
    assert code.count("mmagen::with_narrowest<Config>(args, { 2, 1, 128 }, kWidths)") == 2, "run and can_run"
    (operations,) = re.findall(r"using MmaOps = cute::tuple<(.*?)>;", files["include/lib/tile.cuh"].decode())
    assert re.findall(r"64x(\d+)x16", operations) == ["128", "104", "96", "88", "64"]
    library = files["src/lib.cu"].decode()
    assert "kWhole_tile_c2x1_fit.with_columns(96)," in library
    swapped = render(planned(text("2x1n[64,96]").replace("schedule:", "operands: swapped, schedule:")))["src/lib.cu"].decode()
    assert "kWhole_tile_c2x1_fit.with_rows(96)," in swapped
    page = str(dict(sections(it.configs[0].plan)))
    assert "2 x 1 CTAs with 64, 96 or 128 columns of a tile, selected by each call, " in page
    alone = str(dict(sections(planned(text("2x1n[64,96]")).configs[0].plan)))
    assert "set at launch: 2 x 1 CTAs with 64, 96 or 128 columns of a tile, selected by each call; boxes" in alone


def test_what_a_call_launches_follows_from_its_waves():
    h200 = device_for(("sm_90a",), "h200")
    one = planned(text("2x1n[64,96]")).configs[0].plan
    fills = launch(one, Problem(shape=(256 * 6, 96 * 11, 4096)), h200, 1)
    assert (fills.tiles, fills.work, fills.ctas) == ((12, 11, 1), 132, 132)
    assert launch(one, Problem(shape=(256 * 6, 97 * 11, 4096)), h200, 1).tiles == (12, 9, 1), "whole tiles"


@pytest.mark.parametrize("split", ["", "split_k: auto, "])
@pytest.mark.parametrize("operands", ["", "operands: swapped, "])
@pytest.mark.parametrize("lists", ["2x1n[64,80,96] 1x2n[72,104]", "1x1n[8,96,104] 2x1n[96,112] 1x2n[104]", "1x1n[104,112,120]"])
def test_each_width_of_calls_has_a_problem_that_takes_it(lists, operands, split):
    it = planned(text(lists).replace("schedule:", f"{operands}{split}schedule:"))
    tried: set[int] = set()
    for config in it.configs:
        kernel = KernelShape.of(config.plan)
        own = set()
        for problem, _ in family_of(config.plan).trials(config.plan).cases:
            if problem.batch == 1:
                own.add(kernel.of_call(WAVE * kernel.group, Call.of(config.plan, problem)).tile[kernel.along])
        assert own & {*kernel.widths}, config.name
        tried |= own
    assert tried >= {width for config in it.configs for width in config.plan.scheduler.widths}


def test_the_choice_follows_the_width():
    """192 columns are two tiles of 96 and two of 128, of which a quarter is empty; 200 are two of 128 and three of 96."""
    slow = COST.replace("k_tile_us: 0.2", "k_tile_us: 0.26")
    it = planned(text("1x1n96 1x1").replace(f"cluster: [1, 1], cost: {COST}", f"cluster: [1, 1], cost: {slow}"))
    assert choose(it, Problem(shape=(8448, 192, 4096))).name == "tile_c1x1_n96"
    assert choose(it, Problem(shape=(8448, 200, 4096))).name == "tile_c1x1"


@pytest.mark.parametrize(
    ("written", "says", "nearest"),
    {
        "no such wgmma": (text("1x1 1x1n100"), "there is no SM90_64x128x16_F32BF16BF16_SS of that N", 96),
        "the whole tile": (text("1x1 1x1n128"), "the tile has no more than 128", 120),
        "shares of B": (text("2x1 2x1n104"), "each of 2 CTAs loads a share of B", 96),
        "four shares of B": (text("4x1 4x1n48"), "each of 4 CTAs loads a share of B", 32),
        "N contiguous": (text("1x1 1x1n96", layout="TT"), "B has N contiguous", 0),
        "of a list": (
            text("1x1 2x1n[96,104]"),
            "104 columns of a tile cannot be computed: each of 2 CTAs loads a share of B",
            [96],
        ),
        "a list without any": (text("1x1 2x1n[72,104]"), "each of 2 CTAs loads a share of B", [64, 96]),
        "a list with the whole tile": (
            text("1x1 1x1n[72,128]"),
            "the tile has 128 columns, and every call may compute all",
            [72],
        ),
        "several atoms": (
            text("1x1 1x1n96", atom="SM90_64x64x16_F32BF16BF16_SS"),
            "the tile has 128 columns, of several SM90_64x64x16_F32BF16BF16_SS",
            0,
        ),
    }.values(),
)
def test_a_width_that_no_launch_can_have_is_refused_with_the_nearest(written, says, nearest):
    spec = load(written, "lib.yaml").spec
    with pytest.raises(SpecFaults) as caught:
        plan(spec)
    faults = [one for one in caught.value.faults if one.key[-1] == "tile_n"]
    assert faults and says in faults[0].what
    assert (f"write {nearest}" in faults[0].remedy or f"e.g. {nearest}" in faults[0].remedy) == bool(nearest)
    # Its remedy is accepted.
    mended = re.sub(r"tile_n: (\d+|\[.*?\]), ", f"tile_n: {nearest}, " if nearest else "", written)
    if nearest:
        assert planned(mended).configs[1].name.endswith("_fit" if isinstance(nearest, list) else f"_n{nearest}")
    else:
        with pytest.raises(SpecFaults) as again:  # what is left are two equal launches
            plan(load(mended, "lib.yaml").spec)
        assert not any(one.key[-1] == "tile_n" for one in again.value.faults)


def test_a_list_of_widths_ascends():
    for wrong, says in {
        "[96,72]": "the numbers of columns do not ascend; write [72, 96]",
        "[72,72]": "the numbers of columns do not ascend; write [72]",
        "[]": "the list is empty",
        "[72,1.5]": "'1.5' is not an integer",
        "[4,72]": "4 is too small, the minimum is 8",
        "some": "'some' is neither an integer nor a list of integers",
        "264": "264 is too large, the maximum is 256",
    }.items():
        with pytest.raises(UnreadableSpec) as caught:
            load(text(f"1x1 1x1n{wrong}"), "lib.yaml")
        (found,) = caught.value.diagnostics
        assert f"clusters[1].tile_n: {says}" in str(found), found


def test_two_lists_for_a_cluster_are_one():
    written = text("1x1n[72,80] 1x1n[96,112] 2x1")
    with pytest.raises(SpecFaults) as caught:
        plan(load(written, "lib.yaml").spec)
    (fault,) = caught.value.faults
    assert "write one list, [72, 80, 96, 112]" in fault.remedy
    assert fault.change == {("configs", 0, "clusters", 0, "tile_n"): [72, 80, 96, 112], ("configs", 0, "clusters", 1): ABSENT}


def test_with_columns_keeps_all_but_the_columns():
    atom = find_atom("SM90_64x128x32_S32S8S8_SS_TN")
    narrow = with_columns(atom, 96)
    assert narrow.name == "SM90_64x96x32_S32S8S8_SS_TN" and (narrow.m, narrow.k, narrow.majors) == (64, 32, atom.majors)
    assert with_columns(atom, 104) is None, "integers have fewer widths"
    assert with_columns(atom, 260) is None


def test_tune_measures_each_launch_and_writes_them_back():
    it = load(text("2x1 2x1n96 1x1n104 1x1n[96,112]"), "lib.yaml").spec
    own = [*takewhile(lambda one: one.own, candidates(it))]
    ends = ("c2x1", "c2x1_n96", "c1x1_n104", "c1x1_fit")
    assert [one.name for one in own] == [f"coop_128x128x64_widths_{end}" for end in ends]
    assert [one.own for one in own] == [f"tile_{end}" for end in ends]
    assert {one.kernel for one in own} == {"coop_128x128x64_widths"}
    assert len({digest(one.plan) for one in own}) == 4, "they are measured apart"
    (config,) = as_configs(
        [(one.name, one.keys) for one in own], {one.name: one.kernel for one in own}, {one.name: {} for one in own}
    )
    assert [(one["cluster"], one.get("tile_n")) for one in config["clusters"]] == [
        ([2, 1], None),
        ([2, 1], 96),
        ([1, 1], 104),
        ([1, 1], [96, 112]),
    ]


def test_tune_tells_lists_of_widths_apart(monkeypatch):
    monkeypatch.setattr("mmagen.families.wgmma.gemm.EVERY", (128,))
    monkeypatch.setattr("mmagen.families.wgmma.gemm.NARROWER", {128: (72, 104, 112)})
    found = [*candidates(load(text("1x1n[96]"), "lib.yaml").spec)]
    lists = {one.name: one.plan.scheduler.widths for one in found if "coop_128x128x64_widths" in one.name}
    assert lists["coop_128x128x64_widths_c1x1_fit"] == (96,) and lists["coop_128x128x64_widths_2_c1x1_fit"] == (72, 104, 112)
    assert len({one.name for one in found}) == len(found)


@pytest.fixture
def offered(monkeypatch) -> Callable[..., dict[str, Candidate]]:
    """Candidates of a few tiles, by name, of a spec without configs."""
    monkeypatch.setattr("mmagen.families.wgmma.gemm.EVERY", (128,))
    monkeypatch.setattr("mmagen.families.wgmma.gemm.NARROWER", {128: (72, 104, 112), 192: (144,)})

    def of(atom: str = "SM90_64x128x16_F32BF16BF16_SS", layout: str = "TN", out: str = "bf16") -> dict[str, Candidate]:
        tile = "[64, 128, 128]" if "S8" in atom else "[64, 128, 64]"
        written = f"mmagen: 1\nname: it\nkernel: gemm\natom: {atom}\nlayout: {layout}\ntile: {tile}\nepilogue: {{out: {out}}}\n"
        return {one.name: one for one in candidates(load(written, "it.yaml").spec)}

    return of


def test_tune_offers_kernels_of_several_widths_beside_those_of_one(offered):
    found = offered()
    assert found["ping_64x128x64_c1x1"].plan.scheduler.widths == ()
    for name, widths in {
        "ping_64x128x64_widths_c1x2_fit": (72, 104, 112),
        "ping_64x128x64_widths_c2x1_fit": (112,),  # each of two CTAs loads a share of B, of a multiple of 8 rows
        "coop_192x128x64_widths_c1x1_fit": (72, 104, 112),
        "coop_256x128x64_swap_widths_c1x1_fit": (72, 104, 112),
        "coop_192x192x64_swap_widths_c4x1_fit": (),
        "coop_192x192x64_swap_widths_c2x1_fit": (144,),
        "coop_128x128x64_split_widths_c1x2_fit": (64, 80, 96, 112),
        "coop_128x128x64_swap_split_widths_c4x1_fit": (64, 96),
        "coop_192x192x64_split_widths_c1x1_fit": (),
    }.items():
        assert (found[name].plan.scheduler.widths if widths else None) == (widths or found.get(name)), name
    assert not any(one.several_widths and one.plan.scheduler.shares_last_wave for one in found.values())
    one, alone = found["ping_64x128x64_widths_c1x1_fit"], found["ping_64x128x64_c1x1"]
    assert digest(one.plan) != digest(alone.plan)
    assert guess(one.plan, MACHINE).launch_us > guess(alone.plan, MACHINE).launch_us


def test_tune_offers_only_widths_that_the_type_and_the_layout_have(offered):
    of_s8 = offered("SM90_64x128x32_S32S8S8_SS_TN", out="s32")
    whole_k, split_k = (
        {one.plan.scheduler.widths for one in of_s8.values() if one.plan.scheduler.takes_workspace is takes}
        for takes in (False, True)
    )
    assert whole_k == {(), (112,), (144,)}
    assert split_k == {(), (64, 80, 96, 112), (64, 96), (96, 112, 128, 144, 160, 176), (96, 128, 160)}
    assert not any(one.several_widths for one in offered(layout="NT").values())
    of_tt = [one.plan for one in offered(layout="TT").values() if one.several_widths]
    assert of_tt and all(plan.swapped for plan in of_tt), "B has N contiguous, A has K contiguous"


def test_what_is_compiled_together_has_the_widths_that_are_measured(offered):
    found = offered()
    names = ["ping_64x128x64_c1x1", "ping_64x128x64_widths_c2x1_fit"]
    kept = compiled_together([found[name] for name in names])
    assert [one.name for one in kept] == names
    assert [atom.n for atom in kept[1].plan.launched_atoms] == [128, 112]
    assert digest(kept[1].plan) != digest(found[names[1]].plan), "beside other widths it is another kernel"
    library = library_of(kept, {one.name: guess(one.plan, MACHINE) for one in kept})
    assert {one.name for one in library.configs} == {*names}
    assert {*library.by_kernel} == {"ping_64x128x64_c1x1", "ping_64x128x64_widths"}


def test_pruning_keeps_both_kinds_and_the_number(offered):
    found = [*offered().values()]
    kept = prune(found, [Call.of(found[0].plan, problem) for problem in random_problems(3, 24)], MACHINE, 12)
    several = [one for one in kept if one.several_widths]
    assert len(kept) == 12 and 2 <= len(several) <= 6
    assert all(one.plan.scheduler.widths for one in several)


def test_tune_names_kernels_whose_wgmmas_ptxas_serializes():
    line = (
        "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient "
        "register resources for the wgmma pipeline in the function '_ZN6mmagen4v0_111sm90_kernelIN5tuned{}6ConfigEEEvT_'"
    )
    printed = "\n".join((line.format("11ping_64x64c"), "ptxas info    : Used 168 registers", line.format("4coop")))
    assert serialized(printed, ["ping_64x64", "ping_64x64c", "coop", "op"]) == ["ping_64x64c", "coop"]


def test_fewer_columns_have_more_stages():
    """A stage of a narrower tile is smaller. tests/build compares them with those that the host code passes to the kernel."""
    several, whole = planned(text("2x1n[80,96,112]")).configs[0].plan, planned(text("2x1 1x1")).configs[0].plan
    assert [several.stages_of(n) for n in (80, 96, 112, 128)] == [8, 7, 7, 6] and several.most_stages == 8
    ring = several.mainloop.ring_bytes
    for atom in several.launched_atoms:
        stage = (several.tile[0] + atom.n) * 64 * 2
        assert several.stages_of(atom.n) == ring // stage
    assert ring + several.epilogue.smem_bytes + 1024 == several.smem_bytes <= several.smem_limit
    assert (several.epilogue.buffers, whole.epilogue.buffers) == (1, 2), "one buffer leaves more for stages"
    assert (whole.mainloop.ring_bytes, whole.most_stages, whole.stages) == (0, whole.stages, 6)
    code = render(planned(text("2x1n[80,96,112]")))["include/lib/tile.cuh"].decode()
    assert "kStages = 8;" in code and f"kRingBytes = {ring};" in code
    assert "6 of 128 columns; 7 of 96, 112 columns; 8 of 80 columns" in str(dict(sections(several)))


def test_calls_of_few_k_tiles_have_two_buffers():
    """Beside the second buffers of two warpgroups, 16 KB, a stage less fits unless there are bytes to spare."""
    several = planned(text("2x1n[80,96,112]")).configs[0].plan
    of_k = [
        [several.stages_and_buffers(n, k) for n in (80, 96, 112, 128)] for k in (1, 64 * 10, 64 * 11, 64 * 12, 64 * 13, 9999)
    ]
    assert [found[0] for found in of_k] == [(7, 2)] * 4 + [(8, 1)] * 2, "up to 12 k tiles"
    assert [found[1] for found in of_k] == [found[2] for found in of_k] == [(6, 2)] * 2 + [(7, 1)] * 4, "up to 10"
    assert [found[3] for found in of_k] == [(6, 2)] * 6, "a second buffer costs no stage"
    few = planned(text("2x1n[64,96]").replace("schedule:", "stages: 3, schedule:")).configs[0].plan
    assert few.stages_and_buffers(64, 1) == few.stages_and_buffers(64, 9999) == (4, 2)


def test_stages_of_the_spec_are_those_of_whole_tiles():
    few = planned(text("2x1n[64,96]").replace("schedule:", "stages: 3, schedule:")).configs[0].plan
    assert few.mainloop.ring_bytes == 3 * (128 + 128) * 64 * 2
    assert [few.stages_of(n) for n in (64, 96, 128)] == [4, 3, 3]
    assert few.epilogue.buffers == 2, "one buffer would add no stage"


def test_stages_of_the_spec_that_fit_beside_one_buffer_are_those_of_every_call():
    tall = text("2x1n[128,160]", atom="SM90_64x192x16_F32BF16BF16_SS", tile="[128, 192, 64]")
    tall = tall.replace("atoms_layout: [2, 1, 1]", "atoms_layout: [1, 1, 1]").replace("cooperative", "pingpong")
    four, five = (planned(tall.replace("schedule:", f"stages: {n}, schedule:")).configs[0].plan for n in (4, 5))
    assert [(it.epilogue.buffers, it.epilogue.most_buffers) for it in (four, five)] == [(2, 2), (1, 1)]
    assert [five.stages_and_buffers(192, k) for k in (64, 9999)] == [(5, 1)] * 2


def test_several_panels_have_stages_of_whole_tiles():
    """A second panel of K begins behind all lines of the first."""
    deep = planned(text("2x1n[64,96]", tile="[128, 128, 128]")).configs[0].plan
    assert {deep.stages_of(n) for n in (64, 96, 128)} == {3}
    assert deep.epilogue.slice == 64


def test_a_launch_of_one_width_has_the_stages_of_that_width():
    of_80, of_128 = (config.plan for config in planned(text("2x1n80 2x1")).configs)
    assert (of_80.stages, of_128.stages, of_80.most_stages, of_128.most_stages) == (8, 6, 8, 8)
    assert dict(pipelines(planned(text("2x1n80 2x1"))))["tile_c2x1_n80"].stages == 8
    again = of_80.launched((*of_80.scheduler.launches, LaunchShape(1, 1, 72)), of_80.scheduler.launch)
    assert again.stages_of(72) == again.most_stages == 8 and again.mainloop.ring_bytes == of_80.mainloop.ring_bytes
