"""mmagen new from an expression of torch and from a call of cuBLASLt."""

from __future__ import annotations

import pytest
import yaml

from mmagen.core.errors import UsageError
from mmagen.suggest import cublaslt_call, torch_expression
from mmagen.suggest.product import Product
from tests.support.fakes import typed

BIAS = {"bias": "column"}


def product(types, out, layout, *shape, sums=None, **further):
    a, _, b = types.partition(",")
    return Product((a, b or a), sums, out, layout, shape, **further)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bf16[64, 512] @ bf16[512, 96]", product("bf16", "bf16", "TT", 64, 96, 512, 1)),
        ("bf16[64, 512] @ bf16[96, 512].T", product("bf16", "bf16", "TN", 64, 96, 512, 1)),
        ("f16[512, 64].mT @ f16[512, 96]", product("f16", "f16", "NT", 64, 96, 512, 1)),
        ("torch.mm(f16[512, 64].t(), f16[96, 512].transpose(0, 1))", product("f16", "f16", "NN", 64, 96, 512, 1)),
        ("F.linear(bf16[8, 128, 512], bf16[96, 512])", product("bf16", "bf16", "TN", 1024, 96, 512, 1)),
        ("torch.nn.functional.linear(half[3, 4], half[5, 4])", product("f16", "f16", "TN", 3, 5, 4, 1)),
        ("torch.bmm(f32[4, 3, 5], f32[4, 5, 7])", product("f32", "f32", "TT", 3, 7, 5, 4)),
        ("f32[2, 2, 3, 5] @ f32[4, 7, 5].mT", product("f32", "f32", "TN", 3, 7, 5, 4)),
        ("f32[4, 5, 3].mT @ f32[5, 7]", product("f32", "f32", "NT", 3, 7, 5, 4)),
        ("torch._int_mm(torch.int8[16, 32], torch.int8[32, 8])", product("s8", "s32", "TT", 16, 8, 32, 1)),
        (
            "torch._scaled_mm(torch.float8_e4m3fn[16, 32], torch.float8_e5m2[8, 32].t(), out_dtype=torch.float16)",
            product("e4m3,e5m2", "f16", "TN", 16, 8, 32, 1),
        ),
        ("torch.randn(16, 32, dtype=torch.bfloat16, device='cuda') @ torch.ones((32, 8)).to('cuda', torch.bfloat16)",
         product("bf16", "bf16", "TT", 16, 8, 32, 1)),
        ("(torch.rand(16, 32).half().cuda() @ f16[8, 32].T).float()", product("f16", "f32", "TN", 16, 8, 32, 1)),
        ("torch.addmm(f32[16, 8], f32[16, 32], f32[8, 32].T)", product("f32", "f32", "TN", 16, 8, 32, 1)),
        ("f16[8, 32].T.contiguous().T.matmul(f16[32, 8])", product("f16", "f16", "NT", 8, 8, 32, 1)),
        ("bf16[8, 16, 128, 64] @ bf16[8, 16, 64, 32]", product("bf16", "bf16", "TT", 128, 32, 64, 128)),
        ("bf16[8, 16, 128, 64] @ bf16[1, 1, 64, 32]", product("bf16", "bf16", "TT", 128, 32, 64, 128)),
        ("f16[8, 32].transpose(0, 0) @ f16[32, 4]", product("f16", "f16", "TT", 8, 4, 32, 1)),
        ("torch.transpose(f16[3, 32, 8], 1, 2) @ torch.t(f16[4, 32])", product("f16", "f16", "NN", 8, 4, 32, 3)),
        ("f16[32, 8].swapaxes(axis0=0, axis1=-1) @ f16[32, 4]", product("f16", "f16", "NT", 8, 4, 32, 1)),
        ("f16[8, 32].permute(1, 0) @ f16[4, 8].permute((-1, -2))", product("f16", "f16", "NN", 32, 4, 8, 1)),
        ("torch.mm(input=f16[16, 32], mat2=f16[32, 8])", product("f16", "f16", "TT", 16, 8, 32, 1)),
        ("torch.addmm(input=f16[8], mat1=f16[16, 32], mat2=f16[32, 8])",
         product("f16", "f16", "TT", 16, 8, 32, 1, operations=(BIAS,))),
        ("torch.addmm(f16[16, 8], f16[16, 32], f16[32, 8], beta=0.5, alpha=2)", product("f16", "f16", "TT", 16, 8, 32, 1)),
        ("torch.baddbmm(f16[2, 16, 8], f16[2, 16, 32], f16[2, 32, 8])", product("f16", "f16", "TT", 16, 8, 32, 2)),
        ("2 * (f16[3, 4] @ f16[4, 5])", product("f16", "f16", "TT", 3, 5, 4, 1)),
        ("-(f16[3, 4] @ f16[4, 5])", product("f16", "f16", "TT", 3, 5, 4, 1)),
        ("(f16[3, 4] @ f16[5, 4].mT) / 8.0", product("f16", "f16", "TN", 3, 5, 4, 1)),
        ("-0.5 * (f16[3, 4] @ f16[4, 5]) - f16[3, 5]", product("f16", "f16", "TT", 3, 5, 4, 1)),
        ("f16[3, 5] - f16[3, 4] @ f16[4, 5]", product("f16", "f16", "TT", 3, 5, 4, 1)),
        ("f16[5] - f16[3, 4] @ f16[4, 5]", product("f16", "f16", "TT", 3, 5, 4, 1, operations=("alpha", BIAS))),
        ("torch.relu(+(-(f16[3, 4] @ f16[4, 5])))",
         product("f16", "f16", "TT", 3, 5, 4, 1, operations=("alpha", "relu"))),
        ("f16[3, 5] + f16[3, 4] @ f16[4, 5]", product("f16", "f16", "TT", 3, 5, 4, 1)),
        ("torch.relu(f16[3, 5] + 2 * (f16[3, 4] @ f16[4, 5]))",
         product("f16", "f16", "TT", 3, 5, 4, 1, operations=("alpha", "beta_c", "relu"))),
        ("f16[3, 4] @ f16[4, 5] + f16[5]", product("f16", "f16", "TT", 3, 5, 4, 1, operations=(BIAS,))),
        ("(f16[3, 4] @ f16[4, 5]).relu()", product("f16", "f16", "TT", 3, 5, 4, 1, operations=("relu",))),
        ("F.linear(input=f16[3, 4], weight=f16[5, 4], bias=f16[5])",
         product("f16", "f16", "TN", 3, 5, 4, 1, operations=(BIAS,))),
        ("torch.inner(f16[3, 4], other=f16[5, 4])", product("f16", "f16", "TN", 3, 5, 4, 1)),
        ("F.linear(f16[3, 4], f16[5, 4], f16[5])", product("f16", "f16", "TN", 3, 5, 4, 1, operations=(BIAS,))),
        ("F.linear(f16[3, 4], f16[5, 4], bias=None)", product("f16", "f16", "TN", 3, 5, 4, 1)),
        ("F.gelu(F.linear(bf16[8, 128, 512], bf16[96, 512], bf16[96]), approximate='tanh').float()",
         product("bf16", "f32", "TN", 1024, 96, 512, 1, operations=(BIAS, {"gelu": "tanh"}))),
        ("F.silu(bf16[3, 4] @ bf16[4, 5])", product("bf16", "bf16", "TT", 3, 5, 4, 1, operations=("silu",))),
        ("torch._scaled_mm(e4m3[16, 32], e4m3[8, 32].t(), f32[1], f32[1], f16[8], None, torch.float16)",
         product("e4m3", "f16", "TN", 16, 8, 32, 1, operations=(BIAS,), keys={"scale": {"a": "tensor", "b": "tensor"}})),
        ("torch._scaled_mm(e4m3[16, 32], e4m3[8, 32].t(), scale_a=f32[16, 1], scale_b=f32[1, 8])",
         product("e4m3", "bf16", "TN", 16, 8, 32, 1, keys={"scale": {"a": "row", "b": "column"}})),
        ("torch.inner(f16[3, 4], f16[5, 4])", product("f16", "f16", "TN", 3, 5, 4, 1)),
        ("torch.einsum('mk,kn->mn', bf16[3, 4], bf16[4, 5])", product("bf16", "bf16", "TT", 3, 5, 4, 1)),
        ("torch.einsum('bmk, bnk -> bmn', bf16[2, 3, 4], bf16[2, 5, 4])", product("bf16", "bf16", "TN", 3, 5, 4, 2)),
        ("torch.einsum('bhqd,bhkd->bhqk', bf16[2, 6, 3, 4], bf16[2, 6, 5, 4])", product("bf16", "bf16", "TN", 3, 5, 4, 12)),
        ("torch.einsum('bsd,df->bsf', bf16[2, 3, 4], bf16[4, 5])", product("bf16", "bf16", "TT", 6, 5, 4, 1)),
        ("torch.einsum('km,kn->mn', bf16[4, 3], bf16[4, 5])", product("bf16", "bf16", "NT", 3, 5, 4, 1)),
        # D is column-major: the operands are exchanged.
        ("torch.einsum('mk,kn->nm', f16[3, 4], e4m3[4, 5])", product("e4m3,f16", "bf16", "NN", 5, 3, 4, 1)),
        ("torch.einsum('mk,kn->mn', bf16[4, 3].T, bf16[4, 5])", product("bf16", "bf16", "NT", 3, 5, 4, 1)),
    ],
)  # fmt: skip
def test_expressions_of_torch(text, expected):
    assert torch_expression.product(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a Python expression"),
        ("a @ b", "a: write a tensor as type"),
        ("bf16[3, 4]", "is a tensor; write a product"),
        ("bf16[3, 4] @ bf16[5, 6]", r"shapes \(3, 4\) and \(5, 6\)"),
        ("bf16[3] @ bf16[3, 6]", "shapes"),
        ("f99[3, 4] @ f16[4, 5]", "no type of elements"),
        ("f16[3, -4] @ f16[4, 5]", "positive integers"),
        ("f16[3, 'x'] @ f16[4, 5]", "positive integers"),
        ("f16[3, 4] @ f16[4, 5] @ f16[5, 6]", "a product within another"),
        ("f16[2, 3, 4, 5] @ f16[3, 2, 5, 4]", "batches of 2 x 3 and 3 x 2 matrices"),
        ("f16[2, 3, 4].permute(1, 0, 2) @ f16[4, 5]", "only the last two dimensions"),
        ("f16[3, 4].permute(*x) @ f16[4, 5]", "only the last two dimensions"),
        ("f16[4, 4, 4].transpose(0, 1) @ f16[4, 4, 5]", "only the last two dimensions"),
        ("f16[4, 4].transpose(0, x) @ f16[4, 5]", "only the last two dimensions"),
        ("f16[4, 4].transpose(0, 2) @ f16[4, 5]", "only the last two dimensions"),
        ("f16[4, 4].transpose(0, {[1]}) @ f16[4, 5]", "only the last two dimensions"),
        ("torch.transpose(f16[4, 4, 4], 0, dim1=-1) @ f16[4, 4, 5]", "only the last two dimensions"),
        ("f16[4, 4].transpose(1) @ f16[4, 5]", "needs two dimensions"),
        ("f16[4, 4, 4].t() @ f16[4, 5]", "t needs a matrix, and this tensor has 3 dimensions; .mT"),
        ("f16[4, 4, 4].T @ f16[4, 5]", "T needs a matrix"),
        ("f16[3, 4].permute(1, 'x') @ f16[4, 5]", "only the last two dimensions"),
        ("f16[3, 4] + f16[3, 4]", "not a product of matrices"),
        ("1 + f16[3, 4] @ f16[4, 5]", "not a product of matrices; write only the product, .* `epilogue`"),
        ("2 * F.relu(f16[3, 4] @ f16[4, 5])", "not a product of matrices; write only the product, .* `epilogue`"),
        ("f16[3, 4] @ f16[4, 5] - f16[5]", "a bias is added, not subtracted"),
        ("f16[3, 5] - F.relu(f16[3, 4] @ f16[4, 5])", "this is not a product of matrices"),
        ("f16[5] - (f16[3, 4] @ f16[4, 5] + f16[5])", "this is not a product of matrices"),
        ("8 / (f16[3, 4] @ f16[4, 5])", "this is not a product of matrices"),
        ("-(f16[3, 4] @ f16[4, 5]).relu()", "this is not a product of matrices"),
        ("(f16[3, 4] @ f16[4, 5]) - 1", "this is not a product of matrices"),
        ("f16[3, 4] @ f16[4, 5] + f16[3]", r"\(3,\) is neither a bias of 5 columns nor C"),
        ("F.relu(f16[3, 4] @ f16[4, 5]) + f16[3, 5]", "neither a bias of 5 columns nor C"),
        ("F.relu(f16[3, 4]) @ f16[4, 5]", "before they are multiplied"),
        ("F.softmax(f16[3, 4] @ f16[4, 5], dim=-1)", "softmax is not known here; .* `epilogue`"),
        ("torch.addmm(f16[5], f16[3, 4], f16[4, 5], beta=2)", "multiply the bias"),
        ("torch._scaled_mm(e4m3[256, 256], e4m3[256, 256].t(), scale_a=f32[256, 2], scale_b=f32[2, 256])", "for blocks"),
        ("torch._grouped_mm(bf16[3, 4], bf16[2, 4, 5])", "write the product of one group"),
        ("torch.sparse.mm(bf16[3, 4], bf16[4, 5])", "take a sparse atom"),
        ("torch.mv(f16[3, 4], f16[4])", "a matrix of one column"),
        ("torch.einsum('ij,jk,kl->il', f16[2, 3], f16[3, 4], f16[4, 5])", "an einsum of two tensors"),
        ("torch.einsum('ij,jk', f16[2, 3], f16[3, 4])", "write the equation as"),
        ("torch.einsum('ij,jk->ik', f16[2, 3], f16[4, 4])", "j is 3 and 4"),
        ("torch.einsum('ij,ij->i', f16[2, 3], f16[2, 3])", "a product with a vector"),
        ("torch.einsum('ijk,jkl->il', f16[2, 3, 4], f16[3, 4, 5])", "one index that is summed"),
        ("torch.einsum('hmk,kn->mhn', f16[2, 3, 4], f16[4, 5])", "in memory hmk is no mhk"),
        ("torch.einsum('ij,jk->ijk', f16[2, 3], f16[3, 4])", "one index that is summed"),
        ("torch.mm(f16[3, 4])", "two matrices"),
        ("f16[4].T @ f16[4, 5]", "T needs a matrix, and this tensor has fewer dimensions$"),
        ("f16[4].mT @ f16[4, 5]", "no transpose"),
        ("F.linear()", "it needs two matrices"),
        ("F.linear(f16[3, 4])", "it needs two matrices"),
        ("torch.inner(other=f16[3, 4])", "it needs two matrices"),
        ("torch.addmm(mat1=f16[3, 4], mat2=f16[4, 5])", "the matrix that is added is missing"),
        ("torch.bmm(f16[2, 3, 4], f16[3, 4, 5])", "batches of 2 and 3"),
        ("__import__('os').system('true')", "not known here"),
        ("(" * 500 + "1" + ")" * 500, "--torch"),
        ("f16[2, 2]" + ".T" * 5000, "--torch"),
        ("f16[" + "9" * 5000 + ", 2]", "--torch"),
        ("f16[2, 2]\0", "--torch"),
    ],
)
def test_other_expressions_are_refused(text, says):
    with pytest.raises(UsageError, match=says):
        torch_expression.product(text)


