"""All instruction modules: importing them fills the table of instructions."""

from . import ops_async, ops_control, ops_convert, ops_float, ops_integer, ops_matrix, ops_memory

MODULES = (ops_async, ops_control, ops_convert, ops_float, ops_integer, ops_matrix, ops_memory)
