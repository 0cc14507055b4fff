"""Tensor maps as cuTensorMapEncodeTiled makes them (CUDA driver API, "Tensor Map Object Management")."""

from __future__ import annotations

from collections.abc import Sequence

from mmagen.emulate.call.device import Buffer
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.memory.tensor_map import DATA_TYPES, TensorMap

_SWIZZLES = {"NONE": 16, "32B": 32, "64B": 64, "128B": 128}
_PROMOTIONS = ("NONE", "L2_64B", "L2_128B", "L2_256B")


def tensor_map(
    data_type: str,
    address: int | Buffer,
    global_dim: Sequence[int],
    global_strides: Sequence[int],
    box_dim: Sequence[int],
    element_strides: Sequence[int] | None = None,
    interleave: str = "NONE",
    swizzle: str = "NONE",
    l2_promotion: str = "NONE",
    oob_fill: str = "NONE",
) -> TensorMap:
    """What cuTensorMapEncodeTiled makes of the same arguments, innermost mode first.

    data_type: the end of CU_TENSOR_MAP_DATA_TYPE_..., e.g. "BFLOAT16"; the number of modes is that of global_dim.
    address: a Buffer, or a device address. global_dim, box_dim: in elements. global_strides: in bytes, of all modes but the
    innermost. element_strides: 1 in every mode (the default); others are not emulated. interleave: "NONE" alone.
    swizzle: "NONE", "32B", "64B" or "128B". l2_promotion: a hint. oob_fill: "NONE" (zeros) alone. TFLOAT32 copies the
    bits; whether a GPU rounds them is not emulated.

    Raises EmulationError where the driver would refuse the map, and for what is not emulated.
    """
    if data_type not in DATA_TYPES:
        raise EmulationError(f"data type {data_type}; emulated are {', '.join(DATA_TYPES)}")
    if swizzle not in _SWIZZLES:
        raise EmulationError(f"swizzle {swizzle}; emulated are {', '.join(_SWIZZLES)}")
    if l2_promotion not in _PROMOTIONS:
        raise EmulationError(f"L2 promotion {l2_promotion}; there are {', '.join(_PROMOTIONS)}")
    if interleave != "NONE" or oob_fill != "NONE":
        raise EmulationError(f"interleave {interleave} and out-of-bounds fill {oob_fill}; emulated is NONE of both")
    steps = tuple(element_strides or (1,) * len(global_dim))
    if len(steps) != len(global_dim) or any(step != 1 for step in steps):
        raise EmulationError(f"element strides {steps}; emulated is 1 in each of the {len(global_dim)} modes")
    place = address.address if isinstance(address, Buffer) else address
    kind = DATA_TYPES[data_type]
    element = int("".join(c for c in kind if c.isdigit())) // 8
    extents, strides, box = tuple(global_dim), tuple(global_strides), tuple(box_dim)
    made = TensorMap(place, element, extents, strides, box, _SWIZZLES[swizzle], kind)
    if fault := made.fault():
        raise EmulationError(f"cuTensorMapEncodeTiled would fail: {fault}")
    return made
