// SPDX-License-Identifier: MIT-0
// Prints which thread owns which element, as found on the device, and compares with the layout algebra; --help lists the
// options.
#include "hello_ownership/hello_ownership.h"
#include "expected.h"
#include "mmagen/ownership_main.cuh"

int main(int argc, char** argv) {
  mmagen::test::OwnershipSubject subject;
  subject.name = "hello_ownership";
  subject.spec_sha = "4a3253ad6ed5a16c";
  subject.mmagen_version = "0.1.0";
  subject.atom = "SM80_16x8x16_F32F16F16F32_TN";
  subject.types = "f16 x f16 + f32 -> f32";
  subject.threads = HELLO_OWNERSHIP_THREADS;
  subject.matrices[0] = {'A', "MK", HELLO_OWNERSHIP_M, HELLO_OWNERSHIP_K, kStagedA, kPlanesA, kValuesA, kExpectedA};
  subject.matrices[1] = {'B', "NK", HELLO_OWNERSHIP_N, HELLO_OWNERSHIP_K, kStagedB, kPlanesB, kValuesB, kExpectedB};
  subject.matrices[2] = {'C', "MN", HELLO_OWNERSHIP_M, HELLO_OWNERSHIP_N, kStagedC, kPlanesC, kValuesC, kExpectedC};
  subject.stamp = [](int32_t* a, int32_t* b, int32_t* c, cudaStream_t stream) {
    return static_cast<int>(hello_ownership_stamp(a, b, c, stream));
  };
  subject.error_text = &hello_ownership_error_text;
  return mmagen::test::ownership_main(subject, argc, argv);
}
