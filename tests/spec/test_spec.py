"""spec: what a spec may say, as models and as JSON Schema."""

from __future__ import annotations

import json
import pickle

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from mmagen.core.layout_text import LayoutText
from mmagen.spec.model import LAYOUTS, WGMMA_KEYS, Layout, Problem, Spec, json_schema

LEAST = {"mmagen": 1, "name": "g", "kernel": "micro", "atom": "SM80_16x8x16_F32F16F16F32_TN"}


def spec(**more: object) -> Spec:
    return Spec.model_validate(LEAST | more)


# --- Layout text ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shape", "stride", "canonical"),
    [
        ("4:1", 4, 1, "4:1"),
        ("4", 4, 1, "4:1"),
        ("(4)", (4,), (1,), "(4):(1)"),
        ("(4,4,2):(1,8,4)", (4, 4, 2), (1, 8, 4), "(4,4,2):(1,8,4)"),
        (" ( 4 , 4 ) : ( 1 , 0 ) ", (4, 4), (1, 0), "(4,4):(1,0)"),
        ("((2,2),3):((1,6),2)", ((2, 2), 3), ((1, 6), 2), "((2,2),3):((1,6),2)"),
        ("((2,2),3)", ((2, 2), 3), ((1, 2), 4), "((2,2),3):((1,2),4)"),
        ("(_2,_2,_1):(_1,_2,_0)", (2, 2, 1), (1, 2, 0), "(2,2,1):(1,2,0)"),
    ],
)
def test_layout_text_parses_and_prints(text: str, shape: object, stride: object, canonical: str) -> None:
    layout = LayoutText.parse(text)
    assert (layout.shape, layout.stride, str(layout)) == (shape, stride, canonical)
    assert LayoutText.parse(canonical) == layout


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "ends where"),
        (":", "ends where"),
        ("()", "has '\\)'"),
        ("(4", "without its"),
        ("(4,)", "has '\\)'"),
        ("4)", "after its end"),
        ("4:1:1", "after its end"),
        ("4 4", "after its end"),
        ("x", "has 'x'"),
        ("-4:1", "has '-'"),
        ("4.5", "after its end"),
        ("0:1", "out of range"),
        ("4:2147483648", "out of range"),
        ("9" * 200, "out of range"),
        ("(4,4):1", "are not congruent"),
        ("(4,4):(1,2,3)", "are not congruent"),
        ("((2,2),3):(1,(2,3))", "are not congruent"),
        ("(" * 9 + "2" + ")" * 9, "deeper than 8"),
        ("(" * 100 + "2" + ")" * 100, "deeper than 8"),
        ("1" * 300, "too long"),
        ("٣:1", "has '٣'"),
    ],
)
def test_layout_text_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        LayoutText.parse(text)


def test_layout_text_measures() -> None:
    layout = LayoutText.parse("((2,3),4)")
    assert (layout.rank, layout.size) == (2, 24)
    assert (LayoutText.parse("7").rank, LayoutText.parse("7").size) == (1, 7)
    assert LayoutText.parse("(" * 8 + "2" + ")" * 8).size == 2


# --- Models --------------------------------------------------------------------------------------------------------


def test_defaults() -> None:
    least = spec()
    assert least.layout == Layout(a="K", b="K") and least.layout.letters == "TN"
    assert str(least.atoms_layout) == "(1,1,1):(1,1,1)"
    assert least.permutation == (None, None, None)
    assert (least.epilogue.out, least.epilogue.major) == (None, "N")
    assert (least.tile, least.stages, least.ctas_per_sm, least.arch, least.problems) == (None,) * 5
    assert (least.schedule, least.cluster, least.split_k, least.warpgroups, least.accumulation) == (None,) * 5


@pytest.mark.parametrize("letters", LAYOUTS)
def test_layout_letters_follow_blas(letters: str) -> None:
    a, b = {"TN": "KK", "NT": "MN", "NN": "MK", "TT": "KN"}[letters]
    short, spelled = spec(layout=letters).layout, spec(layout={"a": a, "b": b}).layout
    assert short == spelled
    assert (short.letters, short.a_major, short.b_major) == (letters, a, b)


def test_atoms_layout_forms_are_one_value() -> None:
    assert spec(atoms_layout=[2, 2, 1]).atoms_layout == spec(atoms_layout="(2,2,1):(1,2,4)").atoms_layout
    assert spec(atoms_layout="(2,2,1):(2,1,1)").atoms_layout.stride == (2, 1, 1)


