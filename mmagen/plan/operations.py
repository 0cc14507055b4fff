"""The operations of an epilogue, in plans: what each does to a value, and the arguments that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mmagen.core.errors import ABSENT, Fault, Key
from mmagen.mma.atoms import TYPES, ElementType
from mmagen.plan.arguments import Arguments, Extent, Tensor
from mmagen.plan.clamp_rules import faults as clamp_faults
from mmagen.spec.epilogue import Epilogue as Written
from mmagen.spec.epilogue import Operation as Entry

if TYPE_CHECKING:
    from mmagen.spec.model import Problem, Spec

PART = "epilogue"
# What needs fractions: not for kernels whose scalars are integers.
_OF_FLOATS = ("gelu", "silu", "sigmoid", "gated")
# What adds values up, by lines of D.
SUMS = ("row_sums", "column_sums")
# (operation, form) of the functions that gate.
GATES = {"relu": ("relu", ""), "gelu": ("gelu", "erf"), "gelu_tanh": ("gelu", "tanh")}
GATES |= {"silu": ("silu", ""), "sigmoid": ("sigmoid", "")}
# The degree of gelu's polynomial by D's type, whose error is at most an eighth and a sixth of the type's roundoff; 6 for others.
GELU_DEGREES = {"f16": 5, "bf16": 4, "e4m3": 4, "e5m2": 4}
# What does not make a relative error of its argument a larger one of its result.
_OF_NO_ERROR = ("relu", "clamp", "amax")
# Types that a conversion does not saturate to.
_WITH_INFINITY = ("f16", "bf16", "f32")


@dataclass(frozen=True)
class Operation:
    """One operation on the values between accumulators and D, before the cast that ends them.

    word: alpha, beta_c, bias, add, multiply, amax, row_sums, column_sums, gated, clamp, relu, gelu, silu, sigmoid or saturate.
    tensor: the argument that it reads or updates, of type `element`. by: which values of a bias go where: "row" (one for each row
    of D) or "column". form: of gelu, erf or tanh. low, high: of clamp, None for no limit. gate: of gated, the function of the even
    column. degree: of the polynomial that gelu by erf is computed by.
    """

    word: str
    tensor: str = ""
    element: ElementType | None = None
    by: str = ""
    form: str = ""
    low: float | None = None
    high: float | None = None
    gate: str = ""
    degree: int = 6

    @property
    def text(self) -> str:
        """What it makes of x."""
        return {
            "alpha": "alpha * x",
            "beta_c": "x + beta * C",
            "bias": f"x + {self.tensor}[{'m' if self.by == 'row' else 'n'}]",
            "add": f"x + {self.tensor}",
            "multiply": f"x * {self.tensor}",
            "amax": f"x, and {self.tensor} at least |x|",
            "row_sums": f"x, which {self.tensor}[m] gains",
            "column_sums": f"x, which {self.tensor}[n] gains",
            "clamp": " and ".join(
                f"at {side} {limit:g}" for side, limit in (("least", self.low), ("most", self.high)) if limit is not None
            ),
            "gelu": f"gelu(x), {self.form}",
            "gated": f"{self.gate}(x[2j]) * x[2j + 1], of pairs of columns",
            "saturate": "the largest finite value of D's type where x is larger",
        }.get(self.word, f"{self.word}(x)")


def operations(epilogue: Written, out: ElementType, scalar: ElementType) -> tuple[Operation, ...]:
    """Those of a plan, () where they are alpha * x + beta * C. out: D's type, which operands have that name no other. scalar: the
    type of the epilogue's arithmetic, and of sums."""
    found = tuple(_operation(one, out, scalar) for one in epilogue.operations or () if not one.cast)
    saturates = any(one.overflow == "saturate" for one in epilogue.operations or ()) and out.word in _WITH_INFINITY
    found = tuple(_as_precise(one, found[i + 1 :], out) for i, one in enumerate(found))
    found = (*found, Operation("saturate")) if saturates else found
    return () if epilogue.operations is None or [one.word for one in found] == ["alpha", "beta_c"] else found


def _as_precise(one: Operation, behind: Sequence[Operation], out: ElementType) -> Operation:
    """Gelu with a polynomial of the degree that D's type needs, where only D follows."""
    last = all(other.word in _OF_NO_ERROR for other in behind)
    return replace(one, degree=GELU_DEGREES.get(out.word, 6)) if last and one.form == "erf" else one


