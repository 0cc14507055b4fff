"""The peak loop of an operation: all numbers and C++ names of its entry in a translation unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmagen.families.peak.rates import rate
from mmagen.mma.operation import Operation
from mmagen.mma.storage import stored_bits

# Magnitudes of random inputs. Sums of two instructions must be exact in the accumulators, whatever the order: an f32 of
# the tensor cores has 24 bits, about 14 after products of 8-bit floats, an f16 has 11. All but f16, tf32 and f64 fill
# their mantissa; those leave its last bits zero.
_LIMITS = {
    "f16": 511,
    "bf16": 255,
    "tf32": 511,
    "e4m3": 15,
    "e5m2": 7,
    "e3m2": 7,
    "e2m3": 7,
    "e2m1": 4,
    "f32": 2047,
    "f64": 2**24 - 1,
    "c64": 2**22 - 1,
    "s8": 127,
    "u8": 255,
    "s4": 7,
    "u4": 15,
    "u1": 1,
}
_LIMITS_F16 = {"f16": 11, "e4m3": 9, "e5m2": 7}
_UNSIGNED = ("u8", "u4", "u1")
_ELEMENTS = {
    "f16": "F16",
    "bf16": "Bf16",
    "tf32": "Tf32",
    "e4m3": "E4M3",
    "e5m2": "E5M2",
    "e3m2": "E3M2",
    "e2m3": "E2M3",
    "e2m1": "E2M1",
    "f32": "F32",
    "f64": "F64",
    "c64": "C64",
    "gc64": "Gauss",
    "s32": "S32",
    "s8": "S8",
    "u8": "U8",
    "s4": "S4",
    "u4": "U4",
    "u1": "U1",
}
# Real multiplications per complex multiplication.
_REAL = {"c64": 4, "gc64": 3}
_WORDS = {"float": 1, "float2": 2, "uint32_t": 1, "int32_t": 1, "uint64_t": 2, "double": 2, "complex<double>": 4}
# Four scale factors of 1: a ue8m0 is an exponent with a bias of 127, a ue4m3 has a bias of 7 and three bits of mantissa.
_ONES = {"ue8m0": 0x7F7F7F7F, "ue4m3": 0x38383838}
_ROW_BYTES, _ROWS_A = 128, 64
# Maximum registers for operands and accumulators; wider accumulators saturate the unit alone.
_REGISTERS, _WGMMA_REGISTERS = 200, 64
# With wider accumulators four steps hide the test of the loop counter: 16 steps were no faster on an H200.
_SHORT_BLOCKS = 32
# Registers of a wgmma loop besides its accumulators, with A in registers and in shared memory.
_WGMMA_RS, _WGMMA_SS = 44, 30
# Headers that do not include their own dependencies.
_BEFORE = {
    "cute/arch/mma_sm90_gmma_ext.hpp": "cute/arch/mma_sm90_gmma.hpp",
    "cute/arch/mma_sm90_gmma_sparse_ext.hpp": "cute/arch/mma_sm90_gmma_sparse.hpp",
}


@dataclass(frozen=True)
class Loop:
    """One entry. The fields up to `rate` are the members of Entry in entry.cuh, in order.

    kernels: accumulators, steps and the C++ kernel of each variant. headers: those that define the operation, in include order.
    own: the header of the loop.
    """

    name: str
    types: str
    flop: int
    threads: int
    smem_bytes: int
    element_a: str
    element_b: str
    accumulator: str
    words_a: int
    words_b: int
    metadata: str
    accumulator_words: int
    products: int
    exclusive_or: bool
    sums: str
    limit_a: int
    limit_b: int
    rate: int
    kernels: tuple[tuple[int, int, str], ...]
    headers: tuple[str, ...]
    own: str

    @property
    def entry(self) -> str:
        """The members of Entry before its variants, as C++."""
        return ", ".join(
            (
                f'"{self.name}"',
                f'"{self.types}"',
                f"{self.flop}.0",
                f"{self.threads}, {self.smem_bytes}",
                f"Element::k{self.element_a}, Element::k{self.element_b}, Element::k{self.accumulator}",
                f"{self.words_a}, {self.words_b}",
                f"Element::k{self.metadata}",
                f"{self.accumulator_words}, {self.products}",
                "true" if self.exclusive_or else "false",
                f"Sums::k{self.sums}",
                f"{self.limit_a}, {self.limit_b}",
                f"{self.rate}.0",
            )
        )


def refusal(operation: Operation) -> str | None:
    """Why the operation has no peak loop on any device, or None."""
    if operation.broken:
        return operation.broken
    if not operation.of_cutlass:
        return f"CUTLASS has no {operation.name}; verify --bench of a gemm measures it"
    if operation.tensor_memory:
        return "there is no peak loop for tcgen05 yet"
    return None


def loop(operation: Operation, target: str) -> Loop:
    """The loop of an operation that refusal() accepts, compiled for `target`."""
    wgmma = operation.warpgroup
    limits = _LIMITS | _LIMITS_F16 if operation.type_d == "f16" else _LIMITS
    real = _REAL.get(operation.type_c, 1)
    header = operation.header
    negated_b = operation.type_a in _UNSIGNED and operation.type_b not in _UNSIGNED
    sums = "Return" if negated_b or operation.type_a not in _UNSIGNED else "Saturate" if operation.saturate else "Grow"
    return Loop(
        name=operation.name,
        types=f"{operation.type_d} {operation.type_a} {operation.type_b} {operation.type_c}",
        flop=2 * real * operation.m * operation.n * operation.k,
        threads=operation.threads,
        smem_bytes=2 * (_ROWS_A + operation.n) * _ROW_BYTES if wgmma else 0,
        element_a=_element(operation, "A"),
        element_b=_element(operation, "B"),
        accumulator=_ELEMENTS[operation.type_c],
        words_a=_thread_words(operation, "A"),
        words_b=_thread_words(operation, "B"),
        metadata=_metadata(operation),
        accumulator_words=_words(operation, "C"),
        products=operation.k // (2 if operation.sparse else 1),
        exclusive_or=".xor" in operation.opcode,
        sums=sums,
        limit_a=limits[operation.type_a],
        limit_b=limits[operation.type_b],
        rate=rate(operation, target) or 0,
        kernels=tuple(_kernel(operation, count) for count in accumulators(operation)),
        headers=(_BEFORE[header], header) if header in _BEFORE else (header,),
        own="wgmma_loop" if wgmma else "register_loop",
    )


def accumulators(operation: Operation) -> Sequence[int]:
    """The candidate numbers of independent accumulators."""
    own = _words(operation, "C")
    if operation.warpgroup:
        return [count for count in (1, 2) if count == 1 or count * own <= _WGMMA_REGISTERS]
    operands = 4 * _words(operation, "A") + 2 * _words(operation, "B")
    return [count for count in (1, 2, 4, 8) if count == 1 or operands + count * own <= _REGISTERS]


def _words(operation: Operation, operand: str) -> int:
    """32-bit registers per thread."""
    registers = operation.registers[operand]
    return registers.count * _WORDS.get(registers.type, 6)  # three doubles of a Gaussian complex number


def _thread_words(operation: Operation, operand: str) -> int:
    """Registers per thread that hold the operand itself, 0 if they hold a descriptor."""
    return _words(operation, operand) if operation.places[operand] == "registers" else 0


def _element(operation: Operation, operand: str) -> str:
    word = _ELEMENTS[operation.type_a if operand == "A" else operation.type_b]
    return f"{word}Packed" if word == "E2M1" and stored_bits(operation, operand) == 4 else word


def _metadata(operation: Operation) -> str:
    if not operation.sparse:
        return _element(operation, "A")
    return "OneOfTwo" if operation.sparsity == "1:2" else "Pairs"


def _kernel(operation: Operation, count: int) -> tuple[int, int, str]:
    """(accumulators, steps, kernel). steps: instructions per accumulator between two tests of the loop counter."""
    words = count * _words(operation, "C")
    steps = 4 if words > _SHORT_BLOCKS else 8
    if not operation.warpgroup:
        scale = f", 0x{_ONES[operation.type_sf]:x}u" if operation.type_sf else ""
        return count, steps, f"register_loop<{operation.cxx()}, {count}, {steps}{scale}>"
    registers = words + (_WGMMA_RS if operation.places["A"] == "registers" else _WGMMA_SS)
    threads = next(threads for threads in (512, 384, 256) if registers <= 65536 // threads // 8 * 8)
    return count, steps, f"wgmma_loop<{operation.cxx()}, {operation.n}, {count}, {steps}, {threads}>"
