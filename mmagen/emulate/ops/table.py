"""All instruction modules: importing them fills the table of instructions."""

from mmagen.emulate.ops import (  # noqa: F401
    cache_policy,
    calls,
    carry,
    control,
    convert,
    copies,
    floats,
    integers,
    matrix,
    mbarriers,
    memory,
    vector_atomics,
    wgmma,
)
