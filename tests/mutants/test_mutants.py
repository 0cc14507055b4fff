"""The mutation tester itself: which edits it makes, which it draws, and what it reports."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from mmagen.build.ptx import Ptx
from mmagen.verify.emulated import choices, operand_loads
from mmagen.verify.emulated.interface import Interface
from tests.mutants import pool, report, sites, trial
from tests.mutants.edits import Edit
from tests.mutants.operators import edits
from tests.mutants.pool import of_present, read
from tests.mutants.report import Argument, markdown, unexplained
from tests.mutants.sites import HEADERS, SPECS, Mutant, mutants, sample
from tests.mutants.syntax import errors, parse
from tests.mutants.trial import KILLED, SURVIVED, UNTRIED, Outcome, outcome, read_by, without_distances
from tests.support.mutations import ODD, project
from tests.support.mutations import SPECS as ALL_SPECS

KERNEL = """\
template <int kStages>
__device__ void f(int m, int n, int* a_row, int* b_row) {
  int stage = kStages - 1;
  copy(a_row, b_row);
  __syncthreads();
  if (m < n && stage == 0) { stage += 2; }
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(stage) : "l"(a_row));
}
"""


def _changed(text: str) -> dict[str, set[str]]:
    """Operator -> the lines that its edits of `text` make of the line that they edit."""
    found: dict[str, set[str]] = {}
    for edit in edits(parse(text.encode())):
        made = text.encode()[: edit.begin] + edit.new.encode() + text.encode()[edit.end :]
        assert made.decode().count("\n") == text.count("\n"), "an edit must keep the number of lines"
        at = text.encode()[: edit.begin].count(b"\n")
        found.setdefault(edit.operator, set()).add(made.decode().splitlines()[at].strip())
    return found


def test_every_operator_makes_its_mistakes():
    changed = _changed(KERNEL)
    assert changed["drop synchronization"] == {";"}
    assert {";", "if (m < n && stage == 0) { ; }"} <= changed["drop statement"]
    assert "__syncthreads();" in changed["move synchronization"]
    assert "if (m <= n && stage == 0) { stage += 2; }" in changed["comparison"]
    assert {"if (m < n) { stage += 2; }", "if (stage == 0) { stage += 2; }"} == changed["part of a condition"]
    assert changed["negated condition"] == {"if (!(m < n && stage == 0)) { stage += 2; }"}
    assert {"int stage = kStages - 2;", "int stage = kStages - 0;"} <= changed["off by one"]
    assert changed["constant off by one"] == {"int stage = (kStages - 1) - 1;", "int stage = (kStages + 1) - 1;"}
    arithmetic = {"int stage = kStages + 1;", *(f"if (m < n && stage == 0) {{ stage {step} 2; }}" for step in ("=", "-="))}
    assert arithmetic <= changed["arithmetic"]
    assert {"if (n < n && stage == 0) { stage += 2; }", "copy(b_row, b_row);"} <= changed["similar operand"]
    assert changed["exchanged arguments"] == {"copy(b_row, a_row);"}
    ptx = {line.split(" %0")[0] for line in changed["PTX qualifier"]}
    assert ptx == {'asm volatile("ld.relaxed.gpu.global.u32', 'asm volatile("ld.acquire.cta.global.u32'}


WAITS = """\
__device__ void g(Pipeline& pipe, int k, bool more) {
  int64_t const size = ceil_div(k, 64);
  for (int i = 0; i < size; ++i) {
    pipe.wait(i, !more);
    if (lane == 0) { pipe.arrive(i); }
    if (k < 0) { return; }
    use<true>(min(i, k));
    __syncthreads();
  }
  for (int i = 0; i < k; i += kStep) { skip(i); }
  while (!pipe.try_wait(k)) { }
  asm volatile("bar.sync 1, 128;" ::);
  asm volatile("ldmatrix.x2.trans.b16 {%0, %1}, [%2];" : "=r"(k), "=r"(k) : "r"(k));
}
"""


def test_the_operators_of_loops_guards_and_instructions_make_their_mistakes():
    changed = _changed(WAITS)
    assert changed["repeat statement"] == {"if (lane == 0) { { pipe.arrive(i); pipe.arrive(i); } }"}
    assert changed["hoist synchronization"] == {
        "pipe.wait(i, !more); for (int i = 0; i < size; ++i) {",
        "for (int i = 0; i < size; ++i) {",  # and __syncthreads() behind the loop
        "pipe.arrive(i); if (lane == 0) {  }",
        "if (lane == 0) {  } pipe.arrive(i);",
    }
    assert changed["no guard"] == {"if (true) { pipe.arrive(i); }", "if (true) { return; }"}
    assert changed["no loop"] == {"while (false) { }"}
    assert changed["drop jump"] == {"if (k < 0) { ; }"}
    assert changed["no sign"] == {"pipe.wait(i, (more));"}
    steps = {"for (int i = 0; i < size; i += 2) {", "for (int i = 0; i < k; i += (kStep) - 1) { skip(i); }"}
    assert changed["step of a loop"] == steps
    assert changed["doubled or halved"] == {f"int64_t const size = ceil_div(k, {other});" for other in (32, 128)}
    assert changed["rounded down"] == {"int64_t const size = ((k) / (64));"}
    assert changed["narrow type"] == {"int const size = ceil_div(k, 64);"}
    assert changed["other boolean"] == {"use<false>(min(i, k));"}
    assert changed["other function"] == {"use<true>(max(i, k));"}
    assert changed["narrower scope"] == {"__syncwarp();"}
    assert changed["PTX number"] == {f'asm volatile("bar.sync {given};" ::);' for given in ("0, 128", "1, 64")}
    assert {line.split(" :")[0] for line in changed["PTX operands"] | changed["PTX modifier"]} == {
        'asm volatile("ldmatrix.x2.trans.b16 {%1, %0}, [%2];"',
        'asm volatile("ldmatrix.x2.b16 {%0, %1}, [%2];"',
    }


def test_equal_lines_of_a_header_have_names_of_their_own():
    for of in mutants().values():
        assert len({mutant.name for mutant in of}) == len(of)


def test_types_and_parameters_are_left_alone():
    assert (
        _changed("template <int kRow = 1> struct S { static_assert(kRow < 2); using T = X<1>; void f(int m, int n); };") == {}
    )


@pytest.mark.parametrize("header", sorted(path.name for path in HEADERS.glob("*.cuh")))
def test_the_grammar_understands_every_header(header):
    assert errors(parse((HEADERS / header).read_bytes())) == []


def test_a_sample_reaches_every_header_and_every_operator():
    drawn = sample(300, 1)
    assert len(drawn) == 300 == len({mutant.name for mutant in drawn})
    assert {mutant.header for mutant in drawn} == set(mutants())
    assert {m.edit.operator for m in drawn} == {m.edit.operator for of in mutants().values() for m in of}
    assert sample(100, 1) == drawn[:100] and sample(100, 2) != drawn[:100]


@pytest.mark.parametrize("spec", SPECS)
def test_some_translation_unit_reads_every_header_of_a_project(spec):
    files = project(spec, "name")
    units = [path for path in files if re.fullmatch(r"src/\w+\.cu", path)]
    read = set().union(*(read_by(files, unit) for unit in units))
    assert {path for path in files if path.startswith("include/mmagen/")} <= read
    assert not read & {path for path in files if path.startswith("tests/")}


def _decisions(spec: str) -> set[tuple[str, str]]:
    """The constants of a project's config headers with their values, numbers of two and more as one, and its policies."""
    files = project(spec, "name")
    text = "".join(files[path].decode() for path in files if re.fullmatch(r"include/name/\w+\.cuh", path))
    constants = [
        each for line in re.findall(r"static constexpr \S+ ([^;]+);", text) for each in re.findall(r"(k\w+) = ([^,]+)", line)
    ]
    policies = re.findall(r"using (Mainloop|TileScheduler|Epilogue|Kernel) = (?:mmagen::)?(\w+)", text)
    return {(name, "2" if value.isdigit() and int(value) > 2 else value) for name, value in (*constants, *policies)}


