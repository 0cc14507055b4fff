"""Fake builds: a project whose programs are small Python scripts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mmagen.build.build import BuildResult
from mmagen.build.log import KernelInfo
from mmagen.verify.run import RECORD_FIELDS


def record(**changes) -> dict:
    """A whole record of something that passed, with `changes`."""
    whole = dict.fromkeys(RECORD_FIELDS) | {
        "name": "k",
        "problem": [64, 64, 32],
        "disposition": "passed",
        "max_abs_err": 0.0,
        "bound": 1e-3,
        "reason": "",
        "device": "Fake GPU",
    }
    return whole | changes


def fake_build(folder: Path, body: str, name: str = "k", **changes) -> BuildResult:
    """A successful build whose programs run the Python code `body`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}_verify"
    path.write_text(f"#!{sys.executable}\nimport json, os, signal, sys, time\n{body}\n")
    path.chmod(0o755)
    kernels = (KernelInfo("f", "sm_80", 96, 8, 4, 1024, 0), KernelInfo("g", "sm_90a", 128, 0, 0, 2048, 0))
    return BuildResult(
        name,
        folder,
        True,
        **{
            "programs": {"verify": path},
            "ptxas": kernels,
            "seconds": 2.0,
            "cuda": "13.0.88",
            "cutlass": "4.2.0",
            "spec_sha": "abc",
        }
        | changes,
    )


def printing(*records: dict, code: int = 0) -> str:
    """Code of a program that prints `records` and ends with `code`."""
    lines = [json.dumps(r) for r in records]
    return f"for line in {lines!r}: print(line)\nsys.exit({code})"
