"""Small changes that a learner makes to a spec: each message names the place, and what it says to write is accepted."""

from __future__ import annotations

import re

import pytest
import yaml

from mmagen.core.errors import ABSENT
from mmagen.families.reading import read
from mmagen.families.remedies import accepted_changes, as_yaml

MMA = """\
mmagen: 1
name: mine
kernel: gemm
atom: SM80_16x8x16_F32F16F16F32_TN
layout: TN
tile: [128, 128, 32]
atoms_layout: [2, 2, 1]
permutation: [32, 32, 16]
stages: 3
epilogue: {out: f16}
"""
WGMMA = """\
mmagen: 1
name: mine
kernel: gemm
atom: SM90_64x128x16_F32BF16BF16_SS
layout: TN
tile: [128, 128, 64]
atoms_layout: [2, 1, 1]
schedule: cooperative
cluster: [2, 1]
epilogue: {out: bf16}
"""
FP8 = WGMMA.replace("x16_F32BF16BF16_SS", "x32_F32E4M3E4M3_SS_TN").replace("128, 64]", "128, 128]")


def _without(text, key):
    return "".join(line for line in text.splitlines(True) if not line.startswith(f"{key}:"))


def _with(text, line):
    """The line, in the place of the one of its key, else behind all."""
    key = line.partition(":")[0]
    lines = text.splitlines(True)
    at = next((n for n, one in enumerate(lines) if one.startswith(f"{key}:")), len(lines))
    return "".join([*lines[:at], line + "\n", *lines[at + 1 :]])


