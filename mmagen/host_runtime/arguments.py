"""The argument struct of the C interface, <name>_args, whose layout is the same for all libraries."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any

_MATRICES = tuple(
    (name, kind)
    for letter in "abcd"
    for name, kind in (
        (letter, ctypes.c_uint64),
        (f"ld{letter}", ctypes.c_int64),
        (f"batch_stride_{letter}", ctypes.c_int64),
    )
)

# Members of other types are pointers.
_CTYPES: dict[str, Any] = {"int64_t": ctypes.c_int64, "double": ctypes.c_double}


class Arguments(ctypes.Structure):
    """As NAME.h declares it; pointers are addresses."""

    _fields_ = (
        ("struct_size", ctypes.c_uint64),
        *((extent, ctypes.c_int64) for extent in ("m", "n", "k", "batch")),
        *_MATRICES,
        ("alpha", ctypes.c_double),
        ("beta", ctypes.c_double),
        ("alpha_device", ctypes.c_uint64),
        ("beta_device", ctypes.c_uint64),
        ("workspace", ctypes.c_uint64),
        ("workspace_bytes", ctypes.c_int64),
        *((name, ctypes.c_uint64) for name in ("metadata_a", "scale_a", "scale_b")),
    )


class Info(ctypes.Structure):
    """<name>_info."""

    _fields_ = (
        ("struct_size", ctypes.c_uint64),
        *((name, ctypes.c_int32) for name in ("threads", "registers", "local_bytes", "smem_bytes", "ctas_per_sm")),
    )


class CompressArguments(ctypes.Structure):
    """<name>_compress_args of NAME.h; pointers are addresses."""

    _fields_ = (
        ("struct_size", ctypes.c_uint64),
        *((name, ctypes.c_int64) for name in ("m", "k", "batch")),
        *(
            (member, kind)
            for name in ("dense", "pruned", "values")
            for member, kind in (
                (name, ctypes.c_uint64),
                (f"ld_{name}", ctypes.c_int64),
                (f"batch_stride_{name}", ctypes.c_int64),
            )
        ),
        ("metadata", ctypes.c_uint64),
        ("batch_stride_metadata", ctypes.c_int64),
        ("violation", ctypes.c_uint64),
    )


class CompressedSize(ctypes.Structure):
    """<name>_compressed_size of NAME.h."""

    _fields_ = (
        ("struct_size", ctypes.c_uint64),
        *(
            (name, ctypes.c_int64)
            for name in ("values_columns", "ld_values", "values_bytes", "metadata_words", "metadata_bytes")
        ),
    )


@cache
def struct_of(members: tuple[tuple[str, str], ...]) -> type[Arguments]:
    """The struct of a library with further members: (type as in the header, name)."""
    if not members:
        return Arguments
    fields = tuple((name, _CTYPES.get(kind.strip(), ctypes.c_uint64)) for kind, name in members)
    return type("FurtherArguments", (Arguments,), {"_fields_": fields})


def argument_bytes(values: Mapping[str, int | float], members: tuple[tuple[str, str], ...] = ()) -> bytes:
    """The struct with its size set; members that are not given are 0. members: those that not every library has."""
    struct = struct_of(members)
    return bytes(struct(**{"struct_size": ctypes.sizeof(struct), **values}))


def info_bytes() -> bytes:
    """A struct for NAME_query to fill."""
    return bytes(Info(struct_size=ctypes.sizeof(Info)))
