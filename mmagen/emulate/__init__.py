"""Executes the PTX of a kernel on the CPU, and finds what a GPU does not show: races, missing waits, stray accesses."""

from .checks import KINDS, Finding, Report, Traffic
from .errors import EmulationError
from .machine import STEP_LIMIT, launch
from .memory import GlobalMemory
from .ptx import parse
from .ptx_model import Entry, Module
from .tensor_map import TensorMap

NEWEST = 90  # of which architecture it knows the instructions, as of all before

__all__ = [
    "KINDS",
    "NEWEST",
    "STEP_LIMIT",
    "EmulationError",
    "Entry",
    "Finding",
    "GlobalMemory",
    "Module",
    "Report",
    "TensorMap",
    "Traffic",
    "launch",
    "parse",
]