def test_the_specs_have_every_decision_that_some_spec_has():
    of_all = {path.stem: _decisions(path.stem) for folder in (ALL_SPECS, ODD) for path in sorted(folder.glob("*.yaml"))}
    there = set().union(*(of_all[spec] for spec in SPECS))
    missing = {decision: spec for spec, decisions in of_all.items() for decision in decisions - there}
    assert not missing, "code that only these decisions compile would be the same code with every mutant"


def test_an_edit_of_a_device_function_leaves_the_host_code_as_it_is():
    drawn = {mutant.line: mutant for mutant in mutants()["sm90_pipeline.cuh"]}
    assert all(mutant.on_device for mutant in drawn.values() if mutant.line > 30)
    assert not any(mutant.on_device for mutant in mutants()["status.cuh"])
    both = mutants()["linear_combination.cuh"]  # called by host and device
    assert any(mutant.on_device for mutant in both) and not all(mutant.on_device for mutant in both)


def test_names_survive_edits_elsewhere(tmp_path, monkeypatch):
    header = "sm90_pipeline.cuh"
    (mutant,) = (one for one in mutants()[header] if one.old == "phase ^= 1;" and one.edit.new == ";")
    text = (HEADERS / header).read_bytes()
    (tmp_path / header).write_bytes(b"// more\n" * 5 + text)
    before, mutant_line = mutant.name, mutant.line
    sites._text.cache_clear()
    monkeypatch.setattr(sites, "HEADERS", tmp_path)
    moved = Mutant(header, Edit(mutant.edit.operator, mutant.edit.begin + 40, mutant.edit.end + 40, mutant.edit.new))
    assert moved.name == before and moved.line == mutant_line + 5
    sites._text.cache_clear()


