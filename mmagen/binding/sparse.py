"""A sparse matrix as sparse kernels take it: compressed by the library's own functions, on the device or on the host."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mmagen.binding.errors import ArgumentError, DeviceError
from mmagen.binding.libraries import ArrayLibrary, library_of, stream_handle
from mmagen.binding.matrices import Matrices, matrices, storage
from mmagen.binding.shared_library import Entry
from mmagen.binding.tensors import CPU, CUDA, CUDA_MANAGED, Tensor
from mmagen.host_runtime.arguments import CompressArguments, CompressedSize

_MOST_ABOUT_DEVICE = 15
_NOT_SPARSE, _ILLEGAL_METADATA = 150, 151
_BLOCK_ROWS = 64  # of A, that a row of the array of metadata describes
_NONE = -1


@dataclass(frozen=True)
class Compressed:
    """A sparse matrix, or a batch of them, in the form that the tensor core multiplies. Made by `kernel.compress(a)`, and of arrays
    from elsewhere by `kernel.compressed(values, metadata, k)`, which checks them.

    values: what is kept of each row, ([batch,] m, columns), each row up to the next 16 bytes. metadata: which elements these were,
    int32 ([batch,] ceil(m / 64), words), docs/sparse.md has their order. shape: of the sparse matrix, ([batch,] m, k). type: of its
    elements, by which the format is decided: what one library has compressed serves all kernels of that type.
    """

    values: Any
    metadata: Any
    shape: tuple[int, ...]
    type: str

    @property
    def nbytes(self) -> int:
        """Bytes of the values and of the metadata."""
        return int(self.values.nbytes) + int(self.metadata.nbytes)

    @property
    def on_host(self) -> bool:
        """Are its arrays those of numpy?"""
        return type(self.values).__module__ == "numpy"

    def as_a(self, values: Tensor) -> Matrices:
        """The matrices of a call, whose columns are those before compression. values: seen as a Tensor."""
        m, k = self.shape[-2:]
        batch = self.shape[0] if len(self.shape) == 3 else None
        ld = values.strides[-2] if m > 1 else max(values.shape[-1], 1)
        return Matrices(m, k, batch, ld, values.strides[0] if (batch or 0) > 1 else 0)


class Compressor:
    """The functions of a sparse library that prune, compress and check. entry: its kernel."""

    def __init__(self, entry: Entry):
        about: Mapping[str, Any] = entry.description["a"]
        self._entry = entry
        self.type = str(about["type"])
        self._dense = str(about["dense"])  # the contiguous mode of what is compressed
        self.group, self.kept = int(about["group"]), int(about["kept"])

    def compress(self, a: Any, prune: bool, stream: Any) -> Compressed:
        """See Kernel.compress."""
        place = _Place(a, stream)
        dense, found = self._dense_matrices(place, a)
        size = self._size(found.rows, found.columns)
        head = () if found.batch is None else (found.batch,)
        rows = -(-found.rows // _BLOCK_ROWS)
        values = place.library.empty(a, (*head, found.rows, size.ld_values), storage(self.type))
        metadata = place.library.empty(a, (*head, rows, self._size(1, found.columns).metadata_words), "s32")
        made = Compressed(values, metadata, (*head, found.rows, found.columns), self.type)
        if 0 in made.shape:
            return made
        members = {
            **_members("dense", dense, found),
            "values": place.view("values", values).address,
            "ld_values": size.ld_values,
            "batch_stride_values": found.rows * size.ld_values,
            "metadata": place.view("metadata", metadata).address,
            "batch_stride_metadata": size.metadata_words,
        }
        at = self._call("compress", place, a, found, members, counts=not prune)
        if at != _NONE:
            raise ArgumentError("a", self._not_sparse(at, made.shape))
        return made

    def prune(self, a: Any, stream: Any) -> Any:
        """See Kernel.prune."""
        place = _Place(a, stream)
        dense, found = self._dense_matrices(place, a)
        rows, columns = (found.rows, found.columns) if self._dense == "K" else (found.columns, found.rows)
        head = () if found.batch is None else (found.batch,)
        out = place.library.empty(a, (*head, rows, columns), storage(self.type))
        if 0 not in (*head, rows, columns):
            of_out = {"pruned": place.view("out", out).address, "ld_pruned": columns, "batch_stride_pruned": rows * columns}
            self._call("prune", place, a, found, {**_members("dense", dense, found), **of_out}, counts=False)
        return out if self._dense == "K" else place.library.transposed(out)

    def compressed(self, values: Any, metadata: Any, k: int, stream: Any) -> Compressed:
        """See Kernel.compressed."""
        place = _Place(values, stream)
        of_values, of_metadata = place.view("values", values), place.view("metadata", metadata)
        if of_values.type != storage(self.type):
            raise ArgumentError("values", f"its elements are {of_values.type}; this kernel takes {storage(self.type)}")
        if of_metadata.type != "s32":
            raise ArgumentError("metadata", f"its elements are {of_metadata.type}; metadata are s32, 32-bit words")
        if len(of_values.shape) not in (2, 3) or not isinstance(k, int) or k < 0:
            raise ArgumentError("values", f"shape {of_values.shape} and k {k!r}: pass ([batch,] m, columns) and columns of A")
        *head, m, _ = of_values.shape
        size = self._size(m, k)
        rows = -(-m // _BLOCK_ROWS)
        shapes = {"values": (*head, m, size.ld_values), "metadata": (*head, rows, self._size(1, k).metadata_words)}
        for name, given in (("values", of_values), ("metadata", of_metadata)):
            if given.shape != shapes[name]:
                raise ArgumentError(name, f"shape {given.shape}; of k = {k} it is {shapes[name]}")
            if 0 not in given.shape and given.strides != _packed(given.shape):
                raise ArgumentError(name, f"shape {given.shape} with strides {given.strides}: make it contiguous first")
        made = Compressed(values, metadata, (*head, m, k), self.type)
        if 0 in made.shape:
            return made
        found = Matrices(m, k, head[0] if head else None, size.ld_values, m * size.ld_values)
        members = {"metadata": of_metadata.address, "batch_stride_metadata": size.metadata_words}
        at = self._call("check_metadata", place, values, found, members, counts=True)
        if at != _NONE:
            raise ArgumentError(
                "metadata", f"word {at} names no legal places: pass what a library's compress() has written, of the same type"
            )
        return made

    def _dense_matrices(self, place: _Place, a: Any) -> tuple[Tensor, Matrices]:
        given = place.view("a", a)
        return given, matrices("a", given, modes="MK", contiguous=self._dense, type=self.type)

    def _size(self, m: int, k: int) -> CompressedSize:
        size = CompressedSize(struct_size=ctypes.sizeof(CompressedSize))
        self._check(self._entry.functions["compressed_size_of"](m, k, ctypes.byref(size)))
        return size

    def _call(
        self, function: str, place: _Place, like: Any, found: Matrices, members: Mapping[str, int], *, counts: bool
    ) -> int:
        """Calls a function for the device, or for the host; the violation that it reports, or -1."""
        arguments = CompressArguments(
            struct_size=ctypes.sizeof(CompressArguments),
            m=found.rows,
            k=found.columns,
            batch=1 if found.batch is None else found.batch,
            **members,
        )
        if place.on_host:
            violation = ctypes.c_int64(_NONE)
            arguments.violation = ctypes.addressof(violation) if counts else 0
            status = self._entry.functions[f"{function}_host"](arguments)
            if status not in (_NOT_SPARSE, _ILLEGAL_METADATA):
                self._check(status)
            return violation.value if counts else _NONE
        with place.library.on(place.device):
            room = place.library.empty(like, (8,), "u8") if counts else None
            arguments.violation = place.view("violation", room).address if counts else 0
            self._check(self._entry.functions[function](arguments, place.stream))
            return _read_back(arguments.violation, place.stream) if counts else _NONE

    def _not_sparse(self, at: int, shape: tuple[int, ...]) -> str:
        *_, m, k = shape
        row, column = at // k % m, at % k
        where = f"matrix {at // k // m}, row {row}" if len(shape) == 3 else f"row {row}"
        last = min(column + self.group, k) - 1
        return (
            f"{where}, columns {column} to {last}: more than {self.kept} of them {'is' if self.kept == 1 else 'are'} not zero, and "
            f"{self.kept} of each {self.group} are kept; pass prune=True to drop those of least magnitude"
        )

    def _check(self, status: int) -> None:
        if status == 0:
            return
        text: str = self._entry.functions["error_text"]().decode()
        if status <= _MOST_ABOUT_DEVICE:
            raise DeviceError(f"{self._entry.name}: {text}", self._entry.functions["cuda_error"]())
        raise ArgumentError(text.partition(" ")[0], text.partition(" ")[2])


class _Place:
    """Where the arrays of a call lie, and on which stream it runs."""

    def __init__(self, first: Any, stream: Any):
        self.library: ArrayLibrary = library_of(first)
        self.stream = 0 if stream is None else stream_handle(stream)
        given = _seen(self.library, "a", first, self.stream)
        self.on_host, self.device, self._first = given.device_type == CPU, given.device, given
        if stream is None and not self.on_host:
            self.stream = self.library.stream(given.device)
        if given.device_type not in (CPU, CUDA, CUDA_MANAGED):
            raise ArgumentError("a", f"it is in the memory of {given.place}; pass an array in GPU memory or of the host")

    def view(self, argument: str, value: Any) -> Tensor:
        found = _seen(self.library, argument, value, self.stream)
        if (found.device_type == CPU) != self.on_host or found.device != self.device:
            raise ArgumentError(argument, f"it is in the memory of {found.place}, not where the first array is")
        return found


def _seen(library: ArrayLibrary, argument: str, value: Any, stream: int) -> Tensor:
    """Like library.view(); numpy's arrays of bf16 and of 8-bit floats have no DLPack."""
    found = _of_numpy(value)
    return found if found is not None else library.view(argument, value, stream)


