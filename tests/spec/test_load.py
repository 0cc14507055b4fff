"""load: what is wrong with a file, all of it, where it stands and what would be right."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest
import yaml

from mmagen.core.errors import Diagnostic, Fault, SpecError
from mmagen.spec import yaml_text
from mmagen.spec.load import Source, load

HEAD = """\
mmagen: 1
name: g
kernel: gemm
atom: SM80_16x8x16_F32F16F16F32_TN
tile: [128, 128, 32]
"""  # lines 1 to 5; a case's own lines begin at 6


def faults(data: bytes | str) -> list[Diagnostic]:
    with pytest.raises(SpecError) as refused:
        load(data, "gemm.yaml")
    found = list(refused.value.diagnostics)
    assert found and all(d.file == "gemm.yaml" and d.what and d.remedy for d in found)
    assert [(d.line, d.column) for d in found] == sorted((d.line, d.column) for d in found)
    return found


@pytest.fixture(params=["C", "Python"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "Python":
        monkeypatch.setattr(yaml_text, "Loader", yaml.SafeLoader)
    elif not yaml.__with_libyaml__:
        pytest.skip("PyYAML was built without libyaml")
    return str(request.param)


# (lines after HEAD, line:column, key, what, remedy); what and remedy are parts of the sentences
AFTER_HEAD = [
    ("layout: tn", "6:9", "layout", "'tn' is not a legal value", "did you mean TN? the layouts are TN"),
    ("pipeline: 3", "6:1", "pipeline", "unknown key", "did you mean stages? mmagen schema lists all"),
    ("cluster_shape: [2, 1]", "6:1", "cluster_shape", "unknown key", "did you mean cluster?"),
    ("tyle: 3", "6:1", "tyle", "unknown key", "did you mean tile? mmagen schema lists all"),
    ("tile_n: 96", "6:1", "tile_n", "unknown key", "tile_n belongs in clusters"),
    ("out: bf16", "6:1", "out", "unknown key", "out belongs in epilogue"),
    ("cache: {foo: normal}", "6:9", "cache.foo", "unknown key", "the known keys are a, b"),
    ("scale: {foo: tensor}", "6:9", "scale.foo", "unknown key", "the known keys are a, b"),
    ("zzz: 3", "6:1", "zzz", "unknown key", "the known keys are\n    the kernel: mmagen, name"),
    (
        "epilogue: {out: f16, mayor: N}",
        "6:22",
        "epilogue.mayor",
        "unknown",
        "did you mean major? the known keys are out, major",
    ),
    ("problems: [{shape: [1, 2, 3], btch: 3}]", "6:31", "problems[0].btch", "unknown", "did you mean batch?"),
    ("layout: {a: K, b: K, c: 1}", "6:22", "layout.c", "unknown", "the known keys are a, b"),
    ("layout: XX", "6:9", "layout", "'XX' is not a legal value", "the layouts are TN, NT, NN, TT, or a mapping"),
    ("layout: {a: N, b: K}", "6:13", "layout.a", "'N' is not a legal value", "dimension of A (M,K) is K or M"),
    ("layout: {a: K}", "6:9", "layout.b", "missing", "dimension of B (N,K) is K or N"),
    ("layout: NO", "6:9", "layout", "YAML reads the unquoted NO as the truth value false", "the layout is TN"),
    ("layout: on", "6:9", "layout", "the unquoted on as the truth value true", "the layout is TN"),
    ("stages: true", "6:9", "stages", "true is a truth value", "an integer of at least 2"),
    ("stages: '3'", "6:9", "stages", "'3' is not an integer", "at least 2"),
    ("stages: 3.0", "6:9", "stages", "3.0 is not an integer", "at least 2"),
    ("stages: .nan", "6:9", "stages", "nan is not an integer", "at least 2"),
    ("stages: -.inf", "6:9", "stages", "-inf is not an integer", "at least 2"),
    ("stages: 1", "6:9", "stages", "1 is too small, the minimum is 2", "at least 2"),
    ("stages: 010", "6:9", "stages", "the unquoted 010 as the octal number 8", "at least 2"),
    ("stages: 0b11", "6:9", "stages", "the unquoted 0b11 as the binary number 3", "at least 2"),
    ("stages: 1_0", "6:9", "stages", "the unquoted 1_0 as the number 10", "at least 2"),
    ("stages: 0o7", "6:9", "stages", "the unquoted 0o7 as text, not as a number", "at least 2"),
    ("stages: 2024-01-01", "6:9", "stages", "the unquoted 2024-01-01 as a date", "at least 2"),
    ("stages: " + "9" * 100, "6:9", "stages", "9… (100 characters) is too large, the maximum is 2147483647", "at least 2"),
    ("stages: " + "9" * 5000, "6:9", "stages", "as a number of 5000 digits", "at least 2"),
    ("stages: [3]", "6:9", "stages", "a list is not an integer", "at least 2"),
    ("stages: {a: 3}", "6:9", "stages", "a mapping is not an integer", "at least 2"),
    ("ctas_per_sm: 17", "6:14", "ctas_per_sm", "17 is too large, the maximum is 16", "1 to 16"),
    ("permutation: [4:1, 1, 1]", "6:15", "permutation[0]", "the unquoted 4:1 as the base 60 number 241", "in quotes"),
    ("permutation: ['(4:1', 1, 1]", "6:15", "permutation[0]", "a '(' without its ')'", "in quotes"),
    ("permutation: [1, 0, 1]", "6:18", "permutation[1]", "0 is out of range", "an integer, null"),
    ("permutation: [1, [2], 1]", "6:18", "permutation[1]", "a list is neither an integer", "an integer, null"),
    ("permutation: [1]", "6:14", "permutation", "the list has 1 entry, not 3", "one entry each for M, N and K"),
    ("permutation: 3", "6:14", "permutation", "3 is not a list", "one entry each"),
    ("atoms_layout: [2, x, 1]", "6:19", "atoms_layout[1]", "'x' is not an integer", "[2, 2, 1]"),
    ("atoms_layout: [2, 2]", "6:15", "atoms_layout", "the list has 2 entries, not 3", "[2, 2, 1]"),
    ("atoms_layout: (2,2):(1,2)", "6:15", "atoms_layout", "has rank 2, not 3", "rank 3"),
    ("atoms_layout: (9999,9999,9999)", "6:15", "atoms_layout", "has 999700029999 elements", "rank 3"),
    ("atoms_layout: nope", "6:15", "atoms_layout", "'nope' is not a CuTe layout", "rank 3"),
    ("atoms_layout:", "6:14", "atoms_layout", "nothing (null) is not a list", "[2, 2, 1]"),
    ("epilogue: f16", "6:11", "epilogue", "'f16' is not valid here", "is a mapping, e.g. {out: f16"),
    (
        "epilogue: {out: S32}",
        "6:17",
        "epilogue.out",
        "'S32' is not a legal value",
        "did you mean s32? the element type of D is one of f16",
    ),
    ("epilogue: {out: S32}", "6:17", "epilogue.out", "'S32' is not", "null for the atom's own"),
    ("arch: sm_80", "6:7", "arch", "'sm_80' is not a list", "[sm_80, sm_90a]"),
    ("arch: [80]", "6:8", "arch[0]", "80 is not text", "[sm_80, sm_90a]"),
    ("arch: [sm_80, ampere]", "6:15", "arch[1]", "'ampere' has the wrong form", "[sm_80, sm_90a]"),
    ("arch: []", "6:7", "arch", "the list is empty", "[sm_80, sm_90a]"),
    ("arch: [sm_80, sm_80]", "6:7", "arch", "sm_80 is listed twice", "[sm_80, sm_90a]"),
    ("problems: []", "6:11", "problems", "the list is empty", "each [M, N, K]"),
    ("problems: [5]", "6:12", "problems[0]", "5 is not valid here", "each [M, N, K]"),
    ("cluster: [2]", "6:10", "cluster", "the list has 1 entry, not 2", "CTAs along M and N"),
    ("schedule: pinpong", "6:11", "schedule", "not a legal value", "did you mean pingpong? schedule is the"),
    ("split_k: 0", "6:10", "split_k", "0 is too small, the minimum is 1", "or auto for one that fits"),
    ("split_k: often", "6:10", "split_k", "'often' is neither an integer nor auto", "or auto for one that fits"),
    ("problems: [[1, 2]]", "6:12", "problems[0]", "the list has 2 entries, not 3 or 4", "[M, N, K, batch]"),
    ("problems:\n- [1, 2, x]", "7:10", "problems[0][2]", "'x' is not an integer", "[M, N, K] in elements"),
    ("problems:\n- [1, 2, 3, 0]", "7:13", "problems[0][3]", "0 is too small, the minimum is 1", "independent multiplies"),
    ("problems:\n- {shape: [1, 2, 0]}", "7:18", "problems[0].shape[2]", "0 is too small", "[M, N, K] in elements"),
    ("problems:\n- {batch: 2}", "7:3", "problems[0].shape", "missing", "[M, N, K] in elements"),
    (
        "problems:\n- {shape: [1, 2, 3], alpha: x}",
        "7:29",
        "problems[0].alpha",
        "'x' is not a number",
        "a finite number",
    ),
    ("problems:\n- {shape: [1, 2, 3], alpha: 1e3}", "7:29", "problems[0].alpha", "1e3 as text", "a finite number"),
    ("problems:\n- {shape: [1, 2, 3], alpha: -.5}", "7:29", "problems[0].alpha", "-.5 as text", "a finite number"),
    ("problems:\n- {shape: [1, 2, 3], beta: .inf}", "7:28", "problems[0].beta", "inf is not finite", "a finite number"),
    ("problems:\n- {shape: [1, 2, 3], beta: 1:30.5}", "7:28", "problems[0].beta", "1:30.5 as a number", "finite"),
    ("problems:\n- {shape: [1, 2, 3], beta: 1" + "0" * 350 + "}", "7:28", "problems[0].beta", "is too large", "finite"),
    ("name: h", "6:1", "name", "is a duplicate, first at line 2, column 1", "remove one"),
    ("epilogue: {out: f16, out: f32}", "6:22", "epilogue.out", "is a duplicate, first at line 6, column 12", "remove one"),
    ("problems:\n- {shape: [1, 2, 3], batch: 1, batch: 2}", "7:32", "problems[0].batch", "duplicate", "remove one"),
    ("stages: !!int 3", "6:9", "stages", "the tag !!int is not allowed", "omit it"),
    ("arch: !!seq [sm_80]", "6:7", "arch", "the tag !!seq is not allowed", "omit it"),
    ("stages: !!python/object/apply:os.getcwd []", "6:9", "stages", "the tag !!python/object/apply:os.getcwd", "omit"),
    ("stages: !foo 3", "6:9", "stages", "the tag !foo is not allowed", "omit it"),
    ("layout: ! TN", "6:9", "layout", "the tag ! is not allowed", "omit it"),
    ("!!str stages: 3", "6:1", "stages", "the tag !!str is not allowed", "omit it"),
    ("stages: &a 3", "6:9", "stages", "the anchor &a is not allowed", "omit it"),
    ("stages: *a", "6:9", "stages", "the alias *a is not allowed", "write the value out"),
    ("problems: [[1, 2, *a]]", "6:19", "problems[0][2]", "the alias *a is not allowed", "write the value out"),
    ("*a : 3", "6:1", "", "the alias *a is not allowed", "write the value out"),
    ("<<: {stages: 3}", "6:1", "<<", "merge keys are not allowed", "write out the merged"),
    ("stages: <<", "6:9", "stages", "the unquoted << as a merge key", "at least 2"),
    ("on: 3", "6:1", "on", "YAML reads the key on as the truth value true", "quote it"),
    ("7: 3", "6:1", "7", "YAML reads the key 7 as the number 7", "quote it"),
    ("~: 3", "6:1", "~", "YAML reads the key ~ as nothing", "quote it"),
    ("? [1, {a: b}]\n: {c: d}", "6:3", "", "a list or mapping is used as a key", "plain words"),
    ('"\\e[31m": 3', "6:1", "", "'\\x1b[31m' is not a key of a spec", "plain words"),
    ("? " + "k" * 300 + "\n: 3", "6:3", "", "(302 characters) is not a key of a spec", "plain words"),
    ("stages: " + "[" * 40 + "]" * 40, "6:24", "", "nest deeper than 16", "deeper than 3"),
    ("stages: " + "[" * 100_000, "6:24", "", "nest deeper than 16", "deeper than 3"),
    ("---\nmmagen: 1", "6:1", "", "a second document begins", "write one spec per file"),
    ("...\n---", "7:1", "", "a second document begins", "write one spec per file"),
]
# (whole file, line:column, key, what, remedy)
WHOLE = [
    ("", "1:1", "", "the file is empty", "begins with `mmagen: 1`"),
    (b"", "1:1", "", "the file is empty", "begins with `mmagen: 1`"),
    ("# only a comment\n", "1:1", "", "the file is empty", "begins with"),
    ("---\n", "2:1", "", "the file is empty", "begins with"),
    ("\n\n~", "3:1", "", "the file is empty", "begins with"),
    ("- a", "1:1", "", "the document is a list", "begins with"),
    ("\n  word", "2:3", "", "the document is a single value", "begins with"),
    (b"\x7fELF\0\0", "1:1", "", "a binary file", "YAML text in UTF-8"),
    ("mmagen: 1\nname: g".encode("utf-16"), "1:1", "", "a binary file or UTF-16", "YAML text in UTF-8"),
    (b"name: \xe9\xff", "1:7", "", "byte 0xe9 is not UTF-8", "UTF-8"),
    (b"mmagen: 1\nname: \xc3\xa9\xff", "2:8", "", "byte 0xff is not UTF-8", "UTF-8"),
    ("a: 1\nb: \udc80", "2:4", "", "a lone surrogate", "UTF-8"),
    ("a: 1\r\nb: \x1b", "2:4", "", "the character U+001B is not allowed", "remove it"),
    ("# " + "x" * 262_144, "1:1", "", "larger than 256 KiB", "is this the file?"),
    (HEAD.replace("name: g", "name: ../x"), "2:7", "name", "'../x' is a path, which could lead out", "one C identifier"),
    (HEAD.replace("name: g", "name: a/b"), "2:7", "name", "'a/b' is a path", "one C identifier"),
    (HEAD.replace("name: g", "name: C:\\x"), "2:7", "name", "'C:\\\\x' is a path", "one C identifier"),
    (HEAD.replace("name: g", "name: .hidden"), "2:7", "name", "'.hidden' is a path", "one C identifier"),
    (HEAD.replace("name: g", "name: class"), "2:7", "name", "'class' is reserved in C++", "one C identifier"),
    (HEAD.replace("name: g", "name: fma"), "2:7", "name", "'fma' is declared by a header", "e.g. my_fma"),
    (HEAD.replace("name: g", "name: gemm"), "2:7", "name", "'gemm' is declared by a header", "e.g. my_gemm"),
    (HEAD.replace("name: g", "name: EOF"), "2:7", "name", "'EOF' is declared by a header", "e.g. my_EOF"),
    (HEAD.replace("name: g", "name: cudaMalloc"), "2:7", "name", "'cudaMalloc' is declared by a header", "e.g. my_cudaMalloc"),
    (HEAD.replace("name: g", "name: 1st"), "2:7", "name", "'1st' is not a C identifier", "one C identifier"),
    (HEAD.replace("name: g", "name: " + "x" * 65), "2:7", "name", "(65 characters) is not a C identifier", "one C"),
    (HEAD.replace("name: g", "name: 3"), "2:7", "name", "3 is not text", "one C identifier"),
    (HEAD.replace("name: g", "name:"), "2:6", "name", "nothing (null) is not text", "one C identifier"),
    (HEAD.replace("name: g", "name: no"), "2:7", "name", "the unquoted no as the truth value false", "one C"),
    (HEAD.replace("mmagen: 1", "mmagen: 2"), "1:9", "mmagen", "version 2 is not supported", "and is 1"),
    (HEAD.replace("mmagen: 1", "mmagen: '1'"), "1:9", "mmagen", "'1' is not an integer", "and is 1"),
    (HEAD.replace("mmagen: 1\n", ""), "1:1", "mmagen", "missing", "and is 1"),
    (
        HEAD.replace("kernel: gemm", "kernel: gem"),
        "3:9",
        "kernel",
        "'gem' is not a legal value",
        "did you mean gemm? the kernel is ownership, micro, gemm or peak",
    ),
    (HEAD.replace("atom: S", "# S"), "1:1", "atom", "missing", "the exact CuTe operation name"),
    (HEAD.replace("tile: [", "# ["), "1:1", "tile", "kernel gemm needs a tile", "[128, 128, 32]"),
    (
        HEAD.replace(", 32]", ", 12.5]"),
        "5:18",
        "tile[2]",
        "12.5 is not an integer",
        "[M, N, K] in elements, e.g. [128, 128",
    ),
    (HEAD.replace(", 32]", "]"), "5:7", "tile", "the list has 2 entries, not 3", "[M, N, K]"),
    (HEAD.replace("[128, 128, 32]", "null"), "5:7", "tile", "kernel gemm needs a tile", "[M, N, K]"),
    (HEAD.replace("[128, 128, 32]", "128"), "5:7", "tile", "128 is not a list", "[M, N, K]"),
]


def _key(diagnostic: Diagnostic) -> str:
    return re.sub(r"^\.", "", "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in diagnostic.key))


CASES = [(HEAD + more + "\n", *rest) for more, *rest in AFTER_HEAD] + WHOLE


@pytest.mark.parametrize(("data", "place", "key", "what", "remedy"), CASES, ids=lambda v: repr(v)[-40:])
def test_refusal(loader: str, data: bytes | str, place: str, key: str, what: str, remedy: str) -> None:
    (found,) = faults(data)
    # libyaml 0.2.6 reads ahead to a depth of 1000 before it says that the first list begins.
    places = (place, "6:1008") if found.column > 1000 and "deeper" in what else (place,)
    assert f"{found.line}:{found.column}" in places and _key(found) == key
    assert what in found.what and remedy in found.remedy
    assert not re.search(r"pydantic|https?:|input_value|validat|Traceback|<mmagen", str(found))


@pytest.mark.parametrize(
    ("data", "line", "remedy"),
    [
        ("a: b: c", 1, "check the indentation"),
        ("mmagen: 1\n\tname: g", 2, "no tabs"),
        ("mmagen: 1\nname: [a", 2, "write `[a]`"),
        ("mmagen: 1\nname: 'a", 2, "quotes"),
        ("mmagen: 1\n name: g", 2, "check the indentation"),
        ("a: @b", 1, "quotes"),
        ("a: !e!x y", 1, "check"),
        ("%YAML 9.9\n---\na: 1", 1, "check"),
    ],
)
def test_text_that_is_no_yaml(loader: str, data: str, line: int, remedy: str) -> None:
    (found,) = faults(data)
    assert found.what.startswith("not YAML: ") and remedy in found.remedy
    # The two parsers see the end of an open bracket or quote at different places.
    assert found.line in (line, line + 1)


def test_every_fault_of_a_file_is_reported_at_once_in_order() -> None:
    text = HEAD.replace("32]", "12.5]") + "tyle: 3\nlayout: NO\nstages: 1\nname: h\nproblems: [[1, 2], [1, 2, x], *a]\n"
    assert [f"{d.line}:{d.column} {_key(d)}" for d in faults(text)] == [
        "5:18 tile[2]",
        "6:1 tyle",
        "7:9 layout",
        "8:9 stages",
        "9:1 name",
        "10:12 problems[0]",
        "10:27 problems[1][2]",
        "10:31 problems[2]",
    ]


def test_message_reads_as_one_line() -> None:
    (found,) = faults(HEAD.replace("32]", "12.5]"))
    assert str(found) == (
        "gemm.yaml:5:18 tile[2]: 12.5 is not an integer; the CTA tile is [M, N, K] in elements, e.g. [128, 128, 32]"
    )


def test_bombs_are_refused_unread() -> None:
    levels = "\n".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 10))
    found = [one.what for one in faults(HEAD + "l0: &l0 x\n" + levels)]
    assert [what for what in found if "&l3" in what] == [
        "the anchor &l3 is not allowed, nor are its 9 aliases, the first at line 10"
    ]
    assert [d.what for d in faults(HEAD + "stages: &a [*a]")][:2] == [
        "the anchor &a is not allowed, nor is its alias at line 6",
        "a list is not an integer",
    ]


def test_an_anchor_with_many_aliases_is_one_fault() -> None:
    configs = "".join(f"- {{name: c{i}, cost: *c}}\n" for i in range(60))
    (found,) = [one for one in faults(HEAD + "configs:\n- {name: c, cost: &c {ctas: 1}}\n" + configs) if "&c" in one.what]
    assert (found.line, found.key) == (7, ("configs", 0, "cost")) and found.remedy == "write the value out in each place"
    assert found.what == "the anchor &c is not allowed, nor are its 60 aliases, the first at line 8"


# --- What is accepted ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [HEAD, HEAD.encode(), b"\xef\xbb\xbf" + HEAD.encode(), "\ufeff" + HEAD, HEAD.replace("\n", "\r\n")]
)
def test_text_bytes_bom_and_line_ends(loader: str, data: bytes | str) -> None:
    loaded = load(data, "gemm.yaml")
    assert loaded.spec.tile == (128, 128, 32)
    assert loaded.source.place(("tile", 1)) == (5, 13)


def test_yaml_forms_of_the_same_spec() -> None:
    flow = "{mmagen: 0x1, 'name': \"g\", kernel: gemm, atom: SM80_16x8x16_F32F16F16F32_TN, tile: [128, +128, 32]}"
    assert load(flow, "x").spec == load(f"%YAML 1.1\n---\n{HEAD}...\n", "x").spec == load(HEAD, "x").spec


def test_numbers_may_be_floats_where_floats_belong() -> None:
    problem = load(HEAD + "problems: [{shape: [1, 2, 3], alpha: 1.5e+3, beta: -0.5}]", "x").spec.problems
    assert problem is not None and (problem[0].alpha, problem[0].beta) == (1500.0, -0.5)


def test_wide_characters_count_as_one_column(loader: str) -> None:
    (found,) = faults(HEAD + "# é𝄞\nepilogue: {out: 'é𝄞', mayor: N}".replace("'é𝄞'", "f16 ") + " # é𝄞")
    assert (found.line, found.column) == (7, 23)
    (found,) = faults(HEAD + "problems: ['é𝄞', [1, 2, 3]]")
    assert (found.line, found.column) == (6, 12)


def test_plain_data_is_what_yaml_says() -> None:
    text = HEAD + "problems: [[1, 2, 3], {shape: [4, 5, 0x6], beta: -0.25}]\nepilogue: {out: ~}\npermutation: ['4:1', _, 8]"
    document = yaml_text.Document("x")
    document.read(text)
    assert document.diagnostics == [] and document.value == yaml.safe_load(text)


# --- Source --------------------------------------------------------------------------------------------------------


def test_locate_sorts_and_falls_back_to_the_nearest_ancestor() -> None:
    source = load(HEAD + "epilogue:\n  out: f16\n", "gemm.yaml").source
    keys = [("stages",), ("epilogue", "major"), ("tile", 2), ("tile", 9, "x"), ("epilogue", "out"), ()]
    located = source.locate([Fault(key, "w", "r") for key in keys])
    assert [(d.line, d.column, d.key) for d in located] == [
        (1, 1, ("stages",)),
        (1, 1, ()),
        (5, 7, ("tile", 9, "x")),
        (5, 18, ("tile", 2)),
        (7, 3, ("epilogue", "major")),
        (7, 8, ("epilogue", "out")),
    ]
    assert str(located[3]) == "gemm.yaml:5:18 tile[2]: w; r"


def test_source_without_marks_points_at_the_beginning() -> None:
    assert Source("x", "", {}).place(("tile", 2)) == (1, 1)


# --- Robustness ----------------------------------------------------------------------------------------------------


def test_no_text_gets_past_as_anything_but_a_spec_or_sentences() -> None:
    chooser = random.Random(7)
    full = HEAD + (
        "layout: {a: M, b: N}\natoms_layout: (2,2,1):(2,1,1)\npermutation: [32, null, '(4,4,2):(1,8,4)']\nstages: 3\n"
        "epilogue: {out: f16, major: M}\narch: [sm_80]\nproblems:\n- [1, 2, 3]\n- {shape: [4, 5, 6], beta: 0.5}\n"
    )
    pieces = [
        "[",
        "]",
        "{",
        "}",
        ":",
        ": ",
        "- ",
        "\n",
        "  ",
        "*a",
        "&a ",
        "!t ",
        "'",
        '"',
        "#",
        "0",
        "1e3",
        "~",
        "NO",
        "\t",
        "? ",
        "<<",
    ]
    outcomes = {"spec": 0, "refused": 0}
    for _ in range(1500):
        text = full
        for _ in range(chooser.randint(1, 3)):
            at = chooser.randrange(len(text))
            text = text[:at] + chooser.choice(pieces) + text[at + chooser.randint(0, 4) :]
        try:
            load(text, "x")
            outcomes["spec"] += 1
        except SpecError as error:
            outcomes["refused"] += 1
            assert not re.search(r"pydantic|https?:|input_value|object at 0x", str(error)), text
            assert all(1 <= d.line <= text.count("\n") + 2 and d.column >= 1 for d in error.diagnostics), text
    assert min(outcomes.values()) > 50


def test_loading_needs_nothing_heavy() -> None:
    code = (
        "import sys, mmagen.spec.load; print(*(m for m in ('tensor_layouts', 'jinja2', 'click', 'numpy') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
