// SPDX-License-Identifier: MIT-0
// Measures the peak of SM80_16x8x16_F32BF16BF16F32_TN; --help lists the options.
#include "mmagen/peak_main.cuh"

int main(int argc, char** argv) {
  return mmagen::peak::peak_main(argc, argv, {"hello_peak", "18e65dd185f1f85c", "0.1.0", MMAGEN_CUTLASS_VERSION,
                                              {{80, 2048.0}, {90, 4096.0}}});
}
