"""The problems that are emulated have all features that small problems can have, and no problem too many."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from mmagen.families import family_of, plan
from mmagen.families.wgmma.gemm import PROMOTED_K
from mmagen.plan.reach import FAR, Paths, candidates, chosen, features
from mmagen.plan.trials import copied_problems, of_product, split_k_problems, stream_k_problems
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.spec.scale import BLOCK
from mmagen.verify.emulated.host import sharing
from mmagen.verify.emulated.session import tasks
from tests.support.mutations import ODD, SPECS

# Kernels of groups have problems of their own (families/wgmma/grouped.py), and none for unaligned operands.
GEMMS = sorted(
    path
    for path in (*SPECS.glob("*gemm*.yaml"), *ODD.glob("*.yaml"))
    if not {"configs", "grouped"} & {line.partition(":")[0] for line in path.read_text().splitlines()}
)
PLAIN = Paths(tile=(64, 64, 32), stages=3, operands=frozenset("K"), result="N", vector=8, group=8)


def planned(path):
    return plan(load(path.read_text(), path.name).spec)


def reached(paths):
    return frozenset().union(*(features(paths, problem) for problem in chosen(paths)))


@pytest.mark.parametrize("path", GEMMS, ids=lambda path: path.stem)
def test_every_kernel_is_asked_for_what_small_problems_reach(path):
    it = planned(path)
    problems = [problem for problem, _ in family_of(it).trials(it).cases]
    paths = Paths.of(it, tma=getattr(it, "roles", None) is not None)
    kernels = ("aligned", "unaligned")
    if it.operands[0].sparse or it.spec.weights:  # A's values are always aligned, and what is not is refused
        paths, kernels = replace(paths, operands=frozenset({it.majors[1]})), ("aligned",)
    if it.operands[0].element.bytes == 16:  # elements are vectors
        kernels = ("aligned",)
    found = frozenset().union(*(features(paths, problem) for problem in problems))
    wanted = {
        f"{kernel}: {feature}"
        for kernel in kernels
        for feature in ("a source", "no source", "one k tiles", "several k tiles", "K with a residue", "M with a residue")
    }
    wanted |= {"aligned: several batches", "aligned: more k tiles than stages", "aligned: alpha", "aligned: K whole"}
    wanted |= {"unaligned: pointers to single elements"} if "unaligned" in kernels else set()
    wanted |= {f"{kernel}: offsets of more than 32 bits" for kernel in kernels}
    wanted |= {"aligned: A and B of a whole batch", "aligned: a source, C in single elements, D in vectors"}
    if not paths.tma:
        wanted |= {f"{kernel}: D in {what}" for kernel in ("aligned", "unaligned") for what in ("vectors", "single elements")}
    elif "unaligned" in kernels:
        wanted |= {"unaligned: k tiles between the first and the last", "unaligned: a source, D in single elements"}
        wanted |= {"unaligned: no source, D in single elements", "unaligned: no source, D in vectors"}
        wanted |= {f"unaligned: tiles between the first and the last along {mode}" for mode in paths.operands - {"K"}}
    operations = it.spec.epilogue.operations
    if operations is not None and "beta_c" not in {one.word for one in operations}:
        wanted -= {feature for feature in wanted if "a source" in feature}
    if it.epilogue.out.bytes == 16:
        wanted = {feature for feature in wanted if not feature.startswith("unaligned") and "single elements" not in feature}
    if it.tile[2] > paths.vector:
        wanted.add("aligned: whole tiles of rows, the last of several k tiles with a residue")
    assert wanted <= found
    if it.scheduler.split_k > 1:
        assert {"aligned: fewer k tiles than splits", "aligned: k tiles for every split"} <= found


@pytest.mark.parametrize("name", ["groups", "groups_masked", "groups_swapped", "pointers_pingpong", "pointers_swapped"])
def test_lines_of_groups_lie_far_apart(name):
    it = planned(ODD / f"{name}.yaml")
    far = [problem for problem, _ in family_of(it).trials(it).cases if problem.ld_pad >= FAR]
    assert far and all(8 * problem.ld_pad >= 2**31 for problem in far)


@pytest.mark.parametrize("name", ["sm90_gemm_splitk_auto", "sm90_gemm_bf16_amax", "sm90_gemm_bf16_library"])
def test_lines_of_d_that_a_reduction_stores_lie_far_apart(name):
    it = planned(SPECS / f"{name}.yaml")
    kernels = [config.plan for config in it.configs] or [it]
    split = [kernel for kernel in kernels if kernel.scheduler.workspace_splits is not None]
    far = {
        (kernel.tile[2], p)
        for kernel in split
        for p, _ in family_of(it).trials(kernel).cases
        if p.ld_pad < FAR and min(p.m - 1, p.n - 1) * p.ld_pad >= 2**31
    }
    assert far
    assert all(p.batch > 1 and p.k > 4 * tile_k for tile_k, p in far), "K is to be split"


def test_lines_along_a_long_k_are_not_put_so_far_apart_that_addresses_run_out():
    for split in (split_k_problems((tile, tile, 64), (1, 1), 2, 0) for tile in (16, 32, 64, 128, 256)):
        assert all(problem.k * problem.ld_pad < 2**41 for problem in split)


@pytest.mark.parametrize("majors", (("K", "K", "N"), ("M", "K", "N"), ("K", "N", "M"), ("M", "N", "M")), ids="".join)
def test_lines_of_copies_are_far_apart_and_addresses_do_not_run_out(majors):
    for m, n, k in itertools.product((8, 16, 64, 128, 512), (8, 16, 64, 256), (16, 64, 128, 512)):
        problem, _ = copied_problems((m, n, k), 2, majors)
        rows, columns, along = problem.shape
        lines = (rows if majors[0] == "K" else along, columns if majors[1] == "K" else along)
        lines += (rows if majors[2] == "N" else columns,)
        assert all((one - 1) * problem.ld_pad >= 2**32 for one in lines if one > 8)
        assert 2 * sum(lines) * problem.ld_pad <= 2**41


def test_turns_take_two_rounds_of_the_stages_and_small_tiles_257():
    it = planned(ODD / "pp8.yaml")
    problems = [problem for problem, _ in family_of(it).trials(it).cases]
    found = frozenset().union(*(features(Paths.of(it, tma=True, turns=2), problem) for problem in problems))
    assert "aligned: turns, each with more than two rounds of the stages" in found
    assert "aligned: more k tiles than 8 bits count" in found


@pytest.mark.parametrize(("name", "turns"), [("sm90_gemm_skinny", 1), ("sm90_gemm_bf16_pingpong", 2), ("c2_stream", 1)])
def test_a_cta_loads_c_of_a_tile_after_it_has_stored_another(name, turns):
    it = planned(next(path for path in GEMMS if path.stem == name))
    paths = Paths.of(it, tma=True, turns=turns)
    wanted = "aligned: several tiles of a CTA, or of each warpgroup, with a source in vectors"
    (problem, *_) = (one for one, _ in family_of(it).trials(it).cases if wanted in features(paths, one))
    assert it.tiles_of(problem) > turns and problem.beta != 0


@pytest.mark.parametrize("name", ["sm90_gemm_splitk_auto", "sm90_gemm_swapped"])
def test_a_sum_has_more_parts_than_one_group_of_threads_adds_up(name):
    """kReductionBatch of split_k_reduction.cuh for each of four groups; the host decides by the number of clusters."""
    it = planned(SPECS / f"{name}.yaml")
    clusters = {
        problem: sharing(tasks(it, None, (problem,), 1, "small_int")[0]) for problem, _ in family_of(it).trials(it).cases
    }
    assert {count for problem, count in clusters.items() if it.tiles_of(problem) > 1} == {3}
    assert any(count == 19 and -(-problem.k // it.tile[2]) > 16 for problem, count in clusters.items())


def test_no_problem_is_superfluous():
    first, *others = chosen(PLAIN)
    for problem in others:
        rest = frozenset().union(*(features(PLAIN, other) for other in (first, *others) if other != problem))
        assert not features(PLAIN, problem) <= rest
    assert reached(PLAIN) == frozenset().union(*(features(PLAIN, problem) for problem in candidates(PLAIN)))


def test_bands_of_tile_rows_come_with_a_batch():
    feature = "aligned: bands of tile rows, the last one smaller, in batches"
    assert feature in features(PLAIN, Problem(shape=(8 * 64 + 8, 72, 32), batch=2))
    assert feature not in features(PLAIN, Problem(shape=(8 * 64 + 8, 72, 32)))
    assert feature not in features(PLAIN, Problem(shape=(8 * 64, 72, 32), batch=2))
    assert feature in reached(PLAIN)


@pytest.mark.parametrize("tma", [False, True])
def test_bands_that_no_matrix_fills_are_left_out(tma):
    wide = replace(PLAIN, group=2**31 - 1, tma=tma)
    assert chosen(wide) == chosen(replace(PLAIN, group=2**20, tma=tma))
    assert not any("bands" in feature for feature in reached(wide))


def test_uniform_inputs_are_for_a_small_problem_with_long_sums_and_a_source():
    it = planned(SPECS / "sm90_gemm_bf16_pingpong.yaml")
    shapes = [((64, 64, 100), 1.0), ((64, 64, 60), 1.0), ((64, 64, 50), 1.0), ((64, 32, 900), 0.0)]
    problems = tuple(Problem(shape=shape, beta=beta) for shape, beta in shapes)
    assert of_product(it, problems).cases == (*((problem, "small_int") for problem in problems), (problems[1], "uniform"))
    assert of_product(it, problems[3:]).cases[-1] == (problems[3], "uniform")


def test_kernels_for_unaligned_operands_are_called_without_a_workspace():
    it = planned(ODD / "c2_stream.yaml")
    without = family_of(it).trials(it).without_workspace
    paths = Paths.of(it, tma=True)
    assert without and not any(paths.is_aligned(problem) for problem in without)
    for task in tasks(it, None, (), 1, None):
        assert task.workspace == (task.problem not in without)
    assert all(task.workspace for task in tasks(it, None, tuple(without), 1, None))
    for name in ("sm80_gemm_bf16_tn", "sm90_gemm_sparse_bf16", "sm90_gemm_bf16_grouped"):
        it = planned(SPECS / f"{name}.yaml")
        assert not it.copies_operands and not family_of(it).trials(it).without_workspace


def test_uniform_inputs_of_sums_that_are_promoted_are_no_longer_than_these_must_be():
    """However long the sums are that a workspace has parts of: their bounds are the wider."""
    it = planned(SPECS / "sm90_gemm_e4m3_blocks.yaml")
    split = next(config.plan for config in it.configs if config.plan.scheduler.workspace_splits is not None)
    *cases, (problem, distribution) = family_of(split).trials(split).cases
    assert distribution == "uniform" and problem.k == PROMOTED_K < max(one.k for one, _ in cases)


def ranges(problem, it, clusters):
    """(end of a cluster's range, k tiles before the end of its tile) for each cluster, and how many tiles are not shared."""
    tiles, k_tiles = it.tiles_of(problem), -(-problem.k // it.tile[2])
    shared = tiles if tiles < clusters else tiles % clusters + clusters
    each, extra = divmod(shared * k_tiles, clusters)
    assert tiles % clusters and 3 * (tiles % clusters) < 2 * clusters and each >= 8
    ends = [(one + 1) * each + min(one + 1, extra) for one in range(clusters)]
    return [-end % k_tiles for end in ends], tiles - shared


@pytest.mark.parametrize("name", ["c2_stream", "41_stream"])
def test_a_range_of_a_shared_tile_ends_one_k_tile_early_and_others_are_whole(name):
    it = planned(ODD / f"{name}.yaml")
    several, one = stream_k_problems(it.tile_of_d, it.cluster_of_d)
    for problem in (several, one):
        (task,) = tasks(it, None, (problem,), 1, "small_int")
        assert sharing(task) == 4
    before, whole = ranges(several, it, 4)
    assert 1 in before and whole > 0
    assert ranges(one, it, 4)[1] == 0 and it.tiles_of(one) == 1
    assert several.m % it.tile_of_d[0] in (0, 16) and -(-several.m // it.tile_of_d[0]) == it.cluster_of_d[0]


def test_launches_that_leave_flags_are_made_a_second_time_for_one_problem():
    it = planned(ODD / "c2_stream.yaml")
    (again,) = (task for task in tasks(it, None, (), 1, None) if task.relaunches)
    assert again.problem == stream_k_problems(it.tile_of_d, it.cluster_of_d)[1]
    assert all(task.relaunches for task in tasks(it, None, (Problem(shape=(64, 64, 64)),), 1, None))


def test_copies_end_without_padding():
    for name in ("sm90_gemm_bf16_tn", "sm90_gemm_e4m3_precise"):
        it = planned(SPECS / f"{name}.yaml")
        it = it.configs[0].plan if it.configs else it
        problem, alone = copied_problems(it.tile_of_d, size := it.operands[0].element.bytes, it.majors)
        assert problem.k * size % 16 == size and -(-problem.k * size // 16) * 16 % 128 == 0
        assert alone.batch_stride_b * size % 16 == 8 and alone.k * size % 16 == 0


@pytest.mark.parametrize("name, tma", [("sm80_gemm_classic", False), ("sm90_gemm_bf16_pingpong", True)])
def test_each_operand_is_asked_for_its_alignment_alone(name, tma):
    it = planned(SPECS / f"{name}.yaml")
    paths = Paths.of(it, tma=tma)
    assert paths.halves == (4, 4, 4)
    problems = [problem for problem, _ in family_of(it).trials(it).cases]
    for letter, other in ("ab", "ba"):
        alone = [one for one in problems if paths.begins_between(one, letter) and not paths.begins_between(one, other)]
        assert any(f"unaligned: {letter.upper()} alone unaligned, by 8 bytes" in features(paths, one) for one in alone)
        assert not any(paths.is_aligned(one) for one in alone)
    found = frozenset().union(*(features(paths, one) for one in problems))
    assert "unaligned: rows of D that end at 8 bytes" in found
    if tma:
        singles = {f"aligned: a single element along {mode} in the last of several tiles" for mode in "MN"}
        assert singles <= found


def test_elements_of_16_bytes_have_no_half():
    assert Paths.of(planned(SPECS / "sm90_gemm_c64_nt.yaml")).halves == (0, 0, 0)


def test_uniform_inputs_are_not_for_the_kernel_of_unaligned_operands():
    it = planned(ODD / "pp8.yaml")
    *_, (problem, distribution) = family_of(it).trials(it).cases
    assert distribution == "uniform" and Paths.of(it, tma=True).is_aligned(problem)


@pytest.mark.parametrize("name", ["sc1_blocks", "sc3_mixed", "sc4_columns"])
def test_blocks_of_scales_end_inside_of_operands_that_tma_cannot_address(name):
    it = planned(ODD / f"{name}.yaml")
    trials = family_of(it).trials(it)
    found = [one for one, _ in trials.cases if min(one.shape) > BLOCK and one.k % 16 and one in trials.without_workspace]
    assert found, "the kernel that loads without TMA has scales of two blocks along each extent"
