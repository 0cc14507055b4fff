"""`grouped:` in specs and plans: rules with their remedies, groups of problems, what verify runs, numbers of inspect."""

from __future__ import annotations

import pytest

from mmagen.core.errors import ABSENT, SpecError, SpecFaults
from mmagen.families import family_of, plan
from mmagen.families.library import choose
from mmagen.families.wgmma.grouped import default_problems
from mmagen.generate.render import render
from mmagen.inspect.page import inspect
from mmagen.spec.cost import Cost
from mmagen.spec.load import load
from mmagen.spec.model import Problem, Spec

LARGE = {
    "mmagen": 1,
    "name": "g",
    "kernel": "gemm",
    "atom": "SM90_64x256x16_F32BF16BF16_SS",
    "layout": "TN",
    "tile": [128, 256, 64],
    "atoms_layout": [2, 1, 1],
    "cluster": [1, 2],
    "grouped": "contiguous",
    "epilogue": {"out": "bf16"},
}
SMALL = LARGE | {"tile": [64, 256, 64], "atoms_layout": [1, 1, 1]}
FP8 = LARGE | {"atom": "SM90_64x128x32_F32E4M3E4M3_SS_TN", "tile": [128, 128, 128]}
GROUPS = {"shape": [304, 256, 64], "groups": [70, 0, 130, 64]}


def planned(**changes):
    return plan(Spec.model_validate(LARGE | changes))


def faults(document):
    with pytest.raises(SpecFaults) as caught:
        plan(Spec.model_validate(document))
    return caught.value.faults


def mended(document, fault):
    """The document with the fault's change."""
    document = dict(document)
    for key, value in fault.change.items():
        if len(key) == 1:
            document[key[0]] = None if value is ABSENT else value
        else:
            document[key[0]] = [value if i == key[1] else one for i, one in enumerate(document[key[0]])]
    return {key: value for key, value in document.items() if value is not None}


