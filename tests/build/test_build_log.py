"""What CMake, ninja, nvcc and ptxas print, as printed by CUDA 13.0 and ninja 1.13."""

from __future__ import annotations

import pytest

from mmagen.build.log import (
    KernelInfo,
    cmake_errors,
    edges,
    failed_to_configure,
    parse_ptxas,
    parse_status,
    useful_lines,
    warnings,
    worst,
)

_PTXAS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z4gemmPf' for 'sm_90a'
ptxas info    : Function properties for helper
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Function properties for _Z4gemmPf
    16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 168 registers, used 9 barriers, 1032 bytes smem
ptxas info    : Compile time = 2.031 ms
ptxas info    : Compiling entry function '_Z4zeroPf' for 'sm_80'
ptxas info    : Function properties for _Z4zeroPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 360 bytes cmem[0]
""".splitlines()

_NINJA = """\
ninja: Entering directory `build'
[mmagen:1/4] Building CUDA object p0/CMakeFiles/a.dir/src/a.cu.o
ptxas info    : 0 bytes gmem
[mmagen:2/4] Building CUDA object p11/CMakeFiles/b.dir/src/b.cu.o
FAILED: [code=2] p11/CMakeFiles/b.dir/src/b.cu.o\x20
/usr/bin/nvcc -DERROR: -x cu -c b.cu -o p11/CMakeFiles/b.dir/src/b.cu.o
src/b.cu(3): error: identifier "foo" is undefined
    foo();
    ^

1 error detected in the compilation of "src/b.cu".
[mmagen:3/4] Linking CUDA executable p0/a_verify
ninja: build stopped: subcommand failed.
"""

_CMAKE = """\
mmagen: begin p0
mmagen: end p0
mmagen: begin p1
CMake Error at src/p1/CMakeLists.txt:3 (message):
  this cannot work


mmagen: begin p2
mmagen: end p2
CMake Error at src/p2/CMakeLists.txt:9 (add_library):
  Cannot find source file:

    src/gone.cu


CMake Generate step failed.  Build files cannot be regenerated correctly.
"""


def test_ptxas_by_kernel_and_architecture():
    assert parse_ptxas(_PTXAS) == (
        KernelInfo("_Z4gemmPf", "sm_90a", 168, 28, 36, 1032, 16),
        KernelInfo("_Z4zeroPf", "sm_80", 10, 0, 0, 0, 0),
    )
    assert parse_ptxas(["nothing"]) == ()


def test_a_function_that_was_not_inlined_adds_its_spills_but_not_its_stack():
    helper = [
        "ptxas info    : Function properties for helper",
        "    64 bytes stack frame, 1 bytes spill stores, 2 bytes spill loads",
    ]
    (kernel,) = parse_ptxas([*_PTXAS[:7], *helper])
    assert (kernel.stack, kernel.spill_stores, kernel.spill_loads) == (16, 29, 38)


def test_the_worst_of_several_kernels():
    assert worst(parse_ptxas(_PTXAS)) == {"registers": 168, "spill_bytes": 64, "smem_bytes": 1032} and worst(()) == {}
    several = (KernelInfo("f", "sm_80", 96, 8, 4, 1024, 0), KernelInfo("g", "sm_80", 128, 0, 0, 2048, 0))
    assert worst(several) == {"registers": 128, "spill_bytes": 12, "smem_bytes": 2048}


def test_a_step_whose_description_names_no_project_belongs_to_whom_its_output_does():
    (step,) = edges("[mmagen:1/1] Generating version.h\nFAILED: [code=1] p3/version.h \ncd p3 && false\nsad\n")
    assert (step.place, step.failed, step.lines) == ("p3", True, ("sad",))


def test_ninja_output_is_cut_into_steps_of_projects():
    first, failed, last = edges(_NINJA)
    assert (first.place, first.failed, first.lines) == ("p0", False, ("ptxas info    : 0 bytes gmem",))
    assert (failed.place, failed.failed) == ("p11", True)
    assert failed.lines[0].startswith("src/b.cu(3)"), "neither the FAILED line nor the command line is output"
    assert (last.place, last.failed, last.lines) == ("p0", False, ())


def test_the_useful_lines_are_the_error_and_its_source():
    failed = edges(_NINJA)[1]
    assert useful_lines(failed.lines) == ('src/b.cu(3): error: identifier "foo" is undefined', "    foo();", "    ^")


@pytest.mark.parametrize(
    "line",
    [
        'src/a.cu(3): error: static assertion failed with "planned"',
        "a.cpp:3:5: error: expected ';'",
        "/usr/bin/ld: a.cpp:(.text+0x5): undefined reference to `f()'",
        "nvcc fatal   : Unsupported gpu architecture 'compute_999'",
        "ptxas error   : Entry function uses too much shared data (0x10000 bytes, 0xc000 max)",
        'a.cu(1): catastrophic error: cannot open source file "x.h"',
        "Killed",
    ],
)
def test_kinds_of_errors(line):
    assert useful_lines(["noise", line, "more noise: x"])[0] == line


def test_without_an_error_the_end_has_to_do_and_long_output_is_cut():
    assert useful_lines([str(n) for n in range(50)]) == tuple(str(n) for n in range(30, 50))
    reported = useful_lines([f"a.cu({n}): error: {n}" for n in range(99)], limit=10)
    assert len(reported) == 11 and reported[-1] == "… 89 more lines in the log"


def test_what_follows_an_error_explains_it_only_up_to_the_next_message():
    assert useful_lines(["a.cu(1): error: x", "a.cu(2): warning #1-D: y", "    y;"]) == ("a.cu(1): error: x",)
    gcc = [
        "a.cpp:1:10: fatal error: x.h: No such file or directory",
        "    1 | #include <x.h>",
        "compilation terminated.",
        "more",
    ]
    assert useful_lines(gcc) == tuple(gcc[:2])
    assert useful_lines(["a.cu(1): error: x"] * 99, limit=10) == ("a.cu(1): error: x",), "a header's error in every unit"


def test_warnings_of_generated_code_and_of_ptxas():
    lines = [
        'src/a.cu(3): warning #177-D: variable "x" was declared but never referenced',
        "<cutlass>/cute/tensor.hpp(3): warning #20012-D: annotation is ignored",
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized",
        "ptxas info    : Used 10 registers",
        "tests/v.cpp:3:5: warning: unused variable 'y'",
    ]
    assert warnings([*lines, lines[0]], foreign=("<cutlass>",)) == (lines[0], lines[2], lines[4])


def test_configure_errors_name_their_projects():
    assert failed_to_configure(_CMAKE) == ("p1", "p2")
    assert "this cannot work" in " ".join(cmake_errors(_CMAKE, "p1"))
    assert "gone.cu" in " ".join(cmake_errors(_CMAKE, "p2"))
    assert "this cannot work" not in " ".join(cmake_errors(_CMAKE, "p2"))
    assert cmake_errors(_CMAKE, "p0") == ()
    assert failed_to_configure("CMake Error: no compiler\n") == ()
    assert failed_to_configure(
        "mmagen: begin p0\nCMake Error at CMakeLists.txt:1 (message):\n  no\nmmagen: end p0\n  see src/p1/CMakeLists.txt\n"
    ) == ("p0",)


def test_status_lines():
    assert parse_status("[mmagen:3/10] Linking p1/x") == (3, 10, "Linking p1/x")
    assert parse_status("[3/10] Linking p1/x") is None
