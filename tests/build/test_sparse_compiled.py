"""Sparse kernels compiled: the functions of the host against the reference, refused calls, a K of 0, splits of K and libraries."""

import ctypes
import os
from pathlib import Path

import numpy as np
import pytest

from mmagen.build.ptx import compile_ptx
from mmagen.core.templates import templates_folder
from mmagen.emulate import Device, GlobalMemory
from mmagen.families import plan
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.host_runtime.arguments import argument_bytes
from mmagen.host_runtime.compile import compile_program
from mmagen.host_runtime.library import HostError
from mmagen.host_runtime.program import run_program
from mmagen.mma.sparse_atoms import find_sparse
from mmagen.mma.sparsity import columns_stored, metadata_words
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.toolchain.identity import open_cache
from mmagen.verify.emulated import host
from mmagen.verify.emulated.compressor import compress_arguments, drawn
from mmagen.verify.emulated.session import run_tasks, tasks
from mmagen.verify.emulated.task import Task

pytestmark = pytest.mark.nvcc

PREFIX = "SM90::GMMA::SPARSE::GMMA_64x8x"
KINDS = ("32_F32BF16BF16_SS", "16_F32TF32TF32_SS_TN", "64_F32E4M3E4M3_SS_TN", "64_S32S8S8_SS_TN", "64_S32U8U8_SS_TN")
APART = {"batch": 2, "batch_stride_dense": 64, "batch_stride_values": 2048, "batch_stride_metadata": 512}
SUCCESS, NULL_METADATA, UNALIGNED_A, UNALIGNED_B, NOT_SPARSE, ILLEGAL = 0, 52, 144, 145, 150, 151


class Case(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("m", "k", "batch", "ld_dense", "contiguous_k", "violation")),
        ("sentence", ctypes.c_char * 320),
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sparse")
    cutlass = find_toolchain(want=("cutlass",)).cutlass
    assert cutlass
    flags = [f"-I{templates_folder() / 'runtime'}", "-isystem", str(cutlass.path)]
    return compile_program([Path(__file__).with_name("sparse_host.cu")], "sm_80", folder, flags=flags)


def same_bits(found, expected):
    bits = f"u{expected.dtype.itemsize}"
    return (np.ascontiguousarray(found).view(bits) == np.ascontiguousarray(expected).view(bits)).all()


@pytest.mark.parametrize("kind", range(3))
def test_what_is_sparse_already_has_zeros_of_both_signs(kind):
    made = drawn(find_sparse(PREFIX + KINDS[kind]), 83, 299, True, 3, 1, sparse=True)
    zeros = made.dense.view.astype(float) == 0
    signs = np.signbit(made.dense.view.astype(float))[zeros]
    assert made.violation == -1 and 0.3 < signs.mean() < 0.7


