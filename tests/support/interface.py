"""What the C interface of a project that multiplies promises in its header: statuses, and when nothing is launched.

It is asked of the project's own host code, by way of the stand-in for the CUDA runtime.
"""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from enum import IntEnum

from mmagen.core.targets import capability
from mmagen.host_runtime.arguments import Arguments, Info, info_bytes, struct_of
from mmagen.host_runtime.entries import entries_of
from mmagen.host_runtime.library import Device, HostError, Reply, call, text
from mmagen.plan.budgets import SMEM_PER_BLOCK
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated import host
from mmagen.verify.emulated.host import Workspace
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.matrix import Operands
from mmagen.verify.emulated.task import Task


class Status(IntEnum):
    """Of the header, without the library's name."""

    SUCCESS = 0
    CUDA_ERROR = 1
    NO_DRIVER = 2
    OLD_DRIVER = 3
    NO_DEVICE = 4
    WRONG_DEVICE = 5
    SMALL_DEVICE = 6
    NULL_ARGS = 16
    STRUCT_SIZE = 17
    FIXED_SHAPE = 18
    TOO_MANY_TILES = 19
    WRONG_STREAM = 20
    FOREIGN_MEMORY = 21
    NEGATIVE_M = 32
    NEGATIVE_N = 33
    NEGATIVE_K = 34
    NEGATIVE_BATCH = 35
    TOO_LARGE_M = 40
    TOO_LARGE_N = 41
    TOO_LARGE_K = 42
    NULL_A = 48
    NULL_B = 49
    NULL_C = 50
    NULL_D = 51
    NULL_METADATA_A = 52
    NULL_SCALE_A = 53
    NULL_SCALE_B = 54
    MISALIGNED_A = 64
    MISALIGNED_B = 65
    MISALIGNED_C = 66
    MISALIGNED_D = 67
    MISALIGNED_METADATA_A = 68
    MISALIGNED_SCALE_A = 69
    MISALIGNED_SCALE_B = 70
    MISALIGNED_ALPHA = 71
    MISALIGNED_BETA = 72
    MISALIGNED_WORKSPACE = 73
    SHORT_WORKSPACE = 74
    SHORT_LDA = 80
    SHORT_LDB = 81
    SHORT_LDC = 82
    SHORT_LDD = 83
    ALPHA_NOT_INTEGER = 96
    BETA_NOT_INTEGER = 97
    SHARED_D = 98
    NEGATIVE_STRIDE_A = 128
    NEGATIVE_STRIDE_B = 129
    NEGATIVE_STRIDE_C = 130
    NEGATIVE_STRIDE_D = 131
    NULL_TENSOR = 112
    MISALIGNED_TENSOR = 113
    SHORT_TENSOR = 114
    SHARED_TENSOR = 115
    UNUSED_ALPHA = 116
    UNUSED_BETA = 117
    ODD_N = 118
    NEGATIVE_TENSOR = 119
    TOO_LARGE_A = 168
    TOO_LARGE_B = 169
    TOO_LARGE_C = 170
    TOO_LARGE_D = 171
    TOO_LARGE_TENSOR = 172
    TOO_LARGE_MATRIX = 173
    NEGATIVE_MATRIX = 174
    FAR_APART_A = 176
    FAR_APART_B = 177
    FAR_APART_TENSOR = 178


# Of kernels for groups, or sparse ones, alone.
_GROUP_SIZES, _NOT_FOR_TMA, _NEGATIVE_STRIDE_METADATA = 160, 161, 132
LARGEST = 2**31 - 16385  # of an extent, as the header says
_WRAPPING = 2**62 + 16  # a leading dimension that 64 bits hold, and not its bytes; modulo 2^64 they are few
_LARGEST_STRUCT = 4096  # bytes, as interface.cuh says
_CLUSTERS, _STREAM, _ROOM, _SCALARS, _C = 1 << 24, 0x5000, 1 << 40, 0x900000, 3 << 20
_FEW_CLUSTERS = 5  # which share a last wave
# Of cudaError_t.
_INVALID_VALUE, _NO_DRIVER, _NO_DEVICE, _NO_IMAGE, _BAD_PTX = 1, 35, 100, 209, 222
_INVALID_HANDLE, _LAUNCH_FAILURE = 400, 719


