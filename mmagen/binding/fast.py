"""Compiles fast.c for this Python, once, and makes callers of it. Without a C compiler or Python's headers there is none, and
every call goes through kernel.py."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from mmagen.binding.driver import driver
from mmagen.binding.rows import Sizes, sizes_of
from mmagen.binding.shared_library import Entry
from mmagen.binding.tensors import CUDA
from mmagen.core.cache import cache_root
from mmagen.core.process import capture
from mmagen.plan.arguments import Arguments, Extent, Tensor

# DLDataTypeCode and bits, as in tensors.py.
_TYPES = {"s8": (0, 8), "u8": (1, 8), "s32": (0, 32), "f16": (2, 16), "f32": (2, 32), "tf32": (2, 32), "f64": (2, 64)}
_TYPES |= {"bf16": (4, 16), "e4m3": (10, 8), "e5m2": (12, 8), "c64": (5, 128)}
# For each operand, the mode that is the last dimension of its array.
_LAST = {"a": "K", "b": "N", "d": "N"}
_EXTENTS = ("1", "m", "n", "k", "batch")
_SOURCES = ("fast.c", "fast_arrays.h", "fast_caller.h", "fast_lists.h", "fast_operands.h", "fast_workspace.h", "dlpack.h")
_TIMEOUT_S = 60

Caller = Callable[..., Any]


def caller(entry: Entry, device_type: int, further: Arguments, struct: type[ctypes.Structure]) -> Caller | None:
    """call(a, b, out, c, alpha, beta, stream, further, shape) of a kernel, which returns None for what it leaves to kernel.py.
    further: the further arguments by name; shape: None, or of a compressed A its shape before. None where there is no compiled
    module, and for types that it does not know. a, b, out and c are lists where groups have matrices of their own.

    further, struct: the further arguments of the kernel, and the struct of a call."""
    about = entry.description
    sizes = sizes_of(further)
    lists = not sizes and any(one.name == "group_status" for one in further.all)
    offsets = _lists(further, struct) if lists else ()
    if lists:  # what follows from the lists is no argument
        further = Arguments(tuple(one for one in further.tensors if one.of_groups or one.required))
    known = all(about[name]["type"] in _TYPES for name in "abd") and about["scalar"] in _TYPES
    known &= all(one.element.word in _TYPES for one in further.tensors) and not further.numbers
    module = _module() if known else None
    if module is None or len(further.all) > module.MOST_FURTHER or ctypes.sizeof(struct) > module.MOST_BYTES:
        return None
    address = {name: _address(entry, name) for name in ("run", *(("workspace_bytes",) if about.get("workspace") else ()))}
    found: Caller = module.Caller(
        run=address["run"],
        workspace_bytes=address.get("workspace_bytes", 0),
        **{name: (*_TYPES[about[name]["type"]], about[name]["contiguous"] == _LAST[name]) for name in "abd"},
        scalar=_TYPES[about["scalar"]],
        packed_a=int(about["a"].get("packed", 1)),
        packed_b=int(about["b"].get("packed", 1)),
        columns_of_element=int(about["d"].get("columns_of_element", 1)),
        struct_size=ctypes.sizeof(struct),
        further=tuple(_described(one, struct) for one in further.tensors),
        groups=_groups(sizes, further),
        lists=offsets,
        device_type=device_type,
        exchange_of=_exchange_of,
        functions=_functions if device_type == CUDA else _no_functions,
    ).call
    return found


def _address(entry: Entry, function: str) -> int:
    return ctypes.cast(entry.functions[function], ctypes.c_void_p).value or 0


def _groups(sizes: Sizes | None, further: Arguments) -> tuple[object, ...]:
    """(stacked, how many arguments have sizes, their places in `further`, their elements beside one for each group)"""
    names = sizes.names if sizes else ()
    places = [[one.name for one in further.tensors].index(name) for name in names]
    beside = [sizes.beside(name) for name in names] if sizes else []
    none = [0] * (2 - len(names))
    return bool(sizes and sizes.stacked), len(names), (*places, *none), (*beside, *none)


def _lists(further: Arguments, struct: type[ctypes.Structure]) -> tuple[tuple[int, ...], ...]:
    """Where the struct of a call has the pointers to arrays of pointers, and to arrays of numbers; in the order of groups.py."""
    of_groups = [one for one in further.tensors if one.of_groups]
    pointers = ("a", "b", "c", "d", *(one.name for one in of_groups))
    numbers = ("m", "n", "k", "lda", "ldb", "ldc", "ldd", *(f"ld_{one.name}" for one in of_groups if one.pitched))
    return (
        tuple(getattr(struct, name).offset for name in pointers),
        tuple(getattr(struct, f"group_{name}").offset for name in numbers),
    )


def _described(one: Tensor, struct: type[ctypes.Structure]) -> tuple[object, ...]:
    """A further argument as fast.c takes it."""
    extents = [(_EXTENTS.index(extent.of), extent.step, extent.times, extent.plus) for extent in (one.rows, one.columns)]
    places = [
        getattr(struct, name).offset if hasattr(struct, name) else -1
        for name in (one.name, f"ld_{one.name}", f"batch_stride_{one.name}")
    ]
    kind = (*_TYPES[one.element.word], one.columns_contiguous)
    facts = (one.rows == Extent(), one.pitched, one.batched, one.written, one.required, one.of_groups)
    return one.name, kind, *extents, facts, tuple(places)


def _exchange_of(kind: type) -> int:
    """The address of the DLPack C exchange API of an array type, 0 for none. Of torch's types those that override nothing."""
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    torch = sys.modules.get("torch")
    if capsule is None or torch is None or not issubclass(kind, torch.Tensor):
        return 0
    if kind is not torch.Tensor and kind is not torch.nn.Parameter:
        return 0
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.argtypes, get.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    return int(get(capsule, b"dlpack_exchange_api") or 0)