def _outcomes() -> list[Outcome]:
    drawn = sample(3, 1)
    return [
        outcome(drawn[0], KILLED, "spec 1x1x1", "incorrect: D(0,0)", 1.0),
        outcome(drawn[1], SURVIVED, "spec", "", 2.0),
        outcome(drawn[2], SURVIVED, "spec", "", 2.0),
    ]


def test_the_report_explains_survivors_or_says_that_it_does_not(monkeypatch):
    one = _outcomes()
    monkeypatch.setattr(report, "arguments", lambda: {one[1].name: Argument("slower", "a hint to the cache")})
    assert unexplained(one) == [one[2]]
    page = markdown(one)
    assert "3 of them compile to other code, of which verify notices 1" in page and "1 slower, 1 unexplained" in page
    assert f"{one[1].name}): slower: a hint to the cache" in page and f"{one[2].name}): **unexplained**" in page


def test_the_page_has_the_outcomes_that_are_kept():
    """docs/results/mutants.md says what --report prints of them."""
    kept = read(Path(report.__file__).with_name("outcomes.jsonl"))
    page = (Path(__file__).resolve().parents[2] / "docs" / "results" / "mutants.md").read_text()
    assert len({one.name for one in kept}) == len(kept) and unexplained(kept) == []
    counts, table, _, *survivors = markdown(kept).strip().split("\n\n")
    assert counts in page and table in page and all(one in page for one in survivors)


def test_a_failure_of_the_tool_itself_notices_nothing(monkeypatch):
    mutant = next(one for one in sample(100, 1) if one.name not in report.arguments())
    failed = subprocess.CompletedProcess([], 1, "", "Traceback\nAssertionError\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    one = pool._try(mutant, ["hello_micro"], 1)
    assert one.status == UNTRIED and "AssertionError" in one.reason and unexplained([one]) == [one]
    assert "verify notices 0" in markdown([one]) and one.name in markdown([one])


@pytest.mark.parametrize(("spec", "asked"), [("sm80_gemm_classic", True), ("clusters", False), ("pointers_pingpong", True)])
def test_the_host_code_is_asked_what_verify_asks(monkeypatch, spec, asked):
    """Not the interface of a library: query() has the maxima of its kernels, and a config's run() keeps no sentence."""
    monkeypatch.setattr(Interface, "broken", lambda _: ["a call is refused"])
    for of_libraries in (choices, operand_loads):
        monkeypatch.setattr(of_libraries, "wrong", lambda _: [])
    monkeypatch.setattr(trial, "run_task", lambda _: SimpleNamespace(records=[{"disposition": "passed", "reason": None}]))
    ptx = Ptx(spec, "gemm", "", "sm_90a", "", "13.0", "4.2", 0.0, True)
    found = trial._failure(spec, ptx, host=True)
    assert found == ((f"{spec} interface", "the C interface: a call is refused") if asked else None)


def test_outcomes_that_were_interrupted_are_tried_again(tmp_path):
    done = _outcomes()
    file = tmp_path / "out.jsonl"
    file.write_text("".join(one.to_json() + "\n" for one in done)[:-10])
    assert read(file) == done[:2] and read(tmp_path / "none") == []


def test_distances_to_variables_are_no_difference_of_the_code():
    lines = [
        f"lea 0x{n:x}(%rip),%rdi        # <_DYNAMIC+0x{n:x}>\n mov -0x{n:x}(%rip),%eax  # <ready@@Base-0x{n:x}>"
        for n in (8, 528)
    ]
    assert without_distances(lines[0]) == without_distances(lines[1]) != without_distances(lines[0].replace("ready", "other"))
    assert without_distances("jmp <f+0x8>") == "jmp <f+0x8>" and without_distances("mov 0x8(%rsp),%eax") == "mov 0x8(%rsp),%eax"


def test_outcomes_of_lines_that_have_changed_are_left_out():
    one, other, _ = _outcomes()
    assert of_present([replace(one, line=1), replace(other, name="0123456789")]) == [one]


def test_one_job_compiles_what_the_next_mutants_need(tmp_path, monkeypatch):
    """Not all specs before the first mutant."""
    did: list[str] = []
    drawn = sample(6, 1)
    monkeypatch.setattr(pool, "compile_original", lambda spec: did.append(spec))
    monkeypatch.setattr(pool, "_try", lambda one, order, *_: did.append(order[0]) or outcome(one, KILLED, order[0], "", 1.0))
    found = pool.run(drawn, tmp_path / "out.jsonl", 1)
    assert {one.name for one in found} == {one.name for one in drawn}
    assert did[0] == did[1] and all(did.index(spec) < len(did) - 1 - did[::-1].index(spec) for spec in did)
    assert pool.read(tmp_path / "out.jsonl") != [] and pool.run(drawn, tmp_path / "out.jsonl", 1) == found


def test_every_argument_is_about_a_mutant_that_exists():
    existing = {mutant.name for of in mutants().values() for mutant in of}
    known = report.arguments()
    assert set(known) <= existing, sorted(set(known) - existing)
    assert all(argument.kind in ("equivalent", "slower", "host test") and argument.why for argument in known.values())
