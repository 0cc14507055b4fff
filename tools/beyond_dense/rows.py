"""What is compared with what: kernels of specs/ on problems, the candidates beside them, and the ratio that each is to reach."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from mmagen.spec.groups import Groups
from mmagen.spec.model import Problem
from mmagen.tuning.problems import as_argument, random_problems

_SEED = 12  # of the random problems
_ZIPF_SEED = 1
_COUNT = 40
_STEP = 16  # of every extent: TMA and cuBLASLt take such rows of e4m3, and cuBLASLt such scales
_MOST_PRODUCTS = 2**41  # of one random problem, whose reference takes the longest


@dataclass(frozen=True)
class Kernel:
    """A spec of specs/ by its name without `.yaml`. plain: the same without the operations of its epilogue. graphs: launches are
    timed in CUDA graphs."""

    spec: str
    plain: bool = False
    graphs: bool = True

    @property
    def name(self) -> str:
        """Of the library."""
        return f"{self.spec}_plain" if self.plain else self.spec


@dataclass(frozen=True)
class Time:
    """Of a candidate on a problem, in a run of a kernel's benchmark. candidate: "" for the kernel itself."""

    kernel: Kernel
    problem: str
    candidate: str = ""


@dataclass(frozen=True)
class Pair:
    """What is compared. label: of the problem, for people."""

    label: str
    ours: Time
    other: Time


@dataclass(frozen=True)
class Against:
    """A line of the summary. what: the other side. mean, least: that the geometric mean and the lowest ratio are to reach."""

    what: str
    pairs: tuple[Pair, ...]
    mean: float
    least: float | None = None


@dataclass(frozen=True)
class Row:
    """rounds: how often everything is measured, in another order each time, where programs are compared with each other.
    not_run: what the row is also to be compared with, and why it is not."""

    title: str
    against: tuple[Against, ...]
    rounds: int = 1
    not_run: tuple[str, ...] = ()

    def problems(self) -> Mapping[Kernel, tuple[str, ...]]:
        """All that has to be measured, each once."""
        found: dict[Kernel, dict[str, None]] = {}
        for against in self.against:
            for pair in against.pairs:
                for time in (pair.ours, pair.other):
                    found.setdefault(time.kernel, {})[time.problem] = None
        return {kernel: tuple(of) for kernel, of in found.items()}


_SQUARE, _LARGE, _WIDE = "4096,4096,4096", "8192,8192,8192", "4096,14336,4096"


def rows() -> dict[str, Row]:
    """By the names that --rows takes, in the order of the page."""
    return {
        "sparse": _sparse(),
        "scaled": _scaled(),
        "epilogue": _epilogue(),
        "beta": _beta(),
        "grouped": _grouped(),
        "mixed": _mixed(),
    }


def label(problem: str) -> str:
    """`4096 x 4096 x 4096`, and what else the problem says."""
    extents, _, rest = problem.partition(":")
    return " x ".join(extents.split(",")) + (f", {rest}" if rest else "")


def _beside(kernel: Kernel, problems: tuple[str, ...], candidate: str, about: str = "") -> tuple[Pair, ...]:
    """The kernel and a candidate of the same run."""
    return tuple(
        Pair(f"{about}{label(problem)}", Time(kernel, problem), Time(kernel, problem, candidate)) for problem in problems
    )


def _sparse() -> Row:
    problems = (_SQUARE, _LARGE, _WIDE, "64,8192,8192")
    pairs: tuple[Pair, ...] = ()
    for word in ("bf16", "f16", "e4m3", "s8"):
        pairs += _beside(Kernel(f"sm90_gemm_sparse_{word}"), problems, "cusparseLt_best", f"{word}, ")
    return Row("2:4 sparse A", (Against("cuSPARSELt, the best of its search", pairs, 1.10),))


def _scaled() -> Row:
    named = (_SQUARE, _LARGE, "4096,7168,2048", "128,7168,16384", "64,4096,4096")
    kernel = Kernel("sm90_gemm_e4m3_blocks")
    pairs = _beside(kernel, (*named, *aligned_problems(_SEED, _COUNT)), "cublasLt_best8")
    return Row(
        "Block-scaled e4m3 to bf16",
        (
            Against("cuBLASLt's block-scaled product, best of 8", pairs, 1.10, 0.95),
            Against("the same, the five problems with names", pairs[: len(named)], 1.10, 0.95),
        ),
        not_run=("DeepGEMM: it compiles its kernels when they are called, from sources that this repository does not have",),
    )


