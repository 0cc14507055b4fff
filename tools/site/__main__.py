"""python -m tools.site [--out DIR]: make the pages and build the site with mkdocs; a warning is an error."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.site.pages import ROOT, pages


def write(sources: Path) -> None:
    """docs/ and the made pages, in an empty folder."""
    shutil.rmtree(sources, ignore_errors=True)
    shutil.copytree(ROOT / "docs", sources)
    for path, text in pages().items():
        target = sources / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")


def build(out: Path) -> int:
    """Exit code of mkdocs, whose warnings are printed. (With --quiet it would not count them.)"""
    write(ROOT / "build/docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", "mkdocs.yml", "--site-dir", str(out)]
    # The theme's announcement of a later mkdocs is no warning about these pages.
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    print("\n".join(line for line in done.stderr.splitlines() if not line.startswith("INFO")), file=sys.stderr)
    return done.returncode


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build/site", help="folder of the site; default: build/site")
    return build(parser.parse_args().out.absolute())


if __name__ == "__main__":
    sys.exit(main())
