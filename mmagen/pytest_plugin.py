"""Specs as pytest files: each problem of `*.mma.yaml`, and of *.yaml in the folders of `mmagen_specs`, is a test item.

Items run on a GPU if there is one, else they are emulated on small problems (`--mmagen-on`). They have the marker nvcc, and
on a GPU the marker gpu. mmagen is imported when a spec is collected, and compiles when the first item of a spec runs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from mmagen.build.job import BuildResult
    from mmagen.plan.plans import GemmPlan
    from mmagen.plan.project import ProjectPlan
    from mmagen.spec.model import Problem
    from mmagen.toolchain.model import Toolchain
    from mmagen.verify.emulated.task import Task
    from mmagen.verify.run import RunResult

_SUFFIX = ".mma.yaml"
_FIELDS = ("max_abs_err", "bound", "ms_median", "device")  # of a record, in reports
_IN_NAMES = str.maketrans({" ": "-", "=": ":", "'": None, ",": None})


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mmagen")
    group.addoption(
        "--mmagen-on",
        choices=("auto", "gpu", "cpu"),
        default="auto",
        help="where the problems of *.mma.yaml run: on a GPU, or emulated; auto: on a GPU if there is one",
    )
    parser.addini("mmagen_specs", "folders whose *.yaml files are specs, besides *.mma.yaml", type="paths", default=[])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "nvcc: compiles CUDA")
    config.addinivalue_line("markers", "gpu: runs kernels on a GPU")
    for folder in config.getini("mmagen_specs"):
        if not Path(folder).is_dir():  # else its specs would be missing without a word
            raise pytest.UsageError(f"mmagen_specs: {folder} is not a folder; name folders of specs")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    folders = [Path(folder).resolve() for folder in parent.config.getini("mmagen_specs")]
    if file_path.name.endswith(_SUFFIX) or (file_path.suffix == ".yaml" and file_path.parent.resolve() in folders):
        found: pytest.Collector = SpecFile.from_parent(parent, path=file_path)
        return found
    return None


class KernelFailure(Exception):
    """A kernel that did not compile, or whose result is wrong; the text says what."""


class SpecFile(pytest.File):
    """A spec. What is compiled is shared by its items."""

    def collect(self) -> Iterator[pytest.Item]:
        from mmagen.verify.problem_text import problem_argument

        if self._emulates:
            yield from self._emulated_items()
            return
        for problem in self.plan.problems or (None,):
            name = _name(problem, "") if problem else "tile"
            item = GpuItem.from_parent(self, name=name)
            item.arguments = ["--problem", problem_argument(problem)] if problem else []
            item.add_marker("nvcc")
            item.add_marker("gpu")
            yield item

    def _emulated_items(self) -> Iterator[pytest.Item]:
        """In the order of `tasks`."""
        from mmagen.verify.emulated.session import emulated_cases, only_on_a_gpu

        if why := only_on_a_gpu(self.plan):
            item: pytest.Item = EmulatedItem.from_parent(self, name="kernel")
            item.add_marker(pytest.mark.skip(reason=why))
            yield item
            return
        number = 0
        done = set()
        library = None if "" in self.plan.by_config else cast("GemmPlan", self.plan)
        for config, one in self.plan.by_config.items():
            for problem, distribution in emulated_cases(one, library):
                done.add(problem)
                item = EmulatedItem.from_parent(self, name=_name(problem, distribution, config))
                item.number = number
                number += 1
                item.add_marker("nvcc")
                yield item
        for problem in self.plan.spec.problems or ():
            if problem not in done:
                left_out = EmulatedItem.from_parent(self, name=_name(problem))
                left_out.add_marker(pytest.mark.skip(reason="replaced by small problems in emulation"))
                yield left_out

    @cached_property
    def plan(self) -> ProjectPlan:
        """Raises CollectError with the faults of the spec, or why it cannot be read."""
        from mmagen.core.errors import SpecError, UsageError
        from mmagen.core.files import content
        from mmagen.families.reading import read

        name = os.path.relpath(self.path, self.config.invocation_params.dir)
        try:
            found, faults = read(content(self.path), name)
        except (SpecError, UsageError) as error:  # no YAML, or it cannot be read
            raise self.CollectError(str(error)) from None
        if found is None:
            raise self.CollectError("\n".join(map(str, faults)))
        return found

    @property
    def _emulates(self) -> bool:
        from mmagen.toolchain.gpus import find_gpus

        where = self.config.getoption("--mmagen-on")
        return where == "cpu" or (where == "auto" and not find_gpus(os.environ)[0])

    @cached_property
    def toolchain(self) -> Toolchain:
        """Skips the test where kernels cannot be compiled."""
        from mmagen.toolchain.find import COMPILE, find_toolchain

        found = find_toolchain(want=(*COMPILE, "gpus"))
        if missing := found.missing(COMPILE):
            pytest.skip("; ".join(f"no {name}: {found.remedies[name]}" for name in missing))
        return found

    @cached_property
    def tasks(self) -> list[Task]:
        """What is emulated, compiled. Raises KernelFailure."""
        from mmagen.build.ptx import compile_ptx
        from mmagen.verify.emulated.session import tasks

        with self._project() as folder:
            ptx = compile_ptx(Path(folder) / self.plan.name, self.toolchain)
        if ptx.error:
            raise KernelFailure(f"{self.plan.name} does not compile:\n{ptx.error}")
        return tasks(self.plan, ptx, (), 1, None)

    @cached_property
    def program(self) -> BuildResult:
        """The program that runs on a GPU. Raises KernelFailure."""
        from mmagen.build.build import build

        with self._project() as folder:
            result = build([Path(folder) / self.plan.name], self.toolchain, programs=("verify",))[0]
        if not result.ok:
            raise KernelFailure("\n".join((result.reason, *result.errors)))
        return result

    def _project(self) -> tempfile.TemporaryDirectory[str]:
        from mmagen.generate.render import render
        from mmagen.generate.write import write

        folder = tempfile.TemporaryDirectory(prefix="mmagen-pytest-")
        write(render(self.plan, with_figures=False), Path(folder.name) / self.plan.name)
        return folder


class _Item(pytest.Item):
    """One problem."""

    parent: SpecFile

    def judge(self, result: RunResult) -> None:
        """Raises KernelFailure, or skips, as the first record that did not pass says."""
        for record in result.records:
            self._report({field: record[field] for field in _FIELDS if record[field] is not None})
            if record["disposition"] in ("not_supported", "not_run"):
                pytest.skip(str(record["reason"]))
            if record["disposition"] != "passed":
                raise KernelFailure(f"{record['disposition']}: {record['reason']}")
        if result.reason or not result.records:
            raise KernelFailure(result.reason or "the program reported nothing")

    def _report(self, figures: Mapping[str, Any]) -> None:
        """To the captured output, which `junit_logging` puts into the JUnit file; as properties only in the family that has them:
        a file of the other one is valid by Jenkins's schema."""
        text = ", ".join(f"{field} {value}" for field, value in figures.items())
        self.add_report_section("call", "stdout", f"{text}\n")
        if self.config.getini("junit_family") in ("xunit1", "legacy"):
            self.user_properties.extend(figures.items())

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, KernelFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        # In what ends as the node's id does pytest would replace dots, and the name could not be pasted back.
        return self.path, 0, f"{self.name} of {self.path.name}"


class EmulatedItem(_Item):
    """number: of its task."""

    number = 0

    def runtest(self) -> None:
        from mmagen.verify.emulated.session import run_task

        self.judge(run_task(self.parent.tasks[self.number]))


class GpuItem(_Item):
    """arguments: of the program."""

    arguments: list[str]

    def runtest(self) -> None:
        from mmagen.verify.omitted import unsuitable
        from mmagen.verify.run import run

        toolchain = self.parent.toolchain
        if not toolchain.gpus:
            pytest.skip(toolchain.remedies["gpus"])
        program = self.parent.program
        if why := unsuitable(program, toolchain.gpus[0]):
            pytest.skip(why)
        self.judge(run(program, program="verify", args=[*self.arguments, "--no-timing"], timeout_s=600.0))


def _name(problem: Problem, *details: str) -> str:
    """16x8x16-b2-beta:2-uniform: of characters that a shell and -k take."""
    return "-".join(part for part in (problem.text.translate(_IN_NAMES), *details) if part)