RULES = {
    "one tile for each CTA": (
        SMALL | {"cluster": None, "schedule": "warpgroup"},
        ("schedule",),
        "how many tiles",
        "cooperative",
    ),
    "parts of K": (LARGE | {"split_k": 2}, ("split_k",), "parts of K are fixed", "omit split_k"),
    "parts of K that fit": (LARGE | {"split_k": "auto"}, ("split_k",), "parts of K are fixed", "omit split_k"),
    "stream-K": (LARGE | {"stream_k": "always"}, ("stream_k",), "tiles of the last wave", "omit stream_k"),
    "scales of rows of two groups": (
        FP8 | {"scale": {"a": "128x128", "b": "128x128"}},
        ("scale",),
        "begin at any row",
        "scale.a 1x128, or grouped masked",
    ),
    "prefetch": (LARGE | {"prefetch": 2}, ("prefetch",), "written the sizes", "omit prefetch"),
    "prefetch of one": (LARGE | {"prefetch": 1}, ("prefetch",), "written the sizes", "omit prefetch"),
    "no groups": (LARGE | {"problems": [[300, 256, 64]]}, ("problems", 0), "has no groups", "groups: [150, 150]"),
    "too few rows": (
        LARGE | {"problems": [GROUPS | {"shape": [200, 256, 64]}]},
        ("problems", 0),
        "together have 264 rows, and shape has room for 200",
        "at least 264",
    ),
    "too few rows of each": (
        LARGE | {"grouped": "masked", "problems": [GROUPS | {"shape": [128, 256, 64]}]},
        ("problems", 0),
        "have at most 130 rows, and shape has room for 128",
        "at least 130",
    ),
    "a stride of the only A": (
        LARGE | {"problems": [GROUPS | {"batch_stride_a": 1 << 20}]},
        ("problems", 0),
        "batch_stride_a: with grouped: contiguous",
        "omit it",
    ),
    "rows that TMA cannot address": (
        LARGE | {"problems": [GROUPS | {"shape": [304, 256, 63]}]},
        ("problems", 0),
        "do not begin at multiples of 16 bytes",
        "[304, 256, 64] with ld_pad 0",
    ),
    "groups without grouped": (
        {key: value for key, value in LARGE.items() if key != "grouped"} | {"problems": [GROUPS]},
        ("problems", 0),
        "computes no groups",
        "omit groups",
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_what_a_grouped_kernel_does_not_do_is_refused_with_a_remedy_that_works(name):
    document, key, what, remedy = RULES[name]
    (fault,) = faults(document)
    assert fault.key == key and what in fault.what and remedy in fault.remedy
    assert fault.change
    plan(Spec.model_validate(mended(document, fault)))


def batched(**changes):
    """Of the tensors of a call, which have one for each group."""
    return {one.name: one.batched for one in planned(**changes).arguments.tensors if one.part != "group"}


def test_what_belongs_to_rows_lies_as_the_rows_do():
    scaled = {"atom": FP8["atom"], "tile": FP8["tile"], "scale": {"a": "1x128", "b": "128x128"}}
    assert batched(**scaled) == {"scale_a": False, "scale_b": True}
    assert batched(**scaled, grouped="masked") == {"scale_a": True, "scale_b": True}
    assert batched(**scaled | {"scale": {"a": "tensor", "b": "column"}}) == {"scale_a": True, "scale_b": True}
    assert batched(**scaled | {"scale": {"a": "row", "b": "tensor"}}) == {"scale_a": False, "scale_b": True}
    listed = [{"bias": "column"}, {"bias": "row", "name": "shift"}, {"add": "residual"}, "amax", {"cast": "bf16"}]
    assert batched(epilogue=listed) == {"bias": True, "shift": False, "residual": False, "amax": False}
    swapped = {"operands": "swapped", "atom": LARGE["atom"].replace("256", "128"), "tile": [256, 128, 64], "cluster": None}
    assert batched(epilogue=listed, **swapped) == batched(epilogue=listed)


LIBRARY = [
    {"name": "few", "when": {"m": [1, 4096]}, "tile": [128, 192, 64], "atom": LARGE["atom"].replace("256", "192")},
    {"name": "many"},
]


@pytest.mark.parametrize("grouped", ["contiguous", "masked"])
def test_rules_choose_among_kernels_by_the_extents_that_the_host_knows(grouped):
    sizes = {"batch": 2, "groups": [64, 64]}
    shapes = ([4096, 512, 64], [4097, 512, 64])
    made = planned(configs=LIBRARY, grouped=grouped, problems=[{"shape": shape, **sizes} for shape in shapes])
    assert [choose(made, problem).name for problem in made.problems] == ["few", "many"]
    assert made.text.title.startswith("grouped GEMM, bf16")


def test_configs_of_groups_that_have_extents_of_their_own_are_refused():
    library = LARGE | {"grouped": "pointers", "configs": LIBRARY}
    of_another_family = library | {
        "atom": "SM80_16x8x16_F32BF16BF16F32_TN",
        "configs": [LIBRARY[0], LIBRARY[0] | {"name": "two"}],
    }
    for document in (library, of_another_family):
        (fault,) = faults(document)
        assert fault.key == ("grouped",) and "chosen by m, n and k" in fault.what


@pytest.mark.parametrize("key", ["cost", "clusters"])
def test_a_predicted_time_is_refused_because_it_depends_on_the_sizes(key):
    cost = dict.fromkeys(Cost.model_fields, 1)
    own = {"cost": cost} if key == "cost" else {"clusters": [{"cluster": [1, 2], "cost": cost}], "cluster": None}
    found = [fault for fault in faults(LARGE | {"configs": [LIBRARY[0], {"name": "many", **own}]}) if fault.key[-1] == key]
    assert [fault.key for fault in found] == [("configs", 1, key)] and "sizes of the groups" in found[0].what


def test_grouped_needs_wgmma():
    document = LARGE | {"atom": "SM80_16x8x16_F32F16F16F32_TN", "tile": [128, 128, 32], "cluster": None, "epilogue": {}}
    document["atoms_layout"] = [2, 2, 1]
    assert {fault.key for fault in faults(document)} == {("grouped",)}


REFUSED = {
    "groups: []": "empty",
    "groups: [5, -1]": "-1",
    "groups: {experts: 4}": "neither listed nor drawn",
    "groups: {experts: 4, tokens: 9, rows: [1]}": "neither listed nor drawn",
    "groups: {experts: 5000, tokens: 9}": "5000",
    "groups: {experts: 4, tokens: 9, exponent: -1.0}": "-1.0",
    "groups: {experts: 4, tokens: 9, slope: 2}": "unknown key",
    "groups: [5, 5], batch: 3": "batch 3 is not the number of groups, 2",
    "groups: many": "'many'",
}


@pytest.mark.parametrize("text", REFUSED)
def test_groups_that_are_none_are_refused_where_they_stand(text):
    lines = [f"{key}: {value}" for key, value in LARGE.items() if key != "epilogue"]
    spec = "\n".join([*lines, "problems:", f"  - {{shape: [64, 64, 64], {text}}}", ""]).replace("'", "")
    with pytest.raises(SpecError) as caught:
        load(spec, "s.yaml")
    (diagnostic,) = caught.value.diagnostics
    assert REFUSED[text] in f"{diagnostic.what} {diagnostic.remedy}" and diagnostic.line == len(lines) + 2
    assert diagnostic.key[:2] == ("problems", 0)


def test_rows_by_zipfs_law():
    def sizes(**more):
        return Problem.model_validate({"shape": [4096, 64, 64], "groups": {"experts": 64, "tokens": 4096} | more}).groups.sizes

    drawn = sizes()
    assert len(drawn) == 64 and sum(drawn) == 4096 and drawn == sizes(seed=1) != sizes(seed=2)
    harmonic = sum(1 / rank for rank in range(1, 65))
    expected = sorted((4096 / rank / harmonic for rank in range(1, 65)), reverse=True)
    assert max(abs(a - b) / b**0.5 for a, b in zip(sorted(drawn, reverse=True), expected, strict=True)) < 4
    assert max(sizes(exponent=0.0)) < 2 * min(sizes(exponent=0.0)) + 64
    assert drawn.index(max(drawn)) != 0 or sizes(seed=2).index(max(sizes(seed=2))) != 0


def test_a_problem_has_a_matrix_for_each_group_and_says_so():
    listed = Problem.model_validate(GROUPS)
    assert listed.batch == 4 and listed.text == "304x256x64 groups=70+0+130+64"
    assert Problem.model_validate(listed.model_dump(mode="json")) == listed
    drawn = Problem.model_validate({"shape": [64, 64, 64], "groups": {"experts": 9, "tokens": 50}})
    assert drawn.batch == 9 and Problem.model_validate(drawn.model_dump(mode="json")) == drawn
    assert "groups" not in Problem(shape=(1, 1, 1)).model_dump(mode="json")


@pytest.mark.parametrize("grouped", ["contiguous", "masked"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cluster": [2, 1], "layout": "NT"},
        {"tile": [64, 256, 64], "atoms_layout": [1, 1, 1], "schedule": "pingpong", "layout": "NN"},
        {"atom": "SM90_64x16x16_F32BF16BF16_SS", "tile": [128, 16, 64], "operands": "swapped", "cluster": [1, 2]},
        {"atom": "SM90_64x128x32_F32E4M3E4M3_SS_TN", "tile": [128, 128, 128], "accumulation": "precise"},
    ],
)
def test_the_problems_of_verify_and_those_it_emulates_suit_the_kernel(grouped, changes):
    of = planned(grouped=grouped, **changes)
    problems = [problem for problem, _ in family_of(of).trials(of).cases]
    assert not [*family_of(of).problem_faults(of, (*problems, *of.problems))]
    sizes = [problem.groups.sizes for problem in problems]
    assert any(len(one) > 32 and sum(1 for rows in one[32:] if rows) for one in sizes)  # several windows
    assert any(sum(one) == 0 for one in sizes) and any(0 in one[:-1] and one[-1] for one in sizes)
    room = [(sum if grouped == "contiguous" else max)(one) for one in sizes]
    assert any(problem.m > rows for problem, rows in zip(problems, room, strict=True))  # rows of no group


def test_a_project_has_the_scheduler_and_no_kernel_without_tma():
    files = render(planned(), tests=False)
    config = files["include/g/config.cuh"].decode()
    assert "mmagen::GroupedTileScheduler<Config, mmagen::GroupSizes::kStacked>" in config
    assert "run_sm90_grouped<Config>" in files["src/g.cu"].decode()
    assert not [path for path in files if "unaligned" in path or "operand_copies" in path]
    assert "kMasked" in render(planned(grouped="masked"), tests=False)["include/g/config.cuh"].decode()


def test_numbers_count_the_rows_that_there_are():
    of = planned(problems=[GROUPS, {"shape": [64, 64, 64], "groups": [0, 0]}])
    # Of clusters of 128 x 512: 1 + 0 + 2 + 1 of them for each 512 columns.
    assert of.tiles_of(of.problems[0]) == 4 and of.tiles_of(of.problems[1]) == 0
    assert of.work_of_a_cta(of.problems[0], 2) == (2, 1)
    page = inspect(of)
    assert "the rows of all groups follow each other" in page
    (row,) = [line for line in page.splitlines() if line.strip().startswith(of.problems[0].text) and " x " in line]
    assert "4 x 1" in row and " 8 " in row  # CTA tiles with rows, and CTAs of whole clusters


def test_default_problems_fill_a_gpu_by_zipfs_law():
    for grouped in ("contiguous", "masked"):
        assert {8, 64, 256} <= {problem.batch for problem in default_problems(grouped)}


def test_sums_of_rows_lie_as_the_rows_do_and_each_group_has_those_of_columns():
    summed = ["row_sums", "column_sums", {"cast": "bf16"}]
    for grouped, of_rows in (("contiguous", False), ("masked", True)):
        one = planned(grouped=grouped, epilogue=summed)
        batched = {each.name: each.batched for each in one.arguments.tensors}
        assert batched["row_sums"] is of_rows and batched["column_sums"]
