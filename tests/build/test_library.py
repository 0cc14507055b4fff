"""A library of several kernels as nvcc compiles it: each config a translation unit without spills, and the choice, which
needs no GPU, as the plan makes it."""

from __future__ import annotations

import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mmagen.plan.library import choose
from mmagen.render import render
from mmagen.spec import Problem
from mmagen.toolchain import COMPILE, find_toolchain
from mmagen.verbs import load_specs
from mmagen.write import write

pytestmark = pytest.mark.nvcc

SPEC = Path(__file__).resolve().parents[2] / "specs" / "sm90_gemm_bf16_library.yaml"
EXTENTS = (1, 16, 63, 64, 65, 128, 1024, 2047, 2048, 2049, 8192, 2**31 - 1)

# Prints which kernel each problem on stdin takes, and what the library says to arguments that are none.
_ASK = """\
#include <{name}/{name}.h>
#include <cstdio>
#include <cstring>
int main()
{{
  {name}_args args = {{}};
  long long m, n, k;
  while (std::scanf("%lld %lld %lld", &m, &n, &k) == 3) {{
    args.m = m; args.n = n; args.k = k;
    std::puts({name}_config_name(&args));
  }}
  args.m = -1;
  args.n = INT64_MAX;
  bool const refused = {name}_run(&args, nullptr) == {upper}_INVALID_ARGUMENT && {name}_run(nullptr, nullptr) == {upper}_INVALID_ARGUMENT;
  return refused && std::strlen({name}_config_name(nullptr)) == 0 ? 0 : 1;
}}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The plan, the folder of objects, and by translation unit what nvcc and ptxas said."""
    it = load_specs([SPEC])[0].plan
    tools, folder = find_toolchain(want=COMPILE), tmp_path_factory.mktemp("library")
    write(render(it), folder / it.name)
    units = sorted((folder / it.name / "src").glob("*.cu"))

    def compile_one(unit: Path) -> str:
        command = [tools.nvcc.path, "-std=c++17", "--expt-relaxed-constexpr", "-DNDEBUG", "-O3", "-Xptxas=-v",
                   "-Xcompiler=-Wall,-Wextra,-Wno-unknown-pragmas", "-gencode", "arch=compute_90a,code=sm_90a",
                   "-I", folder / it.name / "include", "-isystem", tools.cutlass.path, "-c", unit, "-o", folder / f"{unit.stem}.o"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    with ThreadPoolExecutor(2) as pool:
        said = dict(zip((unit.stem for unit in units), pool.map(compile_one, units), strict=True))
    return it, folder, said


def test_every_config_is_a_kernel_that_compiles_without_spills(made):
    it, _, said = made
    assert set(said) == {it.name, f"{it.name}_unaligned", *(config.name for config in it.configs)}
    for config in it.configs:
        text = said[config.name]
        assert len(re.findall(r"Compiling entry function '\w*sm90_kernel\w*'", text)) == 1, text
        assert len(re.findall(r"0 bytes spill stores, 0 bytes spill loads", text)) == 1, text
        assert "warning" not in text.lower() and "C75" not in text, text
    assert "entry function" not in said[it.name], "the choice has no kernel of its own"


def test_the_library_links_and_chooses_as_the_plan_does(made):
    it, folder, said = made
    main = folder / "ask.cpp"
    main.write_text(_ASK.format(name=it.name, upper=it.name.upper()))
    nvcc = find_toolchain(want=COMPILE).nvcc.path
    done = subprocess.run([nvcc, "-I", folder / it.name / "include", main, *(folder / f"{unit}.o" for unit in said),
                           "-o", folder / "ask", "-ldl"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    dice = random.Random(1)
    problems = [Problem(shape=tuple(dice.choice(EXTENTS) for _ in range(3))) for _ in range(500)]
    asked = "\n".join(" ".join(map(str, problem.shape)) for problem in problems)
    answers = subprocess.run([folder / "ask"], input=asked, capture_output=True, text=True, timeout=60)
    assert answers.returncode == 0
    assert answers.stdout.split() == [choose(it, problem).name for problem in problems]
    assert set(answers.stdout.split()) == {config.name for config in it.configs}
