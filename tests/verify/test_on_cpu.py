"""Verification on the CPU, without the emulator: problems, matrices, comparison."""

from __future__ import annotations

import resource
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mmagen.cli.verify import _toolchain
from mmagen.core.cache import no_cache
from mmagen.core.errors import UsageError
from mmagen.families import family_of, plan
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.toolchain import find
from mmagen.verify.emulated import host, units, verify
from mmagen.verify.emulated.compare import _product, compare
from mmagen.verify.emulated.formats import decode, encode
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.matrix import empty, values
from mmagen.verify.emulated.product import multiply
from mmagen.verify.emulated.session import run_task, tasks
from mmagen.verify.emulated.task import Task
from mmagen.verify.emulated.verify import parse_problem

F16 = "SM80_16x8x16_F32F16F16F32_TN"


def planned(**changes):
    spec = {
        "mmagen": 1,
        "name": "it",
        "kernel": "gemm",
        "atom": F16,
        "layout": "TN",
        "tile": [64, 64, 32],
        "atoms_layout": [2, 2, 1],
        "epilogue": "{out: f16}",
    } | changes
    text = "".join(f"{key}: {value}\n" for key, value in spec.items())
    return plan(load(text, "it.yaml").spec)


def product(it, problem, data):
    """D as a right kernel leaves it, and what it has written."""
    exact = problem.alpha * values(data.a) @ values(data.b).transpose(0, 2, 1)
    if data.c:
        exact = exact + problem.beta * values(data.c)
    data.d.view[...] = encode(exact, it.epilogue.out.word)
    return np.ones(data.d.view.nbytes, dtype=bool)


SPECS = Path(__file__).resolve().parents[2] / "specs"


def test_small_problems_have_the_character_of_large_ones():
    it = planned()
    cases = family_of(it).trials(it).cases
    long, full, bands, pointers, stores, narrow, shared, far, scattered, a_alone, b_alone, single = (
        problem for problem, distribution in cases if distribution == "small_int"
    )
    assert cases[-1] == (long, "uniform")
    assert long.m == 64 and long.n % 64 and long.k > 32 * it.stages and long.k % 32
    assert all(extent % of_tile == 0 for extent, of_tile in zip(full.shape, it.tile, strict=True)) and full.beta == 0
    assert bands.m > 64 * it.scheduler.raster_group and bands.n > 64 and bands.batch == 2 and bands.beta != 0
    assert all(extent % 8 and (extent + bands.ld_pad) % 16 == 0 for extent in bands.shape)
    assert pointers.offset == 1 and all(extent % 8 == 0 for extent in pointers.shape)
    assert stores.shape == full.shape and stores.batch == 2 and stores.batch_stride_d % 8
    assert narrow.m > 64 and narrow.k > 32 and narrow.k % 8 and narrow.n % 8 == 0
    assert shared.batch_stride_a == shared.batch_stride_b == 0 and shared.batch_stride_c % 2 and shared.shape == full.shape
    assert all(8 * one.ld_pad >= 2**32 and one.batch == 3 for one in (far, scattered)) and scattered.m % 8 and not far.m % 8
    assert a_alone.batch_stride_a % 8 == b_alone.batch_stride_b % 8 == 4 and a_alone.shape == b_alone.shape
    assert a_alone.batch_stride_b is b_alone.batch_stride_a is None and (a_alone.k + a_alone.ld_pad) % 8 == 0
    assert single.shape == (1, 1, 1)
    micro = planned(kernel="micro", tile="[32, 32, 32]")
    assert {problem for problem, _ in family_of(micro).trials(micro).cases} == {Problem(shape=(32, 32, 32))}