def _operation(one: Entry, out: ElementType, scalar: ElementType) -> Operation:
    low, high = one.clamp or (None, None)
    element = None
    if one.tensor:
        element = scalar if one.word in SUMS or one.amax else TYPES[one.type or out.word]
    form = one.gelu or (GATES[one.gated][1] if one.gated else "")
    return Operation(one.word, one.tensor, element, one.bias or "", form, low, high, one.gated or "")


def gate_of(one: Operation) -> Operation:
    """The function that a gated pair applies to its even column."""
    return Operation(GATES[one.gate][0], form=one.form, degree=one.degree)


def halves_columns(epilogue: Written) -> bool:
    """Has D half the columns of A B^T?"""
    return any(one.gated for one in epilogue.operations or ())


def columns_of_element(found: Sequence[Operation]) -> int:
    """Columns of A B^T that an element of D is made of."""
    return 2 if any(one.word == "gated" for one in found) else 1


def before_the_gate(found: Sequence[Operation]) -> tuple[Operation, ...]:
    """The operations on sums; all of them where nothing is gated."""
    words = [one.word for one in found]
    return tuple(found[: words.index("gated")] if "gated" in words else found)


def arguments(found: Sequence[Operation], major: str) -> Arguments:
    """What they read besides C. major: D's contiguous mode, which matrices have too."""
    return Arguments(tuple(_tensor(one, major) for one in found if one.tensor))


def _tensor(one: Operation, major: str) -> Tensor:
    assert one.element
    m, n, single = Extent("m"), Extent("n"), Extent()
    if one.word == "bias":
        rows, columns = (single, m) if one.by == "row" else (single, n)
        sentence = f"one {one.element.word} for each {one.by} of D, added"
        return Tensor(name=one.tensor, element=one.element, part=PART, rows=rows, columns=columns, sentence=sentence)
    if one.word == "amax":
        sentence = "the largest magnitude so far, which a call raises; all matrices of a batch together"
        return Tensor(
            name=one.tensor,
            element=one.element,
            part=PART,
            rows=single,
            columns=single,
            sentence=sentence,
            batched=False,
            access="update",
        )
    if one.word in SUMS:
        line, extent = ("row", m) if one.word == "row_sums" else ("column", n)
        sentence = f"one {one.element.word} for each {line} of the result, to which a call adds the {line}'s sum"
        return Tensor(
            name=one.tensor, element=one.element, part=PART, rows=single, columns=extent, sentence=sentence, access="update"
        )
    verb = {"add": "added to", "multiply": "a factor of"}[one.word]
    return Tensor(
        name=one.tensor,
        element=one.element,
        part=PART,
        rows=m,
        columns=n,
        sentence=f"(M,N) of {one.element.word}, contiguous as D, {verb} the result",
        columns_contiguous=major == "N",
        pitched=True,
    )


def formula(found: Sequence[Operation]) -> str:
    """What D is: `D = alpha * A * B + beta * C`, or its steps."""
    if not found:
        return "D = alpha * A * B + beta * C"
    return f"D = x after these steps, with x = A * B at first: {'; '.join(one.text for one in found)};"


