"""What the threads of a launch print."""

from __future__ import annotations

_MOST = 1 << 20


class Printed:
    """The texts of printf calls, in the order of execution; as on a GPU, no more than one MiB of them is kept."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        """Keeps one call's text."""
        if self._size + len(text) <= _MOST:
            self.texts.append(text)
            self._size += len(text)
