"""Compiles loops into one program: a few translation units, compiled in parallel and cached by content, then linked."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmagen import __version__
from mmagen.core.cache import Cache, Entry
from mmagen.core.errors import BuildError
from mmagen.core.process import Finished, capture
from mmagen.core.progress import Progress
from mmagen.core.reads import Reading, read_depfile
from mmagen.families.peak.loops import Loop
from mmagen.families.peak.unit import unit
from mmagen.generate.headers import with_headers
from mmagen.microbench.measure import Program
from mmagen.toolchain.find import Toolchain
from mmagen.toolchain.identity import compilers, include_folders, open_cache
from mmagen.toolchain.temporary import check_temporary_folder

# What an accumulator's registers weigh in compile time beside the loop itself; a batch is full at _FULL.
_WEIGHT_OF_LOOP, _FULL = 24, 5000
_FLAGS = ("-std=c++17", "--expt-relaxed-constexpr", "-DNDEBUG", "-Xfatbin=-compress-all")
_MAIN = '#include "mmagen/peak_main.cuh"\n\nint main(int argc, char** argv) { return mmagen::peak::peak_main(argc, argv); }\n'
# Where with_headers() puts headers that are found through the include path.
INCLUDES = ("include", "tests")
_SERIALIZED = re.compile(r"wgmma.*serializ", re.IGNORECASE)


@dataclass(frozen=True)
class _Site:
    toolchain: Toolchain
    target: str
    env: Mapping[str, str]
    cache: Cache
    compilers: Mapping[str, Any]
    scratch: Path

    def key(self, kind: str, *texts: str) -> str:
        """The cache's key of what comes of these translation units and their headers."""
        assert self.toolchain.cutlass
        facts = [
            __version__,
            self.compilers,
            self.toolchain.cutlass.version,
            self.target,
            _FLAGS,
            kind,
            texts,
            {path: hashlib.sha256(content).hexdigest() for path, content in _headers(texts).items()},
        ]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def nvcc(self, *arguments: str | Path) -> Finished:
        assert self.toolchain.nvcc and self.toolchain.host_compiler and self.toolchain.cutlass
        number = self.target.removeprefix("sm_")
        command = [
            self.toolchain.nvcc.path,
            "-ccbin",
            self.toolchain.host_compiler.path,
            *_FLAGS,
            f"-gencode=arch=compute_{number},code=sm_{number}",
            *(f"-I{self.scratch / folder}" for folder in INCLUDES),
            "-isystem",
            self.toolchain.cutlass.path,
            *arguments,
        ]
        check_temporary_folder(self.env)
        return capture(command, timeout_s=None, env=dict(self.env), cwd=self.scratch)


def build(
    loops: Sequence[Loop],
    target: str,
    toolchain: Toolchain,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
    env: Mapping[str, str] | None = None,
) -> Program:
    """One program with all of `loops` that compile for `target`. Raises BuildError when the toolchain is incomplete."""
    toolchain.need("nvcc", "host_compiler", "cutlass")
    env = os.environ if env is None else env
    with tempfile.TemporaryDirectory(prefix="mmagen-peak-") as folder:
        cache = open_cache(toolchain, env)
        site = _Site(toolchain, target, env, cache, compilers(toolchain, env, cache.digests), Path(folder))
        parts = batches(loops)
        texts = (_MAIN, *map(unit, parts))
        if linked := cache.find("builds", site.key("program", *texts)):
            return Program(linked.folder / "peak", warnings=tuple(linked.result["warnings"]))
        lay_out(site.scratch, *texts)
        program = _build(parts, site, jobs or os.cpu_count() or 1, progress or (lambda done, total, what: None))
        cache.close()
        return program


