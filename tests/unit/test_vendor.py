"""vendor: which of CUTLASS's headers a project takes along."""

from __future__ import annotations

import pytest

from mmagen.toolchain import find_toolchain
from mmagen.vendor import FOLDER, vendor_cutlass


@pytest.fixture(scope="module")
def include():
    toolchain = find_toolchain(want=("cutlass",))
    if not toolchain.cutlass:
        pytest.skip(f"no CUTLASS: {toolchain.remedies['cutlass']}")
    return toolchain.cutlass.path


def test_unusual_widths_of_wgmma_come_only_where_they_are_switched_on(include):
    usual, all_widths = vendor_cutlass(include), vendor_cutlass(include, extended=True)
    more = all_widths.keys() - usual.keys()
    assert f"{FOLDER}/include/cute/arch/mma_sm90_gmma_ext.hpp" in more and f"{FOLDER}/include/cute/arch/mma_sm90_gmma.hpp" in usual
    assert all("_ext.hpp" in path for path in more) and usual.keys() < all_widths.keys()
