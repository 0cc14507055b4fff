"""python -m tools.site.browser: say whether there is a headless Chromium; exit code 1 if not.

The module drives one for pages of `mmagen inspect --html`: what they say of a place that the pointer or the keyboard is at, what it
asks the network for (which it does not have), and screenshots.

playwright drives it, from the extra `browser`. Chromium is the one that MMAGEN_CHROMIUM names, one on PATH, or the one that
`playwright install chromium-headless-shell` has downloaded.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_WIDE, _HIGH = 1600, 2000  # pixels; most pictures are seen whole
_REMEDY = "apt-get install chromium-headless-shell, or playwright install chromium-headless-shell"


# A place of a picture on the screen, and whether the page or the frame of the picture had to scroll for it to be seen.
_SEEN = """([name, x, y]) => {
  const svg = document.getElementById(name).closest("figure").querySelector("svg");
  const [frame, margin] = [svg.parentNode, 40];
  const before = [frame.scrollLeft, scrollY].join();
  const top = frame.getBoundingClientRect().top;
  if (top + y < 0 || top + y > innerHeight - margin) scrollBy(0, top + y - innerHeight / 2);
  if (x < frame.scrollLeft || x > frame.scrollLeft + frame.clientWidth - margin) frame.scrollLeft = x - margin;
  const box = svg.getBoundingClientRect();
  return [box.left + x, box.top + y, before !== [frame.scrollLeft, scrollY].join()];
}"""


@cache
def missing() -> str:
    """What a browser needs and is not there, with the command that installs it; "" if all is there."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        return "no playwright: pip install 'mmagen[browser]'"
    try:
        with sync_playwright() as driver:
            driver.chromium.launch(executable_path=_program()).close()
    except Error as error:
        return f"no Chromium that starts: {_REMEDY} ({str(error).strip().splitlines()[0]})"
    return ""


def _program() -> str | None:
    """None for playwright's own."""
    named = os.environ.get("MMAGEN_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Chromium]:
    """A browser. Raises ImportError without playwright, and its Error where Chromium does not start."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Without the limit a movement of the pointer does not wait for the next frame of a screen.
        browser = driver.chromium.launch(executable_path=_program(), args=["--disable-frame-rate-limit"])
        try:
            yield Chromium(browser)
        finally:
            browser.close()


class Chromium:
    """One that runs."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    @contextmanager
    def open(self, path: Path, *, script: bool = True) -> Iterator[Shown]:
        """A page, without a network. script: does it run its script?"""
        context = self._browser.new_context(
            viewport={"width": _WIDE, "height": _HIGH}, java_script_enabled=script, offline=True
        )
        try:
            yield Shown(context.new_page(), path)
        finally:
            context.close()


class Shown:
    """A page. requests: the addresses that it has asked for, besides its own; errors: what it has written to the console, and what
    its script has not caught."""

    def __init__(self, page: Page, path: Path) -> None:
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._page, address = page, path.absolute().as_uri()
        page.on("request", lambda one: None if one.url == address else self.requests.append(one.url))
        page.on("console", lambda one: self.errors.append(one.text))
        page.on("pageerror", lambda one: self.errors.append(str(one)))
        page.goto(address)

    def run(self, expression: str, argument: object = None) -> object:
        """The value of an expression, or of a function of an argument, in the page."""
        return self._page.evaluate(expression, argument)

    def pictures(self) -> list[str]:
        """Their names."""
        found = self._page.locator("figure, figcaption > [id]").evaluate_all("all => all.map(one => one.id)")
        return [str(name) for name in found]

    def size(self, name: str) -> tuple[int, int]:
        """Width and height of a picture, in pixels."""
        found: list[float] = self._page.evaluate(
            "name => { const box = document.querySelector(name).getBoundingClientRect(); return [box.width, box.height]; }",
            _picture(name),
        )
        return round(found[0]), round(found[1])

    def gridded(self, name: str) -> bool:
        """Has a picture too many cells for titles?"""
        return self._page.locator(_figure(name)).get_attribute("data-grid") is not None

    def caption(self, name: str) -> str:
        """Of a picture."""
        text: str = self._page.locator(f"{_figure(name)} > figcaption").inner_text()
        return text

    def hover(self, name: str, x: float, y: float) -> str:
        """What the page says when the pointer is at a place of a picture; "" for nothing."""
        self._page.mouse.move(*self._seen(name, x, y))
        return self.says()

    def press(self, name: str, keys: Sequence[str]) -> str:
        """What it says when a picture has the focus and keys are pressed."""
        self._page.locator(_picture(name)).focus()
        for key in keys:
            self._page.keyboard.press(key)
        return self.says()

    def says(self) -> str:
        """What it says now."""
        text: str = self._page.evaluate("document.getElementById('says').textContent")
        return text

    def titled(self, name: str, x: float, y: float) -> str:
        """What a browser itself says of a place, by the title of the element there."""
        text: str = self._page.evaluate(
            "([x, y]) => document.elementFromPoint(x, y).parentNode.querySelector(':scope > title')?.textContent ?? ''",
            self._seen(name, x, y),
        )
        return text

    def screenshot(self, path: Path, name: str, width: int, height: int) -> None:
        """The upper left part of a picture, as large as that at most, with what the page says, as PNG."""
        box = self._page.locator(_picture(name)).bounding_box()
        assert box
        seen = min(width, box["width"]), min(height, box["height"])
        self._page.screenshot(path=path, clip={"x": box["x"], "y": box["y"], "width": seen[0], "height": seen[1]})

    def _seen(self, name: str, x: float, y: float) -> tuple[float, float]:
        """A place of a picture on the screen, scrolled to if need be."""
        left, top, scrolled = self._page.evaluate(_SEEN, [name, x, y])
        while scrolled:
            # Away, since what scrolls below a pointer that rests says nothing. What has come to be seen can be pointed at, and be
            # scrolled itself, when it has been drawn; a screenshot waits for that, without a script as well.
            self._page.mouse.move(0, 0)
            self._page.screenshot(clip={"x": 0, "y": 0, "width": 1, "height": 1})
            left, top, scrolled = self._page.evaluate(_SEEN, [name, x, y])
        return left, top


def _picture(name: str) -> str:
    return f"{_figure(name)} svg"


def _figure(name: str) -> str:
    """Of a picture, which kernels of a library may share."""
    return f'figure:is([id="{name}"], :has(> figcaption > [id="{name}"]))'


if __name__ == "__main__":
    print(missing() or f"Chromium: {_program() or 'of playwright'}")
    sys.exit(bool(missing()))
