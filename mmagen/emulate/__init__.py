"""Executes the PTX of a kernel on the CPU, and finds what a GPU does not show: races, missing waits, stray accesses."""

from mmagen.emulate.errors import EmulationError
from mmagen.emulate.exec.machine import STEP_LIMIT, launch
from mmagen.emulate.memory.memory import GlobalMemory
from mmagen.emulate.memory.tensor_map import TensorMap
from mmagen.emulate.ptx.model import Entry, Module
from mmagen.emulate.ptx.parse import parse
from mmagen.emulate.report.checks import KINDS, Finding, Report, Traffic

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
