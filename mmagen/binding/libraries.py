"""What is particular to an array library: its current stream, its memory, and how it spells element types."""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from mmagen.binding.driver import current
from mmagen.binding.errors import ArgumentError, DeviceError
from mmagen.binding.tensors import CPU, CUDA, Tensor, Transposed, tensor

_TORCH = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "s8": "int8", "u8": "uint8", "s32": "int32"}
_TORCH |= {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "c64": "complex128"}


class ArrayLibrary(Protocol):
    """Of the arrays of a call."""

    def view(self, argument: str, value: Any, stream: int) -> Tensor:
        """An array of this library, or of another one, as a Tensor. Raises ArgumentError."""

    def stream(self, device: int) -> int:
        """The caller's current cudaStream_t on a device."""

    def empty(self, like: Any, shape: tuple[int, ...], type: str) -> Any:
        """A new array in row-major order on the device of `like`. Raises ArgumentError where the library has no such type."""

    def room(self, like: Any, bytes: int, device: int, stream: int) -> Any:
        """`bytes` of memory on the device of `like`, which is the current one: an object that owns it, and that view() takes. When
        it is freed, the memory serves nothing else before what was enqueued on `stream` has run."""

    def transposed(self, array: Any) -> Any:
        """The array with its last two dimensions exchanged, without a copy."""

    def on(self, device: int) -> AbstractContextManager[Any]:
        """Makes a device the current one."""

    @property
    def waits(self) -> bool:
        """Whether a call without a stream returns when the kernel has ended: what the library does next would not wait for it. The
        same holds of memory that it takes back."""

    @property
    def keeps_for_graphs(self) -> bool:
        """Whether memory that is freed while a stream is captured stays that of the graph."""


def library_of(value: Any) -> ArrayLibrary:
    """The library of an array."""
    if isinstance(value, Transposed):
        return library_of(value.array)
    module = type(value).__module__.partition(".")[0]
    if module == "torch" or any(base.__module__ == "torch" for base in type(value).__mro__):
        return _TORCH_LIBRARY
    if module in ("jax", "jaxlib"):
        return _JAX_LIBRARY
    return _CUPY_LIBRARY if module == "cupy" else _OTHER_LIBRARY


def transposed(array: Any) -> Any:
    """An array with its last two dimensions exchanged, without a copy, for a call of a kernel: what `.mT` is in torch, CuPy and
    numpy. JAX's own transposes are copies: of its arrays this is an object that only kernels take."""
    try:
        return library_of(array).transposed(array)
    except (AttributeError, ValueError, RuntimeError):  # each library has an error of its own
        raise ArgumentError(
            "array", f"{_name_of(array)} cannot be transposed; pass an array of two or more dimensions"
        ) from None


def wait_for(stream: int) -> None:
    """Returns when what was enqueued on a stream has ended. Raises DeviceError."""
    error = ctypes.CDLL("libcuda.so.1").cuStreamSynchronize(ctypes.c_void_p(stream))
    if error:
        raise DeviceError(f"the kernel failed: CUDA reports error {error}", error)


def stream_handle(stream: Any) -> int:
    """The cudaStream_t of an int, or of a stream object of torch, CuPy or the __cuda_stream__ protocol."""
    handle = stream
    if hasattr(stream, "__cuda_stream__"):
        handle = stream.__cuda_stream__()[1]
    elif attribute := next((name for name in ("cuda_stream", "ptr") if hasattr(stream, name)), None):
        handle = getattr(stream, attribute)
    if not isinstance(handle, int) or isinstance(handle, bool):
        raise ArgumentError(
            "stream", f"{type(stream).__qualname__} is no CUDA stream; pass a cudaStream_t as an int, or a stream object"
        )
    if not 0 <= handle < 1 << 64:  # the driver would take what is left of it for an address
        raise ArgumentError("stream", f"{handle} is no cudaStream_t; pass the address of one, or 0 for the default stream")
    return handle


def check_stream(stream: Any, first: Tensor) -> None:
    """Raises ArgumentError for a stream object that says it is of another device; what an int is, the library finds out."""
    device = getattr(getattr(stream, "device", None), "index", getattr(stream, "device_id", None))
    if isinstance(device, int) and device not in (first.device, -1):  # -1: of CuPy, whatever device is current
        raise ArgumentError("stream", f"it is of device {device}, a on device {first.device}; pass a stream of that device")