def call(
    a="R_16BF rows=512 cols=96", b="R_16BF rows=512 cols=64", d="R_16BF rows=96 cols=64", compute="32F", more=" transa=OP_T"
):
    head = "[2026-01-01 00:00:00][cublasLt][4][Trace][cublasLtMatmul] A=0x7f00"
    return (
        f"{head} Adesc=[type={a} ld=512] B=0x7f10 Bdesc=[type={b} ld=512] C=0x7f20 Cdesc=[type={d} ld=96] D=0x7f20 "
        f"Ddesc=[type={d} ld=96] computeDesc=[computeType=COMPUTE_{compute} scaleType=R_32F{more}] alpha=1 beta=0"
    )


def complex_call(transa):
    a, b, d = "C_64F rows=512 cols=96", "C_64F rows=512 cols=64", "C_64F rows=96 cols=64"
    return call(a=a, b=b, d=d, compute="64F", more=f" transa={transa} bScalePointer=0x0 dScalePointer=(nil)")


def test_calls_of_cublaslt():
    """A column-major D of 96 x 64 is a row-major one of 64 x 96."""
    assert cublaslt_call.product(call()) == product("bf16", "bf16", "TN", 64, 96, 512, 1, sums="f32")
    untransposed = call(a="R_16BF rows=96 cols=512", more="")
    assert cublaslt_call.product(untransposed) == product("bf16", "bf16", "TT", 64, 96, 512, 1, sums="f32")
    assert cublaslt_call.product(complex_call("OP_T")) == product("c64", "c64", "TN", 64, 96, 512, 1, sums="c64")
    both = call(a="R_16BF rows=96 cols=512", b="R_16BF rows=64 cols=512", more=" transB=OP_T")
    assert cublaslt_call.product(both) == product("bf16", "bf16", "NT", 64, 96, 512, 1, sums="f32")
    fp8 = call(a="R_8F_E4M3 rows=512 cols=96", b="R_8F_E5M2 rows=512 cols=64", d="R_16F rows=96 cols=64 batchCount=3")
    assert cublaslt_call.product(fp8) == product("e5m2,e4m3", "f16", "TN", 64, 96, 512, 3, sums="f32")
    tf32 = call(*(f"R_32F rows={r} cols={c}" for r, c in ((512, 96), (512, 64), (96, 64))), compute="32F_FAST_TF32")
    assert cublaslt_call.product(tf32) == product("tf32", "f32", "TN", 64, 96, 512, 1, sums="f32")


