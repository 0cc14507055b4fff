"""What the C interface of a project that multiplies promises in its header: statuses, and when nothing is launched.

It is asked of the project's own host code, by way of the stand-in for the CUDA runtime.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mmagen.core.targets import capability
from mmagen.host_runtime.entries import entries_of
from mmagen.host_runtime.library import Device, HostError, Reply, call, text
from mmagen.plan.budgets import SMEM_PER_BLOCK
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated import host
from mmagen.verify.emulated.host import Workspace
from mmagen.verify.emulated.matrices import Operands, operands
from mmagen.verify.emulated.task import Task

SUCCESS, INVALID, NOT_SUPPORTED, CUDA_ERROR, TOO_LARGE, FIXED_SHAPE = range(6)
LARGEST = 2**31 - 16385  # of an extent, as the header says
_CLUSTERS, _STREAM, _ROOM = 1 << 24, 0x5000, 1 << 40
_PLACES = {name: n << 20 for n, name in enumerate("abcd", 1)}
# The fields of <name>_args are all of 8 bytes, but for alpha and beta.
_FIELDS = ("m", "n", "k", "batch", "a", "lda", "batch_stride_a", "b", "ldb", "batch_stride_b")
_FIELDS = (*_FIELDS, "c", "ldc", "batch_stride_c", "d", "ldd", "batch_stride_d")
_FORMATS = {"f32": "f", "f64": "d", "s32": "i"}
_NO_IMAGE, _INVALID_VALUE, _LAUNCH_FAILURE = 209, 1, 719  # of cudaError_t


@dataclass(frozen=True)
class Case:
    """A call: arguments that differ from good ones, directives before it, and what must come of it. left: the error that
    cudaGetLastError has afterwards."""

    status: int
    changes: dict[str, int]
    before: str = ""
    left: int = 0
    launches: int | None = None

    @property
    def expected(self) -> tuple[int, int, int]:
        """Status, error left behind, launches."""
        launches = self.launches if self.launches is not None else int(self.status == SUCCESS)
        return (self.status, self.left, launches)


@dataclass(frozen=True)
class Interface:
    """The C interface of a compiled project. task: any problem of a kernel that multiplies."""

    task: Task

    def broken(self) -> list[str]:
        """Each promise that the host code does not keep, in words; [] if all are kept."""
        found = [f"{case}: {got}" for case in self._cases() if (got := self._outcome(case)) != case.expected]
        return found + self._about_the_launch() + self._about_the_kernel() + self._about_texts()

    def _outcome(self, case: Case) -> tuple[int, int, int] | str:
        try:
            reply = self._ask([*case.before.split(), *call(self.task.run_symbol, self._arguments(case.changes), _STREAM)])
        except HostError as error:
            return str(error)
        return reply.values[-1], reply.left[-1], len(reply.launches)

    def _ask(self, directives: list[str]) -> Reply:
        ptx = self.task.ptx
        assert ptx.host
        target = capability(ptx.arch)
        kernels = (entry for unit in ptx.units.values() for entry in entries_of(unit))
        return ptx.host.ask(Device(target, SMEM_PER_BLOCK[target], _CLUSTERS), kernels, directives)

    def _operands(self) -> Operands:
        return operands(self.task.product, self.task.problem, "zeros", 1)

    def _good(self) -> bytes:
        workspace = Workspace(_ROOM, _ROOM) if self.task.takes_workspace else Workspace()
        return host.multiply_arguments(self.task, self._operands(), _PLACES, workspace)

    def _arguments(self, changes: dict[str, int]) -> bytes:
        """Good arguments with changes: "field" is given a value, to "+field" one is added."""
        given = bytearray(self._good())
        scalar = "<" + _FORMATS[self.task.product.epilogue.scalar.word]
        at = {field: 8 * n for n, field in enumerate(_FIELDS)}
        size = struct.calcsize(scalar)
        for n, field in enumerate(("alpha", "beta")):
            at[field] = 8 * len(_FIELDS) + n * size
        at["workspace"] = 8 * len(_FIELDS) + (2 * size + 7) // 8 * 8
        at["workspace_bytes"] = at["workspace"] + 8
        for change, value in changes.items():
            field = change.removeprefix("+")
            form = scalar if field in ("alpha", "beta") else "<q"
            before = struct.unpack_from(form, given, at[field])[0] if change != field else 0
            struct.pack_into(form, given, at[field], before + value)
        return bytes(given)

    def _cases(self) -> list[Case]:
        plan, data = self.task.product, self._operands()
        pointers = [Case(INVALID, {name: 0}) for name in "abd"]
        of_bytes = {name for name in "abd" if getattr(data, name).view.itemsize == 1}
        misaligned = [Case(INVALID, {f"+{name}": 1}) for name in "abd" if name not in of_bytes]
        short = [Case(INVALID, {f"+ld{name}": -1}) for name in "abd"]
        errors = [
            Case(NOT_SUPPORTED, {}, f"fail cudaFuncSetAttribute {_NO_IMAGE}"),
            Case(NOT_SUPPORTED, {}, f"fail cudaFuncSetAttribute {_INVALID_VALUE}"),
            Case(CUDA_ERROR, {}, f"fail launch {_LAUNCH_FAILURE}", left=_LAUNCH_FAILURE),
            Case(SUCCESS, {}, f"pending {_LAUNCH_FAILURE}", left=_LAUNCH_FAILURE),
        ]
        good = [Case(SUCCESS, {})]
        return good + pointers + misaligned + short + errors + (self._gemm() if isinstance(plan, GemmPlan) else self._fixed())

    def _fixed(self) -> list[Case]:
        """A kernel of one tile: another problem is refused."""
        extents = [Case(FIXED_SHAPE, {f"+{name}": step}) for name in ("m", "n", "k", "batch") for step in (-1, 1)]
        return [*extents, Case(FIXED_SHAPE, {"alpha": 2}), Case(FIXED_SHAPE, {"beta": 1})]

    def _gemm(self) -> list[Case]:
        far = {"lda": 2**32, "ldb": 2**32, "ldc": 2**32, "ldd": 2**32}
        one = {"m": 1, "n": 1, "k": 1, "batch": 1}
        nothing = [{"m": 0}, {"n": 0}, {"batch": 0}, {"m": 0, "n": 2**31}, {"m": 0, "a": 0, "b": 0, "d": 0}]
        cases = [Case(SUCCESS, changes, launches=0) for changes in nothing]
        cases += [Case(INVALID, {name: -1}) for name in one]
        cases += [Case(SUCCESS, one | far | {name: LARGEST}) for name in "mnk"]
        cases += [Case(TOO_LARGE, one | far | {name: LARGEST + 1}) for name in "mnk"]
        cases += [Case(TOO_LARGE, one | far | {"batch": LARGEST + 1, "batch_stride_d": 1})]
        cases += [Case(TOO_LARGE, one | far | {"m": LARGEST, "n": LARGEST})]
        cases += [Case(TOO_LARGE, one | far | {"m": LARGEST, "batch": LARGEST, "batch_stride_d": 1})]
        cases += [Case(SUCCESS, {"k": 0, "a": 0, "b": 0}), Case(INVALID, {"k": 0, "d": 0})]
        with_c = {"beta": 1, "c": _PLACES["c"], "ldc": 1 << 20}
        cases += [Case(SUCCESS, with_c), Case(INVALID, with_c | {"c": 0}), Case(INVALID, with_c | {"ldc": 1})]
        cases += [Case(SUCCESS, {"beta": 0, "c": 1, "ldc": 0})]
        if self._operands().d.view.itemsize > 1:
            cases += [Case(INVALID, with_c | {"c": _PLACES["c"] + 1})]
        strides = {"batch_stride_a": 0, "batch_stride_b": 0, "batch_stride_c": 0}
        cases += [Case(SUCCESS, {"batch": 2, **strides, "batch_stride_d": 1 << 30})]
        cases += [Case(INVALID, {"batch": 2, **strides, "batch_stride_d": 0})]
        if self.task.product.takes_workspace:  # of a library, kernels without one ignore it
            cases += [Case(INVALID, {"+workspace": 8}), Case(SUCCESS, {"workspace": 0}), Case(SUCCESS, {"workspace_bytes": -1})]
        return cases

    def _about_the_launch(self) -> list[str]:
        plan = self.task.product
        reply = self._ask(call(self.task.run_symbol, self._good(), _STREAM))
        if len(reply.launches) != 1:
            return [f"{len(reply.launches)} launches for good arguments"]
        it = reply.launches[0]
        facts = {
            "threads": (it.block, (plan.threads, 1, 1)),
            "dynamic shared memory": (it.shared_bytes <= plan.smem_bytes, True),
            "stream": (it.stream, _STREAM),
        }
        return [f"{what} of the launch: {is_}, not {must}" for what, (is_, must) in facts.items() if is_ != must]

    def _about_the_kernel(self) -> list[str]:
        symbol = self.task.symbol("query")
        reply = self._ask([*call(symbol, 0), *call(symbol, bytes(20))])
        threads, _, _, smem, ctas = struct.unpack("<5i", reply.outputs[-1])
        plan = self.task.product
        facts = {
            "status of a query": (tuple(reply.values), (INVALID, SUCCESS)),
            "threads": (threads, plan.threads),
            "shared memory": (smem, plan.smem_bytes),
            "CTAs for each SM": (ctas > 0, True),
        }
        failing = self._ask([*f"fail cudaFuncGetAttributes {_NO_IMAGE}".split(), *call(symbol, bytes(20))])
        facts["status of a failing query"] = ((failing.values[-1], failing.left[-1]), (NOT_SUPPORTED, 0))
        null = self._ask(call(self.task.run_symbol, 0, _STREAM)) if not self.task.library else None
        if null:
            facts["status without arguments"] = ((null.values[-1], len(null.launches)), (INVALID, 0))
        return [f"{what}: {is_}, not {must}" for what, (is_, must) in facts.items() if is_ != must]

    def _about_texts(self) -> list[str]:
        """Each status has a sentence of its own."""
        symbol = self.task.symbol("status_text")
        reply = self._ask([word for status in (*range(6), 99) for word in text(symbol, status)])
        words = {1: "argument", 2: "supported", 3: "CUDA", 4: "large"}
        wrong = [f"text of status {n}: {reply.texts[n]!r}" for n, word in words.items() if word not in reply.texts[n]]
        return wrong + (["two statuses have the same text"] if len(set(reply.texts)) < 7 else [])


def interface_of(task: Task) -> Interface:
    """The interface that `task` calls, asked with a problem whose rows are aligned."""
    plan = task.product
    problem = Problem(shape=(256, 192, 128)) if isinstance(plan, GemmPlan) else task.problem
    return Interface(Task(task.plan, task.ptx, problem, "zeros", 1, task.library, task.config))
