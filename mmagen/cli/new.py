"""`mmagen new`: asks what a spec is for, as far as options do not say it, and writes the spec."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mmagen.cli.inputs import Place
from mmagen.cli.options import architecture_names, target_names
from mmagen.cli.outputs import line_width, show
from mmagen.core.errors import ExitCode, UsageError
from mmagen.core.screen import table

if TYPE_CHECKING:
    from mmagen.spec.model import Problem
    from mmagen.suggest.cutlass_name import Meaning
    from mmagen.suggest.product import Product
    from mmagen.suggest.start import Suggestion
    from mmagen.suggest.wanted import Wanted

# As verify takes one and as it prints one: 1024,512,64,3 and 1024x512x64 b3.
_PROBLEM = re.compile(r"(\d+)([,x])(\d+)\2(\d+)(?:(?:\2| b)(\d+))?")
# Asked in this order where stdin is a terminal: option, question, default.
_QUESTIONS = (
    ("kernel", "Kernel (ownership, micro or gemm)", "gemm"),
    ("arch", "Architecture", None),
    ("types", "Type of A and B (two types as e4m3,e5m2)", "bf16"),
    ("layout", "Layout (TN, NT, NN, TT; TN: A and B K contiguous)", "TN"),
)


@click.command("new", short_help="Write a spec from a few answers.")
@click.argument("file", required=False, type=Place(path_type=Path, dir_okay=False, allow_dash=True), metavar="[FILE]")
@click.option("--kernel", metavar="KERNEL", help="ownership, micro or gemm; default: gemm.")
@click.option(
    "--arch",
    metavar="ARCH",
    shell_complete=architecture_names,
    help="Target architecture; default: the local GPU's, else sm_90a.",
)
@click.option("--type", "types", metavar="TYPE[,TYPE]", help="Type of A and B, or the type of each; default: bf16.")
@click.option(
    "--sums", metavar="TYPE", help="Type of the accumulators; default: f32; s32 for integers, f64 for f64, c64 for c64."
)
@click.option(
    "--out",
    metavar="TYPE",
    help="Type of D; default: the type of A if it has 16 bits, bf16 for fp8, else that of the accumulators.",
)
@click.option("--layout", metavar="LETTERS", help="TN, NT, NN or TT; default: TN, A and B K contiguous.")
@click.option(
    "--problem",
    "problems",
    multiple=True,
    metavar="M,N,K[,B]",
    help="A size to choose the kernel for, which verify also runs. Repeatable.",
)
@click.option("--major", metavar="MODE", help="The contiguous mode of D, N or M; default: N.")
@click.option(
    "--cutlass", "cutlass_name", metavar="KERNEL", help="Take types, layout and architecture from the name of a CUTLASS kernel."
)
@click.option(
    "--torch",
    "expression",
    metavar="EXPR",
    help="Take types, layout and problem from an expression: 'bf16[64, 512] @ bf16[512, 96]'.",
)
@click.option("--cublaslt", "call", metavar="LINE", help="Take the same from a cublasLtMatmul line in cuBLASLt's log.")
@click.option("--name", metavar="NAME", help="Name of the project; default: made from the answers.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def command(
    file: Path | None,
    problems: tuple[str, ...],
    force: bool,
    cutlass_name: str | None,
    expression: str | None,
    call: str | None,
    **given: str | None,
) -> int:
    """Write a spec to FILE (default: NAME.yaml; - is stdout), with the reason for each choice.

    If stdin is a terminal, asks for what no option gives; otherwise uses the defaults. The tile and schedule of a gemm are those
    with the least predicted time among some hundreds.
    """
    if sum(source is not None for source in (cutlass_name, expression, call)) > 1:
        raise UsageError("--cutlass, --torch and --cublaslt exclude each other; give one of them")
    computed = _of_product(expression, call)
    meant = _of_cutlass(cutlass_name)
    said = computed.answers if computed else {"kernel": "gemm", **meant.answers} if meant else {}
    if given["types"] is not None:  # of other types the sums and D are other, too
        said = {key: value for key, value in said.items() if key not in ("sums", "out")}
    given |= {key: value for key, value in said.items() if given.get(key) is None}
    problems = problems or ((computed.problem,) if computed else ())
    answers = _asked(given, problems) if sys.stdin.isatty() else (given, problems)
    want = _wanted(*answers, computed, meant)
    if want.remark:
        show(want.remark, err=True)
    from mmagen.suggest.start import suggest

    path = file or Path(f"{want.name}.yaml")
    if str(path) == "-":
        found = suggest(want)
        _accepted(found, "-")
        click.echo(found.text, nl=False)
        return ExitCode.OK
    if path.exists() and not force:
        raise UsageError(f"{path} exists; name another file, or --force overwrites it")
    found = suggest(want)
    _accepted(found, str(path))
    try:
        path.write_text(found.text, "utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    _report(found, path)
    return ExitCode.OK


def _of_cutlass(name: str | None) -> Meaning | None:
    """What the name of a kernel says."""
    if name is None:
        return None
    from mmagen.suggest.cutlass_name import meaning

    return meaning(name)


def _of_product(expression: str | None, call: str | None) -> Product | None:
    """What an expression of torch or a call of cuBLASLt computes."""
    if expression is not None:
        from mmagen.suggest.torch_expression import product

        return product(expression)
    if call is not None:
        from mmagen.suggest.cublaslt_call import product as of_call

        show("cuBLASLt's column-major D is the row-major D of the exchanged operands: its B is A here, its A is B", err=True)
        return of_call(call)
    return None


def _asked(given: dict[str, str | None], problems: Sequence[str]) -> tuple[dict[str, str | None], Sequence[str]]:
    """The answers, each question with its default."""
    answers = dict(given)
    for option, question, default in _QUESTIONS:
        if answers[option] is None:
            answers[option] = click.prompt(question, default=default or _local_target(), err=True)
    if not problems:
        text = click.prompt(
            "Sizes M,N,K of the gemm, separated by spaces (none: any size)", default="", show_default=False, err=True
        )
        problems = text.split()
    return answers, problems


def _wanted(given: dict[str, str | None], problems: Sequence[str], computed: Product | None, meant: Meaning | None) -> Wanted:
    from mmagen.suggest.wanted import wanted

    options: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    targets = target_names((options.get("arch") or _local_target(),))
    if len(targets) != 1:
        raise UsageError(f"--arch {','.join(targets)}: a spec begins with one architecture; add others to its key arch")
    options["arch"] = targets[0]
    further: dict[str, Any] = {"operations": computed.operations, "keys": computed.keys} if computed else {}
    remark = computed.remark if computed else meant.remark if meant else ""
    return wanted(**options, **further, remark=remark, problems=tuple(map(_problem, problems)))


def _local_target() -> str:
    """The local GPU's architecture, of Hopper and later with its suffix, else sm_90a."""
    from mmagen.toolchain.find import find_toolchain

    gpus = find_toolchain(want=("gpus",)).gpus
    if not gpus:
        return "sm_90a"
    major, minor = gpus[0].capability
    return f"sm_{major}{minor}{'a' * (major >= 9)}"