def _no_functions() -> tuple[None, None, None, int, int]:
    return None, None, None, 0, 0


def _functions() -> tuple[Any, Any, Any, int, int]:
    """(current device, take, give back, copy, is capturing): functions of torch, and addresses of two of the driver, 0 without one:
    cuMemcpyHtoDAsync and cuStreamIsCapturing. Called by the first call with arrays, since torch may be imported
    after the kernel was compiled.

    current device: None on a machine with one. take(bytes, stream) and give back(address) are those of
    torch.cuda.caching_allocator_alloc, which take the stream that memory is for; None in a torch without them."""
    import torch

    # The public functions look each time whether CUDA is initialized; arrays in GPU memory show that it is.
    private = torch._C
    current = None if torch.cuda.device_count() < 2 else getattr(private, "_cuda_getDevice", torch.cuda.current_device)
    take = getattr(private, "_cuda_cudaCachingAllocator_raw_alloc", None)
    give_back = getattr(private, "_cuda_cudaCachingAllocator_raw_delete", None)
    cuda = driver()
    names = ("cuMemcpyHtoDAsync_v2", "cuStreamIsCapturing")
    copy, is_capturing = (ctypes.cast(getattr(cuda, name), ctypes.c_void_p).value or 0 if cuda else 0 for name in names)
    return current, *((take, give_back) if take and give_back else (None, None)), copy, is_capturing


@cache
def _module() -> Any:
    """The compiled module, or None."""
    sources = [Path(__file__).with_name(name) for name in _SOURCES]
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    include = sysconfig.get_paths()["include"]
    if compiler is None or not (Path(include) / "Python.h").is_file():
        return None
    words = (sys.version, compiler, sysconfig.get_config_var("SOABI") or "")
    facts = [*(source.read_bytes() for source in sources), *(word.encode() for word in words)]
    folder = cache_root() / "binding" / hashlib.sha256(b"\0".join(facts)).hexdigest()[:32]
    library = folder / "mmagen_fast.so"
    command = [compiler, "-O2", "-shared", "-fPIC", f"-I{include}", str(sources[0])]
    if not library.is_file() and not _compile(command, library):
        return None
    loader = importlib.machinery.ExtensionFileLoader("mmagen_fast", str(library))
    spec = importlib.util.spec_from_file_location("mmagen_fast", library, loader=loader)
    assert spec
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError:
        return None
    return module


def _compile(command: list[str], library: Path) -> bool:
    """Compile to `library`; another process may do the same at the same time."""
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="mmagen-fast-", dir=library.parent) as scratch:
            made = Path(scratch) / library.name
            done = capture([*command, "-o", str(made)], timeout_s=_TIMEOUT_S, env=dict(os.environ))
            if done.exit_code != 0 or not made.is_file():
                return False
            os.replace(made, library)
    except OSError:
        return False
    return True
