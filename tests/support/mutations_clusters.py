"""Planted faults in kernels whose cluster the launch decides on: shares of boxes, masks, counts of arrivals, host code.

Rows of tests.support.mutations.Mutation: name, spec, header, text, what replaces it, and what goes wrong.
"""

from __future__ import annotations

from tests.support.mutation import EMULATOR, Edit, Mutation

_LOADS = "include/mmagen/sm90_tma_load.cuh"
IN_SEVERAL_PLACES = (
    Mutation(
        "clusters_nobody_waits_for_an_empty_share",
        "clusters",
        (
            Edit(
                _LOADS, "if (shares == 1 || rows == Operand::kTileMn) { return 0; }", "if (true || shares == 1) { return 0; }"
            ),
            Edit(_LOADS, "    tma_load_multicast(&params.line, share, full, ctas, 0, -1, 0, CacheHint::kNormal);\n", ""),
        ),
        ("4096,4096,4104",),
        "a CTA whose share lies beyond the matrix loads nothing, and others may release a stage to it twice in one phase",
        (EMULATOR,),
    ),
)
FAULTS = (
    (
        "rows_exchanged_with_columns",
        "clusters",
        "sm90_cluster",
        "row |= 1u << (m + shape_.m * i);",
        "row |= 1u << (m * shape_.n + i);",
        "A is multicast to CTAs of a column of the cluster",
    ),
    (
        "bands_without_a_row",
        "clusters",
        "sm90_cluster",
        "std::max(1, Config::kRasterGroup / cluster.m)",
        "std::min(1, Config::kRasterGroup / cluster.m)",
        "bands of fewer rows of tiles than a cluster has are divided by",
    ),
    (
        "box_of_the_other_extent",
        "clusters",
        "sm90_tma_load",
        "params.box_a = kLines<A> / cluster.n;",
        "params.box_a = kLines<A> / cluster.m;",
        "a CTA's box of A has as many lines as if the CTAs along M shared it",
    ),
    (
        "one_consumer_of_each_stage",
        "clusters_nt",
        "sm90_pipeline",
        "empty[stage].init(consumers * (cluster.m + cluster.n - 1));",
        "empty[stage].init(consumers);",
        "a stage is free when one CTA has read it",
    ),
    (
        "exit_before_the_last_arrivals",
        "clusters",
        "sm90_tma_load",
        "if (cluster.shape().ctas() > 1) {",
        "if (cluster.shape().n > 1) {",
        "a CTA of a cluster along M exits while others still arrive at its barriers",
    ),
    (
        "edge_of_whole_boxes",
        "clusters",
        "sm90_tma_load",
        "if (line + box > rows) { this->map = edge; }",
        "if (line + box >= rows) { this->map = edge; }",
        "a whole last box is loaded with the tensor map of the last box of the matrix",
    ),
    (
        "share_beyond_the_matrix",
        "clusters",
        "sm90_tma_load",
        "if (line >= rows) { this->rows = 0; }",
        "if (line > rows) { this->rows = 0; }",
        "a share that begins where the matrix ends is loaded, and its bytes were not expected",
    ),
    (
        "nothing_of_an_empty_share",
        "clusters",
        "sm90_tma_load",
        "  if (shares == 1 || rows == Operand::kTileMn) { return 0; }",
        "  if (true || shares == 1) { return 0; }",
        "the bytes of empty shares are not expected",
    ),
    (
        "shares_in_one_place",
        "clusters_nt",
        "sm90_tma_load",
        "(panel * kLines<Operand> + own.line) * Operand::kLine;",
        "panel * kLines<Operand> * Operand::kLine;",
        "all CTAs write their shares to the first lines of a panel",
    ),
    (
        "tiles_of_exchanged_clusters",
        "clusters",
        "sm90_cluster",
        "coord.m = coord.m * cluster.shape().m + cluster.m;",
        "coord.m = coord.m * cluster.shape().n + cluster.m;",
        "clusters along one extent alone compute other tiles than their own",
    ),
    (
        "extents_exchanged_in_the_launch",
        "clusters",
        "sm90_launch",
        "return dim3(unsigned(cluster.m), unsigned(cluster.n));",
        "return dim3(unsigned(cluster.n), unsigned(cluster.m));",
        "the CTAs of a cluster of 4 x 1 are launched as 1 x 4",
    ),
    (
        "partial_sums_of_the_first_cta",
        "clusters",
        "sm90_tile_scheduler_stream_k",
        "unsigned const cta = of * unsigned(cluster.shape().ctas()) + unsigned(cluster.rank);",
        "unsigned const cta = of + unsigned(cluster.rank);",
        "CTAs of neighbouring clusters leave their partial sums in one place",
    ),
    (
        "copies_without_room_for_them",
        "clusters",
        "operand_copies",
        "args.workspace != nullptr && args.workspace_bytes >= copies.bytes();",
        "args.workspace != nullptr;",
        "the kernel is chosen by the pitches of copies for which the workspace is too small",
    ),
)