def test_permutation_forms() -> None:
    modes = spec(permutation=[32, "_", "(4,4,2):(1,8,4)"]).permutation
    assert modes == (32, None, LayoutText((4, 4, 2), (1, 8, 4)))


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ([1024, 512, 64], "1024x512x64"),
        ([1, 2, 3, 4], "1x2x3 b4"),
        ({"shape": [1, 2, 3]}, "1x2x3"),
        (
            {"shape": [1, 2, 3], "batch": 3, "ld_pad": 8, "offset": 1, "alpha": 2, "beta": -1},
            "1x2x3 b3 ld+8 off+1 alpha=2 beta=-1",
        ),
        ({"shape": [1, 2, 3], "alpha": 0.1, "beta": 1e30}, "1x2x3 alpha=0.1 beta=1e+30"),
        (
            {"shape": [1, 2, 3], "batch": 2, "batch_stride_a": 0, "batch_stride_d": 64},
            "1x2x3 b2 batch_stride_a=0 batch_stride_d=64",
        ),
    ],
)
def test_problem_forms_and_text(written: object, text: str) -> None:
    problem = Problem.model_validate(written)
    assert problem.text == text
    assert (problem.m, problem.n, problem.k) == problem.shape
    assert isinstance(problem.alpha, float) and isinstance(problem.beta, float)


FULL: dict[str, object] = {
    "kernel": "gemm",
    "layout": "NT",
    "tile": [128, 128, 32],
    "atoms_layout": "(2,2,1):(2,1,1)",
    "permutation": [32, None, "(4,4,2):(1,8,4)"],
    "stages": 3,
    "ctas_per_sm": 2,
    "schedule": "pingpong",
    "cluster": [2, 1],
    "split_k": 1,
    "warpgroups": 3,
    "accumulation": "fast",
    "epilogue": {"out": "f16", "major": "M"},
    "arch": ["sm_80", "sm_90a", "sm_120f"],
    "problems": [[1, 2, 3], [1, 2, 3, 4], {"shape": [4, 5, 6], "ld_pad": 8, "offset": 64, "alpha": 0.5, "beta": 1}],
    "configs": [
        {"name": "a", "when": {"m": [1, 64], "mn": [None, 2**62]}, "atom": "x", "tile": [1, 2, 3], "atoms_layout": [1, 2, 1]},
        {"name": "b", "stages": None, "permutation": [1, None, "(2,2):(2,1)"], "cluster": [1, 2], "warpgroups": None},
    ],
}


def test_a_dump_is_a_spec_again() -> None:
    full = spec(**FULL)
    dumped = json.loads(json.dumps(full.model_dump(mode="json")))
    assert Spec.model_validate(dumped) == full
    assert (dumped["layout"], dumped["atoms_layout"]) == ("NT", "(2,2,1):(2,1,1)")
    Draft202012Validator(json_schema()).validate(dumped)


def test_keys_of_wgmma_are_written_only_where_they_say_something() -> None:
    assert not set(WGMMA_KEYS) & set(spec().model_dump(mode="json"))
    dumped = spec(cluster=[2, 1], split_k=None).model_dump(mode="json")
    assert dumped["cluster"] == [2, 1] and "split_k" not in dumped


def test_a_spec_is_a_frozen_value() -> None:
    full = spec(**FULL)
    assert hash(full) == hash(spec(**FULL)) and pickle.loads(pickle.dumps(full)) == full
    with pytest.raises(ValidationError, match="frozen"):
        full.stages = 4  # type: ignore[misc]


# --- Schema and models agree ---------------------------------------------------------------------------------------

