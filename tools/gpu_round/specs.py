"""Specs as jobs: compiled in chunks, those that take longest first, then verified one by one as soon as their chunk is done."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmagen.cli.build import load_specs
from mmagen.plan.project import ProjectPlan
from tools.gpu_round.jobs import COMPILE, Ended, Job, Outcome, text_of

_CHUNK_S = 60.0  # of compilation; CMake asks the compilers for seconds before the first step of a chunk
_PROGRAM_S, _KERNEL_S = 12.0, 12.0  # a guess that only has to put libraries before single kernels
_COMPILE_LIMIT_S, _VERIFY_LIMIT_S, _SANITIZE_LIMIT_S = 900.0, 180.0, 400.0
SANITIZED_DIM = 300
_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_VERIFY = (sys.executable, "-m", "mmagen", "verify")


@dataclass(frozen=True)
class Asked:
    """A spec. kind: its folder's name. max_dim: the limit of its problems' extents, 0 for none. cost: seconds of compilation, a
    guess. bench: is its benchmark needed?"""

    kind: str
    name: str
    path: Path
    max_dim: int
    cost: float
    bench: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.name


def asked(targets: Sequence[Path], max_dim: int) -> tuple[list[Asked], list[Outcome]]:
    """The specs of files and folders, those that take longest to compile first, and the outcomes of those that are refused."""
    found: list[Asked] = []
    refused: list[Outcome] = []
    for target in targets:
        kind = (target if target.is_dir() else target.absolute().parent).name
        for path in sorted(target.glob("*.yaml")) if target.is_dir() else [target]:
            loaded = load_specs([path])
            reasons = "; ".join(map(str, loaded.diagnostics))
            refused += [Outcome(kind, path.stem, "failed", f"refused: {reasons}")] if reasons else []
            for one in loaded.planned:
                found.append(Asked(kind, one.plan.name, path, limit(one.plan, max_dim), _cost(one.plan)))
    unique = {one.key: one for one in found}
    return sorted(unique.values(), key=lambda one: -one.cost), refused


def limit(plan: ProjectPlan, max_dim: int) -> int:
    """`max_dim`, or more if that would leave none of the plan's problems: then the extent of its smallest one."""
    extents = [max(problem.shape) for problem in plan.problems]
    return max(max_dim, min(extents)) if extents and max_dim else max_dim


def _cost(plan: ProjectPlan) -> float:
    return _PROGRAM_S + _KERNEL_S * max(1, len(getattr(plan, "configs", ())))


def chunks(specs: Iterable[Asked]) -> Iterator[list[Asked]]:
    """Specs of one kind that are compiled by one call, in the order of the first of each chunk."""
    found: list[list[Asked]] = []
    filled: dict[tuple[str, bool], list[Asked]] = {}
    for one in specs:
        chunk = filled.get((one.kind, one.bench))
        if chunk is None or sum(each.cost for each in chunk) >= _CHUNK_S:
            chunk = filled[one.kind, one.bench] = []
            found.append(chunk)
        chunk.append(one)
    yield from found


def compiling(specs: Iterable[Asked], work: Path, cores: int) -> tuple[list[Job], dict[Path, str]]:
    """Jobs that compile, and which of them a spec waits for. work: a folder for reports. cores: of a job."""
    found: list[Job] = []
    of: dict[Path, str] = {}
    for number, chunk in enumerate(chunks(specs)):
        name = f"compile {number}: {', '.join(one.name for one in chunk)}"
        report = work / f"compile{number}.jsonl"
        command: tuple[str, ...] = (
            *_VERIFY,
            *(str(one.path) for one in chunk),
            "--compile-only",
            "--jobs",
            str(cores),
            "--json",
            str(report),
        )
        command += ("--bench",) if chunk[0].bench else ()
        found.append(Job(name, COMPILE, (), command, _compiled(chunk, report), cores, (COMPILE,), 0, limit_s=_COMPILE_LIMIT_S))
        of |= {one.path: name for one in chunk}
    return found, of


def verifying(specs: Iterable[Asked], work: Path, compiled: Mapping[Path, str], on: str = "gpu") -> list[Job]:
    """Each spec's problems, without times. compiled: what compiles a spec."""
    found = []
    for one in specs:
        report = work / f"verify_{one.kind}_{one.name}.jsonl"
        command: tuple[str, ...] = (*_VERIFY, str(one.path), "--no-timing", "--jobs", "1", "--on", on, "--json", str(report))
        command += ("--max-dim", str(one.max_dim)) if one.max_dim else ()
        found.append(
            Job(
                f"verify {one.kind}/{one.name}",
                one.kind,
                (one.name,),
                command,
                _verified(one.kind, one.name, report),
                gpus=int(on == "gpu"),
                brief=True,
                after=compiled.get(one.path, ""),
                limit_s=_VERIFY_LIMIT_S,
            )
        )
    return found


