"""Planted faults: small edits of generated projects, each of which verify must notice.

A mutation belongs to a spec of specs/ or of odd/. Its project is generated under the mutation's own name, so that all of them
compile together, and then edited: every text must stand there as often as stated, or the edit is out of date.

A dropped barrier alone is a race that may go well for years. Those mutations make one warp late as well, which is no
fault while the barrier stands (see CONTROLS), so that the effect is certain.

Faults of wgmma kernels for which a GPU would wait for ever, or would nearly always be lucky, are asked of the emulator
alone (more of them, made in PTX, are in tests/build/test_emulated_hopper.py); the others of the GPU alone, since each
takes nvcc ten seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mmagen.families import plan
from mmagen.generate.render import render
from mmagen.spec.load import load
from tests.support import mutations_clusters, mutations_packed, mutations_sparse, mutations_sparse_mma
from tests.support.mutations_complex import FAULTS as COMPLEX_FAULTS
from tests.support.mutations_corners import FAULTS as CORNER_FAULTS
from tests.support.mutations_epilogue import FAULTS as EPILOGUE_FAULTS
from tests.support.mutations_few_rows import FAULTS as FEW_ROWS_FAULTS
from tests.support.mutations_few_rows import OTHER_SIZES as FEW_ROWS_OF_OTHER_SIZES
from tests.support.mutations_group_tensors import FAULTS as GROUP_TENSOR_FAULTS
from tests.support.mutations_grouped import FAULTS as GROUPED_FAULTS
from tests.support.mutations_mixed import FAULTS as MIXED_FAULTS
from tests.support.mutations_pieces import FAULTS as PIECES_FAULTS
from tests.support.mutations_pointers import FAULTS as POINTER_FAULTS
from tests.support.mutations_producers import FAULTS as PRODUCER_FAULTS
from tests.support.mutations_reach import FAULTS
from tests.support.mutations_scale import FAULTS as SCALE_FAULTS

SPECS = Path(__file__).resolve().parents[2] / "specs"
ODD = SPECS.parent / "tests" / "gpu" / "odd"

GPU, EMULATOR = "gpu", "emulator"

_LATE = "if (threadIdx.x / 32 == 1) { __nanosleep(20000); }"  # the second warp


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which occurs `count` times in `file` of the project; "{name}" in it is the project's name."""

    file: str
    old: str
    new: str
    count: int = 1


@dataclass(frozen=True)
class Mutation:
    """problems: as verify takes them after --problem, none for a kernel of fixed shape. seen: how the fault shows.
    where: who is asked, the GPU or the emulator."""

    name: str
    spec: str
    edits: tuple[Edit, ...]
    problems: tuple[str, ...]
    seen: str
    where: tuple[str, ...] = (GPU, EMULATOR)


def _one(
    name: str,
    spec: str,
    header: str,
    old: str,
    new: str,
    problem: str,
    seen: str,
    count: int = 1,
    where: tuple[str, ...] = (GPU, EMULATOR),
) -> Mutation:
    file = "include/{name}/config.cuh" if header == "config" else f"include/mmagen/{header}.cuh"
    return Mutation(name, spec, (Edit(file, old, new, count),), (problem,) if problem else (), seen, where)


def _hopper(name: str, spec: str, header: str, old: str, new: str, problem: str, seen: str, where: str = GPU) -> Mutation:
    return _one(f"hopper_{name}", f"sm90_gemm_{spec}", header, old, new, problem, seen, where=(where,))


_WAIT = "      cp_async_wait<kStages - 2>();\n      __syncthreads();\n"
_SLICE_BARRIER = "      __syncthreads();  // the mainloop, or the preceding slice, no longer uses this memory\n"
_STAGED = "rC, sC); }\n  __syncthreads();\n"
_STAGE = "  if (k_slice == 0) { copy("
_COPY_A = "  copy_tile(typename A::GmemCopyNarrow{}, gA, sA);\n"
_READS = "CUTE_DEVICE bool reads_source() const { return beta != Scalar(0); }"

_BARRIERS = (
    _one(
        "loop_barrier",
        "sm80_gemm_classic",
        "mainloop_multistage",
        _WAIT,
        f"      cp_async_wait<kStages - 2>();\n      {_LATE}\n",
        "256,256,512",
        "warps read a stage that the late warp has not filled",
    ),
    _one(
        "loop_barrier_register_staged",
        "sm75_gemm_f16",
        "mainloop_register_staged",
        "            store(pipe_write);\n            __syncthreads();\n",
        f"            {_LATE}\n            store(pipe_write);\n",
        "256,256,512",
        "warps read a stage that the late warp has not stored",
    ),
    Mutation(
        "epilogue_barrier_before_staging",
        "sm80_gemm_classic",
        (
            Edit("include/mmagen/epilogue_staged.cuh", _SLICE_BARRIER, ""),
            Edit(
                "include/mmagen/epilogue_staged.cuh",
                "      Lines of_slice = lines;\n",
                f"      {_LATE}\n      Lines of_slice = lines;\n",
            ),
        ),
        ("256,256,64",),
        "the late warp stores a slice that the next one has overwritten",
    ),
    Mutation(
        "epilogue_barrier_after_staging",
        "sm80_gemm_classic",
        (
            Edit("include/mmagen/stage_accumulators.cuh", _STAGED, "rC, sC); }\n"),
            Edit("include/mmagen/stage_accumulators.cuh", _STAGE, f"  {_LATE}\n{_STAGE}"),
        ),
        ("256,256,64",),
        "rows are stored before the late warp has staged its part of them",
    ),
    Mutation(
        "slices_barrier",
        "sm80_gemm_sliced_k",
        (
            Edit(
                "include/mmagen/stage_accumulators.cuh",
                "      for (int i = 0; i < size(rC); ++i) { sC(i) = sC(i) + rC(i); }\n    }\n    __syncthreads();\n",
                "      for (int i = 0; i < size(rC); ++i) { sC(i) = sC(i) + rC(i); }\n    }\n",
            ),
            Edit(
                "include/mmagen/stage_accumulators.cuh",
                "    if (k_slice == slice) {\n",
                "    if (k_slice == slice) {\n      __nanosleep(20000);\n",
            ),
        ),
        ("256,256,256",),
        "rows are stored before the second slice has added its sums",
    ),
    Mutation(
        "micro_barrier",
        "hello_micro",
        (
            Edit("include/mmagen/micro_kernel.cuh", "  __syncthreads();\n\n  // 2. Fragments.", "\n  // 2. Fragments."),
            Edit("include/mmagen/micro_kernel.cuh", _COPY_A, f"  {_LATE}\n{_COPY_A}"),
        ),
        (),
        "warps load what the late warp has not filled",
    ),
    _one(
        "first_wait_dropped",
        "sm80_gemm_classic",
        "mainloop_multistage",
        "    cp_async_wait<kStages - 2>();\n    __syncthreads();\n    Products::",
        "    __syncthreads();\n    Products::",
        "512,512,128",
        "the first tile is read some hundred nanoseconds before it arrives",
    ),
    _one(
        "loop_wait_too_weak",
        "sm80_gemm_classic",
        "mainloop_multistage",
        _WAIT,
        _WAIT.replace("kStages - 2", "kStages"),
        "4096,4096,1024",
        "tiles are read before they arrive, in some of a thousand CTAs with cold caches",
    ),
)