@dataclass(frozen=True)
class Case:
    """A call: arguments that differ from good ones, directives before it, and what must come of it. left: the error that
    cudaGetLastError has afterwards; error: that of NAME_cuda_error. says: what the sentence must contain."""

    status: int
    changes: dict[str, float]
    before: str = ""
    left: int = 0
    launches: int | None = None
    error: int = 0
    says: str = ""

    @property
    def expected(self) -> tuple[int, int, int, int, int]:
        """Status of run and of can_run, error left behind, launches, CUDA error."""
        launches = self.launches if self.launches is not None else int(self.status == Status.SUCCESS)
        can_run = Status.SUCCESS if self.before.startswith(("fail launch", "streams")) else self.status
        return (self.status, can_run, self.left, launches, self.error)


@dataclass(frozen=True)
class Interface:
    """The C interface of a compiled project. task: any problem of a kernel that multiplies."""

    task: Task

    def broken(self) -> list[str]:
        """Each promise that the host code does not keep, in words; [] if all are kept."""
        found = [f"{case}: {got}" for case in self._cases() if (got := self._outcome(case)) != case.expected]
        found += self._about_memory() + self._about_copies() + self._about_no_workspace()
        return found + self._about_the_launch() + self._about_the_kernel() + self._about_texts()

    def _outcome(self, case: Case) -> tuple[int, ...] | str:
        """What came of it; in words if a call crashes or the sentence is not as it must be."""
        arguments, symbol = self._arguments(case.changes), self.task.symbol
        # can_run comes last: an error that a launch leaves behind in the runtime does not concern it.
        run = [*call(self.task.run_symbol, arguments, _STREAM), *text(symbol("error_text")), *call(symbol("cuda_error"))]
        try:
            reply = self._ask([*case.before.split(), *run, *call(symbol("can_run"), arguments)])
        except HostError as error:
            return str(error)
        if self._is_behind and reply.values[0] not in (0, reply.values[2]):
            pass  # called past the boundary that keeps sentences
        elif case.says not in reply.texts[0] or (case.status and len(reply.texts[0]) < 8):
            return f"says {reply.texts[0]!r}"
        error = case.error if self._is_behind else reply.values[1]
        launches = len(reply.launches)
        if reply.values[0] == Status.SUCCESS:  # of a call that is refused none may be made
            launches = self._of_the_product(launches)
        return reply.values[0], reply.values[2], reply.left[0], launches, error

    def _of_the_product(self, launches: int) -> int:
        """Of so many launches of a call those that multiply: another may prepare operands before, or add up sums behind."""
        own = max(launches - bool(self.task.product.needs_workspace), 0)
        plan = self.task.product
        return min(own, 1) if isinstance(plan, GemmPlan) and plan.scheduler.workspace_splits is not None else own

    def _about_memory(self) -> list[str]:
        """can_run names a pointer to memory that the device does not reach."""
        found = []
        for name, place in self._places().items() if not self._is_behind else ():
            for device, why in (
                (1, "memory of device 1, which the current device, 0, does not reach"),
                (-2, "that device 0 reaches"),
            ):
                symbol, read = self.task.symbol, name != "c"  # beta is 0
                asked = [*call(symbol("can_run"), self._with_all()), *text(symbol("error_text"))]
                reply = self._ask(["foreign", str(place), str(device), *asked])
                status = Status.FOREIGN_MEMORY if read else Status.SUCCESS
                if reply.values != [status] or (
                    read and not (reply.texts[0].startswith(f"{name} is ") and why in reply.texts[0])
                ):
                    found.append(f"memory of {name} elsewhere ({device}): {reply.values} {reply.texts}")
        return found

    def _about_copies(self) -> list[str]:
        """Operands that TMA cannot address are copied where that pays, but for no call that is refused."""
        of = self.task.library or self.task.product
        if self._is_behind or not isinstance(of, GemmPlan) or not of.copies_operands:
            return []
        odd = {"k": 1 << 14, "lda": (1 << 15) + 1, "ldb": (1 << 15) + 1}
        odd |= {f"ld_{one.name}": 1 << 15 for one in self.task.product.arguments.tensors if one.pitched}

        def launched(changes: dict[str, float]) -> list[str]:
            reply = self._ask(call(self.task.run_symbol, self._arguments(odd | changes), _STREAM))
            found.extend(f"{one.entry} is launched with {one.block[0]} threads" for one in reply.launches if one.block[0] % 32)
            return [one.entry for one in reply.launches]

        found: list[str] = []
        good, refused = launched({}), launched({"d": 0})
        if not good or "copy_operands" not in good[0]:
            found.append(f"launches for operands that are to be copied: {good}")
        return found + ([f"launches for a call that is refused: {refused}"] if refused else [])

    def _about_no_workspace(self) -> list[str]:
        """A workspace that is NULL has no bytes, whatever the call says."""
        if self.task.product.needs_workspace:
            return []  # such a call is refused
        long: dict[str, float] = {"k": 1 << 13, "lda": 1 << 13, "ldb": 1 << 13} if self.task.product.any_shape else {}
        calls = [self._arguments(long | {"workspace": 0, "workspace_bytes": size}) for size in (0, _ROOM)]
        replies = [self._ask(call(self.task.run_symbol, one, _STREAM), clusters=_FEW_CLUSTERS) for one in calls]
        made = [[(one.entry, one.grid, one.params) for one in reply.launches] for reply in replies]
        return [] if made[0] == made[1] else ["launches without a workspace that depend on its bytes"]

    @property
    def _stacked(self) -> bool:
        """Do the rows of all groups lie in one matrix? The batch strides of A, C and D are then not read."""
        return self.task.product.spec.grouped == "contiguous"

    @property
    def _has_pointers(self) -> bool:
        """Has each group matrices of its own? a to d are then arrays of pointers, and batch strides are not read."""
        return self.task.product.spec.grouped == "pointers"

    @property
    def _is_behind(self) -> bool:
        return self.task.run_symbol != self.task.symbol("run")

    def _ask(self, directives: list[str], clusters: int = _CLUSTERS) -> Reply:
        """clusters: that the device runs at once."""
        ptx = self.task.ptx
        assert ptx.host
        target = capability(ptx.arch)
        kernels = (entry for unit in ptx.units.values() for entry in entries_of(unit))
        return ptx.host.ask(Device(target, SMEM_PER_BLOCK[target], clusters), kernels, directives)

    @property
    def _struct(self) -> type[Arguments]:
        return struct_of(self.task.product.arguments.members)

    def _places(self) -> dict[str, int]:
        """Where the matrices begin; all apart, and C at _C."""
        return {name: n << 20 for n, name in enumerate(self._operands().matrices, 4)} | {"c": _C}

    def _operands(self) -> Operands:
        return operands(self.task.product, self.task.problem, "zeros", 1)

    def _good(self) -> bytes:
        """A good call. Groups with matrices of their own have its leading dimensions: those of each are known on the device."""
        given = self._struct.from_buffer_copy(self._with_all())
        for _, name in self.task.product.arguments.members:
            if name.startswith("group_ld"):
                setattr(given, name, 0)
        return bytes(given)

    def _with_all(self) -> bytes:
        """A good call with all arguments that the kernel has."""
        workspace = Workspace(_ROOM, _ROOM) if (self.task.library or self.task.product).takes_workspace else Workspace()
        return host.multiply_arguments(self.task, self._operands(), self._places(), workspace)

    def _arguments(self, changes: dict[str, float]) -> bytes:
        """Good arguments with changes: "field" is given a value, to "+field" one is added."""
        given = self._struct.from_buffer_copy(self._good())
        for change, value in changes.items():
            field = change.removeprefix("+")
            before = getattr(given, field) if change != field else 0
            setattr(given, field, before + value)
        return bytes(given)

    def _cases(self) -> list[Case]:
        plan, data = self.task.product, self._operands()
        a_row = data.a.columns if plan.majors[0] == "K" else data.a.rows
        good = [Case(Status.SUCCESS, {})]
        pointers = [Case(Status[f"NULL_{name.upper()}"], {name: 0}, says=f"{name} is NULL") for name in "abd"]
        bytes_of = {name: 8 if self._has_pointers else getattr(data, name).view.itemsize for name in "abd"}
        misaligned = [
            Case(Status[f"MISALIGNED_{name.upper()}"], {f"+{name}": more}, says=f"not aligned to {size} bytes")
            for name, size in bytes_of.items()
            for more in {size // 2, 1}
            if size > 1
        ]
        short = [Case(Status[f"SHORT_LD{name.upper()}"], {f"+ld{name}": -1}, says=f"ld{name} is ") for name in "abd"]
        if plan.any_shape:
            short.append(Case(Status.SHORT_LDA, {"lda": a_row - 1}, says=f"lda is {a_row - 1}; a line of A along"))
        large = [
            Case(Status[f"TOO_LARGE_{name.upper()}"], {f"ld{name}": _WRAPPING}, says=f"ld{name} is {_WRAPPING}, of ")
            for name in "abd"
        ]
        return (
            good
            + pointers
            + misaligned
            + short
            + large
            + self._further()
            + self._devices()
            + (self._gemm() if plan.any_shape else self._fixed())
        )

    def _further(self) -> list[Case]:
        """The tensors beyond A, B, C and D."""
        cases = []
        tensors = self.task.product.arguments.tensors
        apart = {"batch": 2, "batch_stride_d": 1 << 30} | {
            f"batch_stride_{one.name}": 1 << 20 for one in tensors if one.batched
        }
        for one in tensors:
            is_metadata = one.name == "metadata_a"
            if one.batched and self.task.product.any_shape and not self.task.product.spec.grouped:
                negative = {f"batch_stride_{one.name}": -16}
                says = f"batch_stride_{one.name} is -16"
                status = _NEGATIVE_STRIDE_METADATA if is_metadata else Status.NEGATIVE_TENSOR
                cases.append(Case(status, apart | negative, says=says))
            name, line = one.name, one.line.value({"m": 256, "n": 192, "k": 128, "batch": 1})
            missing, says = (Status.NULL_TENSOR, f"{name} is NULL") if one.required else (Status.SUCCESS, "")
            if is_metadata:
                missing, says = Status.NULL_METADATA_A, "metadata_a is NULL"
            elif name == "group_offsets":  # and no group_ends
                missing, says = _GROUP_SIZES, "group_offsets and group_ends are both"
            cases.append(Case(missing, {name: 0}, says=says))
            if one.aligned_to > 1:
                misaligned = Status.MISALIGNED_METADATA_A if is_metadata else Status.MISALIGNED_TENSOR
                cases.append(Case(misaligned, {f"+{name}": 1}, says=name))
            if one.pitched:
                says = f"ld_{name} is {line - 1}; a line of {name} has {line} elements"
                cases.append(Case(Status.SHORT_TENSOR, {f"ld_{name}": line - 1}, says=says))
        return cases

    def _devices(self) -> list[Case]:
        """What is wrong with the machine."""
        set_attribute = "fail cudaFuncSetAttribute"
        own = capability(self.task.ptx.arch)
        needs = f"this device is sm_{own}, the kernel needs sm_{own}"
        small = f"bytes of shared memory for a CTA; the kernel needs {self.task.product.facts.smem_bytes}, and SMs"
        no_driver, old = "this machine has no CUDA driver", "it supports CUDA 11.8, and this library was built with CUDA "
        cases = [
            Case(Status.WRONG_DEVICE, {}, f"{set_attribute} {_NO_IMAGE}", error=_NO_IMAGE, says=needs),
            Case(Status.SMALL_DEVICE, {}, f"{set_attribute} {_INVALID_VALUE}", error=_INVALID_VALUE, says=small),
            Case(Status.NO_DRIVER, {}, f"driver 0 {set_attribute} {_NO_DRIVER}", error=_NO_DRIVER, says=no_driver),
            Case(Status.OLD_DRIVER, {}, f"driver 11080 {set_attribute} {_NO_DRIVER}", error=_NO_DRIVER, says=old),
            Case(Status.OLD_DRIVER, {}, f"driver 11080 {set_attribute} {_BAD_PTX}", error=_BAD_PTX, says=old),
            Case(Status.NO_DEVICE, {}, f"{set_attribute} {_NO_DEVICE}", error=_NO_DEVICE, says="shows no device"),
            Case(Status.SUCCESS, {}, f"pending {_LAUNCH_FAILURE}", left=_LAUNCH_FAILURE),
        ]
        stream = "stream is no stream of the current device, which is device 0"
        cases.append(Case(Status.WRONG_STREAM, {}, "streams 1", says=stream))
        cases.append(Case(Status.WRONG_STREAM, {}, f"fail launch {_INVALID_HANDLE}", error=_INVALID_HANDLE, says=stream))
        cases.append(Case(Status.SUCCESS, {}, f"fail cudaStreamGetDevice {_INVALID_VALUE}"))
        cases.append(Case(Status.SUCCESS, {}, f"fail cudaStreamIsCapturing {_INVALID_VALUE}"))
        cases.append(Case(Status.SUCCESS, {}, "capture"))
        failing = {"left": _LAUNCH_FAILURE, "error": _LAUNCH_FAILURE, "says": f"CUDA error {_LAUNCH_FAILURE}"}
        return [*cases, Case(Status.CUDA_ERROR, {}, f"fail launch {_LAUNCH_FAILURE}", **failing)]

    def _fixed(self) -> list[Case]:
        """A kernel of one tile: another problem is refused."""
        extents = [Case(Status.FIXED_SHAPE, {f"+{name}": step}) for name in "mnk" for step in (-1, 1)]
        others = [{"batch": 2}, {"batch": -1}, {"alpha": 2}, {"beta": 1}, {"alpha_device": _SCALARS}, {"beta_device": _SCALARS}]
        return [*extents, *(Case(Status.FIXED_SHAPE, one) for one in others), Case(Status.SUCCESS, {"batch": 0})]

    def _gemm(self) -> list[Case]:
        pairs = self.task.product.facts.columns_of_element
        one = {"m": 1, "n": pairs, "k": 1, "batch": 1}
        nothing = [{"m": 0}, {"n": 0}, {"m": 0, "n": 2**31}, {"m": 0, "a": 0, "b": 0, "d": 0}]
        cases = [Case(Status.SUCCESS, changes, launches=0) for changes in nothing]
        cases += [Case(Status[f"NEGATIVE_{name.upper()}"], {name: -1}, says=f"{name} is -1") for name in one]
        most = dict.fromkeys("mn", LARGEST) | {"k": self.task.product.facts.most_k or LARGEST}
        cases += [Case(Status.SUCCESS, self._packed(one | {name: most[name] - most[name] % one[name]})) for name in "mnk"]
        if pairs > 1:
            odd = (1, 191, LARGEST)
            cases += [Case(Status.ODD_N, self._packed(one | {"n": n}), says=f"n is {n}; each element of D") for n in odd]
        cases += [
            Case(
                Status[f"TOO_LARGE_{name.upper()}"],
                self._packed(one | {name: most[name] + 1}),
                says=f"{name} is {most[name] + 1}, {most[name]} is the most",
            )
            for name in "mnk"
        ]
        many = [{"batch": LARGEST + 1, "batch_stride_d": 1}, {"m": LARGEST, "n": LARGEST}]
        many.append({"m": LARGEST, "batch": LARGEST, "batch_stride_d": 1})
        cases += [Case(Status.TOO_MANY_TILES, one | extents) for extents in many]
        cases += [Case(Status.SUCCESS, {"k": 0, "a": 0, "b": 0}), Case(Status.NULL_D, {"k": 0, "d": 0})]
        strides = {"batch_stride_a": 0, "batch_stride_b": 0, "batch_stride_c": 0}
        cases += [Case(Status.SUCCESS, {"batch": 0}), Case(Status.SUCCESS, {"batch": 2, **strides, "batch_stride_d": 1 << 30})]
        shared = {"batch": 2, **strides, "batch_stride_d": 0}
        not_read = self._stacked or self._has_pointers
        cases += [Case(Status.SUCCESS, shared) if not_read else Case(Status.SHARED_D, shared, says="batch is 2")]
        apart = {"batch": 2, **strides, "batch_stride_d": 1 << 30}
        for name in "abd":
            cases += [self._negative(name, apart), Case(Status.SUCCESS, {f"batch_stride_{name}": -16})]
        if self._has_pointers:
            cases += self._lines_of_groups()
        elif self.task.product.spec.grouped:
            bytes_of = {"a": self._operands().a.view.itemsize, "b": self._operands().b.view.itemsize}
            unaligned = [({f"+{name}": 8}, f"{name} is 0x") for name in "ab"]
            unaligned += [({f"+ld{name}": 8 // bytes_of[name]}, f"ld{name} is ") for name in "ab"]
            unaligned += [({**apart, "batch_stride_b": 8 // bytes_of["b"]}, "batch_stride_b is ")]
            cases += [Case(_NOT_FOR_TMA, changes, says=says) for changes, says in unaligned]
        if self.task.product.sums_in_workspace:  # copies are aligned within it; of a library, kernels without one ignore it
            cases += [Case(Status.MISALIGNED_WORKSPACE, {"+workspace": 8})]
        if self.task.product.needs_workspace:
            cases += [Case(Status.SHORT_WORKSPACE, {"workspace": 0}, says="workspace is NULL; this call needs one")]
            few = (-1, 100)
            cases += [Case(Status.SHORT_WORKSPACE, {"workspace_bytes": n}, says=f"workspace_bytes is {n}, fewer") for n in few]
            cases += [Case(Status.MISALIGNED_WORKSPACE, {"+workspace": 8})]
            cases += self._pieces()
        elif self.task.product.takes_workspace:
            cases += [Case(Status.SUCCESS, {"workspace": 0}), Case(Status.SUCCESS, {"workspace_bytes": -1})]
        return cases + self._scalars()

    def _lines_of_groups(self) -> list[Case]:
        """A leading dimension is read unless each group has its own; TMA loads A and B."""
        bytes_of = {name: getattr(self._operands(), name).view.itemsize for name in "ab"}
        unaligned = {name: {f"+ld{name}": 8 // size} for name, size in bytes_of.items()}
        own = {name: {f"group_ld{name}": _C} for name in "abd"}
        cases = [
            Case(_NOT_FOR_TMA, more, says=f"ld{name} is ") for name, one in unaligned.items() for more in (one, one | own["d"])
        ]
        cases += [Case(Status.SUCCESS, one | own[name]) for name, one in unaligned.items()]
        cases += [Case(Status.SUCCESS, one | {"k": 0}) for one in unaligned.values()]
        wrong = (0, 1, -(2**63), _WRAPPING)
        cases += [Case(Status.SUCCESS, one | {f"ld{name}": ld}) for name, one in own.items() for ld in wrong]
        for one in self.task.product.arguments.of_groups:
            if one.pitched:
                cases += [Case(Status.SUCCESS, {f"ld_{one.name}": ld, f"group_ld_{one.name}": _C}) for ld in wrong]
        return cases

    def _packed(self, extents: dict[str, int]) -> dict[str, float]:
        """A call of these extents with the least leading dimensions that TMA takes."""
        plan = self.task.product
        members, rows = zip("abcd", (*plan.majors, plan.majors[2]), strict=True), {"M": "m", "N": "n", "K": "k"}
        lines = {f"ld{name}": extents[rows[major]] for name, major in members}
        lines |= {f"ld_{one.name}": one.line.value(extents) for one in plan.arguments.tensors if one.pitched}
        return {**extents, **{name: -(-line // 16) * 16 for name, line in lines.items()}}

    def _pieces(self) -> list[Case]:
        """Blocks of 64 x 128 elements that a kernel splits: at most 2^30 - 1 of each operand."""
        if not self.task.product.accumulation.of_pieces:
            return []
        room, narrow = {"workspace_bytes": 1 << 60}, {"m": 1, "n": 1, "k": 1, "batch": 1}
        least, most = 128 * 32, -(-LARGEST // 64)  # K of 32 blocks of columns; blocks of lines
        assert most * 32 < 2**30 <= most * 33

        def call(x: str, k: int) -> dict[str, float]:
            return room | self._packed(narrow | {x: LARGEST, "k": k})

        longer = [Case(Status[f"TOO_LARGE_{x.upper()}"], call(x, least + 1)) for x in "mn"]
        return [*longer, *(Case(Status.SUCCESS, call(x, least)) for x in "mn")]

    def _negative(self, name: str, apart: dict[str, float]) -> Case:
        """A negative batch stride, of calls with several matrices of this kind."""
        changes = apart | {f"batch_stride_{name}": -16}
        if self._has_pointers or (self._stacked and name != "b"):
            return Case(Status.SUCCESS, changes)
        return Case(Status[f"NEGATIVE_STRIDE_{name.upper()}"], changes, says=f"batch_stride_{name} is -16")

    def _scalars(self) -> list[Case]:
        """alpha, beta and C."""
        words = {one.word for one in self.task.product.epilogue.operations}
        if self.task.product.ignores_scalars:
            cases = []
            if "alpha" not in words:
                cases += [Case(Status.UNUSED_ALPHA, {"alpha": 2}, says="alpha is 2; this epilogue")]
                cases += [Case(Status.UNUSED_ALPHA, {"alpha_device": _SCALARS}, says="no alpha_device")]
            if "beta_c" not in words:
                cases += [Case(Status.UNUSED_BETA, {"beta": -1}, says="beta is -1; this epilogue")]
                cases += [Case(Status.UNUSED_BETA, {"beta_device": _SCALARS}, says="no beta_device")]
            return cases
        with_c = {"beta": 1, "c": _C, "ldc": 1 << 20}
        device = {"beta_device": _SCALARS, "c": _C, "ldc": 1 << 20}
        cases = [Case(Status.SUCCESS, with_c), Case(Status.NULL_C, with_c | {"c": 0})]
        apart = {"batch": 2, "batch_stride_d": 1 << 30}
        cases += [self._negative("c", with_c | apart), Case(Status.SUCCESS, apart | {"batch_stride_c": -16})]
        cases += [Case(Status.SHORT_LDC, with_c | {"ldc": 1}, says="ldc is 1; a line of C"), Case(Status.SUCCESS, device)]
        cases += [Case(Status.NULL_C, device | {"c": 0}), Case(Status.SUCCESS, {"beta": 0, "c": 1, "ldc": 0})]
        cases += [Case(Status.SUCCESS, {"alpha_device": _SCALARS, "alpha": float("nan")})]
        cases += [Case(Status.MISALIGNED_ALPHA, {"alpha_device": _SCALARS + 1}, says="alpha_device is ")]
        cases += [Case(Status.MISALIGNED_BETA, device | {"beta_device": _SCALARS + 2}, says="beta_device is ")]
        if self._operands().d.view.itemsize > 1:
            cases += [Case(Status.MISALIGNED_C, with_c | {"c": _C + 1})]
        values: tuple[float, ...] = (0.5, 2.0**31, -(2.0**31) - 1, float("nan"), float("inf"))
        if self.task.product.epilogue.scalar.word == "s32":
            cases += [Case(Status.ALPHA_NOT_INTEGER, {"alpha": value}, says="alpha is ") for value in values]
            cases += [Case(Status.BETA_NOT_INTEGER, with_c | {"beta": value}, says="beta is ") for value in values]
            cases += [Case(Status.SUCCESS, {"alpha": value}) for value in (-(2.0**31), 2.0**31 - 1)]
        return cases

    def _about_the_launch(self) -> list[str]:
        plan = self.task.product
        reply = self._ask(call(self.task.run_symbol, self._good(), _STREAM))
        if self._of_the_product(len(reply.launches)) != 1:
            return [f"{len(reply.launches)} launches for good arguments"]
        it = reply.launches[bool(plan.needs_workspace)]
        facts = {
            "threads": (it.block, (plan.threads, 1, 1)),
            "dynamic shared memory": (it.shared_bytes <= plan.smem_bytes, True),
            "stream": (it.stream, _STREAM),
        }
        return [f"{what} of the launch: {is_}, not {must}" for what, (is_, must) in facts.items() if is_ != must]

    def _about_the_kernel(self) -> list[str]:
        symbol = self.task.symbol("query")
        small = bytes(Info(struct_size=ctypes.sizeof(Info) - 1))
        reply = self._ask([*call(symbol, 0), *call(symbol, small), *call(symbol, info_bytes())])
        info = Info.from_buffer_copy(reply.outputs[-1])
        plan = self.task.product
        facts: dict[str, tuple[object, object]] = {
            "status of a query": (tuple(reply.values), (Status.NULL_ARGS, Status.STRUCT_SIZE, Status.SUCCESS)),
            "threads": (info.threads, plan.threads),
            "shared memory": (info.smem_bytes, plan.smem_bytes),
            "CTAs for each SM": (info.ctas_per_sm > 0, True),
        }
        failing = self._ask([*f"fail cudaFuncGetAttributes {_NO_IMAGE}".split(), *call(symbol, info_bytes())])
        facts["status of a failing query"] = ((failing.values[-1], failing.left[-1]), (Status.WRONG_DEVICE, 0))
        facts |= self._about_the_struct()
        return [f"{what}: {is_}, not {must}" for what, (is_, must) in facts.items() if is_ != must]

    def _about_the_struct(self) -> dict[str, tuple[object, object]]:
        """Structs of other versions, which NAME_run reads; and the workspace."""
        run, good = self.task.symbol("run"), self._good()
        longer = self._struct.from_buffer_copy(good)
        longer.struct_size += 8
        shorter = self._struct.from_buffer_copy(good)
        shorter.struct_size -= 8
        wild = self._struct.from_buffer_copy(good)
        wild.struct_size = 1 << 40
        largest = self._struct.from_buffer_copy(good)
        largest.struct_size = _LARGEST_STRUCT
        rest = bytes(_LARGEST_STRUCT - len(good))
        structs = {
            "no struct": (0, Status.NULL_ARGS),
            "a shorter struct": (bytes(shorter), Status.STRUCT_SIZE),
            "a longer struct of zeros": (bytes(longer) + bytes(8), Status.SUCCESS),
            "a longer struct": (bytes(longer) + b"\0\0\0\1\0\0\0\0", Status.STRUCT_SIZE),
            "no size": (bytes(len(good)), Status.STRUCT_SIZE),
            "the largest struct": (bytes(largest) + rest, Status.SUCCESS),
            "a wild size": (bytes(wild), Status.STRUCT_SIZE),
        }
        found: dict[str, tuple[object, object]] = {}
        for what, (given, must) in structs.items():
            reply = self._ask(call(run, given, _STREAM))
            launches = self._of_the_product(len(reply.launches))
            found[what] = ((reply.values[-1], launches), (must, int(must == Status.SUCCESS)))
        workspace = self.task.symbol("workspace_bytes")
        reply = self._ask([*call(workspace, good, 0), *call(workspace, 0, bytes(8)), *call(workspace, good, bytes(8))])
        room = int.from_bytes(reply.outputs[-1], "little")
        found["status of workspace_bytes"] = (tuple(reply.values), (Status.NULL_ARGS, Status.NULL_ARGS, Status.SUCCESS))
        if not self.task.library:  # which asks the kernel that it chooses
            found["a workspace"] = (room > 0 and not self.task.product.takes_workspace, False)
        return found

    def _about_texts(self) -> list[str]:
        """Each status has a sentence of its own, and the library describes itself."""
        name = self.task.symbol
        all_ = [*map(int, Status), 99]
        asked = [word for status in all_ for word in text(name("status_text"), status)]
        reply = self._ask([*asked, *text(name("version")), *text(name("description"))])
        texts, version, about = reply.texts[: len(all_)], reply.texts[-2], json.loads(reply.texts[-1])
        wrong = [f"text of status {n}: {one!r}" for n, one in zip(all_, texts, strict=True) if not one]
        wrong += ["two statuses have the same text"] if len(set(texts)) < len(texts) else []
        plan = self.task.library or self.task.product
        described = {"mmagen": version, "name": plan.name, "kernel": plan.kernel, "spec_sha": plan.spec_sha}
        return wrong + [f"{key} in the description: {about[key]}" for key, value in described.items() if about[key] != value]


def interface_of(task: Task) -> Interface:
    """The interface that `task` calls, asked with a problem whose rows are aligned."""
    of_groups = {"groups": [256]} if task.problem.groups else {}
    shape = {"shape": (256, 192, 128)}
    problem = Problem.model_validate({**shape, **of_groups}) if task.product.any_shape else task.problem
    return Interface(Task(task.plan, task.ptx, problem, "zeros", 1, task.library, task.config))