GOOD: list[dict[str, object]] = [
    {},
    FULL,
    *({"name": name} for name in ("a", "A_1", "x" * 64, "sm80_gemm_f16_tn", "Double")),
    {"layout": {"a": "M", "b": "N"}},
    {"tile": None},
    {"kernel": "gemm", "tile": [1, 1, 1]},
    {"atoms_layout": "(2,2,1)"},
    {"permutation": ["_", "4", 8]},
    {"stages": None, "ctas_per_sm": None, "arch": None, "problems": None, "epilogue": {}},
    {"schedule": None, "cluster": None, "split_k": None, "warpgroups": None, "accumulation": None},
    *({"schedule": value} for value in ("warpgroup", "cooperative", "pingpong")),
    *({"accumulation": value} for value in ("fast", "precise")),
    {"cluster": [1, 8], "split_k": 8, "warpgroups": 1},
    {"cluster": [1, 8], "split_k": 33},
    {"split_k": "auto"},
    *({"epilogue": {"out": out}} for out in (None, "f16", "bf16", "f32", "f64", "s8", "u8", "s32", "e4m3", "e5m2")),
    {"problems": [{"shape": [1, 1, 2147483647]}]},
    *({"configs": value} for value in (None, [{"name": "a"}], [{"name": "a", "when": None, "stages": 2}])),
    *({"configs": [{"name": "a", "when": value}]} for value in ({"k": [1, None]}, {"mn": [None, 2**62], "n": [5, 5]})),
]
BAD: list[dict[str, object]] = [
    *({"mmagen": value} for value in (0, 2, "1", None, True, 1.5)),
    *({"name": value} for value in ("", "_a", "1a", "a-b", "a b", "x" * 65, "int", "co_await", "std", "cute", "cutlass")),
    *({"name": value} for value in ("mmagen", "test", "all", "../x", "a/b", "C:\\x", "naïve", 3, None)),
    *({"weights": {"type": "s4", "group": value}} for value in (0, 16, 96, 100, 2**31, 64.5, "64")),
    *(
        {"grouped": "masked", "problems": [{"shape": [8, 8, 8], "groups": value}]}
        for value in ({"experts": 2, "tokens": None}, [])
    ),
    *({"kernel": value} for value in ("bench", "GEMM", "", None, 1)),
    *({"atom": value} for value in ("", "a b", "x" * 257, "\x1b[31m", None, 80)),
    *({"layout": value} for value in ("tn", "XX", "", None, False, ["K", "K"], {"a": "K"}, {"a": "N", "b": "K"})),
    {"layout": {"a": "K", "b": "K", "c": "K"}},
    {"kernel": "gemm"},
    {"kernel": "gemm", "tile": None},
    *({"tile": value} for value in ([1, 2], [1, 2, 3, 4], [0, 1, 1], [1, 1, 2147483648], [1, 1, 1.5], [1, 1, "1"])),
    *({"tile": value} for value in ([1, 1, True], [1, 1, None], "128", 128, {"M": 1}, [])),
    *({"atoms_layout": value} for value in (None, [1, 1], [0, 1, 1], "2:1", 4, "", [[1], 1, 1], {"shape": [1]})),
    *({"permutation": value} for value in (None, [1, 1], [0, 1, 1], [True, 1, 1], ["x", 1, 1], [[1], 1, 1], "_")),
    *({"stages": value} for value in (1, 0, -1, "3", 2.5, True, [2])),
    *({"ctas_per_sm": value} for value in (0, 17, "2", True)),
    *({"schedule": value} for value in ("Pingpong", "", 1, ["pingpong"])),
    *({"cluster": value} for value in (2, [2], [2, 1, 1], [0, 1], [1, 1.5], "2,1", [None, 1])),
    *({"split_k": value} for value in (0, 2**31, 1.5, "2", "often", True)),
    *({"warpgroups": value} for value in (0, 9, "2", [2])),
    *({"accumulation": value} for value in ("slow", True, 128)),
    *({"epilogue": value} for value in (None, "f16", [], {"out": "tf32"}, {"out": "s16"}, {"major": "K"}, {"x": 1})),
    *({"arch": value} for value in ([], "sm_80", ["sm_8"], ["sm_80b"], ["80"], [80], ["sm_80", "sm_80"])),
    *({"problems": value} for value in ([], [[1, 2]], [[1, 2, 3, 4, 5]], [[0, 1, 1]], [3], [None], {"shape": [1]}, [{}])),
    *({"problems": [{"shape": [1, 2, 3], **more}]} for more in ({"batch": 0}, {"ld_pad": -1}, {"offset": 65})),
    *({"problems": [{"shape": [1, 2, 3], "batch_stride_a": value}]} for value in (-1, 1.5, "0", 2**41)),
    *({"problems": [{"shape": [1, 2, 3], **more}]} for more in ({"alpha": "1"}, {"beta": True}, {"gamma": 1})),
    {"tyle": [1, 1, 1]},
    *(
        {"configs": value}
        for value in ([], {}, {"name": "a"}, ["a"], [{}], [{"name": "int"}], [{"name": "a", "kernel": "gemm"}])
    ),
    *(
        {"configs": [{"name": "a", key: value}]}
        for key, value in (("atom", None), ("stages", 1), ("layout", "TN"), ("tile", [1]))
    ),
    *({"configs": [{"name": "a", "when": {"m": value}}]} for value in (64, [64], [0, 64], [1, 2, 3], [1, 2.5], [1, 2**31])),
    *({"configs": [{"name": "a", "when": value}]} for value in ([], "m", {"batch": [1, 2]}, {"mn": [1, 2**62 + 1]})),
]


