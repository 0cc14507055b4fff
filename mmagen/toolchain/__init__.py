"""Finds nvcc, the host compiler, CMake, CUTLASS and GPUs, with location and version."""
