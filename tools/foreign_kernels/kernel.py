"""One kernel of another project: which driver instantiates what, for which architecture, and on which problem."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from tools.foreign_kernels.problems import Problem
from tools.foreign_kernels.sources import Source


@dataclass(frozen=True)
class Kernel:
    """One kernel. where: its source in the project's repository. driver: of ours, in drivers/. problem: None for a program
    that checks itself. defects: kinds of findings that are true of this version of the kernel, with what is wrong in it.
    options: of nvcc. function: of the driver. says: what a program prints that has found its result right."""

    name: str
    source: Source
    where: str
    driver: str
    arch: str
    macros: dict[str, str | int] = field(default_factory=dict)
    problem: Problem | None = None
    defects: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    function: str = "run"
    says: str = ""

    @property
    def flags(self) -> list[str]:
        """-D of nvcc, which takes a comma as the beginning of another definition."""
        assert not any("," in str(value) for value in self.macros.values()), self.name
        return [*self.options, *(f"-D{name}={value}" for name, value in self.macros.items())]

    @property
    def program(self) -> str:
        """Name of what is compiled: kernels with the same driver, macros and architecture share it."""
        text = " ".join((self.source.name, self.driver, self.arch, *self.flags))
        return f"{self.driver.removesuffix('.cu')}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
