"""Every MMA operation by itself: which are tested, the judge, and what becomes of operations that fail."""

import json
import sys
from pathlib import Path

import pytest

from mmagen.build.build import BuildResult
from mmagen.cli.verify_atoms import code as exit_code
from mmagen.core.errors import ExitCode, UsageError
from mmagen.mma import formats
from mmagen.mma.catalogue import find, operations
from mmagen.mma.forms import Form, chosen, chosen_target, distributions, forms, native_targets
from mmagen.op_tests import case, check, code, report
from mmagen.op_tests.batch import Batch, batches, entry, project
from mmagen.op_tests.check import Built, Options
from mmagen.op_tests.program import encoded, execute
from mmagen.op_tests.run import CaseResult, FormResult
from mmagen.toolchain.find import Gpu, Toolchain

H200 = Toolchain(gpus=(Gpu("NVIDIA H200", (9, 0), "580"),))
RUNNABLE = [operation for operation in operations() if operation.kind != "tcgen05" and not operation.broken]


# --- Which, and for what ----------------------------------------------------------------------------------------------


def test_all_operations_are_in_batches_once_or_twice():
    made = batches([form for operation in operations() if not operation.broken for form in forms(operation)])
    names = [form.operation.name for batch in made for form in batch.forms]
    assert set(names) == {operation.name for operation in operations() if not operation.broken}
    assert len({batch.name for batch in made}) == len(made) and max(len(batch.forms) for batch in made) <= 128
    assert {batch.arch for batch in made} == {"sm_80", "sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_120a"}


def test_words_names_and_patterns():
    assert len(chosen(["all"])) == 2397
    assert {o.type_a for o in chosen(["wgmma,sparse,bf16"])} == {"bf16"} and len(chosen(["wgmma,sparse,bf16"])) == 64
    assert [o.name for o in chosen(["SM80_16x8x16_F32F16F16F32_TN", "SM80_16x8x16_F32F16*"])] == [
        "SM80_16x8x16_F32F16F16F32_TN"
    ]
    with pytest.raises(UsageError, match="SM80_16x8x16_F32F16F16F32_TN"):
        chosen(["SM80_16x8x16_F32F16F16F32_TT"])


def test_targets():
    assert chosen_target(find("SM70_8x8x4_F32F16F16F32_TN")) == "sm_90a"
    assert chosen_target(find("SM80_8x8x128_S32U1U1S32_TN_XORPOPC")) == "sm_80"
    assert chosen_target(find("SM100_MMA_TF32_SS")) == "sm_100a"
    assert chosen_target(find("SM100_MMA_TF32_SS"), ["sm_90a", "sm_100"]) is None


@pytest.mark.parametrize(
    "capability, targets",
    [
        ((8, 9), ["sm_89", "sm_90a", "sm_89"]),
        ((9, 0), ["sm_90a", "sm_90a", "sm_80"]),
        ((10, 0), ["sm_100a", "sm_90a", "sm_80"]),
        (None, ["sm_90a", "sm_90a", "sm_80"]),
    ],
)
def test_the_gpu_here_comes_first(capability, targets):
    names = ("SM80_16x8x8_F32F16F16F32_TN", "SM90_64x8x16_F16F16F16_SS", "SM80_8x8x128_S32U1U1S32_TN_XORPOPC")
    assert [chosen_target(find(name), (), native_targets(capability)) for name in names] == targets


def test_what_runs_on_other_gpus(monkeypatch):
    for capability, expected in (
        ((8, 9), ["passed", "not_supported", "not_supported", "passed"]),
        ((10, 0), ["passed", "not_supported", "not_supported", "not_supported"]),
    ):
        here = Toolchain(gpus=(Gpu("some GPU", capability, "580"),))
        found = verdicts_of(monkeypatch, (WARP, WGMMA, UMMA, "SM80_8x8x128_S32U1U1S32_TN_XORPOPC"), here)
        assert [v.disposition for v in found] == expected, capability


def test_a_project_of_a_batch():
    batch = Batch(tuple(map(Form, RUNNABLE[:3])), "sm_90a")
    files = project(batch)
    assert files == project(batch)
    source = files[f"src/{batch.name}.cu"].decode()
    assert all(entry(i) in source and form.operation.name in source for i, form in enumerate(batch.forms))
    assert json.loads(files["mmagen.json"])["name"] == batch.name


