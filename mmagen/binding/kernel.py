"""A compiled kernel as a Python function of arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mmagen.binding import groups
from mmagen.binding.driver import is_capturing
from mmagen.binding.errors import ArgumentError, DeviceError, refused
from mmagen.binding.fast import caller
from mmagen.binding.further import members
from mmagen.binding.libraries import ArrayLibrary, check_stream, library_of, stream_handle, wait_for
from mmagen.binding.matrices import Matrices, check_no_overlap, matrices, storage
from mmagen.binding.rows import TMA_ELEMENTS, count_and_batch, sizes_of
from mmagen.binding.scalars import number
from mmagen.binding.shared_library import Entry, entries_in
from mmagen.binding.sparse import Compressed, Compressor
from mmagen.binding.tensors import CPU, CUDA, CUDA_MANAGED, Tensor
from mmagen.binding.tile import check_tile
from mmagen.host_runtime.arguments import Arguments, struct_of
from mmagen.plan.arguments import Arguments as Further
from mmagen.plan.arguments import of_description

Emulate = Callable[..., Any]
_FOREIGN_MEMORY = 21
_MOST_ABOUT_DEVICE = 15  # statuses up to here are about the device, those above about the arguments


class Kernel:
    """D = alpha * A @ B + beta * C on arrays in GPU memory. Made by mmagen.compile() and mmagen.open().

    name, description: of the library. `kernel(a, b)` computes; `kernel.emulate(a, b)` does it on numpy arrays without a GPU.
    """

    def __init__(self, entry: Entry, emulate: Emulate | None = None, devices: tuple[int, ...] = (CUDA, CUDA_MANAGED)):
        """devices: where arrays may be (DLDeviceType); only tests pass another one."""
        if "run" not in entry.functions or entry.description.get("a") is None:
            raise ArgumentError("kernel", f"{entry.name} multiplies no matrices; open a project of kernel: gemm or micro")
        self.name = entry.name
        self.description = entry.description
        self._path = entry.path
        self._functions = entry.functions
        self._emulate = emulate
        self._devices = devices
        about = entry.description
        self._types = {name: str(about[name]["type"]) for name in "abd"}
        self._contiguous = {name: str(about[name]["contiguous"]) for name in "abd"}
        self.columns_of_element = int(about["d"].get("columns_of_element", 1))
        self._packed_a = int(about["a"].get("packed", 1))
        self._packed_b = int(about["b"].get("packed", 1))
        self._takes_workspace = bool(about.get("workspace"))
        self._further = of_description(about.get("arguments", []))
        self._struct = struct_of(self._further.members)
        self._fast = caller(entry, devices[0], self._further, self._struct)
        self._compressor = Compressor(entry) if "group" in about["a"] else None
        self._lists = any(one.name == "group_lda" for one in self._further.tensors)  # groups with matrices of their own
        self._sizes = sizes_of(self._further)

    def __repr__(self) -> str:
        types = " x ".join(self._types[name] for name in "ab")
        return f"<mmagen.Kernel {self.name}: {types} -> {self._types['d']}>"

    def __copy__(self) -> Kernel:
        return self  # as functions do: copies of a model share it

    def __deepcopy__(self, memo: object) -> Kernel:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self._path, self.name)  # in another process, without the toolchain

    def __call__(
        self,
        a: Any,
        b: Any,
        out: Any = None,
        c: Any = None,
        alpha: Any = 1,
        beta: Any = 0,
        stream: Any = None,
        **further: Any,
    ) -> Any:
        """Enqueue alpha * a @ b + beta * c and return d, without waiting. With arrays of a library that has no current stream, such
        as JAX, and no `stream`, return when the kernel has ended.

        a: (M,K) or (batch,M,K); b: (K,N) or (batch,K,N), as numpy.matmul has them; a single matrix serves a whole batch. c: (M,N)
        or a batch, read where beta is not 0; may be out. out: where d goes, else a new array of the library of `a`. All have the
        kernel's types and contiguous modes: leading dimensions and batch strides follow from the strides. alpha, beta: numbers,
        or arrays of one element of the kernel's scalar type in GPU memory. stream: a cudaStream_t, or an object with one
        (torch.cuda.Stream, cupy.cuda.Stream); by default the caller's current one. further: the further arguments of the kernel by
        name, as its description lists them, e.g. bias=...; those that it writes are arrays to be filled or updated.

        A sparse kernel takes what compress() returns as `a`. A kernel of groups with matrices of their own (`grouped: pointers`)
        takes lists of matrices, one for each group, of any extents, and returns a list; A and B begin at multiples of 16 bytes,
        and so do their lines. Its further arguments are lists too, but for a number that all groups raise (amax).

        A kernel of groups whose rows lie in common matrices takes their sizes, int32 in GPU memory: `group_offsets` or `group_ends`
        of rows of one a (M,K), c and out (M,N) (`grouped: contiguous`), or `group_m` of an a (groups,M,K), c and out (groups,M,N)
        (`masked`). b is (groups,K,N), or one for all. Rows of no group are not written: in a new out they hold anything.

        Raises ArgumentError, which names the argument and what would be right, and DeviceError.
        """
        if self._fast is not None:
            if self._compressor is None:
                done = self._fast(a, b, out, c, alpha, beta, stream, further, None)
            elif type(a) is Compressed and a.type == self._compressor.type:
                named = {**further, "metadata_a": a.metadata}
                done = self._fast(a.values, b, out, c, alpha, beta, stream, named, a.shape)
            else:
                done = None
            if done is not None:
                return done
        return self._call(a, b, out, c, alpha, beta, stream, further)

    def _call(self, a: Any, b: Any, out: Any, c: Any, alpha: Any, beta: Any, stream: Any, further: Mapping[str, Any]) -> Any:
        """A call of any arrays, and whatever is wrong with one."""
        if self._lists:
            return groups.call(self, a, b, out, c, alpha, beta, stream, further)
        compressed = self._compressed(a)
        if compressed:
            if compressed.on_host and CPU not in self._devices:
                raise ArgumentError(
                    "a", "it was compressed on the host; compress a matrix in GPU memory, or move values and metadata"
                )
            a, further = compressed.values, {**further, "metadata_a": compressed.metadata}
        library = library_of(a)
        handle = 0 if stream is None else stream_handle(stream)
        left = library.view("a", a, handle)
        self.check_place("a", left, left)
        check_stream(stream, left)
        if stream is None:
            handle = library.stream(left.device) if left.device_type != CPU else 0
        right = library.view("b", b, handle)
        self.check_place("b", right, left)
        of_a, of_b = self._factors(left, right, compressed)
        scalars, in_memory = self.scalars(library, alpha, beta, handle, left)
        reads_c = bool(scalars["beta"] or scalars["beta_device"])
        source = self._source(library, c, handle, left, of_a, of_b) if reads_c else None
        counts = [("a", of_a.batch), ("b", of_b.batch), *([("c", source[1].batch)] if source else [])]
        count, batch = count_and_batch(
            self._sizes, self._further, further, counts, lambda name, value: library.view(name, value, handle).shape
        )
        if out is None:
            out = self.new(library, a, of_a.rows, of_b.columns // self.columns_of_element, batch)
        result = library.view("out", out, handle)
        self.check_place("out", result, left)
        of_d = self._check_out(result, of_a, of_b, batch)
        others = [("a", left), ("b", right), *([("c", source[0])] if source else []), *in_memory]
        extents = {"m": of_a.rows, "n": of_b.columns, "k": of_a.columns, "batch": count}
        check_tile(self.description, extents, *(None if scalars[f"{x}_device"] else scalars[x] for x in ("alpha", "beta")))

        def view(name: str, value: Any) -> Tensor:
            found = library.view(name, value, handle)
            self.check_place(name, found, left)
            others.append((name, found))
            return found

        more, written = members(self._further, further, view, extents, count)
        check_no_overlap(result, others, source[0] if source else None)
        for name, found in written:
            apart = [other for other in others if other[0] != name]
            check_no_overlap(found, apart, None, name)
        if 0 in result.shape or count == 0:
            return out
        arguments = self.struct(**extents, **scalars, **more)
        _fill(arguments, "a", left, of_a)
        _fill(arguments, "b", right, of_b)
        _fill(arguments, "d", result, of_d)
        if source:
            _fill(arguments, "c", *source)
        with library.on(left.device) if left.device_type != CPU else nullcontext():
            room = self.workspace(library, a, left, arguments, handle)
            self.run(arguments, handle)
            if library.waits and (stream is None or room is not None) and left.device_type != CPU:
                wait_for(handle)
        del room
        return out

    def emulate(
        self,
        a: Any,
        b: Any,
        c: Any = None,
        alpha: float = 1,
        beta: float = 0,
        *,
        timeout_s: float | None = None,
        **further: Any,
    ) -> Any:
        """The same on numpy arrays, without a GPU: the library's host code decides the launch, the emulator executes its PTX.

        Slow: about a second for a problem of 2^20 products. What compress() has made on the host is an `a` too. Raises
        ArgumentError, and RunError for races, accesses out of bounds and other findings of the emulator. Only of kernels made by
        mmagen.compile()."""
        if self._emulate is None:
            raise ArgumentError(
                "kernel", f"{self.name} was opened as a library, without its PTX; use mmagen.compile(spec) to emulate"
            )
        for name in ("out", "stream"):
            if name in further:
                raise ArgumentError(name, "emulate() has none: it returns a new array, and runs on the CPU")
        compressed = self._compressed(a)
        if compressed:
            further = {**further, "metadata_a": compressed.metadata}
        return self._emulate(compressed or a, b, c, alpha, beta, timeout_s, further)

    def can_run(self, m: int = 1, n: int = 1, k: int = 1, batch: int = 1) -> str:
        """Empty, or why the current device cannot run this problem: no driver, another architecture, too large, ...

        Raises ArgumentError for what is no integer of 64 bits."""
        for name, value in (("m", m), ("n", n), ("k", k), ("batch", batch)):
            if not isinstance(value, int) or not -(2**63) <= value < 2**63:
                raise ArgumentError(name, f"it is {value!r}; pass an int of at most 64 bits")
        extents = {"a": k if self._contiguous["a"] == "K" else m, "b": k if self._contiguous["b"] == "K" else n}
        extents |= {"d": n // self.columns_of_element if self._contiguous["d"] == "N" else m}
        filled = {f"ld{name}": extent for name, extent in extents.items()} | dict.fromkeys("abd", 1 << 20)
        sizes = {"m": m, "n": n, "k": k, "batch": batch}
        numbers = {one.name: one.default for one in self._further.numbers}
        for one in self._further.tensors:
            line = one.line.value({**sizes, **numbers})
            members_of_one = {one.name: 1 << 20, f"ld_{one.name}": line, f"batch_stride_{one.name}": m * n}
            filled |= {name: value for name, value in members_of_one.items() if hasattr(self._struct, name)}
        if self._lists:  # a call without a workspace is refused
            filled |= {"workspace": 1 << 20, "workspace_bytes": 1 << 40}
        if self._sizes:  # of operands that TMA can address, with sizes in one way
            filled |= {name: -(-filled[name] // TMA_ELEMENTS) * TMA_ELEMENTS for name in ("lda", "ldb")}
            filled |= dict.fromkeys(self._sizes.names[1:], 0)
        size = ctypes.sizeof(self._struct)
        arguments = self._struct(struct_size=size, **sizes, batch_stride_d=m * n, alpha=1.0, **numbers, **filled)
        status = self._functions["can_run"](arguments)
        return self._text() if status not in (0, _FOREIGN_MEMORY) else ""  # found last, of addresses that stand for any

    # --- sparse matrices ------------------------------------------------------------------------------------------------

    def compress(self, a: Any, prune: bool = False, stream: Any = None) -> Compressed:
        """A sparse matrix in the form that a sparse kernel takes as `a`; it serves any number of calls.

        a: (M,K) or (batch,M,K), in GPU memory, or of the host: then the host compresses it, for emulate() or to be moved later.
        prune: drop what a matrix that is not sparse enough has too much; else such a matrix raises ArgumentError with the row and
        the columns, for which the call waits for the device."""
        return self._sparse("compress").compress(a, prune, stream)

    def prune(self, a: Any, stream: Any = None) -> Any:
        """A new array of `a` without what compressing would drop: of each group along K the elements of largest magnitude stay."""
        return self._sparse("prune").prune(a, stream)

    def compressed(self, values: Any, metadata: Any, k: int, stream: Any = None) -> Compressed:
        """A compressed matrix of k columns from arrays that come from elsewhere, e.g. a file: as in Compressed.

        Raises ArgumentError for metadata that name no legal places, with which the result of a kernel would be undefined. Waits
        for the device."""
        return self._sparse("compressed").compressed(values, metadata, k, stream)

    def _sparse(self, method: str) -> Compressor:
        if self._compressor is None:
            raise ArgumentError("kernel", f"{self.name} multiplies a dense a: {method}() is for kernels of sparse atoms")
        return self._compressor

    def _compressed(self, a: Any) -> Compressed | None:
        """`a` if it is compressed. Raises ArgumentError unless that is what the kernel takes."""
        if self._compressor is None:
            if isinstance(a, Compressed):
                raise ArgumentError("a", f"it is compressed, and {self.name} multiplies a dense matrix; pass an array")
            return None
        if not isinstance(a, Compressed):
            raise ArgumentError(
                "a", f"{self.name} multiplies a sparse matrix; pass kernel.compress(a), or kernel.compress(a, prune=True)"
            )
        if a.type != self._compressor.type:
            raise ArgumentError("a", f"its elements are {a.type}; this kernel takes {self._compressor.type}")
        return a

    # --- arguments -----------------------------------------------------------------------------------------------------

    def check_place(self, argument: str, given: Tensor, first: Tensor) -> None:
        if given.device_type not in self._devices:
            raise ArgumentError(
                argument, f"it is in the memory of {given.place}; this kernel reads GPU memory: move it there first"
            )
        if given.device != first.device:
            raise ArgumentError(
                argument, f"it is on device {given.device}, a on device {first.device}; pass arrays of one device"
            )

    def _factors(self, left: Tensor, right: Tensor, compressed: Compressed | None) -> tuple[Matrices, Matrices]:
        """A and B, which can be multiplied. left: the values of A, if it is compressed."""
        if compressed:
            of_a = compressed.as_a(left)
        else:
            of_a = matrices("a", left, modes="MK", contiguous=self._contiguous["a"], type=self._types["a"])
            of_a = replace(of_a, columns=of_a.columns * self._packed_a)
        of_b = matrices("b", right, modes="KN", contiguous=self._contiguous["b"], type=self._types["b"])
        if -(-of_a.columns // self._packed_b) != of_b.rows:
            packed = f", {self._packed_b} to an element of b" if self._packed_b > 1 else ""
            raise ArgumentError(
                "b", f"shape {right.shape}: {of_b.rows} rows, but a has {of_a.columns} columns (shape {left.shape}){packed}"
            )
        if of_b.columns % self.columns_of_element:
            raise ArgumentError("b", f"{of_b.columns} columns: each element of D is made of two; pass an even number")
        return of_a, of_b

    def _source(
        self, library: ArrayLibrary, c: Any, handle: int, first: Tensor, of_a: Matrices, of_b: Matrices
    ) -> tuple[Tensor, Matrices]:
        if c is None:
            raise ArgumentError("c", "it is None, but beta is not 0; pass an array, or beta=0")
        given = library.view("c", c, handle)
        self.check_place("c", given, first)
        found = matrices("c", given, modes="MN", contiguous=self._contiguous["d"], type=self._types["d"])
        if (found.rows, found.columns) != (of_a.rows, of_b.columns):
            raise ArgumentError("c", f"shape {given.shape}: a @ b is ({of_a.rows},{of_b.columns})")
        return given, found

    def scalars(self, library: ArrayLibrary, alpha: Any, beta: Any, handle: int, first: Tensor) -> groups.Scalars:
        found: dict[str, Any] = {}
        in_memory = []
        for name, value in (("alpha", alpha), ("beta", beta)):
            found[f"{name}_device"] = 0
            if (given_number := number(name, value)) is not None:
                found[name] = given_number
                continue
            found[name] = 0.0
            given = library.view(name, value, handle)
            self.check_place(name, given, first)
            wanted = storage(str(self.description["scalar"]))
            if given.type != wanted or any(extent != 1 for extent in given.shape):
                raise ArgumentError(
                    name,
                    f"an array of shape {given.shape} of {given.type}; pass a number, or one element of {wanted} in GPU memory",
                )
            found[f"{name}_device"] = given.address
            in_memory.append((name, given))
        return found, in_memory

    def new(self, library: ArrayLibrary, like: Any, rows: int, columns: int, batch: int | None) -> Any:
        head = () if batch is None else (batch,)
        if self._contiguous["d"] == "N":
            return library.empty(like, (*head, rows, columns), storage(self._types["d"]))
        return library.transposed(library.empty(like, (*head, columns, rows), storage(self._types["d"])))

    def _check_out(self, result: Tensor, of_a: Matrices, of_b: Matrices, batch: int | None) -> Matrices:
        wanted = (*(() if batch is None else (batch,)), of_a.rows, of_b.columns // self.columns_of_element)
        if result.shape != wanted:
            what = "a @ b is" if self.columns_of_element == 1 else "of pairs of columns it is"
            raise ArgumentError("out", f"shape {result.shape}; {what} {wanted}")
        if result.read_only:
            raise ArgumentError("out", "it is read-only; pass an array that can be written")
        return matrices("out", result, modes="MN", contiguous=self._contiguous["d"], type=self._types["d"], written=True)

    # --- the call ------------------------------------------------------------------------------------------------------

    def struct(self, **members: Any) -> Arguments:
        """The struct of a call."""
        return self._struct(struct_size=ctypes.sizeof(self._struct), **members)

    @cached_property
    def of_call(self) -> Further:
        """The further arguments that a caller of a kernel that takes lists names: not what follows from the lists."""
        return Further(tuple(one for one in self._further.tensors if one.of_groups or one.required))

    def laid_out(self, name: str) -> tuple[str, str]:
        """(type, contiguous mode) of a, b or d."""
        return self._types[name], self._contiguous[name]

    def workspace(self, library: ArrayLibrary, like: Any, first: Tensor, arguments: Arguments, handle: int) -> Any:
        """Memory for partial sums, where the kernel can use it: see ArrayLibrary.room. first: `like`, as it was seen."""
        if not self._takes_workspace:
            return None
        count = ctypes.c_int64(0)
        self._check(self._functions["workspace_bytes"](arguments, ctypes.byref(count)))
        if count.value == 0:
            return None
        if not library.keeps_for_graphs and first.device_type != CPU and is_capturing(handle):
            raise ArgumentError(
                "stream",
                f"it is being captured, and this call needs a workspace of {count.value} bytes that lives as long as the graph, "
                "which only torch keeps; pass torch's arrays, or call the C interface",
            )
        room = library.room(like, count.value, first.device, handle)
        arguments.workspace = library.view("workspace", room, 0).address
        arguments.workspace_bytes = count.value
        return room

    def run(self, arguments: Arguments, handle: int) -> None:
        self._check(self._functions["run"](arguments, handle))

    def _check(self, status: int) -> None:
        if status == 0:
            return
        text = self._text()
        if status <= _MOST_ABOUT_DEVICE:
            raise DeviceError(f"{self.name}: {text}", self._functions["cuda_error"]())
        raise refused(text)

    def _text(self) -> str:
        text: bytes = self._functions["error_text"]()
        return text.decode()


def _fill(arguments: Arguments, name: str, given: Tensor, found: Matrices) -> None:
    setattr(arguments, name, given.address)
    setattr(arguments, f"ld{name}", found.ld)
    setattr(arguments, f"batch_stride_{name}", found.stride)


def _opened(path: Path, name: str) -> Kernel:
    return Kernel(entries_in(path)[name])
