// Prints who owns what, as the device stamped it, and compares with the layout algebra; --help lists the options.
#include "ownership_sliced_k/ownership_sliced_k.h"
#include "expected.h"
#include "mmagen/ownership_main.cuh"

int main(int argc, char** argv)
{
  mmagen::test::OwnershipSubject subject;
  subject.name = "ownership_sliced_k";
  subject.spec_sha = "81c2ea8c407fb615";
  subject.mmagen_version = "0.1.0";
  subject.atom = "SM80_16x8x16_F32F16F16F32_TN";
  subject.types = "f16 x f16 + f32 -> f32";
  subject.threads = OWNERSHIP_SLICED_K_THREADS;
  subject.matrices[0] = {'A', "MK", OWNERSHIP_SLICED_K_M, OWNERSHIP_SLICED_K_K, kValuesA, kExpectedA};
  subject.matrices[1] = {'B', "NK", OWNERSHIP_SLICED_K_N, OWNERSHIP_SLICED_K_K, kValuesB, kExpectedB};
  subject.matrices[2] = {'C', "MN", OWNERSHIP_SLICED_K_M, OWNERSHIP_SLICED_K_N, kValuesC, kExpectedC};
  subject.stamp = [](int32_t* a, int32_t* b, int32_t* c, cudaStream_t stream) {
    return static_cast<int>(ownership_sliced_k_stamp(a, b, c, stream));
  };
  subject.status_text = [](int status) { return ownership_sliced_k_status_text(static_cast<ownership_sliced_k_status>(status)); };
  return mmagen::test::ownership_main(subject, argc, argv);
}
