"""python -m tools.site.figures [--check] [--traced]: the pictures in docs/figures, which the README and the course show.

--traced: also those of what the emulator executes, which need nvcc.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from mmagen.families.reading import read
from mmagen.inspect.page import pictures
from mmagen.plan.plans import GemmPlan
from mmagen.toolchain.find import find_toolchain
from mmagen.verify.emulated.traced import trace

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/figures"
# Figure -> spec, and the picture of `mmagen inspect --svg` of it.
FIGURES = {
    "atom-c": ("hello_ownership", "0-C"),
    "copy-wide": ("sm80_gemm_classic", "A-copy-wide"),
    "pipeline": ("sm90_gemm_bf16_tn", "pipeline"),
    "pipeline-multistage": ("sm80_gemm_classic", "pipeline"),
    "pipeline-pingpong": ("sm90_gemm_bf16_pingpong", "pipeline"),
    "raster": ("sm90_gemm_bf16_tn", "raster"),
}
TRACED = {"pipeline-traced": ("sm90_gemm_bf16_pingpong", "pipeline-traced")}


def figures(with_traced: bool = False) -> Iterator[tuple[Path, str]]:
    """Path and content of each."""
    for figure, (spec, name) in (FIGURES | (TRACED if with_traced else {})).items():
        path = ROOT / f"specs/{spec}.yaml"
        plan, _ = read(path.read_bytes(), path.name)
        assert plan
        events = trace(cast(GemmPlan, plan), find_toolchain()) if figure in TRACED else ()
        found = {one.name: one.svg for one in pictures(plan, {}, trace=events)}
        yield FOLDER / f"{figure}.svg", found[name]


def main() -> int:
    """The command: 1 if --check finds a difference."""
    differ = [
        (path, svg) for path, svg in figures("--traced" in sys.argv) if not path.exists() or path.read_text("utf-8") != svg
    ]
    for path, svg in differ:
        print(f"{path.relative_to(ROOT)} differs" if "--check" in sys.argv else f"wrote {path.relative_to(ROOT)}")
        if "--check" not in sys.argv:
            FOLDER.mkdir(parents=True, exist_ok=True)
            path.write_text(svg, "utf-8")
    return int("--check" in sys.argv and bool(differ))


if __name__ == "__main__":
    sys.exit(main())
