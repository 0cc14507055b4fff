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

from mmagen.binding.shared_library import Entry
from mmagen.core.cache import cache_root
from mmagen.core.process import capture

# DLDataTypeCode and bits, as in tensors.py.
_TYPES = {"s8": (0, 8), "u8": (1, 8), "s32": (0, 32), "f16": (2, 16), "f32": (2, 32), "tf32": (2, 32), "f64": (2, 64)}
_TYPES |= {"bf16": (4, 16), "e4m3": (10, 8), "e5m2": (12, 8)}
# For each operand, the mode that is the last dimension of its array.
_LAST = {"a": "K", "b": "N", "d": "N"}
_TIMEOUT_S = 60

Caller = Callable[..., Any]


def caller(entry: Entry, device_type: int) -> Caller | None:
    """call(a, b, out, c, alpha, beta, stream) of a kernel, which returns None for what it leaves to kernel.py; None where there is
    no compiled module, and for kernels with further arguments, or a D of other columns than B's."""
    described = entry.description
    plain = not described.get("arguments") and described["d"].get("columns_of_element", 1) == 1
    module = _module() if plain else None
    if module is None:
        return None
    address = {name: ctypes.cast(function, ctypes.c_void_p).value for name, function in entry.functions.items()}
    about = entry.description
    types = {name: (*_TYPES[about[name]["type"]], about[name]["contiguous"] == _LAST[name]) for name in "abd"}
    workspace = address["workspace_bytes"] if about.get("workspace") else 0
    found: Caller = module.Caller(
        address["run"], workspace, types["a"], types["b"], types["d"], device_type, _exchange_of, _devices
    ).call
    return found


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


def _devices() -> Any:
    """Called by the first call with arrays, since torch may be imported after the kernel was compiled. Where there are several
    devices, torch's function that says which is the current one; None where there is no question."""
    torch = sys.modules.get("torch")
    if torch is None or torch.cuda.device_count() < 2:
        return None
    # The public function looks each time whether CUDA is initialized; arrays in GPU memory show that it is.
    return getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)


@cache
def _module() -> Any:
    """The compiled module, or None."""
    source = Path(__file__).with_name("fast.c")
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    include = sysconfig.get_paths()["include"]
    if compiler is None or not (Path(include) / "Python.h").is_file():
        return None
    facts = (source.read_bytes(), sys.version.encode(), compiler.encode(), (sysconfig.get_config_var("SOABI") or "").encode())
    folder = cache_root() / "binding" / hashlib.sha256(b"\0".join(facts)).hexdigest()[:32]
    library = folder / "mmagen_fast.so"
    if not library.is_file() and not _compile([compiler, "-O2", "-shared", "-fPIC", f"-I{include}", str(source)], library):
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
