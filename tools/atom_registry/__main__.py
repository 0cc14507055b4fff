"""python -m tools.atom_registry [--check]: writes mmagen/mma/operations.json, or says whether it would change.

Needs nvcc, which hands over to the host compiler, and the CUTLASS headers; no GPU. Takes a few minutes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mmagen.toolchain.find import Toolchain, find_toolchain
from tools.atom_registry import choices, oracle, rows
from tools.atom_registry.scan import scan

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "mmagen" / "mma" / "operations.json"


def make(toolchain: Toolchain) -> str:
    """The text of operations.json for the toolchain's CUTLASS."""
    assert toolchain.cutlass
    structs = scan(toolchain.cutlass.path)
    wanted = [(struct, choices.representative(struct)) for struct in structs]
    wanted += [(struct, variant) for struct in structs for variant in choices.variants(struct)]
    return rows.spell(rows.data(structs, wanted, oracle.ask(wanted, toolchain)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.atom_registry")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file would change")
    arguments = parser.parse_args()
    toolchain = find_toolchain(want=("cutlass", "nvcc", "host_compiler"))
    toolchain.need("cutlass", "nvcc", "host_compiler")
    text = make(toolchain)
    if arguments.check:
        changed = text != DATA.read_text("utf-8")
        print(f"{DATA}: {'differs from the headers' if changed else 'agrees with the headers'}")
        return int(changed)
    DATA.write_text(text, "utf-8")
    print(f"{DATA}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