def _problem(text: str) -> Problem:
    from pydantic import ValidationError

    from mmagen.core.layout_text import INT_MAX
    from mmagen.spec.model import Problem

    found = _PROBLEM.fullmatch(text.strip())
    if not found:
        raise UsageError(f"--problem {text}: write it as M,N,K or M,N,K,BATCH, e.g. 4096,4096,1024")
    try:
        return Problem.model_validate([int(part) for part in found.group(1, 3, 4, 5) if part])
    except ValidationError:
        raise UsageError(f"--problem {text}: M, N, K and BATCH are 1 to {INT_MAX}") from None


def _accepted(found: Suggestion, file: str) -> None:
    """Raises SpecError where the loader refuses what was written: a name, which only it judges."""
    from mmagen.core.errors import SpecError
    from mmagen.families.reading import read

    _, diagnostics = read(found.text, file)
    if diagnostics:
        raise SpecError(diagnostics)


def _report(found: Suggestion, path: Path) -> None:
    if len(found.ranking.candidates) > 1:
        from mmagen.suggest.write import EQUAL_FIRST, rows

        show(
            f"{len(found.ranking.candidates):,} candidates; predicted on {found.ranking.device.title}; {EQUAL_FIRST}:", err=True
        )
        click.echo(table(("us", "keys"), rows(found.ranking), line_width(err=True)), err=True)
    pasted = shlex.quote(str(path))
    show(f"wrote {path}; next: mmagen inspect {pasted}, mmagen verify {pasted}", err=True)
