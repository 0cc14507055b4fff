"""Forms on single threads: conversions, arithmetic, bits; and those in which the lanes of a warp talk to each other."""

from __future__ import annotations

import numpy as np

from tests.support.ptx_forms import WARP, Form, scalar, seeded, values_of

_F32, _F64, _B32, _B64, _B16 = ("f32", "f32"), ("f64", "f64"), ("b32", "b32"), ("b64", "b64"), ("b16", "b16")
_SMALL, _PAIR, _BPAIR = ("b32", "small"), ("b32", "f16x2"), ("b32", "bf16x2")


def _to_narrow_floats() -> list[Form]:
    forms = [scalar(f"cvt.{r}.{t}.f32", (_F32,), "b16") for r in ("rn", "rz") for t in ("f16", "bf16")]
    forms += [scalar(f"cvt.{r}.{t}.f32", (_F32, _F32), "b32") for r in ("rn", "rz") for t in ("f16x2", "bf16x2")]
    forms += [scalar(f"cvt.rn.relu.{t}.f32", (_F32,), "b16") for t in ("f16", "bf16")]
    forms += [scalar("cvt.rn.satfinite.f16.f32", (_F32,), "b16", version="8.1")]
    forms += [scalar(f"cvt.{r}.f16.f32", (_F32,), "b16") for r in ("rm", "rp")]
    forms += [scalar("cvt.rna.tf32.f32", (_F32,), "b32", warps=8)]
    forms += [scalar(f"cvt.{r}.tf32.f32", (_F32,), "b32", target=90) for r in ("rn", "rz")]
    for kind in ("e4m3x2", "e5m2x2"):
        new = {"target": 89, "version": "8.1"}
        forms += [scalar(f"cvt.rn.satfinite.{kind}.f32", (_F32, _F32), "b16", warps=8, **new)]
        forms += [scalar(f"cvt.rn.satfinite.relu.{kind}.f32", (_F32, _F32), "b16", **new)]
        forms += [scalar(f"cvt.rn.satfinite.{kind}.f16x2", (_PAIR,), "b16", **new)]
        forms += [scalar(f"cvt.rn.f16x2.{kind}", (("b16", "e8x2"),), "b32", warps=8, **new)]
    return forms


def _between_floats() -> list[Form]:
    forms = [scalar("cvt.f32.f16", (_B16,), "f32"), scalar("cvt.f64.f32", (_F32,), "f64")]
    forms += [scalar(f"cvt.{r}.f32.f64", (_F64,), "f32") for r in ("rn", "rz", "rm", "rp")]
    forms += [scalar("cvt.f32.bf16", (_B16,), "f32", target=90), scalar("cvt.f64.f16", (_B16,), "f64")]
    forms += [scalar("cvt.rn.f16.f64", (_F64,), "b16"), scalar("cvt.rn.ftz.f32.f64", (_F64,), "f32")]
    forms += [scalar(f"cvt.{r}.f32.f32", (_F32,), "f32") for r in ("rni", "rzi", "rmi", "rpi")]
    return [*forms, scalar("cvt.sat.f32.f32", (_F32,), "f32")]


def _integers_and_floats() -> list[Form]:
    forms = [scalar(f"cvt.{r}.s32.f32", (_F32,), "b32") for r in ("rni", "rzi", "rmi", "rpi")]
    forms += [scalar(f"cvt.rni.sat.{t}8.f32", (_F32,), "b32") for t in "su"]
    forms += [scalar(f"cvt.rni.{t}16.f32", (_F32,), "b16") for t in "su"]
    forms += [scalar("cvt.rzi.u32.f32", (_F32,), "b32"), scalar("cvt.rni.ftz.s32.f32", (_F32,), "b32")]
    forms += [scalar(f"cvt.rzi.{t}64.f32", (_F32,), "b64") for t in "su"]
    forms += [scalar(f"cvt.rni.{t}{b}.f64", (_F64,), f"b{b}") for t in "su" for b in (32, 64)]
    forms += [scalar(f"cvt.{r}.f32.{t}32", (_B32,), "f32") for r in ("rn", "rz", "rm", "rp") for t in "su"]
    forms += [scalar(f"cvt.rn.f32.{t}16", (_B16,), "f32") for t in "su"]
    forms += [scalar(f"cvt.rn.f{b}.{t}64", (_B64,), f"f{b}") for t in "su" for b in (32, 64)]
    forms += [scalar(f"cvt.rn.f64.{t}32", (_B32,), "f64") for t in "su"]
    return [*forms, *(scalar(f"cvt.rn.f16.{t}", (_B32,), "b16") for t in ("s32", "u32"))]


