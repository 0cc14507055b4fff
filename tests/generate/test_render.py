"""render: contexts, strictness, manifests; test_golden.py has the committed projects."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from pathlib import Path

import pytest
import yaml
from jinja2 import UndefinedError

import mmagen.generate.render
import mmagen.generate.templates
from mmagen.build.build import _NOT_COMPILED
from mmagen.core.errors import UsageError
from mmagen.core.templates import templates_folder
from mmagen.families import family_of, plan
from mmagen.generate.licence import licensed
from mmagen.generate.render import render
from mmagen.spec.load import load
from mmagen.spec.model import Problem

SPECS = Path(__file__).resolve().parents[2] / "specs"


def planned(of: str, **changes):
    spec = load((SPECS / f"{of}.yaml").read_bytes(), of).spec
    return plan(spec.model_copy(update=changes))


@pytest.fixture
def other_templates(tmp_path, monkeypatch):
    """A templates folder of one's own, and no trace of it afterwards."""
    caches = (
        templates_folder,
        mmagen.generate.templates.environment,
        mmagen.generate.render._part_files,
        mmagen.generate.templates.project_file,
    )

    def forget():
        for cached in caches:
            cached.cache_clear()

    real = templates_folder()
    (tmp_path / "runtime").symlink_to(real / "runtime")
    for part in ("common", "ownership"):
        (tmp_path / "project" / part).mkdir(parents=True)
    forget()
    for module in (mmagen.generate.render, mmagen.generate.templates):
        monkeypatch.setattr(module, "templates_folder", lambda: tmp_path)
    yield tmp_path / "project"
    for cached in caches[1:]:
        cached.cache_clear()


def test_an_unknown_variable_in_a_template_fails(other_templates):
    (other_templates / "common" / "NAME.txt.j2").write_text("{{ plan.name }} {{ upper }}\n")
    assert render(planned("hello_ownership"))["hello_ownership.txt"] == licensed("a.txt", b"hello_ownership HELLO_OWNERSHIP\n")
    for unknown in ("{{ nobody }}", "{{ plan.nobody }}", "{% if nobody %}x{% endif %}", "{% for x in nobody %}{% endfor %}"):
        (other_templates / "common" / "NAME.txt.j2").write_text(unknown)
        mmagen.generate.templates.environment.cache_clear()
        with pytest.raises(UndefinedError, match="nobody"):
            render(planned("hello_ownership"))


def test_a_later_part_replaces_an_earlier_one_and_underscored_files_are_for_including(other_templates):
    (other_templates / "common" / "a.txt").write_text("common {{ not rendered }}")
    (other_templates / "common" / "_part.j2").write_text("nobody")
    (other_templates / "ownership" / "a.txt").write_text("ownership")
    files = render(planned("hello_ownership"))
    assert files["a.txt"] == licensed("a.txt", b"ownership")
    assert not [path for path in files if "_part" in path]


@pytest.mark.parametrize("name", ["hello_ownership", "hello_micro", "sm80_gemm_classic", "sm75_gemm_f16", "sm90_gemm_bf16_tn"])
def test_a_project_has_what_its_plan_says_and_a_manifest_of_it(name):
    it = planned(name)
    files = render(it)
    assert list(files) == [*sorted(set(files) - {"mmagen.json"}), "mmagen.json"]
    manifest = json.loads(files["mmagen.json"])
    assert manifest["files"] == {
        path: hashlib.sha256(data).hexdigest() for path, data in files.items() if path != "mmagen.json"
    }
    assert (manifest["name"], manifest["kernel"], manifest["spec_sha"]) == (name, it.kernel, it.spec_sha)
    assert not [path for path, data in files.items() if b"{{" in data and b"}}" in data and b"{%" in data]


def test_the_name_is_everywhere_and_only_the_name_changes():
    one, two = render(planned("hello_micro")), render(planned("hello_micro", name="other_name"))
    assert {path.replace("hello_micro", "other_name") for path in one} == set(two)
    config = one["include/hello_micro/config.cuh"].decode()
    assert two["include/other_name/config.cuh"].decode() == config.replace("hello_micro", "other_name")
    assert b"other_name_run" in two["src/other_name.cu"]


def test_the_spec_in_the_project_makes_the_project_again():
    files = render(planned("sm80_gemm_classic"))
    again = plan(load(files["spec.yaml"], "spec.yaml").spec)
    assert render(again) == files


