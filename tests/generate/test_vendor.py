"""vendor: which of CUTLASS's headers a project takes along."""

from __future__ import annotations

import pytest

from mmagen.core.errors import BuildError
from mmagen.generate import vendor
from mmagen.generate.vendor import FOLDER, vendor_cutlass
from mmagen.toolchain.find import find_toolchain


@pytest.fixture(scope="module")
def include():
    toolchain = find_toolchain(want=("cutlass",))
    if not toolchain.cutlass:
        pytest.skip(f"no CUTLASS: {toolchain.remedies['cutlass']}")
    return toolchain.cutlass.path


def test_unusual_widths_of_wgmma_come_only_where_they_are_switched_on(include):
    usual, all_widths = vendor_cutlass(include), vendor_cutlass(include, extended=True)
    more = all_widths.keys() - usual.keys()
    assert (
        f"{FOLDER}/include/cute/arch/mma_sm90_gmma_ext.hpp" in more and f"{FOLDER}/include/cute/arch/mma_sm90_gmma.hpp" in usual
    )
    assert all("_ext.hpp" in path for path in more) and usual.keys() < all_widths.keys()


LICENCE = "/* Copyright. Redistribution and use are permitted. */"


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A CUTLASS of a few headers, of which a template names cute/tensor.hpp and, as all do, cutlass/version.h."""
    monkeypatch.setattr(vendor, "_roots", lambda: {"cute/tensor.hpp", "cutlass/version.h"})
    headers = {
        "cute/tensor.hpp": f'{LICENCE}\n#include <cuda.h>\n# include "layout.hpp"\n#include <cutlass/a.h>\n',
        "cute/layout.hpp": '#include "../cutlass/b.h" // and round about\n#include <cute/tensor.hpp>\n',
        "cutlass/version.h": "",
        "cutlass/a.h": "// #include <cutlass/unused.h>\n",
        "cutlass/b.h": "#ifdef NOTHING_HERE\n#include <cutlass/c.h>\n#endif\n#include <../../outside.h>\n",
        "cutlass/c.h": "",
        "cutlass/unused.h": "",
    }
    for name, text in headers.items():
        (tmp_path / "include" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "include" / name).write_text(text)
    (tmp_path.parent / "outside.h").write_text("")
    return tmp_path / "include"


def test_what_is_included_comes_along_and_nothing_else(small):
    (small.parent / "LICENSE.txt").write_text("the licence")
    files = vendor_cutlass(small)
    assert list(files) == [
        f"{FOLDER}/LICENSE.txt",
        *(
            f"{FOLDER}/include/{header}"
            for header in (
                "cute/layout.hpp",
                "cute/tensor.hpp",
                "cutlass/a.h",
                "cutlass/b.h",
                "cutlass/c.h",
                "cutlass/version.h",
            )
        ),
    ]
    assert files[f"{FOLDER}/LICENSE.txt"] == b"the licence"
    assert files[f"{FOLDER}/include/cute/tensor.hpp"] == (small / "cute/tensor.hpp").read_bytes()


def test_the_licence_is_that_of_the_headers_where_no_file_has_it(small):
    assert vendor_cutlass(small)[f"{FOLDER}/LICENSE.txt"].decode() == f"{LICENCE}\n"
    (small / "cute/tensor.hpp").write_text("/* Copyright. */")
    with pytest.raises(BuildError, match=r"no LICENSE\.txt beside the headers and no licence in cute/tensor\.hpp"):
        vendor_cutlass(small)


def test_a_cutlass_that_is_too_old_is_said_to_be(small):
    (small / "cutlass/version.h").unlink()
    with pytest.raises(BuildError, match=r"has no cutlass/version\.h: CUTLASS 4\.2 or later is needed"):
        vendor_cutlass(small)
