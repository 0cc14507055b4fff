"""Calls of kernels whose groups have matrices of their own: lists of arrays, one of each group."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Protocol

from mmagen.binding.driver import is_capturing
from mmagen.binding.errors import ArgumentError, DeviceError
from mmagen.binding.further import check_names, matrices_of, members
from mmagen.binding.libraries import ArrayLibrary, check_stream, library_of, stream_handle, wait_for
from mmagen.binding.matrices import Matrices, check_no_overlap, matrices
from mmagen.binding.tensors import CPU, Tensor
from mmagen.host_runtime.arguments import Arguments
from mmagen.plan.arguments import Arguments as Wanted
from mmagen.plan.arguments import Tensor as WantedTensor

_ALIGNED = 16  # bytes: TMA addresses A and B
_LETTERS = "abcd"
_LARGEST = 2**31 - 1  # extents and leading dimensions are 32-bit integers in the arrays on the device
_MODES = {"a": "MK", "b": "KN", "c": "MN", "d": "MN"}
Seen = dict[str, tuple[Tensor, Matrices]]
Named = list[tuple[str, Tensor]]
Scalars = tuple[dict[str, Any], Named]


class Callee(Protocol):
    """What a call needs of its kernel (kernel.py)."""

    def check_place(self, argument: str, given: Tensor, first: Tensor) -> None:
        """Raises ArgumentError for an array that is not where the kernel and the first one are."""

    def scalars(self, library: ArrayLibrary, alpha: Any, beta: Any, handle: int, first: Tensor) -> Scalars:
        """Members of the struct for alpha and beta, and those of the two that are arrays."""

    def new(self, library: ArrayLibrary, like: Any, rows: int, columns: int, batch: int | None) -> Any:
        """A new D."""

    @property
    def columns_of_element(self) -> int:
        """Columns of a @ b that an element of D is made of."""

    @property
    def of_call(self) -> Wanted:
        """The further arguments that a caller names: lists, and arrays that all groups share."""

    def laid_out(self, name: str) -> tuple[str, str]:
        """(type, contiguous mode) of a, b or d."""

    def struct(self, **members: Any) -> Arguments:
        """The struct of a call."""

    def workspace(self, library: ArrayLibrary, like: Any, first: Tensor, arguments: Arguments, handle: int) -> Any:
        """Memory that the struct then names, to be kept until the call is enqueued."""

    def run(self, arguments: Arguments, handle: int) -> None:
        """Enqueues the call."""


def call(
    kernel: Callee, a: Any, b: Any, out: Any, c: Any, alpha: Any, beta: Any, stream: Any, further: Mapping[str, Any]
) -> list[Any]:
    """Enqueue alpha * a[i] @ b[i] + beta * c[i] for each i, and return the list of d. See Kernel.__call__."""
    check_names(kernel.of_call, further)
    given = {"a": listed("a", a), "b": listed("b", b)}
    count = len(given["a"])
    if count == 0:
        return []
    library = library_of(given["a"][0])
    handle = 0 if stream is None else stream_handle(stream)
    first = library.view("a[0]", given["a"][0], handle)
    kernel.check_place("a[0]", first, first)
    check_stream(stream, first)
    if stream is None:
        handle = library.stream(first.device) if first.device_type != CPU else 0
    scalars, common = kernel.scalars(library, alpha, beta, handle, first)
    if scalars["beta"] or scalars["beta_device"]:
        given["c"] = listed("c", c)
    given |= {one.name: listed(one.name, further[one.name]) for one in kernel.of_call.of_groups}
    results = [None] * count if out is None else listed("out", out)
    for name, arrays in (*given.items(), ("out", results)):
        if len(arrays) != count:
            raise ArgumentError(name, f"{len(arrays)} arrays, but a has {count}; pass one for each group")
    groups = [_group(kernel, library, handle, first, i, given, results) for i in range(count)]
    outputs = {"d", *(one.name for one in kernel.of_call.of_groups if one.written)}
    _check_outputs(groups, outputs)

    def view(name: str, value: Any) -> Tensor:
        found = library.view(name, value, handle)
        kernel.check_place(name, found, first)
        common.append((name, found))
        return found

    shared = Wanted(tuple(one for one in kernel.of_call.tensors if not one.of_groups))
    more, written = members(shared, {one.name: further[one.name] for one in shared.all}, view, {}, 1)
    _check_shared(groups, outputs, common, written)
    _upload(kernel, library, handle, first, given["a"][0], groups, {**scalars, **more})
    return list(results)


def listed(name: str, value: Any) -> list[Any]:
    """The arrays of all groups. Raises ArgumentError for what is no list of them."""
    if not isinstance(value, list | tuple):
        raise ArgumentError(name, f"it is {type(value).__qualname__}; this kernel takes a list of arrays, one for each group")
    return list(value)


def check_extents(i: int, a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...] | None) -> None:
    """Raises ArgumentError unless the matrices of group i can be multiplied; shapes as the caller has them."""
    for name, shape in (("a", a), ("b", b), ("c", c or (0, 0))):
        if len(shape) != 2:
            raise ArgumentError(f"{name}[{i}]", f"shape {shape}: a matrix of a group has 2 dimensions")
    if a[1] != b[0]:
        raise ArgumentError(f"b[{i}]", f"shape {b}: {b[0]} rows, but a[{i}] has {a[1]} columns (shape {a})")
    if c is not None and c != (a[0], b[1]):
        raise ArgumentError(f"c[{i}]", f"shape {c}: a[{i}] @ b[{i}] is ({a[0]},{b[1]})")


def _group(
    kernel: Callee, library: ArrayLibrary, handle: int, first: Tensor, i: int, given: dict[str, list[Any]], results: list[Any]
) -> Seen:
    """The matrices of one group; a new `out` is put into results."""
    seen: dict[str, Tensor] = {}

    def view(name: str, value: Any) -> Tensor:
        found = library.view(name, value, handle)
        kernel.check_place(name, found, first)
        return found

    for letter in _LETTERS:
        if letter in given:
            seen[letter] = view(f"{letter}[{i}]", given[letter][i])
    source = seen.get("c")
    check_extents(i, seen["a"].shape, seen["b"].shape, source.shape if source else None)
    m, n = seen["a"].shape[0], seen["b"].shape[1] // kernel.columns_of_element
    if seen["b"].shape[1] % kernel.columns_of_element:
        raise ArgumentError(f"b[{i}]", f"{seen['b'].shape[1]} columns: each element of D is made of two; pass an even number")
    if results[i] is None:
        results[i] = kernel.new(library, given["a"][i], m, n, None)
    seen["d"] = library.view(f"out[{i}]", results[i], handle)
    kernel.check_place(f"out[{i}]", seen["d"], first)
    if seen["d"].shape != (m, n):
        what = f"a[{i}] @ b[{i}] is" if kernel.columns_of_element == 1 else "of pairs of columns it is"
        raise ArgumentError(f"out[{i}]", f"shape {seen['d'].shape}; {what} ({m},{n})")
    if seen["d"].read_only:
        raise ArgumentError(f"out[{i}]", "it is read-only; pass an array that can be written")
    found: Seen = {}
    for letter, one in seen.items():
        name = f"{'out' if letter == 'd' else letter}[{i}]"
        type, contiguous = kernel.laid_out("d" if letter == "c" else letter)
        laid_out = matrices(name, one, modes=_MODES[letter], contiguous=contiguous, type=type, written=letter == "d")
        vector = _ALIGNED // one.bytes
        if (laid_out.rows if contiguous == _MODES[letter][1] else laid_out.columns) == 1:  # a single line ends anywhere
            laid_out = replace(laid_out, ld=-(-laid_out.ld // vector) * vector)
        if letter in "ab" and 0 not in one.shape and (one.address | laid_out.ld * one.bytes) % _ALIGNED:
            raise ArgumentError(
                name,
                f"its lines do not begin at multiples of {_ALIGNED} bytes, as this kernel needs (address {one.address:#x}, lines "
                f"{laid_out.ld * one.bytes} bytes apart); copy it to rows of a multiple of {vector} elements",
            )
        _check_sizes(name, laid_out)
        found[letter] = one, laid_out
    others = [(f"{letter}[{i}]", one) for letter, one in seen.items() if letter != "d"]
    extents = {"m": m, "n": seen["b"].shape[1], "k": seen["a"].shape[1]}
    further = {one.name: _of_group(one, i, given[one.name][i], extents, view) for one in kernel.of_call.of_groups}
    others += [(f"{name}[{i}]", one) for name, (one, _) in further.items()]
    for wanted in kernel.of_call.of_groups:
        if wanted.pitched:
            _check_sizes(f"{wanted.name}[{i}]", further[wanted.name][1])
    check_no_overlap(seen["d"], others, source, f"out[{i}]")
    for wanted in kernel.of_call.of_groups:
        name = f"{wanted.name}[{i}]"
        if wanted.written:
            written = further[wanted.name][0]
            if written.read_only:
                raise ArgumentError(name, "it is read-only; pass an array that can be written")
            check_no_overlap(written, [one for one in others if one[0] != name], None, name)
    return found | further


def _of_group(
    one: WantedTensor, i: int, value: Any, extents: Mapping[str, int], view: Callable[[str, Any], Tensor]
) -> tuple[Tensor, Matrices]:
    """A further tensor of group i."""
    named = replace(one, name=f"{one.name}[{i}]")
    found = view(named.name, value)
    return found, matrices_of(named, found, extents, 1)


def _check_outputs(groups: Sequence[Seen], outputs: Set[str]) -> None:
    """Raises ArgumentError where what is written of a group overlaps what is written or read of another one. outputs: the names of
    what is written."""
    spans = {}  # of what many groups read, one
    for i, group in enumerate(groups):
        for name, (one, _) in group.items():
            begin, end = one.span
            if begin < end:
                spans[begin, end, i if name == "c" or name in outputs else -1, name] = (i, one)
    results: list[_Placed] = []
    others: list[_Placed] = []
    for (begin, end, _, name), (i, one) in sorted(spans.items(), key=lambda item: item[0]):
        is_output = name in outputs
        results = [placed for placed in results if placed[0] > begin]
        if is_output:
            others = [placed for placed in others if placed[0] > begin]
        for _, j, beside, tensor in results + (others if is_output else []):
            if i != j and _share_elements(one, tensor):
                own, other = ((name, i), (beside, j)) if is_output else ((beside, j), (name, i))
                raise ArgumentError(
                    _argument(*own),
                    f"its memory overlaps that of {_argument(*other)}; groups run in any order: pass another array",
                )
        (results if is_output else others).append((end, i, name, one))


def _check_shared(groups: Sequence[Seen], outputs: Set[str], common: Named, written: Named) -> None:
    """Raises ArgumentError where an array that all groups share, one of `common`, overlaps another array of the call and either
    is written. written: those of `common` that are."""
    for name, one in written:
        check_no_overlap(one, [other for other in common if other[0] != name], None, name)
    changed = {name for name, _ in written}
    for name, one in common:
        begin, end = one.span
        for i, group in enumerate(groups):
            for beside, (tensor, _) in group.items():
                first, last = tensor.span
                if max(begin, first) >= min(end, last):
                    continue
                if name in changed:
                    raise ArgumentError(name, f"its memory overlaps that of {_argument(beside, i)}; pass another array")
                if beside in outputs:
                    raise ArgumentError(_argument(beside, i), f"its memory overlaps that of {name}; pass another array")


_Placed = tuple[int, int, str, Tensor]  # where it ends, the group, the name, the array


def _argument(name: str, group: int) -> str:
    return f"{'out' if name == 'd' else name}[{group}]"


def _share_elements(x: Tensor, y: Tensor) -> bool:
    """Do two arrays whose spans overlap share an element? Beside each other in the lines of one matrix they do not."""
    alike = x.strides == y.strides and x.bytes == y.bytes and (y.address - x.address) % x.bytes == 0
    if not alike or len(x.strides) != 2 or min(x.strides) != 1:
        return True
    along, across = x.strides.index(1), 1 - x.strides.index(1)
    ld, apart = x.strides[across], (y.address - x.address) // x.bytes
    # An element is shared where apart + lines * ld lies in -(y's line - 1) .. x's line - 1, for so many lines between them.
    first = -((y.shape[along] - 1 + apart) // ld)
    last = (x.shape[along] - 1 - apart) // ld
    return max(first, 1 - x.shape[across]) <= min(last, y.shape[across] - 1)


def _upload(
    kernel: Callee,
    library: ArrayLibrary,
    handle: int,
    first: Tensor,
    like: Any,
    groups: Sequence[Seen],
    scalars: dict[str, Any],
) -> None:
    """Copies the arrays to the device and enqueues the call."""
    names = (*_LETTERS, *(one.name for one in kernel.of_call.of_groups))
    pitched = [one.name for one in kernel.of_call.of_groups if one.pitched]
    pointers = array("Q", [group[x][0].address if x in group else 0 for x in names for group in groups])
    extents = {
        "m": [group["a"][1].rows for group in groups],
        "n": [group["b"][1].columns for group in groups],
        "k": [group["a"][1].columns for group in groups],
    }
    lines = {f"ld{x}": [group[x][1].ld if x in group else 0 for group in groups] for x in _LETTERS}
    lines |= {f"ld_{x}": [group[x][1].ld for group in groups] for x in pitched}
    numbers = array("i", [value for values in (*extents.values(), *lines.values()) for value in values])
    data = pointers.tobytes() + numbers.tobytes()
    count = len(groups)
    with library.on(first.device) if first.device_type != CPU else nullcontext():
        memory = library.room(like, len(data), first.device, handle)
        base = library.view("groups", memory, handle).address
        _copy(base, data, handle, first.device_type == CPU)
        of_numbers = base + len(pointers) * 8
        members = {x: base + i * count * 8 for i, x in enumerate(names) if x != "c" or "c" in groups[0]}
        members |= {f"group_{name}": of_numbers + i * count * 4 for i, name in enumerate((*extents, *lines))}
        arguments = kernel.struct(batch=count, **{mode: max(values) for mode, values in extents.items()}, **scalars, **members)
        room = kernel.workspace(library, like, first, arguments, handle)
        kernel.run(arguments, handle)
        if library.waits and first.device_type != CPU:  # it may take its memory back at once
            wait_for(handle)
    del memory, room


def _check_sizes(name: str, seen: Matrices) -> None:
    """Raises ArgumentError for extents and leading dimensions that do not fit the 32 bits in which the device gets them."""
    for what, value in (("rows", seen.rows), ("columns", seen.columns), ("leading dimension", seen.ld)):
        if value > _LARGEST:
            raise ArgumentError(name, f"{what} {value}: of a matrix of a group at most {_LARGEST}")


def _copy(address: int, data: bytes, stream: int, on_host: bool) -> None:
    """Copies bytes of the host, in the order of the stream. The driver has read them when it returns. Raises ArgumentError while
    the stream is captured, and DeviceError."""
    if on_host:
        ctypes.memmove(address, data, len(data))
        return
    if is_capturing(stream):
        raise ArgumentError(
            "stream",
            "it is being captured, and a list of arrays is copied from the host; call the C interface with arrays on the device",
        )
    error = ctypes.CDLL("libcuda.so.1").cuMemcpyHtoDAsync_v2(
        ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)), ctypes.c_void_p(stream)
    )
    if error:
        raise DeviceError(f"copying the pointers of groups failed: CUDA reports error {error}", error)
