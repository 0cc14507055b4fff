"""python -m tools.site.screens [--check] [NAME...]: what the verbs print on a terminal of 80 columns, for docs/screens.md.

--check prints the names of those that differ, and exits with 1 if there are any.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/figures/screens"
COLUMNS = 80
_PYTHON = str(Path(sys.executable).parent)
# Links to fonts on the network, which pages of the project do not load.
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Screen:
    """commands: typed in a new folder with the specs of `prepare`, one after the other; what each prints is shown. lines: how many
    of each are shown at most. compiles: it takes a compiler."""

    name: str
    commands: Sequence[str]
    lines: int = 60
    compiles: bool = False


SCREENS = (
    Screen("init", ("mmagen init kernels",)),
    Screen("new", ("mmagen new first.yaml --arch sm_90a --type bf16 --problem 4096,4096,4096",), 40),
    Screen("build", ("mmagen build one.yaml", "mmagen build one.yaml --check")),
    Screen("refused", ("mmagen build bad.yaml",)),
    Screen("verify", ("mmagen verify hello.yaml --on cpu",), compiles=True),
    Screen("vendor", ("mmagen vendor one.yaml hello.yaml --into kernels", "mmagen vendor two.yaml hello.yaml --into kernels")),
    Screen("inspect", ("mmagen inspect one.yaml",), 66),
    Screen("ownership", ("mmagen inspect hello.yaml --ownership",), 48),
    Screen("diff", ("mmagen diff one.yaml two.yaml",)),
    Screen("atoms", ("mmagen atoms SM80_16x8x16_F32F16F16F32_TN",), 60),
    Screen("compare", ("mmagen compare old.json new.json",)),
    Screen("cache", ("mmagen cache info",)),
    Screen("doctor", ("mmagen doctor",), compiles=True),
    Screen("peak", ("mmagen peak --list --arch sm_90a SM80_16x8x16*",)),
    Screen("tune", ("mmagen tune --help",)),
)
_SPEC = "specs/sm80_gemm_classic.yaml"


def prepare(folder: Path) -> None:
    """The files that the commands name."""
    text = (ROOT / _SPEC).read_text("utf-8")
    (folder / "one.yaml").write_text(text, "utf-8")
    (folder / "two.yaml").write_text(text.replace("stages: 3", "stages: 4"), "utf-8")
    (folder / "bad.yaml").write_text(text.replace("stages: 3", "stages: 30\nspeed: fast"), "utf-8")
    (folder / "hello.yaml").write_text((ROOT / "specs/hello_micro.yaml").read_text("utf-8"), "utf-8")
    for name, ratio, second in (("old", 1.02, "passed"), ("new", 0.9, "incorrect")):
        records = [
            {"name": "one", "problem": [4096, 4096, 4096], "disposition": "passed", "ratio": ratio, "input_dist": "uniform"},
            {"name": "two", "problem": [1000, 1000, 1000], "disposition": second, "ratio": 1.0, "input_dist": "uniform"},
        ]

        (folder / f"{name}.json").write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")


def typed(command: str, folder: Path) -> str:
    """What a command prints on a terminal, with its colours."""
    # In a cache of its own, but for what takes a compiler.
    environment = os.environ | {"COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    environment.pop("NO_COLOR", None)
    if "verify" not in command:
        environment["MMAGEN_CACHE_DIR"] = str(folder / "cache")
    main, screen = pty.openpty()
    arguments = [sys.executable, "-m", "mmagen", *shlex.split(command)[1:]]
    with subprocess.Popen(
        arguments, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=screen, stderr=screen
    ) as child:
        os.close(screen)
        parts = []
        while True:
            try:
                part = os.read(main, 1 << 16)
            except OSError:  # the end, on Linux
                break
            if not part:
                break
            parts.append(part)
        child.wait()
    os.close(main)
    # A progress bar writes its line again and again.
    lines = b"".join(parts).decode().replace("\r\n", "\n").split("\n")
    text = "\n".join(line.rpartition("\r")[2] for line in lines)
    for place, name in (
        (str(folder), "."),
        (_PYTHON, ".venv/bin"),
        (sys.prefix, ".venv"),
        (str(ROOT), "."),
        (str(Path.home()), "~"),
    ):
        text = text.replace(place, name)
    return text


def svg(screen: Screen) -> str:
    """The picture."""
    from rich.console import Console
    from rich.text import Text

    with tempfile.TemporaryDirectory(prefix="mmagen-screen-") as scratch:
        folder = Path(scratch)
        prepare(folder)
        shown = []
        for command in screen.commands:
            lines = typed(command, folder).rstrip().split("\n")
            more = len(lines) - screen.lines
            shown += [
                f"\x1b[1m$ {command}\x1b[0m",
                *lines[: screen.lines],
                *([f"\x1b[2m... {more} more lines\x1b[0m"] if more > 0 else []),
            ]
    assert all(len(_ANSI.sub("", line)) <= COLUMNS for line in shown), max(shown, key=len)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(
            record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor", legacy_windows=False
        )
        console.print(Text.from_ansi("\n".join(shown)))
        made = _FONTS.sub("", console.export_svg(title="mmagen", unique_id=f"mmagen-{screen.name}"))
    return "\n".join(line.rstrip() for line in made.split("\n")).rstrip() + "\n"


def main(arguments: Sequence[str]) -> int:
    """The command."""
    names = [argument for argument in arguments if not argument.startswith("--")]
    differ = 0
    for screen in SCREENS:
        if names and screen.name not in names:
            continue
        path, made = FOLDER / f"{screen.name}.svg", svg(screen)
        if path.is_file() and path.read_text("utf-8") == made:
            continue
        differ += 1
        if "--check" in arguments:
            print(f"{screen.name} differs")
            continue
        FOLDER.mkdir(parents=True, exist_ok=True)
        path.write_text(made, "utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return int(differ > 0 and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