@pytest.mark.parametrize(
    ("compute", "types", "keys", "says"),
    [
        ("32F", "f32", {}, ""),
        ("32F_PEDANTIC", "f32", {}, ""),
        ("32F_FAST_TF32", "tf32", {}, ""),
        ("32F_FAST_16BF", "tf32", {}, "lets cuBLASLt round f32 to bf16, 8 bits: tf32 reads f32 too"),
        ("32F_FAST_16F", "tf32", {}, "lets cuBLASLt round f32 to f16, 11 bits: tf32 reads f32 too"),
        ("32F_EMULATED_16BFX9", "f32", {"split": "bf16x6"}, "leaves out three"),
    ],
)
def test_what_a_call_lets_f32_be_multiplied_as(compute, types, keys, says):
    shapes = ((512, 96), (512, 64), (96, 64))
    found = cublaslt_call.product(call(*(f"R_32F rows={r} cols={c}" for r, c in shapes), compute=compute))
    assert found == product(types, "f32", "TN", 64, 96, 512, 1, sums="f32", keys=keys, remark=found.remark)
    assert says in found.remark and bool(says) == bool(found.remark)


@pytest.mark.parametrize(
    ("epilogue", "operations"),
    [
        ("BIAS", ({"bias": "column"},)),
        ("RELU", ("relu",)),
        ("GELU_BIAS", ({"bias": "column"}, {"gelu": "tanh"})),
        ("DEFAULT", None),
    ],
)
def test_epilogues_of_cublaslt(epilogue, operations):
    line = call(more=f" transa=OP_T epilogue=EPILOGUE_{epilogue}")
    assert cublaslt_call.product(line).operations == (() if operations is None else ("alpha", *operations))
    with_c = cublaslt_call.product(line.replace("beta=0", "beta=0.5")).operations
    assert with_c == (() if operations is None else ("alpha", "beta_c", *operations))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "Adesc is missing"),
        (call().replace("rows=512", "rows=x"), "without rows"),
        (call().replace("R_16BF", "R_4F"), "type=R_4F"),
        (call(compute="128F"), "computeType is COMPUTE_128F"),
        (call().replace("computeType=", "q="), "computeType is missing"),
        (call(more=""), "no product"),
        (call(more=" transa=OP_T epilogue=EPILOGUE_RELU_AUX_BIAS"), "EPILOGUE_RELU_AUX_BIAS: AUX is not read; remove it"),
        (call().replace("R_16BF", "C_32F"), "complex numbers are pairs of f64"),
        (call(a="R_16BF rows=512 cols=96 order=ORDER_ROW"), "order=ORDER_ROW"),
        (call(more=" transa=OP_T aScalePointer=0x7f30"), "ascalepointer=0x7f30: remove it, and add `scale`"),
        (complex_call("OP_C"), "OP_C: matrices are not conjugated"),
        (call(d="R_16BF rows=96 cols=64 batchCount=x"), "batchCount=x"),
        (call(d="R_16BF rows=96 cols=64 batchCount=0"), "batchCount=0 is no number"),
        (
            call(a="R_16BF rows=512 cols=96 batchCount=2", d="R_16BF rows=96 cols=64 batchCount=5"),
            "batchCount is 2 of A, 5 of D; all matrices of a call have the same",
        ),
    ],
)
def test_other_lines_are_refused(line, says):
    with pytest.raises(UsageError, match=says):
        cublaslt_call.product(line)


