"""Planted faults in epilogues of operations.

Rows of tests.support.mutations.Mutation: name, spec, header, text, what replaces it, the problem, and what goes wrong.
"""

from __future__ import annotations

_STAGED, _GELU, _SWAPPED = "sm80_gemm_f16_epilogue", "sm90_gemm_bf16_gelu", "sm90_gemm_swapped_epilogue"
_OPERATIONS = "epilogue_operations"
_BATCH = "70,50,40,2:ld_pad=3:alpha=-1:beta=2"
_PLAIN = "64,136,64"
_PARTS = "24,136,1000,2:alpha=2:beta=-1"

FAULTS = (
    ("alpha_left_out", _STAGED, _OPERATIONS, "return scalars.alpha * x;", "return x;", _BATCH, "x is not multiplied by alpha"),
    (
        "c_without_beta",
        _STAGED,
        _OPERATIONS,
        "x + scalars.beta * scalars.source",
        "x + scalars.source",
        _BATCH,
        "C is added as it is",
    ),
    (
        "bias_by_column_for_row",
        _STAGED,
        "config",
        "mmagen::PlusOfRow<",
        "mmagen::PlusOfColumn<",
        _BATCH,
        "each column of D gets the value that is meant for a row",
    ),
    (
        "bias_of_the_first_batch",
        _STAGED,
        _OPERATIONS,
        "[batch * tensor_.batch_stride + m]",
        "[m]",
        _BATCH,
        "all matrices get the bias of the first one",
    ),
    (
        "bias_of_the_first_tile",
        _STAGED,
        "epilogue_staged",
        "int const in_line = int(lines.long_origin) + along + v;",
        "int const in_line = along + v;",
        _BATCH,
        "all tiles get the bias and the second matrix of the first one",
    ),
    (
        "second_matrix_transposed",
        _STAGED,
        _OPERATIONS,
        "m * tensor_.ld + n : m + n * tensor_.ld",
        "m + n * tensor_.ld : n + m * tensor_.ld",
        "64,64,40:beta=1",
        "rows and columns of the second matrix are exchanged",
    ),
    (
        "sum_for_product",
        _STAGED,
        "config",
        "mmagen::TimesMatrix<",
        "mmagen::PlusMatrix<",
        _BATCH,
        "the second matrix is added, not multiplied by",
    ),
    (
        "exp_of_another_base",
        _STAGED,
        _OPERATIONS,
        "-1.4426950408889634f * x",
        "-1.0f * x",
        _BATCH,
        "sigmoid takes powers of 2 for those of e",
    ),
    (
        "clamp_without_its_bound",
        _STAGED,
        _OPERATIONS,
        "x = x < Scalar(Limits::kLeast) ? Scalar(Limits::kLeast) : x;",
        "",
        _BATCH,
        "values below the bound are kept",
    ),
    (
        "only_the_last_operation",
        _STAGED,
        _OPERATIONS,
        "return rest.apply(changed,",
        "return rest.apply(sizeof...(Rest) == 0 ? changed : x,",
        _BATCH,
        "what all operations but the last have made is dropped",
    ),
    (
        "accumulator_of_zero",
        _GELU,
        _OPERATIONS,
        "chain.apply(static_cast<Scalar>(accumulator)",
        "chain.apply(Scalar(0)",
        _PLAIN,
        "D is made of the bias alone",
    ),
    (
        "another_gelu",
        _GELU,
        "config",
        "mmagen::GeluErf",
        "mmagen::GeluTanh",
        _PLAIN,
        "the approximation is used for gelu itself",
    ),
    ("relu_for_gelu", _GELU, "config", "mmagen::GeluErf", "mmagen::Relu", _PLAIN, "another activation"),
    (
        "bias_of_the_even_column",
        _GELU,
        "sm90_epilogue_tma",
        "columns[i / 4 * 2 + i % 2]",
        "columns[i / 4 * 2]",
        _PLAIN,
        "of two neighbouring columns the second gets the bias of the first",
    ),
    (
        "bias_of_the_row_above",
        _SWAPPED,
        "sm90_epilogue_tma",
        "int const row = m + lane / 4 + i * 8;",
        "int const row = m + lane / 4;",
        "16,64,64",
        "of a thread's two rows the second gets the bias of the first",
    ),
    (
        "reduction_exchanges_rows_and_columns",
        _SWAPPED,
        "split_k_reduction",
        "functor.load_column(n, int(batch))",
        "functor.load_column(m, int(batch))",
        _PARTS,
        "where partial sums are added up, the bias of a column is that of a row",
    ),
    (
        "reduction_without_c",
        _SWAPPED,
        "split_k_reduction",
        "bool const reads_c = functor.reads_source();",
        "bool const reads_c = false;",
        _PARTS,
        "where partial sums are added up, C is left out",
    ),
)
