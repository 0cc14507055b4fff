"""Kernels of one instruction: every operation becomes a project, the judge in it reckons as the package does, and the
emulator agrees with kernel and layouts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mmagen.build.ptx import compile_ptx
from mmagen.families import plan
from mmagen.families.instruction.model import InstructionPlan
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.mma import formats
from mmagen.mma.inputs import Matrices
from mmagen.mma.reference import expected
from mmagen.spec.model import Spec
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.session import run_tasks, tasks

pytestmark = pytest.mark.nvcc

HERE = Path(__file__).resolve().parent
JUDGED = {
    "s4_saturating": "SM80_16x8x32_S32S4U4S32_TN_SATURATE",
    "bits_xor": "SM80_16x8x256_S32U1U1S32_TN_XORPOPC",
    "bits_and": "SM80_16x8x128_S32U1U1S32_TN_ANDPOPC",
    "complex": "SM90_16x8x8_C64C64C64C64_TN",
    "gauss": "SM80_8x8x4_GC64C64C64GC64_TN",
    "sparse_f16": "SM90::GMMA::SPARSE::GMMA_64x8x32_F16F16F16_RS",
    "sparse_tf32": "SM90::GMMA::SPARSE::GMMA_64x24x16_F32TF32TF32_SS_TN",
    "sparse_u8": "SM90::GMMA::SPARSE::GMMA_64x16x64_S32U8S8_SS_TN_SATURATE",
    "fp4": "SM120_16x8x32_TN<float_e2m1_t,float_e5m2_t,float>",
    "fp6": "SM120_16x8x32_TN<float_e3m2_t,float_e2m3_t,float>",
    "scaled": "SM120::BLOCKSCALED::SM120_16x8x64_TN_VS<float_e2m1_t,float_e2m1_t,float,float_ue4m3_t,16>",
    "sparse_scaled": "SM120::BLOCKSCALED::SPARSE::SM120_SPARSE_16x8x128_TN_VS<float_e2m1_t,float_e2m1_t,float,float_ue8m0_t,64>",
}
# What of these the emulator executes.
EMULATED = [name for name in JUDGED if not name.startswith(("fp", "scaled", "sparse_scaled"))]


@pytest.fixture(scope="module")
def toolchain():
    found = find_toolchain(want=COMPILE)
    if found.missing(COMPILE):
        pytest.skip("no compilers here")
    return found


def planned(name: str) -> InstructionPlan:
    return plan(Spec(mmagen=1, name=name, kernel="micro", atom=JUDGED[name]))


@pytest.fixture(scope="module")
def projects(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("instructions")
    for name in JUDGED:
        write(render(planned(name)), folder / name)
    return {name: folder / name for name in JUDGED}


@pytest.fixture(scope="module")
def drawn(projects, toolchain, made_once) -> dict[tuple[str, str], dict]:
    """(project, kind of inputs) -> what its judge draws and allows."""
    folder = made_once("instruction_judge", lambda folder: _compile_judge(folder, projects, toolchain))
    output = (folder / "said.txt").read_text()
    return {(record["name"], record["inputs"]): record for record in map(json.loads, output.splitlines())}


def _without_directives(project: Path) -> str:
    """tests/subject.cuh of a project without preprocessor directives."""
    lines = (project / "tests" / "subject.cuh").read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#"))


def _compile_judge(folder: Path, projects: dict[str, Path], toolchain) -> None:
    """Makes said.txt, a JSON line for each project and kind of inputs."""
    headers = "".join(f'#include "{name}/{name}.h"\n' for name in JUDGED)
    # Without includes: those beside a subject are copies, which #pragma once tells apart where their modification times differ.
    subjects = "".join(f"namespace of_{name} {{\n{_without_directives(path)}}}\n" for name, path in projects.items())
    calls = "".join(f"  dump<of_{name}::Subject>();\n" for name in JUDGED)
    (folder / "judge.cu").write_text(f'#include "instruction_judge.cuh"\n{headers}{subjects}int main() {{\n{calls}}}\n')
    includes = [f"-I{HERE}", f"-I{projects['complex']}/tests", *(f"-I{path}/include" for path in projects.values())]
    # Calls of kernels stay undefined: nothing here launches one.
    command = [
        toolchain.nvcc.path,
        "-ccbin",
        toolchain.host_compiler.path,
        "-std=c++17",
        "-arch=sm_80",
        "-Xcompiler=-Wall,-Wextra,-Werror",
        "-Xlinker=--unresolved-symbols=ignore-all",
        *includes,
        "-o",
        folder / "judge",
        folder / "judge.cu",
    ]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run([str(folder / "judge")], capture_output=True, text=True, timeout=60, check=True)
    (folder / "said.txt").write_text(done.stdout)


def _unpacked(text: str, it: InstructionPlan, name: str) -> np.ndarray:
    """uint64[1, row, column, part] of an operand's bytes as hexadecimal digits."""
    operand = it.operand(name)
    bits = operand.part_bits
    raw = np.frombuffer(bytes.fromhex(text), np.uint8)
    codes = raw[:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1 if bits < 8 else raw.view(f"<u{bits // 8}")
    return codes.astype(np.uint64).reshape(1, operand.rows, operand.columns, -1) >> np.uint64(operand.shift)


def _with_zeros(it: InstructionPlan, stored: np.ndarray, metadata: np.ndarray) -> np.ndarray:
    """A sparse A's values [1, m, k, 1] by the PTX ISA's words on metadata, element by element."""
    m, _, k = it.tile
    full = np.zeros((1, m, k, 1))
    for row in range(m):
        for group in range(k // it.group):
            bits = int(metadata[0, row, group // 2, 0]) >> (4 * (group % 2)) & 15
            if it.group == 2:
                places = [{0b0100: 0, 0b1110: 1}[bits]]
            else:
                pairs = [bits & 3, bits >> 2]
                assert pairs[0] < pairs[1]
                places = pairs if it.group == 4 else [2 * pair + i for pair in pairs for i in (0, 1)]
            for i, place in enumerate(places):
                full[0, row, group * it.group + place, 0] = stored[0, row, group * len(places) + i, 0]
    return full


@pytest.mark.parametrize("name", JUDGED)
def test_the_judge_of_a_project_expects_what_the_package_does(name, drawn):
    it = planned(name)
    of = it.operation
    kinds = [inputs for project, inputs in drawn if project == name]
    assert kinds == ["uniform", "small_int", *(["overflow"] if of.type_d == "s32" else [])]
    for inputs in kinds:
        record = drawn[name, inputs]
        a, b = _unpacked(record["A"], it, "A"), _unpacked(record["B"], it, "B")
        c = _unpacked(record["C"], it, "C")
        values_a, values_b = formats.decode(a, of.type_a), formats.decode(b, of.type_b)
        if of.sparse:
            values_a = _with_zeros(it, values_a, _unpacked(record["E"], it, "E"))
        if of.block_scaled:
            scales = [formats.decode(_unpacked(record[key], it, key), of.type_sf) for key in ("SFA", "SFB")]
            values_a, values_b = (
                v * np.repeat(s, of.vector, axis=2) for v, s in zip((values_a, values_b), scales, strict=True)
            )
        data = Matrices([a], [b], c, [values_a], [values_b], formats.decode(c, of.type_d))
        truth = expected(of, data, exact=inputs != "uniform")
        low, high = (np.array(record[key]).reshape(truth.values.shape) for key in ("low", "high"))
        assert np.isfinite(values_a).all() and np.unique(truth.values).size > 8
        assert (low <= truth.values + 1e-9).all() and (truth.values - 1e-9 <= high).all()
        if inputs != "uniform" or of.type_d == "s32":
            assert (low == truth.values).all() and (high == truth.values).all()
        else:
            # Its bound is rounded outwards to the type of D, by less than one unit in the last place.
            ulp = 2 * formats.roundoff(of.type_d) * np.abs(truth.values)
            reach = np.maximum(truth.values - low, high - truth.values)
            assert (reach <= 1.5 * truth.bound + ulp).all() and (high > low).all()
        if inputs == "overflow":
            raw = expected(
                of, Matrices([a], [b], np.zeros_like(c), [values_a], [values_b], np.zeros_like(data.values_c)), exact=True
            )
            left = np.abs(raw.values + data.values_c) > 2**31 - 1
            assert 0.2 < left.mean() < 0.8


@pytest.mark.parametrize("name", EMULATED)
def test_the_emulator_agrees_with_kernel_and_layouts(name, projects, toolchain):
    it = planned(name)
    ptx = compile_ptx(projects[name], toolchain)
    assert not ptx.error and it.operation.opcode in ptx.text
    results = run_tasks(tasks(it, ptx, (), 3, None), 1, lambda *_: None)
    words = [record["disposition"] for result in results for record in result.records]
    assert words and set(words) == {"passed"}, [record["reason"] for result in results for record in result.records]


@pytest.mark.more
def test_sums_of_a_large_wgmma_stay_in_registers_until_they_may_be_read(toolchain, tmp_path):
    """nvcc kept the 96 registers of these sums in local memory, and stored them there before wgmma.wait_group."""
    it = plan(Spec(mmagen=1, name="large", kernel="micro", atom="SM90::GMMA::SPARSE::GMMA_64x192x64_S32S8U8_SS_TN_SATURATE"))
    write(render(it), tmp_path / "large")
    ptx = compile_ptx(tmp_path / "large", toolchain)
    assert not ptx.error and ".local" not in ptx.text
    results = run_tasks(tasks(it, ptx, (), 3, None), 1, lambda *_: None)
    assert {result.records[0]["disposition"] for result in results} == {"passed"}, results


def test_a_wrong_layout_is_seen(toolchain, projects):
    """CUTLASS's own layout of B for m16n8k32 of 4 bits, and metadata that another thread has."""
    for name, right, wrong in (
        (
            "s4_saturating",
            "cute::Stride<cute::Stride<cute::_64, cute::_1>, cute::_8>",
            "cute::Stride<cute::Stride<cute::_32, cute::_1>, cute::_8>",
        ),
        ("sparse_f16", "cute::Stride<cute::Stride<cute::_1024, cute::_0,", "cute::Stride<cute::Stride<cute::_0, cute::_1024,"),
    ):
        it = planned(name)
        files = render(it)
        config = f"include/{name}/config.cuh"
        assert right in files[config].decode()
        folder = projects[name].parent / f"wrong_{name}"
        write(files, folder)
        (folder / config).write_text(files[config].decode().replace(right, wrong))
        ptx = compile_ptx(folder, toolchain)
        results = run_tasks(tasks(it, ptx, (), 3, "small_int"), 1, lambda *_: None)
        assert [record["disposition"] for record in results[0].records] == ["incorrect"]


def test_instructions_that_nothing_here_runs_are_in_the_code(projects, toolchain):
    for name in set(JUDGED) - set(EMULATED):
        ptx = compile_ptx(projects[name], toolchain, host=False)
        assert not ptx.error, ptx.error
        assert planned(name).operation.opcode in ptx.text and tasks(planned(name), ptx, (), 3, None) == []