def _integers() -> list[Form]:
    forms = [scalar(f"cvt.{t}64.{t}32", (_B32,), "b64") for t in "su"]
    forms += [scalar("cvt.u32.u16", (_B16,), "b32"), scalar("cvt.u32.u64", (_B64,), "b32")]
    forms += [scalar("cvt.s16.s8", (_B16,), "b16"), scalar("cvt.s32.s8", (_B32,), "b32")]
    forms += [scalar(f"cvt.sat.{t}8.s32", (_B32,), "b32") for t in "su"]
    forms += [scalar("cvt.sat.u32.s32", (_B32,), "b32"), scalar("cvt.sat.s32.s64", (_B64,), "b32")]
    forms += [scalar(f"cvt.pack.sat.{t}8.s32.b32", (_B32, _B32, _B32), "b32") for t in "su"]
    return [*forms, *(scalar(f"cvt.pack.sat.{t}16.s32", (_B32, _B32), "b32") for t in "su")]


def _float_arithmetic() -> list[Form]:
    three, two = (_F32,) * 3, (_F32,) * 2
    forms = [scalar(f"fma.{r}.f32", three, "f32", warps=8) for r in ("rn", "rn.ftz", "rn.sat", "rz", "rm", "rp")]
    forms += [scalar(f"{o}.{r}.f32", two, "f32") for o in ("add", "sub", "mul") for r in ("rn", "rn.ftz", "rz")]
    forms += [scalar("fma.rn.f64", (_F64,) * 3, "f64", warps=8)]
    forms += [scalar(f"{o}.rn.f64", (_F64,) * 2, "f64") for o in ("add", "sub", "mul")]
    forms += [scalar(f"{o}.f32", two, "f32") for o in ("min", "max", "min.NaN", "max.NaN", "min.ftz")]
    forms += [scalar(f"{o}.f64", (_F64,) * 2, "f64") for o in ("min", "max")]
    forms += [scalar(f"{o}.f32", (_F32,), "f32") for o in ("neg", "abs", "rcp.rn", "sqrt.rn")]
    forms += [scalar("div.rn.f32", two, "f32"), scalar("div.rn.f64", (_F64,) * 2, "f64")]
    forms += [scalar("fma.rn.f16", (_B16,) * 3, "b16"), scalar("fma.rn.bf16", (_B16,) * 3, "b16")]
    forms += [scalar("fma.rn.f16x2", (_PAIR,) * 3, "b32"), scalar("fma.rn.bf16x2", (_BPAIR,) * 3, "b32")]
    forms += [scalar(f"{o}.f16x2", (_PAIR,) * 2, "b32") for o in ("add", "sub", "mul", "min", "max")]
    return [*forms, *(scalar(f"{o}.bf16x2", (_BPAIR,) * 2, "b32") for o in ("min", "max"))]


def _comparisons() -> list[Form]:
    def compared(opcode: str, operand: tuple[str, str]) -> Form:
        body = f"{opcode} %p, %i0, %i1;\nselp.b32 %o0, 1, 0, %p;"
        return scalar(opcode, (operand, operand), "b32", body=body)

    forms = [compared(f"setp.{o}.f32", _F32) for o in ("lt", "eq", "ge", "neu", "ltu", "geu", "num", "nan")]
    forms += [compared(f"setp.{o}.{t}32", _B32) for o in ("lt", "ge", "eq") for t in "su" if (o, t) != ("eq", "u")]
    return [*forms, compared("setp.neu.f64", _F64)]