_K = (
    _one(
        "k_loop_short",
        "sm80_gemm_classic",
        "mainloop_multistage",
        "step < k_tiles; ++step",
        "step < k_tiles - 1; ++step",
        "256,256,256",
        "a tile of K is missing from every sum",
    ),
    _one(
        "k_loop_short_register_staged",
        "sm75_gemm_f16",
        "mainloop_register_staged",
        "k_tile < k_tiles; ++k_tile",
        "k_tile < k_tiles - 1; ++k_tile",
        "256,256,256",
        "a tile of K is missing from every sum",
    ),
    _one(
        "k_tile_twice",
        "sm80_gemm_classic",
        "mainloop_multistage",
        "tAgA(_, _, _, step - 1)",
        "tAgA(_, _, _, step)",
        "256,256,256",
        "A and B are of different tiles of K",
    ),
    _one(
        "k_tail_not_zeroed",
        "sm80_gemm_classic",
        "gmem_copy",
        "return across ? cute::max(0, cute::min(along, kVector)) : 0;",
        "return across ? kVector : 0;",
        "100,100,40",
        "the tail multiplies what lies behind the row",
    ),
    _one(
        "k_tail_short",
        "sm80_gemm_classic",
        "gmem_copy",
        "? k_left - k :",
        "? k_left - k - 1 :",
        "100,100,41",
        "the last element of K is missing",
    ),
    _one(
        "k_tail_register_staged",
        "sm75_gemm_f16",
        "gmem_copy",
        "v < inside ?",
        "v <= inside ?",
        "100,100,40",
        "one element behind the row is multiplied",
    ),
    _one(
        "stale_stage",
        "sm80_gemm_classic",
        "mainloop_multistage",
        "      pipe_read = pipe_read == kStages - 1 ? 0 : pipe_read + 1;\n",
        "",
        "256,256,256",
        "one stage is read again and again",
    ),
    _one(
        "fragment_of_another_block",
        "sm80_gemm_classic",
        "mainloop_multistage",
        "tXsA(_, _, k_block, pipe)",
        "tXsA(_, _, _0{}, pipe)",
        "256,256,64",
        "the second k block multiplies the first one's A",
    ),
    _one(
        "sums_cleared_in_the_loop",
        "sm80_gemm_classic",
        "mainloop_multistage",
        "        Products::multiply(mma, tCrA(_, _, kMma)",
        "        if (kMma == 0) { clear(tCrC); }\n        Products::multiply(mma, tCrA(_, _, kMma)",
        "256,256,256",
        "only the last tile of K counts",
    ),
    _one(
        "sums_start_at_one",
        "sm80_gemm_classic",
        "gemm_kernel",
        "  clear(tCrC);\n",
        "  fill(tCrC, typename Config::ElementAccumulator(1));\n",
        "256,256,64",
        "every sum is one too large",
    ),
    _one(
        "slices_not_added",
        "sm80_gemm_sliced_k",
        "stage_accumulators",
        "sC(i) = sC(i) + rC(i)",
        "sC(i) = rC(i)",
        "256,256,256",
        "the first slice's sums are lost",
    ),
    _one(
        "slices_added_twice",
        "sm80_gemm_sliced_k",
        "stage_accumulators",
        "sC(i) = sC(i) + rC(i)",
        "sC(i) = sC(i) + rC(i) + rC(i)",
        "256,256,256",
        "the second slice counts twice",
    ),
)

