"""Planted faults: small edits of generated projects, each of which verify must notice.

A mutation belongs to a spec of specs/. Its project is generated under the mutation's own name, so that all of them
compile together, and then edited: every text must stand there as often as stated, or the edit is out of date.

A dropped barrier alone is a race that may go well for years. Those mutations make one warp late as well, which is no
fault while the barrier stands (see CONTROLS), so that the effect is certain.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mmagen.load import load
from mmagen.plan import plan
from mmagen.render import render

SPECS = Path(__file__).resolve().parents[2] / "specs"

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
    """problems: as verify takes them after --problem, none for a kernel of fixed shape. seen: how the fault shows."""

    name: str
    spec: str
    edits: tuple[Edit, ...]
    problems: tuple[str, ...]
    seen: str


def _one(name: str, spec: str, header: str, old: str, new: str, problem: str, seen: str, count: int = 1) -> Mutation:
    file = "include/{name}/config.cuh" if header == "config" else f"include/mmagen/{header}.cuh"
    return Mutation(name, spec, (Edit(file, old, new, count),), (problem,) if problem else (), seen)


_WAIT = "          cp_async_wait<kStages - 2>();\n          __syncthreads();\n"
_SLICE_BARRIER = "      __syncthreads();  // the main loop, or the slice before, has done with this memory\n"
_STAGED = "rC, sC); }\n  __syncthreads();\n"
_STAGE = "  if (k_slice == 0) { copy("
_FILL_A = "  fill(typename A::FillNarrow{}, gA, sA);\n"
_GUARD_C = "if (beta != Scalar(0)) { source = *reinterpret_cast<Vector const*>(c_row); }"
_GUARD_SUM = "if (beta != Scalar(0)) { result = result + beta * static_cast<Scalar>(source); }"

_BARRIERS = (
    _one("loop_barrier", "sm80_gemm_classic", "mainloop_multistage", _WAIT,
         f"          cp_async_wait<kStages - 2>();\n          {_LATE}\n", "256,256,512",
         "warps read a stage that the late warp has not filled"),
    _one("loop_barrier_register_staged", "sm75_gemm_f16", "mainloop_register_staged",
         "            store(pipe_fill);\n            __syncthreads();\n", f"            {_LATE}\n            store(pipe_fill);\n",
         "256,256,512", "warps read a stage that the late warp has not stored"),
    Mutation("epilogue_barrier_before_staging", "sm80_gemm_classic", (
        Edit("include/mmagen/epilogue_staged.cuh", _SLICE_BARRIER, ""),
        Edit("include/mmagen/epilogue_staged.cuh", "      int const first = slice * kSlice;\n",
             f"      {_LATE}\n      int const first = slice * kSlice;\n")),
        ("256,256,64",), "the late warp stores a slice that the next one has overwritten"),
    Mutation("epilogue_barrier_after_staging", "sm80_gemm_classic", (
        Edit("include/mmagen/k_slices.cuh", _STAGED, "rC, sC); }\n"),
        Edit("include/mmagen/k_slices.cuh", _STAGE, f"  {_LATE}\n{_STAGE}")),
        ("256,256,64",), "rows are stored before the late warp has staged its part of them"),
    Mutation("slices_barrier", "sm80_gemm_sliced_k", (
        Edit("include/mmagen/k_slices.cuh", "      for (int i = 0; i < size(rC); ++i) { sC(i) = sC(i) + rC(i); }\n    }\n"
             "    __syncthreads();\n", "      for (int i = 0; i < size(rC); ++i) { sC(i) = sC(i) + rC(i); }\n    }\n"),
        Edit("include/mmagen/k_slices.cuh", "    if (k_slice == slice) {\n",
             "    if (k_slice == slice) {\n      __nanosleep(20000);\n")),
        ("256,256,256",), "rows are stored before the second slice has added its sums"),
    Mutation("micro_barrier", "hello_micro", (
        Edit("include/mmagen/micro_kernel.cuh", "  __syncthreads();\n\n  // 2. Load.", "\n  // 2. Load."),
        Edit("include/mmagen/micro_kernel.cuh", _FILL_A, f"  {_LATE}\n{_FILL_A}")),
        (), "warps load what the late warp has not filled"),
    _one("first_wait_dropped", "sm80_gemm_classic", "mainloop_multistage",
         "    cp_async_wait<kStages - 2>();\n    __syncthreads();\n    load(", "    __syncthreads();\n    load(", "512,512,128",
         "the first tile is read some hundred nanoseconds before it arrives"),
    _one("loop_wait_too_weak", "sm80_gemm_classic", "mainloop_multistage", _WAIT,
         _WAIT.replace("kStages - 2", "kStages"), "4096,4096,1024",
         "tiles are read before they arrive, in some of a thousand CTAs with cold caches"),
)

_K = (
    _one("k_loop_short", "sm80_gemm_classic", "mainloop_multistage", "step < k_tiles; ++step", "step < k_tiles - 1; ++step",
         "256,256,256", "a tile of K is missing from every sum"),
    _one("k_loop_short_register_staged", "sm75_gemm_f16", "mainloop_register_staged", "k_tile < k_tiles; ++k_tile",
         "k_tile < k_tiles - 1; ++k_tile", "256,256,256", "a tile of K is missing from every sum"),
    _one("k_tile_twice", "sm80_gemm_classic", "mainloop_multistage", "tAgA(_, _, _, step - 1)", "tAgA(_, _, _, step)",
         "256,256,256", "A and B are of different tiles of K"),
    _one("k_tail_not_zeroed", "sm80_gemm_classic", "fill", "return across ? cute::max(0, cute::min(along, kVector)) : 0;",
         "return across ? kVector : 0;", "100,100,40", "the tail multiplies what lies behind the row"),
    _one("k_tail_short", "sm80_gemm_classic", "fill", "? k_left - k :", "? k_left - k - 1 :", "100,100,41",
         "the last element of K is missing"),
    _one("k_tail_register_staged", "sm75_gemm_f16", "fill", "v < inside ?", "v <= inside ?", "100,100,40",
         "one element behind the row is multiplied"),
    _one("stale_stage", "sm80_gemm_classic", "mainloop_multistage",
         "          pipe_read = pipe_read == kStages - 1 ? 0 : pipe_read + 1;\n", "", "256,256,256", "one stage is read again and again"),
    _one("fragment_of_another_block", "sm80_gemm_classic", "mainloop_multistage", "tXsA(_, _, k_block, pipe)",
         "tXsA(_, _, _0{}, pipe)", "256,256,64", "the second k block multiplies the first one's A"),
    _one("sums_cleared_in_the_loop", "sm80_gemm_classic", "mainloop_multistage",
         "        gemm(mma, tCrA(_, _, k_block)", "        if (k_block == 0) { clear(tCrC); }\n        gemm(mma, tCrA(_, _, k_block)",
         "256,256,256", "only the last tile of K counts"),
    _one("sums_start_at_one", "sm80_gemm_classic", "gemm_kernel", "  clear(tCrC);\n",
         "  fill(tCrC, typename Config::ElementAccumulator(1));\n", "256,256,64", "every sum is one too large"),
    _one("slices_not_added", "sm80_gemm_sliced_k", "k_slices", "sC(i) = sC(i) + rC(i)", "sC(i) = rC(i)", "256,256,256",
         "the first slice's sums are lost"),
    _one("slices_added_twice", "sm80_gemm_sliced_k", "k_slices", "sC(i) = sC(i) + rC(i)", "sC(i) = sC(i) + rC(i) + rC(i)",
         "256,256,256", "the second slice counts twice"),
)

_OPERANDS = (
    _one("operands_transposed", "hello_micro", "config", "gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }",
         "gmem_stride(int64_t ld) { return cute::make_stride(cute::_1{}, ld); }", "", "A and B are read as their transposes", 2),
    _one("swizzle_in_the_fill_only", "sm80_gemm_classic", "mainloop_multistage", "thread_load_b.partition_S(sB)",
         "thread_load_b.partition_S(make_tensor(sB.data(), get_nonswizzle_portion(sB.layout())))", "256,256,64",
         "fragments come from where the swizzle did not put them"),
    _one("b_from_a", "sm80_gemm_classic", "mainloop_multistage", "thread_load_b.partition_S(sB)",
         "thread_load_b.partition_S(sA)", "256,256,64", "A is multiplied with itself"),
    _one("b_tile_of_m", "sm80_gemm_classic", "gemm_kernel", "make_coord(tile_n, _)", "make_coord(tile_m, _)", "256,256,64",
         "tiles off the diagonal multiply the wrong rows of B"),
    _one("last_row_of_an_operand", "sm80_gemm_classic", "fill", "? mn < mn_left :", "? mn + 1 < mn_left :", "100,100,64",
         "the last row of A and of B counts as zero"),
    _one("last_row_when_mn_contiguous", "sm80_gemm_bf16_nt", "fill", ": mn_left - mn;", ": mn_left - mn - 1;", "100,100,64",
         "the last row of A and of B counts as zero"),
    _one("narrow_fill_repeats", "sm80_gemm_classic", "fill_async", "inside > 0 ? gX(0, i, j)", "inside > 0 ? gX(0, i / 2, j)",
         "129,257,100:ld_pad=3", "single elements are copied from other rows"),
    _one("wide_when_unaligned", "sm80_gemm_classic", "gemm_launch", "| steps) % 16 == 0",
         "| steps) % 2 == 0", "256,136,200:offset=1", "the device faults on a misaligned address"),
    _one("micro_fill_of_half", "hello_micro", "micro_kernel", "threadIdx.x < size(fill_copy)",
         "threadIdx.x < size(fill_copy) / 2", "", "half of each tile is whatever shared memory held"),
    _one("batch_stride_of_a", "sm80_gemm_classic", "gemm_kernel", "params.a + batch * params.batch_stride_a", "params.a",
         "200,200,64,3", "every batch multiplies the first A"),
)

_RESULT = (
    _one("beta_on_the_sum", "sm80_gemm_classic", "epilogue_staged", "beta * static_cast<Scalar>(source)",
         "beta * static_cast<Scalar>(accumulator)", "200,200,64:alpha=2:beta=-1", "C plays no part"),
    _one("beta_ignored", "sm80_gemm_classic", "epilogue_staged", _GUARD_SUM, "", "200,200,64:beta=1", "C plays no part"),
    _one("alpha_ignored", "sm80_gemm_classic", "epilogue_staged", "Scalar result = alpha * static_cast<Scalar>(accumulator)",
         "Scalar result = static_cast<Scalar>(accumulator)", "200,200,64:alpha=2", "sums are half of what they should be"),
    Mutation("c_read_without_beta", "sm80_gemm_classic", (
        Edit("include/mmagen/epilogue_staged.cuh", _GUARD_C, "source = *reinterpret_cast<Vector const*>(c_row);"),
        Edit("include/mmagen/epilogue_staged.cuh", _GUARD_SUM, "result = result + beta * static_cast<Scalar>(source);")),
        ("256,256,64",), "zero times poison is NaN"),
    _one("leading_dimension_of_c", "sm80_gemm_classic", "epilogue_staged", "(across_origin + across) * ldc",
         "(across_origin + across) * ldd", "200,200,64:ld_pad=8:beta=1", "C's rows are longer than D's"),
    _one("missing_last_batch", "sm80_gemm_classic", "gemm_launch", "unsigned(tiles_m * tiles_n * args.batch)",
         "unsigned(tiles_m * tiles_n * (args.batch - 1))", "200,200,64,3", "the last batch stays poisoned"),
    _one("batch_stride_of_d", "sm80_gemm_classic", "gemm_kernel", "params.d + batch * params.batch_stride_d", "params.d",
         "200,200,64,3", "later batches stay poisoned"),
    _one("unwritten_row", "sm80_gemm_classic", "epilogue_staged", "across >= across_left", "across + 1 >= across_left",
         "200,200,64", "the last row stays poisoned"),
    _one("unwritten_vector", "sm80_gemm_classic", "epilogue_staged", "along >= long_left", "along + kWidth >= long_left",
         "200,200,64", "the last vector of each row stays poisoned"),
    _one("unwritten_column", "sm80_gemm_classic", "epilogue_staged", "along + v < long_left", "along + v + 1 < long_left",
         "200,100,64:ld_pad=4", "the last column stays poisoned"),
    _one("row_past_the_end", "sm80_gemm_classic", "epilogue_staged", "across >= across_left", "across > across_left",
         "200,200,64", "the guard band behind D is written"),
    _one("column_past_the_end", "sm80_gemm_classic", "epilogue_staged", "along + v < long_left", "along + v <= long_left",
         "200,100,64:ld_pad=4", "the padding of D's rows is written"),
    _one("slices_exchanged", "sm80_gemm_classic", "epilogue_staged", "int const first = slice * kSlice;",
         "int const first = (int(slice) ^ 1) * kSlice;", "256,256,64", "bands of 32 rows change places"),
    _one("column_major_origin", "sm80_gemm_f16_col_d", "epilogue_staged", "across_origin = Config::kDRowMajor ? m_origin : n_origin",
         "across_origin = m_origin", "256,288,64", "tiles off the diagonal land in the wrong columns"),
    _one("two_ctas_one_tile", "sm80_gemm_classic", "raster", "int(band * group + within % rows)",
         "int(band * group + within % rows / 2 * 2)", "512,256,64", "every second row of tiles stays poisoned"),
    _one("last_band_too_thick", "sm80_gemm_classic", "raster", "tiles_m - band * group < group ? tiles_m - band * group : group",
         "group", "1200,300,64", "CTAs of the thin band compute tiles that do not exist"),
    _one("micro_d_transposed", "hello_micro", "config", "stride_d(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }",
         "stride_d(int64_t ld) { return cute::make_stride(cute::_1{}, ld); }", "", "D is written as its transpose"),
    _one("micro_slices_stored_by_all", "micro_sliced_k", "micro_kernel", "    copy(tCsC, tCrC);\n", "", "",
         "partial sums are stored instead of their total"),
    _one("stamps_shifted", "hello_ownership", "ownership_kernel", "owned(v) = v + 1;", "owned(v) = v + 2;", "",
         "every value has the next one's number"),
    _one("stamps_transposed", "hello_ownership", "ownership_kernel", "LayoutRight{}", "LayoutLeft{}", "",
         "rows and columns change places"),
)

MUTATIONS = (*_BARRIERS, *_K, *_OPERANDS, *_RESULT)

# A late warp in front of a barrier that stands: these must pass.
CONTROLS = (
    _one("control_late_in_the_loop", "sm80_gemm_classic", "mainloop_multistage", _WAIT,
         _WAIT.replace("          __syncthreads", f"          {_LATE}\n          __syncthreads"), "256,256,512", "nothing"),
    _one("control_late_in_the_epilogue", "sm80_gemm_classic", "k_slices", _STAGE, f"  {_LATE}\n{_STAGE}", "256,256,64", "nothing"),
    _one("control_late_in_micro", "hello_micro", "micro_kernel", _FILL_A, f"  {_LATE}\n{_FILL_A}", "", "nothing"),
)


def originals() -> dict[str, tuple[str, ...]]:
    """Every spec that a mutation is made of, and all the problems that its mutations run."""
    table: dict[str, dict[str, None]] = {}
    for mutation in MUTATIONS:
        table.setdefault(mutation.spec, {}).update(dict.fromkeys(mutation.problems))
    return {spec: tuple(problems) for spec, problems in table.items()}


def project(spec: str, name: str) -> dict[str, bytes]:
    """The files of the project that `spec` makes when it is called `name`."""
    path = SPECS / f"{spec}.yaml"
    loaded = load(path.read_bytes(), path.name).spec
    return render(plan(loaded.model_copy(update={"name": name})))


def mutated(mutation: Mutation) -> dict[str, bytes]:
    """The mutation's project; AssertionError when the text to edit is not there as often as stated."""
    files = project(mutation.spec, mutation.name)
    for edit in mutation.edits:
        path = edit.file.format(name=mutation.name)
        text = files[path].decode()
        assert text.count(edit.old) == edit.count, f"{path} has {text.count(edit.old)} x {edit.old!r}, not {edit.count}"
        files[path] = text.replace(edit.old, edit.new).encode()
    return files