@pytest.mark.parametrize(
    ("word", "value", "stored"),
    [
        ("f16", 2049.0, 2048.0),
        ("f16", 1e6, np.inf),
        ("bf16", 257.0, 256.0),
        ("s8", 127.5, 127.0),
        ("s8", -1e9, -128.0),
        ("u8", -3.0, 0.0),
        ("e4m3", 1000.0, 448.0),
        ("e5m2", 1e9, 57344.0),
        ("tf32", 1 + 2.0**-13, 1.0),
        ("s8", 2.5, 2.0),
    ],
)
def test_encode_rounds_to_nearest_even_and_saturates_where_the_type_does(word, value, stored):
    assert decode(encode(np.array([value]), word))[0] == stored


@pytest.mark.parametrize("contiguous", [True, False])
def test_a_matrix_and_its_padding_fill_the_memory(contiguous):
    matrix = empty("f16", 3, 5, 2, contiguous, pad=4, offset=1)
    assert matrix.ld == (5 if contiguous else 3) + 4
    rows = matrix.rows_of_memory
    owned = (rows.starts()[:, None] + np.arange(rows.width)).reshape(-1)
    assert len(np.unique(owned)) == 2 * 3 * 5 * 2 and (matrix.memory == 0xFF).all()
    matrix.view[...] = 0
    assert (matrix.memory[owned] == 0).all() and (np.delete(matrix.memory, owned) == 0xFF).all()
    matrix.view[1, 2, 4] = 7
    at = 1 + matrix.batch_stride + (2 * matrix.ld + 4 if contiguous else 4 * matrix.ld + 2)
    assert matrix.memory.view(np.float16)[at] == 7


def test_inputs_are_small_integers_without_zeros_and_seeded():
    it = planned()
    problem = Problem(shape=(20, 30, 40), beta=1.0)
    one, two, other = (operands(it, problem, "small_int", seed) for seed in (1, 1, 2))
    assert np.array_equal(values(one.a), values(two.a)) and not np.array_equal(values(one.a), values(other.a))
    for matrix in (one.a, one.b, one.c):
        found = values(matrix)
        assert (found != 0).all() and np.abs(found).max() == 4 and (found == np.rint(found)).all()


@pytest.mark.parametrize(
    "problem", [Problem(shape=(20, 30, 40)), Problem(shape=(7, 9, 33), batch=2, alpha=-1, beta=2, ld_pad=3)]
)
@pytest.mark.parametrize("distribution", ["small_int", "uniform"])
def test_a_right_result_passes(problem, distribution):
    it = planned()
    data = operands(it, problem, distribution, 1)
    found = compare(it, problem, data, product(it, problem, data), distribution)
    assert (found.incorrect, found.reason) == (0, "")
    assert found.max_abs_err <= found.bound


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (lambda d, w: d.view.__setitem__((0, 3, 4), d.view[0, 3, 4] + 1), "1 of 600 elements wrong; at (batch,m,n): (0, 3, 4)"),
        (lambda d, w: d.view.__setitem__((0, 0, 0), np.nan), "1 of 600 elements wrong; at (batch,m,n): (0, 0, 0) got nan"),
        (lambda d, w: w.__setitem__(slice(0, 2), False), "2 bytes of D were never written"),
    ],
    ids=["one element", "NaN", "unwritten"],
)
def test_a_wrong_result_is_told(break_it, says):
    it = planned()
    problem = Problem(shape=(20, 30, 40), ld_pad=8)
    data = operands(it, problem, "small_int", 1)
    written = product(it, problem, data)
    break_it(data.d, written)
    assert says in compare(it, problem, data, written, "small_int").reason


INTEGER = {"atom": "SM80_16x8x32_S32S8S8S32_TN", "tile": [64, 64, 64]}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("distribution", ["small_int", "uniform"])
@pytest.mark.parametrize("changes", [{}, INTEGER], ids=["f32", "s32"])
def test_infinity_is_right_where_the_exact_value_overflows(changes, distribution):
    it = planned(**changes)
    problem = Problem(shape=(20, 30, 40), alpha=1e5)
    data = operands(it, problem, distribution, 1)
    if distribution == "uniform" and not changes:
        data.a.view[...] *= 1024  # such inputs are drawn that results are finite
    written = product(it, problem, data)
    assert np.isposinf(data.d.view).any() and np.isneginf(data.d.view).any()
    found = compare(it, problem, data, written, distribution)
    assert (found.incorrect, found.reason, found.max_rel_err) == (0, "", 0)
    assert found.max_abs_err == 0 and not np.isnan(found.bound)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("wrong", [np.nan, -np.inf, 65504.0, 0.0])
