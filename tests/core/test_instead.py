"""What is answered to a word that is none of the known ones."""

from __future__ import annotations

import typing

import pytest

from mmagen.core.instead import did_you_mean, instead, like, like_type
from mmagen.spec.epilogue import Operation
from mmagen.spec.kernel import Config
from mmagen.spec.load import _models
from mmagen.spec.model import Spec, grouped_keys

FEW = ["TN", "NT", "NN", "TT"]
MANY = [f"sm90_gemm_{number}_tn" for number in range(20)]


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("tn", ["TN"]),
        ("stagse", ["stages"]),
        ("pingpong", ["sm90_gemm_bf16_pingpong", "sm90_gemm_pingpong_128"]),
        ("q", []),
        ("", []),
    ],
)
def test_near_words(word, found):
    assert like(word, ["TN", "stages", "sm90_gemm_bf16_pingpong", "sm90_gemm_pingpong_128"]) == found


@pytest.mark.parametrize(("word", "found"), [("bfloat16", "bf16"), ("fp16", "f16"), ("int8", "s8"), ("uint8", "u8")])
def test_types_as_others_call_them(word, found):
    assert like_type(word, ["f16", "bf16", "s8", "u8", "f32"]) == [found]


def test_near_words_in_a_question():
    assert [did_you_mean(FEW[:count]) for count in range(4)] == [
        "",
        "did you mean TN?",
        "did you mean TN or NT?",
        "did you mean TN, NT or NN?",
    ]


def test_few_words_are_all_listed():
    assert instead([], FEW, "there are", "mmagen x") == "there are TN, NT, NN, TT"
    assert instead(["TN"], {"one": FEW}, "there are") == "did you mean TN? there are TN, NT, NN, TT"


def test_of_many_words_the_near_ones_or_a_line_for_each_group():
    assert instead(MANY[:1], MANY, "there are", "mmagen x") == f"did you mean {MANY[0]}? mmagen x lists all"
    assert instead(MANY[:1], MANY, "there are") == f"did you mean {MANY[0]}?"
    assert instead([], {"a": MANY, "none": [], "b": FEW}, "there are", "mmagen x").split("\n") == [
        "there are",
        f"    a: {', '.join(MANY)}",
        "    b: TN, NT, NN, TT",
        "    mmagen x lists all",
    ]
    assert instead([], MANY, "there are") == f"there are {', '.join(MANY)}"


@pytest.mark.parametrize("model", [Spec, Config, Operation])
def test_each_key_is_in_one_group(model):
    keys = list(model.model_fields)
    groups = grouped_keys(keys)
    assert isinstance(groups, dict) and sorted(key for group in groups.values() for key in group) == sorted(keys)


def _literals(annotation: object) -> list[object]:
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    return [word for part in typing.get_args(annotation) for word in _literals(part)]


@pytest.mark.parametrize("model", [Spec, *dict.fromkeys(_models().values())], ids=lambda model: model.__name__)
def test_descriptions_list_the_legal_words(model):
    """A refused word is answered with the description alone."""
    for field in model.model_fields.values():
        assert [word for word in _literals(field.annotation) if str(word) not in field.description] == []