def benchmarks(specs: Iterable[Asked], work: Path, compiled: Mapping[Path, str], sustained_s: float, keep: Path) -> list[Job]:
    """Each spec beside cuBLASLt on a GPU that nothing else uses. keep: the file to which all their records are appended."""
    found = []
    for one in specs:
        report = work / f"bench_{one.kind}_{one.name}.jsonl"
        command: tuple[str, ...] = (*_VERIFY, str(one.path), "--bench", "--no-timing", "--jobs", "1", "--json", str(report))
        command += ("--sustained", f"{sustained_s:g}") if sustained_s else ()
        read = _kept(_verified("bench", one.name, report), report, keep)
        after = compiled.get(one.path, "")
        found.append(Job(f"bench {one.name}", "bench", (one.name,), command, read, alone=True, after=after))
    return found


def sanitized(specs: Iterable[Asked], work: Path, compiled: Mapping[Path, str]) -> list[Job]:
    """Each spec under every tool of compute-sanitizer, on small problems."""
    found = []
    for one in specs:
        report = work / f"sanitize_{one.kind}_{one.name}.jsonl"
        command: tuple[str, ...] = (
            *_VERIFY,
            str(one.path),
            "--no-timing",
            "--max-dim",
            str(one.max_dim),
            "--jobs",
            "1",
            "--json",
            str(report),
        )
        command += tuple(word for tool in _TOOLS for word in ("--sanitize", tool))
        read = _verified("sanitize", one.name, report)
        after = compiled.get(one.path, "")
        found.append(
            Job(f"sanitize {one.name}", "sanitize", (one.name,), command, read, after=after, limit_s=_SANITIZE_LIMIT_S)
        )
    return found


def _compiled(chunk: Sequence[Asked], report: Path) -> Callable[[Ended], list[Outcome]]:
    """Reads which specs do not compile; the others get their outcomes when they are verified."""

    def read(ended: Ended) -> list[Outcome]:
        if ended.word == "cut_off":
            return []
        said = _records(report)
        if not said:
            reason = f"not compiled: {ended.reason or ended.last_line}"
            return [Outcome(one.kind, one.name, "failed", reason) for one in chunk]
        bad = {record["name"]: str(record["reason"]) for record in said if record["disposition"] == "failed"}
        return [Outcome(one.kind, one.name, "failed", bad[one.name]) for one in chunk if one.name in bad]

    return read


def _verified(kind: str, name: str, report: Path) -> Callable[[Ended], list[Outcome]]:
    """Reads a report of `mmagen verify` on one spec."""

    def read(ended: Ended) -> list[Outcome]:
        said = _records(report)
        left = [record for record in said if record["disposition"] == "skipped"]
        ran = [record for record in said if record["disposition"] != "skipped"]
        bad = next((record for record in ran if record["disposition"] == "incorrect"), None)
        bad = bad or next((record for record in ran if record["disposition"] == "failed"), None)
        if bad:
            word = "wrong" if bad["disposition"] == "incorrect" else "failed"
            where = " ".join(str(bad[key]) for key in ("problem", "input_dist") if bad.get(key))
            return [Outcome(kind, name, word, f"{where}: {bad['reason']}" if where else str(bad["reason"]))]
        if ended.exit_code is None:
            return [Outcome(kind, name, ended.word, ended.reason)]
        if ended.exit_code == 77:
            return [Outcome(kind, name, "skipped", str(ran[0]["reason"]) if ran else ended.last_line)]
        if ended.exit_code or not any(record["disposition"].startswith("passed") for record in ran):
            return [Outcome(kind, name, "failed", f"exit code {ended.exit_code}: {ended.last_line}")]
        return [Outcome(kind, name, "passed", left_out=len(left))]

    return read


def _kept(read: Callable[[Ended], list[Outcome]], report: Path, keep: Path) -> Callable[[Ended], list[Outcome]]:
    """The same, and the report is appended to a file."""

    def then(ended: Ended) -> list[Outcome]:
        with keep.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in _records(report))
        return read(ended)

    return then


def _records(report: Path) -> list[dict[str, Any]]:
    """The whole lines of a report; a program that is killed may leave one that is not."""
    found = []
    for line in text_of(report).splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
