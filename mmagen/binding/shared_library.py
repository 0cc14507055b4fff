"""A shared library with kernels made by mmagen: found, loaded, and asked what it computes."""

from __future__ import annotations

import ctypes
import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmagen.core.errors import UsageError
from mmagen.host_runtime.arguments import Arguments, CompressArguments, CompressedSize
from mmagen.plan.facts import INTERFACE_VERSION

_ELF = b"\x7fELF"
# Of the 64-bit format: class, byte order, where the table of segments begins, their size and number; kind, offset and length.
_ELF_HEADER, _SEGMENT = struct.Struct("<4xBB26xQ14xHH6x"), struct.Struct("<I4xQ16xQ16x")
_LOADED = 1  # PT_LOAD
_MACHINE = slice(18, 20)  # where the format has the processor
_FOREIGN = "was not made by mmagen, or by a version before 0.1: it exports no <name>_description"
_DESCRIBES = re.compile(rb"(?<![\w.])([A-Za-z]\w*)_description\0")
_SHOWN = 3  # paths in a message
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "run": (ctypes.c_int, (ctypes.POINTER(Arguments), ctypes.c_void_p)),
    "can_run": (ctypes.c_int, (ctypes.POINTER(Arguments),)),
    "workspace_bytes": (ctypes.c_int, (ctypes.POINTER(Arguments), ctypes.POINTER(ctypes.c_int64))),
    "config_name": (ctypes.c_char_p, (ctypes.POINTER(Arguments),)),
    "error_text": (ctypes.c_char_p, ()),
    "cuda_error": (ctypes.c_int, ()),
    # of sparse kernels
    "compressed_size_of": (ctypes.c_int, (ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(CompressedSize))),
}
for _function in ("prune", "compress", "check_metadata"):
    _FUNCTIONS[_function] = (ctypes.c_int, (ctypes.POINTER(CompressArguments), ctypes.c_void_p))
    _FUNCTIONS[f"{_function}_host"] = (ctypes.c_int, (ctypes.POINTER(CompressArguments),))


@dataclass(frozen=True)
class Entry:
    """One kernel (or library of kernels) behind its C functions. description: see <name>_description in its header."""

    name: str
    path: Path
    description: Mapping[str, Any]
    functions: Mapping[str, Any] = field(repr=False)


def entries_in(path: Path) -> dict[str, Entry]:
    """The kernels of a shared library, or of a folder with exactly one, by name. Raises UsageError that says what it is instead."""
    library = _library_in(path) if path.is_dir() else path
    if library.exists() and not library.is_file():  # a device or a pipe may never end
        raise UsageError(f"{library} is no file; pass lib<name>.so, or the folder that it was built in")
    try:
        with library.open("rb") as stream:
            data = stream.read(len(_ELF))
            data += stream.read() if data == _ELF else b""
    except OSError as error:
        raise UsageError(f"{library} cannot be read: {error.strerror}") from None
    if not data.startswith(_ELF):
        raise UsageError(f"{library} is not a shared library; pass lib<name>.so, or the folder that it was built in")
    if _is_cut_off(data):
        raise UsageError(f"{library} is cut off: it ends before what is to be loaded; build or copy it again")
    names = dict.fromkeys(match.decode() for match in _DESCRIBES.findall(data))
    own = _data_of(Path("/proc/self/exe"))[_MACHINE]
    if own and data[_MACHINE] != own:
        raise UsageError(f"{library} is for another processor than this one; build it here")
    if not names:  # what it does when it is loaded stays undone
        raise UsageError(f"{library} {_FOREIGN}")
    try:
        loaded = ctypes.CDLL(str(library.absolute()))  # without a slash it would be searched for
    except OSError as error:
        raise UsageError(f"{library} does not load: {error}") from None
    found = {name: _entry(loaded, library, name) for name in names if hasattr(loaded, f"{name}_description")}
    if not found:
        raise UsageError(f"{library} {_FOREIGN}")
    return found


def _is_cut_off(data: bytes) -> bool:
    """Does the file end before a segment that the loader maps? It does not look, and the process would be killed by a signal."""
    if len(data) < _ELF_HEADER.size:
        return True
    is_64_bit, little, first, size, count = _ELF_HEADER.unpack_from(data)
    if (is_64_bit, little) != (2, 1):  # which the loader refuses
        return False
    for place in range(first, first + size * count, size or 1):
        if place + _SEGMENT.size > len(data):
            return True
        kind, offset, length = _SEGMENT.unpack_from(data, place)
        if kind == _LOADED and offset + length > len(data):
            return True
    return False


def _library_in(folder: Path) -> Path:
    try:
        found = sorted({path.resolve() for path in folder.rglob("lib*.so*") if ".so" in path.suffixes and path.is_file()})
    except OSError as error:  # a folder that is removed meanwhile, or cannot be read
        raise UsageError(f"{folder} cannot be searched: {error.filename}: {error.strerror}") from None
    if not found:
        raise UsageError(f"{folder} has no shared library; build the project with -DBUILD_SHARED_LIBS=ON")
    if len(found) > 1:
        found = [
            path for path in found if _DESCRIBES.search(_data_of(path))
        ] or found  # libraries of others beside it do not count
    if len(found) > 1:
        more = f", or of {len(found) - _SHOWN} others" if len(found) > _SHOWN else ""
        raise UsageError(f"{folder} has several shared libraries; pass one of {', '.join(map(str, found[:_SHOWN]))}{more}")
    return found[0]


def _data_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _entry(loaded: ctypes.CDLL, path: Path, name: str) -> Entry:
    describe = getattr(loaded, f"{name}_description")
    describe.restype = ctypes.c_char_p
    try:
        about = json.loads(describe())
        version = int(about["interface"])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: {name}_description() is not mmagen's: {error!r}") from None
    if version != INTERFACE_VERSION:
        raise UsageError(
            f"{path} has version {version} of the C interface, this mmagen calls version {INTERFACE_VERSION}; rebuild it"
        )
    functions = {}
    for function, (result, parameters) in _FUNCTIONS.items():
        found = getattr(loaded, f"{name}_{function}", None)
        if found is None:
            continue  # kernel: ownership has no run()
        found.restype, found.argtypes = result, parameters
        functions[function] = found
    return Entry(name, path, about, functions)
