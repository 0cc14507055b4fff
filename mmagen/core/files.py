"""Files that a user names."""

from __future__ import annotations

from pathlib import Path

from mmagen.core.errors import UsageError

_LARGEST = 16 << 20  # bytes of a spec, or of a file of a project: a device such as /dev/zero never ends


def content(path: Path, largest: int = _LARGEST) -> bytes:
    """The bytes of a file that the user names, at most `largest`. Raises UsageError where it cannot be read."""
    try:
        with path.open("rb") as stream:
            found = stream.read(largest + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if len(found) > largest:
        raise UsageError(f"{path} is larger than {largest >> 20} MiB, the most that is read of such a file")
    return found
