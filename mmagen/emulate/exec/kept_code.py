"""Code objects of blocks in a file, so that a later process need not compile the same Python source again.

The source is generated anew in each process, since it refers to objects, and kept code is used only if it was compiled from the
same source. So a file from another version of the emulator does no harm. Like the other files of the cache it is trusted: its
digest detects damage, not malice.
"""

from __future__ import annotations

import contextlib
import importlib.util
import marshal
import os
import sys
import zlib
from hashlib import sha256
from pathlib import Path
from types import CodeType

from mmagen.core.digests import write_file

_DIGEST = sha256().digest_size

Key = tuple[str, bool, bool, int, bool, bool, int]
"""A function: the entry's name, checks, traced; start of the block, full, follows, first (see Compiled.function)."""


class KeptCode:
    """The code of the entries of a PTX module.

    folder: of such files. ptx: the module's text. A file that is absent or damaged holds nothing.
    """

    def __init__(self, folder: Path, ptx: str):
        about = f"{sys.implementation.cache_tag} {sys.flags.optimize} ".encode() + importlib.util.MAGIC_NUMBER
        self.path = folder / sha256(about + ptx.encode()).hexdigest()
        self._codes = _load(self.path)
        self._changed = False
        if self._codes:
            with contextlib.suppress(OSError):  # for `mmagen cache prune`: it was used now
                os.utime(self.path)

    @property
    def functions(self) -> tuple[Key, ...]:
        """Those whose code it has."""
        return tuple(self._codes)

    def code(self, key: Key, source: str, file: str) -> CodeType:
        """The code of a function's source, compiled unless it is there. file: its name in tracebacks."""
        digest = sha256(source.encode()).digest()
        known = self._codes.get(key)
        if known and known[0] == digest:
            return known[1]
        code: CodeType = compile(source, file, "exec")
        self._codes[key] = digest, code
        self._changed = True
        return code

    def save(self) -> None:
        """Write the file if there is new code, with that of other processes. A file that cannot be written is no error."""
        if not self._changed:
            return
        self._changed = False
        self._codes = _load(self.path) | self._codes
        data = zlib.compress(marshal.dumps(self._codes), level=1)  # to a seventh
        with contextlib.suppress(OSError):
            write_file(self.path, sha256(data).digest() + data)


def _load(path: Path) -> dict[Key, tuple[bytes, CodeType]]:
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    if sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
        return {}
    codes: dict[Key, tuple[bytes, CodeType]] = marshal.loads(zlib.decompress(data[_DIGEST:]))
    return codes
