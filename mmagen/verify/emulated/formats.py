"""Element types as numpy arrays: float64 values to storage and back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mmagen.mma.formats import PARTS

_STORAGE: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex128),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "s16": np.dtype(np.int16),
    "s32": np.dtype(np.int32),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
_SATURATES = {"e4m3": 448.0, "e5m2": 57344.0}
# Unit roundoff of the formats that sums are kept in.
ROUNDOFF = {"f16": 2.0**-11, "f32": 2.0**-24, "f64": 2.0**-53}
# Up to here every integer is exact.
EXACT_INTEGERS = {
    "f16": 2.0**11,
    "bf16": 2.0**8,
    "tf32": 2.0**11,
    "f32": 2.0**24,
    "f64": 2.0**53,
    "c64": 2.0**53,
    "e4m3": 2.0**4,
    "e5m2": 2.0**3,
}
EXACT_INTEGERS |= {"s8": 127.0, "u8": 255.0, "s16": 32767.0, "s32": 2.0**31 - 1}


def storage(word: str) -> np.dtype[Any]:
    """The numpy type that holds one element of the type called `word`."""
    return _STORAGE[word]


def is_integer(word: str) -> bool:
    """Is the type called `word` an integer type?"""
    return word[0] in "su"


def encode(values: npt.NDArray[Any], word: str) -> npt.NDArray[Any]:
    """float64 -> storage, to nearest even; integers and 8-bit floats saturate; tf32 drops what its mantissa lacks. Of a complex
    type real and imaginary parts are neighbours along the last mode, which is twice as long as that of the elements."""
    if word in PARTS:
        return np.ascontiguousarray(values).view(_STORAGE[word])
    if is_integer(word):
        info = np.iinfo(_STORAGE[word])
        clipped: npt.NDArray[Any] = np.clip(np.rint(values), info.min, info.max).astype(_STORAGE[word])
        return clipped
    if word in _SATURATES:
        values = np.clip(values, -_SATURATES[word], _SATURATES[word])
    with np.errstate(over="ignore"):
        stored = values.astype(_STORAGE[word])
    if word == "tf32":
        stored = (stored.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return stored


def as_stored(value: float, word: str) -> float:
    """A number as its type holds it."""
    return float(decode(encode(np.array(float(value)), word)))


def decode(stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Storage -> float64, exactly; complex elements as `encode` takes them."""
    if stored.dtype.kind == "c":
        return np.ascontiguousarray(stored).view(np.float64)
    return stored.astype(np.float64)