def aligned_problems(seed: int, count: int) -> tuple[str, ...]:
    """Random problems of `mmagen tune` with extents rounded to what TMA and cuBLASLt can address, without the largest."""
    drawn = random_problems(seed, 4 * count, (1, 1, 2))
    shapes = [tuple(max(_STEP, extent // _STEP * _STEP) for extent in one.shape) for one in drawn]
    fitting = [shape for shape in dict.fromkeys(shapes) if math.prod(shape) <= _MOST_PRODUCTS]
    return tuple(as_argument(Problem.model_validate(list(shape))) for shape in fitting[:count])


def _epilogue() -> Row:
    plain: tuple[Pair, ...] = ()
    library: tuple[Pair, ...] = ()
    product: tuple[Pair, ...] = ()
    for spec, about in (("sm90_gemm_bf16_gelu", "bias and gelu, "), ("sm90_gemm_bf16_swiglu", "gated silu, ")):
        for problem in (_LARGE, _WIDE):
            ours, without = Time(Kernel(spec), problem), Time(Kernel(spec, plain=True), problem)
            plain += (Pair(f"{about}{label(problem)}", ours, without),)
    library += _beside(Kernel("sm90_gemm_bf16_gelu"), (_LARGE, _WIDE), "cublasLt_best8", "bias and gelu, ")
    product += _beside(Kernel("sm90_gemm_bf16_swiglu"), (_LARGE, _WIDE), "cublasLt_plain", "gated silu, ")
    return Row(
        "Bias and gelu, gated silu",
        (
            Against("the same kernel without the operations of its epilogue", plain, 0.98),
            Against("cuBLASLt with bias and gelu (the form with tanh), best of 8", library, 1.05),
            Against("cuBLASLt's product alone, which is less work, best of 8", product, 1.05),
        ),
        rounds=3,
        not_run=("cuBLASLt with gated silu: it has no such epilogue",),
    )


def _beta() -> Row:
    kernel = Kernel("sm90_gemm_bf16_tn")
    pair = Pair(label(_SQUARE), Time(kernel, f"{_SQUARE}:beta=1"), Time(kernel, _SQUARE))
    return Row("beta = 1 with C in bf16", (Against("the kernel without C", (pair,), 0.95),), rounds=3)


# experts, tokens, N and K, and whose.
_EXPERTS = (
    (8, 4096, 14336, 4096, "Mixtral"),
    (8, 4096, 4096, 14336, "Mixtral"),
    (64, 8192, 4096, 7168, "DeepSeek-V3"),
    (64, 8192, 7168, 2048, "DeepSeek-V3"),
    (256, 65536, 4096, 7168, "DeepSeek-V3"),
    (256, 65536, 7168, 2048, "DeepSeek-V3"),
)


def _grouped() -> Row:
    bf16, e4m3, dense = (Kernel(f"sm90_gemm_{name}") for name in ("bf16_grouped", "e4m3_grouped", "e4m3_blocks"))
    graph: tuple[Pair, ...] = ()
    loop: tuple[Pair, ...] = ()
    whole: tuple[Pair, ...] = ()
    for kernel, about in ((bf16, "bf16"), (e4m3, "scaled e4m3")):
        for experts, tokens, n, k, model in _EXPERTS:
            sizes = Groups(experts=experts, tokens=tokens, exponent=1.0, seed=_ZIPF_SEED).sizes
            ours = Time(kernel, f"{tokens},{n},{k}:groups={'+'.join(map(str, sizes))}")
            text = f"{about}, {experts} experts, {tokens} tokens, N = {n}, K = {k} ({model})"
            graph += (Pair(text, ours, Time(kernel, ours.problem, "cublasLt_loop")),)
            launched = Kernel(kernel.spec, graphs=False)
            loop += (Pair(text, Time(launched, ours.problem), Time(launched, ours.problem, "cublasLt_loop")),)
            product = f"{tokens},{n},{k}"
            other = Time(bf16, ours.problem, "cublasLt_dense") if kernel == bf16 else Time(dense, product, "cublasLt_first")
            whole += (Pair(text, ours, other),)
    return Row(
        "Grouped, tokens by Zipf's law",
        (
            Against("a loop of cuBLASLt calls", loop, 1.5),
            Against("the same loop, both in CUDA graphs", graph, 1.5),
            Against("one dense product of the same operations, cuBLASLt's first heuristic", whole, 0.90),
        ),
    )


def _mixed() -> Row:
    problems = tuple(f"{m},{n},{k}" for n, k in ((4096, 4096), (8192, 28672)) for m in (1, 16, 64))
    pairs = _beside(Kernel("sm90_gemm_s4_bf16"), problems, "cublasLt_best8")
    return Row("s4 x bf16, groups of 128", (Against("cuBLASLt in bf16, best of 8", pairs, 2.0),))


def shuffled(items: list[tuple[Kernel, tuple[str, ...]]], seed: int) -> list[tuple[Kernel, tuple[str, ...]]]:
    """In another order for each seed, the problems of each kernel too."""
    draw = random.Random(seed)
    found = [(kernel, tuple(draw.sample(problems, len(problems)))) for kernel, problems in items]
    draw.shuffle(found)
    return found
