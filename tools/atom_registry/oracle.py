"""Generates, compiles and runs a host-only C++ program that prints the properties of CuTe's types for each operation.

Nothing runs on a GPU: the layouts are types, and a host compiler instantiates them. Large sets are cut into translation
units that two cores compile side by side without running out of memory.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from mmagen.mma.operation import wrapped
from mmagen.toolchain.find import Toolchain
from tools.atom_registry.choices import Instantiation, choices, same_layouts, traits_parameters
from tools.atom_registry.scan import Struct, matched

OPERANDS = ("D", "A", "B", "C", "E", "SFA", "SFB")
PER_UNIT = 160

_PRELUDE = r"""
#include <cute/tensor.hpp>
%(includes)s
#include <cstdio>
#include <type_traits>

template <class T> void type(char const* key) {
  std::printf("%%s\t%%s\n", key, __PRETTY_FUNCTION__);
}
template <class T> void value(char const* key) {
  std::printf("%%s\t", key); cute::print(T{}); std::printf("\n");
}

#define DETECT(Member) \
  template <class T, class = void> struct Has##Member : std::false_type {}; \
  template <class T> struct Has##Member<T, std::void_t<typename T::Member>> : std::true_type {};
#define VALUE(T, Member) if constexpr (Has##Member<T>::value) value<typename T::Member>(#Member)
#define TYPE(T, Member) if constexpr (Has##Member<T>::value) type<typename T::Member>(#Member)
%(detect)s

template <class Op, class Traits> void dump(char const* name) {
  std::printf("op\t%%s\n", name);
  [[maybe_unused]] Traits traits{};  // its instruction descriptor refuses types that it has no word for
  VALUE(Traits, Shape_MNK); VALUE(Traits, ThrID);
%(members)s
}

template <class Traits, class Other> constexpr bool same() {
  static_assert(std::is_same_v<typename Traits::Shape_MNK, typename Other::Shape_MNK>);
  static_assert(std::is_same_v<typename Traits::ThrID, typename Other::ThrID>);
  static_assert(std::is_same_v<typename Traits::ALayout, typename Other::ALayout>);
  static_assert(std::is_same_v<typename Traits::BLayout, typename Other::BLayout>);
  static_assert(std::is_same_v<typename Traits::CLayout, typename Other::CLayout>);
  return true;
}
"""


@dataclass
class Facts:
    """What the oracle printed of one instantiation. layouts: of ThrID, A, B, C, E, SFA, SFB, as CuTe text without the
    underscores. values, fragments, registers: C++ types of D, A, B, C, E, SF..., as g++ spells them."""

    shape: tuple[int, ...] = ()
    layouts: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    fragments: dict[str, str] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)


def operation_type(struct: Struct, instantiation: Instantiation) -> str:
    """The struct as C++ spells it, with the arguments that the struct itself takes."""
    arguments = list(struct.arguments)
    if struct.arguments:  # a specialisation's text names its free parameter
        free = dict(instantiation.arguments)
        arguments = [free.get(argument, argument) for argument in arguments]
    elif not traits_parameters(struct):
        arguments = [value for _, value in instantiation.arguments]
    return f"cute::{struct.name}" + (f"<{', '.join(map(_cxx, arguments))}>" if arguments or struct.parameters else "")


def traits_type(struct: Struct, instantiation: Instantiation) -> str:
    """CuTe's traits of it."""
    extra = ""
    if traits_parameters(struct):
        kinds = {choice.name: choice.type for choice in choices(struct)}
        extra = "".join(f", {wrapped(kinds[name], value)}" for name, value in _with_defaults(struct, instantiation))
    return f"cute::MMA_Traits<{operation_type(struct, instantiation)}{extra}>"


def _with_defaults(struct: Struct, instantiation: Instantiation) -> list[tuple[str, str]]:
    given = dict(instantiation.arguments)
    return [(choice.name, given.get(choice.name, choice.values[0])) for choice in choices(struct)]


def _cxx(argument: str) -> str:
    return f"cute::{argument}" if re.fullmatch(r"float_\w+|half_t", argument) else argument


