"""All instruction modules: importing them fills the table of instructions."""

from mmagen.emulate.ops import (  # noqa: F401
    cache_policy,
    calls,
    carry,
    compare,
    control,
    convert,
    copies,
    float_functions,
    floats,
    integer_pairs,
    integers,
    matrix,
    mbarriers,
    memory,
    remote_stores,
    tensor_maps,
    vector_atomics,
    wgmma,
    wmma,
)
