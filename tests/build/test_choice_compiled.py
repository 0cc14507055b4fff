"""The choice by predicted time, compiled: C++ and Python choose the same kernel, and it costs less than a microsecond."""

from __future__ import annotations

import math
import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mmagen.families import plan
from mmagen.families.library import choose
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.plan.cost import Call
from mmagen.plan.plans import GemmPlan
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.toolchain.find import find_toolchain

pytestmark = [pytest.mark.nvcc, pytest.mark.alone]

SPEC = Path(__file__).resolve().parents[2] / "specs" / "sm90_gemm_bf16_library.yaml"
# The kernels themselves are not needed to choose one. Each time is the least of several, of processor time: others may use the
# machine. `yardstick` is arithmetic like that of a choice, which says how fast the machine is.
MAIN = """\
#include "{name}/{name}.h"
#include "mmagen/status.cuh"
#include <algorithm>
#include <cstdio>
#include <ctime>
{stubs}
double now() {{
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}}

template <class Work>
double least(int times, int calls, Work const& work) {{
  double best = 1e9;
  for (int i = 0; i < times; ++i) {{
    double const start = now();
    for (int j = 0; j < calls; ++j) {{ work(); }}
    best = std::min(best, (now() - start) / calls);
  }}
  return best;
}}

volatile double numbers[4] = {{3.0, 7.0, 11.0, 13.0}};

void yardstick() {{
  double sum = 0;
  for (int i = 1; i <= 64; ++i) {{
    long long const tiles = (i * 4096LL + 127) / (long long)(numbers[0] + i);
    sum += std::max(double(tiles) / numbers[1], double(tiles % 132) * numbers[2] / (numbers[3] + i));
  }}
  numbers[0] = sum > 0 ? 3.0 : 4.0;
}}

int main() {{
  {name}_args args = {{}};
  args.batch = 1;
  long long m, n, k;
  int count = 0;
  double seconds = 0, unit = least(50, 20, yardstick);
  while (std::scanf("%lld%lld%lld", &m, &n, &k) == 3) {{
    args.m = m, args.n = n, args.k = k;
    args.lda = args.ldb = k, args.ldd = n;
    args.workspace = &args;
    char const* name = "";
    seconds += least(6, 50, [&] {{ name = {name}_config_name(&args); }});
    unit = std::min(unit, least(1, 20, yardstick));
    ++count;
    std::puts(name);
  }}
  std::fprintf(stderr, "%.9g %.9g", seconds / count, unit);
}}
"""
COPIED_FROM = 2000
_YARDSTICK_SECONDS = 1.67e-7  # on the slowest machine for which a choice has to take less than a microsecond


@pytest.fixture(scope="module")
def library() -> GemmPlan:
    made = plan(load(SPEC.read_bytes(), SPEC.name).spec)
    assert isinstance(made, GemmPlan)
    return made


@pytest.fixture(scope="module")
def program(library, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("choice")
    write(render(library), folder / "project")
    tools = find_toolchain()
    assert tools.host_compiler and tools.toolkit
    stubs = []
    for config in library.configs:
        functions = [f"mmagen::Status run({library.name}_args const&, cudaStream_t) {{ return mmagen::Status::kSuccess; }}"]
        functions.append(f"mmagen::Status can_run({library.name}_args const&) {{ return mmagen::Status::kSuccess; }}")
        functions.append(f"mmagen::Status query({library.name}_info&) {{ return mmagen::Status::kSuccess; }}")
        functions.append(
            f"mmagen::Status workspace({library.name}_args const&, int64_t&) {{ return mmagen::Status::kSuccess; }}"
        )
        stubs.append(f"namespace {library.name}::{config.name} {{\n{chr(10).join(functions)}\n}}")
    stubs.append(
        f"namespace {library.name} {{ int64_t copied_bytes({library.name}_args const&) {{ return 0; }}\n"
        # Copies pay where K is odd and large, say.
        f"void take_pitches_of_copies({library.name}_args& args, bool) {{\n"
        f"  if (args.k % 2 != 0 && args.k > {COPIED_FROM}) {{ args.lda = args.ldb = (args.k + 63) / 64 * 64; }}\n"
        f"}}\n"
        f"mmagen::Status copy_operands({library.name}_args&, cudaStream_t) {{ return mmagen::Status::kSuccess; }} }}"
    )
    (folder / "main.cpp").write_text(MAIN.format(name=library.name, stubs="\n".join(stubs)))
    command = [
        tools.host_compiler.path,
        "-std=c++17",
        "-O2",
        "-I",
        folder / "project" / "include",
        "-I",
        tools.toolkit / "include",
    ]
    command += ["-x", "c++", folder / "project" / "src" / f"{library.name}.cu", folder / "main.cpp", "-o", folder / "main"]
    command += ["-x", "none", tools.toolkit / "lib64" / "libcudart_static.a", "-ldl", "-lrt", "-lpthread"]
    subprocess.run(command, check=True)
    return folder / "main"


def test_cxx_chooses_as_python_does_in_less_than_a_microsecond(library, program, monkeypatch):
    def call_of(of: GemmPlan, problem: Problem) -> Call:
        call = Call.of(of, problem)
        lines = (call.k + 63) // 64 * 128
        copied = call.k % 2 and call.k > COPIED_FROM
        return replace(call, pitches=(lines, lines, call.pitches[2])) if copied else call

    monkeypatch.setattr("mmagen.families.library.call_of", call_of)
    dice = random.Random(3)
    shapes = [tuple(max(1, round(math.exp(dice.uniform(0, math.log(30000))))) for _ in range(3)) for _ in range(400)]
    shapes += [(2**31 - 1,) * 3, (1, 1, 1)]
    done = subprocess.run(
        [program], input="\n".join(" ".join(map(str, shape)) for shape in shapes), text=True, capture_output=True, check=True
    )
    assert done.stdout.split() == [choose(library, Problem(shape=shape)).name for shape in shapes]
    seconds, unit = map(float, done.stderr.split())
    assert seconds < 1e-6 * max(1.0, unit / _YARDSTICK_SECONDS), "seconds, for all kernels of the library"
    assert len(set(done.stdout.split())) > 6, "the problems ask for different kernels"
    monkeypatch.undo()
    monkeypatch.setattr("mmagen.families.library.call_of", Call.of)
    assert done.stdout.split() != [choose(library, Problem(shape=shape)).name for shape in shapes], "pitches decide too"
