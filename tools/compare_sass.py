"""Compares the SASS of two builds of the same kernels, in particular their mainloops.

    python -m tools.compare_sass BEFORE AFTER

BEFORE and AFTER are files that `nvdisasm -c` or `cuobjdump -sass` wrote, or folders of such files (*.sass) in which the
same paths are compared. The main loops of a kernel are its innermost loops with tensor-core instructions. Two loops are

    identical        the same instructions; names of labels and addresses aside
    renamed          the same but for the numbers of registers and the offsets of kernel parameters
    same mainstream  the same MMA, memory and barrier instructions in the same order; address arithmetic differs
    rescheduled      the same ones by kind and number, in another order
    different        none of these

Exit code 0 if no main loop is different, else 1.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

from mmagen.build.sass import opcode, parse

_MAINSTREAM = re.compile(
    r"^(?:[HQIBD]G?MMA|OMMA|UTC|WARPGROUP|SYNCS|BAR|DEPBAR|LDGDEPBAR|UTMA|LDG|STG|LDS|STS|STAS|LDGSTS|ST|LD|MEMBAR|FENCE)\b"
)
_REGISTER = re.compile(r"\b(UR|UP|R|P|SB|B)(\d+)\b")
_PARAMETER = re.compile(r"c\[0x0\]\[([^\]]*)\]")


def without_labels(code: list[str]) -> list[str]:
    """The code with branch targets replaced: their names and addresses are irrelevant."""
    return [re.sub(r"`\(\.L_\w+\)|(?<=BRA )0x[0-9a-f]+", "LABEL", one) for one in code]


def renamed(code: list[str]) -> list[str]:
    """Registers numbered in the order of their first use, offsets of parameters left out."""
    numbers: dict[tuple[str, str], str] = {}

    def rename(found: re.Match[str]) -> str:
        return numbers.setdefault((found[1], found[2]), f"{found[1]}#{len(numbers)}")

    return [_REGISTER.sub(rename, _PARAMETER.sub("c[0x0][]", one)) for one in without_labels(code)]


def mainstream(code: list[str]) -> list[str]:
    """The MMA, memory and barrier instructions, without their operands."""
    return [opcode(one) for one in code if _MAINSTREAM.match(opcode(one))]


def verdict(before: list[str], after: list[str]) -> str:
    """The degree of similarity of two pieces of code."""
    if without_labels(before) == without_labels(after):
        return "identical"
    if renamed(before) == renamed(after):
        return "renamed"
    if mainstream(before) == mainstream(after):
        return "same mainstream"
    if Counter(mainstream(before)) == Counter(mainstream(after)):
        return "rescheduled"
    return "different"


def changes(before: list[str], after: list[str]) -> str:
    """The change in the number of instructions of each kind."""
    kinds = Counter(map(opcode, after))
    kinds.subtract(Counter(map(opcode, before)))
    return ", ".join(f"{count:+} {kind}" for kind, count in sorted(kinds.items()) if count)


def compare(name: str, before: str, after: str) -> bool:
    """Prints one line for each kernel; are all main loops the same?"""
    old, new = parse(before), parse(after)
    good = len(old) == len(new)
    if not good:
        print(f"{name}: {len(old)} kernels before, {len(new)} after")
    for one, other in zip(old, new, strict=False):
        loops = list(zip(one.main_loops(), other.main_loops(), strict=False))
        verdicts = [verdict(*pair) for pair in loops]
        same = len(one.main_loops()) == len(other.main_loops()) and "different" not in verdicts
        sizes = "+".join(str(len(body)) for body in one.main_loops())
        print(
            f"{name}: main loops of {sizes or 'no'} instructions: {', '.join(verdicts) or 'none'};"
            f" whole kernel {len(one.code)} -> {len(other.code)}: {verdict(one.code, other.code)}"
        )
        for outcome, pair in zip(verdicts, loops, strict=True):
            if outcome not in ("identical", "renamed"):
                print(f"    {len(pair[0])} -> {len(pair[1])} instructions: {changes(*pair) or 'another order'}")
        good = good and same
    return good


def main(arguments: list[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    given = parser.parse_args(arguments)
    if given.before.is_file():
        return 0 if compare(given.before.name, given.before.read_text(), given.after.read_text()) else 1
    paths = sorted(path.relative_to(given.before) for path in given.before.rglob("*.sass"))
    shared = [path for path in paths if (given.after / path).is_file()]
    good = [compare(str(path), (given.before / path).read_text(), (given.after / path).read_text()) for path in shared]
    print(f"{len(shared)} of {len(paths)} files compared, main loops the same in {sum(good)}")
    return 0 if shared and all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