_OPERANDS = (
    _one(
        "operands_transposed",
        "hello_micro",
        "config",
        "gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }",
        "gmem_stride(int64_t ld) { return cute::make_stride(cute::_1{}, ld); }",
        "",
        "A and B are read as their transposes",
        2,
    ),
    _one(
        "swizzle_in_the_copy_only",
        "sm80_gemm_classic",
        "mainloop_multistage",
        "thread_load_b.partition_S(sB)",
        "thread_load_b.partition_S(make_tensor(sB.data(), get_nonswizzle_portion(sB.layout())))",
        "256,256,64",
        "fragments come from where the swizzle did not put them",
    ),
    _one(
        "b_from_a",
        "sm80_gemm_classic",
        "mainloop_multistage",
        "thread_load_b.partition_S(sB)",
        "thread_load_b.partition_S(sA)",
        "256,256,64",
        "A is multiplied with itself",
    ),
    _one(
        "b_tile_of_m",
        "sm80_gemm_classic",
        "mainloop_multistage",
        "params.tiles_b(tile.n, tile.batch)",
        "params.tiles_b(tile.m, tile.batch)",
        "256,256,64",
        "tiles off the diagonal multiply the wrong rows of B",
    ),
    _one(
        "last_row_of_an_operand",
        "sm80_gemm_classic",
        "gmem_copy",
        "? mn < mn_left :",
        "? mn + 1 < mn_left :",
        "100,100,64",
        "the last row of A and of B counts as zero",
    ),
    _one(
        "last_row_when_mn_contiguous",
        "sm80_gemm_bf16_nt",
        "gmem_copy",
        ": mn_left - mn;",
        ": mn_left - mn - 1;",
        "100,100,64",
        "the last row of A and of B counts as zero",
    ),
    _one(
        "narrow_copy_repeats",
        "sm80_gemm_classic",
        "gmem_copy_async",
        "inside > 0 ? gX(0, i, j)",
        "inside > 0 ? gX(0, i / 2, j)",
        "129,257,100:ld_pad=3",
        "single elements are copied from other rows",
    ),
    _one(
        "wide_when_unaligned",
        "sm80_gemm_classic",
        "gemm_arguments",
        "| steps * uintptr_t(bytes)) % 16 == 0",
        "| steps * uintptr_t(bytes)) % 2 == 0",
        "256,136,200:offset=1",
        "the device faults on a misaligned address",
    ),
    _one(
        "micro_copy_of_half",
        "hello_micro",
        "micro_kernel",
        "threadIdx.x < size(gmem_copy)",
        "threadIdx.x < size(gmem_copy) / 2",
        "",
        "half of each tile is whatever shared memory held",
    ),
    _one(
        "batch_stride_of_a",
        "sm80_gemm_classic",
        "mainloop_params",
        "a + batch * batch_stride_a",
        "a",
        "200,200,64,3",
        "every batch multiplies the first A",
    ),
)

_RESULT = (
    _one(
        "beta_on_the_sum",
        "sm80_gemm_classic",
        "linear_combination",
        "beta * static_cast<Scalar>(source)",
        "beta * static_cast<Scalar>(accumulator)",
        "200,200,64:alpha=2:beta=-1",
        "C plays no part",
    ),
    _one(
        "beta_ignored",
        "sm80_gemm_classic",
        "linear_combination",
        "convert<ElementD>(product + beta * static_cast<Scalar>(source))",
        "convert<ElementD>(product)",
        "200,200,64:beta=1",
        "C plays no part",
    ),
    _one(
        "alpha_ignored",
        "sm80_gemm_classic",
        "linear_combination",
        "convert<ElementD>(alpha * static_cast<Scalar>(accumulator))",
        "convert<ElementD>(static_cast<Scalar>(accumulator))",
        "200,200,64:alpha=2",
        "sums are half of what they should be",
    ),
    _one(
        "c_read_without_beta",
        "sm80_gemm_classic",
        "linear_combination",
        _READS,
        "CUTE_DEVICE bool reads_source() const { return true; }",
        "256,256,64",
        "zero times poison is NaN",
    ),
    _one(
        "leading_dimension_of_c",
        "sm80_gemm_classic",
        "epilogue_staged",
        "(lines.across_origin + across) * lines.ldc",
        "(lines.across_origin + across) * lines.ldd",
        "200,200,64:ld_pad=8:beta=1",
        "C's rows are longer than D's",
    ),
    _one(
        "row_offsets_of_32_bits",
        "sm80_gemm_classic",
        "epilogue_staged",
        "(lines.across_origin + across) * lines.ldc",
        "int(lines.across_origin + across) * int(lines.ldc)",
        "5,7,40:ld_pad=1073741824:beta=1",
        "the offsets of C's last rows wrap around",
        where=(EMULATOR,),
    ),
    _one(
        "missing_last_batch",
        "sm80_gemm_classic",
        "tile_scheduler",
        "tiles_m * tiles_n * unsigned(shape.batch)",
        "tiles_m * tiles_n * unsigned(shape.batch > 1 ? shape.batch - 1 : 1)",
        "200,200,64,3",
        "the last batch stays poisoned",
    ),
    _one(
        "batch_stride_of_d",
        "sm80_gemm_classic",
        "epilogue_staged",
        "params.d + tile.batch * params.batch_stride_d",
        "params.d",
        "200,200,64,3",
        "later batches stay poisoned",
    ),
    _one(
        "unwritten_row",
        "sm80_gemm_classic",
        "epilogue_staged",
        "= across < lines.across_left &&",
        "= across + 1 < lines.across_left &&",
        "200,200,64",
        "the last row stays poisoned",
    ),
    _one(
        "unwritten_vector",
        "sm80_gemm_classic",
        "epilogue_staged",
        "&& along < lines.long_left;",
        "&& along + kWidth < lines.long_left;",
        "200,200,64",
        "the last vector of each row stays poisoned",
    ),
    _one(
        "unwritten_column",
        "sm80_gemm_classic",
        "epilogue_staged",
        "along + v < lines.long_left",
        "along + v + 1 < lines.long_left",
        "200,100,64:ld_pad=4",
        "the last column stays poisoned",
    ),
    _one(
        "row_past_the_end",
        "sm80_gemm_classic",
        "epilogue_staged",
        "= across < lines.across_left &&",
        "= across <= lines.across_left &&",
        "200,200,64",
        "the guard band behind D is written",
    ),
    _one(
        "column_past_the_end",
        "sm80_gemm_classic",
        "epilogue_staged",
        "along + v < lines.long_left",
        "along + v <= lines.long_left",
        "200,100,64:ld_pad=4",
        "the padding of D's rows is written",
    ),
    _one(
        "slices_exchanged",
        "sm80_gemm_classic",
        "epilogue_staged",
        "of_slice.across_origin += slice * kSlice;",
        "of_slice.across_origin += (int(slice) ^ 1) * kSlice;",
        "256,256,64",
        "bands of 32 rows change places",
    ),
    _one(
        "column_major_origin",
        "sm80_gemm_f16_col_d",
        "epilogue_staged",
        "across_origin = Config::kDRowMajor ? m_origin : n_origin",
        "across_origin = m_origin",
        "256,288,64",
        "tiles off the diagonal land in the wrong columns",
    ),
    _one(
        "two_ctas_one_tile",
        "sm80_gemm_classic",
        "tile_raster",
        "first + within - n * (full ? rows.divisor : rows_of_last.divisor)",
        "first + (within - n * (full ? rows.divisor : rows_of_last.divisor)) / 2 * 2",
        "512,256,64",
        "every second row of tiles stays poisoned",
    ),
    _one(
        "last_band_too_thick",
        "sm80_gemm_classic",
        "tile_raster",
        "bool const full = tiles_m - first >= group;",
        "bool const full = true;",
        "1200,300,64",
        "CTAs of the thin band compute tiles that do not exist",
    ),
    _one(
        "micro_d_transposed",
        "hello_micro",
        "config",
        "stride_d(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }",
        "stride_d(int64_t ld) { return cute::make_stride(cute::_1{}, ld); }",
        "",
        "D is written as its transpose",
    ),
    _one(
        "micro_slices_stored_by_all",
        "micro_sliced_k",
        "micro_kernel",
        "    copy(tCsC, tCrC);\n",
        "",
        "",
        "partial sums are stored instead of their total",
    ),
    _one(
        "stamps_shifted",
        "hello_ownership",
        "ownership_kernel",
        "owned(v) = v + 1;",
        "owned(v) = v + 2;",
        "",
        "every value has the next one's number",
    ),
    _one(
        "stamps_transposed",
        "hello_ownership",
        "ownership_kernel",
        "LayoutRight{}",
        "LayoutLeft{}",
        "",
        "rows and columns change places",
    ),
    _one(
        "stamps_of_a_stage_unswizzled",
        "sm90_ownership",
        "config",
        "_SW128_Atom",
        "_SW64_Atom",
        "",
        "operands lie in shared memory by another swizzle",
        count=2,
    ),
)

