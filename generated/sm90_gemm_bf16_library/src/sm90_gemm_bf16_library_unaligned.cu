// sm90_gemm_bf16_library: the kernel for matrices that TMA cannot address.
#include "sm90_gemm_bf16_library/large.cuh"
#include "mmagen/sm90_unaligned.cuh"

namespace sm90_gemm_bf16_library {

mmagen::Status run_unaligned(mmagen::GemmArguments<large::Config> const& args, cudaStream_t stream) {
  return mmagen::run_sm90_unaligned<large::Config>(args, stream);
}

}  // namespace sm90_gemm_bf16_library
