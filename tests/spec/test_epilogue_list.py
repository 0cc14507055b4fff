"""Epilogues as lists: what is read, what is refused, and with which remedy."""

from __future__ import annotations

import pytest

from mmagen.core.errors import SpecError, SpecFaults
from mmagen.families import plan
from mmagen.families.remedies import accepted_changes
from mmagen.spec.load import load

FLOAT = "atom: SM80_16x8x16_F32F16F16F32_TN\ntile: [64, 64, 32]\natoms_layout: [2, 2, 1]\n"
HOPPER = "atom: SM90_64x128x16_F32BF16BF16_SS\ntile: [64, 128, 64]\n"
INTEGER = "atom: SM80_16x8x32_S32S8S8S32_TN\ntile: [64, 64, 64]\natoms_layout: [2, 2, 1]\n"
DOUBLE = "atom: SM80_8x8x4_F64F64F64F64_TN\ntile: [64, 64, 16]\natoms_layout: [2, 2, 1]\n"


def text(epilogue: str, kernel: str = FLOAT, more: str = "") -> str:
    return f"mmagen: 1\nname: it\nkernel: gemm\n{kernel}{more}epilogue: {epilogue}\n"


def refusals(document: str) -> list[str]:
    try:
        loaded = load(document, "it.yaml")
        plan(loaded.spec)
    except SpecFaults as faults:
        return [str(one) for one in loaded.source.locate(faults.faults)]
    except SpecError as error:
        return [str(one) for one in error.diagnostics]
    return []


def test_a_list_is_the_identity_of_a_spec_as_it_was_written():
    epilogue = "[alpha, {bias: column, type: f32}, gelu, {clamp: [null, 4]}, {cast: bf16, major: M}]"
    spec = load(text(epilogue), "it.yaml").spec
    assert spec.epilogue.out == "bf16" and spec.epilogue.major == "M"
    written = spec.model_dump(mode="json", by_alias=True)["epilogue"]
    assert written == [
        "alpha",
        {"bias": "column", "type": "f32"},
        {"gelu": "erf"},
        {"clamp": [None, 4.0]},
        {"cast": "bf16", "major": "M"},
    ]
    assert load(text("{out: bf16}"), "it.yaml").spec.model_dump(mode="json")["epilogue"] == {"out": "bf16", "major": "N"}


@pytest.mark.parametrize("kernel", [FLOAT, HOPPER])
def test_the_list_of_the_usual_operations_is_the_mapping(kernel):
    listed = plan(load(text("[alpha, beta_c, {cast: bf16}]", kernel), "it.yaml").spec)
    assert listed.epilogue == plan(load(text("{out: bf16}", kernel), "it.yaml").spec).epilogue
    assert not listed.arguments and not listed.ignores_scalars and listed.parts == ()


def test_the_arguments_of_a_plan_follow_the_list():
    of = plan(load(text("[{bias: row}, {add: residual, type: f32}, {cast: f16, major: M}]"), "it.yaml").spec)
    bias, residual = of.arguments.tensors
    assert (bias.element.word, bias.columns.text, bias.pitched) == ("f16", "m", False)
    assert (residual.element.word, residual.line.text, residual.pitched) == ("f32", "m", True)
    assert [name for _, name in of.arguments.members] == [
        "bias",
        "batch_stride_bias",
        "residual",
        "ld_residual",
        "batch_stride_residual",
    ]
    assert of.arguments.initializer == ", NULL, 0, NULL, 0, 0"
    assert of.ignores_scalars and {one.alpha for one in of.problems} == {1.0} and {one.beta for one in of.problems} == {0.0}


@pytest.mark.parametrize(
    ("kernel", "out", "element"),
    [(FLOAT, "f16", "f32"), (INTEGER, "s32", "s32"), (INTEGER, "s8", "f32"), (DOUBLE, "f64", "f64")],
)
def test_sums_have_the_type_that_the_epilogue_computes_in(kernel, out, element):
    of = plan(load(text(f"[row_sums, {{column_sums: totals}}, {{cast: {out}}}]", kernel), "it.yaml").spec)
    rows, columns = of.arguments.tensors
    assert (rows.name, rows.element.word, rows.columns.text, rows.access) == ("row_sums", element, "m", "update")
    assert (columns.name, columns.element.word, columns.columns.text, columns.batched) == ("totals", element, "n", True)