# --- Programs that fail -----------------------------------------------------------------------------------------------

FAKE = """#!{python}
import struct, sys
CASE, RESULT = struct.Struct("<4I2Q4I7Q"), struct.Struct("<IiQ")
data, at, index = open(sys.argv[1], "rb").read(), 0, 0
with open(sys.argv[2], "ab") as out:
    while at < len(data):
        head = CASE.unpack_from(data, at)
        at += CASE.size + sum(head[10:16])
        if index >= int(sys.argv[3]):
            {deed}
            out.write(RESULT.pack(index, 0, head[16]) + data[at - head[16]:at][:0] + bytes([head[0]]) * head[16])
            out.flush()
        index += 1
"""


def run_fake(tmp_path: Path, deed: str, timeout_s: float = 20.0):
    program = tmp_path / "fake"
    program.write_text(FAKE.format(python=sys.executable, deed=deed))
    program.chmod(0o755)
    form = Form(find("SM80_16x8x8_F32F16F16F32_TN"))
    launch = case.launch_of(form, case.matrices(form, "small_int", 1), (0, 0))
    return execute(program, [encoded(kernel, launch) for kernel in range(5)], tmp_path, timeout_s)


def test_every_case_comes_back(tmp_path):
    done = run_fake(tmp_path, "pass")
    assert [executed.d[0] for executed in done] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "deed, why",
    [
        ("if head[0] == 2: import os; os.abort()", "exit code -6"),
        ("if head[0] == 2: out.write(RESULT.pack(index, 700, 7) + b'illegal'); out.flush(); sys.exit(4)", "illegal"),
        ("if head[0] == 2: out.write(b'half'); out.flush(); sys.exit(3)", "exit code 3"),
    ],
)
def test_a_case_that_kills_the_program_costs_only_itself(tmp_path, deed, why):
    done = run_fake(tmp_path, deed)
    assert [executed.d and executed.d[0] for executed in done] == [0, 1, None, 3, 4] and why in done[2].error


def test_a_case_that_hangs_is_stopped(tmp_path):
    done = run_fake(tmp_path, "if head[0] == 3: import time; time.sleep(60)", timeout_s=4.0)
    assert [bool(executed.d) for executed in done] == [True, True, True, False, True]
    assert "did not end within 4 s" in done[3].error


def test_without_a_device_nothing_is_run(tmp_path):
    done = run_fake(tmp_path, "sys.stderr.write('no CUDA device'); sys.exit(77)")
    assert all(executed.no_code and executed.error == "no CUDA device" for executed in done)


# --- Verdicts ---------------------------------------------------------------------------------------------------------


def verdicts_of(monkeypatch, names, toolchain=H200, outcome="passed", build_fails=(), faults=(), **options):
    """What verify_atoms makes of faked builds and runs."""

    def fake_build(todo, tools, opts, folder, progress):
        made = [Batch((form,), batch.arch) for batch in todo for form in batch.forms]
        return [
            Built(
                batch,
                BuildResult(
                    batch.name,
                    Path(),
                    batch.forms[0].operation.name not in build_fails,
                    reason="it does not compile",
                    programs={"verify": Path("/nowhere")},
                ),
                {0: "mma is not in the code"} if batch.forms[0].operation.name in faults else {},
            )
            for batch in made
        ]

    def fake_run(built, tools, opts, progress):
        one = CaseResult(
            "small_int", "", outcome, 0.0, 0.0, "" if outcome == "passed" else "wrong", 1, 64, outcome == "incorrect"
        )
        return [
            {0: FormResult((one,))}
            if b.result.ok and not b.faults and check._suits(b.batch.forms[0], b.batch, tools, opts)
            else {}
            for b in built
        ]

    monkeypatch.setattr(check, "_build_all", fake_build)
    monkeypatch.setattr(check, "_run_all", fake_run)
    return check.verify_atoms([find(name) for name in names], toolchain, Options(**options), lambda *_: None)


WARP, WGMMA, UMMA = "SM80_16x8x16_F32F16F16F32_TN", "SM90_64x8x16_F32F16F16_SS", "SM100_MMA_TF32_SS"


