"""Peak rates of the datasheets: operations per cycle and SM, by architecture and type of A.

Sources, each peak divided by SMs and boost clock: sm_70: V100, 125 TFLOPS f16 at 1,530 MHz on 80 SMs (Tesla V100 datasheet;
Volta white paper: 8 tensor cores of 64 FMA). sm_75: T4, 65 TFLOPS f16 and 130 TOPS s8 at 1,590 MHz on 40 SMs (T4 datasheet;
Turing white paper). sm_80: A100, 312 TFLOPS f16 and bf16, 156 tf32, 19.5 f64, 624 TOPS s8, 1,248 s4, 4,992 u1 at 1,410 MHz on
108 SMs (A100 white paper, table 2). sm_90: H100 SXM, 989.4 TFLOPS f16 and bf16, 494.7 tf32, 1,978.9 e4m3, e5m2 and s8 at 1,830
MHz on 132 SMs, 66.9 f64 at 1,980 MHz (H100 white paper, table 2, whose note gives the two clocks). H200 and H100 differ only in
memory. A sparse A doubles the rate of all but f64. Scalar FMA, from the same sources: V100 15.7 TFLOPS f32 and 7.8 f64; T4 8.1 f32,
and a thirty-second of it f64; A100 19.5 and 9.7; H100 66.9 and 33.5 at 1,980 MHz. Other architectures have no entry: their products
differ in the share of the unit's rate.
"""

from __future__ import annotations

from mmagen.core.targets import capability
from mmagen.mma.operation import Operation

_RATES = {
    70: {"f16": 1024},
    75: {"f16": 1024, "s8": 2048, "u8": 2048, "s4": 4096, "u4": 4096},
    80: {
        "f16": 2048,
        "bf16": 2048,
        "tf32": 1024,
        "s8": 4096,
        "u8": 4096,
        "s4": 8192,
        "u4": 8192,
        "u1": 32768,
        "f64": 128,
        "c64": 128,
    },
    90: {"f16": 4096, "bf16": 4096, "tf32": 2048, "e4m3": 8192, "e5m2": 8192, "s8": 8192, "u8": 8192, "f64": 256, "c64": 256},
}
_SCALAR_RATES = {
    70: {"f32": 128, "f64": 64},
    75: {"f32": 128, "f64": 4},
    80: {"f32": 128, "f64": 64},
    90: {"f32": 256, "f64": 128},
}
# (SMs, boost clock in MHz for f64, for other types) of boards whose datasheet states a peak, by the driver's name.
_BOARDS = {"NVIDIA H200": (132, 1980, 1830), "NVIDIA H100 80GB HBM3": (132, 1980, 1830)}


def rate(operation: Operation, target: str) -> int | None:
    """Operations per cycle of one SM of `target` (sm_90a); None if not in a datasheet, or executed by another unit."""
    return dict(rates(operation)).get(capability(target))


def scalar_rate(type_a: str, target: str) -> int | None:
    """The same of an FMA of one thread, two operations, with operands of this type."""
    return _SCALAR_RATES.get(capability(target), {}).get(type_a)


def rates(operation: Operation) -> tuple[tuple[int, int], ...]:
    """(compute capability, rate()) of every architecture with a datasheet rate."""
    if not operation.tensor_core:
        return ()
    return tuple(
        (number, of[operation.type_a] * (2 if operation.sparse else 1))
        for number, of in _RATES.items()
        if operation.type_a in of and operation.runs_on(f"sm_{number}{'a' if operation.kind == 'wgmma' else ''}")
    )


def datasheet_tflops(operation: Operation, target: str, device: str | None) -> float | None:
    """The datasheet peak of `device`, in 1e12 operations per second; None for an unknown board."""
    of_sm, board = rate(operation, target), _BOARDS.get(device or "")
    if of_sm is None or board is None:
        return None
    multiprocessors, clock_f64, clock = board
    return of_sm * multiprocessors * (clock_f64 if operation.type_a in ("f64", "c64") else clock) * 1e-6
