"""Calls with extreme extents and strides: what a project's C interface must say of them, by a model of its limits in whole numbers.

It is asked of the project's own host code, by way of the stand-in for the CUDA runtime (mmagen/verify/emulated/interface.py).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from mmagen.host_runtime.library import Reply, call, text
from mmagen.plan.plans import GemmPlan
from mmagen.verify.emulated.interface import Interface
from mmagen.verify.emulated.interface_calls import LARGEST

# What an argument may be: legal extents, strides of which a few fit, and what wraps around when it is multiplied.
VALUES = (1 << 20, 1 << 30, 1 << 31, 1 << 36, 1 << 40, 1 << 60, (1 << 62) + 16, (1 << 63) - 1, -1, -(1 << 63))
_IN_PAIRS = (1 << 20, 1 << 30, 1 << 40, 1 << 60, (1 << 62) + 16, (1 << 63) - 1)
_MOST_BYTES, _TMA_STRIDE = 2**63 - 1, 2**40
_LD, _BATCH_STRIDE = 1 << 30, 1 << 36  # of all matrices, where nothing else is said
_ROOM = 1 << 62  # bytes of a workspace that a call cannot do without
_AT_ONCE = 400  # calls of a process, which takes them as words of its command line
TOO_LARGE = {"a": 168, "b": 169, "c": 170, "d": 171}
TOO_LARGE_TENSOR, FAR_APART = 172, {"a": 176, "b": 177, "metadata_a": 178}
_STREAM = 0x5000

Changes = Mapping[str, int]


@dataclass(frozen=True)
class Matrix:
    """A matrix of a call: elements of a line, lines, bytes of an element. pitch, between: members that have its strides, or ""."""

    row: int
    lines: int
    bytes: int
    pitch: str
    between: str

    def size(self, values: Changes) -> int:
        """Bytes, each line as long as its leading dimension."""
        matrices = values["batch"] if self.between else 1
        ld = values[self.pitch] if self.pitch else self.row
        return (self.lines * ld + (matrices - 1) * values.get(self.between, 0)) * self.bytes

    def is_far(self, values: Changes) -> bool:
        """Are its strides more than those of a tensor map?"""
        strides = [values[self.pitch]] if self.pitch else []
        strides += [values[self.between]] if self.between and values["batch"] > 1 else []
        return any(one * self.bytes >= _TMA_STRIDE for one in strides)


@dataclass(frozen=True)
class Answer:
    """To a call: its status, and the sentence for it. changes: of the call's arguments."""

    changes: Changes
    status: int
    sentence: str