def _bits() -> list[Form]:
    forms = [scalar(f"prmt.b32{mode}", (_B32, _B32, _B32), "b32") for mode in ("", ".f4e", ".b4e", ".rc8", ".rc16")]
    forms += [scalar(f"prmt.b32{mode}", (_B32, _B32, _B32), "b32") for mode in (".ecl", ".ecr")]
    forms += [scalar(f"dp4a.{a}32.{b}32", (_B32,) * 3, "b32", target=61) for a in "su" for b in "su"]
    forms += [scalar(f"dp2a.{h}.{a}32.{a}32", (_B32,) * 3, "b32", target=61) for h in ("lo", "hi") for a in "su"]
    for table in (0x96, 0xE8, 0xCA, 0x80):
        forms += [scalar(f"lop3.b32 {table}", (_B32,) * 3, "b32", body=f"lop3.b32 %o0, %i0, %i1, %i2, {table};")]
    forms += [scalar(f"shf.{d}.{m}.b32", (_B32,) * 3, "b32") for d in "lr" for m in ("wrap", "clamp")]
    forms += [scalar(o, (_B32, _B32), "b32") for o in ("shl.b32", "shr.u32", "shr.s32")]
    forms += [scalar(f"bfe.{t}32", (_B32, _SMALL, _SMALL), "b32") for t in "su"]
    forms += [scalar("bfi.b32", (_B32, _B32, _SMALL, _SMALL), "b32")]
    forms += [scalar(f"{o}.b32", (_B32,), "b32") for o in ("popc", "clz", "brev", "not")]
    forms += [scalar(opcode, (_B32, _B32), "b32") for opcode in ("mul.lo.s32", "mul.hi.s32", "mul.hi.u32")]
    forms += [scalar(f"mul.wide.{t}32", (_B32, _B32), "b64") for t in "su"]
    forms += [scalar("mad.lo.s32", (_B32,) * 3, "b32")]
    forms += [scalar(f"{o}.{t}32", (_B32, _B32), "b32") for o in ("min", "max") for t in "su"]
    return [*forms, *(scalar(opcode, (_B64, _SMALL), "b64") for opcode in ("shl.b64", "shr.s64", "shr.u64"))]


