"""mmagen new: what it writes is accepted, for what was asked, and says why; what cannot be built is refused with what can."""

from __future__ import annotations

import re

import pytest
import yaml

from mmagen.core.errors import UsageError
from mmagen.families.kernel_warnings import warnings
from mmagen.families.reading import read
from mmagen.plan.cost import Call, KernelShape, schedule
from mmagen.spec.model import Problem
from mmagen.suggest import rank as ranks
from mmagen.suggest.cutlass_name import Meaning, meaning
from mmagen.suggest.start import suggest
from mmagen.suggest.wanted import wanted
from mmagen.suggest.write import rows
from tests.support.fakes import typed

# Answers, and the beginning of the operation's name that they lead to.
ANSWERS = [
    ({}, "SM90_64x"),
    ({"arch": "sm_90"}, "SM80_16x8x16_F32BF16"),
    ({"arch": "sm_80", "types": "f16", "layout": "NN"}, "SM80_16x8x16_F32F16"),
    ({"arch": "sm_80", "types": "f16", "sums": "f16", "out": "f32"}, "SM80_16x8x16_F16F16"),
    ({"arch": "sm_75", "types": "s8", "out": "s8"}, "SM75_8x8x16_S32S8S8"),
    ({"arch": "sm_70", "types": "f16", "layout": "NT"}, "SM70_8x8x4_F32F16F16F32_NT"),
    ({"arch": "sm_61", "types": "s8"}, "SM61_DP4A"),
    ({"arch": "sm_89", "types": "e5m2,e4m3", "layout": "TT"}, "SM89_16x8x32_F32E5M2E4M3"),
    ({"types": "tf32", "layout": "NT"}, "SM80_16x8x8_F32TF32"),
    ({"types": "tf32"}, "SM90_64x"),
    ({"types": "f64", "arch": "sm_90"}, "SM90_16x8x"),
    ({"types": "f32", "arch": "sm_80"}, "UniversalFMA<float"),
    ({"types": "e4m3", "arch": "sm_120a"}, "SM89_16x8x32"),
]


def compiled_for(want) -> tuple[str]:
    """nvcc 13 compiles for sm_75 and later."""
    return ("sm_75",) if want.arch in ("sm_61", "sm_70") else (want.arch,)


COMPLEX = [
    ({"types": "c64", "arch": "sm_90"}, "SM90_16x8x"),
    ({"types": "c64", "arch": "sm_80", "layout": "NT"}, "SM80_8x8x4_C64"),
]


@pytest.mark.parametrize(("answers", "operation"), [*ANSWERS, *COMPLEX])
def test_a_gemm_that_is_accepted(answers, operation):
    want = wanted(**answers)
    text = suggest(want).text
    plan, faults = read(text, "new.yaml")
    assert not faults and plan.spec.atom.startswith(operation) and plan.arch == compiled_for(want)
    assert plan.types.split(" -> ")[1] == want.out and plan.spec.layout.letters == want.layout
    assert (plan.operand("A").element.word, plan.operand("B").element.word) == (want.type_a, want.type_b)
    assert all("#" in line for line in text.splitlines() if re.match("(tile|atoms_layout|atom|schedule|cluster):", line))
    assert not list(warnings(plan))


@pytest.mark.parametrize("problem", [(4096, 4096, 4096), (300, 300, 300)])
@pytest.mark.parametrize(
    ("types", "arch", "layout"),
    [
        *((types, arch, one) for types, arch in (("f32", "sm_80"), ("f16", "sm_70")) for one in ("TN", "NT", "NN", "TT")),
        ("f64", "sm_75", "TN"),
        ("s8", "sm_61", "TN"),
    ],
)
def test_what_build_warns_about_is_not_offered_first(types, arch, problem, layout):
    text = suggest(wanted(types=types, arch=arch, layout=layout, problems=(Problem(shape=problem),))).text
    plan, faults = read(text, "new.yaml")
    assert not faults and not list(warnings(plan))


