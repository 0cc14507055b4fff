"""python -m tools.site.hover [NAME...]: screenshots of pages of `mmagen inspect --html` in a browser, with the pointer at a cell,
for docs/ownership.md. Needs what tools/site/browser.py says."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmagen.families.reading import read
from mmagen.inspect.maps import parse_window
from mmagen.inspect.page import to_html
from tools.site import browser

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/figures/hover"


@dataclass(frozen=True)
class Screenshot:
    """spec: of specs/; picture: of its page; at: the place that is pointed at, and size: what of the picture is to be seen, in
    pixels. window: as of --window."""

    spec: str
    picture: str
    at: tuple[int, int]
    size: tuple[int, int]
    window: str = ""


SCREENSHOTS = {
    "owner": Screenshot("sm80_gemm_classic", "1-A", (195, 144), (770, 300)),
    "whole": Screenshot("sm80_gemm_classic", "1-C", (250, 120), (770, 300), "all"),
    "bank": Screenshot("sm90_gemm_bf16_tn", "1-A-banks", (150, 104), (770, 250)),
    "bank-plain": Screenshot("sm90_gemm_bf16_tn", "1-A-banks-plain", (150, 104), (770, 194)),
    "pipeline": Screenshot("sm90_gemm_bf16_tn", "pipeline", (300, 37), (770, 200)),
}


def take(chromium: browser.Chromium, one: Screenshot, path: Path) -> str:
    """Write a screenshot, and return what the page says on it."""
    source = ROOT / f"specs/{one.spec}.yaml"
    plan, _ = read(source.read_bytes(), source.name)
    assert plan
    with tempfile.TemporaryDirectory(prefix="mmagen-hover-") as folder:
        page = Path(folder) / "page.html"
        page.write_text(to_html(plan, parse_window(one.window) if one.window else {}), "utf-8")
        with chromium.open(page) as shown:
            says = shown.hover(one.picture, *one.at)
            shown.screenshot(path, one.picture, *one.size)
    return says


def main(names: Sequence[str]) -> int:
    """The command."""
    why = browser.missing()
    if why:
        print(why, file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with browser.chromium() as chromium:
        for name, one in SCREENSHOTS.items():
            if not names or name in names:
                path = FOLDER / f"{name}.png"
                print(f"wrote {path.relative_to(ROOT)}: {take(chromium, one, path)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
