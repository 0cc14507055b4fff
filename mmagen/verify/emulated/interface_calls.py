"""Calls of the C interface of a project that multiplies, right ones and wrong ones, and what its header says of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from mmagen.core.targets import capability
from mmagen.host_runtime.arguments import Arguments, struct_of
from mmagen.verify.emulated import host
from mmagen.verify.emulated.host import Workspace
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.matrix import Operands
from mmagen.verify.emulated.statuses import Status
from mmagen.verify.emulated.task import Task

# Of kernels for groups, or sparse ones, alone.
_GROUP_SIZES, _NOT_FOR_TMA, _NEGATIVE_STRIDE_METADATA = 160, 161, 132
LARGEST = 2**31 - 16385  # of an extent, as the header says
_WRAPPING = 2**62 + 16  # a leading dimension that 64 bits hold, and not its bytes; modulo 2^64 they are few
ROOM = 1 << 40  # bytes of a workspace
_TMA_STRIDE, _TMA_STEP = 1 << 40, 16  # bytes: strides of a tensor map are less, and multiples of the other
_SCALARS, _C = 0x900000, 3 << 20
# Of cudaError_t.
_INVALID_VALUE, _NO_DRIVER, _NO_DEVICE, NO_IMAGE, _BAD_PTX = 1, 35, 100, 209, 222
_INVALID_HANDLE, _LAUNCH_FAILURE = 400, 719
_NOT_INTEGERS = (0.5, 2.0**31, -(2.0**31) - 1, float("nan"), float("inf"))  # as s32


@dataclass(frozen=True)
class Case:
    """A call: arguments that differ from good ones, directives before it, and what must come of it. left: the error that
    cudaGetLastError has afterwards; error: that of NAME_cuda_error. says: what the sentence must contain."""

    status: int
    changes: Mapping[str, float]
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

    def told(self, got: tuple[int, ...] | str) -> str:
        """What came of the call in words. got: as `expected`, or a text."""
        changes = ", ".join(f"{name} {value:g}" for name, value in self.changes.items()) or "good arguments"
        call = f"a call with {changes}{f' after {self.before}' if self.before else ''}"
        if isinstance(got, str):
            return f"{call} {got}, expected a sentence with {self.says!r}" if self.says else f"{call}: {got}"
        names = ("status", "status of can_run", "error left behind", "launches", "CUDA error")
        differing = zip(names, got, self.expected, strict=True)
        return f"{call}: {', '.join(f'{name} {is_}, expected {must}' for name, is_, must in differing if is_ != must)}"


@dataclass(frozen=True)
class Calls:
    """Calls of the library of a kernel that multiplies. task: any problem of it; its matrices are those of the calls, unless a call
    changes them."""

    task: Task

    @property
    def stacked(self) -> bool:
        """Do the rows of all groups lie in one matrix? The batch strides of A, C and D are then not read."""
        return self.task.product.spec.grouped == "contiguous"

    @property
    def has_pointers(self) -> bool:
        """Has each group matrices of its own? a to d are then arrays of pointers, and batch strides are not read."""
        return self.task.product.spec.grouped == "pointers"

    @property
    def is_behind(self) -> bool:
        return self.task.run_symbol != self.task.symbol("run")

    @cached_property
    def struct(self) -> type[Arguments]:
        return struct_of(self.task.product.arguments.members)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where the matrices begin; all apart, and C at _C."""
        return {name: n << 20 for n, name in enumerate(self.data.matrices, 4)} | {"c": _C}

    @cached_property
    def data(self) -> Operands:
        return operands(self.task.product, self.task.problem, "zeros", 1)

    @cached_property
    def good(self) -> bytes:
        """A good call. Groups with matrices of their own have its leading dimensions: those of each are known on the device."""
        given = self.struct.from_buffer_copy(self.with_all)
        for _, name in self.task.product.arguments.members:
            if name.startswith("group_ld"):
                setattr(given, name, 0)
        return bytes(given)

    @cached_property
    def with_all(self) -> bytes:
        """A good call with all arguments that the kernel has."""
        workspace = Workspace(ROOM, ROOM) if (self.task.library or self.task.product).takes_workspace else Workspace()
        return host.multiply_arguments(self.task, self.data, self.places, workspace)

    def arguments(self, changes: Mapping[str, float]) -> bytes:
        """Good arguments with changes: "field" is given a value, to "+field" one is added."""
        given = self.struct.from_buffer_copy(self.good)
        for change, value in changes.items():
            field = change.removeprefix("+")
            before = getattr(given, field) if change != field else 0
            setattr(given, field, before + value)
        return bytes(given)

    def all(self) -> list[Case]:
        plan, data = self.task.product, self.data
        a_row = data.a.columns if plan.majors[0] == "K" else data.a.rows
        good = [Case(Status.SUCCESS, {})]
        pointers = [Case(Status[f"NULL_{name.upper()}"], {name: 0}, says=f"{name} is NULL") for name in "abd"]
        bytes_of = {name: 8 if self.has_pointers else getattr(data, name).view.itemsize for name in "abd"}
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
            missing: int
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
        needs = f"this device is sm_{own}, the kernel needs {self.task.product.facts.needs}"
        small = f"bytes of shared memory for a CTA; the kernel needs {self.task.product.facts.smem_bytes}, and SMs"
        no_driver, old = "this machine has no CUDA driver", "it supports CUDA 11.8, and this library was built with CUDA "
        cases = [
            Case(Status.WRONG_DEVICE, {}, f"{set_attribute} {NO_IMAGE}", error=NO_IMAGE, says=needs),
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
        failure, says = _LAUNCH_FAILURE, f"CUDA error {_LAUNCH_FAILURE}"
        return [*cases, Case(Status.CUDA_ERROR, {}, f"fail launch {failure}", left=failure, error=failure, says=says)]

    def _fixed(self) -> list[Case]:
        """A kernel of one tile: another problem is refused."""
        extents = [Case(Status.FIXED_SHAPE, {f"+{name}": step}) for name in "mnk" for step in (-1, 1)]
        others = [{"batch": 2}, {"batch": -1}, {"alpha": 2}, {"beta": 1}, {"alpha_device": _SCALARS}, {"beta_device": _SCALARS}]
        return [*extents, *(Case(Status.FIXED_SHAPE, one) for one in others), Case(Status.SUCCESS, {"batch": 0})]

    def _gemm(self) -> list[Case]:
        pairs = self.task.product.facts.columns_of_element
        one = {"m": 1, "n": pairs, "k": 1, "batch": 1}
        nothing: list[dict[str, float]] = [{"m": 0}, {"n": 0}, {"m": 0, "n": 2**31}, *self._nothing()]
        cases = [Case(Status.SUCCESS, changes, launches=0) for changes in nothing]
        cases += [Case(Status[f"NEGATIVE_{name.upper()}"], {name: -1}, says=f"{name} is -1") for name in one]
        most = dict.fromkeys("mn", LARGEST) | {"k": self.task.product.facts.most_k or LARGEST}
        cases += [Case(Status.SUCCESS, self.packed(one | {name: most[name] - most[name] % one[name]})) for name in "mnk"]
        if pairs > 1:
            odd = (1, 191, LARGEST)
            cases += [Case(Status.ODD_N, self.packed(one | {"n": n}), says=f"n is {n}; each element of D") for n in odd]
        cases += [
            Case(
                Status[f"TOO_LARGE_{name.upper()}"],
                self.packed(one | {name: most[name] + 1}),
                says=f"{name} is {most[name] + 1}, {most[name]} is the most",
            )
            for name in "mnk"
        ]
        many = [{"batch": LARGEST + 1, "batch_stride_d": 1}, {"m": LARGEST, "n": LARGEST}]
        many.append({"m": LARGEST, "batch": LARGEST, "batch_stride_d": 1})
        cases += [Case(Status.TOO_MANY_TILES, one | extents) for extents in many]
        of_operands = {one.name for one in self.task.product.arguments.tensors} & {"metadata_a"}
        none: dict[str, float] = dict.fromkeys(["k", "a", "b", *of_operands], 0)
        cases += [Case(Status.SUCCESS, none), Case(Status.NULL_D, {"k": 0, "d": 0})]
        strides = {"batch_stride_a": 0, "batch_stride_b": 0, "batch_stride_c": 0}
        cases += [Case(Status.SUCCESS, {"batch": 0}), Case(Status.SUCCESS, {"batch": 2, **strides, "batch_stride_d": 1 << 30})]
        shared = {"batch": 2, **strides, "batch_stride_d": 0}
        not_read = self.stacked or self.has_pointers
        cases += [Case(Status.SUCCESS, shared) if not_read else Case(Status.SHARED_D, shared, says="batch is 2")]
        apart = {"batch": 2, **strides, "batch_stride_d": 1 << 30}
        for name in "abd":
            cases += [self._negative(name, apart), Case(Status.SUCCESS, {f"batch_stride_{name}": -16})]
        cases += self._far_apart(apart)
        if self.has_pointers:
            cases += self._lines_of_groups()
        elif self.task.product.spec.grouped:
            bytes_of = {"a": self.data.a.view.itemsize, "b": self.data.b.view.itemsize}
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

    def _nothing(self) -> list[dict[str, float]]:
        """Calls of no element of D, whose matrices, tensors and strides are all wrong: nothing but the extents is read."""
        tensors = self.task.product.arguments.tensors
        pointers = [*"abcd", *(one.name for one in tensors)]
        lines = [*(f"ld{name}" for name in "abcd"), *(f"ld_{one.name}" for one in tensors if one.pitched)]
        strides = [f"batch_stride_{name}" for name in (*"abcd", *(one.name for one in tensors if one.batched))]

        def call(extent: str, pointer: int, line: int, stride: int) -> dict[str, float]:
            wrong = dict.fromkeys(pointers, pointer) | dict.fromkeys(lines, line) | dict.fromkeys(strides, stride)
            return {extent: 0, "batch": 2, **wrong}

        return [call(extent, *wrong) for extent in "mn" for wrong in ((0, 0, -1), (1, _WRAPPING, _WRAPPING))]

    def _far_apart(self, apart: Mapping[str, float]) -> list[Case]:
        """Strides that no tensor map has, and the longest that one has, where A and B are loaded by TMA alone. apart: a batch."""
        cases: list[Case] = []
        if not self.task.product.loads_by_tma_alone:
            return cases
        for name in "ab":
            size = getattr(self.data, name).view.itemsize
            end, step = _TMA_STRIDE // size, _TMA_STEP // size
            of_one = self.has_pointers or (self.stacked and name == "a")  # no stride of a batch is read
            strides: dict[str, tuple[str, Mapping[str, float]]] = {f"ld{name}": ("lines", {})}
            if not of_one:
                strides[f"batch_stride_{name}"] = "matrices", apart
            for member, (what, batch) in strides.items():
                says = f"{member} is {end}, of {size} bytes each; TMA addresses {what} of {name.upper()}"
                cases.append(Case(Status[f"FAR_APART_{name.upper()}"], {**batch, member: end}, says=says))
                cases.append(Case(Status.SUCCESS, {**batch, member: end - step}))
        return cases

    def _lines_of_groups(self) -> list[Case]:
        """A leading dimension is read unless each group has its own; TMA loads A and B."""
        bytes_of = {name: getattr(self.data, name).view.itemsize for name in "ab"}
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

    def packed(self, extents: dict[str, int]) -> dict[str, float]:
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
        pairs = self.task.product.facts.columns_of_element
        room, narrow = {"workspace_bytes": 1 << 60}, {"m": 1, "n": pairs, "k": 1, "batch": 1}
        least, most = 128 * 32, -(-LARGEST // 64)  # K of 32 blocks of columns; blocks of lines
        assert most * 32 < 2**30 <= most * 33

        def call(x: str, k: int) -> dict[str, float]:
            return room | self.packed(narrow | {x: LARGEST - LARGEST % narrow[x], "k": k})

        longer = [Case(Status[f"TOO_LARGE_{x.upper()}"], call(x, least + 1)) for x in "mn"]
        return [*longer, *(Case(Status.SUCCESS, call(x, least)) for x in "mn")]

    def _negative(self, name: str, apart: Mapping[str, float]) -> Case:
        """A negative batch stride, of calls with several matrices of this kind."""
        changes = {**apart, f"batch_stride_{name}": -16}
        if self.has_pointers or (self.stacked and name != "b"):
            return Case(Status.SUCCESS, changes)
        return Case(Status[f"NEGATIVE_STRIDE_{name.upper()}"], changes, says=f"batch_stride_{name} is -16")

    def _scalars(self) -> list[Case]:
        """alpha, beta and C."""
        words = {one.word for one in self.task.product.epilogue.operations}
        has_both = not self.task.product.ignores_scalars
        cases = self._alpha() if has_both or "alpha" in words else self._no_alpha()
        return cases + (self._beta() if has_both or "beta_c" in words else self._no_beta())

    @staticmethod
    def _no_alpha() -> list[Case]:
        """An alpha that the epilogue has no use for."""
        says = "alpha is 2; this epilogue"
        device = Case(Status.UNUSED_ALPHA, {"alpha_device": _SCALARS}, says="no alpha_device")
        return [Case(Status.UNUSED_ALPHA, {"alpha": 2}, says=says), device]

    @staticmethod
    def _no_beta() -> list[Case]:
        """A beta that the epilogue has no use for."""
        says = "beta is -1; this epilogue"
        return [
            Case(Status.UNUSED_BETA, {"beta": -1}, says=says),
            Case(Status.UNUSED_BETA, {"beta_device": _SCALARS}, says="no beta_device"),
        ]

    def _alpha(self) -> list[Case]:
        cases = [Case(Status.SUCCESS, {"alpha_device": _SCALARS, "alpha": float("nan")})]
        cases += [Case(Status.MISALIGNED_ALPHA, {"alpha_device": _SCALARS + 1}, says="alpha_device is ")]
        if self.task.product.epilogue.scalar.word == "s32":
            cases += [Case(Status.ALPHA_NOT_INTEGER, {"alpha": value}, says="alpha is ") for value in _NOT_INTEGERS]
            cases += [Case(Status.SUCCESS, {"alpha": value}) for value in (-(2.0**31), 2.0**31 - 1)]
        return cases

    def _beta(self) -> list[Case]:
        """And C, which is read if beta is not 0."""
        with_c = {"beta": 1, "c": _C, "ldc": 1 << 20}
        device = {"beta_device": _SCALARS, "c": _C, "ldc": 1 << 20}
        cases = [Case(Status.SUCCESS, with_c), Case(Status.NULL_C, with_c | {"c": 0})]
        apart = {"batch": 2, "batch_stride_d": 1 << 30}
        cases += [self._negative("c", with_c | apart), Case(Status.SUCCESS, apart | {"batch_stride_c": -16})]
        cases += [Case(Status.SHORT_LDC, with_c | {"ldc": 1}, says="ldc is 1; a line of C"), Case(Status.SUCCESS, device)]
        cases += [Case(Status.NULL_C, device | {"c": 0}), Case(Status.SUCCESS, {"beta": 0, "c": 1, "ldc": 0})]
        cases += [Case(Status.MISALIGNED_BETA, device | {"beta_device": _SCALARS + 2}, says="beta_device is ")]
        if self.task.product.epilogue.out.bytes > 1:
            cases += [Case(Status.MISALIGNED_C, with_c | {"c": _C + 1})]
        if self.task.product.epilogue.scalar.word == "s32":
            cases += [Case(Status.BETA_NOT_INTEGER, with_c | {"beta": value}, says="beta is ") for value in _NOT_INTEGERS]
        return cases