def test_anything_else_where_infinity_belongs_is_wrong(wrong):
    it = planned()
    problem = Problem(shape=(20, 30, 40), alpha=1e5)
    data = operands(it, problem, "small_int", 1)
    written = product(it, problem, data)
    place = tuple(int(x) for x in np.argwhere(np.isposinf(data.d.view))[-1])
    data.d.view[place] = wrong
    found = compare(it, problem, data, written, "small_int")
    assert found.incorrect == 1 and found.max_abs_err == np.inf
    assert f"1 of 600 elements wrong; at (batch,m,n): {place} got {wrong:.9g} expected inf +- 0" in found.reason


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("distribution", ["small_int", "uniform"])
def test_infinity_in_place_of_a_finite_value_is_wrong(wrong, distribution):
    it = planned()
    problem = Problem(shape=(20, 30, 40))
    data = operands(it, problem, distribution, 1)
    written = product(it, problem, data)
    data.d.view[0, 3, 4] = wrong
    found = compare(it, problem, data, written, distribution)
    assert (found.incorrect, found.max_abs_err) == (1, np.inf)


@pytest.mark.parametrize(
    "atom",
    [
        "SM89_16x8x32_F32E4M3E5M2F32_TN",
        "SM80_16x8x16_F32BF16BF16F32_TN",
        "SM80_16x8x32_S32S8U8S32_TN",
        "SM80_8x8x4_F64F64F64F64_TN",
        "SM80_16x8x8_F32TF32TF32F32_TN",
        "SM80_16x8x16_F16F16F16F16_TN",
    ],
)
@pytest.mark.parametrize("distribution", ["small_int", "uniform"])
def test_every_type_makes_matrices_and_a_right_result(atom, distribution):
    it = planned(atom=atom, tile=[64, 64, 64], epilogue="{}")
    problem = Problem(shape=(9, 11, 70), beta=1.0, ld_pad=1)
    data = operands(it, problem, distribution, 3)
    assert compare(it, problem, data, product(it, problem, data), distribution).reason == ""


@pytest.mark.parametrize(("out", "most"), [("f16", 65504.0), ("s8", 127.0), ("u8", 255.0)])
@pytest.mark.parametrize("k", [32, 4096])
@pytest.mark.parametrize("word", ["S8S8", "U8U8"])
def test_uniform_integers_leave_results_that_d_holds(word, k, out, most):
    """Not infinity or the end of a type's range everywhere, which any kernel would compute."""
    it = planned(atom=f"SM80_16x8x32_S32{word}S32_TN", tile=[64, 64, 64], epilogue=f"{{out: {out}}}")
    data = operands(it, Problem(shape=(16, 16, k)), "uniform", 1)
    exact = (values(data.a) @ values(data.b).swapaxes(1, 2))[0]
    held = (exact <= most) & (exact >= (0 if out == "u8" else -most))
    assert held.mean() > (0.4 if out == "u8" and word == "S8S8" else 0.95) and np.unique(exact).size > 20


def test_zeros_are_zeros():
    data = operands(planned(), Problem(shape=(5, 6, 7), beta=1.0), "zeros", 1)
    assert not values(data.a).any() and not values(data.b).any() and not values(data.c).any()