def _rounded_and_carried() -> list[Form]:
    """What was recorded last: other roundings, 16-bit sources, carries, pairs of integers, comparisons with values."""
    forms = [scalar(f"{o}.{r}.f32", (_F32,) * n, "f32") for o, n in _FUNCTIONS for r in ("rz", "rm", "rp")]
    forms += [scalar(f"{o}.{r}.f64", (_F64,) * n, "f64") for o, n in (*_FUNCTIONS, *_SUMS) for r in ("rz", "rm", "rp")]
    forms += [scalar(f"cvt.{r}.{t}.f16", (_B16,), f"b{max(16, int(t[1:]))}") for r, t in (("rzi", "s32"), ("rni", "u8"))]
    forms += [scalar(f"cvt.rni.{t}64.f16", (_B16,), "b64") for t in "su"]
    forms += [scalar(f"cvt.rni.{t}.bf16", (_B16,), "b32", target=90) for t in ("s32", "u32")]
    forms += [scalar(f"cvt.{r}.bf16.s32", (_B32,), "b16", target=90) for r in ("rn", "rz", "rm", "rp")]
    forms += [scalar(f"cvt.{r}.f16.u16", (_B16,), "b16") for r in ("rz", "rp")]
    forms += [scalar("cvt.rn.satfinite.relu.e4m3x2.f16x2", (_PAIR,), "b16", target=89, version="8.1")]
    forms += [scalar(f"{o}.xorsign.abs.f32", (_F32, _F32), "f32", target=86) for o in ("min", "max")]
    forms += [scalar(f"{o}.xorsign.abs.f16", (_B16, _B16), "b16", target=86) for o in ("min", "max")]
    forms += [scalar(f"{o}.s16x2", (_B32, _B32), "b32", target=90) for o in ("add", "min", "max", "max.relu")]
    forms += [scalar(f"{o}.{m}.b32", (_B32, _B32), "b32", version="7.6") for o in ("bmsk",) for m in ("clamp", "wrap")]
    forms += [scalar(f"szext.{m}.{t}32", (_B32, _B32), "b32", version="7.6") for m in ("clamp", "wrap") for t in "su"]
    forms += [scalar("fns.b32", (_B32, _SMALL, _SMALL), "b32")]
    forms += [scalar(f"set.{o}.f16x2.f16x2", (_PAIR, _PAIR), "b32") for o in ("lt", "neu")]
    forms += [scalar("set.geu.u32.f16x2", (_PAIR, _PAIR), "b32"), scalar("set.lt.f32.f32", (_F32, _F32), "f32")]
    for name, body in _BODIES.items():
        forms.append(scalar(name, (_B32,) * 3, "b32", body=body))
    return [*forms, scalar("mad.hi.sat.s32", (_B32,) * 3, "b32")]


_FUNCTIONS = (("div", 2), ("rcp", 1), ("sqrt", 1))
_SUMS = (("add", 2), ("mul", 2), ("fma", 3))
_BODIES = {
    "addc": "add.cc.u32 %o0, %i0, %i1;\naddc.u32 %o0, %i2, %i0;",
    "subc": "sub.cc.u32 %o0, %i0, %i1;\nsubc.u32 %o0, %i2, %i0;",
    "addc after sub.cc": "sub.cc.u32 %o0, %i0, %i1;\naddc.u32 %o0, %i2, 0;",
    "madc": "mad.lo.cc.u32 %o0, %i0, %i1, %i2;\nmadc.hi.u32 %o0, %i0, %i1, %i2;",
    "madc of signed": "mad.lo.cc.s32 %o0, %i0, %i1, %i2;\nmadc.hi.s32 %o0, %i0, %i1, %i2;",
}


def _lanes() -> list[Form]:
    forms = []
    for mode in ("idx", "up", "down", "bfly"):
        for bounds in (0x1F, 0x181F, 0x0):
            opcode = f"shfl.sync.{mode}.b32"
            name = f"{opcode} {bounds:#x}"
            rng = seeded(name)
            data = np.stack([values_of(kind, 2 * WARP, rng) for kind in ("b32", "small")], axis=1).astype(np.uint32)
            body = f"{opcode} %o0|%p, %i0, %i1, {bounds:#x}, -1;\nselp.b32 %o1, 1, 0, %p;"
            forms.append(Form(name, body, ("b32", "b32"), ("b32", "b32"), data))
    for mode in ("ballot.b32", "any.pred", "all.pred"):
        rng = seeded(mode)
        data = values_of("small", 2 * WARP, rng).astype(np.uint32)[:, None] & 3
        data[:WARP] = 0
        voted = "%o0" if mode == "ballot.b32" else "%q"
        body = f"setp.eq.s32 %p, %i0, 0;\nvote.sync.{mode} {voted}, %p, -1;"
        body += "" if voted == "%o0" else "\nselp.b32 %o0, 1, 0, %q;"
        forms.append(Form(f"vote.sync.{mode}", body, ("b32",), ("b32",), data))
    return forms


def scalar_forms() -> list[Form]:
    """All forms of this module."""
    groups = (_to_narrow_floats, _between_floats, _integers_and_floats, _integers, _float_arithmetic, _comparisons)
    return [form for group in (*groups, _bits, _lanes, _rounded_and_carried) for form in group()]
