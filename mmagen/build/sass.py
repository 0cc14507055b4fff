"""Machine code as cuobjdump and nvdisasm print it: its kernels, their main loops, and how many instructions of each class."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from mmagen.core.errors import BuildError
from mmagen.core.process import capture
from mmagen.toolchain.model import Tool

_TENSOR = re.compile(r"^(?:[HQIBD]G?MMA|OMMA|UTC\w*MMA)\b")
_FUNCTION = re.compile(r"^\s*(?:Function : |\.section\s+\.text\.)([\w$.]+)")
_TARGET_OF_CODE = re.compile(r"^\s*code for (sm_\w+)")
_LABEL = re.compile(r"^(\.L_\w+):")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_TARGET = re.compile(r"`\((\.L_\w+)\)|\b0x([0-9a-f]+)\s*$")
_USAGE = re.compile(r"Function ([\w$.]+):\s+REG:(\d+) STACK:(\d+)")

# Classes whose instructions have the name of an opcode; then those of several, the first that matches.
_NAMED = re.compile(
    r"^(?:[HQIBD]G?MMA|OMMA|UTC\w+|LDSM|LDS|STSM|STS|LDGSTS|LDG|STG|LDL|STL|UTMALDG|UTMASTG|UTMAREDG|UTMAPF|BAR|SYNCS|WARPGROUP|"
    r"WARPSYNC|DEPBAR|LDGDEPBAR|MEMBAR|FENCE|SHFL|RED|REDG|ATOM|ATOMG|ATOMS|ACQBULK|UBLKCP)$"
)
_CLASSES = (
    ("f32 and f64 arithmetic", re.compile(r"^(?:FADD|FMUL|FFMA|FSEL|FSET|FSETP|FMNMX|MUFU|DADD|DMUL|DFMA|DSETP)\d*$")),
    ("arithmetic on pairs", re.compile(r"^H(?:ADD|MUL|FMA|SET|SETP|MNMX)2$")),
    ("conversions", re.compile(r"^(?:F2F|F2FP|F2I|F2IP|I2F|I2FP|I2I|I2IP|FRND)$")),
    ("branches", re.compile(r"^(?:BRA|BRX|BSSY|BSYNC|BREAK|CALL|RET|EXIT|WARPEXIT|NANOSLEEP|YIELD|JMP)$")),
)
_REST = "integers, addresses, moves"
SPILLS = ("LDL", "STL")


@dataclass
class Kernel:
    """code: the instructions in order. labels: the index of the instruction that each label stands before."""

    name: str = ""
    arch: str = ""
    code: list[str] = field(default_factory=list)
    addresses: dict[int, int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)

    def target(self, instruction: str) -> int | None:
        """The index that a branch goes to; None for any other instruction."""
        found = _TARGET.search(instruction) if re.search(r"\bBRA\b", instruction) else None
        if found is None:
            return None
        return self.labels.get(found[1]) if found[1] else self.addresses.get(int(found[2], 16))

    def main_loops(self) -> list[list[str]]:
        """The bodies of the innermost loops with tensor-core instructions, in order."""
        spans = []
        for end, instruction in enumerate(self.code):
            begin = self.target(instruction)
            if begin is None or begin > end:
                continue
            body = self.code[begin : end + 1]
            # A body with EXIT is none: the code of waits that fail lies behind the kernel's end and jumps back.
            if any(map(is_tensor, body)) and not any(opcode(one) == "EXIT" for one in body):
                spans.append((begin, end))
        inner = [one for one in spans if not any(one != other and one[0] <= other[0] and other[1] <= one[1] for other in spans)]
        return [self.code[begin : end + 1] for begin, end in sorted(set(inner))]


def is_tensor(instruction: str) -> bool:
    """Is it an MMA instruction of the tensor cores?"""
    return bool(_TENSOR.match(opcode(instruction)))


def opcode(instruction: str) -> str:
    """With its suffixes, without the predicate."""
    words = instruction.split()
    return words[1] if words[0].startswith("@") else words[0]


def parse(text: str) -> list[Kernel]:
    """The kernels of a disassembly, in the order of their names; the same one of two architectures is two."""
    kernels: dict[tuple[str, str], Kernel] = {}
    current, arch = Kernel(), ""
    for line in text.splitlines():
        if found := _TARGET_OF_CODE.match(line):
            arch = found[1]
        elif found := _FUNCTION.match(line):
            current = kernels.setdefault((found[1], arch), Kernel(found[1], arch))
        elif found := _LABEL.match(line):
            current.labels[found[1]] = len(current.code)
        elif found := _INSTRUCTION.match(line):
            current.addresses[int(found[1], 16)] = len(current.code)
            current.code.append(re.sub(r"\s+", " ", found[2]))
    return [kernels[key] for key in sorted(kernels) if kernels[key].code]


def class_of(instruction: str) -> str:
    """HGMMA, LDSM, BAR ... for what moves data, multiplies or waits; a few words for everything else."""
    base = opcode(instruction).partition(".")[0]
    if _NAMED.match(base):
        return base
    return next((name for name, pattern in _CLASSES if pattern.match(base)), _REST)


def counts(code: Iterable[str]) -> Counter[str]:
    """How many instructions of each class, without those that only fill places."""
    return Counter(class_of(one) for one in code if opcode(one) != "NOP")


def disassembled(cuobjdump: Tool, binary: Path) -> list[Kernel]:
    """The kernels in a library or program. Raises BuildError where cuobjdump or the nvdisasm that it calls fails."""
    return parse(_output(cuobjdump, "-sass", binary))


def usage(cuobjdump: Tool, binary: Path) -> dict[str, tuple[int, int]]:
    """Registers per thread and bytes of stack of each function of a library or program. Raises BuildError."""
    text = " ".join(_output(cuobjdump, "-res-usage", binary).split())
    return {found[1]: (int(found[2]), int(found[3])) for found in _USAGE.finditer(text)}


def _output(cuobjdump: Tool, option: str, binary: Path) -> str:
    done = capture([cuobjdump.path, option, binary], timeout_s=120)
    if done.exit_code != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise BuildError(f"cuobjdump {option} {binary.name}: {lines[-1] if lines else f'exit code {done.exit_code}'}")
    return done.stdout
