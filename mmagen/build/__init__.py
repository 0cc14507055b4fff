"""Compiling projects: CMake superprojects, PTX, compiler logs."""
