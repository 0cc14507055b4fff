"""`import mmagen`: names, types, and the libraries that open() refuses."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mmagen
from mmagen.binding.shared_library import entries_in
from mmagen.core.errors import BuildError, UsageError
from mmagen.families import plan as plan_of
from mmagen.spec.load import load
from tests.support.sum_bounds import allowed

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "specs/fma_gemm_f32.yaml"


def test_functions_are_packages_as_well():
    """Whatever was imported first."""
    for first in ("import mmagen.plan.plans", "import mmagen"):
        code = f"{first}; import mmagen; import mmagen.plan.budgets as b; s = mmagen.load_spec({str(SPEC)!r}); "
        code += "print(mmagen.plan(s).name, mmagen.plan.plans.GemmPlan.__name__, b.OLDEST_ARCH, mmagen.inspect(s)[:12])"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
        assert done.stdout == "fma_gemm_f32 GemmPlan 75 fma_gemm_f32\n", done


def test_importing_mmagen_imports_none_of_it():
    code = "import mmagen, sys; print([name for name in sys.modules if name.startswith('mmagen.')], 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[] False\n"


def test_every_name_is_there_and_typed():
    stub = (ROOT / "mmagen/__init__.pyi").read_text()
    for name in mmagen.__all__:
        assert callable(getattr(mmagen, name)) or name == "__version__"
        assert f" as {name}\n" in stub or f"{name}: " in stub
    assert (ROOT / "mmagen/py.typed").is_file() and set(mmagen.__all__) <= set(dir(mmagen))
    with pytest.raises(AttributeError, match="no attribute 'complie'"):
        _ = mmagen.complie


def test_a_spec_comes_as_file_mapping_or_loaded():
    spec = mmagen.load_spec(SPEC)
    assert spec == load(SPEC.read_bytes(), "x").spec == mmagen.load_spec(str(SPEC)) == mmagen.load_spec(spec)
    assert mmagen.plan(spec) == mmagen.plan(str(SPEC)) == plan_of(spec)
    written = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert mmagen.load_spec(written).name == spec.name
    with pytest.raises(mmagen.SpecError, match=r"spec:\d+:\d+ tile"):
        mmagen.plan({**written, "tile": [3, 128, 8]})
    with pytest.raises(mmagen.UsageError, match=r"nowhere.yaml cannot be read: No such file"):
        mmagen.load_spec("nowhere.yaml")
    with pytest.raises(mmagen.UsageError, match=r"^spec: it is the text of a spec, not a path; .* yaml.safe_load\(text\)"):
        mmagen.load_spec(SPEC.read_text() + "# longer than a name of a file may be\n" * 10)
    with pytest.raises(mmagen.SpecError, match=r"spec:\d+:\d+ tile\[0\]: 3 is not a multiple") as refused:
        mmagen.plan(spec.model_copy(update={"tile": (3, 128, 8)}))
    assert refused.value.diagnostics[0].key == ("tile", 0)


def test_build_writes_a_project(tmp_path):
    folder = mmagen.build(SPEC, tmp_path, tests=False)
    assert folder == tmp_path / "fma_gemm_f32" and (folder / "mmagen.json").is_file() and not (folder / "tests").exists()
    (folder / "README.md").write_text("mine")
    with pytest.raises(mmagen.UsageError, match=r"README.md"):
        mmagen.build(SPEC, tmp_path, tests=False)
    assert mmagen.build(SPEC, tmp_path, tests=False, force=True) == folder and (folder / "README.md").read_text() != "mine"


def test_verify_refuses_another_place():
    with pytest.raises(mmagen.UsageError, match="on='tpu'; use 'auto', 'cpu' or 'gpu'"):
        mmagen.verify(SPEC, on="tpu")


def test_only_kernels_that_multiply_are_compiled():
    with pytest.raises(mmagen.UsageError, match="is kernel: ownership; compile"):
        mmagen.compile(ROOT / "specs/hello_ownership.yaml")


def test_problems_to_verify_are_texts_and_may_be_printed_names(monkeypatch):
    spec = ROOT / "specs/sm80_gemm_classic.yaml"
    for problems in ("16,16,16", [(16, 16, 16)], [16]):
        with pytest.raises(mmagen.UsageError, match=r"^problems=.*; pass a list of strings"):
            mmagen.verify(spec, on="cpu", problems=problems)
    asked = []
    monkeypatch.setattr(
        "mmagen.verify.emulated.verify.emulate_all", lambda *_, problems, **__: asked.extend(problems) or [None]
    )
    mmagen.verify(spec, on="cpu", problems=["16x8x16 b3 ld+8", "16,8,16"])
    assert asked == ["16,8,16,3:ld_pad=8", "16,8,16"]


def test_an_architecture_without_the_operation_is_refused_before_anything_is_compiled():
    spec = ROOT / "specs/sm90_gemm_bf16_tn.yaml"
    for call in (mmagen.compile, mmagen.verify):
        with pytest.raises(mmagen.UsageError, match="arch: sm_80 does not have wgmma; wgmma requires exactly sm_90a"):
            call(spec, arch="sm_80")
        with pytest.raises(mmagen.UsageError, match="there is no sm_10"):
            call(spec, arch="sm_10")
        with pytest.raises(mmagen.UsageError, match="'hopper' is not a GPU architecture"):
            call(spec, arch="hopper")


def test_a_library_in_the_current_folder_is_opened_by_its_name_alone(library, monkeypatch):
    made = library("TN")
    monkeypatch.chdir(made.parent)
    assert mmagen.open(made.name).name == "host_tn_n"


def test_open_says_what_is_no_library(tmp_path, library):
    made = library("TN")
    assert mmagen.open(made).name == mmagen.open(made.parent).name == mmagen.open(made, "host_tn_n").name == "host_tn_n"
    text = tmp_path / "libtext.so"
    text.write_text("not a library")
    other = next(Path(sys.modules["_ctypes"].__file__).parent.glob("_ctypes*.so"))
    older = library("NN", interface=1)
    broken = library("NT", interface="two")
    for path, says in (
        (tmp_path / "absent.so", "cannot be read: No such file"),
        (text, "is not a shared library"),
        (other, "was not made by mmagen"),
        (older, "has version 1 of the C interface, this mmagen calls version 2; rebuild it"),
        (broken, "is not mmagen's"),
        (tmp_path / "empty", "has no shared library; build the project with -DBUILD_SHARED_LIBS=ON"),
    ):
        if path.name == "empty":
            path.mkdir()
        with pytest.raises(UsageError, match=says):
            mmagen.open(path)
    with pytest.raises(UsageError, match="has host_tn_n; name='other' is none of them"):
        mmagen.open(made, "other")


def test_what_cannot_be_loaded_is_refused_before_it_is(tmp_path, library):
    """The loader maps a file that was cut off, and the process dies; of another processor's it says that there is none."""
    data = library("TN").read_bytes()
    path = tmp_path / "libit.so"
    for length in (4, 63, 64, 200, 4096, len(data) // 2):
        path.write_bytes(data[:length])
        with pytest.raises(UsageError, match=r"libit\.so is cut off: it ends before what is to be loaded"):
            mmagen.open(path)
    path.write_bytes(data[:18] + b"\xfe\xff" + data[20:])
    with pytest.raises(UsageError, match=r"libit\.so is for another processor than this one"):
        mmagen.open(path)
    os.mkfifo(tmp_path / "libpipe.so")
    with pytest.raises(UsageError, match=r"libpipe\.so is no file"):
        mmagen.open(tmp_path / "libpipe.so")
    path.write_bytes(data)
    assert mmagen.open(tmp_path).name == "host_tn_n", "the pipe beside it is not read"


def test_a_folder_with_libraries_of_others_has_one_of_mmagens(tmp_path, library):
    (tmp_path / "libother.so.1").write_bytes(b"\x7fELF of others")
    shutil.copy(library("TN"), tmp_path)
    assert mmagen.open(tmp_path).name == "host_tn_n"
    for i in range(5):
        shutil.copy(library("TN"), tmp_path / f"lib{i}.so")
    with pytest.raises(
        UsageError, match=r"several shared libraries; pass one of \S+lib0.so, \S+lib1.so, \S+lib2.so, or of 3 others$"
    ):
        mmagen.open(tmp_path)


def _small():
    """The spec with a tile that compiles in half the time."""
    text = SPEC.read_text().replace("[128, 128, 8]", "[32, 32, 8]").replace("[16, 16, 1]", "[8, 8, 1]")
    return load(text.encode(), "small").spec


def _within_the_bound(kernel):
    draw = np.random.default_rng(5)
    x, y = draw.standard_normal((1, 20, 64)).astype(np.float32), draw.standard_normal((1, 64, 33)).astype(np.float32)
    low, high = allowed(mmagen.plan(_small()), x.astype(float), y.astype(float), signed=True)
    got = kernel.emulate(x, y).astype(float)
    assert ((low <= got) & (got <= high)).all() and (high - low).max() < 1e-3
    for wrong in (np.zeros_like(got), got + 0.01, (x[..., :-8] @ y[:, :-8]).astype(float)):
        assert not ((low <= wrong) & (wrong <= high)).all(), "the bound must be able to fail"


@pytest.mark.nvcc
def test_a_kernel_of_4_bits_takes_two_elements_in_a_byte(library, monkeypatch):
    """Only the PTX is compiled, which is what is emulated."""
    monkeypatch.setattr("mmagen.binding.compiled.compiled", lambda *_: next(iter(entries_in(library()).values())))
    spec = {"mmagen": 1, "name": "small", "kernel": "gemm", "atom": "SM80_16x8x32_S32S4U4S32_TN", "tile": [32, 32, 64]}
    kernel = mmagen.compile(spec, arch="sm_80")
    rng = np.random.default_rng(1)
    a, b = rng.integers(-8, 8, (20, 46)), rng.integers(0, 16, (46, 33))
    packed_a = (a[:, ::2] & 15 | a[:, 1::2] << 4).astype(np.uint8)
    packed_b = (b[::2] | b[1::2] << 4).astype(np.uint8)
    assert (kernel.emulate(packed_a, packed_b) == a @ b).all()
    with pytest.raises(mmagen.ArgumentError, match=r"b: shape \(46, 33\): 46 rows, but a has 46 columns, 2 to an element of b"):
        kernel.emulate(packed_a, b.astype(np.uint8))


def test_emulation_survives_a_cache_that_is_cleared(library, tmp_path, monkeypatch):
    """By another process, after compile()."""

    def compiled_to_ptx(folder: Path, _: object):
        assert (folder / "mmagen.json").is_file()
        raise BuildError("found")

    monkeypatch.setenv("MMAGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("mmagen.binding.compiled.compiled", lambda *_: next(iter(entries_in(library()).values())))
    monkeypatch.setattr("mmagen.binding.emulated.compile_ptx", compiled_to_ptx)
    kernel = mmagen.compile(_small())
    shutil.rmtree(tmp_path / "projects")
    with pytest.raises(BuildError, match="found"):
        kernel.emulate(np.ones((4, 4), np.float32), np.ones((4, 4), np.float32))


def test_what_emulate_does_not_take_is_said(library, monkeypatch, tmp_path):
    monkeypatch.setenv("MMAGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("mmagen.binding.compiled.compiled", lambda *_: next(iter(entries_in(library()).values())))
    kernel, a = mmagen.compile(_small()), np.ones((4, 4), np.float32)
    with pytest.raises(mmagen.ArgumentError, match=r"out: emulate\(\) has none: it returns a new array"):
        kernel.emulate(a, a, out=a)
    with pytest.raises(mmagen.ArgumentError, match=r"aplha: this kernel does not take it; .* did you mean alpha\?"):
        kernel.emulate(a, a, aplha=2)
    with pytest.raises(mmagen.ArgumentError, match="a: it is None; pass an array"):
        kernel.emulate(None, a)


@pytest.mark.nvcc
def test_a_compiled_kernel_is_emulated_without_a_gpu():
    kernel = mmagen.compile(_small(), arch="sm_80")
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((2, 20, 12), (12, 33), (20, 33)))
    assert (kernel.emulate(a, b, c, alpha=2, beta=-1) == 2 * (a @ b) - c).all()
    _within_the_bound(kernel)
    assert kernel.emulate(a[0], b).shape == (20, 33) and kernel.emulate(a[:0], b).shape == (0, 20, 33)
    with pytest.raises(mmagen.ArgumentError, match=r"b: shape \(33, 12\): 33 rows, but a has 12 columns"):
        kernel.emulate(a, b.T)
    with pytest.raises(mmagen.ArgumentError, match="a: its elements are float64; this kernel takes float32"):
        kernel.emulate(a.astype(np.float64), b)
    for alpha in (np.float32(2), np.array(2), np.array([2.0])):
        assert (kernel.emulate(a[0], b, alpha=alpha) == 2 * (a[0] @ b)).all()
    for alpha in ("2", None, 2j, [2], float("nan"), float("inf"), 10**400, np.ones(2), object()):
        with pytest.raises(mmagen.ArgumentError, match=r"^alpha: it is "):
            kernel.emulate(a[0], b, alpha=alpha)
        with pytest.raises(mmagen.ArgumentError, match=r"^beta: it is "):
            kernel.emulate(a[0], b, c, beta=alpha)
    for seconds in (0, -1, "1", float("nan")):
        with pytest.raises(mmagen.ArgumentError, match=r"^timeout_s: it is .*; pass seconds, more than 0, or None"):
            kernel.emulate(a[0], b, timeout_s=seconds)
    with pytest.raises(mmagen.ArgumentError, match="a: it has a mask, which a kernel cannot apply"):
        kernel.emulate(np.ma.masked_array(a[0], a[0] > 0), b)
    with pytest.raises(mmagen.ArgumentError, match="a: it is in the memory of CPU"):
        kernel(a[0], b)
    assert kernel.description["name"] == "fma_gemm_f32" and importlib.import_module("mmagen.binding")
    with pytest.raises(mmagen.ArgumentError, match="opened as a library, without its PTX"):
        mmagen.open(kernel._path).emulate(a, b)


@pytest.mark.parametrize("function", [mmagen.load_spec, mmagen.plan, mmagen.build, mmagen.open, mmagen.compile])
def test_a_device_that_never_ends_and_an_empty_path_are_refused(function):
    with pytest.raises(mmagen.UsageError, match=r"/dev/zero (is larger than 16 MiB|is no file)"):
        function("/dev/zero")
    with pytest.raises(mmagen.UsageError, match="the path is empty"):
        function("")


def test_a_project_is_not_written_into_an_empty_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mmagen.UsageError, match="into: the path is empty"):
        mmagen.build(SPEC, into="")
    assert not list(tmp_path.iterdir())
