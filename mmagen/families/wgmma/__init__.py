"""Kernels built from wgmma atoms: decisions, rules and remedies."""
