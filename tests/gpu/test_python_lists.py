"""Lists of matrices and sparse matrices from Python on a GPU, with torch."""

from __future__ import annotations

from pathlib import Path

import pytest

import mmagen

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.nvcc, pytest.mark.gpu]

ROOT = Path(__file__).resolve().parents[2]
SHAPES = [(70, 272, 144), (0, 64, 64), (129, 40, 80), (64, 16, 0), (1, 8, 8), *((33 + i, 24, 64) for i in range(40))]


def small(*shape):
    """Small integers, whose products are exact in bf16's range of sums here."""
    return torch.randint(-1, 2, shape, device="cuda").to(torch.bfloat16)


def compiled(spec):
    kernel = mmagen.compile(ROOT / spec)
    if why := kernel.can_run(128, 128, 128):
        pytest.skip(why)
    return kernel


def test_lists_of_matrices_are_multiplied_one_by_one():
    kernel = compiled("specs/sm90_gemm_bf16_pointers.yaml")
    a = [small(m, k) for m, _, k in SHAPES]
    b = [small(n, k).mT for _, n, k in SHAPES]
    c = [small(m, n) for m, n, _ in SHAPES]
    for _ in range(3):  # the workspace of the call before holds other tensor maps
        found = kernel(a, b, c=c, beta=-1)
        assert kernel._fast(a, b, None, c, 1, -1, None, {}, None) is not None, "the compiled caller does it"
        for one, x, y, z in zip(found, a, b, c, strict=True):
            assert torch.equal(one, (x.float() @ y.float() - z.float()).to(torch.bfloat16))
        a, b, c = a[::-1], b[::-1], c[::-1]


def test_a_sparse_matrix_is_compressed_on_the_device():
    kernel = compiled("specs/sm90_gemm_sparse_bf16.yaml")
    a, b = small(300, 512) + 2, small(200, 512).mT  # no zeros
    with pytest.raises(mmagen.ArgumentError, match=r"a: row 0, columns 0 to 3: more than 2 of them are not zero"):
        kernel.compress(a)
    pruned = kernel.prune(a)
    assert int((pruned != 0).sum()) == pruned.numel() // 2
    one = kernel.compress(pruned)
    expected = (pruned.float() @ b.float()).to(torch.bfloat16)
    assert torch.equal(kernel(one, b), expected)
    assert torch.equal(kernel(kernel.compress(a, prune=True), b), expected)
    assert kernel.compressed(one.values, one.metadata, 512).shape == (300, 512)
    wrong = one.metadata.clone()
    wrong[1, 7] = 0
    with pytest.raises(mmagen.ArgumentError, match=f"metadata: word {one.metadata.shape[1] + 7} names no legal places"):
        kernel.compressed(one.values, wrong, 512)