def _build(parts: Sequence[Sequence[Loop]], site: _Site, jobs: int, progress: Progress) -> Program:
    loops, count = sum(map(len, parts)), 0
    units: list[_Unit] = []
    with ThreadPoolExecutor(jobs) as pool:
        main = pool.submit(_object, site, _MAIN, ())
        for done, made in enumerate(pool.map(lambda batch: _compile(batch, site), parts), 1):
            units += made
            count += sum(len(u.loops) for u in made)
            progress(done, len(parts), f"compiled {count} of {loops} loops")
    if main.result().error:
        raise BuildError(f"the peak program's own main does not compile:\n{main.result().error}")
    failed = {loop.name: u.error for u in units if u.error for loop in u.loops}
    warnings = tuple(dict.fromkeys(line for u in units for line in u.warnings))
    good = [u for u in units if u.path]
    seconds = sum(u.seconds for u in (main.result(), *units))
    if not good:
        return Program(None, failed, warnings, seconds)
    program, own = site.scratch / "peak", main.result().path
    assert own
    linked = site.nvcc("-o", program, own, *(u.path for u in good if u.path))
    if linked.exit_code != 0:
        raise BuildError(f"the peak program does not link:\n{linked.stderr or linked.stdout}")
    # Under what is in it: the next call tries again what did not compile.
    key = site.key("program", _MAIN, *(u.text for u in good))
    read = {path: None for u in (main.result(), *good) for path in u.read}
    stored = {"programs": {"peak": "peak"}, "warnings": list(warnings)}
    entry = site.cache.keep("builds", key, stored, {"peak": program}, Reading(tuple(read), include_folders(site.env)))
    return Program(entry.folder / "peak", failed, warnings, seconds + linked.seconds)


@dataclass(frozen=True)
class _Unit:
    """One object file, or the error of the loops in it. read: the files that the compiler read."""

    text: str
    loops: tuple[Loop, ...]
    path: Path | None
    error: str = ""
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    read: tuple[str, ...] = ()


def _compile(batch: Sequence[Loop], site: _Site) -> list[_Unit]:
    """The batch as one object; if it does not compile, it is halved until the faulty loop is alone."""
    made = _object(site, unit(batch), tuple(batch))
    if not made.error or len(batch) == 1:
        return [made]
    half = len(batch) // 2
    return _compile(batch[:half], site) + _compile(batch[half:], site)


def _object(site: _Site, text: str, loops: tuple[Loop, ...]) -> _Unit:
    key = site.key("object", text)
    if entry := site.cache.find("builds", key):
        return _of(entry, text, loops, 0.0)
    source, made = site.scratch / f"{key[:16]}.cu", site.scratch / f"{key[:16]}.o"
    source.write_text(text, "utf-8")
    began = time.time_ns()
    done = site.nvcc("-c", "-o", made, "-MD", "-MF", f"{made}.d", source)
    output = (done.stderr + done.stdout).replace(f"{site.scratch}/", "").splitlines()
    if done.exit_code != 0 or not made.is_file():
        error = next((line for line in output if "error" in line.lower()), "nvcc failed")
        return _Unit(text, loops, None, error, seconds=done.seconds)
    warnings = [line for line in output if _SERIALIZED.search(line)]
    reading = Reading(read_depfile(Path(f"{made}.d"), site.scratch), include_folders(site.env), began)
    return _of(site.cache.keep("builds", key, {"warnings": warnings}, {"unit.o": made}, reading), text, loops, done.seconds)


def _of(entry: Entry, text: str, loops: tuple[Loop, ...], seconds: float) -> _Unit:
    """The object of a cache entry."""
    warnings = tuple(entry.result["warnings"])
    return _Unit(text, loops, entry.folder / "unit.o", "", warnings, seconds, entry.reading.paths)


def batches(loops: Sequence[Loop]) -> list[list[Loop]]:
    """Loops of one kind, as many together as compile in a quarter of a minute or so.

    Kinds are mma.sync, dense and sparse wgmma: headers take a third of that time, however few of their loops are wanted,
    so units are as few as keeps two cores busy.
    """
    open_ones: dict[str, list[Loop]] = {}
    weights: dict[str, int] = {}
    full = []
    for one in loops:
        kind = one.headers[0] if one.own == "wgmma_loop" else one.own
        weight = sum(_WEIGHT_OF_LOOP + count * one.accumulator_words for count, _, _ in one.kernels)
        if kind in open_ones and weights[kind] + weight > _FULL:
            full.append(open_ones.pop(kind))
        if kind not in open_ones:
            weights[kind] = 0
        open_ones.setdefault(kind, []).append(one)
        weights[kind] += weight
    return full + list(open_ones.values())


def lay_out(folder: Path, *texts: str) -> None:
    """Write the headers that these translation units include, below the folders of `folder` that are in INCLUDES."""
    for path, content in _headers(texts).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def _headers(texts: Sequence[str]) -> dict[str, bytes]:
    """The closure of the `#include`s of these translation units over the runtime's headers."""
    units = {f"{number}.cu": text.encode() for number, text in enumerate(texts)}
    return {path: content for path, content in with_headers(units).items() if path not in units}
