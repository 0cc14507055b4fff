"""docs/emulator.md: its Python is executed, block after block, as a reader would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/emulator.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def execute(blocks):
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)


def test_the_python_of_the_page_runs(capsys):
    execute(block for block in BLOCKS if "compile_program" not in block)
    printed = capsys.readouterr().out
    assert len(BLOCKS) >= 5 and printed.count("\n") == 4
    for said in (
        "accesses 4 bytes at 0 bytes past the end of argument 0",
        "has 4 parameters (.u64, .u64, .f32, .u32), not 3",
        "argument 3 for n (.u32): 1.5 is a float",
        "argument 1 is a view with strides (8,)",
    ):
        assert said in printed


@pytest.mark.nvcc
def test_the_program_of_the_page_runs():
    (block,) = (block for block in BLOCKS if "compile_program" in block)
    execute(["import numpy as np\nfrom mmagen.emulate import Device\n", block])