def test_what_this_gpu_cannot_run_names_what_can(monkeypatch):
    names = (WARP, WGMMA, UMMA, "SM80_8x8x128_S32U1U1S32_TN_XORPOPC", "SM61_DP2A")
    found = verdicts_of(monkeypatch, names)
    assert [v.disposition for v in found] == ["passed", "passed", "not_supported", "not_supported", "not_supported"]
    assert "sm_100a" in found[2].reason and "is in the code" in found[2].reason
    assert exit_code(found) == ExitCode.OK and exit_code(found[2:]) == ExitCode.NOTHING_VERIFIED
    reported = report.table([find(name) for name in names], found)
    assert "2 passed, 3 not supported" in reported and "dp2a" in reported
    assert "1 not run: needs sm_100a" in reported and "3 launches, 192 elements of D compared, 0 incorrect" in reported
    page = report.page([find(name) for name in names], found, command="mmagen", date="2026-01-01")
    assert "\n- SM61_DP2A: dp2a" in page and page.startswith("# Every MMA operation")
    (other,) = verdicts_of(monkeypatch, (WARP,), dist="overflow", toolchain=Toolchain())
    assert "no inputs called overflow, only small_int, uniform" in other.reason


def test_one_wrong_one_that_does_not_compile_one_without_its_instruction(monkeypatch):
    assert exit_code(verdicts_of(monkeypatch, (WARP, UMMA), outcome="incorrect")) == ExitCode.INCORRECT
    found = verdicts_of(monkeypatch, (WARP, WGMMA, UMMA), build_fails=(WGMMA,), faults=(UMMA,))
    assert [v.word for v in found] == ["passed", "build failed", "build failed"]
    assert "not in the code" in found[2].reason and exit_code(found) == ExitCode.BUILD_FAILED


def test_compiled_only(monkeypatch):
    found = verdicts_of(monkeypatch, (WARP, UMMA), where="")
    assert [v.word for v in found] == ["compiled", "compiled"] and exit_code(found) == ExitCode.OK
    assert [v.word for v in verdicts_of(monkeypatch, (WARP, UMMA), where="", arch=("sm_90a",))] == ["compiled", "not_supported"]


def test_distributions():
    assert distributions(find("SM80_16x8x32_S32S8S8S32_TN_SATURATE")) == ("small_int", "uniform", "overflow")
    assert distributions(find(WGMMA)) == ("small_int", "uniform")


@pytest.mark.parametrize(
    "name",
    [
        "SM80_16x8x32_S32S8S8S32_TN_SATURATE",
        "SM80_16x8x32_S32U8S8S32_TN",
        "SM80_16x8x32_S32S8U8S32_TN",
        "SM80_16x8x64_S32U4U4S32_TN_SATURATE",
        "SM80_16x8x256_S32U1U1S32_TN_ANDPOPC",
    ],
)
def test_overflow_overflows(name):
    operation = find(name)
    form = forms(operation)[0]
    data = case.matrices(form, "overflow", 8)
    plain = (
        data.values_c
        + sum(a[..., 0] @ b[..., 0].swapaxes(1, 2) for a, b in zip(data.values_a, data.values_b, strict=False))[..., None]
    )
    truth = case.truth_of(form, data, "overflow").values
    low, high = formats.limits("s32")
    outside = (plain < low) | (plain > high)
    assert 0.1 < outside.mean() < 0.9 and (truth == plain)[~outside].all()
    assert (truth[outside] != plain[outside]).all() and (low <= truth).all() and (truth <= high).all()


# --- The instruction in the code --------------------------------------------------------------------------------------


def test_the_instruction_is_looked_up_in_each_kernel(tmp_path):
    batch = Batch((Form(find(WARP)), Form(find("SM80_16x8x8_F32F16F16F32_TN")), Form(find(WGMMA))), "sm_90a")
    program = tmp_path / "program"
    program.write_bytes(
        b"\x7fELF\0.version 9.0\n.visible .entry mmagen_atom_0(\n)\n{\nmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0};\n}\n"
        b".visible .entry mmagen_atom_1(\n)\n{\n// begin\nmma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32.more {%0};\n}\n\0"
    )
    faults = code.missing(batch, program)
    assert sorted(faults) == [1, 2]
    assert "is not in the code" in faults[1] and "PTX is not in" in faults[2]
    assert sorted(code.assembled([entry(0), entry(2)], batch)) == [1]
