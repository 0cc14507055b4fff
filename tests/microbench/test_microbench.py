"""mmagen peak without a compiler or GPU: what is measured, and what a program that fails costs."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import textwrap
from types import SimpleNamespace

import pytest

from mmagen.cli import peak as verb
from mmagen.core.errors import SpecFaults
from mmagen.core.templates import templates_folder
from mmagen.families import plan
from mmagen.families.peak import loops, rates
from mmagen.generate.render import render
from mmagen.inspect.page import inspect
from mmagen.microbench import figures, measure, program
from mmagen.mma.catalogue import find, operations, select
from mmagen.spec.model import Spec
from tests.support.fakes import typed

BF16 = "SM90_64x256x16_F32BF16BF16_SS"
MACHINE = figures.Machine("sm_90a", "NVIDIA H200", "580.1", "13.0.88", "4.2.0", "0.1.0")
_SIGNIFICANT = {
    "f16": 11,
    "bf16": 8,
    "tf32": 11,
    "e4m3": 4,
    "e5m2": 3,
    "f64": 53,
    "c64": 53,
    "s8": 7,
    "u8": 8,
    "s4": 3,
    "u4": 4,
    "u1": 1,
}


def runnable():
    return [operation for operation in select(target="sm_90a") if not loops.refusal(operation)]


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        (BF16, 989.4),
        ("SM90_64x256x32_F32E4M3E4M3_SS_TN", 1978.9),
        ("SM90_64x256x8_F32TF32TF32_SS_TN", 494.7),
        ("SM90::GMMA::SPARSE::GMMA_64x256x64_S32S8S8_SS_TN", 3957.8),
        ("SM90_16x8x16_F64F64F64F64_TN", 66.9),
    ],
)
def test_rates_give_what_the_datasheet_prints(name, tflops):
    assert rates.datasheet_tflops(find(name), "sm_90a", "NVIDIA H200") == pytest.approx(tflops, rel=2e-3)
    assert rates.datasheet_tflops(find(name), "sm_90a", "another board") is None


def test_sums_of_random_inputs_are_exact_in_the_accumulators():
    bits = {"f32": 24, "f16": 11, "f64": 53, "c64": 53, "gc64": 53, "s32": 31}
    for operation in runnable():
        loop = loops.loop(operation, "sm_90a")
        # Six standard deviations of the sum of two instructions; an 8-bit float's products leave 14 bits of an f32.
        accumulator = 14 if operation.type_a in ("e4m3", "e5m2") and operation.type_d == "f32" else bits[operation.type_d]
        if loop.sums == "Return":
            one = (loop.limit_a * (loop.limit_a + 1) / 3) * (loop.limit_b * (loop.limit_b + 1) / 3)
            complex_ = 8 if "c64" in operation.type_c else 1
            assert 6 * (2 * loop.products * one * complex_) ** 0.5 < 2**accumulator, operation.name
        assert loop.limit_a < 2 ** _SIGNIFICANT[operation.type_a] and loop.limit_b < 2 ** _SIGNIFICANT[operation.type_b]
        assert 16 * 2 * loop.products <= 2 ** bits[operation.type_d], operation.name


def test_every_operation_of_the_device_has_a_loop_and_its_batch():
    found = [loops.loop(operation, "sm_90a") for operation in runnable()]
    parts = program.batches(found)
    assert len(found) == 2199 and sorted(loop.name for part in parts for loop in part) == sorted(loop.name for loop in found)
    assert len(parts) < 60
    for part in parts:
        text = program.unit(part)
        included = re.findall(r"#include <(.*)>", text)
        assert all(f'{{"{loop.name}", ' in text for loop in part) and len(included) == len(set(included))
        for loop in part:  # in the order that they need
            assert [header for header in included if header in loop.headers] == list(loop.headers)


def test_an_entry_lists_its_members_in_their_order():
    text = (templates_folder() / "runtime/peak/entry.cuh").read_text()
    inside = re.search(r"struct Entry \{(.*?)\n\};", text, re.DOTALL)[1]
    declared = re.findall(r"^  [\w:<> *]+?\b(\w+(?:, \w+)*);", inside, re.MULTILINE)
    members = [name for names in declared for name in names.split(", ")]
    assert members.pop() == "variants"
    names = [field.name for field in dataclasses.fields(loops.Loop)]
    assert members == [name.removeprefix("element_") for name in names[: names.index("kernels")]]
    # Each number is another one.
    numbers = {name: 100 + i for i, name in enumerate(names) if name not in ("kernels", "headers", "own")}
    reported = loops.Loop(**numbers, kernels=(), headers=(), own="").entry.split(", ")
    assert len(reported) == len(members)
    for word, (name, number) in zip(reported, numbers.items(), strict=False):
        assert word == "true" if name == "exclusive_or" else str(number) in word


@pytest.mark.parametrize(
    ("name", "entry", "last_kernel"),
    [
        ("SM61_DP4A", "8.0, 1, 0, S8, S8, S32, 1, 1, S8, 1, 4, false, Return, 127, 127, 0.0", "8, 8"),
        (
            "SM80_8x8x4_C64C64C64C64_TN",
            "2048.0, 32, 0, C64, C64, C64, 4, 4, C64, 8, 4, false, Return, 4194303, 4194303, 256.0",
            "8, 4",
        ),
        (
            "SM80_8x8x4_GC64C64C64GC64_TN",
            "1536.0, 32, 0, C64, C64, Gauss, 4, 4, C64, 12, 4, false, Return, 4194303, 4194303, 256.0",
            "8, 4",
        ),
        ("SM80_16x8x256_S32U1U1S32_TN_XORPOPC", "65536.0, 32, 0, U1, U1, S32, 4, 2, U1, 4, 256, true, Grow, 1, 1, 0.0", "8, 8"),
        (
            "SM80_16x8x16_S32U8U8S32_TN_SATURATE",
            "4096.0, 32, 0, U8, U8, S32, 2, 1, U8, 4, 16, false, Saturate, 255, 255, 8192.0",
            "8, 8",
        ),
        (
            "SM90::GMMA::SPARSE::GMMA_64x256x16_F32TF32TF32_SS_TN",
            "524288.0, 128, 81920, Tf32, Tf32, F32, 0, 0, OneOfTwo, 128, 8, false, Return, 511, 511, 4096.0",
            "256, 1, 4, 384",
        ),
        (
            "SM90::GMMA::SPARSE::GMMA_64x256x64_S32S8S8_RS_TN",
            "2097152.0, 128, 81920, S8, S8, S32, 4, 0, Pairs, 128, 32, false, Return, 127, 127, 16384.0",
            "256, 1, 4, 256",
        ),
        (
            "SM90_64x64x32_S32S8S8_SS_TN",
            "262144.0, 128, 32768, S8, S8, S32, 0, 0, S8, 32, 32, false, Return, 127, 127, 8192.0",
            "64, 2, 4, 512",
        ),
    ],
)
def test_an_entry_is_what_the_operation_and_the_datasheet_say(name, entry, last_kernel):
    operation, loop = find(name), loops.loop(find(name), "sm_90a")
    assert re.sub(r"(Element|Sums)::k", "", loop.entry.split(", ", 2)[2]) == entry
    assert loop.kernels[-1][2] == f"{loop.own}<{operation.cxx()}, {last_kernel}>"
    assert [count for count, _, _ in loop.kernels] == [1, 2, 4, 8][: len(loop.kernels)]
    assert all(f", {count}, {steps}" in kernel for count, steps, kernel in loop.kernels)


def test_few_operations_share_units_whatever_their_headers():
    one_of_each = {operation.header: operation for operation in runnable()}.values()
    assert len(one_of_each) == 10
    parts = program.batches([loops.loop(operation, "sm_90a") for operation in one_of_each])
    assert sorted(len(part) for part in parts) == [2, 2, 6]


def test_what_has_no_loop_says_why():
    reasons = {loops.refusal(operation) for operation in operations()}
    assert None in reasons and "there is no peak loop for tcgen05 yet" in reasons
    assert "dp2a" in loops.refusal(find("SM61_DP2A"))
    assert verb._obstacle(find("SM100_MMA_TF32_SS"), "sm_90a").startswith("needs sm_100a or ")
    assert verb._obstacle(find("SM100_MMA_TF32_SS"), "sm_100a") == "there is no peak loop for tcgen05 yet"
    assert verb._obstacle(find("SM80_16x8x16_F32BF16BF16F32_TN"), "sm_75") == "needs sm_80 or later, not sm_75"
    named = verb._obstacle(find("SM80_16x8x16_F32BF16BF16F32_TN"), "sm_75", "sm_75 (Tesla T4)")
    assert named == "needs sm_80 or later, not sm_75 (Tesla T4)"


def test_the_list_says_what_is_measured_where(capsys):
    names = ("SM80_16x8x16_F32F16F16F32_TN", "SM90_16x8x4_F64F64F64F64_TN", "SM100_MMA_TF32_SS")
    code, out, _ = typed(capsys, "peak", "--list", "--arch", "sm_80", *names)
    rows = [line.split("  ") for line in out.splitlines()[2:5]]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert code == 0 and cells[0] == [names[0], "mma.sync", "sm_80 and later", "2048", "measured"]
    assert cells[1][-1] == "needs sm_90 or later, not sm_80" and cells[2][-1] == "there is no peak loop for tcgen05 yet"
    assert out.endswith("1 of 3 operations are measured on sm_80, 1 on other architectures\n")
    assert typed(capsys, "peak", "--list", "no_such")[0] == 2


@pytest.mark.parametrize(
    ("capability", "target"), [((7, 5), "sm_75"), ((9, 0), "sm_90a"), ((12, 0), "sm_120a"), (None, "sm_90a")]
)
def test_what_is_compiled_is_for_the_gpu_that_is_here(capability, target):
    assert verb._target(SimpleNamespace(gpus=capability and [SimpleNamespace(capability=capability)])) == target


def fake(tmp_path, behaviour: str):
    """A program with atoms a to e that does `behaviour` for the one called `name` and `inputs`."""
    path = tmp_path / "fake"
    path.write_text(
        f"#!{sys.executable}\n"
        + textwrap.dedent("""\
        import json, os, sys
        names = list("edcba")
        if "--list" in sys.argv:
            print("\\n".join(names)); sys.exit()
        print(file=open(sys.argv[0] + ".starts", "a"))
        options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
        def tell(**more):
            print(json.dumps({"name": name, "inputs": inputs, "reason": None} | more), flush=True)
        for number in sorted(map(int, options["--only"].split(";"))):
            for inputs in options["--inputs"].split(","):
                name = names[number]
        """)
        + textwrap.indent(textwrap.dedent(behaviour), " " * 8)
        + "\n"
    )
    path.chmod(0o755)
    return path


def outcome(path, names="abcde", inputs=("random",)):
    return {
        (r["name"], r["inputs"]): (r["disposition"], r["reason"])
        for r in measure.run(path, list(names), measure.Settings(inputs, seconds=0.01))
    }


def test_a_crash_costs_one_operation(tmp_path):
    path = fake(
        tmp_path,
        """\
        if name == "c": print("boom", file=sys.stderr); os.abort()
        tell(disposition="passed")
        """,
    )
    found = outcome(path)
    assert found.pop(("c", "random")) == ("failed", "the program ended with signal 6: boom")
    assert set(found.values()) == {("passed", None)} and len(found) == 4


def test_a_lost_device_costs_one_operation_and_its_other_inputs(tmp_path):
    path = fake(
        tmp_path,
        """\
        lost = name in "bd" and inputs == "random"
        tell(disposition="failed" if lost else "passed", reason="illegal address" if lost else None)
        if lost: sys.exit(4)
        """,
    )
    found = outcome(path, inputs=("random", "zeros"))
    assert len(found) == 10 and sum(word == "passed" for word, _ in found.values()) == 6
    assert found["b", "random"] == ("failed", "illegal address")
    assert found["b", "zeros"] == ("failed", "the program ended with exit code 4")


def test_a_device_that_is_lost_by_the_last_inputs_costs_nothing_else(tmp_path):
    path = fake(
        tmp_path,
        """\
        tell(disposition="failed" if name == "d" else "passed")
        if name == "d": sys.exit(4)
        """,
    )
    found = outcome(path)
    assert found.pop(("d", "random")) == ("failed", None)
    assert set(found.values()) == {("passed", None)} and len(found) == 4


@pytest.mark.parametrize(
    ("code", "outcomes"),
    [(77, ("not_supported", "not run: no GPU")), (2, ("failed", "the program ended with exit code 2: not run: no GPU"))],
)
def test_a_program_that_runs_nothing_at_all_is_started_once(tmp_path, code, outcomes):
    path = fake(tmp_path, f"print('not run: no GPU', file=sys.stderr); sys.exit({code})")
    found = outcome(path)
    assert set(found.values()) == {outcomes} and len(found) == 5
    assert (tmp_path / "fake.starts").read_text() == "\n"


def test_a_hanging_loop_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "_PATIENCE_S", 1.0)
    path = fake(
        tmp_path,
        """\
        import time
        if name == "d": time.sleep(60)
        tell(disposition="passed")
        """,
    )
    found = outcome(path)
    assert found["d", "random"][0] == "failed" and "was stopped" in found["d", "random"][1]
    assert sum(word == "passed" for word, _ in found.values()) == 4


SPEC = {"mmagen": 1, "name": "p", "kernel": "peak", "atom": BF16}


def test_a_spec_becomes_a_project_of_one_program():
    made = plan(Spec.model_validate(SPEC))
    files = render(made)
    assert render(made) == files and list(files)[-1] == "mmagen.json"
    manifest = json.loads(files["mmagen.json"])
    assert (manifest["kernel"], manifest["arch"]) == ("peak", ["sm_90a"])
    assert set(manifest["files"]) == set(files) - {"mmagen.json"}
    assert b"wgmma_loop<cute::SM90::GMMA::MMA_64x256x16_F32BF16BF16_SS<" in files["src/p.cu"]
    assert f'"p", "{made.spec_sha}"'.encode() in files["tests/verify.cu"]
    assert b"add_executable(p_verify" in files["CMakeLists.txt"]
    assert b"{{90, 4096.0}}" in files["tests/verify.cu"]
    included = {name for text in files.values() for name in re.findall(rb'#include "(?:mmagen/)?(\w+\.cuh)"', text)}
    assert {f"include/mmagen/{name.decode()}" for name in included} == {name for name in files if name.endswith(".cuh")}
    old = plan(Spec.model_validate(SPEC | {"atom": "SM70_8x8x4_F32F16F16F32_TN"}))
    assert old.arch == ("sm_75",) and "include/mmagen/wgmma_loop.cuh" not in render(old)
    assert "wgmma.mma_async.sync.aligned.m64n256k16" in inspect(made)


@pytest.mark.parametrize(
    ("more", "keys"),
    [
        ({"tile": [64, 64, 64], "stages": 3}, [("tile",), ("stages",)]),
        ({"atom": "SM90_64x256x16_F32BF16BF16"}, [("atom",)]),
        ({"atom": "SM100_MMA_TF32_SS"}, [("atom",)]),
        ({"arch": ["sm_90a", "sm_80"]}, [("arch", 1)]),
    ],
)
def test_a_spec_says_no_more_than_a_peak_needs(more, keys):
    with pytest.raises(SpecFaults) as error:
        plan(Spec.model_validate(SPEC | more))
    assert [fault.key for fault in error.value.faults] == keys and all(fault.remedy for fault in error.value.faults)