# (spec, line and column of the first fault, what the message says, the keys to change as printed)
CASES = {
    "no multiple": (_with(MMA, "tile: [100, 128, 32]"), (6, 8), "100 is not a multiple of the 32", {"tile": [96, 128, 32]}),
    "tile as text": (_with(MMA, "tile: 64x128x32"), (6, 7), "is not a list", {"tile": [64, 128, 32]}),
    "tile in parentheses": (_with(MMA, "tile: (64, 128, 64)"), (6, 7), "is not a list", {"tile": [64, 128, 64]}),
    "tile without K": (_with(MMA, "tile: [64, 128]"), (6, 7), "has 2 entries, not 3", {"tile": [64, 128, 32]}),
    "tile of a float": (_with(MMA, "tile: [64.0, 128, 32]"), (6, 8), "64.0 is not an integer", {"tile": [64, 128, 32]}),
    "digits of another script": (
        _with(MMA, "tile: [64, 128, \uff13\uff12]"),
        (6, 17),
        "is not an integer",
        {"tile": [64, 128, 32]},
    ),
    "three atoms": (
        _with(MMA, "atoms_layout: [3, 2, 1]"),
        (8, 15),
        "the 48 elements that the atoms cover",
        {"tile": [96, 128, 32], "permutation": [48, 32, 16]},
    ),
    "two entries of atoms": (
        _with(MMA, "atoms_layout: [4, 2]"),
        (7, 15),
        "has 2 entries",
        {"atoms_layout": [4, 2, 1], "permutation": [64, 32, 16]},
    ),
    "a layout that is not closed": (
        _with(MMA, "atoms_layout: (2,2,1:(2,1,4)"),
        (7, 15),
        "a '(' without its ')'",
        {"atoms_layout": "(2,2,1):(2,1,4)"},
    ),
    "two atoms in one place": (
        _with(MMA, 'atoms_layout: "(2,2,1):(1,1,4)"'),
        (7, 15),
        "is not a bijection",
        {"atoms_layout": "(2,2,1):(1,2,4)"},
    ),
    "a permutation that is no layout": (
        _with(MMA, 'permutation: [32, "(8,2,2):(1,16,8", 16]'),
        (8, 19),
        "a '(' without its ')'",
        {"permutation": [32, "(8,2,2):(1,16,8)", 16]},
    ),
    "a permutation as text": (_with(MMA, "permutation: 32,32,16"), (8, 14), "not a list", {"permutation": [32, 32, 16]}),
    "NN of fp8": (_with(FP8, "layout: NN"), (5, 9), "wgmma reads e4m3 K contiguous only", {"layout": "TN"}),
    "an atom with a typo": (
        _with(MMA, "atom: SM80_16x8x16_F32F16F16F23_TN"),
        (4, 7),
        "did you mean SM80_16x8x16_F32F16F16F32_TN",
        {"atom": "SM80_16x8x16_F32F16F16F32_TN"},
    ),
    "a cluster of 3": (_with(WGMMA, "cluster: [3, 1]"), (9, 10), "not a power of two", {"cluster": [4, 1]}),
    "100 stages": (_with(MMA, "stages: 100"), (9, 9), "at most 10", {"stages": 10}),
    "stages in quotes": (_with(MMA, 'stages: "4"'), (9, 9), "is not an integer", {"stages": 4}),
    "split_k and stream_k": (
        WGMMA + "split_k: 2\nstream_k: always\n",
        (12, 11),
        "use one of the two",
        {"stream_k": ABSENT},
    ),
    "an epilogue with a typo": (
        _without(MMA, "epilogue") + "epilouge: {out: f16}\n",
        (10, 1),
        "did you mean epilogue?",
        {"epilogue": {"out": "f16"}, "epilouge": ABSENT},
    ),
    "the type alone": (_with(MMA, "epilogue: f16"), (10, 11), "is a mapping", {"epilogue": {"out": "f16"}}),
    "an operation with a typo": (
        _with(MMA, "epilogue: {out: f16, operations: [rleu]}"),
        (10, 35),
        "did you mean relu?",
        {"epilogue": {"out": "f16", "operations": ["relu"]}},
    ),
    "no tile": (_without(MMA, "tile"), (1, 1), "needs a tile", {"tile": [128, 128, 32]}),
    "no atom": (_without(MMA, "atom"), (1, 1), "atom: missing", {"atom": "SM80_16x8x16_F32F16F16F32_TN"}),
    "alignment": (MMA + "alignment: 8\n", (11, 1), "unknown key", {"alignment": ABSENT}),
    "a Cyrillic letter": (
        _without(MMA, "stages") + "st\u0430ges: 3\n",
        (10, 1),
        "did you mean stages?",
        {"stages": 3, "st\u0430ges": ABSENT},
    ),
    "a name with a dash": (_with(MMA, "name: my-gemm"), (2, 7), "is not a C identifier", {"name": "my_gemm"}),
    "a name with an umlaut": (_with(MMA, "name: größe"), (2, 7), "is not a C identifier", {"name": "grosse"}),
    "a name of C++": (_with(MMA, "name: float"), (2, 7), "is reserved", {"name": "my_float"}),
    "one problem without its list": (
        MMA + "problems: [512, 256, 128]\n",
        (11, 12),
        "problems is a list",
        {"problems": [[512, 256, 128]]},
    ),
    "a problem as text": (MMA + "problems: [512x256x128]\n", (11, 12), "is not valid", {"problems": [[512, 256, 128]]}),
    "an architecture as nvcc has it": (MMA + "arch: compute_86\n", (11, 7), "is not a list", {"arch": ["sm_86"]}),
    "permuted wgmma": (
        WGMMA + "permutation: [128, null, null]\n",
        (11, 15),
        "the nearest legal is permutation [null, null, null]",
        {"permutation": [None, None, None]},
    ),
}
# (spec, line and column, the line that the message says to write, whole)
NO_YAML = {
    "no space behind a colon": (_with(MMA, "layout:TN"), (5, 8), "layout: TN"),
    "a no-break space": (_with(MMA, "layout:\u00a0TN"), (5, 8), "layout: TN"),
    "a bracket": (_with(MMA, "tile: [64, 128, 32"), (6, 7), "tile: [64, 128, 32]"),
    "one bracket of two": (MMA + "problems: [[512, 256, 128]\n", (11, 11), "problems: [[512, 256, 128]]"),
    "an indented key": (MMA.replace("layout:", " layout:", 1), (5, 8), "layout: TN"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_change_that_is_printed_is_accepted(name):
    text, place, says, expected = CASES[name]
    _, faults = read(text, "mine.yaml")
    assert (faults[0].line, faults[0].column) == place and says in str(faults[0])
    found = accepted_changes(text, "mine.yaml")
    assert found is not None
    written = yaml.safe_load(as_yaml(found)) or {}
    assert {key: written.get(key, ABSENT) for key in found} == expected
    kept = {key: value for key, value in yaml.safe_load(text).items() if found.get(key) is not ABSENT}
    assert read(yaml.safe_dump(kept | written), "mine.yaml")[0]


@pytest.mark.parametrize("name", NO_YAML)
def test_the_line_that_no_yaml_should_have_is_accepted(name):
    text, (line, column), expected = NO_YAML[name]
    _, (fault,) = read(text, "mine.yaml")
    assert (fault.line, fault.column) == (line, column)
    found = re.match(r"write `([^`]*)`", fault.remedy)
    assert found and expected.endswith(found[1])
    assert read("\n".join([*text.split("\n")[: line - 1], expected, *text.split("\n")[line:]]), "mine.yaml")[0]


@pytest.mark.parametrize("atoms", ["[2, 2]", "(2,2,1:(1,2,4)", "[2, two, 1]"])
def test_atoms_that_cannot_be_read_are_the_only_fault(atoms):
    """What the tile would need with a single warp is no fault of the spec."""
    _, faults = read(_with(MMA, f"atoms_layout: {atoms}"), "mine.yaml")
    assert {fault.key[0] for fault in faults} == {"atoms_layout"}


def test_a_tab_is_named():
    _, (fault,) = read(MMA.replace("epilogue: {", "epilogue:\n\t{"), "mine.yaml")
    assert fault.line == 11 and fault.what == "not YAML: a tab indents the line" and "spaces" in fault.remedy
