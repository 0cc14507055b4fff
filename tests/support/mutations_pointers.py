"""Planted faults of kernels whose groups have matrices of their own: the problems that verify chooses for them must catch them.

Rows of tests.support.mutations.Mutation: name, spec, header, text, what replaces it, and what goes wrong.
"""

from __future__ import annotations

_SPEC = "pointers_pingpong"
_PREPARE, _SCHEDULER, _GROUPS = "sm90_prepare_groups", "sm90_tile_scheduler_pointers", "sm90_pointer_groups"
_EPILOGUE = "sm90_epilogue_tma"


def _prepare(name: str, old: str, new: str, seen: str) -> tuple[str, str, str, str, str, str]:
    return f"pointers_{name}", _SPEC, _PREPARE, old, new, seen


_REPLACE = "tensormap.replace.tile.global_%s.shared::cta.b1024.%s [%%0], %s, %%1;"
_STRIDE = f"""  asm volatile("{_REPLACE % ("stride", "b64", "0")}" ::"r"(at), "l"(to.ld * element_bytes)
               : "memory");
"""
_LINES = f"""  asm volatile("{_REPLACE % ("dim", "b32", "1")}" ::"r"(at), "r"(to.across) : "memory");
"""

FAULTS = (
    _prepare(
        "a_of_the_neighbour",
        "reads_ab ? from.a[group] : nullptr",
        "reads_ab ? from.a[group ^ 1] : nullptr",
        "a group multiplies the A of another one",
    ),
    _prepare(
        "b_of_the_neighbour",
        "reads_ab ? from.b[group] : nullptr",
        "reads_ab ? from.b[group ^ 1] : nullptr",
        "a group multiplies the B of another one",
    ),
    _prepare(
        "c_of_the_neighbour",
        "reads_c ? from.c[group] : nullptr",
        "reads_c ? from.c[group ^ 1] : nullptr",
        "a group adds the C of another one",
    ),
    _prepare(
        "d_of_the_neighbour",
        "used ? from.d[group] : nullptr",
        "used ? from.d[group ^ 1] : nullptr",
        "a group writes the D of another one",
    ),
    _prepare(
        "lda_of_the_next_group",
        "of_group(from.lda, group, params.lda)",
        "of_group(from.lda, group + (group + 1 < params.groups), params.lda)",
        "rows of A are as far apart as those of the next group",
    ),
    _prepare(
        "ldb_of_the_next_group",
        "of_group(from.ldb, group, params.ldb)",
        "of_group(from.ldb, group + (group + 1 < params.groups), params.ldb)",
        "rows of B are as far apart as those of the next group",
    ),
    _prepare("ldc_is_ldd", "of_group(from.ldc, group, params.ldc)", "of_group(from.ldd, group, params.ldd)", "C has D's lines"),
    _prepare("ldd_is_ldc", "of_group(from.ldd, group, params.ldd)", "of_group(from.ldc, group, params.ldc)", "D has C's lines"),
    _prepare("k_of_the_call", "k = of_group(from.k, group, params.k)", "k = params.k", "each group has the largest K"),
    _prepare(
        "m_of_the_call", "int const m = of_group(from.m, group, params.m)", "int const m = params.m", "groups have all rows"
    ),
    _prepare("n_of_the_call", "n = of_group(from.n, group, params.n)", "n = params.n", "each group has the largest N"),
    _prepare(
        "k_tiles_rounded_down",
        "(k + Config::kTileK - 1) / Config::kTileK, m}",
        "k / Config::kTileK, m}",
        "the residue of K is left out",
    ),
    _prepare(
        "tiles_exchanged",
        "tiles = {(m + kM - 1) / kM, (n + kN - 1) / kN,",
        "tiles = {(n + kN - 1) / kN, (m + kM - 1) / kM,",
        "tiles along M and N are exchanged",
    ),
    _prepare(
        "map_keeps_its_stride",
        _STRIDE,
        "",
        "lines of each matrix are as far apart as those of the template",
    ),
    _prepare(
        "stride_in_elements",
        '"l"(to.ld * element_bytes)',
        '"l"(to.ld)',
        "the stride of a map counts elements, not bytes",
    ),
    _prepare(
        "map_keeps_its_lines",
        _LINES,
        "",
        "a map has as many lines as the largest group",
    ),
    _prepare(
        "map_has_longer_lines",
        '"r"(to.along) : "memory"',
        '"r"(to.along + 8) : "memory"',
        "TMA writes, and reads, behind the end of a line",
    ),
    _prepare(
        "maps_before_all_is_copied",
        "  __syncwarp();\n  if (lane == 0) {\n    if (reads_ab) {",
        "  if (lane == 0) {\n    if (reads_ab) {",
        "a field is replaced before another lane has copied the template over it",
    ),
    _prepare(
        "map_of_d_and_c_exchanged",
        "detail::publish_tensor_map(&to.map_d, &maps[warp][2]);\n  detail::publish_tensor_map(&to.map_source, &maps[warp][3]);",
        "detail::publish_tensor_map(&to.map_d, &maps[warp][3]);\n  detail::publish_tensor_map(&to.map_source, &maps[warp][2]);",
        "TMA stores D to C",
    ),
    _prepare(
        "tma_for_any_d",
        "bool const tma_stores = computed && detail::is_for_tma(d, kBytesD);",
        "bool const tma_stores = computed;",
        "a tensor map of a D that begins anywhere",
    ),
    _prepare(
        "tma_for_any_c",
        "bool const tma_loads = computed && reads_c && detail::is_for_tma(c, kBytesD);",
        "bool const tma_loads = computed && reads_c;",
        "a tensor map of a C that begins anywhere",
    ),
    _prepare(
        "ragged_d_by_tma_alone",
        "int64_t(d.along) * kBytesD % 16 != 0 ? d.along : INT_MAX",
        "INT_MAX",
        "TMA stores no part of 16 bytes: it writes behind the end of a line",
    ),
    (
        "pointers_maps_are_not_acquired",
        _SPEC,
        _GROUPS,
        "    acquire_tensor_map(&group->map_a);\n",
        "",
        "TMA may read a tensor map of A that it has read before the kernel wrote it",
    ),
    (
        "pointers_map_of_d_is_not_acquired",
        _SPEC,
        _GROUPS,
        "    acquire_tensor_map(&group->map_d);\n",
        "",
        "the same of D",
    ),
    (
        "pointers_acquired_once",
        _SPEC,
        "sm90_tma_load",
        "if (tile.batch != acquired) {",
        "if (acquired < 0) {",
        "maps of the groups behind the first are not acquired",
    ),
    (
        "pointers_end_of_the_call",
        _SPEC,
        _GROUPS,
        "CUTE_DEVICE int end_n(int) const { return group->n; }",
        "CUTE_DEVICE int end_n(int n) const { return n; }",
        "threads store columns behind the end of a group",
    ),
    (
        "pointers_matrices_of_the_neighbour",
        _SPEC,
        _SCHEDULER,
        "params.matrices + scheduler.group}",
        "params.matrices + (scheduler.group ^ 1)}",
        "a tile of one group multiplies the matrices of another",
    ),
    (
        "pointers_k_of_the_last_tile",
        _SPEC,
        _SCHEDULER,
        "      k_tiles += of_group.k;\n      tile += gridDim.x / kClusterCtas<Config>;\n      find(params);\n",
        "      tile += gridDim.x / kClusterCtas<Config>;\n      find(params);\n      k_tiles += of_group.k;\n",
        "a warpgroup skips as many stages as its own tile has, not that of the other warpgroup",
    ),
    (
        "pointers_window_keeps_the_tile",
        _SPEC,
        _SCHEDULER,
        "      tile -= __shfl_sync(detail::kAllLanes, tiles_to_end, 31);\n",
        "",
        "tiles of the second window are skipped",
    ),
    (
        "pointers_next_window",
        _SPEC,
        _SCHEDULER,
        "next = load(params, first_group + 32);",
        "next = load(params, first_group + 31);",
        "groups of the second window have the tiles of the group before",
    ),
    (
        "pointers_empty_group_has_the_tile",
        _SPEC,
        _SCHEDULER,
        "__ballot_sync(detail::kAllLanes, tile < tiles_to_end)",
        "__ballot_sync(detail::kAllLanes, tile <= tiles_to_end)",
        "the first tile of a group goes to the one before",
    ),
    (
        "pointers_c_by_tma_for_all",
        _SPEC,
        _EPILOGUE,
        "if constexpr (Tile::kOwnMatrices) { return tile.outputs(params).tma_loads; }",
        "if constexpr (Tile::kOwnMatrices) { return true; }",
        "TMA loads a C that it cannot address",
    ),
    (
        "pointers_k_above_the_call",
        _SPEC,
        "sm90_prepare_groups",
        " || k > params.k) {",
        ") {",
        "a group whose K is above that of the call is computed",
    ),
    (
        "pointers_map_published_to_the_cta",
        _SPEC,
        "sm90_prepare_groups",
        "release.gpu.sync",
        "release.cta.sync",
        "tensor maps are not published to the CTAs that copy by them",
    ),
)
