"""The arrays that the compiled caller takes: those whose bytes 64 bits count. The others it leaves to kernel.py."""

from __future__ import annotations

import ctypes
import subprocess
import sysconfig
from itertools import product
from pathlib import Path

import pytest

from mmagen.binding import fast

VALUES = (1, 3, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 40, 1 << 60, (1 << 62) + 16, (1 << 63) - 1, -1, -(1 << 63))


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """read(bits, shape, strides): the bytes of an array that is taken, or None."""
    include = Path(sysconfig.get_paths()["include"])
    if not (include / "Python.h").is_file():
        pytest.skip("Python's headers are not installed")
    made = tmp_path_factory.mktemp("operands") / "operands.so"
    source, folder = Path(__file__).with_name("fast_operands_test.c"), Path(fast.__file__).parent
    flags = ["-std=c11", "-O2", "-fwrapv", "-Wno-unused-function", "-shared", "-fPIC", f"-I{folder}", f"-I{include}"]
    subprocess.run(["gcc", *flags, source, "-o", made], check=True)
    function = ctypes.CDLL(str(made)).matrices_are_read

    def call(bits, shape, strides):
        numbers = ctypes.c_int64 * len(shape)
        found = ctypes.c_int64(0)
        taken = function(bits, len(shape), numbers(*shape), numbers(*strides), ctypes.byref(found))
        return found.value if taken else None

    return call


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_arrays_are_taken_that_64_bits_count(read, bits):
    """Sums and products would wrap around, and be another number."""
    sizes = bits // 8
    for batch, stride, lines, ld, line in product((1, 2, 1 << 31, (1 << 63) - 1), VALUES, VALUES, VALUES, (1, 3, 1 << 31)):
        shape, strides = (batch, lines, line), (stride, ld, 1)
        apart = ld if lines > 1 else line
        legal = 0 < lines < 2**31 and line < 2**31 and apart >= line and (batch == 1 or stride >= 0)
        between = (batch - 1) * stride
        legal = legal and (between + lines * apart) * sizes < 2**63
        expected = (between + (lines - 1) * apart + line) * sizes if legal else None
        assert read(bits, shape, strides) == expected, (shape, strides)