@pytest.mark.parametrize("kernel", ["ownership", "micro"])
@pytest.mark.parametrize("answers", [answers for answers, _ in ANSWERS])
def test_a_small_kernel_that_is_accepted(kernel, answers):
    if kernel == "micro" and answers.get("types") == "tf32" and "layout" in answers:
        answers = answers | {"arch": "sm_80"}
    want = wanted(**{key: value for key, value in answers.items() if key != "out"}, kernel=kernel)
    plan, faults = read(suggest(want).text, "new.yaml")
    assert not faults and plan.kernel == kernel and plan.arch == compiled_for(want)


def test_the_best_candidate_is_within_the_prediction_s_error_of_the_fastest():
    ranking = ranks.rank(wanted(problems=(Problem(shape=(300, 5000, 777)), Problem(shape=(64, 64, 20000)))))
    times = [one.us for one in ranking.candidates]
    assert len(times) > 400 and times[0] <= min(times) * ranks.EQUAL
    beyond = [us for us in times if us > min(times) * ranks.EQUAL]
    assert beyond == sorted(beyond) and times[-len(beyond) :] == beyond


@pytest.mark.parametrize(("size", "rows"), [((16, 4096, 4096), 64), ((8192, 8192, 8192), 128)])
def test_the_tile_fits_the_problem(size, rows):
    plan = ranks.rank(wanted(problems=(Problem(shape=size),))).candidates[0].plan
    assert (plan.tile_of_d[0] <= rows) if size[0] < 64 else (plan.tile_of_d[0] >= rows)


def test_few_tiles_of_a_long_k_are_split():
    """256 x 256 x 65,536 has 4 tiles of 128 x 128: one part of K each would leave most SMs idle."""
    problem = Problem(shape=(256, 256, 65536))
    plan = ranks.rank(wanted(problems=(problem,))).candidates[0].plan
    spread = schedule(KernelShape.of(plan), 132, Call.of(plan, problem))
    assert plan.scheduler.split_k > 1 or spread.splits > 1 or spread.joined


def test_reasons_name_the_alternative():
    want = wanted(problems=(Problem(shape=(4096, 4096, 4096)),))
    ranking = ranks.rank(want)
    best = ranking.candidates[0]
    other = ranks.differs(best, ranking.candidates[1:], "schedule")
    line = next(line for line in suggest(want).text.splitlines() if line.startswith("schedule:"))
    assert f"the best with {other.keys['schedule']} is predicted {other.us / best.us - 1:.0%} slower" in line


@pytest.mark.parametrize(
    ("answers", "part"),
    [
        ({"types": "e4m3", "arch": "sm_80"}, "these architectures introduced one: sm_89"),
        ({"types": "bf16", "sums": "f16"}, "sm_90a has bf16 x bf16 + f32"),
        ({"types": "bf17"}, "there are f16, bf16"),
        ({"types": "fp16"}, "did you mean f16?"),
        ({"types": "bfloat16"}, "did you mean bf16?"),
        ({"types": "int8"}, "did you mean s8?"),
        ({"out": "fp32"}, "did you mean f32?"),
        ({"types": "fp8"}, "'fp8' is not an element type; there are f16"),
        (
            {"types": "s4"},
            "'s4' is multiplied by some operations (mmagen atoms --type), but not a type with which a spec can begin",
        ),
        ({"layout": "TX"}, "there are TN, NT, NN, TT"),
        ({"kernel": "peak"}, "there are ownership, micro, gemm"),
        ({"out": "s16"}, "D cannot be of type s16"),
        ({"name": "class"}, "reserved"),
        ({"kernel": "micro", "problems": (Problem(shape=(1, 1, 1)),)}, "1x1x1 is not the one tile that kernel micro computes"),
    ],
)
def test_what_cannot_be_built_is_refused_with_what_can(answers, part):
    with pytest.raises(UsageError, match=re.escape(part)):
        suggest(wanted(**answers))


