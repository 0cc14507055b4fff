"""The size of an operation's operands in registers, in bytes and bits."""

from __future__ import annotations

from mmagen.mma import formats
from mmagen.mma.operation import Operation

# Registers of C++ types that are no plain numbers of 8 bytes or fewer.
_REGISTER_BYTES = {
    "uint8_t": 1,
    "uint16_t": 2,
    "uint32_t": 4,
    "int32_t": 4,
    "float": 4,
    "uint64_t": 8,
    "double": 8,
    "float2": 8,
    "complex<double>": 16,
}


def register_bytes(operation: Operation, operand: str) -> int:
    """Bytes that one thread passes for an operand."""
    registers = operation.registers.get(operand) or operation.registers["C"]
    return _REGISTER_BYTES.get(registers.type, 24) * registers.count


def stored_shift(operation: Operation, operand: str) -> int:
    """Where the code begins in an element's bits: e2m1 in a byte lies two bits up (PTX ISA, packing of kind::f8f6f4)."""
    word = {"A": operation.type_a, "B": operation.type_b}.get(operand)
    return 2 if word == "e2m1" and stored_bits(operation, operand) == 8 else 0


def stored_bits(operation: Operation, operand: str) -> int:
    """Bits that one stored element of A, B or C takes up in registers; of a complex one, each part."""
    word = {"A": operation.type_a, "B": operation.type_b, "C": operation.type_d}[operand]
    if formats.bits(word) not in (4, 6):
        return formats.bits(word)
    kept = 2 if operation.sparse and operand == "A" else 1
    values = operation.layout(operand).values // kept
    return 8 * register_bytes(operation, operand) // values
