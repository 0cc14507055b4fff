"""Layouts, formats and images of operands: what is packed is what is read."""

import numpy as np
import pytest

from mmagen.mma import formats, images
from mmagen.mma.catalogue import find, operations
from mmagen.mma.forms import forms
from mmagen.op_tests import case
from tests.op_tests.test_op_tests import RUNNABLE


def one_of_each_kind():
    """Operations that differ in more than N."""
    table = {}
    for operation in RUNNABLE:
        key = (
            operation.family,
            operation.kind,
            operation.type_d,
            operation.type_a,
            operation.type_b,
            operation.k,
            operation.sparse,
            operation.places["A"],
            operation.block_scaled,
            operation.saturate,
        )
        table[key] = operation
    return list(table.values())


KINDS = one_of_each_kind()


# --- Layouts and formats ----------------------------------------------------------------------------------------------


def test_layouts_are_evaluated_as_the_registry_does():
    texts = {layout.text: layout for operation in operations() for layout in map(operation.layout, operation.layouts)}
    small = [layout for layout in texts.values() if layout.rows * layout.columns <= 4096]
    assert len(small) > 100
    for layout in small:
        assert images.owners(layout.text).tolist() == layout.table(), layout.text


@pytest.mark.parametrize(
    "word, name",
    [
        ("f16", "float16"),
        ("bf16", "bfloat16"),
        ("e4m3", "float8_e4m3fn"),
        ("e5m2", "float8_e5m2"),
        ("e2m1", "float4_e2m1fn"),
        ("e3m2", "float6_e3m2fn"),
        ("e2m3", "float6_e2m3fn"),
    ],
)
def test_values_of_codes(word, name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.float16 if name == "float16" else getattr(ml_dtypes, name, None)
    if kind is None:
        pytest.skip(f"this ml_dtypes has no {name}")
    codes = np.arange(1 << formats.bits(word))
    theirs = codes.astype(np.uint16 if formats.bits(word) == 16 else np.uint8).view(kind).astype(np.float64)
    assert np.array_equal(formats.values(word), theirs, equal_nan=True)


@pytest.mark.parametrize(
    "word", ["f16", "bf16", "e4m3", "e5m2", "e2m1", "e3m2", "e2m3", "ue4m3", "s4", "u4", "s8", "u8", "s16", "s32", "f32", "f64"]
)
def test_codes_keep_their_values(word):
    rng = np.random.default_rng(1)
    numbers = rng.integers(0 if word[0] == "u" else -4, 5, 1000).astype(np.float64)
    assert np.array_equal(formats.decode(formats.encode(numbers, word), word), numbers)


def test_encoding_goes_to_the_nearest_value_and_saturates():
    assert formats.decode(formats.encode(np.array([1.24, 1.26, 5.4, 100.0, -100.0]), "e2m1"), "e2m1").tolist() == [
        1,
        1.5,
        6,
        6,
        -6,
    ]
    assert formats.decode(formats.encode(np.array([0.25, 1.0, 8.0]), "ue8m0"), "ue8m0").tolist() == [0.25, 1.0, 8.0]
    assert formats.decode(formats.encode(np.array([1 + 2.0**-12]), "tf32"), "tf32").tolist() == [1.0]


# --- Images -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", KINDS, ids=lambda operation: operation.name)
def test_what_is_packed_is_what_is_read(operation):
    """C's image, read as D's, is C: what a kernel that does nothing would leave."""
    form = forms(operation)[-1]
    data = case.matrices(form, "small_int", 3)
    launch = case.launch_of(form, data, case.lines_of(form)[0])
    same = case.judge(form, launch.images[2].tobytes(), case.Expected(data.values_c, np.zeros_like(data.values_c)))
    assert not same.reason and launch.images[2].nbytes == launch.size_d
    other = case.judge(form, launch.images[2].tobytes(), case.truth_of(form, data, "small_int"))
    assert other.incorrect  # and it is not the product


@pytest.mark.parametrize("operation", KINDS, ids=lambda operation: operation.name)
def test_small_integers_are_exact_whatever_the_order(operation):
    data = case.matrices(forms(operation)[0], "small_int", 4)
    if operation.block_scaled or operation.type_d == "s32":
        return
    most = 4 * 4 * operation.k // (2 if operation.sparse else 1) * 2 + 8
    assert most <= (2.0**13 if operation.type_a in ("e4m3", "e5m2") else 1 / formats.roundoff(operation.type_d))
    assert np.abs(data.values_c).max() <= 8


def sparse_kinds():
    return [operation for operation in KINDS if operation.sparse]


@pytest.mark.parametrize("operation", sparse_kinds(), ids=lambda operation: operation.name)
def test_metadata_says_where_the_nonzeros_are(operation):
    """A rebuilt from the stored elements and the metadata bits, as the PTX ISA tells it, is A."""
    data = case.matrices(forms(operation)[0], "small_int", 5)
    group = {"2:4": 4, "1:2": 2, "4:8": 8}[operation.sparsity]
    scales = data.sfa or [None] * len(data.a)
    for stored, metadata, full, scale in zip(data.a, data.e, data.values_a, scales, strict=True):
        stored, full = formats.decode(stored, operation.type_a)[0, :, :, 0], full[0, :, :, 0]
        rebuilt = np.zeros((operation.m, operation.k))
        for row in range(operation.m):
            bits = int.from_bytes(bytes(metadata[0, row, :, 0].astype(np.uint8)), "little")
            for index in range(operation.k // group):
                nibble = bits >> 4 * index & 15
                kept = {
                    "1:2": [{0b0100: 0, 0b1110: 1}.get(nibble)],
                    "2:4": [nibble & 3, nibble >> 2],
                    "4:8": [2 * (nibble & 3), 2 * (nibble & 3) + 1, 2 * (nibble >> 2), 2 * (nibble >> 2) + 1],
                }[operation.sparsity]
                assert kept == sorted(set(kept))
                for j, place in enumerate(kept):
                    rebuilt[row, index * group + place] = stored[row, index * len(kept) + j]
        scaled = (
            rebuilt
            if scale is None
            else rebuilt * np.repeat(formats.decode(scale, operation.type_sf)[0, :, :, 0], operation.vector, axis=1)
        )
        assert np.array_equal(scaled, full)
        assert (rebuilt != 0).sum() == operation.m * operation.k // 2


def test_metadata_of_a_wgmma_in_registers():
    """m64n8k32.f16: a row's 32 bits lie in threads 4g (first 16 columns) and 4g + 1, row + 8 in the upper half."""
    operation = find("SM90::GMMA::SPARSE::GMMA_64x8x32_F32F16F16_SS")
    form = forms(operation)[0]
    data = case.matrices(form, "small_int", 6)
    words = case.launch_of(form, data, (16, 16)).images[3].view(np.uint32).reshape(2, 128)
    rows = data.e[0][0, :, :, 0].astype(np.uint32)  # [row, byte]
    for warp, group, half in np.ndindex(4, 8, 2):
        low, high = (16 * warp + group + 8 * step for step in (0, 1))
        of = [rows[r, 2 * half] | rows[r, 2 * half + 1] << 8 for r in (low, high)]
        assert words[0, 32 * warp + 4 * group + half] == of[0] | of[1] << 16


def test_scale_factors_in_registers():
    """scale_vec::1X: threads 4g and 4g + 1 hold A's factors of rows g and g + 8."""
    operation = next(o for o in RUNNABLE if o.block_scaled and not o.sparse and o.k == 32)
    form = forms(operation)[0]
    data = case.matrices(form, "small_int", 7)
    image = case.launch_of(form, data, (0, 0)).images[4].reshape(2, 32)
    rows = data.sfa[0][0, :, 0, 0]
    assert all(image[0, 4 * g] == rows[g] and image[0, 4 * g + 1] == rows[g + 8] for g in range(8))


@pytest.mark.parametrize("k_major", [True, False])
@pytest.mark.parametrize("line", images.SWIZZLES)
def test_shared_memory_keeps_every_element_once(k_major, line):
    codes = np.arange(1, 2 * 64 * 16 + 1, dtype=np.uint64).reshape(2, 64, 16)
    made = images.shared(codes, 16, k_major, line)
    found = made.data.view(np.uint16)
    assert sorted(found[found != 0]) == list(range(1, codes.size + 1))
    assert made.descriptor >> 62 == {16: 0, 128: 1, 64: 2, 32: 3}[line] and made.step % 16 == 0


def test_a_line_of_128_bytes_is_swizzled_by_its_number():
    codes = np.arange(64 * 64, dtype=np.uint64).reshape(1, 64, 64)
    data = images.shared(codes, 16, True, 128).data.view(np.uint16).reshape(64, 8, 8)
    for row, chunk in ((0, 0), (1, 0), (5, 3), (63, 7)):
        assert data[row, chunk ^ (row % 8)].tolist() == codes[0, row, 8 * chunk : 8 * chunk + 8].tolist()
