"""Loops to one program: a few translation units, compiled side by side and cached by content, then linked."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from mmagen import __version__
from mmagen.cache import cache_root, load_entry, store_entry
from mmagen.errors import BuildError
from mmagen.peak.loops import Loop
from mmagen.peak.measure import Program
from mmagen.process import capture
from mmagen.render import templates_folder
from mmagen.toolchain import Toolchain

# What an accumulator's registers weigh in compile time beside the loop itself; a batch is full at _FULL.
_WEIGHT_OF_LOOP, _FULL = 24, 5000
_FLAGS = ("-std=c++17", "--expt-relaxed-constexpr", "-DNDEBUG", "-Xfatbin=-compress-all")
_MAIN = '#include "mmagen/peak_main.cuh"\n\nint main(int argc, char** argv) { return mmagen::peak::peak_main(argc, argv); }\n'
_LOOP_HEADERS = ("peak/element", "peak/entry", "peak/loop", "peak/register_loop", "peak/wgmma_loop")
HEADERS = (*_LOOP_HEADERS, "peak/measure", "peak/fill_operands", "peak/peak_main", "peak/predict", "test/device", "test/error",
           "test/nvml", "test/options", "test/problem", "test/record")
_SERIALIZED = re.compile(r"wgmma.*serializ", re.IGNORECASE)

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class _Site:
    toolchain: Toolchain
    target: str
    env: Mapping[str, str]
    root: Path
    scratch: Path

    def key(self, headers: Sequence[str], *parts: str) -> str:
        assert self.toolchain.nvcc and self.toolchain.host_compiler and self.toolchain.cutlass
        facts = [__version__, self.toolchain.nvcc.version, self.toolchain.host_compiler.version,
                 self.toolchain.cutlass.version, self.target, _FLAGS, _digest(headers), parts]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def nvcc(self, *arguments: str | Path):
        assert self.toolchain.nvcc and self.toolchain.host_compiler and self.toolchain.cutlass
        number = self.target.removeprefix("sm_")
        command = [self.toolchain.nvcc.path, "-ccbin", self.toolchain.host_compiler.path, *_FLAGS,
                   f"-gencode=arch=compute_{number},code=sm_{number}", "-I", self.scratch,
                   "-isystem", self.toolchain.cutlass.path, *arguments]
        return capture(command, timeout_s=None, env=dict(self.env), cwd=self.scratch)


def build(loops: Sequence[Loop], target: str, toolchain: Toolchain, *, jobs: int | None = None,
          progress: Progress | None = None, env: Mapping[str, str] | None = None) -> Program:
    """One program with all of `loops` that compile for `target`. Raises BuildError when the toolchain is incomplete."""
    toolchain.need("nvcc", "host_compiler", "cutlass")
    env = os.environ if env is None else env
    with tempfile.TemporaryDirectory(prefix="mmagen-peak-") as folder:
        site = _Site(toolchain, target, env, cache_root(env), Path(folder))
        _lay_out(site.scratch)
        key = site.key(HEADERS, "program", *(loop.name for loop in loops), *map(unit, batches(loops)))
        if linked := load_entry(key, site.root):
            return Program(linked[0] / "peak", warnings=tuple(linked[1]["warnings"]))
        return _build(loops, site, jobs or os.cpu_count() or 1, progress or (lambda done, total, what: None))


def _build(loops: Sequence[Loop], site: _Site, jobs: int, progress: Progress) -> Program:
    parts = batches(loops)
    done = 0
    units: list[_Unit] = []

    def one(batch: Sequence[Loop] | None) -> list[_Unit]:
        return [_main(site)] if batch is None else _compile(batch, site)

    with ThreadPoolExecutor(jobs) as pool:
        for made in pool.map(one, [None, *parts]):
            units += made
            done += 1
            progress(done, len(parts) + 1, f"compiled {sum(len(u.loops) for u in units)} of {len(loops)} loops")
    failed = {loop.name: u.error for u in units if u.error for loop in u.loops}
    if units[0].error:
        raise BuildError(f"the peak program's own main does not compile:\n{units[0].error}")
    good = [u for u in units if u.path]
    warnings = tuple(dict.fromkeys(line for u in units for line in u.warnings))
    seconds = sum(u.seconds for u in units)
    if len(good) == 1:
        return Program(None, failed, warnings, seconds)
    made = site.scratch / "peak"
    linked = site.nvcc("-o", made, *(u.path for u in good))
    if linked.exit_code != 0:
        raise BuildError(f"the peak program does not link:\n{linked.stderr or linked.stdout}")
    if failed:  # the next call tries again what did not compile
        key = site.key(HEADERS, "part", *(loop.name for u in good for loop in u.loops))
    else:
        key = site.key(HEADERS, "program", *(loop.name for loop in loops), *map(unit, parts))
    folder = store_entry(key, site.root, {"programs": {"peak": "peak"}, "warnings": list(warnings)}, {"peak": made})
    return Program(folder / "peak", failed, warnings, seconds + linked.seconds)


@dataclass(frozen=True)
class _Unit:
    """One object file, or the error of the loops in it."""

    loops: tuple[Loop, ...]
    path: Path | None
    error: str = ""
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0


def _compile(batch: Sequence[Loop], site: _Site) -> list[_Unit]:
    """The batch as one object; where it does not compile, in halves, until what is broken stands alone."""
    made = _object(site, _LOOP_HEADERS, unit(batch), tuple(batch))
    if not made.error or len(batch) == 1:
        return [made]
    half = len(batch) // 2
    return _compile(batch[:half], site) + _compile(batch[half:], site)


def _main(site: _Site) -> _Unit:
    return _object(site, HEADERS, _MAIN, ())


def _object(site: _Site, headers: tuple[str, ...], text: str, loops: tuple[Loop, ...]) -> _Unit:
    key = site.key(headers, "object", text)
    if stored := load_entry(key, site.root):
        return _Unit(loops, stored[0] / "unit.o", warnings=tuple(stored[1]["warnings"]))
    source, made = site.scratch / f"{key[:16]}.cu", site.scratch / f"{key[:16]}.o"
    source.write_text(text, "utf-8")
    done = site.nvcc("-c", "-o", made, source)
    told = (done.stderr + done.stdout).replace(f"{site.scratch}/", "").splitlines()
    if done.exit_code != 0 or not made.is_file():
        return _Unit(loops, None, next((line for line in told if "error" in line.lower()), "nvcc failed"), (), done.seconds)
    warnings = tuple(line for line in told if _SERIALIZED.search(line))
    folder = store_entry(key, site.root, {"programs": {}, "warnings": list(warnings)}, {"unit.o": made})
    return _Unit(loops, folder / "unit.o", "", warnings, done.seconds)


def unit(batch: Sequence[Loop]) -> str:
    """The translation unit that holds `batch`."""
    headers = dict.fromkeys(header for loop in batch for header in loop.headers)
    return _template().render(loops=batch, headers=headers, own=sorted({loop.own for loop in batch}))


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


@cache
def _template() -> Template:
    environment = Environment(loader=FileSystemLoader(templates_folder() / "project"), undefined=StrictUndefined,
                              keep_trailing_newline=True, autoescape=False)
    environment.filters["cxx_bool"] = lambda value: "true" if value else "false"
    return environment.get_template("peak/src/NAME.cu.j2")


@cache
def _digest(headers: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for name in headers:
        digest.update((templates_folder() / "runtime" / f"{name}.cuh").read_bytes())
    return digest.hexdigest()


def _lay_out(folder: Path) -> None:
    place = folder / "mmagen"
    place.mkdir()
    for name in HEADERS:
        (place / f"{name.rpartition('/')[2]}.cuh").write_bytes((templates_folder() / "runtime" / f"{name}.cuh").read_bytes())
