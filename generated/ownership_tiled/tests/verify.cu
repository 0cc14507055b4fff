// Prints who owns what, as the device stamped it, and compares with the layout algebra; --help lists the options.
#include "ownership_tiled/ownership_tiled.h"
#include "expected.h"
#include "mmagen/ownership_main.cuh"

int main(int argc, char** argv)
{
  mmagen::test::OwnershipSubject subject;
  subject.name = "ownership_tiled";
  subject.spec_sha = "a097243b682a4f34";
  subject.mmagen_version = "0.1.0";
  subject.atom = "SM80_16x8x16_F32F16F16F32_TN";
  subject.types = "f16 x f16 + f32 -> f32";
  subject.threads = OWNERSHIP_TILED_THREADS;
  subject.matrices[0] = {'A', "MK", OWNERSHIP_TILED_M, OWNERSHIP_TILED_K, kValuesA, kExpectedA};
  subject.matrices[1] = {'B', "NK", OWNERSHIP_TILED_N, OWNERSHIP_TILED_K, kValuesB, kExpectedB};
  subject.matrices[2] = {'C', "MN", OWNERSHIP_TILED_M, OWNERSHIP_TILED_N, kValuesC, kExpectedC};
  subject.stamp = [](int32_t* a, int32_t* b, int32_t* c, cudaStream_t stream) {
    return static_cast<int>(ownership_tiled_stamp(a, b, c, stream));
  };
  subject.status_text = [](int status) { return ownership_tiled_status_text(static_cast<ownership_tiled_status>(status)); };
  return mmagen::test::ownership_main(subject, argc, argv);
}