_FIRST_WAIT = "  pipeline.full[pipe.stage].wait(pipe.phase);\n  stage_mma(tCrC, pipe.stage, GMMA::ScaleOut::Zero);\n"
_LOAD = "          load_stage(pipe.stage, work.k_begin + i);\n"
_LATE_LOAD = f"          if (i == 0) {{ __nanosleep(20000); }}\n{_LOAD}"
_STREAM_K = "include/mmagen/sm90_tile_scheduler_stream_k.cuh"
_FLAG = "      uint64_t* const ready = params.ready + index *"  # of the cluster that leaves its sums
_LATE_FLAG = f"      for (int i = 0; i < 10; ++i) {{ __nanosleep(100000); }}\n{_FLAG}"
_SPLIT_K = "include/mmagen/sm90_tile_scheduler_split_k.cuh"
_ADD = "    for_each(make_int_sequence<kSplitK>{}, [&](auto part) {\n      if (part == cluster.split) { Sums::add("
_SEND = "      if (part != cluster.split) { Sums::send("

_HOPPER = (
    # The pipeline.
    Mutation(
        "hopper_full_not_waited",
        "sm90_gemm_bf16_tn",
        (
            Edit("include/mmagen/sm90_mainloop_ss.cuh", _FIRST_WAIT, _FIRST_WAIT.partition("\n")[2]),
            Edit("include/mmagen/sm90_tma_load.cuh", _LOAD, _LATE_LOAD),
        ),
        ("512,512,256",),
        "the first k tile is multiplied before it arrives",
        (GPU,),
    ),
    _hopper(
        "empty_not_waited",
        "skinny",
        "sm90_tma_load",
        "      pipeline.empty[pipe.stage].wait(pipe.phase ^ 1);  // in the first round every stage is free\n",
        "",
        "64,64,2560",
        "stages are overwritten that are still to be read; who waits for them may wait for ever",
        EMULATOR,
    ),
    _hopper(
        "another_stage_released",
        "skinny",
        "sm90_mainloop_ss",
        "    release(before);\n    before = pipe.stage;",
        "    release(pipe.stage);\n    before = pipe.stage;",
        "64,64,2560",
        "a stage is handed back before it was read, another one never",
        EMULATOR,
    ),
    _hopper(
        "phase_not_flipped",
        "skinny",
        "sm90_pipeline",
        "      stage = 0;\n      phase ^= 1;\n",
        "      stage = 0;\n",
        "64,64,2560",
        "the second round reads what the first one did, and waits for ever for free stages",
        EMULATOR,
    ),
    _hopper(
        "half_of_the_bytes_expected",
        "bf16_pingpong",
        "sm90_tma_load",
        "full.arrive_and_expect(rows.bytes);\n    load_operand",
        "full.arrive_and_expect(rows.bytes / 2);\n    load_operand",
        "64,256,256",
        "a phase's bytes do not add up: it ends early, or never",
        EMULATOR,
    ),
    _hopper(
        "sums_of_the_tile_before",
        "bf16_tn",
        "sm90_mainloop_ss",
        "stage_mma(tCrC, pipe.stage, GMMA::ScaleOut::Zero);",
        "stage_mma(tCrC, pipe.stage, GMMA::ScaleOut::One);",
        "2560,2048,64",
        "a CTA's second tile has the first one's sums in it",
    ),
    _hopper(
        "stage_refilled_with_the_same",
        "warpgroup",
        "sm90_warpgroup",
        "load(stage, next);",
        "load(stage, next - 1);",
        "128,256,1024",
        "a k tile is missing, another one twice in every sum",
    ),
    _hopper(
        "refilled_before_all_have_read",
        "warpgroup4",
        "sm90_warpgroup",
        "      __syncthreads();\n      if (next < work.k_tiles && warp",
        "      if (next < work.k_tiles && warp",
        "128,192,1024",
        "TMA overwrites a stage that other warpgroups still read",
        EMULATOR,
    ),
    # Where TMA loads from, and where to.
    _hopper(
        "k_tail_missing",
        "bf16_tn",
        "tile_scheduler",
        "int(ceil_div(shape.k, tile_k));",
        "int(shape.k / tile_k);",
        "256,256,200",
        "the last k tile is missing",
    ),
    _hopper(
        "k_tile_again_and_again",
        "bf16_pingpong128",
        "sm90_tma_load",
        "load_stage(pipe.stage, work.k_begin + i);",
        "load_stage(pipe.stage, work.k_begin);",
        "256,256,512",
        "the first k tile takes every other's place",
    ),
    _hopper(
        "b_box_of_m",
        "bf16_tn",
        "sm90_tma_load",
        "BoxCoord<B> const b(tile.first_n(B::kTileMn), k_tile,",
        "BoxCoord<B> const b(tile.first_m(B::kTileMn), k_tile,",
        "512,512,128",
        "tiles off the diagonal multiply the wrong rows of B",
    ),
    _hopper(
        "last_rows_of_a_matrix_missing",
        "bf16_pingpong",
        "sm90_tma_load",
        "return left <= 0 ? 0",
        "return left <= 8 ? 0",
        "200,264,128",
        "of a tile that reaches beyond the matrix its few rows are not loaded",
        EMULATOR,
    ),
    _hopper(
        "whole_tiles_expected",
        "bf16_pingpong",
        "sm90_tma_load",
        "a * kRowBytesA",
        "A::kTileMn * kRowBytesA",
        "200,264,128",
        "the bytes of rows that are not loaded are waited for",
        EMULATOR,
    ),
    _hopper(
        "share_beyond_the_matrix",
        "bf16_tn",
        "sm90_tma_load",
        "Operand::kContiguousK && line >= rows",
        "Operand::kContiguousK && line > rows",
        "256,128,128",
        "a CTA brings zeros for a share of which no row lies in the matrix: more bytes arrive than are expected",
        EMULATOR,
    ),
    _hopper(
        "edge_of_the_other_operand",
        "bf16_tn",
        "sm90_tma_load",
        "&from.map_a, &params.edge_a,",
        "&from.map_a, &params.edge_b,",
        "200,256,128",
        "the last rows of A are those of B",
    ),
    _one(
        "hopper_last_panel_missing",
        "n40_nt",
        "sm90_tma_load",
        "panel * Operand::kLine >= rows",
        "panel * Operand::kLine + Operand::kLine >= rows",
        "100,72,128",
        "the last columns of a matrix with N contiguous are not loaded",
        where=(EMULATOR,),
    ),
    _hopper(
        "b_of_the_first_batch",
        "warpgroup",
        "sm90_tma_load",
        "b(tile.first_n(B::kTileMn), k_tile, tile.batch_ab() * params.batch_step_b)",
        "b(tile.first_n(B::kTileMn), k_tile, 0)",
        "64,200,136,3",
        "every batch multiplies the first B",
    ),
    _hopper(
        "multicast_of_the_same_half",
        "bf16_tn",
        "sm90_tma_load",
        "cluster.mask_b(), Share<B>(cluster.m), rows.b, b);",
        "cluster.mask_b(), Share<B>(0), rows.b, b);",
        "256,256,128",
        "both CTAs of a cluster bring the same half of B",
    ),
    _hopper(
        "multicast_without_a_neighbour",
        "bf16_pingpong",
        "sm90_cluster",
        "{ mask |= 1u << rank_of(i, n); }",
        "{ mask = 1u << rank_of(i, n); }",
        "256,256,128",
        "the first CTA waits for bytes that nobody sends it",
        EMULATOR,
    ),
    _hopper(
        "tiles_skipped",
        "bf16_tn",
        "sm90_tile_scheduler_persistent",
        "tile += cluster_count<Config>();",
        "tile += cluster_count<Config>() + 1;",
        "2560,2048,64",
        "a tile behind the first wave stays poisoned",
    ),
    _one(
        "hopper_thin_band",
        "sm90_gemm_bf16_tn",
        "tile_raster",
        "full ? rows.divisor : rows_of_last.divisor",
        "rows.divisor",
        "4352,512,64",
        "tiles of the thin band stay poisoned",
        where=(GPU,),
    ),
    # The epilogue.
    _hopper(
        "alpha_ignored",
        "warpgroup",
        "linear_combination",
        "convert<ElementD>(alpha * static_cast<Scalar>(accumulator))",
        "convert<ElementD>(static_cast<Scalar>(accumulator))",
        "64,128,64:alpha=2",
        "sums are half of what they should be",
    ),
    _hopper(
        "beta_ignored",
        "warpgroup",
        "linear_combination",
        "convert<ElementD>(product + beta * static_cast<Scalar>(source))",
        "convert<ElementD>(product)",
        "64,128,64:beta=1",
        "C plays no part",
    ),
    _hopper(
        "c_read_without_beta",
        "warpgroup",
        "linear_combination",
        _READS,
        "CUTE_DEVICE bool reads_source() const { return true; }",
        "64,128,64",
        "zero times poison is NaN",
    ),
    _hopper(
        "leading_dimension_of_c",
        "warpgroup",
        "sm90_epilogue_tma",
        "row * from.ldc + column :",
        "row * params.n + column :",
        "64,128,64:ld_pad=8:beta=1",
        "C's rows are longer than D's extent",
    ),
    _hopper(
        "staged_without_swizzle",
        "bf16_tn",
        "sm90_staged_slice",
        "cute::Swizzle<kBits, 4, 3>",
        "cute::Swizzle<0, 4, 3>",
        "256,256,64",
        "TMA takes 16 bytes from where the swizzle would have put others",
    ),
    _hopper(
        "rows_of_the_first_warpgroup",
        "bf16_tn",
        "sm90_epilogue_tma",
        "warpgroup_m * kMmaM + in_warpgroup",
        "warpgroup_m / 2 * kMmaM + in_warpgroup",
        "256,256,64",
        "both warpgroups store the same rows",
    ),
    _hopper(
        "rows_of_the_first_wgmma",
        "bf16_pingpong128",
        "sm90_epilogue_tma",
        "first_m + slice / kSlicesOfAtom / kCountN * kMmaM * kWarpgroupsM,",
        "first_m,",
        "256,256,64",
        "the second 64 rows are stored over the first",
    ),
    _hopper(
        "columns_of_another_warpgroup",
        "bf16_pingpong128",
        "sm90_pingpong",
        "tCrC, tile, 0, thread, warp, slices",
        "tCrC, tile, 0, threadIdx.x, warp, slices",
        "2048,2560,64",
        "the second warpgroup stores a tile further to the right",
    ),
    _hopper(
        "slices_in_one_place",
        "warpgroup",
        "sm90_epilogue_tma",
        " + slice % kSlicesOfAtom * kSliceN};",
        "};",
        "64,128,64",
        "a warp stores all of its slices over each other",
    ),
    _hopper(
        "d_coordinates_exchanged",
        "warpgroup4",
        "sm90_epilogue_tma",
        "Config::kDRowMajor ? column : m, Config::kDRowMajor ? m : column,",
        "column, m,",
        "256,384,64",
        "boxes of a D with contiguous columns land at the mirror image of their place",
    ),
    # Split K and stream K.
    _hopper(
        "part_of_k_twice",
        "splitk",
        "sm90_tile_scheduler_split_k",
        "int64_t(params.k_tiles) * cluster.split / kSplitK",
        "0",
        "128,256,512",
        "the first half of K counts twice",
    ),
    _hopper(
        "slots_exchanged",
        "splitk",
        "sm90_tile_scheduler_split_k",
        "slot(cluster.split, part, vector)",
        "slot(cluster.split, part, kPart / 4 - 1 - vector)",
        "128,256,512",
        "sums are added to those of other columns",
    ),
    _hopper(
        "slices_of_the_other",
        "splitk",
        "sm90_epilogue_tma",
        "kSlice / kOfSplit != split",
        "kSlice / kOfSplit == split",
        "128,256,512",
        "each CTA stores what it has given away",
    ),
    Mutation(
        "hopper_sums_not_waited",
        "sm90_gemm_splitk",
        (
            Edit(_SPLIT_K, f"    sync_cluster<kClusterCtas<Config>>();\n{_ADD}", _ADD),
            Edit(_SPLIT_K, _SEND, f"      __nanosleep(20000 * unsigned(cluster.split));\n{_SEND}"),
        ),
        ("128,256,512",),
        "sums are added before the late CTA has given them",
        (GPU,),
    ),
    _hopper(
        "partials_not_added",
        "bf16_rules",
        "sm90_tile_scheduler_stream_k",
        "    if (work.k_begin > 0) { add_partials(params, work, tCrC); }\n",
        "",
        "2304,2304,512",
        "of the tiles of the last wave, only the last range of K counts",
    ),
    _hopper(
        "partials_of_a_neighbour",
        "bf16_rules",
        "sm90_tile_scheduler_stream_k",
        "unsigned(cluster.shape().ctas()) + unsigned(cluster.rank);",
        "unsigned(cluster.shape().ctas());",
        "2304,2304,512",
        "the CTAs of a cluster leave their sums in one place",
    ),
    _hopper(
        "parts_in_one_place",
        "splitk_auto",
        "sm90_tile_scheduler_split_k_workspace",
        "params.sums.data + split * params.sums.split_stride + tile.batch",
        "params.sums.data + tile.batch",
        "128,128,1600",
        "the parts of K overwrite each other's sums",
    ),
    _hopper(
        "parts_left_over",
        "splitk_auto",
        "sm90_tile_scheduler_split_k_workspace",
        "int(params.k_tiles_each + (split < params.extra ? 1 : 0))",
        "int(params.k_tiles_each)",
        "128,128,2368",
        "the last k tile of the first parts is left out",
        EMULATOR,
    ),
    _hopper(
        "part_not_added",
        "splitk_auto",
        "split_k_reduction",
        "int const end = cute::min((group + 1) * params.splits_of_group, params.sums.splits);",
        "int const end = cute::min((group + 1) * params.splits_of_group, params.sums.splits - 1);",
        "128,128,65536",
        "the last part is not added",
    ),
    _hopper(
        "reduction_does_not_wait",
        "splitk_auto",
        "split_k_reduction",
        "  wait_on_dependent_grids();\n",
        "",
        "128,128,2368",
        "sums are added before the first kernel has ended",
        EMULATOR,
    ),
    _hopper(
        "batch_stride_not_swapped",
        "swapped",
        "sm90_swapped",
        "args.batch_stride_a = call.batch_stride_b;",
        "args.batch_stride_a = call.batch_stride_a;",
        "16,80,256,2",
        "the second matrix of B is read where that of A would be",
        EMULATOR,
    ),
    Mutation(
        "hopper_groups_not_waited",
        "c3_parts",
        (Edit("include/mmagen/split_k_reduction.cuh", "    __syncthreads();\n", ""),),
        ("16,64,1600",),
        "sums of other groups are added before these have left them",
        (EMULATOR,),
    ),
    Mutation(
        "hopper_flag_not_waited",
        "c2_stream",
        (Edit(_STREAM_K, "while (flag != params.launch);", "while (false);"),),
        ("64,64,1536",),
        "sums are added that are there by luck",
        (EMULATOR,),
    ),
    _hopper(
        "wait_tried_once",
        "bf16_pingpong",
        "sm90_barrier",
        "} while (!done);",
        "} while (false);",
        "64,256,320",
        "a wait may end before its phase",
        EMULATOR,
    ),
    # Warps that do not release what they wait for: one that is late waits for a phase too many.
    Mutation(
        "hopper_turn_given_by_one_warp",
        "pp3",
        (
            Edit("include/mmagen/sm90_pingpong.cuh", "if (warp % 4 != 0) { asm", "if (false) { asm"),
            Edit(
                "include/mmagen/sm90_pingpong.cuh", 'asm volatile("bar.sync %0, 128;" ::"r"(kSeen + warpgroup) : "memory");', ""
            ),
        ),
        ("43,27,43,3:ld_pad=5",),
        "a warp that has not seen its turn when that comes round again waits for ever",
        (EMULATOR,),
    ),
    _hopper(
        "streamed_k_left_over",
        "bf16_rules",
        "sm90_tile_scheduler_stream_k",
        "params.extra = unsigned(total % resident);",
        "params.extra = 0;",
        "2304,2304,520",
        "the last range ends before K does",
    ),
    Mutation(
        "hopper_range_too_short",
        "c2_stream",
        (Edit(_STREAM_K, "params.extra = unsigned(total % resident);", "params.extra = 0;"),),
        ("64,64,1600",),
        "the last range ends before K does",
        (EMULATOR,),
    ),
    # The way around TMA.
    _one(
        "hopper_unaligned_shift",
        "sm90_gemm_warpgroup",
        "vector_pair",
        "shift & 8 ? words[i + 2]",
        "shift & 8 ? words[i + 1]",
        "64,128,40:offset=5",
        "vectors that begin 10 bytes beside an aligned address are taken 4 bytes too early",
    ),
    _one(
        "hopper_unaligned_vector_past_the_end",
        "sm90_gemm_warpgroup",
        "sm90_unaligned",
        "begin < at && begin + 2 * kVector <= along_",
        "begin < at && begin + kVector < along_",
        "64,128,61:offset=1",
        "a vector that ends behind its line is loaded",
        where=(EMULATOR,),
    ),
    _one(
        "hopper_unaligned_end_too_long",
        "sm90_gemm_warpgroup",
        "sm90_unaligned",
        "at < (at_begin ? begin : along_)",
        "at <= (at_begin ? begin : along_)",
        "64,128,61:offset=1",
        "one element behind the row is multiplied",
    ),
    _one(
        "hopper_unaligned_ends_missing",
        "sm90_gemm_warpgroup",
        "sm90_unaligned",
        "first < kVector || first + kAlong > along_ - kVector",
        "first < kVector",
        "64,128,197:offset=3",
        "the last elements of K count as zero",
    ),
    _one(
        "hopper_unaligned_last_round",
        "sm90_gemm_bf16_tn",
        "sm90_unaligned",
        "load(cute::Int<kNext>{}, kNext == 0 ? k_tile + 1 : k_tile);",
        "if (kNext == 0) { load(cute::Int<kNext>{}, k_tile + 1); }",
        "128,256,129:offset=1",
        "the second round stores what the first one loaded",
    ),
    _one(
        "hopper_last_element_of_a_copy",
        "c2_stream",
        "operand_copies",
        "at + j < along ?",
        "at + j + 1 < along ?",
        "70,40,1603:offset=3",
        "the last element of every copied line is zero",
    ),
    _one(
        "hopper_copy_before_the_grid_before",
        "c2_stream",
        "operand_copies",
        "  launch_dependent_grids();\n  wait_on_dependent_grids();\n",
        "  launch_dependent_grids();\n",
        "70,40,1603:offset=3",
        "operands are read, and the workspace written, while the kernel before may still run",
        where=(EMULATOR,),
    ),
    _one(
        "hopper_elements_past_the_end_of_d",
        "sm90_gemm_warpgroup",
        "sm90_staged_slice",
        "if (first.m + row >= end.m ||",
        "if (first.m + row > end.m ||",
        "60,101,40",
        "the guard band behind D is written",
        count=2,
    ),
    _one(
        "hopper_tma_of_an_unaligned_d",
        "sm90_gemm_warpgroup",
        "sm90_epilogue_tma",
        "> to.tma_end) {",
        "> to.tma_end + 64) {",
        "64,133,40",
        "slices are stored through a tensor map that was never encoded",
        where=(EMULATOR,),
    ),
)

