"""What does not run here is skipped by name, with the reason: no compiler for `nvcc`, no GPU for `gpu` tests, no time for
those that are `more` of the same."""

from __future__ import annotations

import functools
import os

import pytest


@functools.cache
def _missing_compiler() -> str:
    from mmagen.toolchain import COMPILE, find_toolchain

    toolchain = find_toolchain(want=COMPILE)
    return "; ".join(f"no {name}: {toolchain.remedies[name]}" for name in toolchain.missing())


@functools.cache
def _missing_gpu() -> str:
    from mmagen.toolchain import find_toolchain

    return find_toolchain(want=("gpus",)).remedies.get("gpus", "")


def pytest_collection_modifyitems(items):
    for item in items:
        reasons = [_missing_compiler()] if item.get_closest_marker("nvcc") or item.get_closest_marker("gpu") else []
        reasons += [_missing_gpu()] if item.get_closest_marker("gpu") else []
        if item.get_closest_marker("more") and not os.environ.get("MMAGEN_ALL_TESTS"):
            reasons.append("one of many alike, each compiled for itself; MMAGEN_ALL_TESTS=1 runs them all")
        why = "; ".join(reason for reason in reasons if reason)
        if why:
            item.add_marker(pytest.mark.skip(reason=f"{item.nodeid}: {why}"))
