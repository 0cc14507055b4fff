"""The compressed form of sparse matrices: which elements are kept, metadata in the order of the instruction, and the way back."""

import numpy as np
import pytest

from mmagen.emulate.arithmetic.mma import BITS, sparse_columns
from mmagen.mma import catalogue
from mmagen.mma.atoms import find_atom
from mmagen.mma.sparse_atoms import PAD_BLOCKS, WORDS, find_sparse, in_shared_memory, sparse_name
from mmagen.mma.sparsity import blocks, columns_stored, compress, decompress, kept, metadata_words, positions

BF16 = "SM90::GMMA::SPARSE::GMMA_64x128x32_F32BF16BF16_SS"
TF32 = "SM90::GMMA::SPARSE::GMMA_64x128x16_F32TF32TF32_SS_TN"
S8 = "SM90::GMMA::SPARSE::GMMA_64x128x64_S32S8S8_SS_TN"
ALL = (BF16, TF32, S8)


def atom(name):
    found = find_sparse(name)
    assert found
    return found


def test_every_sparse_wgmma_with_a_in_shared_memory_is_an_atom():
    names = [o.name for o in catalogue.operations() if o.kind == "wgmma" and o.sparse]
    assert len(names) > 1000
    for name in names:
        found = find_sparse(name)
        if found is None:
            assert find_sparse(in_shared_memory(name) or "")
            continue
        dense = find_atom(found.dense_name(found.n))
        assert dense and sparse_name(dense.name) == name
        assert found.block_k * found.type_a.bits // 2 * 64 == found.selectors * 64 * 32 * 8  # 32 bytes of a row for each
        assert found.metadata_bytes("A", 64, found.block_k) == 512


def test_a_dense_atom_has_no_metadata():
    dense = find_atom("SM90_64x128x16_F32BF16BF16_SS")
    assert dense and dense.metadata_bytes("A", 128, 64) == 0 and dense.stored("A") == (1, 1) and dense.depths == ()


@pytest.mark.parametrize(
    ("name", "group", "expected"),
    [
        (BF16, [1, -3, 2, 0], [0, 1, 1, 0]),
        (BF16, [0, 0, 0, 5], [1, 0, 0, 1]),
        (BF16, [0, 0, 0, 0], [1, 1, 0, 0]),
        (BF16, [2, 2, 2, 2], [1, 1, 0, 0]),
        (BF16, [1, 2, 2, 2], [0, 1, 1, 0]),
        (BF16, [np.inf, np.nan, 1, np.inf], [1, 1, 0, 0]),
        (S8, [127, -128, 127, 0], [1, 1, 0, 0]),
        (TF32, [1, -1], [1, 0]),
        (TF32, [1, -2], [0, 1]),
        (TF32, [0, 0], [1, 0]),
    ],
)
def test_the_largest_magnitudes_are_kept_and_of_equal_ones_the_first(name, group, expected):
    assert kept(atom(name), np.abs(np.array(group, float))).tolist() == [bool(x) for x in expected]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("m", "k"), [(64, 64), (65, 33), (1, 1), (130, 515), (3, 256)])
def test_decompressing_gives_back_what_was_kept(name, m, k):
    it, rng = atom(name), np.random.default_rng(3)
    dense = rng.integers(-5, 6, (2, m, k)).astype(np.int8)
    stored = kept(it, np.abs(dense.astype(float)))
    values, metadata = compress(it, dense, stored)
    assert values.shape == (2, m, columns_stored(it, k)) and metadata.shape == (2, metadata_words(it, m, k))
    assert (decompress(it, values, metadata, k) == dense * stored[..., :k]).all()


@pytest.mark.parametrize("name", ALL)
def test_the_words_of_a_block_are_the_registers_of_the_instruction(name):
    """Against the emulator's reading of metadata, which was compared with an H200's."""
    it, rng = atom(name), np.random.default_rng(5)
    k = it.block_k
    stored = kept(it, rng.random((1, 64, k)))
    _, metadata = compress(it, np.zeros((1, 64, k), np.int8), stored)
    words = metadata.reshape(PAD_BLOCKS, WORDS)[0].reshape(4, 32)  # of four warps
    for selector in range(it.selectors):
        columns = sparse_columns(BITS[it.type_a.word], it.k, words, selector).reshape(64, -1)
        part = stored[0, :, selector * it.k : (selector + 1) * it.k]
        assert (columns == np.nonzero(part)[1].reshape(64, -1)).all()


@pytest.mark.parametrize("name", ALL)
def test_behind_the_matrix_metadata_are_those_of_zeros(name):
    it = atom(name)
    _, metadata = compress(it, np.ones((1, 1, 1), np.int8), kept(it, np.ones((1, 1, 1))))
    assert blocks(it, 1, 1) == (1, PAD_BLOCKS)
    assert set(metadata.ravel().tolist()) == {0x44444444}


@pytest.mark.parametrize(("name", "word"), [(BF16, 0x44444440), (BF16, 0x44444441), (S8, 0x54444444), (TF32, 0x44444445)])
def test_metadata_that_name_no_places_are_refused(name, word):
    it = atom(name)
    metadata = np.full((1, metadata_words(it, 64, it.block_k)), 0x44444444, np.uint32)
    positions(it, metadata, 64, it.block_k)
    metadata[0, 77] = word
    with pytest.raises(ValueError, match="no legal places"):
        positions(it, metadata, 64, it.block_k)
