"""Every MMA operation by itself: the images that kernels get, the judge, and what becomes of operations that fail."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from mmagen.build.build import BuildResult
from mmagen.cli.verify_atoms import code as exit_code
from mmagen.core.errors import ExitCode, UsageError
from mmagen.mma import formats, images
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


def one_of_each_kind():
    """Operations that differ in more than N."""
    table = {}
    for operation in RUNNABLE:
        key = (
            operation.family,
            operation.kind,
            operation.type_d,
            operation.type_a,
            operation.type_b,
            operation.k,
            operation.sparse,
            operation.places["A"],
            operation.block_scaled,
            operation.saturate,
        )
        table[key] = operation
    return list(table.values())


KINDS = one_of_each_kind()


# --- Layouts and formats ----------------------------------------------------------------------------------------------


def test_layouts_are_evaluated_as_the_registry_does():
    texts = {layout.text: layout for operation in operations() for layout in map(operation.layout, operation.layouts)}
    small = [layout for layout in texts.values() if layout.rows * layout.columns <= 4096]
    assert len(small) > 100
    for layout in small:
        assert images.owners(layout.text).tolist() == layout.table(), layout.text


@pytest.mark.parametrize(
    "word, name",
    [
        ("f16", "float16"),
        ("bf16", "bfloat16"),
        ("e4m3", "float8_e4m3fn"),
        ("e5m2", "float8_e5m2"),
        ("e2m1", "float4_e2m1fn"),
        ("e3m2", "float6_e3m2fn"),
        ("e2m3", "float6_e2m3fn"),
    ],
)
def test_values_of_codes(word, name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.float16 if name == "float16" else getattr(ml_dtypes, name, None)
    if kind is None:
        pytest.skip(f"this ml_dtypes has no {name}")
    codes = np.arange(1 << formats.bits(word))
    theirs = codes.astype(np.uint16 if formats.bits(word) == 16 else np.uint8).view(kind).astype(np.float64)
    assert np.array_equal(formats.values(word), theirs, equal_nan=True)


@pytest.mark.parametrize(
    "word", ["f16", "bf16", "e4m3", "e5m2", "e2m1", "e3m2", "e2m3", "ue4m3", "s4", "u4", "s8", "u8", "s16", "s32", "f32", "f64"]
)
def test_codes_keep_their_values(word):
    rng = np.random.default_rng(1)
    numbers = rng.integers(0 if word[0] == "u" else -4, 5, 1000).astype(np.float64)
    assert np.array_equal(formats.decode(formats.encode(numbers, word), word), numbers)


def test_encoding_goes_to_the_nearest_value_and_saturates():
    assert formats.decode(formats.encode(np.array([1.24, 1.26, 5.4, 100.0, -100.0]), "e2m1"), "e2m1").tolist() == [
        1,
        1.5,
        6,
        6,
        -6,
    ]
    assert formats.decode(formats.encode(np.array([0.25, 1.0, 8.0]), "ue8m0"), "ue8m0").tolist() == [0.25, 1.0, 8.0]
    assert formats.decode(formats.encode(np.array([1 + 2.0**-12]), "tf32"), "tf32").tolist() == [1.0]


# --- Images -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", KINDS, ids=lambda operation: operation.name)
def test_what_is_packed_is_what_is_read(operation):
    """C's image, read as D's, is C: what a kernel that does nothing would leave."""
    form = forms(operation)[-1]
    data = case.matrices(form, "small_int", 3)
    launch = case.launch_of(form, data, case.lines_of(form)[0])
    same = case.judge(form, data, launch.images[2].tobytes(), case.Expected(data.values_c, np.zeros_like(data.values_c)))
    assert not same.reason and launch.images[2].nbytes == launch.size_d
    other = case.judge(form, data, launch.images[2].tobytes(), case.truth_of(form, data, "small_int"))
    assert other.incorrect  # and it is not the product


@pytest.mark.parametrize("operation", KINDS, ids=lambda operation: operation.name)
def test_small_integers_are_exact_whatever_the_order(operation):
    data = case.matrices(forms(operation)[0], "small_int", 4)
    if operation.block_scaled or operation.type_d == "s32":
        return
    most = 4 * 4 * operation.k // (2 if operation.sparse else 1) * 2 + 8
    assert most <= (2.0**13 if operation.type_a in ("e4m3", "e5m2") else 1 / formats.roundoff(operation.type_d))
    assert np.abs(data.values_c).max() <= 8


def sparse_kinds():
    return [operation for operation in KINDS if operation.sparse]


@pytest.mark.parametrize("operation", sparse_kinds(), ids=lambda operation: operation.name)
def test_metadata_says_where_the_nonzeros_are(operation):
    """A rebuilt from the stored elements and the metadata bits, as the PTX ISA tells it, is A."""
    data = case.matrices(forms(operation)[0], "small_int", 5)
    group = {"2:4": 4, "1:2": 2, "4:8": 8}[operation.sparsity]
    scales = data.sfa or [None] * len(data.a)
    for stored, metadata, full, scale in zip(data.a, data.e, data.values_a, scales, strict=True):
        stored, full = formats.decode(stored, operation.type_a)[0, :, :, 0], full[0, :, :, 0]
        rebuilt = np.zeros((operation.m, operation.k))
        for row in range(operation.m):
            bits = int.from_bytes(bytes(metadata[0, row, :, 0].astype(np.uint8)), "little")
            for index in range(operation.k // group):
                nibble = bits >> 4 * index & 15
                kept = {
                    "1:2": [{0b0100: 0, 0b1110: 1}.get(nibble)],
                    "2:4": [nibble & 3, nibble >> 2],
                    "4:8": [2 * (nibble & 3), 2 * (nibble & 3) + 1, 2 * (nibble >> 2), 2 * (nibble >> 2) + 1],
                }[operation.sparsity]
                assert kept == sorted(set(kept))
                for j, place in enumerate(kept):
                    rebuilt[row, index * group + place] = stored[row, index * len(kept) + j]
        scaled = (
            rebuilt
            if scale is None
            else rebuilt * np.repeat(formats.decode(scale, operation.type_sf)[0, :, :, 0], operation.vector, axis=1)
        )
        assert np.array_equal(scaled, full)
        assert (rebuilt != 0).sum() == operation.m * operation.k // 2


def test_metadata_of_a_wgmma_in_registers():
    """m64n8k32.f16: a row's 32 bits lie in threads 4g (first 16 columns) and 4g + 1, row + 8 in the upper half."""
    operation = find("SM90::GMMA::SPARSE::GMMA_64x8x32_F32F16F16_SS")
    form = forms(operation)[0]
    data = case.matrices(form, "small_int", 6)
    words = case.launch_of(form, data, (16, 16)).images[3].view(np.uint32).reshape(2, 128)
    rows = data.e[0][0, :, :, 0].astype(np.uint32)  # [row, byte]
    for warp, group, half in np.ndindex(4, 8, 2):
        low, high = (16 * warp + group + 8 * step for step in (0, 1))
        of = [rows[r, 2 * half] | rows[r, 2 * half + 1] << 8 for r in (low, high)]
        assert words[0, 32 * warp + 4 * group + half] == of[0] | of[1] << 16