def test_batch_strides_are_written_where_they_are_set():
    problems = tuple(Problem(shape=(4, 5, 6), batch=2, batch_stride_b=stride) for stride in (None, 0))
    files = render(planned("sm80_gemm_classic", problems=problems))
    text = files["tests/subject.cuh"].decode()
    assert "{ 4, 5, 6, 2, 0, 0, 1.0, 0.0 }," in text
    assert "{ 4, 5, 6, 2, 0, 0, 1.0, 0.0, { -1, 0, -1, -1 } }," in text
    assert files["spec.yaml"].count(b"batch_stride") == 1


def test_the_config_says_what_was_planned():
    it = planned("sm80_gemm_classic", stages=5)
    config = render(it)["include/sm80_gemm_classic/config.cuh"].decode()
    for line in (
        "kStages = 5;",
        f"kSmemBytes = {it.smem_bytes};",
        "kThreads = 128;",
        "kEpilogueVector = 8;",
        "using MmaOp = cute::SM80_16x8x16_F32F16F16F32_TN;",
        "mmagen::MainloopMultistage<Config>",
    ):
        assert line in config


def _included(files: dict[str, bytes], path: str) -> set[str]:
    """Files of the project that `path` includes, as its compiler would find them: beside it, in tests, in include."""
    found = set()
    for name in re.findall(rb'^#include "([^"]+)"', files[path], re.M):
        places = [
            posixpath.normpath(posixpath.join(folder, name.decode()))
            for folder in (posixpath.dirname(path), "tests", "include")
        ]
        found.add(next((place for place in places if place in files), name.decode()))
    return found


@pytest.mark.parametrize("name", [path.stem for path in sorted(SPECS.glob("*.yaml"))])
def test_a_project_takes_along_every_header_that_it_includes_and_no_other(name):
    files = render(planned(name))
    waiting = [path for path in files if path.endswith((".cu", ".h")) or "/config" in path]
    reached: set[str] = set()
    while waiting:
        path = waiting.pop()
        assert path in files, f"{path} is included and not there"
        if path not in reached:
            reached.add(path)
            waiting += _included(files, path)
    assert {path for path in files if path.endswith(".cuh")} == {path for path in reached if path.endswith(".cuh")}


# --- wgmma -----------------------------------------------------------------------------------------------------------


def wgmma_files(of: str, **changes) -> dict[str, str]:
    return {path: data.decode() for path, data in render(planned(of, **changes)).items()}


def test_a_wgmma_config_says_what_was_planned():
    config = wgmma_files("sm90_gemm_bf16_tn", stages=3)["include/sm90_gemm_bf16_tn/config.cuh"]
    for line in (
        "using MmaOp = cute::SM90_64x256x16_F32BF16BF16_SS<cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::K>;",
        "kConsumers = 2;",
        "kThreads = 384;",
        "kProducerRegisters = 40;",
        "kConsumerRegisters = 232;",
        "kStages = 3;",
        "kClusterM = 2;",
        "kClusterN = 1;",
        "kRasterGroup = 8;",
        "using SmemLayoutAtom = cute::GMMA::Layout_K_SW128_Atom<Element>;",
        "cute::Step<cute::_1, cute::_2, cute::_3>{}",
        "kLine = 64;",
        "kPanels = 1;",
        "kBoxAcross = 128;",
        "kBoxes = 1;",
        "kSwizzleBytes = 128;",
        "kSliceN = 64;",
        "kEpilogueBytes = 32768;",
        '#include "../mmagen/sm90_cooperative.cuh"',
        '#include "../mmagen/sm90_tile_scheduler_persistent.cuh"',
        "using Mainloop = mmagen::Sm90MainloopSs<Config>;",
        "using TileScheduler = mmagen::PersistentTileScheduler<Config>;",
        "mmagen::Sm90EpilogueTma<Config, mmagen::LinearCombination<ElementD, ElementAccumulator, Scalar>>;",
        "using Kernel = mmagen::Sm90Cooperative<Config>;",
    ):
        assert line in config, line
    assert "SmemCopy" not in config and "{%" not in config