def _of_numpy(value: Any) -> Tensor | None:
    """An array of numpy as a Tensor; None for anything else."""
    import numpy as np

    if not isinstance(value, np.ndarray):
        return None
    size = value.itemsize
    steps = tuple(step // size for step in value.strides)
    read_only = not value.flags.writeable
    return Tensor(value.ctypes.data, value.shape, steps, _word_of(value.dtype), size, CPU, 0, read_only, value)


def _word_of(dtype: Any) -> str:
    """mmagen's word for a numpy type, or what numpy calls it."""
    from mmagen.verify.emulated.formats import storage as kind_of

    words = ("f16", "bf16", "f32", "f64", "s8", "u8", "s32", "e4m3", "e5m2")
    return next((word for word in words if kind_of(word) == dtype), str(dtype))


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps = [1]
    for extent in reversed(shape[1:]):
        steps.insert(0, steps[0] * extent)
    return tuple(steps)


def _members(name: str, given: Tensor, found: Matrices) -> dict[str, int]:
    return {name: given.address, f"ld_{name}": found.ld, f"batch_stride_{name}": found.stride}


def _read_back(address: int, stream: int) -> int:
    """An int64 in device memory, once what was enqueued on a stream has ended. Raises DeviceError."""
    value = ctypes.c_int64(_NONE)
    driver = ctypes.CDLL("libcuda.so.1")
    error = driver.cuStreamSynchronize(ctypes.c_void_p(stream)) or driver.cuMemcpyDtoH_v2(
        ctypes.byref(value), ctypes.c_uint64(address), ctypes.c_size_t(8)
    )
    if error:
        raise DeviceError(f"compressing failed: CUDA reports error {error}", error)
    return value.value