@dataclass(frozen=True)
class ExtremeCalls:
    """Calls of a library. interface: of a kernel with A, B and D whose extents are those of a call."""

    interface: Interface

    @cached_property
    def base(self) -> dict[str, int]:
        """What all calls have but for what they change: strides that are large, and legal."""
        plan = self.interface.task.product
        struct = self.interface.calls.struct.from_buffer_copy(self._good)
        given = {name: int(getattr(struct, name)) for name, kind in _members(type(struct)) if kind is ctypes.c_int64}
        for name in given:
            if name.startswith("ld"):
                given[name] = _LD
            elif name.startswith("batch_stride_") and plan.any_shape:
                given[name] = _BATCH_STRIDE
        if not plan.any_shape:
            return given
        with_c = {"beta": 1, "c": 3 << 20} if self.reads_c else {}
        room = {"workspace_bytes": _ROOM} if plan.needs_workspace else {}
        return given | {"batch": 2} | with_c | room

    @cached_property
    def _good(self) -> bytes:
        return self.interface.calls.good

    @cached_property
    def _bytes(self) -> dict[str, int]:
        """Of an element."""
        data = self.interface.calls.data
        return {name: getattr(data, "d" if name == "c" else name).view.itemsize for name in "abcd"}

    @property
    def reads_c(self) -> bool:
        plan = self.interface.task.product
        return plan.any_shape and not plan.ignores_scalars

    def all(self) -> Iterator[Changes]:
        """One argument at a time, then two."""
        names = [name for name in self.base if name not in ("beta", "c") and self.base[name] != _ROOM]
        for name in names:
            yield from ({name: value} for value in VALUES)
        for one, other in combinations(names, 2):
            yield from ({one: x, other: y} for x in _IN_PAIRS for y in _IN_PAIRS)

    def asked(self, calls: Sequence[Changes]) -> list[Answer]:
        """What can_run says of each call, and error_text."""
        symbol, answers = self.interface.task.symbol, []
        for changes, reply in self._asked(calls, lambda one: [*call(symbol("can_run"), one), *text(symbol("error_text"))]):
            answers += [Answer(*each) for each in zip(changes, reply.values, reply.texts, strict=True)]
        return answers

    def run(self, calls: Sequence[Changes]) -> tuple[list[int], int]:
        """(the status of each call, launches of all together)."""
        symbol, statuses, launches = self.interface.task.symbol("run"), [], 0
        for _, reply in self._asked(calls, lambda one: call(symbol, one, _STREAM)):
            statuses += reply.values
            launches += len(reply.launches)
        return statuses, launches

    def _asked(self, calls: Sequence[Changes], directives) -> Iterator[tuple[Sequence[Changes], Reply]]:
        for at in range(0, len(calls), _AT_ONCE):
            some = calls[at : at + _AT_ONCE]
            words = [directives(self._arguments(self.base | changes)) for changes in some]
            yield some, self.interface.ask([word for one in words for word in one])

    def _arguments(self, values: Changes) -> bytes:
        struct = self.interface.calls.struct.from_buffer_copy(self._good)
        for name, value in values.items():
            setattr(struct, name, value)
        return bytes(struct)

    # --- the model --------------------------------------------------------------------------------------------------------

    def matrices(self, values: Changes) -> dict[str, Matrix]:
        """All of a call that is read or written, by name."""
        plan = self.interface.task.product
        m, n, k = (values[mode] for mode in "mnk")
        a, b = plan.operand("A"), plan.operand("B")
        columns = n // plan.facts.columns_of_element
        stored = {"a": -(-k // a.group) * a.kept, "b": -(-k // b.group) * b.kept}
        shapes = {"a": (m, stored["a"]), "b": (n, stored["b"]), "d": (m, columns)}
        found = {}
        for name, (rows, across) in (shapes | ({"c": shapes["d"]} if self.reads_c else {})).items():
            contiguous = plan.majors["abd".index("d" if name == "c" else name)] in "KN" and name != "b"
            contiguous = contiguous or (name == "b" and plan.majors[1] == "K")
            row, lines = (across, rows) if contiguous else (rows, across)
            stacked = self.interface.calls.stacked and name != "b"
            between = "" if stacked or not plan.any_shape else f"batch_stride_{name}"
            found[name] = Matrix(row, lines, self._bytes[name], f"ld{name}", between)
        for one in plan.arguments.tensors:
            row, lines = one.line.value(values), one.lines.value(values)
            pitch = f"ld_{one.name}" if one.pitched else ""
            between = f"batch_stride_{one.name}" if one.batched else ""
            found[one.name] = Matrix(row, lines, max(1, one.element.bytes), pitch, between)
        return found

    def other_faults(self, values: Changes) -> bool:
        """Is a call refused for anything but strides that are too large?"""
        plan = self.interface.task.product
        m, n, k, batch = (values[name] for name in ("m", "n", "k", "batch"))
        if not plan.any_shape and any(values[x] != self.base[x] for x in ("m", "n", "k", "batch")):
            return True
        if min(m, n, k, batch) < 0 or max(m, n) > LARGEST or k > (plan.facts.most_k or LARGEST):
            return True
        if n % plan.facts.columns_of_element:
            return True
        if self._makes_too_many_tiles(m, n, batch):
            return True
        matrices = self.matrices(values).values()
        short = any(one.pitch and values[one.pitch] < one.row for one in matrices)
        negative = any(one.between and values[one.between] < 0 for one in matrices)
        return short or negative or self._is_unaligned(values) or self._makes_too_many_pieces(values)

    def _makes_too_many_pieces(self, values: Changes) -> bool:
        """Blocks of 64 x 128 elements that a kernel splits: at most 2^30 - 1 of each operand. Matrices of pieces have the strides
        of a tensor map."""
        plan = self.interface.task.product
        if not plan.accumulation.of_pieces:
            return False
        columns = -(-values["k"] // plan.tile[2]) * plan.tile[2]
        blocks = [-(-columns // 128) * -(-values[mn] // 64) * values["batch"] for mn in "mn"]
        of_a_matrix = [values[mn] * columns * plan.bytes_of_pieces for mn in "mn"]
        return max(blocks) >= 2**30 or (values["batch"] > 1 and max(of_a_matrix) >= _TMA_STRIDE)

    def _makes_too_many_tiles(self, m: int, n: int, batch: int) -> bool:
        """More than kernels count, or CTAs than a grid has."""
        plan = self.interface.task.product
        if not isinstance(plan, GemmPlan):
            return False
        (tile_m, tile_n, _), (across, along) = plan.tile_of_d, plan.cluster_of_d
        clusters = -(-m // (tile_m * across)) * -(-n // (tile_n * along)) * batch
        scheduler = plan.scheduler
        resident = scheduler.persistent or scheduler.takes_workspace or scheduler.grouped  # no more than run at once
        ctas = 0 if resident else clusters * scheduler.cluster_ctas
        return -(-m // tile_m) * -(-n // tile_n) * batch > LARGEST or ctas >= 2**31

    def _is_unaligned(self, values: Changes) -> bool:
        """Do metadata, or lines of an A or B that only TMA loads, begin elsewhere than at multiples of 16 bytes?"""
        names = FAR_APART if self.interface.task.product.loads_by_tma_alone else ("metadata_a",)
        of = {name: one for name, one in self.matrices(values).items() if name in names}
        strides = [(values[name], one.bytes) for one in of.values() for name in (one.pitch, one.between) if name]
        return any(stride * size % 16 for stride, size in strides)

    def too_large(self, values: Changes) -> list[str]:
        """The matrices of a call that take more bytes than 63 bits count."""
        return [name for name, one in self.matrices(values).items() if one.size(values) > _MOST_BYTES]

    def far_apart(self, values: Changes) -> list[str]:
        """Those whose strides a tensor map cannot have, of a kernel that has no other way to load them."""
        of = self.matrices(values)
        by_tma = self.interface.task.product.loads_by_tma_alone
        return [name for name in FAR_APART if by_tma and name in of and of[name].is_far(values)]

    def wrong(self, answer: Answer) -> str:
        """What of an answer is not as it must be; "" if nothing."""
        values = self.base | answer.changes
        if self.other_faults(values):
            return "" if answer.status else "it is accepted"
        large, far = self.too_large(values), self.far_apart(values)
        expected = [TOO_LARGE.get(name, TOO_LARGE_TENSOR) for name in large] + [FAR_APART[name] for name in far]
        if not expected:
            return f"it is refused with {answer.status}" if answer.status else ""
        if answer.status not in expected:
            return f"status {answer.status}, not of {expected}"
        member, _, rest = answer.sentence.partition(" is ")
        named = member in answer.changes or member in values
        return "" if named and rest.split(",")[0].split(" ")[0] == str(values[member]) else f"says {answer.sentence!r}"


def _members(struct: type[ctypes.Structure]) -> list[tuple[str, type]]:
    """Of a struct and those that it derives from."""
    of = [one for one in reversed(struct.__mro__) if "_fields_" in vars(one)]
    return [(field[0], field[1]) for one in of for field in one._fields_]
