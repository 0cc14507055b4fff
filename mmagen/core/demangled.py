"""Readable names of C++ functions, by the host's c++filt."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from mmagen.core.process import capture


def demangled(names: Sequence[str], env: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """`names` as in the source; unchanged where c++filt is not installed or fails. env: of the process, by default its own."""
    env = os.environ if env is None else env
    program = shutil.which("c++filt", path=env.get("PATH", ""))
    if not program or not names:
        return tuple(names)
    try:
        readable = capture([program, *names], timeout_s=30, env=env).stdout.splitlines()
    except OSError:
        return tuple(names)
    return tuple(readable) if len(readable) == len(names) else tuple(names)
