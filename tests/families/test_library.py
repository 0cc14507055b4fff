"""Several kernels in one library: rules of choice, what configs must have in common, and what becomes of them."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from mmagen.build.ptx import Ptx
from mmagen.core.errors import SpecError, SpecFaults
from mmagen.families import plan
from mmagen.families.library import choose, spec_of_each
from mmagen.generate.render import render
from mmagen.inspect.page import inspect
from mmagen.plan.plans import GemmPlan
from mmagen.spec.kernel import When
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.verify.emulated.host import copies_by_threads, limit_of
from mmagen.verify.emulated.session import tasks

_SPECS = Path(__file__).resolve().parents[2] / "specs"
LIBRARY = (_SPECS / "sm90_gemm_bf16_rules.yaml").read_text("utf-8")
LIBRARY_BY_TIME = (_SPECS / "sm80_gemm_bf16_library.yaml").read_text("utf-8")
HEAD = """\
mmagen: 1
name: lib
kernel: gemm
atom: SM90_64x256x16_F32BF16BF16_SS
tile: [128, 256, 64]
atoms_layout: [2, 1, 1]
cluster: [2, 1]
epilogue: {out: bf16}
configs:
"""  # lines 1 to 9
SMALL = (
    "  - {name: small, when: {m: [1, 64]}, atom: SM90_64x32x16_F32BF16BF16_SS, tile: [64, 32, 128], "
    "atoms_layout: [1, 1, 1], cluster: null}\n"
)
LARGE = "  - name: large\n"
MMA_SYNC = (
    HEAD.replace("SM90_64x256x16_F32BF16BF16_SS", "SM80_16x8x16_F32BF16BF16F32_TN")
    .replace("[128, 256, 64]", "[128, 128, 32]")
    .replace("[2, 1, 1]", "[2, 2, 1]")
    .replace("cluster: [2, 1]\n", "permutation: [32, 32, 16]\n")
)


def planned(text: str) -> GemmPlan:
    return plan(load(text, "lib.yaml").spec)


def refused(text: str) -> list[str]:
    """`line:column key: what; remedy` of everything that is wrong, from reading or planning."""
    with pytest.raises((SpecError, SpecFaults)) as caught:
        loaded = load(text, "lib.yaml")
        try:
            plan(loaded.spec)
        except SpecFaults as error:
            raise SpecError(loaded.source.locate(error.faults)) from None
    return [str(one).removeprefix("lib.yaml:") for one in caught.value.diagnostics]


# --- Rules -----------------------------------------------------------------------------------------------------------


def test_all_conditions_of_a_rule_must_hold_and_ends_belong_to_it():
    rule = When(m=(1, 64), n=(1024, None), mn=(None, 100_000))
    assert rule.text == "m 1 .. 64, n from 1024, mn up to 100000"
    assert rule.holds(64, 1024, 1) and rule.holds(1, 100_000, 1)
    assert not rule.holds(65, 1024, 1) and not rule.holds(64, 1023, 1) and not rule.holds(64, 2000, 1)


def test_the_first_rule_that_holds_decides():
    it = planned(HEAD + "  - {name: a, when: {k: [100, 200]}}\n  - {name: b, when: {m: [1, 64], k: [150, null]}}\n" + LARGE)
    chosen = {(m, k): choose(it, Problem(shape=(m, 8, k))).name for m in (64, 65) for k in (99, 100, 200, 201)}
    assert chosen == {
        (64, 99): "large",
        (64, 100): "a",
        (64, 200): "a",
        (64, 201): "b",
        (65, 99): "large",
        (65, 100): "a",
        (65, 200): "a",
        (65, 201): "large",
    }


@pytest.mark.parametrize(
    ("earlier", "later", "covers"),
    [
        ({"m": [1, 64]}, {"m": [1, 64]}, True),
        ({"m": [1, 64]}, {"m": [2, 63]}, True),
        ({"m": [1, 64]}, {"m": [2, 65]}, False),
        ({"m": [None, 64]}, {"m": [2, 63], "k": [1, 8]}, True),
        ({"m": [1, 64], "k": [1, 8]}, {"m": [2, 63]}, False),
        ({"m": [2, 64]}, {"m": [None, 64]}, False),
        ({"m": [1, 64]}, {"n": [1, 64]}, False),
        ({"n": [2, None]}, {"n": [2, None]}, True),
    ],
)
def test_a_rule_covers_what_lies_inside_of_it(earlier, later, covers):
    assert When.model_validate(earlier).covers(When.model_validate(later)) == covers


# case: (lines after HEAD, what is reported, by its beginning and a part of its end)
REFUSED = {
    "no rest": (
        SMALL,
        ["10:25 configs[0].when: a problem for which no rule holds has no kernel", "add a config without when"],
    ),
    "all before the last": (
        LARGE + SMALL.replace("small", "late") + "  - {name: rest}\n",
        [
            "11:24 configs[1].when: late is never reached: large comes first and has no when",
            "or make it the last",
            "12:5 configs[2]: rest is never reached: large comes first and has no when",
            "give large a when",
        ],
    ),
    "inside an earlier rule": (
        SMALL + "  - {name: tiny, when: {m: [1, 8], k: [1, 8]}}\n" + LARGE,
        ["11:24 configs[1].when: tiny is never reached: small comes first and takes m 1 .. 64", "put tiny before small"],
    ),
    "one name twice": (
        SMALL + "  - {name: Small}\n",
        ["11:12 configs[1].name: Small is already the name of configs[0]", "another"],
    ),
    "the library's name": (
        SMALL.replace("small", "lib") + LARGE,
        ["10:12 configs[0].name: lib is already the name of the library", "another"],
    ),
    "a file's name": (
        SMALL.replace("small", "lib_unaligned") + LARGE,
        ["10:12 configs[0].name: lib_unaligned is already the name of a file", ""],
    ),
    "a function's name": (
        SMALL.replace("small", "copy_operands") + LARGE,
        ["10:12 configs[0].name: copy_operands is already the name of a function of the library", "another"],
    ),
    "a word of C++": (
        SMALL.replace("small", "short") + LARGE,
        ["10:12 configs[0].name: 'short' is reserved in C++", "e.g. small_m"],
    ),
    "no name": ("  - {stages: 3}\n", ["10:5 configs[0].name: missing", "e.g. small_m"]),
    "none": ("  []\n", ["10:3 configs: the list is empty", "a list of kernels for one library"]),
    "a key of the library": (
        SMALL + "  - {name: large, layout: NN}\n",
        ["11:19 configs[1].layout: unknown key", "layout is the same for all configs: set it in the spec itself"],
    ),
    "a key of nobody": (
        SMALL + "  - {name: large, tyle: 1}\n",
        ["11:19 configs[1].tyle: unknown key", "did you mean tile? mmagen schema lists all"],
    ),
    "backwards": (
        SMALL.replace("[1, 64]", "[64, 1]") + LARGE,
        ["10:29 configs[0].when.m: the interval from 64 to 1 is empty", "[least, most]"],
    ),
    "no ends": (
        SMALL.replace("[1, 64]", "[null, null]") + LARGE,
        ["10:29 configs[0].when.m: the interval has no bound", "[least, most]"],
    ),
    "one end": (
        SMALL.replace("[1, 64]", "[64]") + LARGE,
        ["10:29 configs[0].when.m: the list has 1 entry, not 2", "[least, most]"],
    ),
    "an end that is none": (
        SMALL.replace("[1, 64]", "[0, 64]") + LARGE,
        ["10:30 configs[0].when.m[0]: 0 is too small", "[least, most]"],
    ),
    "no condition": (
        SMALL.replace("{m: [1, 64]}", "{}") + LARGE,
        ["10:25 configs[0].when: a rule without a condition", "omit when"],
    ),
    "a condition on what is none": (
        SMALL.replace("{m:", "{batch:") + LARGE,
        ["10:26 configs[0].when.batch: unknown key", "the known keys are m, n, k, mn"],
    ),
    "no tile": ("  - {name: large, tile: null}\n", ["10:25 configs[0].tile: kernel gemm needs a tile", "[M, N, K]"]),
    "a broken rule of its own": (
        SMALL + "  - {name: large, stages: 5}\n",
        ["11:27 configs[1].stages: 5 need 279,552 B of shared memory", "stages 4"],
    ),
    "two at once": (
        SMALL.replace("32, 128]", "33, 128]") + "  - {name: large, stages: 5}\n",
        [
            "10:86 configs[0].tile[1]: 33 is not a multiple of the 32",
            "tile [64, 32, 128]",
            "11:27 configs[1].stages: 5 need",
            "stages 4",
        ],
    ),
    "other types": (
        SMALL.replace("BF16BF16", "F16F16") + LARGE,
        [
            "10:45 configs[0].atom: SM90_64x32x16_F32F16F16_SS is f16 x f16 + f32 -> bf16, and config large is bf16",
            "of the same types",
        ],
    ),
    "other sums": (SMALL.replace("F32BF16BF16_SS", "F16F16F16_SS") + LARGE, ["10:45 configs[0].atom: ", "of the same types"]),
    "another kind": (
        SMALL.replace("SM90_64x32x16_F32BF16BF16_SS", "SM80_16x8x16_F32BF16BF16F32_TN") + LARGE,
        [
            "10:45 configs[0].atom: the kernels of SM80_16x8x16_F32BF16BF16F32_TN and SM90_64x256x16_",
            "two libraries",
        ],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_a_library_is_refused_where_it_stands(case):
    more, (*expected,) = REFUSED[case]
    found = refused(HEAD + more)
    assert len(found) == len(expected) // 2, found
    for one, begin, part in zip(found, expected[::2], expected[1::2], strict=True):
        assert one.startswith(begin) and part in one[len(begin) :], one


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (("out: bf16", "out: f64"), "8:17 epilogue.out: f64 cannot be converted"),
        (("cluster", "arch: [sm_90]\ncluster"), "7:8 arch[0]: sm_90 does not have wgmma"),
        (
            ("configs", "problems: [[8, 8, 8], {shape: [8, 8, 8], beta: 1.0e+39}]\nconfigs"),
            "9:23 problems[1]: alpha 1.0 or beta 1e+39",
        ),
        (("[128, 256, 64]", "[128, 250, 64]"), "5:13 tile[1]: 250 is not a multiple"),
        (("cluster: [2, 1]", "cluster: [3, 1]"), "7:10 cluster: [3, 1] has an extent that is not a power of two"),
    ],
)
def test_what_is_wrong_with_all_is_said_once_and_where_it_stands(change, place):
    (found,) = refused(HEAD.replace(*change) + SMALL + "  - {name: middle, when: {k: [1, 8]}}\n" + LARGE)
    assert found.startswith(place)


def test_an_inherited_value_that_fits_the_others_is_the_configs_fault():
    (found,) = refused(
        HEAD.replace("cluster", "stages: 4\ncluster") + "  - {name: wide, when: {k: [1, 8]}, tile: [128, 256, 128]}\n" + LARGE
    )
    assert found.startswith("11:5 configs[0].stages: 4 need") and "at most 2" in found


def test_a_config_may_take_a_value_back():
    it = planned(HEAD.replace("cluster", "stages: 2\ncluster") + "  - {name: a, when: {k: [1, 8]}, stages: null}\n" + LARGE)
    assert [config.plan.stages for config in it.configs] == [4, 2]


def test_other_kernels_have_one_shape():
    (found,) = refused("mmagen: 1\nname: m\nkernel: micro\natom: SM80_16x8x16_F32F16F16F32_TN\nconfigs: [{name: a}]\n")
    assert found.startswith("5:10 configs: kernel micro has a fixed shape") and "kernel: gemm" in found


def test_architectures_of_a_library_are_one_list():
    old = "SM75_16x8x8_F32F16F16F32_TN"
    text = (
        MMA_SYNC.replace("BF16BF16", "F16F16").replace("out: bf16", "out: f16")
        + f"  - {{name: old, when: {{m: [1, 8]}}, atom: {old}, permutation: [32, 32, 8]}}\n"
        + LARGE
    )
    (found,) = refused(text)
    assert found.startswith(f"10:42 configs[0].atom: {old} would be compiled for sm_75") and "set arch" in found
    assert planned(text.replace("permutation: [32, 32, 16]", "permutation: [32, 32, 16]\narch: [sm_80]")).arch == ("sm_80",)


# --- The plan --------------------------------------------------------------------------------------------------------


def _headers(of: GemmPlan) -> set[str]:
    """The runtime headers of the plan's project."""
    return {path.rpartition("/")[2] for path in render(of) if path.startswith("include/mmagen/")}