@pytest.mark.parametrize("kind", range(len(KINDS)))
@pytest.mark.parametrize(("m", "k", "contiguous_k", "pad"), [(66, 90, True, 3), (3, 300, True, 0), (5, 34, False, 1)])
def test_the_host_compresses_as_the_reference_does(program, kind, m, k, contiguous_k, pad):
    atom = find_sparse(PREFIX + KINDS[kind])
    expected = drawn(atom, m, k, contiguous_k, pad, 7)
    dense, size = expected.dense, expected.dense.view.itemsize
    # Batches one behind the other, as the program has them.
    packed = np.zeros((2, dense.lines.shape[1], dense.ld), dense.view.dtype)
    packed[:, :, : dense.lines.shape[2]] = dense.lines
    ld_values = -(-columns_stored(atom, k) * size // 16) * 16 // size
    room = [packed.nbytes, 2 * m * ld_values * size, 2 * metadata_words(atom, m, k) * 4]
    one = Case(m=m, k=k, batch=2, ld_dense=dense.ld, contiguous_k=contiguous_k)
    run = run_program(program, "compress_on_host", [kind, bytes(one), packed.tobytes(), *map(bytes, room)])
    said = Case.from_buffer_copy(run.outputs[0])
    assert (run.value, said.violation) == (NOT_SPARSE, expected.violation)
    row, column = divmod(expected.violation % (m * k), k)
    assert said.sentence.decode().startswith(f"row {row} of matrix {expected.violation // (m * k)} has more than {atom.kept}")
    assert f"columns {column} to {column + atom.group - 1}" in said.sentence.decode()
    pruned = np.frombuffer(run.outputs[2], packed.dtype).reshape(packed.shape)[:, :, : dense.lines.shape[2]]
    assert same_bits(pruned if contiguous_k else pruned.swapaxes(1, 2), expected.pruned)
    values = np.frombuffer(run.outputs[3], packed.dtype).reshape(2, m, ld_values)[..., : columns_stored(atom, k)]
    assert same_bits(values, expected.values)
    assert (np.frombuffer(run.outputs[4], np.uint32).reshape(2, -1) == expected.metadata).all()


@pytest.mark.parametrize("word", [0, 127, 128 * 4 - 1])
def test_metadata_that_are_not_legal_are_found(program, word):
    metadata = np.full(128 * 4, 0x44444444, np.uint32)
    metadata[word] = 0x4A444444
    metadata[-1] = metadata[-1] if word == len(metadata) - 1 else 0x44444440
    one = Case(m=64, k=64, batch=1)
    run = run_program(program, "check_on_host", [bytes(one), metadata.tobytes()])
    said = Case.from_buffer_copy(run.outputs[0])
    assert (run.value, said.violation) == (ILLEGAL, word) and "0x4a444444" in said.sentence.decode()
    memory = Device()
    on_device, violation = memory.array(metadata), memory.array(np.zeros(1, np.int64))
    run = run_program(program, "check_on_device", [bytes(one), on_device, violation], memory=memory)
    assert run.ok and violation.read()[0] == word


# --- A project --------------------------------------------------------------------------------------------------------

SPEC = """
mmagen: 1
name: sparse_library
kernel: gemm
atom: SM90::GMMA::SPARSE::GMMA_64x32x32_F32BF16BF16_SS
tile: [64, 32, 64]
schedule: cooperative
arch: [sm_90a]
problems: [[64, 32, 256], [64, 64, 512]]
configs:
  - {name: shared, when: {n: [33, 64]}, stream_k: always, tile: [64, 32, 128], stages: 3}
  - {name: parts, split_k: 3, stages: 4}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    made = plan(load(SPEC, "it.yaml").spec)
    folder = tmp_path_factory.mktemp("library") / made.name
    write(render(made), folder)
    toolchain = find_toolchain(want=COMPILE)
    ptx = compile_ptx(folder, toolchain, cache=open_cache(toolchain, os.environ))
    assert not ptx.error, ptx.error
    return made, ptx


def test_the_kernels_of_a_library_share_one_format(library):
    made, ptx = library
    work = tasks(made, ptx, [], 1, None)
    assert {task.config for task in work} == {"shared", "parts"}
    few = [task for task in work if task.distribution == "uniform" or task.problem.batch > 1]
    results = [record for result in run_tasks(few, 1, lambda *_: None) for record in result.records]
    assert len(results) >= 2
    assert [record["reason"] for record in results if record["disposition"] != "passed"] == []


@pytest.mark.parametrize("shape", [(64, 64, 0), (70, 70, 0)])
def test_a_k_of_0_stores_beta_times_c(library, shape):
    made, ptx = library
    m, n, k = shape
    one = next(config for config in made.configs if config.when is None or config.when.holds(m, n, 1))
    task = Task(one.plan, ptx, Problem(shape=(m, n, 1)), "small_int", 1, library=made, config=one.name)
    memory = GlobalMemory()
    c = np.arange(m * n, dtype=np.float32)
    values = {"m": m, "n": n, "k": k, "batch": 1, "ldc": n, "ldd": n, "alpha": 1.0, "beta": 2.0}
    values |= {"c": memory.allocate("c", c.view(np.uint8), writable=False), "d": memory.allocate("d", size=c.nbytes)}
    call = [argument_bytes(values, made.arguments.members)]
    for captured in host.launches_of(task, task.symbol("run"), call, resident=2, most=2):
        report = host.emulate(task, captured, memory)
        assert report.completed and not report.findings
    assert (memory.read("d", np.float32) == 2 * c).all()


def _status(task, **changes):
    """The status and sentence of a call of 64 x 32 x 64 with one change, () for none."""
    values = {"m": 64, "n": 32, "k": 64, "batch": 1, "a": 0x1000, "lda": 32, "b": 0x2000, "ldb": 64, "d": 0x3000, "ldd": 32}
    call = argument_bytes({**values, "alpha": 1.0, "metadata_a": 0x4000, **changes}, task.library.arguments.members)
    with pytest.raises(HostError) as caught:
        host.launches_of(task, task.symbol("can_run"), [call])
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"metadata_a": 0}, NULL_METADATA, "metadata_a is NULL"),
        ({"metadata_a": 0x4008}, 68, "metadata_a is 0x4008, not aligned to 16 bytes"),
        (
            {"batch": 2, "batch_stride_d": 2048, "batch_stride_metadata_a": 6},
            68,
            "batch_stride_metadata_a is 6, no multiple of 4",
        ),
        ({"batch": 2, "batch_stride_metadata_a": -4}, 132, "batch_stride_metadata_a is -4, a stride is 0 or more"),
        ({"lda": 31}, 80, "lda is 31; a line of A along K has 32 elements"),
        ({"lda": 33}, UNALIGNED_A, "lda is 33, of 2 bytes each; lines of A begin at multiples of 16 bytes"),
        ({"a": 0x1008}, UNALIGNED_A, "a is 0x1008, not aligned to 16 bytes"),
        ({"ldb": 65}, UNALIGNED_B, "ldb is 65, of 2 bytes each; lines of B begin at multiples of 16 bytes"),
        ({"b": 0x2002}, UNALIGNED_B, "b is 0x2002, not aligned to 16 bytes"),
        ({"k": -1}, 34, "k is -1"),
        ({"k": (1 << 30) - 8447}, 42, "k is 1073733377, 1073733376 is the most"),
        (
            {"lda": 1 << 39},
            176,
            "lda is 549755813888, of 2 bytes each; TMA addresses lines of A that are less than 2^40 bytes apart",
        ),
    ],
)
def test_a_call_that_cannot_be_computed_is_refused(library, changes, status, says):
    made, ptx = library
    one = made.configs[-1]
    task = Task(one.plan, ptx, Problem(shape=(64, 32, 64)), "small_int", 1, library=made, config=one.name)
    said = _status(task, **changes)
    assert f"status {status}," in said and says in said


@pytest.mark.parametrize(
    ("function", "changes", "status", "says"),
    [
        ("compress", {"dense": 0}, 146, "dense is NULL"),
        ("compress", {"dense": 0x1001}, 147, "not aligned to 2 bytes"),
        ("compress", {"values": 0x1008}, 147, "not aligned to 16 bytes"),
        ("compress", {"ld_dense": 63}, 148, "ld_dense is 63; a line has 64 elements"),
        ("compress", {"ld_values": 36}, 147, "multiples of 8"),
        ("compress", {"batch": 2, "batch_stride_metadata": 512}, 149, "batch_stride_values is 0"),
        ("prune", {"pruned": 0}, 146, "pruned is NULL"),
        ("check_metadata", {"metadata": 0}, 146, "metadata is NULL"),
        ("check_metadata", {"m": -1}, 32, "m is -1"),
        ("compress_host", {"k": 2**31}, 42, "k is 2147483648"),
        ("compress", {"struct_size": 8}, 17, "struct_size is 8"),
        ("compress", {"batch": 1 << 55, "batch_stride_metadata": 512}, 173, "batch is 36028797018963968"),
        ("check_metadata_host", {"batch": 1 << 55, "batch_stride_metadata": 512}, 173, "batch is 36028797018963968"),
        ("compress", {"ld_dense": 2**63 - 1}, 173, "ld_dense is 9223372036854775807"),
        ("prune_host", {"ld_dense": 1 << 57}, 173, "ld_dense is 144115188075855872"),
        ("prune", {"ld_pruned": (1 << 62) + 16}, 173, "ld_pruned is 4611686018427387920"),
        ("compress", {"ld_values": 1 << 58}, 173, "ld_values is 288230376151711744"),
        ("compress", APART | {"batch_stride_values": 1 << 62}, 173, "and batch_stride_values 4611686018427387904"),
        ("compress", APART | {"batch_stride_metadata": 1 << 61}, 173, "and batch_stride_metadata 2305843009213693952"),
        ("compress", APART | {"batch_stride_dense": -64}, 174, "batch_stride_dense is -64"),
        ("check_metadata_host", {"batch": 2, "batch_stride_metadata": -512}, 174, "batch_stride_metadata is -512"),
    ],
)
def test_a_call_that_cannot_compress_is_refused(library, function, changes, status, says):
    made, ptx = library
    task = Task(made.configs[0].plan, ptx, Problem(shape=(64, 32, 64)), "small_int", 1, library=made, config="parts")
    values = {
        "m": 64,
        "k": 64,
        "batch": 1,
        "dense": 0x1000,
        "ld_dense": 64,
        "pruned": 0x2000,
        "ld_pruned": 64,
        "values": 0x3000,
        "ld_values": 32,
        "metadata": 0x4000,
    }
    call = compress_arguments({**values, **changes})
    with pytest.raises(HostError) as caught:
        host.launches_of(task, task.symbol(function), [call])
    assert f"status {status}," in str(caught.value) and says in str(caught.value)
