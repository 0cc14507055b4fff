// Measures the peak of SM90_64x256x16_F32BF16BF16_SS; --help lists the options.
#include "mmagen/peak_main.cuh"

int main(int argc, char** argv)
{
  return mmagen::peak::peak_main(argc, argv, {"peak_wgmma_bf16", "0ed3966e1f9a70af", "0.1.0", MMAGEN_CUTLASS_VERSION,
                                              {{90, 4096.0}}});
}
