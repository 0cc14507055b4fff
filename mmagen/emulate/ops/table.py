"""All instruction modules: importing them fills the table of instructions."""

from mmagen.emulate.ops import (  # noqa: F401
    control,
    convert,
    copies,
    floats,
    integers,
    matrix,
    mbarriers,
    memory,
    wgmma,
)