def ask(wanted: Sequence[tuple[Struct, Instantiation]], toolchain: Toolchain, jobs: int = 2) -> list[Facts]:
    """Facts of each, in order.

    Raises subprocess.CalledProcessError with the compiler's words when a struct cannot be instantiated so.
    """
    units = [wanted[start : start + PER_UNIT] for start in range(0, len(wanted), PER_UNIT)]
    with tempfile.TemporaryDirectory(prefix="atom-registry-") as folder, ThreadPoolExecutor(jobs) as pool:

        def run(number: int) -> list[Facts]:
            return _run(units[number], Path(folder) / f"unit{number}", toolchain)

        return [facts for found in pool.map(run, range(len(units))) for facts in found]


def _run(unit: Sequence[tuple[Struct, Instantiation]], stem: Path, toolchain: Toolchain) -> list[Facts]:
    assert toolchain.nvcc and toolchain.host_compiler and toolchain.cutlass
    source = stem.with_suffix(".cpp")
    source.write_text(program(unit))
    # For a .cpp, nvcc only adds the toolkit's folders and hands over to the host compiler.
    command = [
        str(toolchain.nvcc.path),
        "-ccbin",
        str(toolchain.host_compiler.path),
        "-std=c++17",
        "-O0",
        "-w",
        "-DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED",
        f"-I{toolchain.cutlass.path}",
        str(source),
        "-o",
        str(stem),
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    done = subprocess.run([str(stem)], check=True, capture_output=True, text=True)
    found = parse(done.stdout)
    assert len(found) == len(unit)
    return found


def program(unit: Sequence[tuple[Struct, Instantiation]]) -> str:
    """The C++ text that prints the facts of `unit`."""
    registers = [f"{operand}Registers" for operand in OPERANDS]
    value_types = [f"ValType{operand}" for operand in (*OPERANDS, "SF")]
    fragments = [f"FrgType{operand}" for operand in OPERANDS]
    layouts = [f"{operand}Layout" for operand in OPERANDS]
    detect = ["Shape_MNK", "ThrID", *registers, *value_types, *fragments, *layouts]
    members = [f"  VALUE(Traits, {member});" for member in layouts]
    members += [f"  TYPE(Traits, {member});" for member in (*value_types, *fragments)]
    members += [f"  TYPE(Op, {member});" for member in registers]
    text = _PRELUDE % {
        "includes": "\n".join(f"#include <cute/atom/{name}>" for name in _headers(unit)),
        "detect": "\n".join(f"DETECT({member})" for member in detect),
        "members": "\n".join(members),
    }
    lines = ["int main() {"]
    for struct, instantiation in unit:
        traits = traits_type(struct, instantiation)
        lines.append(f'  dump<{operation_type(struct, instantiation)}, {traits}>("{struct.name}");')
        lines += [f"  static_assert(same<{traits}, {traits_type(struct, other)}>());" for other in same_layouts(struct)]
    return text + "\n".join(lines) + "\n}\n"


def _headers(unit: Sequence[tuple[Struct, Instantiation]]) -> list[str]:
    """The traits headers of the structs: that of the same name, or for UMMA the only one of its architecture."""
    return sorted({re.sub(r".*/mma_(sm\d+)(_umma)?", r"mma_traits_\1", struct.header) for struct, _ in unit})


def parse(output: str) -> list[Facts]:
    """The facts from the program's output."""
    found: list[Facts] = []
    for line in output.splitlines():
        key, _, text = line.partition("\t")
        if key == "op":
            found.append(Facts())
            continue
        facts = found[-1]
        if key == "Shape_MNK":
            facts.shape = tuple(map(int, re.findall(r"\d+", text)))
        elif key == "ThrID" or key.endswith("Layout"):
            facts.layouts[key.removesuffix("Layout")] = text.replace("_", "")
        else:
            cxx = matched(r"\[with T = (.*)\]$", text)[1]
            table = {"ValType": facts.values, "FrgType": facts.fragments}.get(key[:7], facts.registers)
            table[re.sub(r"^ValType|^FrgType|Registers$", "", key)] = cxx
    return found
