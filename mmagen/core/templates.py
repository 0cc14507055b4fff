"""Locates the templates and the example specs."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def templates_folder() -> Path:
    """templates/ beside the package in a checkout, inside the package when installed from a wheel."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "_templates"
    return installed if installed.is_dir() else package.parent / "templates"


@cache
def examples_folder() -> Path:
    """specs/ of a checkout; installed from a wheel, its copy inside the package."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "_specs"
    return installed if installed.is_dir() else package.parent / "specs"
