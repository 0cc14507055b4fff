"""The special registers that kernels may read, and the carry flag, which instructions alone read and write."""

from __future__ import annotations

SPECIALS = (
    *(f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
    *("laneid", "warpid", "nwarpid", "dynamic_smem_size", "total_smem_size"),
    *(f"lanemask_{relation}" for relation in ("eq", "lt", "le", "gt", "ge")),
    *("smid", "nsmid", "gridid", "clock", "clock_hi", "clock64", "globaltimer"),
    *(f"{name}.{axis}" for name in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid") for axis in "xyz"),
    *("cluster_ctarank", "cluster_nctarank", "is_explicit_cluster"),
    "carry",
)
WIDE_SPECIALS = ("clock64", "globaltimer")
"""Those of 64 bits; the others have 32."""