_ACCUMULATION = (
    Mutation(
        "hopper_not_promoted",
        "sm90_gemm_e4m3_precise",
        (
            Edit(
                "include/mmagen/sm90_mainloop_promoted.cuh",
                "mma_promoted(stage_mma, stage, tCrC, stage_issued, [&] { release(stage); }, addend_of(stage));",
                "stage_mma(tCrC, stage, i == 0 ? GMMA::ScaleOut::Zero : GMMA::ScaleOut::One); stage_issued(); "
                "warpgroup_wait<0>(); warpgroup_fence_operand(tCrC); release(stage);",
            ),
        ),
        ("128,128,2048",),
        "the tensor core sums all of K, with the few bits that it keeps",
    ),
)

# The emulator is asked with the problems that it chooses: this one is too large for it.
_REACH = tuple(
    _one(name, spec, header, old, new, "4096,4096,4104", seen, where=(EMULATOR,))
    for name, spec, header, old, new, seen in (*FAULTS, *GROUPED_FAULTS, *POINTER_FAULTS, *GROUP_TENSOR_FAULTS)
)

_CORNERS = tuple(
    _one(f"corner_{name}", *fault, "4096,4096,4104", seen, where=(EMULATOR,)) for name, *fault, seen in CORNER_FAULTS
)