def test_each_config_is_planned_like_a_spec_of_its_own():
    spec = load(LIBRARY, "lib.yaml").spec
    it = plan(spec)
    for config, alone in zip(it.configs, spec_of_each(spec), strict=True):
        one, other = config.plan, plan(alone)
        assert (one.tile, one.operands, one.mainloop, one.smem_bytes, one.roles, one.scheduler) == (
            other.tile,
            other.operands,
            other.mainloop,
            other.smem_bytes,
            other.roles,
            other.scheduler,
        )
        assert one.spec_sha == it.spec_sha != other.spec_sha
    assert it.tile == it.configs[-1].plan.tile
    of_kernels = {header for one in spec_of_each(spec) for header in _headers(plan(one))}
    assert _headers(it) - {"choice.cuh", "predicted_time.cuh", "sm90_few_rows.cuh"} == of_kernels
    assert {choose(it, problem).name for problem in it.problems} == {"small_m", "one_wave", "two_waves", "large"}, (
        "verify tries them all"
    )


@pytest.mark.parametrize(
    "change, has",
    [
        (("epilogue: {out: bf16}", "epilogue: {out: f32, major: M}"), True),
        (("epilogue: {out: bf16}", "epilogue: [alpha, {bias: column}, gelu, {cast: bf16}]"), True),
        (("epilogue: {out: bf16}", "epilogue: [alpha, amax, {cast: bf16}]"), False),
        (("epilogue: {out: bf16}", "epilogue: [{gated: silu}, {cast: bf16}]"), False),
        (("epilogue: {out: bf16}", "epilogue: {out: bf16}\nlayout: NN"), False),
        (("F32BF16BF16", "F32F16F16"), True),
        (("F32BF16BF16", "F16F16F16"), False),
        (("configs:\n", ""), False),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else str(value),
)
def test_which_libraries_have_a_kernel_for_few_rows(change, has):
    text = (HEAD + LARGE).replace(*change).replace("out: bf16", "out: f16" if "F16F16F16" in change[1] else "out: bf16")
    it = planned(text if "configs:" in text else text.replace(LARGE, ""))
    assert it.few_rows is has and ("sm90_few_rows.cuh" in _headers(it)) is has


@pytest.mark.parametrize(
    "types, out, keys, has",
    [
        ("8_F32TF32TF32_SS_TN", "f32", "", True),
        ("32_S32S8S8_SS_TN", "s32", "", True),
        ("32_S32U8U8_SS_TN", "s32", "", True),
        ("32_S32S8U8_SS_TN", "s32", "", False),
        ("32_F32E4M3E4M3_SS_TN", "bf16", "accumulation: fast\n", True),
        ("32_F32E5M2E5M2_SS_TN", "bf16", "accumulation: fast\n", True),
        ("32_F32E4M3E5M2_SS_TN", "bf16", "accumulation: fast\n", False),
        ("32_F32E4M3E4M3_SS_TN", "bf16", "accumulation: precise\n", False),
        ("32_F32E4M3E4M3_SS_TN", "bf16", "scale: {a: tensor, b: tensor}\n", False),
        ("32_F16E4M3E4M3_SS_TN", "f16", "accumulation: fast\n", False),
    ],
)
def test_the_kernel_for_few_rows_multiplies_two_operands_of_one_type(types, out, keys, has):
    depth = {"8": 32, "32": 128}[types.split("_")[0]]
    it = planned(
        f"mmagen: 1\nname: lib\nkernel: gemm\natom: SM90_64x64x{types}\nlayout: TN\ntile: [64, 64, {depth}]\n"
        f"atoms_layout: [1, 1, 1]\nschedule: cooperative\nepilogue: {{out: {out}}}\n{keys}"
        "configs:\n  - {name: few, when: {m: [1, 64]}}\n  - {name: many, stages: 3}\n"
    )
    assert it.few_rows is has and ("sm90_few_rows.cuh" in _headers(it)) is has


def test_a_spec_without_configs_knows_nothing_of_them():
    one = load(HEAD.replace("configs:\n", ""), "lib.yaml").spec
    assert "configs" not in one.model_dump(mode="json") and plan(one).configs == ()


def test_a_dump_says_what_was_written():
    dump = load(HEAD + SMALL + LARGE, "lib.yaml").spec.model_dump(mode="json")["configs"]
    assert dump == [
        {
            "name": "small",
            "when": {"m": [1, 64]},
            "atom": "SM90_64x32x16_F32BF16BF16_SS",
            "tile": [64, 32, 128],
            "atoms_layout": "(1,1,1):(1,1,1)",
            "cluster": None,
        },
        {"name": "large"},
    ]


# --- The project -----------------------------------------------------------------------------------------------------


def project(text: str) -> dict[str, str]:
    return {path: data.decode() for path, data in render(planned(text)).items()}


TABLE = """\
constexpr mmagen::Candidate<Args, lib_info> kConfigs[] = {
    { "small", mmagen::When().m(1, 64), &lib::small::run, &lib::small::can_run,
      &lib::small::query, nullptr },
    { "few", mmagen::When().n(1024, mmagen::kNoEnd).mn(0, 4194304), &lib::few::run, &lib::few::can_run,
      &lib::few::query, nullptr },
    { "large", mmagen::When(), &lib::large::run, &lib::large::can_run,
      &lib::large::query, nullptr },
};
"""
FEW = "  - {name: few, when: {n: [1024, null], mn: [null, 4194304]}, stages: 3}\n"


def test_the_table_reads_like_the_spec():
    files = project(HEAD + SMALL + FEW + LARGE)
    assert TABLE in files["src/lib.cu"]
    assert "cute" not in files["src/lib.cu"], "the choice compiles without CuTe"


def test_the_table_decides_as_the_plan_does():
    text = HEAD + SMALL + FEW + "  - {name: deep, when: {k: [4096, null], n: [1, 128]}}\n" + LARGE
    it, dice = planned(text), random.Random(1)
    rows = re.findall(r'\{ "(\w+)", mmagen::When\(\)((?:\.\w+\([^)]*\))*)', project(text)["src/lib.cu"])
    table = [(name, re.findall(r"\.(\w+)\((\d+), (\S+)\)", rule)) for name, rule in rows]
    seen = set()
    for _ in range(2000):
        m, n, k = (dice.choice([1, 8, 63, 64, 65, 128, 1023, 1024, 4095, 4096, 65537, 2**31 - 1]) for _ in range(3))
        values = {"m": m, "n": n, "k": k, "mn": m * n}
        taken = next(
            name
            for name, rule in table
            if all(int(low) <= values[of] <= (2**63 - 1 if high == "mmagen::kNoEnd" else int(high)) for of, low, high in rule)
        )
        assert taken == choose(it, Problem(shape=(m, n, k))).name
        seen.add(taken)
    assert seen == {"small", "few", "deep", "large"}


def test_each_kernel_has_a_header_and_a_source_file():
    it, files = planned(LIBRARY), project(LIBRARY)
    name = it.name
    assert f"include/{name}/config.cuh" not in files
    cmake = files["CMakeLists.txt"]
    assert f"add_library({name} src/{name}.cu)" in cmake
    assert f"mmagen_unit({name} unit-1 src/{name}_unaligned.cu src/one_wave.cu src/large.cu)" in cmake
    assert f"mmagen_unit({name} unit-2 src/small_m.cu src/two_waves.cu)" in cmake
    for config in it.configs:
        one = config.plan
        header, unit = files[f"include/{name}/{config.name}.cuh"], files[f"src/{config.name}.cu"]
        for line in (
            f"namespace {name}::{config.name} {{",
            f"kTileM = {one.tile[0]};",
            f"kTileN = {one.tile[1]};",
            f"kTileK = {one.tile[2]};",
            f"kStages = {one.stages};",
            f"kSmemBytes = {one.smem_bytes};",
            f"kThreads = {one.threads};",
            f"kClusterM = {one.scheduler.cluster[0]};",
            one.atom.name,
            f"kConsumerRegisters = {one.roles.consumer_registers};",
            f"sm90_{one.roles.schedule}.cuh",
        ):
            assert line in header, line
        assert (
            f'#include "{name}/{config.name}.cuh"' in unit and "mmagen::run_sm90<Config>(args, stream, &run_unaligned)" in unit
        )
        assert f"run_unaligned(mmagen::CallArguments<{config.name}::Config> const& args" in unit


@pytest.mark.parametrize(
    ("tiles", "lender"),
    [
        ({"a": (64, 1), "b": (128, 1)}, "b"),  # threads of one warpgroup: the tile nearest to 128 x 128
        ({"a": (128, 2), "b": (256, 2)}, "a"),
        ({"a": (256, 2), "b": (128, 1)}, "a"),  # two warpgroups before one
        ({"a": (128, 2), "b": (128, 2)}, "b"),  # of equals the last one
    ],
)
def test_the_kernel_without_tma_has_the_tile_of_one_config(tiles, lender):
    """tiles: by config, extent along N and warpgroups; each has 64 rows."""
    when = {"a": ", when: {m: [1, 64]}", "b": ""}
    configs = "".join(
        f"  - {{name: {name}, atom: SM90_64x{n}x16_F32BF16BF16_SS, tile: [{64 * groups}, {n}, 64], "
        f"atoms_layout: [{groups}, 1, 1], cluster: null{when[name]}}}\n"
        for name, (n, groups) in tiles.items()
    )
    files = project(HEAD + configs)
    assert f'#include "lib/{lender}.cuh"' in files["src/lib_unaligned.cu"]
    assert f"run_sm90_unaligned<{lender}::Config>" in files["src/lib_unaligned.cu"]


def test_what_is_there_once_is_the_last_ones():
    files = project(LIBRARY)
    name = "sm90_gemm_bf16_rules"
    assert f'#include "{name}/large.cuh"' in files[f"src/{name}_unaligned.cu"]
    assert "run_sm90_unaligned<large::Config>" in files[f"src/{name}_unaligned.cu"]
    assert f"launch<{name}::large::Config>" in files["tests/peak.cu"]
    assert f"const char *{name}_config_name(const {name}_args *args);" in files[f"include/{name}/{name}.h"]
    assert "| mn 1 .. 4325376 | `two_waves` | 128 x 128 x 64 |" in files["README.md"]
    assert "| all others | `large` | 128 x 256 x 64 |" in files["README.md"]


def test_a_library_of_mma_sync_needs_no_other_way():
    files = project(MMA_SYNC + "  - {name: small, when: {mn: [1, 65536]}, tile: [64, 64, 64]}\n" + LARGE)
    assert "add_library(lib src/lib.cu)\n" in files["CMakeLists.txt"]
    assert "mmagen_unit(lib unit-1 src/small.cu src/large.cu)" in files["CMakeLists.txt"]
    assert "mmagen::run_gemm<Config>(args, stream);" in files["src/small.cu"] and "run_unaligned" not in files["src/small.cu"]
    assert "kTileM = 64;" in files["include/lib/small.cuh"] and "include/mmagen/mainloop_multistage.cuh" in files


def test_the_spec_in_the_project_makes_it_again():
    files = render(planned(LIBRARY))
    assert render(planned(files["spec.yaml"].decode())) == files


def test_unusual_widths_are_defined_in_the_namespace_of_their_config():
    files = project(
        HEAD + "  - {name: a, when: {k: [1, 8]}, atom: SM90_64x208x16_F32BF16BF16_SS, tile: [128, 208, 64]}\n" + LARGE
    )
    name = files["CMakeLists.txt"].split("project(")[1].split()[0]
    assert f"struct cute::MMA_Traits<{name}::a::SM90_64x208x16_F32BF16BF16_SS> {{" in files[f"include/{name}/a.cuh"]
    assert "MMA_Traits" not in files[f"include/{name}/large.cuh"]


# --- Inspecting and emulating ----------------------------------------------------------------------------------------


def test_inspect_tells_the_choice_and_each_kernel():
    text = inspect(planned(LIBRARY))
    for line in (
        r"  config +when +atom +CTA tile +stages +schedule +cluster +split_k",
        r"  small_m +m 1 \.\. 64 +SM90_64x32x16\w+ +64 x 32 x 128 ",
        r"  two_waves +mn 1 \.\. 4325376 ",
        r"  large +otherwise +SM90_64x256x16\w+ +128 x 256 x 64 +4 +cooperative +2 x 1 +1",
        r"  7 +1024x1024x1024 +one_wave",
        r"small_m: Operand A \(M,K\)",
        r"large: Shared memory per CTA",
    ):
        assert re.search(rf"^{line}", text, re.M), line
    assert text.count("Problems of verify") == 1


def test_a_library_without_rules_has_no_column_of_them():
    text = inspect(planned(LIBRARY_BY_TIME))
    assert re.search(r"^Selection: the least predicted time\n  config +atom ", text, re.M)


PTX = Ptx("lib", "gemm", "", "sm_90a", "", "", "", 0.0, True, {"lib": "", "small": "s", "large": "l"})


def test_every_kernel_is_emulated_on_problems_of_its_own():
    it = planned(HEAD + SMALL + LARGE)
    work = tasks(it, PTX, (), 1, None)
    assert {(task.config, task.plan.tile) for task in work} == {("small", (64, 32, 128)), ("large", (128, 256, 64))}
    assert all(task.library is it and task.text == f"{task.problem.text} by {task.config}" for task in work)
    asked = tasks(it, PTX, (Problem(shape=(64, 8, 8)), Problem(shape=(65, 8, 8))), 1, "uniform")
    assert [(task.config, task.problem.m) for task in asked] == [("small", 64), ("large", 65)]
    assert [task.config for task in tasks(it, PTX, (Problem(shape=(65, 8, 8)),), 1, "uniform")] == ["large"]


def test_the_library_chooses_where_its_rules_lead_to_the_kernel():
    it = planned(HEAD + SMALL + LARGE)
    symbols = {(task.config, task.chosen): task.run_symbol for task in tasks(it, PTX, (), 1, None)}
    assert symbols[("small", "small")] == symbols[("large", "large")] == "lib_run"
    assert symbols[("large", "small")] == "_ZN3lib5large3runERK8lib_argsP11CUstream_st"


def test_the_function_of_a_kernel_takes_a_workspace_for_sums_alone():
    parts = "  - {name: parts, schedule: cooperative, split_k: 3, when: {m: [1, 16]}}\n"
    text = HEAD + parts + SMALL + LARGE
    it, units = planned(text), project(text)
    seen = {(task.config, task._is_chosen): task.takes_workspace for task in tasks(it, PTX, (), 1, None)}
    assert seen[("large", True)] and seen[("parts", False)] and not seen[("large", False)]
    assert "::workspace(" not in units["src/large.cu"] and " workspace(" not in units["src/large.cu"]
    assert " workspace(" in units["src/parts.cu"]


def test_the_kernel_without_tma_may_take_the_steps_of_any_config():
    small, large = tasks(
        planned(HEAD + SMALL + LARGE), PTX, (Problem(shape=(64, 72, 257)), Problem(shape=(65, 72, 257))), 1, "uniform"
    )
    assert (small.config, large.config) == ("small", "large")
    as_large = replace(large, problem=small.problem)
    alone = [limit_of(replace(one, library=None), 1, True) for one in (small, as_large)]
    assert alone[0] != alone[1]
    assert limit_of(small, 1, True) == limit_of(as_large, 1, True) == max(alone)
    assert limit_of(small, 1, False) == limit_of(replace(small, library=None), 1, False)


def test_a_c_by_tma_is_no_copy_of_operands():
    load = SimpleNamespace(base="cp", modifiers=("async", "bulk", "tensor", "2d", "shared::cluster"))

    def copies(kernel, *instructions):
        return copies_by_threads(SimpleNamespace(name=f"_ZN6mmagen4v0_1{kernel}IN2it6ConfigEEE", instructions=instructions))

    assert copies("21sm90_unaligned_kernel", load)
    assert not copies("11sm90_kernel", load)
    assert copies("11gemm_kernel")


def test_a_call_without_workspace_has_the_choice_of_operands_as_they_are():
    """Without a workspace rows of 187 elements are not copied, and lie beside multiples of 16 bytes."""
    path = Path(__file__).resolve().parents[2] / "specs/sm90_gemm_bf16_widths.yaml"
    widths, problem = plan(load(path.read_text("utf-8"), path.name).spec), Problem(shape=(115, 243, 187))
    copied, direct = (choose(widths, problem, workspace).name for workspace in (True, False))
    assert copied.endswith("_n160") and direct.endswith("_n192")
