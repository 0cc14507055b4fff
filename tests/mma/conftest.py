"""CUTLASS's headers for tests of the registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmagen.toolchain.find import find_toolchain


@pytest.fixture(scope="session")
def cutlass() -> Path:
    """CUTLASS's headers, where they are."""
    toolchain = find_toolchain(want=("cutlass",))
    if not toolchain.cutlass:
        pytest.skip(f"no CUTLASS: {toolchain.remedies['cutlass']}")
    return toolchain.cutlass.path