def test_problems_that_a_kernel_does_not_do_are_refused_before_anything_runs():
    micro = planned(kernel="micro", tile="[32, 32, 32]")
    integer = planned(atom="SM80_16x8x32_S32S8S8S32_TN", tile=[64, 64, 64], epilogue="{}")
    for it, problem, says in (
        (micro, "64,64,64", "not the one tile"),
        (micro, "32,32,32:alpha=2", "not the one tile"),
        (integer, "8,8,8:alpha=1.5", "not both integers"),
    ):
        with pytest.raises(UsageError, match=says):
            tasks(it, None, [parse_problem(problem)], 1, None)
    small = [t.problem.shape for t in tasks(planned(), None, (), 1, "small_int", max_dim=40)]
    assert small == [(16, 16, 16), (16, 16, 16), (13, 11, 13), (20, 20, 20), (20, 20, 20), (1, 1, 1)]
    with pytest.raises(UsageError, match="leaves no problem"):
        tasks(micro, None, (), 1, None, max_dim=8)


def test_a_missing_product_hides_from_the_bound_only_when_it_is_small():
    it = planned()
    problem = Problem(shape=(4, 4, 64))
    data = operands(it, problem, "uniform", 1)
    written = product(it, problem, data)
    data.d.view[0, 0, 0] += np.float16(0.05)
    assert "1 of 16 elements wrong" in compare(it, problem, data, written, "uniform").reason


@pytest.mark.parametrize("distribution", ["small_int", "uniform"])
def test_a_matrix_that_a_batch_shares_is_one(distribution):
    it = planned()
    problem = parse_problem("20,30,40,3:beta=1:batch_stride_a=0:batch_stride_c=0:batch_stride_d=900")
    data = operands(it, problem, distribution, 1)
    assert (data.a.batch_stride, data.c.batch_stride, data.d.batch_stride) == (0, 0, 900)
    assert len(data.a.memory) == 20 * 40 * 2 and (values(data.a)[0] == values(data.a)[2]).all()
    assert (values(data.b)[0] != values(data.b)[1]).any()
    found = compare(it, problem, data, product(it, problem, data), distribution)
    assert found.reason == ""
    data.d.view[2, 0, 0] += 1
    written = np.ones(data.d.view.nbytes, dtype=bool)
    assert "at (batch,m,n): (2, 0, 0)" in compare(it, problem, data, written, distribution).reason


def test_sums_of_integers_are_exact_however_they_are_computed():
    """In float32 where all of them are, else in float64."""
    for most, k in ((4, 1000), (127, 1000), (127, 2000)):
        a, b = (np.random.default_rng(seed).integers(-most, most, (2, 9, k), endpoint=True) for seed in (1, 2))
        found = _product(a.astype(np.float64), b.astype(np.float64))
        assert found.dtype == np.float64 and (found == a @ b.swapaxes(1, 2)).all()
    fractions = np.full((1, 1, 3), 0.1)
    assert _product(fractions, fractions) == (fractions @ fractions.swapaxes(1, 2))
    assert _product(np.zeros((1, 2, 0)), np.zeros((1, 3, 0))).shape == (1, 2, 3)


def test_strides_take_no_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    data = operands(planned(), parse_problem("3,5,40,2:ld_pad=1073741824:batch_stride_d=8589934592"), "small_int", 1)
    assert len(data.a.memory) > 2**33 and len(data.d.memory) > 2**33 and (values(data.a) != 0).all()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18  # KiB


def test_a_problem_beyond_all_addresses_fails_with_the_reason():
    problem = parse_problem(f"2,2,2,1000:batch_stride_a={1 << 40}")
    (record,) = run_task(Task(planned(), SimpleNamespace(cuda="", cutlass=""), problem, "small_int", 1)).records
    assert record["disposition"] == "failed" and "not enough memory to emulate" in record["reason"]


