"""`mmagen vendor`: several kernels as one library, updated in place."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import mmagen
from mmagen.cli.main import main
from mmagen.core.errors import UsageError
from mmagen.generate.collection import collect
from mmagen.generate.render import render
from mmagen.spec.load import load
from mmagen.toolchain.find import COMPILE, find_toolchain
from tests.build.test_consumers import FUNCTIONS
from tests.build.test_consumers import _visible as visible

SPECS = Path(__file__).resolve().parents[2] / "specs"


def plans(*names: str):
    return [mmagen.plan(SPECS / f"{name}.yaml") for name in names]


def vendor(*arguments: object, capsys) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main(["vendor", *map(str, arguments)])
    said = capsys.readouterr()
    return int(done.value.code or 0), said.out, said.err


def test_runtime_headers_are_there_once():
    names = ("sm80_gemm_bf16_tn", "sm80_gemm_f64", "sm90_gemm_bf16_library")
    files = collect("kernels", plans(*names))
    runtime = {path for path in files if path.startswith("include/mmagen/")}
    each = [set(render(plan, tests=False)) for plan in plans(*names)]
    assert runtime == {path for one in each for path in one if path.startswith("include/mmagen/")}
    assert len(runtime) < sum(path.startswith("include/mmagen/") for one in each for path in one)
    cmake = files["CMakeLists.txt"].decode()
    assert 'kernels_kernel(sm80_gemm_f64 "80" "NDEBUG"\n  src/sm80_gemm_f64/sm80_gemm_f64.cu)' in cmake
    assert 'kernels_kernel(sm90_gemm_bf16_library "90a" "NDEBUG"' in cmake
    header = files["include/kernels/kernels.h"].decode()
    assert [line.split('"')[1] for line in header.splitlines() if line.startswith("#include")] == [
        f"../{name}/{name}.h" for name in names
    ]
    assert not any(path.startswith("tests/") for path in files)


def test_the_specs_in_it_make_it_again():
    files = collect("kernels", plans("sm80_gemm_f64", "hello_micro"))
    again = [load(files[f"specs/{name}.yaml"], name).spec for name in ("sm80_gemm_f64", "hello_micro")]
    assert collect("kernels", [mmagen.plan(spec) for spec in again]) == files


def test_the_order_of_the_specs_changes_nothing():
    """The command in the library's README.md has them in the order of the shell."""
    names = ("sm80_gemm_f64", "hello_micro", "fma_micro")
    assert collect("kernels", plans(*names)) == collect("kernels", plans(*sorted(names)))


def test_a_library_is_not_called_as_its_kernel():
    with pytest.raises(
        UsageError, match=r"hello_micro is the name of a kernel and of the library; give the library another --name"
    ):
        collect("hello_micro", plans("hello_micro"))


def test_a_second_run_updates_and_says_what_changed(tmp_path, capsys):
    into = tmp_path / "my-kernels"
    two = (SPECS / "hello_micro.yaml", SPECS / "fma_micro.yaml")
    code, said, _ = vendor(*two, "--into", into, capsys=capsys)
    assert code == 0 and "  new      src/fma_micro/fma_micro.cu\n" in said
    assert json.loads((into / "mmagen.json").read_text())["name"] == "my_kernels"
    assert vendor(*two, "--into", into, capsys=capsys)[:2] == (0, f"{into}: hello_micro, fma_micro: up to date\n")
    assert vendor(*two, "--into", into, "--check", capsys=capsys)[:2] == (0, "")
    code, said, hint = vendor(two[0], "--into", into, "--check", capsys=capsys)
    assert code == 1 and f"{into}/src/fma_micro/fma_micro.cu differs\n" in said and "run mmagen vendor again" in hint
    code, said, _ = vendor(two[0], "--into", into, capsys=capsys)
    assert code == 0 and "  removed  src/fma_micro/fma_micro.cu\n" in said and "  changed  CMakeLists.txt\n" in said
    assert not (into / "src/fma_micro").exists() and (into / "include/my_kernels/my_kernels.h").is_file()


def test_hand_edits_are_refused_or_kept(tmp_path, capsys):
    into, spec = tmp_path / "kernels", SPECS / "hello_micro.yaml"
    vendor(spec, "--into", into, capsys=capsys)
    (into / "README.md").write_text("mine\n")
    code, _, said = vendor(spec, "--into", into, capsys=capsys)
    assert code == 2 and "README.md: changed by hand" in said and (into / "README.md").read_text() == "mine\n"
    assert vendor(spec, "--into", into, "--force", capsys=capsys)[0] == 0
    assert (into / "README.md.orig").read_text() == "mine\n"


