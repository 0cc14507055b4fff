"""Every spec verifies on the CPU without a false alarm, and no planted fault does."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import groupby

import pytest

from mmagen.build.ptx import compile_ptx
from mmagen.draw import copied, register_staged, traced
from mmagen.draw.copied import picture
from mmagen.emulate.memory.global_memory import ALLOCATED
from mmagen.emulate.memory.spaces import GLOBAL_BASE
from mmagen.families import plan as planned
from mmagen.generate.write import write
from mmagen.spec.load import load
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated import product
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.session import run_tasks, tasks
from mmagen.verify.emulated.traced import trace
from mmagen.verify.emulated.verify import emulate_all, parse_problem
from tests.support import mutations_beyond_dense, mutations_tile_n
from tests.support.compiled import changed
from tests.support.mutation import EMULATOR
from tests.support.mutations import CONTROLS, MUTATIONS, SPECS, asked, mutated
from tests.support.pace import is_within
from tests.support.selection import representatives

pytestmark = pytest.mark.nvcc

# Headers of host code. For a fault in one of these the whole project is compiled; for others only the PTX, and then the project if
# the PTX did not change. So a host header that is missing here costs only time, unless the edit also changes the PTX.
_HOST = (
    "gemm_arguments",
    "gemm_launch",
    "mmagen/interface",
    "mmagen/status",
    "micro_launch",
    "sm90_launch",
    "sm90_pointers_launch",
    "sm90_sparse_launch",
    "sparse_arguments",
    "mmagen/tile_scheduler",
    "sm90_tile_scheduler_stream_k",
    "sm90_swapped",
    "sparse_format",
    "sparse_compress",
)
# Faults in the host's part of other headers.
_HOST_FAULTS = (
    "sparse_metadata_of_the_first_matrix",
    "sparse_metadata_not_counted",
    "sparse_a_as_long_as_k",
    "sparse_mma_without_padding",
    "epilogue_c_with_the_lines_of_d",
    "epilogue_d_as_wide_as_the_sums",
    "complex_alpha_of_f32",
    "corner_mixed_groups_rounded_down",
    "corner_pieces_of_a_shared_matrix",
    "corner_unaligned_scale_of_the_next_row",
    "corner_sm80_epilogue_wide_by_d_alone",
    "corner_reduction_of_single_batches",
    "corner_reduction_wide_c_unasked",
    "corner_epilogue_c_offsets_of_32_bits",
    "corner_epilogue_d_offsets_of_32_bits",
    "corner_sparse_shared_metadata_for_each",
    "corner_splitk_says_too_few_bytes",
    "corner_copies_without_room_for_their_alignment",
    "corner_library_alpha_through_f16",
    "producer_edge_lines_too_few",
    "producer_edge_lines_too_many",
    "producer_edge_not_swizzled",
    "producer_edge_b_of_a_lines",
    "producer_edge_end_b_of_m",
    "producer_edge_rows_of_weights",
    "producer_edge_of_groups_as_of_the_call",
    "producer_edge_of_swapped_groups_as_of_the_call",
    *(f"beyond_{name}" for name, *_ in mutations_beyond_dense.HOST_FAULTS),
    *(f"tile_n_{name}" for name, *_ in mutations_tile_n.HOST_FAULTS),
)
# wgmma GEMMs take long to compile, and test_emulated_hopper.py has those; a peak is measured on a GPU or not at all.
_SPECS = sorted(
    path.stem
    for path in SPECS.glob("*.yaml")
    if not re.search(r"kernel: peak|kernel: gemm\natom: SM90(_64x|::GMMA)", path.read_text())
)
_LARGEST = 2**26  # products of a mutation's own problem that are still quickly emulated
_SECONDS = 20  # of processor time for one spec; compilers are processes of their own


# One of each kind of kernel and main loop; of DMMA the random specs of every run have one. And faults in waits, barriers, operands,
# steps along K, the result, host code, what a call says, and of wgmma kernels in bytes expected and multicast; those in batches,
# offsets of 32 bits, flags and saturation are `more`. Each is compiled for itself; the original specs are those of other tests of
# every run, which need them compiled too.
_SPECS_OF_EVERY_RUN = (
    "hello_micro",
    "hello_ownership",
    "sm75_gemm_f16",
    "sm80_gemm_classic",
    "sm80_gemm_f16_epilogue",
    "sm80_gemm_sliced_k",
    "sm80_micro_s4",
    "sm90_micro_bf16",
)
_FAULTS_OF_EVERY_RUN = (
    "slices_end_of_a_line_missing",
    "slices_barrier",
    "first_wait_dropped",
    "k_loop_short",
    "operands_transposed",
    "wide_when_unaligned",
    "row_past_the_end",
    "stamps_shifted",
    "hopper_half_of_the_bytes_expected",
    "hopper_multicast_without_a_neighbour",
    "sparse_selector",
    "call_short_lines_are_those_of_a",
)
_CONTROLS_OF_EVERY_RUN = ("control_late_in_the_loop", "control_late_in_micro")


def _verdict(files, name, tmp_path, problems=()):
    write(files, tmp_path / name)
    toolchain = find_toolchain(want=COMPILE)
    judged = []
    verdicts = emulate_all(
        [tmp_path / name],
        toolchain,
        arch=None,
        problems=problems,
        seed=None,
        distribution=None,
        jobs=1,
        progress=lambda done, total, what: None,
        judged=judged.append,
    )
    assert verdicts == judged
    return verdicts[0]


@pytest.mark.parametrize("spec", representatives(_SPECS, _SPECS_OF_EVERY_RUN))
def test_a_spec_passes_emulated(spec, emulated):
    found = emulated(spec)
    assert is_within(found.seconds, _SECONDS)
    assert [record["reason"] for record in found.records if record["disposition"] != "passed"] == []
    assert found.records and all(record["device"] == "cpu-ptx" and record["tflops"] is None for record in found.records)
    assert not any(record["details"]["findings"] for record in found.records)


def _in_host_code(mutation):
    return mutation.name in _HOST_FAULTS or any(host in edit.file for edit in mutation.edits for host in _HOST)


def _with_the_kernels_of(files, ptx, tmp_path):
    """The original with the PTX that an edit makes of its kernels."""
    write(files, tmp_path / ptx.name)
    edited = compile_ptx(tmp_path / ptx.name, find_toolchain(want=COMPILE), host=False)
    assert not edited.error, edited.error
    return replace(ptx, units=edited.units)


def _small(problem):
    extents = problem.split(":")[0].split(",")
    product = 1
    for extent in extents:
        product *= int(extent)
    return product <= _LARGEST


# Digests of the source, in the names of what is internal to a translation unit.
_DIGEST = re.compile(r"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}(_\d+_\w+?_cu_)[0-9a-f]{8}")
_NO_CODE = (".loc", ".file", ".b8", "//")  # lines of the source, debug information and comments


def _same_code(one, other):
    def code(text):
        return [line for line in _DIGEST.sub(r"\1\2", text).splitlines() if not line.lstrip().startswith(_NO_CODE)]

    return {name: code(text) for name, text in one.units.items()} == {name: code(text) for name, text in other.units.items()}


def _records(mutation, compiled, tmp_path):
    """The records of a mutation's problems. Unless the edit is in host code, the PTX alone is compiled, and the unedited
    host code launches it."""
    problems = mutation.problems if all(map(_small, mutation.problems)) else ()
    if not _in_host_code(mutation):
        original = compiled(mutation.spec)
        ptx = _with_the_kernels_of(mutated(mutation, mutation.spec), original.ptx, tmp_path)
        if not _same_code(ptx, original.ptx):
            return _emulated(original.plan, ptx, problems)
    verdict = _verdict(mutated(mutation), mutation.name, tmp_path, problems)
    assert verdict.build.ok, verdict.reason
    return verdict.records


def _emulated(plan, ptx, problems):
    work = tasks(plan, ptx, [parse_problem(problem) for problem in problems], 1, None)
    return [record for result in run_tasks(work, 1, lambda *_: None) for record in result.records]


def _name(mutation):
    return mutation.name


@pytest.mark.parametrize("mutation", representatives(asked(EMULATOR, MUTATIONS), _FAULTS_OF_EVERY_RUN, _name))
def test_a_planted_fault_is_seen_emulated(mutation, compiled, tmp_path):
    records = _records(mutation, compiled, tmp_path)
    wrong = [record["reason"] for record in records if record["disposition"] in ("incorrect", "failed")]
    assert wrong, f"{mutation.seen}, but it was not seen"
    assert not any("host code" in reason for reason in wrong), "the launch failed, whatever the fault"


@pytest.mark.parametrize("control", representatives(asked(EMULATOR, CONTROLS), _CONTROLS_OF_EVERY_RUN, _name))
def test_a_late_warp_alone_is_no_fault_emulated(control, compiled, tmp_path):
    records = _records(control, compiled, tmp_path)
    assert records and [record["reason"] for record in records if record["disposition"] != "passed"] == []


_WHOLE = r"(cp\.async\.c[ga]\.shared\.global \[[^]]*\], \[[^]]*\], 16), (%r\d+);"
_RAGGED = parse_problem("72,72,69:ld_pad=11")


def test_whole_vectors_at_the_end_of_rows_are_seen(compiled):
    """What they bring of the padding is multiplied by zeros of the other operand, or not at all."""
    original = compiled("sm80_gemm_classic")
    whole = r"{.reg .pred any; .reg .b32 all; setp.ne.u32 any, \2, 0; selp.b32 all, 16, 0, any; \1, all;}"
    for ptx, found in ((original.ptx, set()), (changed(original.ptx, _WHOLE, whole), {"global_out_of_bounds"})):
        (task, *_) = tasks(original.plan, ptx, [_RAGGED], 1, None)
        (record,) = run_tasks([task], 1, lambda *_: None)[0].records
        findings = record["details"]["findings"]
        assert {finding["kind"] for finding in findings} == found, record
        assert all("cp_async.cuh" in f["file"] and "past the end of row" in f["message"] for f in findings)


def test_no_operand_may_be_read_behind_its_rows(compiled):
    """C and D included, and their rows are as long as N, not as a tile."""
    of = compiled("sm80_gemm_classic")
    (task, *_) = tasks(of.plan, of.ptx, [parse_problem("72,69,67,2:ld_pad=11:beta=1")], 1, None)
    data = operands(task.product, task.problem, "small_int", 1)
    memory, _, addresses = product.allocated(task, data, b"")
    assert set(data.matrices) == set("abcd")
    for name, matrix in data.matrices.items():
        ends = addresses[name] - GLOBAL_BASE + matrix.rows_of_memory.starts() + matrix.rows_of_memory.width
        state = memory.flat_state()
        assert (state[ends - 1] & ALLOCATED).all() and not (state[ends] & ALLOCATED).any(), name


_STRIDES = (
    "72,72,40,3:batch_stride_a=0:beta=1:batch_stride_c=0",
    "40,40,37,3:offset=1:batch_stride_b=0",
    "5,7,40:ld_pad=1073741824:beta=1",
    "9,17,40,3:batch_stride_a=3221225472:batch_stride_d=4294967296",
)


@pytest.mark.parametrize("spec", ["sm80_gemm_classic", "sm90_gemm_bf16_pingpong"])
@pytest.mark.parametrize("problem", _STRIDES)
def test_strides_of_0_and_offsets_beyond_32_bits(spec, problem, compiled):
    of = compiled(spec)
    for result in run_tasks(tasks(of.plan, of.ptx, [parse_problem(problem)], 1, None), 1, lambda *_: None):
        assert result.records[0]["disposition"] == "passed", result.records[0]["reason"]


def test_the_trace_of_a_kernel_with_cp_async():
    """Three stages in turns, filled two k tiles ahead; k tiles are multiplied by as many mma.syncs each."""
    name = "sm80_gemm_classic"
    one = planned(load((SPECS / f"{name}.yaml").read_bytes(), name).spec)
    drawn = picture(trace(one, find_toolchain(want=COMPILE)), name, "pipeline-traced")
    assert drawn and "3 stages filled by cp.async" in drawn.title
    lanes = [re.findall(r"<title>([^<]*)</title>", lane) for lane in drawn.svg.split('<g transform="translate(190')[1:]]
    filled = [re.findall(r"k tile (\d+): copies in flight", " ".join(says)) for says in lanes[:3]]
    assert filled == [["0", "3"], ["1", "4"], ["2"]] and len(lanes) == 3 + one.threads // 32
    for says in lanes[3:]:
        assert "cp.async.wait_group: waits for its copies of k tile 0" in says
        assert [text for text in says if "mma.sync" in text] == [f"mma.sync on k tile {k}" for k in range(5)]


_STEPS = {"read": "issues its loads of", "put": "stores its part of", "mma": "mma.sync on", "scalar": "scalar products on"}


# Two kinds of products; that of sm75 is compiled for other tests too.
@pytest.mark.parametrize(
    "name",
    representatives(("sm75_gemm_f16", "sm70_gemm_f16", "fma_gemm_f32", "sm61_gemm_s8"), ("sm75_gemm_f16", "sm61_gemm_s8")),
)
def test_the_picture_of_copies_through_registers_shows_the_events_of_the_trace(name):
    """Each warp's bars are its loads, stores and products in the order of the trace, up to the epilogue, which stores what no load
    has brought. Of which k tile they are follows from how many came before."""
    one = planned(load((SPECS / f"{name}.yaml").read_bytes(), name).spec)
    events = trace(one, find_toolchain(want=COMPILE))
    assert copied.picture(events, name, "x") is None and traced.picture(events, name, "x") is None
    drawn = register_staged.picture(events, name, "pipeline-traced")
    assert drawn and "2 stages filled from registers" in drawn.title
    lanes = [re.findall(r"<title>([^<]*)</title>", lane) for lane in drawn.svg.split('<g transform="translate(190')[1:]]
    assert len(lanes) == 1 + 2 + one.threads // 32
    for warp, says in enumerate(lanes[3:]):
        runs = [(kind, len(list(run))) for kind, run in groupby(event.kind for event in events if event.warp == warp)]
        shown = [text.partition(" k tile ") for text in says if not text.startswith(("waits", "barrier"))]
        steps = [(before, int(after.split()[0])) for before, _, after in shown]
        assert [step for step, _ in groupby(steps)] == _steps(runs, one.stages + 2)  # a wait may part products of a k tile


def _steps(runs: list[tuple[str, int]], k_tiles: int) -> list[tuple[str, int]]:
    """What a warp does with which k tile, from (kind, how many events in a row)."""
    runs = [run for run in runs if run[0] != "fetch"]
    kinds = [kind for kind, _ in runs]
    runs = runs[: next(n for n in range(1, len(runs)) if kinds[n - 1 : n + 1] == ["sync", "put"]) - 1]
    product = "mma" if "mma" in kinds else "scalar"
    per_tile, found, count = sum(n for kind, n in runs if kind == product) // k_tiles, [], Counter()
    for kind, n in runs:
        tiles = range(count[kind] // per_tile, (count[kind] + n - 1) // per_tile + 1) if kind == product else [count[kind]]
        count[kind] += n if kind == product else 1
        found += [(_STEPS[kind], tile) for tile in tiles if kind in _STEPS]
    assert count["read"] == count["put"] in (0, k_tiles)  # where a tile is small, some warps copy nothing
    return [step for step, _ in groupby(found)]
