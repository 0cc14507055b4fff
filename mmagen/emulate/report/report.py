"""The outcome of a launch."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from mmagen.emulate.report.coverage import Coverage
from mmagen.emulate.report.findings import Finding
from mmagen.emulate.report.traffic import Traffic


@dataclass
class Report:
    """The outcome of a launch. completed: every thread has ended. stopped: a limit of steps or of time was exceeded. printed: the
    texts of printf, in the order of execution. unused_prefetches: of boxes that the launch prefetches and never loads, which is no
    fault by itself."""

    entry: str
    ctas: int = 0
    completed: bool = True
    stopped: bool = False
    findings: list[Finding] = field(default_factory=list)
    steps: int = 0
    warp_instructions: int = 0
    opcodes: dict[str, int] = field(default_factory=dict)
    traffic: list[Traffic] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    unused_prefetches: list[Finding] = field(default_factory=list)
    coverage: Coverage = field(default_factory=lambda: Coverage(""))

    def by_line(self) -> list[Traffic]:
        """The traffic summed per space and source line, in the order of file and line; instruction is empty."""
        sums: dict[tuple[str, int, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        for t in self.traffic:
            for n, value in enumerate((t.requests, t.units, t.ideal)):
                sums[t.file, t.line, t.space][n] += value
        return [
            Traffic(space, file, line, "", requests, units, ideal)
            for (file, line, space), (requests, units, ideal) in sorted(sums.items())
        ]