def test_scale_factors_in_registers():
    """scale_vec::1X: threads 4g and 4g + 1 hold A's factors of rows g and g + 8."""
    operation = next(o for o in RUNNABLE if o.block_scaled and not o.sparse and o.k == 32)
    form = forms(operation)[0]
    data = case.matrices(form, "small_int", 7)
    image = case.launch_of(form, data, (0, 0)).images[4].reshape(2, 32)
    rows = data.sfa[0][0, :, 0, 0]
    assert all(image[0, 4 * g] == rows[g] and image[0, 4 * g + 1] == rows[g + 8] for g in range(8))


@pytest.mark.parametrize("k_major", [True, False])
@pytest.mark.parametrize("line", images.SWIZZLES)
def test_shared_memory_keeps_every_element_once(k_major, line):
    codes = np.arange(1, 2 * 64 * 16 + 1, dtype=np.uint64).reshape(2, 64, 16)
    made = images.shared(codes, 16, k_major, line)
    found = made.data.view(np.uint16)
    assert sorted(found[found != 0]) == list(range(1, codes.size + 1))
    assert made.descriptor >> 62 == {16: 0, 128: 1, 64: 2, 32: 3}[line] and made.step % 16 == 0


def test_a_line_of_128_bytes_is_swizzled_by_its_number():
    codes = np.arange(64 * 64, dtype=np.uint64).reshape(1, 64, 64)
    data = images.shared(codes, 16, True, 128).data.view(np.uint16).reshape(64, 8, 8)
    for row, chunk in ((0, 0), (1, 0), (5, 3), (63, 7)):
        assert data[row, chunk ^ (row % 8)].tolist() == codes[0, row, 8 * chunk : 8 * chunk + 8].tolist()


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
    done = run_fake(tmp_path, "if head[0] == 3: import time; time.sleep(60)", timeout_s=1.5)
    assert [bool(executed.d) for executed in done] == [True, True, True, False, True]
    assert "did not end within 1.5 s" in done[3].error


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