def as_applied(spec: Spec, problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """The problems with an alpha of 1 and a beta of 0 where the epilogue has neither, and an even N where pairs are gated."""
    if spec.epilogue.operations is None:
        return tuple(problems)
    words = {one.word for one in spec.epilogue.operations}
    neutral = ({} if "alpha" in words else {"alpha": 1.0}) | ({} if "beta_c" in words else {"beta": 0.0})
    even = "gated" in words
    changed = (one.model_copy(update=neutral | (_with_even_n(one) if even else {})) for one in problems)
    return tuple(dict.fromkeys(changed))


def _with_even_n(problem: Problem) -> dict[str, Any]:
    """The fields of the problem that change, of which groups may have an N of their own."""
    m, n, k = problem.shape
    of_groups = problem.groups.extents if problem.groups else None
    even = tuple((rows, columns + columns % 2, depth) for rows, columns, depth in of_groups or ())
    groups = {"groups": problem.groups.model_copy(update={"extents": even})} if problem.groups and of_groups else {}
    return {"shape": (m, n + n % 2, k)} | groups


def functor_cxx(found: Sequence[Operation], project: str, row_major: bool, swapped: bool) -> str:
    """The type of the functor that does them. row_major: of the kernel's D; swapped: whose rows are the columns of a call's."""
    elements = ["ElementD", "ElementAccumulator", "Scalar"]
    types = cxx(found, project, row_major, swapped)
    first = before_the_gate(found)
    if len(first) == len(found):
        return f"mmagen::EpilogueOperations<{', '.join([*elements, *types])}>"
    gate = _cxx(0, gate_of(found[len(first)]), project, row_major, swapped)
    behind = f"mmagen::PlainOperations<{', '.join(types[len(first) :])}>"
    return f"mmagen::GatedOperations<{', '.join([*elements, gate, behind, *types[: len(first)]])}>"


def cxx(found: Sequence[Operation], project: str, row_major: bool, swapped: bool) -> list[str]:
    """The types of the operations. row_major: of the kernel's D; swapped: whose rows are the columns of a call's."""
    return [_cxx(i, one, project, row_major, swapped) for i, one in enumerate(found) if one.word != "gated"]


def limits(found: Sequence[Operation]) -> list[tuple[str, str, str]]:
    """(name, least, most) of the structs with the bounds of clamps, as C++ has them."""
    return [
        (
            f"Limits{i}",
            "-mmagen::kUnbounded" if one.low is None else repr(one.low),
            "mmagen::kUnbounded" if one.high is None else repr(one.high),
        )
        for i, one in enumerate(found)
        if one.word == "clamp"
    ]


def model(found: Sequence[Operation]) -> str:
    """The type that says what D may be, of the test program."""
    if not found:
        return "LinearCombinationModel"
    tensors = [one.tensor for one in found if one.tensor]
    scope = "mmagen::test::"
    types = [scope + _model(i, one, tensors) for i, one in enumerate(found) if one.word != "gated"]
    first = before_the_gate(found)
    if len(first) == len(found):
        return f"OperationsModel<{', '.join(['Scalar', *types])}>"
    gate = scope + _model(0, gate_of(found[len(first)]), tensors)
    behind = f"{scope}OperationsModel<{', '.join(['Scalar', *types[len(first) :]])}>"
    before = f"{scope}OperationsModel<{', '.join(['Scalar', *types[: len(first)]])}>"
    return f"GatedModel<{gate}, {behind}, {before}>"


def _model(place: int, one: Operation, tensors: Sequence[str]) -> str:
    if one.tensor:
        assert one.element
        if one.word == "amax":
            return f"model::Amax<{tensors.index(one.tensor)}>"
        if one.word in SUMS:
            return f"model::Sums<{tensors.index(one.tensor)}, {'true' if one.word == 'row_sums' else 'false'}>"
        read = f"mmagen::test::{one.element.word}, {tensors.index(one.tensor)}"
        more = f", {'true' if one.by == 'row' else 'false'}" if one.word == "bias" else ""
        return f"model::{one.word.capitalize()}<{read}{more}>"
    return (
        "model::"
        + {
            "alpha": "Alpha",
            "beta_c": "BetaC",
            "relu": "Relu",
            "clamp": f"Clamp<Limits{place}>",
            "silu": "Silu",
            "sigmoid": "Sigmoid",
            "gelu": _gelu(one),
            "saturate": "Saturate<Out>",
        }[one.word]
    )


def _cxx(place: int, one: Operation, project: str, row_major: bool, swapped: bool) -> str:
    if one.tensor:
        assert one.element
        member = f"&{project}::Further::{one.tensor}"
        if one.word == "amax":
            return f"mmagen::Amax<Scalar, {member}>"
        if one.word in SUMS:
            return f"mmagen::SumsOf{'Rows' if (one.word == 'row_sums') != swapped else 'Columns'}<Scalar, {member}>"
        read = f"{one.element.cxx}, {member}"
        if one.word == "bias":
            return f"mmagen::PlusOf{'Row' if (one.by == 'row') != swapped else 'Column'}<{read}>"
        return f"mmagen::{'Plus' if one.word == 'add' else 'Times'}Matrix<{read}, {'true' if row_major else 'false'}>"
    if one.word == "clamp":
        return f"mmagen::Clamp<Limits{place}>"
    return (
        "mmagen::"
        + {
            "alpha": "TimesAlpha",
            "beta_c": "PlusBetaC",
            "relu": "Relu",
            "silu": "Silu",
            "sigmoid": "Sigmoid",
            "gelu": _gelu(one),
            "saturate": "Saturate<ElementD>",
        }[one.word]
    )


def _gelu(one: Operation) -> str:
    return f"GeluErf<{one.degree}>" if one.form == "erf" else "GeluTanh"


def faults(spec: Spec, scalar: ElementType, problems: Sequence[Problem]) -> Iterator[Fault]:
    """Operations that the kernel's type of scalars does not have, and scalars of problems that the epilogue does not."""
    if spec.problems:
        yield from scalar_faults(spec, problems)
    yield from _gated_faults(spec)
    for i, one in enumerate(spec.epilogue.operations or ()):
        if scalar.word == "s32" and one.word in _OF_FLOATS:
            yield Fault(
                ("epilogue", i),
                f"{one.word} needs floating point, and this epilogue computes in 32-bit integers",
                "end the list with {cast: f32} or another float type, or omit it",
                {("epilogue",): [*_without_casts(spec), {"cast": "f32"}]},
            )
        elif one.amax and scalar.word == "s32":
            rest = [entry.model_dump(mode="json") for entry in spec.epilogue.operations or () if entry is not one]
            yield Fault(
                ("epilogue", i),
                "amax is of floating point, and this epilogue computes in 32-bit integers",
                "end the list with {cast: f32} or another float type, or omit it",
                {("epilogue",): rest or ABSENT},
            )
        elif one.overflow == "infinity" and one.cast not in (*_WITH_INFINITY, "f64"):
            yield Fault(
                ("epilogue", i, "overflow"),
                f"conversions to {one.cast} saturate",
                "saturate, or omit it",
                {("epilogue", i, "overflow"): "saturate"},
            )
        elif one.clamp:
            yield from clamp_faults(("epilogue", i), one.clamp, scalar.word)
        elif scalar.word == "s32" and one.type and one.type not in ("s32", "s8", "u8"):
            yield Fault(
                ("epilogue", i, "type"),
                f"{one.type} is not added to 32-bit integers",
                "s32, s8 or u8",
                {("epilogue", i, "type"): "s32"},
            )
        elif one.type == "f64" and scalar.word != "f64":
            yield Fault(
                ("epilogue", i, "type"),
                f"f64 values lose bits in an epilogue that computes in {scalar.word}",
                "f32, or omit it",
                {("epilogue", i, "type"): "f32"},
            )


def _gated_faults(spec: Spec) -> Iterator[Fault]:
    """What pairs of columns do not go with."""
    listed = spec.epilogue.operations or ()
    words = [one.word for one in listed]
    if "gated" not in words:
        return
    at = words.index("gated")
    for i, one in enumerate(listed):
        without = [entry.model_dump(mode="json") for entry in listed if entry is not one]
        if one.word == "beta_c":
            what = "C has the shape of D, which gated pairs halve: it cannot be added to them or before them"
            yield Fault(("epilogue", i), what, "omit it, or use {add: residual} before gated", {("epilogue",): without})
        elif i > at and (one.tensor or one.word in ("alpha", "gated")):
            what = f"{one.word} after gated pairs: only operations without arguments may follow them"
            yield Fault(("epilogue", i), what, "put it before gated, or omit it", {("epilogue",): without})
    if spec.operands == "swapped":
        what = "a kernel of the transpose has the two columns of a gated pair in different threads"
        without = [entry.model_dump(mode="json") for entry in listed if entry.word != "gated"]
        # A kernel with weights is always one of the transpose.
        change: dict[Key, Any] = {("epilogue",): without or ABSENT} if spec.weights else {("operands",): ABSENT}
        yield Fault(("operands",), what, "no gated" if spec.weights else "in_order, or no gated", change)
    if spec.epilogue.major == "M":
        what = "gated pairs are neighbours of a row, and D has M contiguous"
        written = [entry.model_dump(mode="json") for entry in listed]
        last = {key: value for key, value in written[-1].items() if key != "major"}
        yield Fault(("epilogue",), what, "major: N in the cast", {("epilogue",): [*written[:-1], last]})


def _without_casts(spec: Spec) -> list[object]:
    return [one.model_dump(mode="json") for one in spec.epilogue.operations or () if not one.cast]


def scalar_faults(spec: Spec, problems: Sequence[Problem]) -> Iterator[Fault]:
    """Problems with an alpha or a beta that the epilogue does not have."""
    if spec.epilogue.operations is None:
        return
    words = {one.word for one in spec.epilogue.operations}
    for i, problem in enumerate(problems):
        for key, word, neutral, value in (("alpha", "alpha", 1.0, problem.alpha), ("beta", "beta_c", 0.0, problem.beta)):
            if word not in words and value != neutral:
                yield Fault(
                    ("problems", i, key),
                    f"{key} is {value:g}, and the epilogue has no {word}",
                    f"omit it, or put {word} into the list",
                    {("problems", i, key): ABSENT},
                )
        of_groups = problem.groups.extents if problem.groups else None
        if "gated" in words and (odd := [n for n in (problem.n, *(n for _, n, _ in of_groups or ())) if n % 2]):
            yield Fault(
                ("problems", i),
                f"N is {odd[0]}, and each element of D is made of two columns",
                "an even N",
                {("problems", i): problem.model_copy(update=_with_even_n(problem)).model_dump(mode="json")},
            )