@pytest.mark.parametrize(
    ("epilogue", "degree"),
    [
        ("[alpha, gelu, {cast: bf16}]", 4),
        ("[gelu, {clamp: [-1, 1]}, amax, {cast: e4m3}]", 4),
        ("[gelu, {cast: f16, overflow: saturate}]", 5),
        ("[gelu, {cast: f32}]", 6),
        ("[gelu, {add: residual}, {cast: bf16}]", 6),  # may cancel
        ("[gelu, row_sums, {cast: bf16}]", 6),
        ("[{gated: gelu}, relu, {cast: bf16}]", 4),
        ("[{gated: gelu_tanh}, {cast: bf16}]", 6),
    ],
)
def test_gelu_is_as_precise_as_d_needs_it(epilogue, degree):
    of = plan(load(text(epilogue), "it.yaml").spec)
    (found,) = (one.degree for one in of.epilogue.operations if one.word in ("gelu", "gated"))
    assert found == degree


# (epilogue, kernel, more keys, the refusal's key, part of what it says)
REFUSED = [
    ("[alpha, rellu]", FLOAT, "", "epilogue[1]", "did you mean relu?"),
    ("[alpha, bias]", FLOAT, "", "epilogue[1]", "bias needs a value; a mapping, e.g. {bias: column}"),
    ("[{bais: column}]", FLOAT, "", "epilogue[0].bais", "did you mean bias?"),
    ("[{bias: columns}]", FLOAT, "", "epilogue[0].bias", "did you mean column?"),
    ("[{relu: 3}]", FLOAT, "", "epilogue[0]", "relu has no value; the word alone, relu"),
    ("[{silu: true}]", FLOAT, "", "epilogue[0]", "silu has no value; the word alone, silu"),
    ("[alpha, {sigmoid: off, gelu: null}]", FLOAT, "", "epilogue[1]", "sigmoid has no value; the word alone, sigmoid"),
    ("[{bias: row, gelu: erf}]", FLOAT, "", "epilogue[0]", "bias and gelu are 2 operations"),
    ("[{gelu: erf, type: f32}]", FLOAT, "", "epilogue[0]", "gelu has no type"),
    ("[{type: f32}]", FLOAT, "", "epilogue[0]", "the mapping has no operation"),
    ("[]", FLOAT, "", "epilogue", "the list is empty"),
    (f"[{'relu, ' * 32}alpha]", FLOAT, "", "epilogue", "the list has 33 operations; at most 32"),
    ("[{clamp: [3, 1]}]", FLOAT, "", "epilogue[0].clamp", "the interval from 3 to 1 is empty"),
    ("[{clamp: [null, null]}]", FLOAT, "", "epilogue[0].clamp", "the interval has no bound"),
    ("[alpha, alpha]", FLOAT, "", "epilogue", "alpha is in the list 2 times"),
    ("[{cast: f16}, relu]", FLOAT, "", "epilogue", "a cast is followed by other operations"),
    ("[{bias: row}, {bias: column}]", FLOAT, "", "epilogue", "bias is the name of several arguments"),
    ("[{add: alpha}]", FLOAT, "", "epilogue[0].add", "'alpha' is the name of another argument"),
    ("[{add: ld_x}]", FLOAT, "", "epilogue[0].add", "'ld_x' is the name of another argument"),
    ("[{cast: e4m3, overflow: infinity}]", FLOAT, "", "epilogue[0].overflow", "conversions to e4m3 saturate"),
    ("[silu, {cast: s32}]", INTEGER, "", "epilogue[0]", "silu needs floating point"),
    ("[{clamp: [0.5, 3]}, {cast: s32}]", INTEGER, "", "epilogue[0]", "the bounds of an epilogue in 32-bit integers"),
    ("[{clamp: [-5000000000, 3]}, {cast: s32}]", INTEGER, "", "epilogue[0]", "-5000000000 is beyond s32"),
    ("[{clamp: [0, 1.0e+300]}]", FLOAT, "", "epilogue[0]", "1e+300 is beyond f32"),
    ("{bias: row}", FLOAT, "", "epilogue", "bias is an operation, and operations are a list"),
    ("[{add: zero_b}]", FLOAT, "", "epilogue[0].add", "'zero_b' is the name of another argument"),
    ("[{bias: row, type: f32}, {cast: s32}]", INTEGER, "", "epilogue[0].type", "f32 is not added to 32-bit integers"),
    ("[{bias: row, type: f64}]", FLOAT, "", "epilogue[0].type", "f64 values lose bits"),
    ("[relu]", FLOAT, "problems: [{shape: [8, 8, 8], beta: 1.0}]\n", "problems[0].beta", "the epilogue has no beta_c"),
    ("[beta_c, {gated: silu}]", FLOAT, "", "epilogue[0]", "C has the shape of D"),
    ("[{gated: silu}, {bias: row}]", FLOAT, "", "epilogue[1]", "bias after gated pairs"),
    ("[{gated: silu}, {gated: relu}]", FLOAT, "", "epilogue[1]", "gated after gated pairs"),
    ("[amax, {cast: s32}]", INTEGER, "", "epilogue[0]", "amax is of floating point"),
    ("[amax, amax]", FLOAT, "", "epilogue", "amax is the name of several arguments"),
    ("[row_sums, {column_sums: row_sums}]", FLOAT, "", "epilogue", "row_sums is the name of several arguments"),
    ("[{row_sums: d}]", FLOAT, "", "epilogue[0].row_sums", "'d' is the name of another argument"),
    ("[row_sum]", FLOAT, "", "epilogue[0]", "did you mean row_sums?"),
    ("[{gated: silu}, column_sums]", FLOAT, "", "epilogue[1]", "column_sums after gated pairs"),
    ("[{gated: silu}, amax]", FLOAT, "", "epilogue[1]", "amax after gated pairs"),
    ("[{gated: swish}]", FLOAT, "", "epilogue[0].gated", "f is relu, gelu, gelu_tanh, silu or sigmoid"),
    ("[quux]", FLOAT, "", "epilogue[0]", "\n    with a value: bias, add"),
    ("[{quux: 1}]", FLOAT, "", "epilogue[0].quux", "\n    options: name, type"),
    ("[{gated: silu}, {cast: f16, major: M}]", FLOAT, "", "epilogue", "neighbours of a row"),
    ("[{gated: silu}]", HOPPER, "operands: swapped\n", "operands", "in different threads"),
    ("[{gated: silu}]", FLOAT, "problems: [[8, 7, 8]]\n", "problems[0]", "N is 7"),
    ("[relu, {cast: s8}]", FLOAT, "", "epilogue.out", "s8 cannot be converted from f32 accumulators"),
]