def test_schema_is_a_schema_and_describes_every_key() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    assert list(schema["properties"]) == list(Spec.model_fields)
    for properties in (
        schema,
        *(part["anyOf"][1] for part in map(_spelled_out, ("Layout", "Problem"))),
        *map(_spelled_out, ("Config", "When")),
    ):
        assert all(field.get("description") for field in properties["properties"].values())


def _spelled_out(name: str) -> dict[str, object]:
    return json_schema()["$defs"][name]


@pytest.mark.parametrize("more", GOOD, ids=str)
def test_schema_and_models_accept(more: dict[str, object]) -> None:
    Draft202012Validator(json_schema()).validate(LEAST | more)
    assert Spec.model_validate(LEAST | more).name == more.get("name", "g")


@pytest.mark.parametrize("more", BAD, ids=lambda more: str(more)[:60])
def test_schema_and_models_refuse(more: dict[str, object]) -> None:
    assert not Draft202012Validator(json_schema()).is_valid(LEAST | more)
    with pytest.raises(ValidationError):
        Spec.model_validate(LEAST | more)


@pytest.mark.parametrize("key", LEAST)
def test_schema_and_models_require(key: str) -> None:
    document = {name: value for name, value in LEAST.items() if name != key}
    assert not Draft202012Validator(json_schema()).is_valid(document)
    with pytest.raises(ValidationError):
        Spec.model_validate(document)


@pytest.mark.parametrize(
    "more",
    [
        {"tile": [1, 1, 3.0]},
        {"name": "a\n"},  # Python's `$` is not ECMA's
        {"arch": ["sm_80\n"]},
        {"problems": [{"shape": [1, 1, 1], "alpha": float("nan")}]},
        {"problems": [{"shape": [1, 1, 1], "alpha": 10**400}]},
        {"problems": [{"shape": [4, 5, 6], "batch": 2, "batch_stride_d": 0}]},
        {"problems": [{"shape": [4, 5, 6], "batch": 2, "batch_stride_d": 19}]},
        {"problems": [{"shape": [4, 5, 6], "batch": 2, "batch_stride_a": 23}]},
        {"problems": [{"shape": [4, 5, 6], "batch": 2, "batch_stride_b": 35, "ld_pad": 1}]},
        {"atoms_layout": "(2,2,1):(1,2)"},
        {"atoms_layout": "(2,2)"},
        {"atoms_layout": "(65536,65536,1)"},
        {"permutation": [1, 1, "(2,2):1"]},
        {"configs": [{"name": "a", "tile": None}]},
        {"scale": {}},
        {"weights": {"type": "s4", "zero": "u8"}},
        {"configs": [{"name": "a", "when": {}}]},
        {"configs": [{"name": "a", "when": {"m": [None, None]}}]},
        {"configs": [{"name": "a", "when": {"m": [2, 1]}}]},
    ],
    ids=str,
)
def test_models_refuse_what_a_schema_cannot_say(more: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Spec.model_validate(LEAST | more)


def test_batch_strides_may_be_0_for_all_but_d() -> None:
    with pytest.raises(
        ValidationError, match="batch_stride_d 0 makes the matrices D of a batch overlap; use at least 20, or omit"
    ):
        Problem(shape=(4, 5, 6), batch=2, batch_stride_d=0)
    with pytest.raises(ValidationError, match=r"batch_stride_a 5 makes .* overlap; use 0 or at least 24, or omit it"):
        Problem(shape=(4, 5, 6), batch=2, batch_stride_a=5)
    shared = Problem(shape=(4, 5, 6), batch=2, batch_stride_a=0, batch_stride_b=0, batch_stride_c=0, batch_stride_d=20)
    assert shared.batch_strides == (0, 0, 0, 20) and shared.has_batch_strides
    assert Problem(shape=(4, 5, 6), batch_stride_d=0).batch == 1


def test_a_batch_stride_that_is_not_set_is_not_written() -> None:
    plain, shared = Problem(shape=(4, 5, 6)), Problem(shape=(4, 5, 6), batch=2, batch_stride_a=0)
    assert not any("stride" in key for key in plain.model_dump()) and not plain.has_batch_strides
    assert shared.model_dump()["batch_stride_a"] == 0 and Problem.model_validate(shared.model_dump()) == shared
