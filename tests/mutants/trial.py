"""Compile a mutant in the projects of its specs, and ask the emulator about each until one of them is not right."""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mmagen.build.ptx import Ptx, compile_ptx
from mmagen.build.units import translation_units
from mmagen.families import plan
from mmagen.generate.write import write
from mmagen.host_runtime.library import HostError
from mmagen.plan.plans import ProductPlan
from mmagen.plan.trials import products
from mmagen.spec.load import load
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated import promises
from mmagen.verify.emulated.session import run_task, tasks
from tests.mutants.sites import Mutant, specs_of
from tests.support.mutations import project

KILLED, NOT_COMPILED, SURVIVED, EQUIVALENT, HUNG = "killed", "does not compile", "survived", "same code", "out of time"
UNTRIED = "not tried"  # the tool itself failed
UNKNOWN = (SURVIVED, HUNG, UNTRIED)  # that nothing has noticed
_NAMED_BY_CONTENT = re.compile(r"(?<=_)[0-9a-f]{8}(?=_\d+_)")  # part of the names of what a translation unit keeps to itself
MOST_SPECS = 5  # that a mutant is tried with at most, among those whose code it changes


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


def judge(mutant: Mutant, specs: Sequence[str] = (), most: int = MOST_SPECS) -> Outcome:
    """Try a mutant with `specs`, or with up to `most` whose code it changes; the first that is not right decides."""
    start = time.monotonic()
    candidates = tuple(specs) or specs_of(mutant.header)
    # The mutants of a header begin with different specs.
    first = 0 if specs else int(mutant.name, 16) % len(candidates)
    tried: list[str] = []
    for spec in (*candidates[first:], *candidates[:first]):
        with tempfile.TemporaryDirectory(prefix="mmagen-mutant-") as folder:
            status, *said = (_by_units if mutant.on_device else _whole)(spec, mutant, Path(folder))
        if status in (NOT_COMPILED, KILLED):
            return outcome(mutant, status, *said, time.monotonic() - start)
        if status == SURVIVED:
            tried.append(spec)
            if len(tried) == most:
                break
    status = SURVIVED if tried else EQUIVALENT
    return outcome(mutant, status, " ".join(tried or candidates), "", time.monotonic() - start)


def compile_original(spec: str) -> None:
    """Put the spec's kernel without an edit into mmagen's cache."""
    with tempfile.TemporaryDirectory(prefix="mmagen-mutant-") as folder:
        _compiled(project(spec, _name(spec)), spec, Path(folder))


def _whole(spec: str, mutant: Mutant, folder: Path) -> tuple[str, str, str]:
    """Status, who said so and what was said, of a spec whose host code the mutant may change too."""
    files = project(spec, _name(spec))
    original = _compiled(files, spec, folder)
    mutated = _compiled(_edited(files, mutant), spec, folder)
    if mutated.error:
        return NOT_COMPILED, spec, _first_error(mutated.error)
    if same_code(original, mutated):
        return EQUIVALENT, spec, ""
    found = _failure(spec, mutated, host=True)
    return (KILLED, *found) if found else (SURVIVED, spec, "")


def _by_units(spec: str, mutant: Mutant, folder: Path) -> tuple[str, str, str]:
    """As _whole, of a mutant that changes device code alone: the translation units that read its header are compiled one after
    another to PTX, which the original's host code launches, until one of them is not right."""
    files = project(spec, _name(spec))
    edited = _edited(files, mutant)
    original = _compiled(files, spec, folder)
    status = EQUIVALENT
    units = dict(original.units)
    header = f"include/mmagen/{mutant.header}"
    sources = [path for path in files if path.startswith("src/") and path.endswith(".cu")]
    of_unit = translation_units(files["CMakeLists.txt"].decode(), sources)
    reading = [unit for unit in original.units if any(header in read_by(files, source) for source in of_unit[unit])]
    assert reading, f"no translation unit of {spec} reads {mutant.header}"
    for unit in reading:
        others = set(sources) - set(of_unit[unit])
        found = _compiled(edited | dict.fromkeys(others, b""), spec, folder, host=False)
        if found.error:
            return NOT_COMPILED, spec, _first_error(found.error)
        assert entries(found.units[unit]) == entries(units[unit]), "the host code would not find the kernels"
        if _instructions(found.units[unit]) == _instructions(units[unit]):
            continue
        status = SURVIVED
        units[unit] = found.units[unit]
        if failure := _failure(spec, replace(original, units=dict(units)), host=False):
            return (KILLED, *failure)
    return status, spec, ""


def read_by(files: Mapping[str, bytes], source: str) -> set[str]:
    """The files of a project that `source` is compiled from, itself included."""
    found, waiting = {source}, [source]
    while waiting:
        path = waiting.pop()
        for name in re.findall(rb'^\s*#\s*include\s*[<"]([^">]+)[">]', files[path], re.M):
            for place in (
                f"include/{name.decode()}",
                posixpath.normpath(posixpath.join(posixpath.dirname(path), name.decode())),
            ):
                if place in files and place not in found:
                    found.add(place)
                    waiting.append(place)
    return found


def entries(ptx: str) -> list[str]:
    """The names of the kernels of a module."""
    return sorted(re.findall(r"\.entry\s+([\w$]+)", ptx))


def _edited(files: Mapping[str, bytes], mutant: Mutant) -> dict[str, bytes]:
    return {**files, f"include/mmagen/{mutant.header}": mutant.apply()}


def _compiled(files: Mapping[str, bytes], spec: str, folder: Path, *, host: bool = True) -> Ptx:
    place = folder / f"{len(list(folder.iterdir()))}" / _name(spec)
    write(files, place)
    return compile_ptx(place, find_toolchain(want=COMPILE), host=host)


def _name(spec: str) -> str:
    """Of its project: an identifier, which the name of a spec's file need not be."""
    return f"of_{spec}"


def _first_error(log: str) -> str:
    """Without the folder of the project."""
    line = next((line for line in log.splitlines() if "error" in line), log[:200])
    return re.sub(r"\S*/(?=(include|src)/)", "", line)


def _failure(spec: str, ptx: Ptx, *, host: bool) -> tuple[str, str] | None:
    """The spec and problem that are not right, and what is said of them. host: ask the C interface too."""
    of = plan(load(project(spec, _name(spec))["spec.yaml"], f"{spec}.yaml").spec)
    work = sorted(tasks(of, ptx, (), 1, None), key=lambda one: products(one.problem))
    if host and isinstance(of, ProductPlan):
        # What verify asks of the host code, before all products. Of a library it asks with the first config's tasks.
        first = next(one for one in work if not one.library or one.config == one.library.configs[0].name)
        try:
            promises.check(first)
        except HostError as error:
            return f"{spec} interface", str(error)
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
    both = without_distances(code.stdout.partition("Disassembly")[2]) + data.stdout.decode("latin-1")
    return _NAMED_BY_CONTENT.sub("", both)


def without_distances(code: str) -> str:
    """A disassembly without the distances to variables, which follow from the size of the PTX that lies between, and without
    those of variables from the symbols beside which objdump finds them. Which constant of .rodata an instruction uses is no
    longer told, but .rodata itself is compared."""
    return re.sub(r"-?0x[0-9a-f]+\(%rip\)(.*# <[^>+-]*)([+-]0x[0-9a-f]+)?>", r"(%rip)\1>", code)