_FEW_ROWS = tuple(
    _one(f"few_rows_{name}", "few_rows", "sm90_few_rows", old, new, problem, seen, where=(EMULATOR,))
    for name, old, new, problem, seen in FEW_ROWS_FAULTS
) + tuple(
    _one(f"few_rows_{name}", spec, "sm90_few_rows", old, new, problem, seen, where=(EMULATOR,))
    for name, spec, old, new, problem, seen in FEW_ROWS_OF_OTHER_SIZES
)

_PRODUCERS = tuple(
    _one(f"producer_{name}", *fault, "4096,4096,4104", seen, where=(EMULATOR,)) for name, *fault, seen in PRODUCER_FAULTS
)

_SPARSE = tuple(
    _one(f"sparse_{name}", f"sparse_{spec}", header, old, new, problem, seen, where=(EMULATOR,))
    for name, spec, header, old, new, problem, seen in mutations_sparse.FAULTS
)
_SPARSE += tuple(_one(f"sparse_mma_{name}", *rest, where=(EMULATOR,)) for name, *rest in mutations_sparse_mma.FAULTS)
_CLUSTERS = tuple(
    _one(f"clusters_{name}", *rest, "4096,4096,4104", seen, where=(EMULATOR,))
    for name, *rest, seen in mutations_clusters.FAULTS
)
_PACKED = tuple(_one(f"packed_{name}", *rest, where=(EMULATOR,)) for name, *rest in mutations_packed.FAULTS)

