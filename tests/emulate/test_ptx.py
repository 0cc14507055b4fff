"""Reading PTX: statements, scopes, operands, source lines; and what is wrong with a text, with its line."""

from __future__ import annotations

import pytest

from mmagen.emulate import EmulationError, parse
from mmagen.emulate.ptx.model import Address, Immediate, Negated, Pair, Special, Symbol, Vector
from mmagen.emulate.ptx.operands import number, size_of, split_operands
from tests.support.ptx import HEADER, kernel


def entry(body: str):
    return parse(kernel(body), "k.ptx").entries["k"]


def only(body: str):
    """The one instruction of a body."""
    found = entry(body).instructions
    return next(i for i in found if i.text in " ".join(body.split()))


def test_parameters_are_laid_out_by_size_and_alignment():
    text = HEADER + ".entry k(.param .u32 a, .param .align 8 .b8 s[12], .param .u8 flag, .param .u64 p) { ret; }"
    params = parse(text).entries["k"].params
    assert [(p.name, p.offset, p.size) for p in params] == [("a", 0, 4), ("s", 8, 12), ("flag", 20, 1), ("p", 24, 8)]
    assert parse(text).entries["k"].param_bytes == 32


def test_parameters_with_pointer_attributes():
    text = HEADER + ".entry k(.param .u64 .ptr .global .align 16 p, .param .f32 x) { ret; }"
    assert [(p.offset, p.size) for p in parse(text).entries["k"].params] == [(0, 8), (8, 4)]


def test_opcode_modifiers_and_double_colons():
    i = only("cp.async.cg.shared::cta.global.L2::128B [%r2], [%rd3], 16, %r4;")
    assert i.base == "cp" and i.modifiers == ("async", "cg", "shared::cta", "global", "L2::128B")
    assert isinstance(i.operands[0], Address) and i.operands[0].base.name == "%r2"


def test_operands_of_every_kind():
    i = only("fma.rn.f32 %f1, 0f3F800000, -1.5, %f2;")
    assert i.operands[1] == Immediate(1.0, 0x3F800000) and i.operands[2] == Immediate(-1.5)
    assert only("mov.u32 %r2, %ctaid.y;").operands[1] == Special("ctaid.y")
    i = only("mov.b64 %rd9, {%r2, %r3};")
    assert isinstance(i.operands[1], Vector) and len(i.operands[1].elements) == 2
    i = only("setp.lt.and.s32 %p1|%p2, %r1, 0x1F, !%p3;")
    assert isinstance(i.operands[0], Pair) and i.operands[2] == Immediate(31) and isinstance(i.operands[3], Negated)
    assert only("ld.global.u32 %r2, [%rd1+-8];").operands[1].offset == -8
    assert only("ld.param.u32 %r2, [in+4];").operands[1] == Address(Symbol("in"), 4)
    assert only("shfl.sync.idx.b32 %r3|%p1, %r2, 0, 31, -1;").operands[4] == Immediate(-1)


def test_guards():
    i = only("@!%p1 add.s32 %r2, %r2, 1;")
    assert isinstance(i.guard, Negated) and i.guard.register.type == "pred"


def test_inner_scopes_have_their_own_names_and_labels():
    e = entry("""
        { .reg .pred p; .reg .b32 x; mov.u32 x, 1; setp.eq.s32 p, x, 1; @p bra DONE; mov.u32 x, 2; DONE: mov.u32 %r2, x; }
        { .reg .pred p; .reg .b32 x; mov.u32 x, 3; setp.eq.s32 p, x, 1; @p bra DONE; DONE: mov.u32 %r3, x; }
    """)
    first, second = [i for i in e.instructions if i.base == "bra"]
    assert first.operands != second.operands
    assert e.labels[second.operands[0].name] > e.labels[first.operands[0].name]
    assert len([r for r in e.registers if r.name == "x"]) == 2