def test_a_product_becomes_a_spec(capsys):
    code, out, _ = typed(capsys, "new", "--torch", "F.linear(f16[256, 512], f16[96, 512])", "--arch", "sm_80", "-")
    document = yaml.safe_load(out)
    assert code == 0 and document["problems"] == [[256, 96, 512]] and document["layout"] == "TN"
    code, out, err = typed(capsys, "new", "--cublaslt", call(), "--problem", "8,8,8", "-")
    document = yaml.safe_load(out)
    assert (
        code == 0
        and document["problems"] == [[8, 8, 8]]
        and document["epilogue"] == {"out": "bf16"}
        and "its B is A here" in err
    )
    code, _, err = typed(capsys, "new", "--torch", "a", "--cublaslt", "b", "-")
    assert code == 2 and "give one of" in err


@pytest.mark.parametrize(
    ("options", "keys", "kind"),
    [
        (("--torch", "F.gelu(F.linear(bf16[256, 512], bf16[96, 512], bf16[96]))"),
         {"epilogue": [BIAS, "gelu", {"cast": "bf16"}]}, "SM90_64"),
        (("--torch", "torch._scaled_mm(e4m3[256, 512], e4m3[128, 512].t(), scale_a=f32[256, 1], scale_b=f32[1, 128])"),
         {"scale": {"a": "row", "b": "column"}, "epilogue": {"out": "bf16"}}, "SM90_64"),
        (("--cublaslt", call(*(f"R_32F rows={r} cols={c}" for r, c in ((512, 96), (512, 64), (96, 64))),
                             compute="32F_EMULATED_16BFX9")),
         {"split": "bf16x6"}, "SM90_64"),
    ],
)  # fmt: skip
def test_what_is_done_with_a_product_is_in_the_spec(capsys, options, keys, kind):
    code, out, _ = typed(capsys, "new", *options, "--arch", "sm_90a", "-")
    document = yaml.safe_load(out)
    assert code == 0 and {key: document.get(key) for key in keys} == keys and document["atom"].startswith(kind)


def test_a_decision_about_a_call_is_printed(capsys):
    shapes = ((512, 96), (512, 64), (96, 64))
    line = call(*(f"R_32F rows={r} cols={c}" for r, c in shapes), compute="32F_FAST_16BF")
    code, out, err = typed(capsys, "new", "--cublaslt", line, "-")
    assert code == 0 and "TF32TF32" in yaml.safe_load(out)["atom"] and "tf32 reads f32 too" in err
    assert "tf32 reads f32 too" in " ".join(out.replace("#", " ").split())