def test_the_verb_writes_a_file_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, out, err = typed(capsys, "new", "--arch", "sm_80", "--type", "f16", "--problem", "512,512,64,2", "--name", "mine")
    assert (code, out) == (0, "") and "wrote mine.yaml" in err and "candidates" in err
    assert "within 2% of the least, the fewest keys come first" in err
    written = " ".join((tmp_path / "mine.yaml").read_text().replace("#", " ").split())
    assert "for 512x512x64 b2; within 2% of the least, the fewest keys come first. " in written
    document = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    assert document["name"] == "mine" and document["problems"] == [[512, 512, 64, 2]]
    code, _, err = typed(capsys, "new", "--arch", "sm_80", "mine.yaml")
    assert code == 2 and "mine.yaml exists" in err
    assert typed(capsys, "new", "--arch", "sm_80", "--kernel", "micro", "mine.yaml", "--force")[0] == 0
    assert yaml.safe_load((tmp_path / "mine.yaml").read_text())["kernel"] == "micro"
    code, out, _ = typed(capsys, "new", "--arch", "sm_75", "--type", "f16", "--kernel", "ownership", "-")
    assert code == 0 and yaml.safe_load(out)["atom"] == "SM75_16x8x8_F32F16F16F32_TN"


_FORM, _RANGE = "write it as M,N,K or M,N,K,BATCH", "M, N, K and BATCH are 1 to 2147483647"


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("512,512", _FORM),
        ("a,b,c", _FORM),
        ("1,2x3", _FORM),
        ("1,2,3,4,5", _FORM),
        ("0,1,2", _RANGE),
        ("1x2x3 b0", _RANGE),
        ("99999999999,1,1", _RANGE),
    ],
)
def test_a_bad_problem_is_refused(bad, says, capsys):
    code, _, err = typed(capsys, "new", "--problem", bad, "-")
    assert code == 2 and f"--problem {bad}: {says}" in err


@pytest.mark.parametrize("printed", ["512x256x64 b2", "512x256x64x2", "512,256,64,2"])
def test_a_problem_may_be_as_it_is_printed(printed, capsys):
    code, out, _ = typed(capsys, "new", "--arch", "sm_80", "--problem", printed, "-")
    assert code == 0 and yaml.safe_load(out)["problems"] == [[512, 256, 64, 2]]


def test_a_terminal_is_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = []

    def prompt(text, default=None, **_):
        asked.append(text)
        return {"Architecture": "sm_80", "Sizes": "512,512,512 64,64,64"}.get(text.split(" ")[0], default)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.prompt", prompt)
    assert typed(capsys, "new", "--type", "f16")[0] == 0
    assert [text.split(" ")[0] for text in asked] == ["Kernel", "Architecture", "Layout", "Sizes"]
    document = yaml.safe_load((tmp_path / "sm80_gemm_f16_tn.yaml").read_text())
    assert document["problems"] == [[512, 512, 512], [64, 64, 64]]


NEW = "cutlass3x_sm90_tensorop_gemm_{}_128x128x64_2x1x1_0_{}_align8_warpspecialized_cooperative_epi_tma"


