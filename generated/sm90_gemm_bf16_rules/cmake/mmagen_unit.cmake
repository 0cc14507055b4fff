# SPDX-License-Identifier: MIT-0
option(MMAGEN_SEPARATE_UNITS "Compile each kernel's source file by itself: more CPU time, less on many cores" OFF)

# Compiles source files of the current directory as one translation unit of a target, because nvcc takes longer to read CuTe's headers
# than to compile most kernels. unit: the name of the translation unit. CMake's own UNITY_BUILD supports CUDA since 3.31.
function(mmagen_unit target unit)
  if(MMAGEN_SEPARATE_UNITS)
    target_sources(${target} PRIVATE ${ARGN})
    return()
  endif()
  set(includes "")
  foreach(source IN LISTS ARGN)
    string(APPEND includes "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${source}\"\n")
  endforeach()
  set(file "${CMAKE_CURRENT_BINARY_DIR}/${target}_${unit}.cu")
  file(GENERATE OUTPUT "${file}" CONTENT "${includes}") # an unchanged file is not written, so nothing is compiled again
  target_sources(${target} PRIVATE "${file}")
endfunction()
