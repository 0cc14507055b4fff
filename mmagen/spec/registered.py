"""The values of a spec's key `kernel`, and which family plans them: the one line by which a family is registered."""

from __future__ import annotations

# (kernel, module with the FAMILY). The first family of a kernel that builds from the atom plans it.
REGISTERED: tuple[tuple[str, str], ...] = (
    ("ownership", "mmagen.families.ownership"),
    ("ownership", "mmagen.families.wgmma.ownership"),
    ("micro", "mmagen.families.micro"),
    ("micro", "mmagen.families.wgmma.micro"),
    ("micro", "mmagen.families.instruction.family"),
    ("gemm", "mmagen.families.mma_gemm"),
    ("gemm", "mmagen.families.dmma_gemm"),
    ("gemm", "mmagen.families.packed_mma_gemm"),
    ("gemm", "mmagen.families.sparse_mma_gemm"),
    ("gemm", "mmagen.families.wgmma.gemm"),
    ("gemm", "mmagen.families.wgmma.sparse_gemm"),
    ("peak", "mmagen.families.peak.family"),
)
KERNELS = tuple(dict.fromkeys(kernel for kernel, _ in REGISTERED))