@pytest.mark.parametrize(("epilogue", "kernel", "more", "key", "says"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_refusal_says_where_and_what_is_known(epilogue, kernel, more, key, says):
    found = refusals(text(epilogue, kernel, more))
    assert any(f" {key}: " in one and says in one for one in found), found


@pytest.mark.parametrize(("epilogue", "kernel", "more", "key", "says"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_refused_spec_has_changes_with_which_it_is_accepted(epilogue, kernel, more, key, says):
    assert accepted_changes(text(epilogue, kernel, more), "it.yaml") is not None


def test_a_micro_kernel_has_no_operations():
    found = refusals(text("[relu]").replace("kernel: gemm", "kernel: micro"))
    assert any("epilogue" in one and "kernel: gemm" in one for one in found), found


def test_a_mapping_with_operations_is_printed_with_its_type_and_contiguous_mode():
    """A project's spec.yaml has the list alone: what it left out would be planned otherwise."""
    spec = load(text("{out: f32, major: M, operations: [alpha, {bias: row}]}"), "it.yaml").spec
    assert (spec.epilogue.out, spec.epilogue.major) == ("f32", "M")
    written = spec.model_dump(mode="json", by_alias=True)["epilogue"]
    assert written == ["alpha", {"bias": "row"}, {"cast": "f32", "major": "M"}]
    (found,) = refusals(text("{major: M, operations: [alpha]}"))
    assert "major beside a list without a cast; end the list with a cast" in found
    (found,) = refusals(text("{out: f32, operations: [alpha, {cast: bf16}]}"))
    assert "out beside a list with a cast" in found
    for mapping in (f"{{operations: [{'relu, ' * 32}alpha]}}", f"{{out: f16, operations: [{'relu, ' * 32}]}}"):
        (found,) = refusals(text(mapping))
        assert "the list has 33 operations; at most 32" in found
