"""Compile a mutant in the projects of its specs, and ask the emulator about each until one of them is not right."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mmagen.build.ptx import Ptx, compile_ptx
from mmagen.families import plan
from mmagen.generate.write import write
from mmagen.plan.plans import ProductPlan
from mmagen.plan.trials import products
from mmagen.spec.load import load
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.session import run_task, tasks
from tests.mutants.sites import Mutant, specs_of
from tests.support.interface import interface_of
from tests.support.mutations import project

KILLED, NOT_COMPILED, SURVIVED, EQUIVALENT, HUNG = "killed", "does not compile", "survived", "same code", "out of time"
UNTRIED = "not tried"  # the tool itself failed
UNKNOWN = (SURVIVED, HUNG, UNTRIED)  # that nothing has noticed
_NAMED_BY_CONTENT = re.compile(r"(?<=_)[0-9a-f]{8}(?=_\d+_)")  # part of the names of what a translation unit keeps to itself
_SPECS = 5  # that a mutant is tried with at most, among those whose code it changes


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant. by: the spec and problem that noticed it, or those that did not. reason: what was said."""

    name: str
    header: str
    line: int
    operator: str
    old: str
    new: str
    status: str
    by: str
    reason: str
    seconds: float

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


def outcome(mutant: Mutant, status: str, by: str, reason: str, seconds: float) -> Outcome:
    """An Outcome that says where the mutant is and what it changes."""
    edit = mutant.edit
    return Outcome(
        *(mutant.name, mutant.header, mutant.line, edit.operator, mutant.old, edit.new, status, by, reason[:300]),
        round(seconds, 1),
    )


def judge(mutant: Mutant, specs: Sequence[str] = ()) -> Outcome:
    """Try a mutant with `specs`, or with up to five whose code it changes; the first that is not right decides."""
    start = time.monotonic()
    candidates = tuple(specs) or specs_of(mutant.header)
    # The mutants of a header begin with different specs.
    first = 0 if specs else int(mutant.name, 16) % len(candidates)
    tried: list[str] = []
    for spec in (*candidates[first:], *candidates[:first]):
        with tempfile.TemporaryDirectory(prefix="mmagen-mutant-") as folder:
            original, mutated = _compiled(spec, None, Path(folder)), _compiled(spec, mutant, Path(folder))
        if mutated.error:
            return outcome(mutant, NOT_COMPILED, spec, _first_error(mutated.error), time.monotonic() - start)
        if same_code(original, mutated):
            continue
        if found := _failure(spec, mutated):
            return outcome(mutant, KILLED, *found, time.monotonic() - start)
        tried.append(spec)
        if len(tried) == _SPECS:
            break
    status = SURVIVED if tried else EQUIVALENT
    return outcome(mutant, status, " ".join(tried or candidates), "", time.monotonic() - start)


def compile_original(spec: str) -> None:
    """Put the spec's kernel without an edit into mmagen's cache."""
    with tempfile.TemporaryDirectory(prefix="mmagen-mutant-") as folder:
        _compiled(spec, None, Path(folder))


def _compiled(spec: str, mutant: Mutant | None, folder: Path) -> Ptx:
    files = project(spec, _name(spec))
    if mutant is not None:
        files = {**files, f"include/mmagen/{mutant.header}": mutant.apply()}
    place = folder / ("mutated" if mutant else "original") / _name(spec)
    write(files, place)
    return compile_ptx(place, find_toolchain(want=COMPILE))


def _name(spec: str) -> str:
    """Of its project: an identifier, which the name of a spec's file need not be."""
    return f"of_{spec}"


def _first_error(log: str) -> str:
    return next((line for line in log.splitlines() if "error" in line), log[:200])


def _failure(spec: str, ptx: Ptx) -> tuple[str, str] | None:
    """The spec and problem that are not right, and what is said of them."""
    of = plan(load(project(spec, _name(spec))["spec.yaml"], f"{spec}.yaml").spec)
    work = sorted(tasks(of, ptx, (), 1, None), key=lambda one: products(one.problem))
    # Calls with groups are those of tests/families/test_grouped.py.
    if isinstance(of, ProductPlan) and not of.spec.grouped and (broken := interface_of(work[0]).broken()):
        return f"{spec} interface", "; ".join(broken)
    for task in work:
        (record,) = run_task(task).records
        if record["disposition"] != "passed":
            return f"{spec} {task.text} {task.distribution}", f"{record['disposition']}: {record['reason']}"
    return None


def same_code(one: Ptx, two: Ptx) -> bool:
    """Whether two compilations gave the same instructions, on the device and on the host."""
    if [_instructions(text) for text in one.units.values()] != [_instructions(text) for text in two.units.values()]:
        return False
    assert one.host and two.host
    return _machine_code(one.host.path) == _machine_code(two.host.path)


def _instructions(ptx: str) -> str:
    """PTX without line numbers and debug sections, which an edit may change without any effect."""
    code = re.split(r"\n\s*\.section", ptx)[0]
    return re.sub(r"(?m)^\s*(\.loc|\.file|//).*\n?", "", _NAMED_BY_CONTENT.sub("", code))


def _machine_code(library: Path) -> str:
    """The host's instructions without addresses, and its constant data."""
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--no-addresses", library], capture_output=True, text=True)
    data = subprocess.run(["objcopy", "-O", "binary", "-j", ".rodata", library, "/dev/stdout"], capture_output=True)
    both = code.stdout.partition("Disassembly")[2] + data.stdout.decode("latin-1")
    return _NAMED_BY_CONTENT.sub("", both)
