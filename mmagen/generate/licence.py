"""The licence of generated files, as an SPDX expression in the first line of each that can have comments."""

from __future__ import annotations

from pathlib import PurePosixPath

# As templates/project/common/LICENSE: generated files may be used without conditions.
EXPRESSION = "MIT-0"
_COMMENTS = {".h": "//", ".cuh": "//", ".cu": "//", ".cpp": "//", ".cmake": "#", ".txt": "#", ".in": "#", ".svg": "<!--"}


def licensed(path: str, content: bytes) -> bytes:
    """The content of a file (or of a template, by its path without .j2), below its licence where the format has comments."""
    comment = _COMMENTS.get(PurePosixPath(path.removesuffix(".j2")).suffix)
    end = " -->" if comment == "<!--" else ""
    return f"{comment} SPDX-License-Identifier: {EXPRESSION}{end}\n".encode() + content if comment else content
