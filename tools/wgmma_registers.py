"""Checks in SASS that no register is written while a wgmma in flight reads it: fragments of A, and metadata of a sparse A.

    cuobjdump -sass LIBRARY | python -m tools.wgmma_registers -
    python -m tools.wgmma_registers FILE...

FILE is what `nvdisasm -c` or `cuobjdump -sass` wrote. A wgmma (HGMMA, IGMMA, QGMMA, BGMMA) reads these registers while it runs, so
that they must keep their values until the WARPGROUP.DEPBAR that waits for its group. ptxas of CUDA 13.0 sees to that for
fragments of A, but not for metadata. Followed are all paths through a kernel; calls are taken to return to the next
instruction, and a predicated instruction to be executed.

Exit code 0 if there is no such write, 1 if there is one, 2 if no kernel has a wgmma.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from mmagen.build.sass import Kernel, opcode, parse

_WGMMA = re.compile(r"^[HIQB]GMMA\b")
_NEW_GROUP = re.compile(r"\bgsb0$")  # the last wgmma of a group
_WAIT = re.compile(r"^WARPGROUP\.DEPBAR\.LE gsb0, 0x([0-9a-f]+)")
_REGISTER = re.compile(r"^[-|~!]*R(\d+)\b")
_PREDICATE = re.compile(r"^!?U?P(?:\d+|T)$")
_NO_RESULT = re.compile(
    r"^(?:ST|STG|STS|STL|STSM|STAS|RED|REDG|REDAS|BAR|WARPSYNC|NANOSLEEP|BRX|JMX|RET|CALL|BPT|EXIT|SYNCS|CCTL|DEPBAR|ERRBAR|UTMA\w*)\b"
)
_PREDICATE_FIRST = re.compile(r"^(?:SHFL|LOP3|MATCH|LD|LDG|LDS|LDSM|LDL|ATOM|ATOMG|ATOMS|VOTE)\b")
_PAIR = re.compile(r"\.(?:64|WIDE|F64)\b|^(?:D(?:ADD|MUL|FMA|MNMX)|CS2R(?!\.32))\b")
_FRAGMENT = 4  # registers of an A

InFlight = Mapping[int, int]
"""Index of a wgmma -> how many groups were committed since, its own included; of several paths the least."""


def operands(instruction: str) -> list[str]:
    """Those behind the opcode, without its predicate."""
    words = re.sub(r"^@!?U?P\w+ ", "", instruction).split(" ", 1)
    return [one.strip() for one in words[1].split(",")] if len(words) > 1 else []


def read_in_flight(wgmma: str) -> set[int]:
    """Registers of an A and of metadata. `wgmma`: HGMMA D, [A,] gdesc[..], C, [!UPT,] [metadata, selector,] [gsb0]."""
    given = operands(wgmma)
    at = next((n for n, one in enumerate(given) if one.startswith("gdesc")), len(given))
    fragment = [int(found[1]) for one in given[1:at] if (found := _REGISTER.match(one))]
    behind = [int(found[1]) for one in given[at + 2 :] if (found := _REGISTER.match(one))]
    return {first + n for first in fragment for n in range(_FRAGMENT)} | set(behind)


def written(instruction: str) -> set[int]:
    """Registers that an instruction other than a wgmma writes."""
    name, given = opcode(instruction), operands(instruction)
    if _NO_RESULT.match(name):
        return set()
    if _PREDICATE_FIRST.match(name):
        while given and _PREDICATE.match(given[0]):
            given = given[1:]
    found = _REGISTER.match(given[0]) if given else None
    if found is None:
        return set()
    count = 2 if _PAIR.search(name) else 1
    if ".128" in name or name.startswith(("HMMA", "IMMA")):
        count = 4
    elif name.startswith("LDSM"):
        count = int(name[-1]) if name[-1] in "24" else 1
    return set(range(int(found[1]), int(found[1]) + count))


def _after(code: list[str], index: int, in_flight: InFlight) -> InFlight:
    """What is in flight behind an instruction."""
    instruction = code[index]
    if found := _WAIT.match(instruction):
        most = int(found[1], 16)
        return {one: groups for one, groups in in_flight.items() if groups <= most}
    if not _WGMMA.match(opcode(instruction)):
        return in_flight
    new = {**in_flight, index: 0}
    return {one: groups + 1 for one, groups in new.items()} if _NEW_GROUP.search(instruction) else new


def _next(kernel: Kernel, index: int) -> Iterator[int]:
    """The instructions that may follow."""
    instruction = kernel.code[index]
    target = kernel.target(instruction)
    always = not instruction.startswith("@") and not re.search(r"\bBRA\.\S+|\bBRA U?P", instruction)
    if target is not None:
        yield target
    ends = opcode(instruction).split(".")[0] in ("BRA", "EXIT", "RET", "JMX", "BRX")
    if index + 1 < len(kernel.code) and not (ends and always):
        yield index + 1


def states(kernel: Kernel) -> dict[int, InFlight]:
    """What may be in flight before each instruction that can be reached."""
    before: dict[int, InFlight] = {0: {}}
    waiting = [0]
    while waiting:
        index = waiting.pop()
        after = _after(kernel.code, index, before[index])
        for follower in _next(kernel, index):
            known = before.get(follower)
            merged = dict(known or {})
            for one, groups in after.items():
                merged[one] = min(groups, merged.get(one, groups))
            if known is None or merged != known:
                before[follower] = merged
                waiting.append(follower)
    return before


def faults(kernel: Kernel) -> list[str]:
    """A sentence for each instruction that writes a register which a wgmma in flight reads."""
    address = {index: at for at, index in kernel.addresses.items()}
    reads = {n: read_in_flight(one) for n, one in enumerate(kernel.code) if _WGMMA.match(opcode(one))}
    found = []
    for index, in_flight in sorted(states(kernel).items()):
        if index in reads:
            continue
        for register in sorted(written(kernel.code[index])):
            wgmma = next((one for one in sorted(in_flight) if register in reads[one]), None)
            if wgmma is not None:
                found.append(
                    f"/*{address[index]:04x}*/ {kernel.code[index]} writes R{register}, which the wgmma in flight reads: "
                    f"/*{address[wgmma]:04x}*/ {kernel.code[wgmma]}"
                )
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="a disassembly; - is standard input")
    count = bad = 0
    for file in parser.parse_args(argv).files:
        for kernel in parse(sys.stdin.read() if file == "-" else Path(file).read_text()):
            wgmmas = sum(bool(_WGMMA.match(opcode(one))) for one in kernel.code)
            count += wgmmas
            found = faults(kernel) if wgmmas else []
            bad += len(found)
            for sentence in found:
                print(f"{kernel.name}: {sentence}")
    print(f"{count} wgmma instructions, {bad} writes to registers that one in flight reads")
    return 2 if count == 0 else int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
