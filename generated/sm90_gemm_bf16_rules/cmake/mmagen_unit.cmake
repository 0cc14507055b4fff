# SPDX-License-Identifier: MIT-0
# Compiles source files of the current folder as one translation unit of a target, since it takes longer to read CuTe's headers than
# to compile most kernels. unit: its name. CMake's own UNITY_BUILD does so for CUDA since 3.31.
function(mmagen_unit target unit)
  set(includes "")
  foreach(source IN LISTS ARGN)
    string(APPEND includes "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${source}\"\n")
  endforeach()
  set(file "${CMAKE_CURRENT_BINARY_DIR}/${target}_${unit}.cu")
  file(GENERATE OUTPUT "${file}" CONTENT "${includes}") # leaves a file with these contents as it is
  target_sources(${target} PRIVATE "${file}")
endfunction()