def test_several_statements_in_a_line_and_statements_over_lines():
    e = entry("mov.u32 %r2, 1; mov.u32 %r3,\n 2; { mov.u32 %r4, 3; }")
    assert [i.text for i in e.instructions if i.base == "mov"][1:] == ["mov.u32 %r2, 1", "mov.u32 %r3, 2", "mov.u32 %r4, 3"]


def test_source_lines_with_the_calls_they_were_inlined_into():
    e = entry("""
        .file 1 "/project/include/mine.cuh"
        .file 2 "/x/cute/copy.hpp"
        .loc 1 10 3
        mov.u32 %r2, 1;
        .loc 2 99 5, function_name $L__info_string0, inlined_at 1 10 3
        mov.u32 %r3, 2;
    """)
    frames = next(i for i in e.instructions if i.text == "mov.u32 %r3, 2").location.frames()
    assert [(f.file, f.line) for f in frames] == [("/x/cute/copy.hpp", 99), ("/project/include/mine.cuh", 10)]


def test_what_means_nothing_here_is_passed_over():
    text = (
        HEADER
        + ".global .align 1 .b8 $str[3] = {72, 105, 0};\n.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
        + kernel('.pragma "nounroll";\n// a comment ; with } marks\n/* and\nanother */ mov.u32 %r2, 1;').removeprefix(HEADER)
        + "\n.section .debug_str\n{\n.b8 1,2,3\n}\n"
    )
    module = parse(text)
    assert module.entries["k"].instructions[-2].text == "mov.u32 %r2, 1"
    assert module.target == "sm_80"
    assert next(v for v in module.variables if v.name == "$str").data == b"Hi\0"
    assert "vprintf" in module.functions


def test_extern_shared_memory():
    module = parse(kernel("ret;", outside=".extern .shared .align 128 .b8 dynamic[];"))
    assert [(v.space, v.external, v.alignment) for v in module.variables] == [("shared", True, 128)]


@pytest.mark.parametrize(
    "body, line, why",
    [
        ("mov.u32 %r99, 1;", 1, "unknown register %r99"),
        ("mov.u32 %r2 1;", 1, "unknown register %r2 1"),
        ("ld.global.u32 %r2, [%rd1 ;", 1, "unreadable"),
        ("\n\nbra NOWHERE;", 3, "no such label"),
        ("@%r1 mov.u32 %r2, 1;", 1, "not a predicate"),
        ("X: mov.u32 %r2, 1; X: mov.u32 %r2, 1;", 1, "defined twice"),
        ("*what;", 1, "not an instruction"),
        (".unheard of;", 1, "unknown directive"),
        ("mov.u32 %r2, {%r1, %r3;", 1, "unclosed"),
    ],
)
def test_errors_name_file_line_and_text(body, line, why):
    text = HEADER + ".entry k() {\n.reg .b32 %r<9>; .reg .b64 %rd<9>;\n" + body + "\nret;\n}\n"
    with pytest.raises(EmulationError) as caught:
        parse(text, "edited.ptx")
    assert str(caught.value).startswith(f"edited.ptx:{5 + line}:")
    assert why in str(caught.value)
    assert body.split()[0].rstrip(";") in str(caught.value)


@pytest.mark.parametrize("text", ["garbage;", ".entry k() { ret;", "}", ".entry k() { mov", HEADER + "{"])
def test_broken_texts_are_errors(text):
    with pytest.raises(EmulationError, match="<ptx>:"):
        parse(text)


def test_numbers():
    assert number("0x1F").value == 31 and number("-3").value == -3 and number("12U").value == 12
    assert number("0b101").value == 5 and number("017").value == 15
    assert number("0d3FF0000000000000").value == 1.0


def test_sizes_and_splitting():
    assert [size_of(t) for t in ("u8", "f16x2", "bf16", "f64", "b128", "pred", "what")] == [1, 4, 2, 8, 16, 1, None]
    assert split_operands("{a, b}, [c], d") == ["{a, b}", "[c]", "d"]
    assert split_operands("") == []
