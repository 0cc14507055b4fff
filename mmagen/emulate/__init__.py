"""Executes the PTX of a kernel on the CPU, and finds what a GPU does not show: races, missing waits, stray accesses.

Other packages import from here alone. Inside, each layer imports only from those that follow it:

    call          `run_ptx`: arguments, device memory, tensor maps
    exec          blocks of an entry, their compilation, the scheduler, batches, `launch`
    ops           instructions: PTX -> Python source over all lanes
    batch         the state of the CTAs that run together, assembled from the components below
    asynchronous  cp.async, TMA and wgmma: copies and products in flight
    sync          CTA and cluster barriers, mbarriers
    hazards       who accessed what and when: shadows of memory, vector clocks
    lanes         threads as lanes, findings about them, registers that nothing wrote
    program       one launch: extents, parameters, places of variables
    report        findings, traffic, coverage
    arithmetic    number formats, fragments, mma and wgmma
    memory        global, shared and local memory, tensor maps
    ptx           PTX text -> instructions
    arrays, errors
"""

from mmagen.emulate.call.arguments import Output, ReadOnly
from mmagen.emulate.call.device import Buffer, Device
from mmagen.emulate.call.run import Launched, run_ptx
from mmagen.emulate.call.tensor_maps import tensor_map
from mmagen.emulate.errors import EmulationError, defect
from mmagen.emulate.exec.compile import prepare
from mmagen.emulate.exec.kept_code import KeptCode
from mmagen.emulate.exec.launch import STEP_LIMIT, launch
from mmagen.emulate.memory.global_memory import POISON, GlobalMemory
from mmagen.emulate.memory.rows import Rows
from mmagen.emulate.memory.sparse import zeros as sparse_zeros
from mmagen.emulate.memory.tensor_map import TensorMap
from mmagen.emulate.ptx.model import Entry, Module
from mmagen.emulate.ptx.parse import parse
from mmagen.emulate.report.coverage import Coverage, Goal
from mmagen.emulate.report.findings import KINDS, Finding
from mmagen.emulate.report.report import Report
from mmagen.emulate.report.trace import Event, Trace
from mmagen.emulate.report.traffic import Traffic

NEWEST = 90
"""The newest architecture whose instructions can be executed, as those of all before it."""

__all__ = [
    "KINDS",
    "NEWEST",
    "POISON",
    "STEP_LIMIT",
    "Buffer",
    "Coverage",
    "Device",
    "EmulationError",
    "Entry",
    "Event",
    "Finding",
    "GlobalMemory",
    "Goal",
    "KeptCode",
    "Launched",
    "Module",
    "Output",
    "ReadOnly",
    "Report",
    "Rows",
    "TensorMap",
    "Trace",
    "Traffic",
    "defect",
    "launch",
    "parse",
    "prepare",
    "run_ptx",
    "sparse_zeros",
    "tensor_map",
]