@pytest.mark.parametrize(
    ("name", "arch", "types", "sums", "out", "layout", "major"),
    [
        (NEW.format("bf16_bf16_f32_bf16_bf16", "tnn"), "sm_90a", "bf16", "f32", "bf16", "TN", "M"),
        (NEW.format("e4m3_e5m2_f32_void_bf16", "tnt"), "sm_90a", "e4m3,e5m2", "f32", "bf16", "TN", "N"),
        (
            NEW.format("f16_f16_f16_f16_f16", "ntt").replace("op_gemm", "op_h64x128x16gemm"),
            *("sm_90a", "f16", "f16", "f16", "NT", "N"),
        ),
        ("cutlass_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align8", "sm_80", "bf16", "f32", "bf16", "TN", "M"),
        ("cutlass_tensorop_h16816gemm_256x128_32x3_nn_align8", "sm_80", "f16", "f16", "f16", "NN", "M"),
        ("cutlass_tensorop_s1688gemm_f16_256x128_32x2_nt_align8", "sm_75", "f16", "f32", "f32", "NT", "M"),
        ("cutlass_tensorop_s1688tf32gemm_256x128_16x3_tn_align4", "sm_80", "tf32", "f32", "f32", "TN", "M"),
        ("cutlass_tensorop_d884gemm_128x128_16x3_nn_align1", "sm_80", "f64", "f64", "f64", "NN", "M"),
        ("cutlass_tensorop_s8_i16832gemm_s8_256x128_64x3_tn_align16", "sm_80", "s8", "s32", "s8", "TN", "M"),
        ("cutlass_tensorop_tf32_s1688gemm_tf32_256x128_16x3_tn_align4", "sm_80", "tf32", "f32", "f32", "TN", "M"),
        ("cutlass_tensorop_s16832gemm_e4m3_128x128_64x3_tn_align16", "sm_89", "e4m3", "f32", "f32", "TN", "M"),
        ("cutlass_tensorop_s16832gemm_e4m3_e5m2_128x128_64x3_tn_align16", "sm_89", "e4m3,e5m2", "f32", "f32", "TN", "M"),
        ("cutlass_tensorop_z884gemm_128x64_8x3_nn_align1", "sm_80", "c64", "c64", "c64", "NN", "M"),
        (
            "cutlass3x_sm90_tensorop_s64x128x8tf32gemm_f32_f32_f32_f32_f32_128x128x32_2x1x1_0_tnn_align4",
            "sm_90a",
            "tf32",
            "f32",
            "f32",
            "TN",
            "M",
        ),
        ("cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_64x3_tn_align8", "sm_80", "bf16", "f32", "bf16", "TN", "M"),
        ("cutlass_75_tensorop_s1688gemm_f16_256x128_32x2_nt_align8", "sm_75", "f16", "f32", "f32", "NT", "M"),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_h16816gemm_256x128_32x3_nn_align8>"
            "(cutlass_80_tensorop_h16816gemm_256x128_32x3_nn_align8::Params)",
            "sm_80",
            "f16",
            "f16",
            "f16",
            "NN",
            "M",
        ),
        ("cutlass_simt_sgemm_128x128_8x2_nn_align1", "sm_80", "f32", "f32", "f32", "NN", "M"),
    ],
)
def test_names_of_cutlass(name, arch, types, sums, out, layout, major):
    assert meaning(name) == Meaning(arch, types, sums, out, layout, major)


@pytest.mark.parametrize(
    ("name", "types", "says"),
    [
        ("cutlass_tensorop_s1688bf16gemm_128x128_16x4_tn_align4", "tf32", "rounds it to bf16: tf32 reads f32 too"),
        ("cutlass_tensorop_s1688f16gemm_128x128_16x4_tn_align4", "tf32", "rounds it to f16: tf32 reads f32 too"),
        ("cutlass_tensorop_s1688gemm_128x128_16x4_tn_align4", "f32", "three products of tf32"),
    ],
)
def test_kernels_of_f32_by_tensor_cores(name, types, says):
    found = meaning(name)
    assert (found.arch, found.types, found.out) == ("sm_80", types, "f32") and says in found.remark


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cutlass_tensorop_c1688gemm_64x64_16x4_nn_align1", "complex numbers of two f32.*z884gemm"),
        ("cutlass_tensorop_f16_s16832spgemm_f16_128x128_64x3_tn_align8", "docs/sparse.md"),
        ("cutlass3x_sm90_sptensorop_gemm_f16_f16_f32_f16_f16_128x128x128_2x1x1_0_tnn_align16", "docs/sparse.md"),
        ("cutlass3x_sm90_tensorop_gemm_grouped_f16_f16_f32_void_f16_128x128x64_2x1x1_0_tnn_align8", "docs/grouped.md"),
        ("cutlass_tensorop_s4_i16864gemm_s4_128x128_128x3_tn_align32", "docs/int4.md"),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT", "pass the call with --cublaslt"),
        ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", "pass the call with --cublaslt"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64", "pass the call with --cublaslt"),
    ],
)
def test_a_refused_name_says_what_to_do(name, says):
    with pytest.raises(UsageError, match=says):
        meaning(name)