def test_operands_of_wgmma_by_major_and_source():
    config = wgmma_files("sm90_gemm_bf16_rs")["include/sm90_gemm_bf16_rs/config.cuh"]
    a, b = config[config.index("struct A {") : config.index("struct B {")], config[config.index("struct B {") :]
    assert "Layout_MN_SW128_Atom<Element>" in a and "cute::Step<cute::_2, cute::_1, cute::_3>{}" in a
    assert "cute::Copy_Atom<cute::SM75_U16x8_LDSM_T, Element>" in a and "mmagen::Sm90MainloopRs<Config>" in config
    assert "Layout_K_SW128_Atom<Element>" in b and "SmemCopy" not in b


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("sm90_gemm_bf16_pingpong", "Sm90Pingpong"),
        ("sm90_gemm_warpgroup", "Sm90Warpgroup"),
        ("sm90_gemm_splitk", "Sm90Cooperative"),
    ],
)
def test_a_schedule_is_a_header_and_a_class(name, kernel):
    config = wgmma_files(name)[f"include/{name}/config.cuh"]
    assert f"using Kernel = mmagen::{kernel}<Config>;" in config and f"sm90_{kernel[4:].lower()}.cuh" in config


def test_the_way_without_tma_is_compiled_with_the_other():
    """In one translation unit: most of the time of a second one would be CuTe's headers."""
    files = wgmma_files("sm90_gemm_bf16_tn")
    assert "add_library(sm90_gemm_bf16_tn src/sm90_gemm_bf16_tn.cu)" in files["CMakeLists.txt"]
    assert "run_sm90<Config>(copied, stream, &run_unaligned)" in files["src/sm90_gemm_bf16_tn.cu"]
    loaded_by_threads = "mmagen::run_sm90_unaligned<Config>(mmagen::kernel_arguments<Config>(args), stream, launch)"
    assert loaded_by_threads in files["src/sm90_gemm_bf16_tn.cu"]
    assert "cuda_driver" not in files["CMakeLists.txt"] and "EXTENDED" not in files["CMakeLists.txt"]


def test_unusual_widths_are_defined_by_the_project():
    name = "SM90_64x216x16_F32BF16BF16_SS"
    files = wgmma_files("sm90_gemm_bf16_tn", atom=name, tile=(128, 216, 64), cluster=None)
    config = files["include/sm90_gemm_bf16_tn/config.cuh"]
    assert f"struct {name} {{" in config and f"using MmaOp = {name};" in config and '+f"(d107)' in config
    assert "EXTENDED" not in files["CMakeLists.txt"], "CuTe's definition takes a minute to compile"
    usual = wgmma_files("sm90_gemm_bf16_tn")["include/sm90_gemm_bf16_tn/config.cuh"]
    assert "MMA_Traits" not in usual


def test_both_of_pyyamls_dumpers_write_the_same_spec(monkeypatch):
    if mmagen.generate.render._Dumper is yaml.SafeDumper:
        pytest.skip("PyYAML was built without libyaml")
    plans = [plan(load(path.read_bytes(), path.stem).spec) for path in sorted(SPECS.glob("*.yaml"))]
    compiled = [mmagen.generate.render._spec_yaml(one) for one in plans]
    monkeypatch.setattr(mmagen.generate.render, "_Dumper", yaml.SafeDumper)
    assert [mmagen.generate.render._spec_yaml(one) for one in plans] == compiled


def test_compiled_templates_are_kept_where_they_can_be(tmp_path, monkeypatch):
    of = planned("hello_micro")
    for folder, kept in ((tmp_path / "cache", True), (Path("/dev/null") / "cache", False)):
        monkeypatch.setenv("MMAGEN_CACHE_DIR", str(folder))
        mmagen.generate.templates.environment.cache_clear()
        assert render(of)["spec.yaml"]
        assert any((folder / "templates").glob("*")) is kept
    mmagen.generate.templates.environment.cache_clear()


@pytest.mark.parametrize("how", ["empty", "half", "one byte", "of another template"])
def test_a_damaged_compiled_template_is_compiled_again(tmp_path, monkeypatch, how):
    monkeypatch.setenv("MMAGEN_CACHE_DIR", str(tmp_path))
    of = planned("hello_micro")
    texts = []
    for _ in range(2):
        mmagen.generate.templates.environment.cache_clear()
        texts.append(render(of))
        kept = [path for path in (tmp_path / "templates").rglob("*") if path.is_file()]
        contents = [path.read_bytes() for path in kept]
        for path, data, other in zip(kept, contents, contents[1:] + contents[:1], strict=True):
            middle = len(data) // 2
            changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
            path.write_bytes({"empty": b"", "half": data[:middle], "one byte": changed, "of another template": other}[how])
    mmagen.generate.templates.environment.cache_clear()
    assert kept and texts[0] == texts[1]


