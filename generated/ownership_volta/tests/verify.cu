// Prints who owns what, as the device stamped it, and compares with the layout algebra; --help lists the options.
#include "ownership_volta/ownership_volta.h"
#include "expected.h"
#include "mmagen/ownership_main.cuh"

int main(int argc, char** argv)
{
  mmagen::test::OwnershipSubject subject;
  subject.name = "ownership_volta";
  subject.spec_sha = "49784ef498589bb5";
  subject.mmagen_version = "0.1.0";
  subject.atom = "SM70_8x8x4_F32F16F16F32_NT";
  subject.types = "f16 x f16 + f32 -> f32";
  subject.threads = OWNERSHIP_VOLTA_THREADS;
  subject.matrices[0] = {'A', "MK", OWNERSHIP_VOLTA_M, OWNERSHIP_VOLTA_K, kValuesA, kExpectedA};
  subject.matrices[1] = {'B', "NK", OWNERSHIP_VOLTA_N, OWNERSHIP_VOLTA_K, kValuesB, kExpectedB};
  subject.matrices[2] = {'C', "MN", OWNERSHIP_VOLTA_M, OWNERSHIP_VOLTA_N, kValuesC, kExpectedC};
  subject.stamp = [](int32_t* a, int32_t* b, int32_t* c, cudaStream_t stream) {
    return static_cast<int>(ownership_volta_stamp(a, b, c, stream));
  };
  subject.status_text = [](int status) { return ownership_volta_status_text(static_cast<ownership_volta_status>(status)); };
  return mmagen::test::ownership_main(subject, argc, argv);
}