def test_problems_from_the_command_line():
    assert parse_problem("7,8,9") == Problem(shape=(7, 8, 9))
    assert parse_problem("7,8,9,2:ld_pad=3:offset=1:alpha=-2:beta=0.5") == Problem(
        shape=(7, 8, 9), batch=2, ld_pad=3, offset=1, alpha=-2, beta=0.5
    )
    for text, says in (
        ("7,8,9:gamma=1", "none of ld_pad"),
        ("7,8,9,2:batch_stride_d=0", "batch_stride_d 0 makes the matrices D of a batch overlap; use at least 56, or omit it"),
        ("7,8,9,2:batch_stride_b=71", "use 0 or at least 72"),
        ("7,8,9,2:batch_stride_e=0", "none of ld_pad"),
        ("8192,8192,8192", "too large to emulate"),
        ("0,4,4", "extents and batch"),
        ("4,4,4,0", "extents and batch"),
        ("99999999999,1,1", "extents and batch"),
        ("4,4,4:alpha=1e999", "finite"),
        ("4,4,4:alpha=--", "finite"),
        ("4,4,4:ld_pad=99999999999", "limits"),
    ):
        with pytest.raises(UsageError, match=says):
            parse_problem(text)


def test_only_what_compiles_for_the_emulator_is_looked_for(monkeypatch):
    """Each tool that is found says its version in a process of its own."""
    asked = []
    for name in find._FINDERS:
        monkeypatch.setitem(find._FINDERS, name, lambda env, name=name: asked.append(name) or (None, ""))
    _toolchain(SimpleNamespace(where="cpu", compile_only=False, arch=(), sanitize=()))
    assert tuple(asked) == find.EMULATE and set(find.EMULATE) < set(find.COMPILE)


def test_kernels_are_parsed_once_for_all_processes(monkeypatch):
    parsed = []
    monkeypatch.setattr(units, "parse", lambda ptx, file: parsed.append(file))
    units._unit.cache_clear()
    task = Task(planned(), SimpleNamespace(units={"a": "1", "b": "2"}, host=True), Problem(shape=(16, 16, 16)), "small_int", 1)
    units.prepare_ahead(task)
    assert units._unit("1", "a.ptx", None).module is None and parsed == ["a.ptx", "b.ptx"]
    units._unit.cache_clear()


@pytest.mark.parametrize("off", [False, True])
def test_code_is_kept_in_the_cache_folder_unless_that_is_off(off, monkeypatch, tmp_path):
    given = []
    ptx = SimpleNamespace(
        error="", name="it", arch="sm_80", kernel="gemm", spec_sha="", cuda="", cutlass="", seconds=0, cached=1
    )
    monkeypatch.setenv("MMAGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(verify, "_plan", lambda project: planned())
    monkeypatch.setattr(verify, "_compile", lambda *_: [ptx])
    monkeypatch.setattr(verify, "run_tasks", lambda work, *_: given.extend(work))
    with no_cache() if off else nullcontext():
        options = {"arch": None, "problems": (), "seed": None, "distribution": None, "jobs": 1, "progress": lambda *_: None}
        verify.emulate_all([tmp_path], SimpleNamespace(nvcc=None), **options)
    assert given and {task.code_folder for task in given} == {None if off else tmp_path / "code"}


@pytest.mark.parametrize("config", ("coop_64x32x128_hint_p4_c1x1", "coop_64x64x128_swap_split_hint_p4_c1x1"))
def test_every_call_of_a_library_that_takes_a_workspace_is_given_one(config, monkeypatch):
    """It chooses by whether there is one, on a device of few clusters too, where a kernel needs no bytes of it."""
    data = (SPECS / "sm90_gemm_bf16_library.yaml").read_bytes()
    library = plan(load(data, "library").spec)
    one = next(of.plan for of in library.configs if of.name == config)
    task = Task(one, None, Problem(shape=(1, 8, 4168)), "small_int", 1, library=library, config=config)
    given = []
    monkeypatch.setattr(host, "workspace_bytes", lambda task, data: 0)
    monkeypatch.setattr(host, "uses_more", lambda *given: False)
    monkeypatch.setattr(host, "multiply_launches", lambda task, data, addresses, workspace: given.append(workspace) or ())
    multiply(task, operands(task.product, task.problem, task.distribution, 1))
    assert given[0].address and given[0].size
    multiply(replace(task, workspace=False), operands(task.product, task.problem, task.distribution, 1))
    assert not given[1].address