def test_what_is_no_place_or_name_is_refused(tmp_path, capsys):
    spec = SPECS / "hello_micro.yaml"
    code, _, said = vendor(spec, "--into", tmp_path / "3rd", capsys=capsys)
    assert code == 2 and "'3rd' is not a C identifier; give the library a name with --name" in said
    code, _, said = vendor(spec, "--into", tmp_path / "x", "--name", "a-b", capsys=capsys)
    assert code == 2 and "'a-b' is not a C identifier; use letters, digits and _" in said
    code, _, said = vendor(spec, "--into", tmp_path / "test", capsys=capsys)  # which CMake refuses
    assert code == 2 and "'test' is the name of a target of every CMake build; give the library another one with --name" in said
    code, _, said = vendor(spec, "--into", tmp_path / "CUTLASS", capsys=capsys)
    assert code == 2 and "would hide CUTLASS's cutlass/cutlass.h; give it another name with --name" in said
    (tmp_path / "full").mkdir()
    (tmp_path / "full/own").touch()
    code, _, said = vendor(spec, "--into", tmp_path / "full", capsys=capsys)
    assert code == 2 and "it is no project of mmagen; name another folder, or --force to write into it" in said
    assert mmagen.build(spec, tmp_path) == tmp_path / "hello_micro"
    code, _, said = vendor(spec, "--into", tmp_path / "hello_micro", capsys=capsys)
    assert code == 2 and "is a project of mmagen build; vendor into another folder" in said
    bad = tmp_path / "bad.yaml"
    bad.write_text("mmagen: 1\nname: bad\n")
    code, _, said = vendor(spec, bad, "--into", tmp_path / "y", capsys=capsys)
    assert code == 2 and "bad.yaml" in said and not (tmp_path / "y").exists()
    code, _, said = vendor(SPECS / "hello_peak.yaml", "--into", tmp_path / "y", capsys=capsys)
    assert code == 2 and "hello_peak" in said and not (tmp_path / "y").exists()


@pytest.mark.nvcc
def test_a_c_program_links_the_kernels_of_one_library(tmp_path, capsys):
    """Of different architectures, as a shared library that exports their functions and nothing else."""
    tools = find_toolchain(want=COMPILE)
    names = ("hello_micro", "hello_ownership")
    into = tmp_path / "kernels"
    assert vendor(*(SPECS / f"{name}.yaml" for name in names), "--into", into, capsys=capsys)[0] == 0
    (tmp_path / "main.c").write_text(
        "#include <kernels/kernels.h>\n"
        "int main(void) {\n"
        "  hello_micro_args args = HELLO_MICRO_ARGS_INIT;\n"
        "  return hello_micro_can_run(&args) == HELLO_MICRO_FIXED_SHAPE\n"
        "    && hello_ownership_stamp(0, 0, 0, 0) == HELLO_OWNERSHIP_NULL_A ? 0 : 1;\n"
        "}\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(app LANGUAGES C)\nadd_subdirectory(kernels)\n"
        "add_executable(app main.c)\ntarget_link_libraries(app kernels::kernels)\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("CMAKE", "CUTLASS", "NINJA"))}
    environment |= {"CUDACXX": str(tools.nvcc.path), "CXX": str(tools.host_compiler.path)}
    build = tmp_path / "build"
    options = [f"-DCUTLASS_DIR={tools.cutlass.path}", "-DBUILD_SHARED_LIBS=ON"]
    for command in (["-S", tmp_path, "-B", build, *options], ["--build", build, "-j2"]):
        done = subprocess.run([tools.cmake.path, *command], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
    assert subprocess.run([build / "app"]).returncode == 0
    library = next(build.rglob("libkernels.so"))
    ownership = {"stamp", *(function for function in FUNCTIONS[5:])}
    assert visible(library) == {f"hello_micro_{f}" for f in FUNCTIONS} | {f"hello_ownership_{f}" for f in ownership}
    assert mmagen.open(library, "hello_micro").name == "hello_micro"
    with pytest.raises(UsageError, match=r"has hello_micro, hello_ownership; pass one of them as name"):
        mmagen.open(library)
