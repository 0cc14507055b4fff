// SPDX-License-Identifier: MIT-0
// Include this header first in a translation unit of kernels. CuTe's headers include <iostream>, and libstdc++ up to version 12
// then constructs the standard streams in each such unit, by functions that a C program does not link. Kernels use no streams:
// they are declared here, and <iostream> is skipped.
#pragma once

#include <istream>
#include <ostream>

#if defined(__GLIBCXX__) && !defined(_GLIBCXX_IOSTREAM)
#define _GLIBCXX_IOSTREAM 1
namespace std {
extern istream cin;
extern ostream cout, cerr, clog;
}  // namespace std
#endif