_SCALE = tuple(_one(*fault, where=(EMULATOR,)) for fault in SCALE_FAULTS)
_MIXED = tuple(_one(f"mixed_{name}", *rest, where=(EMULATOR,)) for name, *rest in MIXED_FAULTS)
_PIECES = tuple(_one(f"pieces_{name}", *rest, where=(EMULATOR,)) for name, *rest in PIECES_FAULTS)
_COMPLEX = tuple(_one(f"complex_{name}", *rest, where=(EMULATOR,)) for name, *rest in COMPLEX_FAULTS)
_EPILOGUE = tuple(
    _one(f"epilogue_{name}", spec, header, old, new, problem, seen)
    for name, spec, header, old, new, problem, seen in EPILOGUE_FAULTS
)

MUTATIONS = (
    *_ACCUMULATION,
    *_BARRIERS,
    *_K,
    *_OPERANDS,
    *_RESULT,
    *_HOPPER,
    *_REACH,
    *_EPILOGUE,
    *_FEW_ROWS,
    *_SCALE,
    *_SPARSE,
    *_MIXED,
    *_PACKED,
    *_CLUSTERS,
    *_PIECES,
    *_COMPLEX,
    *_CORNERS,
    *_PRODUCERS,
)

# A late warp in front of a barrier that stands, a box brought into L2 that nobody asks for: these must pass.
CONTROLS = (
    _one(
        "control_late_in_the_loop",
        "sm80_gemm_classic",
        "mainloop_multistage",
        _WAIT,
        _WAIT.replace("      __syncthreads", f"      {_LATE}\n      __syncthreads"),
        "256,256,512",
        "nothing",
    ),
    _one(
        "control_late_in_the_epilogue",
        "sm80_gemm_classic",
        "stage_accumulators",
        _STAGE,
        f"  {_LATE}\n{_STAGE}",
        "256,256,64",
        "nothing",
    ),
    _one("control_late_in_micro", "hello_micro", "micro_kernel", _COPY_A, f"  {_LATE}\n{_COPY_A}", "", "nothing"),
    _hopper("control_late_load", "bf16_tn", "sm90_tma_load", _LOAD, _LATE_LOAD, "512,512,256", "nothing"),
    _hopper(
        "control_late_warpgroup",
        "bf16_pingpong128",
        "sm90_pingpong",
        "        mine.wait(parity);\n",
        "        __nanosleep(20000 * unsigned(warpgroup));\n        mine.wait(parity);\n",
        "2048,2560,512",
        "nothing",
    ),
    Mutation(
        "hopper_control_late_flag_and_other_boxes",
        "sm90_gemm_bf16_rules",
        (
            Edit(_STREAM_K, _FLAG, _LATE_FLAG),
            Edit(
                "include/mmagen/sm90_tma_load.cuh",
                "tma_prefetch_box(of, begin.along + along, begin.across + line, begin.batch);",
                "tma_prefetch_box(of, begin.along + along, begin.across + line + 64, begin.batch);",
            ),
        ),
        ("2304,2304,512", "64,4096,1024"),
        "nothing",
        (GPU,),
    ),
)


