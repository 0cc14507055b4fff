"""nvcc, the host compiler, CMake, CUTLASS and GPUs: what is there, where, and which version."""
