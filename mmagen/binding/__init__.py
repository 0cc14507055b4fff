"""Calls compiled kernels from Python: arrays of any library that has DLPack or `__cuda_array_interface__`."""