class _Torch:
    """Read through its own attributes: a hundred times faster than through a DLPack capsule."""

    waits = False
    keeps_for_graphs = True

    def __init__(self) -> None:
        self._words: dict[Any, tuple[str, int]] = {}

    def view(self, argument: str, value: Any, stream: int) -> Tensor:
        if library_of(value) is not self:
            return tensor(argument, value, stream)
        if value.requires_grad and _grad_is_on():
            raise ArgumentError(argument, "it requires a gradient, which mmagen does not compute; pass it .detach()ed")
        if value.layout is not _torch().strided or value.is_conj() or value.is_neg():
            raise ArgumentError(argument, "it is no plain strided tensor; copy it into one first")
        word, size = self._words.get(value.dtype) or self._word(value.dtype)
        device = value.device
        kind = CUDA if device.type == "cuda" else CPU if device.type == "cpu" else -1
        shape, strides = tuple(value.shape), value.stride()
        return Tensor(value.data_ptr(), shape, strides, word, size, kind, device.index or 0, False, value)

    def _word(self, dtype: Any) -> tuple[str, int]:
        torch = _torch()
        for word, name in _TORCH.items():
            if getattr(torch, name, None) == dtype:
                found = self._words[dtype] = (word, int(dtype.itemsize))
                return found
        return str(dtype), int(dtype.itemsize)

    def stream(self, device: int) -> int:
        return int(_torch()._C._cuda_getCurrentRawStream(device))

    def empty(self, like: Any, shape: tuple[int, ...], type: str) -> Any:
        torch = _torch()
        return torch.empty(shape, dtype=getattr(torch, _TORCH[type]), device=like.device)

    def room(self, like: Any, bytes: int, device: int, stream: int) -> Any:
        torch = _torch()
        if like.device.type != "cuda" or self.stream(device) == stream:
            return self.empty(like, (bytes,), "u8")
        with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=device)):  # the allocator orders memory by stream
            return self.empty(like, (bytes,), "u8")

    def transposed(self, array: Any) -> Any:
        return array.mT

    def on(self, device: int) -> AbstractContextManager[Any]:
        torch = _torch()
        return nullcontext() if torch.cuda.current_device() == device else torch.cuda.device(device)


def _torch() -> Any:
    import torch

    return torch


def _grad_is_on() -> bool:
    return bool(_torch().is_grad_enabled())


class _Cupy:
    waits = False
    keeps_for_graphs = False

    def view(self, argument: str, value: Any, stream: int) -> Tensor:
        return tensor(argument, value, stream)

    def stream(self, device: int) -> int:
        import cupy

        return int(cupy.cuda.get_current_stream(device).ptr)

    def empty(self, like: Any, shape: tuple[int, ...], type: str) -> Any:
        import cupy

        return cupy.empty(shape, _numpy_type(type))

    def room(self, like: Any, bytes: int, device: int, stream: int) -> Any:
        import cupy

        own = nullcontext() if self.stream(device) == stream else cupy.cuda.ExternalStream(stream)
        with own:  # its memory pool orders memory by stream
            return cupy.empty((bytes,), "u1")

    def transposed(self, array: Any) -> Any:
        return array.swapaxes(-1, -2)

    def on(self, device: int) -> AbstractContextManager[Any]:
        import cupy

        context: AbstractContextManager[Any] = cupy.cuda.Device(device)
        return context


class _Other:
    """Any library with the array API standard. It has no current stream to ask for: calls go to the stream that the caller passes,
    or to CUDA's default stream and wait for it."""

    waits = True
    keeps_for_graphs = False

    def view(self, argument: str, value: Any, stream: int) -> Tensor:
        return tensor(argument, value, stream)

    def stream(self, device: int) -> int:
        return 0

    def empty(self, like: Any, shape: tuple[int, ...], type: str) -> Any:
        namespace = getattr(like, "__array_namespace__", None)
        if namespace is None:
            raise ArgumentError("out", f"{_name_of(like)} cannot allocate arrays; pass out")
        xp = namespace()
        return xp.empty(shape, dtype=_numpy_type(type), device=like.device)

    def room(self, like: Any, bytes: int, device: int, stream: int) -> Any:
        return self.empty(like, (bytes,), "u8")

    def transposed(self, array: Any) -> Any:
        return array.mT

    def on(self, device: int) -> AbstractContextManager[Any]:
        return current(device)


class _Jax(_Other):
    """Its arrays are in row-major order, and their transposes copies."""

    def empty(self, like: Any, shape: tuple[int, ...], type: str) -> Any:
        return super().empty(like.array if isinstance(like, Transposed) else like, shape, type)

    def transposed(self, array: Any) -> Any:
        return array.array if isinstance(array, Transposed) else Transposed(array)


def _name_of(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _numpy_type(type: str) -> Any:
    from mmagen.verify.emulated.formats import storage

    return storage(type)


_TORCH_LIBRARY: ArrayLibrary = _Torch()
_CUPY_LIBRARY: ArrayLibrary = _Cupy()
_OTHER_LIBRARY: ArrayLibrary = _Other()
_JAX_LIBRARY: ArrayLibrary = _Jax()
