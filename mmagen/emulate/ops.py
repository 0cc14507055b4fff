"""All instruction modules: importing them fills the table of instructions."""

from . import (  # noqa: F401
    ops_async,
    ops_control,
    ops_convert,
    ops_float,
    ops_integer,
    ops_matrix,
    ops_mbarrier,
    ops_memory,
    ops_wgmma,
)
