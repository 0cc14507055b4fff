"""What the C interface of a project that multiplies promises in its header: statuses, and when nothing is launched.

It is asked of the project's own host code, by way of the stand-in for the CUDA runtime.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from mmagen.core.targets import capability
from mmagen.host_runtime.arguments import Info, info_bytes
from mmagen.host_runtime.entries import Entry, entries_of
from mmagen.host_runtime.library import CapturedLaunch, Device, HostError, HostTimeoutError, Reply, call, text
from mmagen.plan.budgets import SMEM_PER_BLOCK
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated.host import are_other
from mmagen.verify.emulated.interface_calls import NO_IMAGE, ROOM, Calls, Case
from mmagen.verify.emulated.statuses import Status
from mmagen.verify.emulated.task import Task

_LARGEST_STRUCT = 4096  # bytes, as interface.cuh says
_CLUSTERS = 1 << 24
_MORE_BYTES = 16
_STREAM = 0x5000  # of a call; of the next one in the same process one more
_FEW_CLUSTERS, _FEWER_CLUSTERS = 5, 3  # which share a last wave
_AT_ONCE = 100  # calls of a process, which takes them as words of its command line


@dataclass(frozen=True)
class Interface:
    """The C interface of a compiled project. task: any problem of a kernel that multiplies."""

    task: Task

    @cached_property
    def calls(self) -> Calls:
        """Those that it is asked about."""
        return Calls(self.task)

    def broken(self) -> list[str]:
        """Each promise that the host code does not keep, in words; [] if all are kept."""
        cases = self.calls.all()
        found = [case.told(got) for case, got in zip(cases, self._outcomes(cases), strict=True) if got != case.expected]
        found += self._about_memory() + self._about_copies() + self._about_no_workspace() + self._about_calls_before()
        found += self._about_devices()
        return found + self._about_the_launch() + self._about_the_kernel() + self._about_texts()

    def _outcomes(self, cases: Sequence[Case]) -> list[tuple[int, ...] | str]:
        """What came of each. Those with directives before have a process of their own; the others share some."""
        shared = [case for case in cases if not case.before]
        of_shared = iter(
            [one for at in range(0, len(shared), _AT_ONCE) for one in self._outcomes_of(shared[at : at + _AT_ONCE])]
        )
        return [self._outcomes_of([case])[0] if case.before else next(of_shared) for case in cases]

    def _outcomes_of(self, cases: Sequence[Case]) -> list[tuple[int, ...] | str]:
        """The same of calls of one process; in words if a call crashes or the sentence is not as it must be."""
        symbol, asked = self.task.symbol, []
        for at, case in enumerate(cases):
            arguments = self.calls.arguments(case.changes)
            # can_run comes last: an error that a launch leaves behind in the runtime does not concern it.
            run = [
                *call(self.task.run_symbol, arguments, _STREAM + at),
                *text(symbol("error_text")),
                *call(symbol("cuda_error")),
            ]
            asked += [*case.before.split(), *run, *call(symbol("can_run"), arguments)]
        try:
            reply = self.ask(asked)
        except HostTimeoutError:
            raise  # each of the calls alone would take as long
        except HostError as error:
            return [str(error)] if len(cases) == 1 else [self._outcomes_of([case])[0] for case in cases]
        return [self._outcome(case, reply, at) for at, case in enumerate(cases)]

    def _outcome(self, case: Case, reply: Reply, at: int) -> tuple[int, ...] | str:
        """That of the call with this number among those of a process."""
        (status, error, can_run), sentence = reply.values[3 * at : 3 * at + 3], reply.texts[at]
        if self.calls.is_behind and status not in (0, can_run):
            pass  # called past the boundary that keeps sentences
        elif case.says not in sentence or (case.status and len(sentence) < 8):
            return f"says {sentence!r}"
        launches = len(_on(reply, _STREAM + at))
        if status == Status.SUCCESS:  # of a call that is refused none may be made
            launches = self._of_the_product(launches)
        of_no_call = len(_on(reply, 0))  # can_run, which launches nothing, has no stream
        return status, can_run, reply.left[3 * at], launches + of_no_call, case.error if self.calls.is_behind else error

    def _of_the_product(self, launches: int) -> int:
        """Of so many launches of a call those that multiply: another may prepare operands before, or add up sums behind."""
        own = max(launches - bool(self.task.product.needs_workspace), 0)
        plan = self.task.product
        adds_up = plan.any_shape and cast(GemmPlan, plan).scheduler.workspace_splits is not None
        return min(own, 1) if adds_up else own

    def _about_memory(self) -> list[str]:
        """can_run names a pointer to memory that the device does not reach."""
        symbol = self.task.symbol
        where = ((1, "memory of device 1, which the current device, 0, does not reach"), (-2, "that device 0 reaches"))
        asked = [(name, device, why) for name in self.calls.places for device, why in where]
        if self.calls.is_behind:
            return []
        can_run = [*call(symbol("can_run"), self.calls.with_all), *text(symbol("error_text"))]
        reply = self.ask(
            [word for name, device, _ in asked for word in ("foreign", str(self.calls.places[name]), str(device), *can_run)]
        )
        found = []
        for (name, device, why), status, sentence in zip(asked, reply.values, reply.texts, strict=True):
            read = name != "c"  # beta is 0
            says = sentence.startswith(f"{name} is ") and why in sentence
            if status != (Status.FOREIGN_MEMORY if read else Status.SUCCESS) or (read and not says):
                found.append(f"memory of {name} elsewhere ({device}): {status} {sentence!r}")
        return found

    def _about_copies(self) -> list[str]:
        """Operands that TMA cannot address are copied where that pays, but for no call that is refused."""
        of = self.task.library or self.task.product
        if self.calls.is_behind or not of.any_shape or not cast(GemmPlan, of).copies_operands:
            return []
        odd = {"k": 1 << 14, "lda": (1 << 15) + 1, "ldb": (1 << 15) + 1}
        odd |= {f"ld_{one.name}": 1 << 15 for one in self.task.product.arguments.tensors if one.pitched}

        def launched(changes: dict[str, float]) -> list[str]:
            reply = self.ask(call(self.task.run_symbol, self.calls.arguments(odd | changes), _STREAM))
            found.extend(f"{one.entry} is launched with {one.block[0]} threads" for one in reply.launches if one.block[0] % 32)
            return [one.entry for one in reply.launches]

        found: list[str] = []
        good, refused = launched({}), launched({"d": 0})
        if not good or "copy_operands" not in good[0]:
            found.append(f"launches for operands that are to be copied: {good}")
        return found + ([f"launches for a call that is refused: {refused}"] if refused else [])

    def _about_no_workspace(self) -> list[str]:
        """A workspace that is NULL has no bytes, whatever the call says."""
        product = self.task.product
        if product.needs_workspace:
            return []  # such a call is refused
        long: dict[str, float] = {}
        if product.any_shape:  # so that parts of K, or shared tiles, pay
            lines = ["lda", "ldb", *(f"ld_{one.name}" for one in product.arguments.tensors if one.pitched)]
            long = dict.fromkeys(["k", *lines], 1 << 13)
        none, some = (self.calls.arguments(long | {"workspace": 0, "workspace_bytes": size}) for size in (0, ROOM))
        first, other, again = self.launches((none, some, none), self.task.run_symbol, _FEW_CLUSTERS)
        found = [] if first else ["no launch without a workspace"]
        return found + (["launches without a workspace that depend on its bytes"] if are_other(first, other, again) else [])

    def _about_calls_before(self) -> list[str]:
        """What a call launches does not depend on the calls before it, be it that one argument differs or another."""
        others: dict[str, dict[str, float]] = {"pointers": {f"+{name}": 1 << 12 for name in "abd"}}
        if self.task.product.any_shape:
            others |= {
                "strides": {f"+ld{name}": 64 for name in "abd"},
                "extents": {"m": 128, "n": 64, "k": 64},
                "alpha": {"alpha": 2.0},
            }
        good, elsewhere = self.calls.good, self.calls.arguments(others["pointers"])
        found = []
        for what, changes in others.items():
            other = self.calls.arguments(changes)
            # What is kept of a call may go by one argument alone: the last of the five has it in common with the one before.
            ordered = [(good, good, other, good), (other, other, elsewhere, good, other)]
            made = [self.launches(calls, self.task.run_symbol) for calls in ordered]
            if any(are_other(first, last, again) for first, again, *_, last in made):
                found.append(f"launches that depend on the call before, which had other {what}")
        return found

    def _about_devices(self) -> list[str]:
        """What a call launches on a device does not depend on calls on others before it, nor on a reset of the device."""
        extents = {"m": 1 << 14, "n": 1 << 14, "k": 1 << 10, "batch": 1}
        struct = self.calls.arguments(self.calls.packed(extents) if self.task.product.any_shape else {})
        each = {0: _FEW_CLUSTERS, 1: _FEWER_CLUSTERS}
        alone = {device: self.launches((struct,), self.task.run_symbol, count)[0] for device, count in each.items()}
        asked = [word for device, count in each.items() for word in ("current", str(device), "resident", str(count))]
        made = ((0, ""), (0, ""), (1, ""), (1, ""), (0, ""), (1, "reset"), (0, ""), (0, "reset"), (1, ""))
        for at, (device, before) in enumerate(made):
            asked += ["current", str(device), *before.split(), *call(self.task.run_symbol, struct, _STREAM + at)]
        reply = self.ask(asked)
        launches = [[replace(one, stream=_STREAM) for one in _on(reply, _STREAM + at)] for at in range(len(made))]
        found = []
        for at, (device, before) in enumerate(made):
            outcome = f"call {at} of one device after another, of device {device}{' after a reset' if before else ''}"
            first, again = (launches[made.index((device, "")) + more] for more in (0, 1))
            if reply.values[at] != Status.SUCCESS or reply.left[at]:
                found.append(f"{outcome}: status {reply.values[at]}, error left behind {reply.left[at]}")
            # What nothing sets in the parameters, e.g. padding, differs from process to process.
            elif _without_parameters(launches[at]) != _without_parameters(alone[device]):
                found.append(f"{outcome}: launches that are not those of a process with this device alone")
            elif are_other(first, launches[at], again):
                found.append(f"{outcome}: parameters that are not those of the calls before it")
        return found

    def launches(self, structs: Sequence[bytes], run: str, clusters: int = _CLUSTERS) -> list[list[CapturedLaunch]]:
        """Those of the calls of the function `run` with these structs, one after another in a process; as if all had the same
        stream. clusters: as of `ask`."""
        streams = [_STREAM + at for at in range(len(structs))]
        calls = zip(structs, streams, strict=True)
        reply = self.ask([word for struct, stream in calls for word in call(run, struct, stream)], clusters)
        return [[replace(one, stream=_STREAM) for one in _on(reply, stream)] for stream in streams]

    def ask(self, directives: list[str], clusters: int = _CLUSTERS, known: Collection[str] | None = None) -> Reply:
        """clusters: that the device runs at once. known: all other kernels seem to have more static shared memory than
        they have."""
        ptx = self.task.ptx
        assert ptx.host
        target = capability(ptx.arch)
        kernels: list[Entry] = [entry for unit in ptx.units.values() for entry in entries_of(unit)]
        if known is not None:
            more = {one: one.static_shared_bytes + (0 if one.name in known else _MORE_BYTES) for one in kernels}
            kernels = [replace(one, static_shared_bytes=size) for one, size in more.items()]
        return ptx.host.ask(Device(target, SMEM_PER_BLOCK[target], clusters), kernels, directives)

    def _about_the_launch(self) -> list[str]:
        plan = self.task.product
        reply = self.ask(call(self.task.run_symbol, self.calls.good, _STREAM))
        if self._of_the_product(len(reply.launches)) != 1:
            return [f"{len(reply.launches)} launches for good arguments"]
        it = reply.launches[bool(plan.needs_workspace)]
        facts: dict[str, tuple[object, object]] = {
            "threads": (it.block, (plan.threads, 1, 1)),
            "dynamic shared memory": (it.shared_bytes <= plan.smem_bytes, True),
            "stream": (it.stream, _STREAM),
            "refusals by the runtime": (reply.refusals, []),  # where the host code goes on in another way
        }
        return [f"{what} of the launch: {is_}, not {must}" for what, (is_, must) in facts.items() if is_ != must]

    def _about_the_kernel(self) -> list[str]:
        symbol = self.task.symbol("query")
        small = bytes(Info(struct_size=ctypes.sizeof(Info) - 1))
        # Resources are those of the kernel that a good call launches, not of that for other operands.
        launched = {one.entry for one in self.ask(call(self.task.run_symbol, self.calls.good, _STREAM)).launches}
        reply = self.ask([*call(symbol, 0), *call(symbol, small), *call(symbol, info_bytes())], known=launched)
        info = Info.from_buffer_copy(reply.outputs[-1])
        plan = self.task.product
        facts: dict[str, tuple[object, object]] = {
            "status of a query": (tuple(reply.values), (Status.NULL_ARGS, Status.STRUCT_SIZE, Status.SUCCESS)),
            "threads": (info.threads, plan.threads),
            "shared memory": (info.smem_bytes, plan.smem_bytes),
            "CTAs for each SM": (info.ctas_per_sm > 0, True),
        }
        failing = self.ask([*f"fail cudaFuncGetAttributes {NO_IMAGE}".split(), *call(symbol, info_bytes())])
        facts["status of a failing query"] = ((failing.values[-1], failing.left[-1]), (Status.WRONG_DEVICE, 0))
        facts |= self._about_the_struct()
        return [f"{what}: {is_}, not {must}" for what, (is_, must) in facts.items() if is_ != must]

    def _about_the_struct(self) -> dict[str, tuple[object, object]]:
        """Structs of other versions, which NAME_run reads; and the workspace."""
        run, good = self.task.symbol("run"), self.calls.good
        longer = self.calls.struct.from_buffer_copy(good)
        longer.struct_size += 8
        shorter = self.calls.struct.from_buffer_copy(good)
        shorter.struct_size -= 8
        wild = self.calls.struct.from_buffer_copy(good)
        wild.struct_size = 1 << 40
        largest = self.calls.struct.from_buffer_copy(good)
        largest.struct_size = _LARGEST_STRUCT
        rest = bytes(_LARGEST_STRUCT - len(good))
        structs: dict[str, tuple[int | bytes, Status]] = {
            "no struct": (0, Status.NULL_ARGS),
            "a shorter struct": (bytes(shorter), Status.STRUCT_SIZE),
            "a longer struct of zeros": (bytes(longer) + bytes(8), Status.SUCCESS),
            "a longer struct": (bytes(longer) + b"\0\0\0\1\0\0\0\0", Status.STRUCT_SIZE),
            "no size": (bytes(len(good)), Status.STRUCT_SIZE),
            "the largest struct": (bytes(largest) + rest, Status.SUCCESS),
            "a wild size": (bytes(wild), Status.STRUCT_SIZE),
        }
        found: dict[str, tuple[object, object]] = {}
        asked = [call(run, given, _STREAM + at) for at, (given, _) in enumerate(structs.values())]
        reply = self.ask([word for one in asked for word in one])
        for at, ((what, (_, must)), status) in enumerate(zip(structs.items(), reply.values, strict=True)):
            launches = self._of_the_product(len(_on(reply, _STREAM + at)))
            found[what] = ((status, launches), (must, int(must == Status.SUCCESS)))
        workspace = self.task.symbol("workspace_bytes")
        reply = self.ask([*call(workspace, good, 0), *call(workspace, 0, bytes(8)), *call(workspace, good, bytes(8))])
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
        reply = self.ask([*asked, *text(name("version")), *text(name("description"))])
        texts, version = reply.texts[: len(all_)], reply.texts[-2]
        wrong = [f"text of status {n}: {one!r}" for n, one in zip(all_, texts, strict=True) if not one]
        wrong += ["two statuses have the same text"] if len(set(texts)) < len(texts) else []
        try:
            about = dict(json.loads(reply.texts[-1]))
        except (ValueError, TypeError):
            return [*wrong, f"the description is no JSON object: {reply.texts[-1][:80]!r}"]
        plan = self.task.library or self.task.product
        described = {"mmagen": version, "name": plan.name, "kernel": plan.kernel, "spec_sha": plan.spec_sha}
        return wrong + [
            f"{key} in the description: {about.get(key)}" for key, value in described.items() if about.get(key) != value
        ]


def _on(reply: Reply, stream: int) -> list[CapturedLaunch]:
    """The launches on a stream."""
    return [one for one in reply.launches if one.stream == stream]


def _without_parameters(launches: Sequence[CapturedLaunch]) -> list[CapturedLaunch]:
    return [replace(one, params=b"") for one in launches]


def interface_of(task: Task) -> Interface:
    """The interface that `task` calls, asked with a problem whose rows are aligned."""
    of_groups = {"groups": [256]} if task.problem.groups else {}
    shape = {"shape": (256, 192, 128)}
    problem = Problem.model_validate({**shape, **of_groups}) if task.product.any_shape else task.problem
    return Interface(Task(task.plan, task.ptx, problem, "zeros", 1, task.library, task.config))
