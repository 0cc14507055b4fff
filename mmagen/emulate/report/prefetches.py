"""Boxes that a launch prefetches into L2 and never loads. That changes no result, so it is no finding: a kernel may mean it for the
next one. In a kernel that is to load what it prefetches it shows wrong coordinates."""

from __future__ import annotations

from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.report.findings import Finding, FindingLog

Box = tuple[int, tuple[int, ...]]
"""The address of a tensor map, and coordinates."""


class Prefetches:
    """The boxes of one launch that were prefetched, and those that were loaded."""

    def __init__(self) -> None:
        self._prefetched: dict[Box, Instruction] = {}
        self._loaded: set[Box] = set()

    def prefetch(self, i: Instruction, box: Box) -> None:
        """A thread prefetches a box."""
        self._prefetched.setdefault(box, i)

    def load(self, box: Box) -> None:
        """A thread loads a box."""
        self._loaded.add(box)

    def unused(self, ptx_file: str) -> list[Finding]:
        """One for each instruction that prefetched boxes which nothing loaded."""
        log = FindingLog(ptx_file)
        for (tensor, at), i in self._prefetched.items():
            if (tensor, at) not in self._loaded:
                log.add("unused_prefetch", i, 1, f"prefetches a box at {at} that no thread of the launch loads")
        return log.findings()
