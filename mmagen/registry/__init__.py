"""Every MMA operation struct of the CUTLASS headers that mmagen is pinned to, with its thread-value layouts.

The data, operations.json, is made from the headers by tools/atom_registry and is read when first asked for.
"""

from mmagen.registry.load import CUTLASS, asked_for, find, nearest, operations, select
from mmagen.registry.model import OPERANDS, Flaw, Operation, Parameter, Registers, ThreadValueLayout, Variant

__all__ = ["CUTLASS", "OPERANDS", "Flaw", "Operation", "Parameter", "Registers", "ThreadValueLayout", "Variant", "asked_for",
           "find", "nearest", "operations", "select"]
