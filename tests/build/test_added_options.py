"""Options that a CMakeLists.txt adds for CUDA are those that verify --on cpu compiles with."""

from __future__ import annotations

import pytest

from mmagen.build.flags import options
from tests.support.mutations import project


@pytest.mark.parametrize("spec", ["sm80_gemm_classic", "hello_micro", "hello_peak", "sm90_gemm_e4m3_blocks"])
def test_a_generated_project_has_no_others(spec):
    assert options(project(spec, "of_flags")["CMakeLists.txt"].decode()) == ()


@pytest.mark.parametrize(
    "line, added",
    [
        ("target_compile_options(of_flags PRIVATE -use_fast_math)", ("-use_fast_math",)),
        ("target_compile_options(of_flags PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-ftz=true -O1>)", ("-ftz=true",)),
        ('target_compile_options(of_flags PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xptxas -O1>")', ()),
        ('add_compile_options("SHELL:-fmad=false")', ("-fmad=false",)),
        ("add_compile_options(-Xcompiler -Wall -gencode arch=compute_80,code=sm_80 -include first.h -DFAST=1)", ("-DFAST=1",)),
        ('target_compile_definitions(of_flags PRIVATE NAME="abc" "FAST")', ('-DNAME="abc"', "-DFAST")),
        ("add_compile_options(-prec-div=false)  # -never", ("-prec-div=false",)),
        ('set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -ftz=true")', ("-ftz=true",)),
        ('string(APPEND CMAKE_CUDA_FLAGS " -fmad=false")', ("-fmad=false",)),
        ("target_compile_definitions(of_flags PRIVATE FAST=1)", ("-DFAST=1",)),
        ("add_compile_definitions(FAST)", ("-DFAST",)),
        ("if(FAST)\n  add_compile_options(-use_fast_math)\nendif()", ()),
        ("set(CMAKE_CXX_FLAGS -ffast-math)", ()),
        ("# add_compile_options(-use_fast_math)", ()),
    ],
)
def test_what_is_added_by_hand_is_found(line, added):
    text = project("sm80_gemm_classic", "of_flags")["CMakeLists.txt"].decode()
    assert options(f"{text}\n{line}\n") == added
