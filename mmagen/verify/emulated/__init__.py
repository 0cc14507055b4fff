"""Verification without a GPU: inputs, launches and judgement of emulated kernels."""