def asked(whom: str, mutations: tuple[Mutation, ...]) -> list[Mutation]:
    """Those that the GPU, or the emulator, is asked about."""
    return [mutation for mutation in mutations if whom in mutation.where]


def originals() -> dict[str, tuple[str, ...]]:
    """Every spec that a mutation for the GPU is made of, and all the problems that its mutations run."""
    table: dict[str, dict[str, None]] = {}
    for mutation in asked(GPU, MUTATIONS):
        table.setdefault(mutation.spec, {}).update(dict.fromkeys(mutation.problems))
    return {spec: tuple(problems) for spec, problems in table.items()}


def project(spec: str, name: str) -> dict[str, bytes]:
    """The files of the project that `spec`, of specs/ or of odd/, makes when it is called `name`."""
    path = next(path for folder in (SPECS, ODD) if (path := folder / f"{spec}.yaml").is_file())
    loaded = load(path.read_bytes(), path.name).spec
    return render(plan(loaded.model_copy(update={"name": name})))


def mutated(mutation: Mutation, name: str = "") -> dict[str, bytes]:
    """The mutation's project, called `name` or as the mutation is; AssertionError when the text to edit is not there as
    often as stated."""
    name = name or mutation.name
    files = project(mutation.spec, name)
    for edit in mutation.edits:
        path = edit.file.format(name=name)
        text = files[path].decode()
        assert text.count(edit.old) == edit.count, f"{path} has {text.count(edit.old)} x {edit.old!r}, not {edit.count}"
        files[path] = text.replace(edit.old, edit.new).encode()
    return files
