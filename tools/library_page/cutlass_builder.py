"""Adds GEMMs of CUTLASS 3.x's collective builders to the program that times a library's kernels, as further kernels of it.

Each configuration is a translation unit of its own, compiled as the library's are and linked into the same program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from mmagen.core.errors import UsageError
from mmagen.plan.plans import GemmPlan

PREFIX = "cutlass_"
_SOURCES = Path(__file__).parent
_HEADERS = ("cutlass_product.h", "cutlass_gemm.cuh")
_LINE_BYTES = 128  # of a k tile


@dataclass(frozen=True)
class Configuration:
    """tile: (M, N) of a CTA; K is 128 bytes. cluster: (M, N) CTAs. schedule: Cooperative or Pingpong."""

    tile: tuple[int, int]
    cluster: tuple[int, int] = (1, 1)
    schedule: str = "Cooperative"
    stream_k: bool = False

    @property
    def name(self) -> str:
        m, n = self.tile
        words = [f"{m}x{n}", "{}x{}".format(*self.cluster), self.schedule.lower(), *(["stream_k"] * self.stream_k)]
        return PREFIX + "_".join(words)


CONFIGURATIONS = (
    Configuration((128, 256), (2, 1)),
    Configuration((128, 256), (1, 2)),
    Configuration((256, 128), (2, 1)),
    Configuration((256, 128), (1, 2)),
    Configuration((128, 192), (2, 1)),
    Configuration((128, 128), (2, 1)),
    Configuration((128, 256), (2, 1), stream_k=True),
    Configuration((128, 128), (2, 1), stream_k=True),
    Configuration((64, 256), (2, 1), "Pingpong"),
    Configuration((64, 256), (1, 2), "Pingpong"),
    Configuration((64, 192), (2, 1), "Pingpong"),
    Configuration((64, 128), (1, 1), "Pingpong"),
    Configuration((64, 128), (2, 1), "Pingpong"),
    Configuration((64, 64), (1, 1), "Pingpong"),
    Configuration((64, 64), (1, 2), "Pingpong"),
    Configuration((64, 32), (1, 1), "Pingpong"),
)
# Tiles of one dimension that follow each other, at most. Chosen at run time, so that a translation unit has a kernel for each.
SWIZZLES = (1, 8)


def names() -> tuple[str, ...]:
    """Of the kernels that add_to() adds."""
    return tuple(name for name, _, _ in _kernels())


def check(plan: GemmPlan) -> None:
    """Raises UsageError for a library that the configurations are no counterpart of."""
    if plan.arch != ("sm_90a",) or plan.epilogue.operations:
        raise UsageError(
            f"{plan.name}: the collective builders are called for sm_90a alone, without operations after the product"
        )


def add_to(project: Path, plan: GemmPlan) -> None:
    """Write the configurations into the project of a library that check() accepts, in the types and layouts of `plan`."""
    folder = project / "tests/cutlass"
    folder.mkdir()
    for header in _HEADERS:
        (folder / header).write_text((_SOURCES / header).read_text("utf-8"), "utf-8")
    for one in CONFIGURATIONS:
        (folder / f"{one.name}.cu").write_text(_source(one, plan), "utf-8")
    (project / "tests/tune.cu").write_text(_render(_MAIN, plan=plan, kernels=tuple(_kernels())), "utf-8")
    with (project / "tests/CMakeLists.txt").open("a", encoding="utf-8") as file:
        file.write(_render(_TARGET, plan=plan, units=[one.name for one in CONFIGURATIONS]))


def _kernels() -> Iterator[tuple[str, str, int]]:
    """Name, configuration and swizzle of each kernel."""
    for one in CONFIGURATIONS:
        for swizzle in SWIZZLES:
            yield f"{one.name}_swizzle{swizzle}", one.name, swizzle


def _source(one: Configuration, plan: GemmPlan) -> str:
    a, b = plan.operands[:2]
    fast = "FP8FastAccum" if a.element.bits == 8 and plan.spec.accumulation == "fast" else ""
    types = {"A": a.element.cxx, "B": b.element.cxx, "D": plan.epilogue.out.cxx, "Accumulator": plan.atom.type_d.cxx}
    layouts = {
        "LayoutA": "RowMajor" if a.major == "K" else "ColumnMajor",
        "LayoutB": "ColumnMajor" if b.major == "K" else "RowMajor",  # of (K,N), as CUTLASS has it
        "LayoutD": "RowMajor" if plan.epilogue.major == "N" else "ColumnMajor",
    }
    epilogue = one.schedule if one.schedule == "Cooperative" else ""  # of pingpong: that of one warpgroup
    return _render(
        _UNIT,
        one=one,
        types=types,
        layouts=layouts,
        tile=(*one.tile, _LINE_BYTES * 8 // a.element.bits),
        cluster=(*one.cluster, 1),
        mainloop=f"cutlass::gemm::KernelTmaWarpSpecialized{one.schedule}{fast}",
        epilogue=f"cutlass::epilogue::TmaWarpSpecialized{epilogue}",
        scheduler=f"cutlass::gemm::{'StreamK' if one.stream_k else 'Persistent'}Scheduler",
    )


def _render(text: str, **values: object) -> str:
    return Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True).from_string(text).render(values)


_UNIT = """\
{% if not one.stream_k %}
#define CUTLASS_ENABLE_GDC_FOR_SM90 1
{% endif %}
#include "cutlass_gemm.cuh"