@pytest.mark.parametrize(
    ("name", "policy", "header"),
    [
        ("sm90_gemm_warpgroup", "TileScheduler = mmagen::SingleTileScheduler<Config>", "tile_scheduler_single"),
        ("sm90_gemm_bf16_tn", "TileScheduler = mmagen::PersistentTileScheduler<Config>", "sm90_tile_scheduler_persistent"),
        ("sm90_gemm_splitk", "TileScheduler = mmagen::SplitKTileScheduler<Config, 2>", "sm90_tile_scheduler_split_k"),
        ("sm90_gemm_e4m3_precise", "Mainloop = mmagen::Sm90MainloopPromoted<Config, ", "sm90_mainloop_promoted"),
        ("sm90_gemm_bf16_rs", "Mainloop = mmagen::Sm90MainloopRs<Config>", "sm90_mainloop_rs"),
        ("sm80_gemm_classic", "TileScheduler = mmagen::SingleTileScheduler<Config>", "tile_scheduler_single"),
        ("sm80_gemm_classic", "Mainloop = mmagen::MainloopMultistage<Config>", "mainloop_multistage"),
        ("sm75_gemm_f16", "Mainloop = mmagen::MainloopRegisterStaged<Config>", "mainloop_register_staged"),
    ],
)
def test_a_policy_is_named_and_included_and_no_other_is(name, policy, header):
    files = wgmma_files(name)
    config = files[f"include/{name}/config.cuh"]
    assert f"using {policy}" in config and f'#include "../mmagen/{header}.cuh"' in config
    for kind in ("mainloop", "tile_scheduler"):
        schedulers = {path for path in files if re.match(rf"include/mmagen/(sm90_)?{kind}_(?!params)", path)}
        needed = {f"include/mmagen/{one}.cuh" for one in re.findall(rf"((?:sm90_)?{kind}_\w+)\.cuh", config)}
        assert schedulers == needed


@pytest.mark.parametrize(
    "name", ["hello_micro", "hello_ownership", "sm80_gemm_classic", "sm90_gemm_bf16_rules", "sm90_micro_sparse"]
)
def test_without_tests_the_library_is_the_same_and_nothing_speaks_of_tests(name):
    whole, files = render(planned(name)), render(planned(name), tests=False)
    assert not any(path.startswith("tests/") for path in files)
    left = {path for path in whole if not path.startswith("tests/")}
    assert files.keys() <= left and all(path.startswith("include/mmagen/") for path in left - files.keys())
    assert {path for path in files if files[path] != whole[path]} == {"CMakeLists.txt", "README.md", "mmagen.json"}
    cmake, readme = files["CMakeLists.txt"].decode(), files["README.md"].decode()
    assert "BUILD_TESTS" in whole["CMakeLists.txt"].decode() and "TEST" not in cmake.upper() and cmake.endswith("\n")
    assert "ctest" in whole["README.md"].decode() and "ctest" not in readme
    assert json.loads(files["mmagen.json"])["tests"] is False and "tests" not in json.loads(whole["mmagen.json"])


@pytest.mark.parametrize("name", ["sm80_gemm_classic", "sm90_gemm_bf16_library", "hello_ownership"])
def test_without_pictures_a_project_compiles_to_the_same(name, monkeypatch):
    """So that builds of both share the cache; and nothing is drawn."""
    made = plan(load((SPECS / f"{name}.yaml").read_bytes(), name).spec)
    whole = render(made)
    monkeypatch.delattr("mmagen.generate.render.figures")
    without = render(made, with_figures=False)
    differing = {path for path in {*whole, *without} if whole.get(path) != without.get(path)}
    assert differing and all(path.startswith(_NOT_COMPILED) for path in differing)


def test_the_readme_of_a_family_without_maps_has_no_pictures_of_them(monkeypatch):
    made = planned("hello_ownership")
    monkeypatch.setattr(type(family_of(made)), "maps", lambda self, plan: [])
    files = render(made)
    assert not any(path.startswith("figures/") for path in files) and b"figures/" not in files["README.md"]


def test_a_project_that_is_all_test_is_not_built_without():
    with pytest.raises(UsageError, match="hello_peak is a program of tests/ alone; mmagen build --tests makes it"):
        render(planned("hello_peak"), tests=False)
