"""The screenshots of docs/ownership.md: they are there, small, and each shows a place of a page."""

from __future__ import annotations

import re

import pytest

from tools.site import browser, hover

PAGE = (hover.ROOT / "docs/ownership.md").read_text("utf-8")


def test_the_page_shows_every_screenshot():
    assert sorted(re.findall(r"figures/hover/([\w-]+)\.png", PAGE)) == sorted(hover.SCREENSHOTS)
    for name, one in hover.SCREENSHOTS.items():
        image = (hover.FOLDER / f"{name}.png").read_bytes()
        width, height = (int.from_bytes(image[at : at + 4], "big") for at in (16, 20))
        assert image[:8] == b"\x89PNG\r\n\x1a\n" and len(image) < 80_000
        assert width <= one.size[0] and height <= one.size[1]


@pytest.mark.parametrize("name", ["whole", "pipeline"])
def test_a_screenshot_has_the_pointer_at_a_cell(name, tmp_path):
    if browser.missing():
        pytest.skip(browser.missing())  # tests/inspect/test_browser.py fails of that in CI
    with browser.chromium() as chromium:
        says = hover.take(chromium, hover.SCREENSHOTS[name], tmp_path / "made.png")
    assert says and (tmp_path / "made.png").read_bytes()[:4] == b"\x89PNG"


def test_what_is_missing_is_said(monkeypatch, capsys):
    monkeypatch.setattr(browser, "missing", lambda: "no Chromium: install it")
    assert hover.main([]) == 1 and capsys.readouterr().err == "no Chromium: install it\n"