namespace {
struct Config {
{% for name, type in types.items() %}
  using {{ name }} = {{ type }};
{% endfor %}
{% for name, layout in layouts.items() %}
  using {{ name }} = cutlass::layout::{{ layout }};
{% endfor %}
  using Tile = cute::Shape<{% for extent in tile %}cute::_{{ extent }}{{ ", " if not loop.last }}{% endfor %}>;
  using Cluster = cute::Shape<{% for extent in cluster %}cute::_{{ extent }}{{ ", " if not loop.last }}{% endfor %}>;
  using Mainloop = {{ mainloop }};
  using Epilogue = {{ epilogue }};
  using Scheduler = {{ scheduler }};
};
}  // namespace

char const* {{ one.name }}(cutlass_builder::Product const& product, int swizzle) {
  return cutlass_builder::Gemm<Config>::run(product, swizzle);
}
"""
_MAIN = """\
// Verifies and times each kernel of {{ plan.name }} and GEMMs of CUTLASS's collective builders on many problems, beside cuBLASLt.
#include "cutlass/cutlass_product.h"
#include "tune_subject.cuh"

{% for unit in kernels | map(attribute=1) | unique %}
char const* {{ unit }}(cutlass_builder::Product const& product, int swizzle);
{% endfor %}

namespace {

using Configuration = char const*(cutlass_builder::Product const&, int);

template <Configuration* kConfiguration, int kSwizzle>
int run_cutlass(mmagen::test::Call const& call, cudaStream_t stream) {
  using mmagen::test::Disposition;
  using mmagen::test::Failure;
  if (call.beta != 0) { throw Failure{Disposition::kFailed, "CUTLASS's kernels are built without C"}; }
  cutlass_builder::Product const product{call.m,    call.n,    call.k,    call.batch,          call.alpha,          call.a.data,
                                         call.b.data, call.d.data, call.a.ld, call.b.ld,         call.d.ld,
                                         call.a.batch_stride, call.b.batch_stride, call.d.batch_stride, stream};
  if (char const* const wrong = kConfiguration(product, kSwizzle)) {
    throw Failure{Disposition::kNotSupported, std::string("CUTLASS: ") + wrong};
  }
  return 0;
}

struct WithCutlass : TuneSubject {
  static std::vector<mmagen::test::NamedKernel> kernels() {
    std::vector<mmagen::test::NamedKernel> all = TuneSubject::kernels();
{% for name, unit, swizzle in kernels %}
    all.push_back({"{{ name }}", run_cutlass<{{ unit }}, {{ swizzle }}>});
{% endfor %}
    return all;
  }
};

}  // namespace

int main(int argc, char** argv) { return mmagen::test::tune_main<WithCutlass>(argc, argv); }
"""
_TARGET = """\
target_sources({{ plan.name }}_tune PRIVATE
{% for unit in units %}
  cutlass/{{ unit }}.cu
{% endfor %}
)
target_include_directories({{ plan.name }}_tune SYSTEM PRIVATE ${MMAGEN_CUTLASS_INCLUDE})
"""