@pytest.mark.parametrize("name", ["", "sgemm", NEW.format("bf16_bf16", "tnn")])
def test_other_names_are_refused(name):
    with pytest.raises(UsageError, match="not the name of a dense CUTLASS GEMM"):
        meaning(name)


def test_a_kernel_of_cutlass_becomes_a_spec(capsys):
    name = "cutlass_tensorop_f16_s16816gemm_f16_128x128_32x3_tn_align8"
    code, out, _ = typed(capsys, "new", "--cutlass", name, "--layout", "NT", "-")
    document = yaml.safe_load(out)
    assert code == 0 and document["epilogue"] == {"out": "f16", "major": "M"} and document["layout"] == "NT"
    assert document["atom"] == "SM80_16x8x16_F32F16F16F32_TN" and document["name"] == "sm80_gemm_f16_nt"


def test_no_candidate_is_offered_twice():
    ranking = ranks.rank(wanted(types="f64", arch="sm_90a", problems=(Problem(shape=(4096, 4096, 512)),)))
    shown = [tuple(row) for row in rows(ranking)]
    assert len(set(shown)) == len(shown) == 5
    offered = [str(one.keys) for one in ranking.candidates]
    assert len(set(offered)) == len(offered) > 20


def test_what_is_faster_than_scalar_f32_is_said():
    def said(arch, types):
        return " ".join(suggest(wanted(types=types, arch=arch)).text.replace("#", " ").split())

    assert "Tensor cores have no f32" in said("sm_90a", "f32") and "split: bf16x6" in said("sm_90a", "f32")
    assert "Tensor cores have no f32" in said("sm_80", "f32") and "split" not in said("sm_80", "f32")
    assert "Tensor cores have no f32" not in said("sm_80", "tf32")


def test_a_type_that_is_given_is_not_that_of_the_expression(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, out, _ = typed(capsys, "new", "--torch", "f16[64, 64] @ f16[64, 64]", "--type", "e4m3", "--layout", "TN", "-")
    document = yaml.safe_load(out)
    assert code == 0 and document["epilogue"] == {"out": "bf16"} and "E4M3" in document["atom"]


@pytest.mark.parametrize(
    ("problem", "atom"), [((16, 16, 16), "SM80_16x8x16_F32F16F16F32_TN"), ((64, 128, 64), "SM90_64x128x16_F32F16F16_SS")]
)
def test_a_kernel_of_one_tile_has_that_of_its_problem(problem, atom):
    """The first program of a public tutorial multiplies 16 x 16 x 16 by one warp."""
    text = suggest(wanted(kernel="micro", types="f16", problems=(Problem(shape=problem),))).text
    plan, faults = read(text, "new.yaml")
    assert not faults and (plan.spec.atom, plan.tile) == (atom, problem)


@pytest.mark.parametrize("arch", ["sm_80a", "sm_999"])
def test_an_architecture_that_does_not_exist_is_refused_as_such(arch, capsys):
    code, _, err = typed(capsys, "new", "--arch", arch, "-")
    assert code == 2 and f"--arch: there is no {arch}; one of sm_60" in err


def test_a_spec_begins_with_one_architecture(capsys):
    code, out, err = typed(capsys, "new", "--arch", "sm_80,sm_90a", "--problem", "64,64,64", "-")
    assert (code, out) == (2, "") and "--arch sm_80,sm_90a: a spec begins with one architecture" in err
