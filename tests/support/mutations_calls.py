"""Planted faults of calls that results of usual problems do not show: operands of which one is not aligned, values that are not
finite or not normal, what the C interface promises, and launches on several devices. The problems and calls that verify makes by
itself must catch them.

Rows of tests.support.mutations.Mutation: name, spec, header, text, what replaces it, and what goes wrong.
"""

from __future__ import annotations

FAULTS: tuple[tuple[str, str, str, str, str, str], ...] = (
    (
        "wide_by_a_alone",
        "sm80_gemm_classic",
        "gemm_launch",
        " &&\n                      detail::rows_are_aligned(args.b, args.ldb, args.batch_stride_b, args.batch, kBytesB)",
        "",
        "a B that is not aligned is copied in vectors where A is",
    ),
    (
        "query_of_the_other_kernel",
        "sm80_gemm_classic",
        "gemm_launch",
        "return query_kernel(&gemm_kernel<Config, true>,",
        "return query_kernel(&gemm_kernel<Config, false>,",
        "the resources are those of the kernel for operands that are not aligned",
    ),
    (
        "wide_at_8_bytes",
        "sm80_gemm_classic",
        "gemm_arguments",
        "steps * uintptr_t(bytes)) % 16 == 0",
        "steps * uintptr_t(bytes)) % 8 == 0",
        "operands aligned to 8 bytes are copied in vectors of 16",
    ),
    (
        "subnormal_results_flushed",
        "sm80_gemm_classic",
        "convert",
        "    return static_cast<To>(x);",
        "    return static_cast<To>(x < 6.1e-5f && x > -6.1e-5f ? From(0) : x);",
        "results below the normal numbers of f16 become 0",
    ),
    (
        "nan_stored_as_zero",
        "sm80_gemm_classic",
        "linear_combination",
        "    return convert<ElementD>(alpha * static_cast<Scalar>(accumulator));",
        "    Scalar const x = alpha * static_cast<Scalar>(accumulator);\n    return convert<ElementD>(x == x ? x : Scalar(0));",
        "NaNs are lost",
    ),
    (
        "end_of_b_of_an_earlier_k_tile",
        "c2_stream",
        "sm90_unaligned",
        "      } else if (i < kVectors) {",
        "      } else if (i < kVectors && (k_tile < 2 || (pairs_[j].low.x | pairs_[j].low.w | pairs_[j].high.x) != 0)) {",
        "zeros behind K are multiplied by an infinity that a stage has kept",
    ),
    (
        "can_run_without_a_question",
        "sm80_gemm_classic",
        "interface",
        "      Status const found = call(read);\n",
        "      Status const found = Status::kSuccess;\n",
        "can_run accepts calls that run refuses",
    ),
    (
        "short_lines_are_those_of_a",
        "sm80_gemm_classic",
        "gemm_arguments",
        "if (one.ld < one.of.row) { return about(Status::kShortLda, i); }",
        "if (one.ld < one.of.row) { return Status::kShortLda; }",
        "the status names another argument",
    ),
    (
        "a_of_the_call_before",
        "sm80_gemm_classic",
        "gemm_launch",
        "  params.mainloop = Config::Mainloop::make_params(args);\n",
        "  static typename Config::Mainloop::Params made{};\n"
        "  if (made.a != args.a) { made = Config::Mainloop::make_params(args); }\n"
        "  params.mainloop = made;\n",
        "a call with the pointers of the one before has its extents and leading dimensions",
    ),
    (
        "launch_error_kept_back",
        "sm80_gemm_classic",
        "status",
        "  if (error == cudaSuccess) { return Status::kSuccess; }\n",
        "  if (error == cudaSuccess || error == cudaErrorLaunchFailure) { return Status::kSuccess; }\n",
        "a launch that fails is reported as a success",
    ),
    (
        "metadata_of_an_empty_call",
        "sm80_gemm_sparse_s8",
        "sparse_arguments",
        "args.k == 0 || args.m == 0 || args.n == 0 || args.batch == 0",
        "args.k == 0 || args.m == 0 || args.batch == 0",
        "a call of no column must have metadata",
    ),
    (
        "metadata_without_k",
        "sm80_gemm_sparse_s8",
        "sparse_arguments",
        "args.k == 0 || args.m == 0 || args.n == 0 || args.batch == 0",
        "args.m == 0 || args.n == 0 || args.batch == 0",
        "a call whose K is 0 must have metadata",
    ),
    (
        "metadata_far_apart_in_an_empty_call",
        "sparse_tf32",
        "sm90_sparse_launch",
        "args.m > 0 && args.n > 0 && args.k > 0;",
        "args.k > 0;",
        "a call of no element is refused for a stride that nothing reads",
    ),
    (
        "clusters_of_another_device",
        "c2_stream",
        "sm90_launch",
        "clusters = device < kMostDevices ? known[device][ctas - 1]",
        "clusters = device < kMostDevices ? known[0][ctas - 1]",
        "a launch on device 1 has as many clusters as device 0 runs at once",
    ),
    (
        "kernel_not_prepared_again_after_a_reset",
        "c2_stream",
        "sm90_launch",
        "if (error != cudaErrorInvalidValue && error != cudaErrorInvalidClusterSize) { return status_of(error); }",
        "if (error != cudaErrorUnknown) { return status_of(error); }",
        "calls after a reset of the device fail",
    ),
    (
        "large_clusters_not_allowed_again_after_a_reset",
        "cluster16",
        "sm90_launch",
        "if (error != cudaErrorInvalidValue && error != cudaErrorInvalidClusterSize) { return status_of(error); }",
        "if (error != cudaErrorInvalidValue) { return status_of(error); }",
        "calls after a reset of the device fail: clusters of more than eight CTAs are to be allowed for each context",
    ),
    (
        "error_of_a_launch_after_a_reset_left_behind",
        "c2_stream",
        "sm90_launch",
        "  cudaGetLastError();\n  status = prepare_kernel<Config>();",
        "  status = prepare_kernel<Config>();",
        "a call that succeeds leaves an error in the runtime",
    ),
)
