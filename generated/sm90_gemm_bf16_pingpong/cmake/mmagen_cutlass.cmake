# SPDX-License-Identifier: MIT-0
# Finds the CUTLASS headers and sets MMAGEN_CUTLASS_INCLUDE to the folder that holds cute/ and cutlass/.
#
# In this order: -DCUTLASS_DIR (a CUTLASS checkout or its include folder), headers vendored into this project, an NvidiaCutlass
# package. Only if asked for: -DMMAGEN_PYTHON_CUTLASS=ON runs the Python in reach to find its nvidia-cutlass wheel, and
# -DMMAGEN_FETCH_CUTLASS=ON downloads the pinned release.
set(MMAGEN_CUTLASS_TAG v4.2.0)
set(CUTLASS_DIR "" CACHE PATH "A CUTLASS checkout, or its include folder")
option(MMAGEN_PYTHON_CUTLASS "Run Python to find the nvidia-cutlass wheel" OFF)
option(MMAGEN_FETCH_CUTLASS "Download the CUTLASS headers if they are not found" OFF)
set(MMAGEN_CUTLASS_INCLUDE "")

# Takes the first of the folders given that holds the headers, unless they were found before.
macro(_mmagen_look_in)
  foreach(_mmagen_place ${ARGN})
    if(NOT MMAGEN_CUTLASS_INCLUDE AND EXISTS "${_mmagen_place}/cute/tensor.hpp")
      set(MMAGEN_CUTLASS_INCLUDE "${_mmagen_place}")
    endif()
  endforeach()
endmacro()

if(CUTLASS_DIR)
  _mmagen_look_in("${CUTLASS_DIR}/include" "${CUTLASS_DIR}")
  if(NOT MMAGEN_CUTLASS_INCLUDE)
    message(FATAL_ERROR "CUTLASS_DIR=${CUTLASS_DIR} holds no include/cute/tensor.hpp")
  endif()
endif()
_mmagen_look_in("${CMAKE_CURRENT_LIST_DIR}/../third_party/cutlass/include")

if(NOT MMAGEN_CUTLASS_INCLUDE)
  if(NOT TARGET nvidia::cutlass::cutlass)
    find_package(NvidiaCutlass CONFIG QUIET)
  endif()
  if(TARGET nvidia::cutlass::cutlass)
    # A CUTLASS that is part of the same build has its folders in BUILD_INTERFACE expressions.
    get_target_property(_mmagen_folders nvidia::cutlass::cutlass INTERFACE_INCLUDE_DIRECTORIES)
    string(REGEX REPLACE "\\$<BUILD_INTERFACE:([^>]*)>" "\\1" _mmagen_folders "${_mmagen_folders}")
    _mmagen_look_in(${_mmagen_folders})
  endif()
endif()

if(NOT MMAGEN_CUTLASS_INCLUDE AND MMAGEN_PYTHON_CUTLASS)
  find_package(Python3 COMPONENTS Interpreter QUIET)
  if(Python3_Interpreter_FOUND)
    # find_spec only looks: importing the wheel would start a GPU driver.
    execute_process(
      COMMAND "${Python3_EXECUTABLE}" -c
              "import importlib.util as u; s = u.find_spec('cutlass_library'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE _mmagen_wheel OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    _mmagen_look_in("${_mmagen_wheel}/source/include")
  endif()
endif()

if(NOT MMAGEN_CUTLASS_INCLUDE AND MMAGEN_FETCH_CUTLASS)
  include(FetchContent)
  set(_mmagen_url https://github.com/NVIDIA/cutlass.git)
  # FetchContent's own errors of a failed download are many lines, and name no other way.
  if(NOT FETCHCONTENT_SOURCE_DIR_MMAGEN_CUTLASS AND NOT EXISTS "${FETCHCONTENT_BASE_DIR}/mmagen_cutlass-src/include/cute/tensor.hpp")
    find_package(Git QUIET)
    if(FETCHCONTENT_FULLY_DISCONNECTED)
      set(_mmagen_why "FETCHCONTENT_FULLY_DISCONNECTED is set")
    elseif(NOT Git_FOUND)
      set(_mmagen_why "git is not found")
    else()
      execute_process(
        COMMAND "${CMAKE_COMMAND}" -E env GIT_TERMINAL_PROMPT=0
                "${GIT_EXECUTABLE}" ls-remote --exit-code ${_mmagen_url} refs/tags/${MMAGEN_CUTLASS_TAG}
        RESULT_VARIABLE _mmagen_result OUTPUT_QUIET ERROR_QUIET TIMEOUT 60)
      set(_mmagen_why "")
      if(_mmagen_result EQUAL 2)
        set(_mmagen_why "${_mmagen_url} has no tag ${MMAGEN_CUTLASS_TAG}")
      elseif(NOT _mmagen_result EQUAL 0)
        set(_mmagen_why "git cannot reach ${_mmagen_url}")
      endif()
    endif()
    if(_mmagen_why)
      message(FATAL_ERROR "CUTLASS ${MMAGEN_CUTLASS_TAG} cannot be downloaded, since ${_mmagen_why}: pass -DCUTLASS_DIR=<a CUTLASS checkout>")
    endif()
  endif()
  # SOURCE_SUBDIR names a folder without CMakeLists.txt: only the headers are wanted.
  FetchContent_Declare(mmagen_cutlass GIT_REPOSITORY ${_mmagen_url} GIT_TAG ${MMAGEN_CUTLASS_TAG}
    GIT_SHALLOW ON SOURCE_SUBDIR include)
  FetchContent_MakeAvailable(mmagen_cutlass)
  set(MMAGEN_CUTLASS_INCLUDE "${mmagen_cutlass_SOURCE_DIR}/include")
endif()

if(NOT MMAGEN_CUTLASS_INCLUDE)
  message(FATAL_ERROR "The CUTLASS headers 4.2 or later are not found: pass -DCUTLASS_DIR=<a CUTLASS checkout>, "
                      "-DMMAGEN_PYTHON_CUTLASS=ON to use those of Python's nvidia-cutlass, or -DMMAGEN_FETCH_CUTLASS=ON to download ${MMAGEN_CUTLASS_TAG}")
endif()

file(STRINGS "${MMAGEN_CUTLASS_INCLUDE}/cutlass/version.h" _mmagen_version REGEX "#define CUTLASS_(MAJOR|MINOR|PATCH) +[0-9]+")
string(REGEX REPLACE "[^0-9;]" "" _mmagen_version "${_mmagen_version}")
list(JOIN _mmagen_version "." MMAGEN_CUTLASS_VERSION)
message(STATUS "CUTLASS headers: ${MMAGEN_CUTLASS_INCLUDE} (${MMAGEN_CUTLASS_VERSION})")
