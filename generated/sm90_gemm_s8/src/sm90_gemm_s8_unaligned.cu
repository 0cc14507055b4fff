// sm90_gemm_s8: the way for matrices that TMA cannot address, compiled beside the fast one.
#include "sm90_gemm_s8/large.cuh"
#include "mmagen/sm90_unaligned.cuh"

namespace sm90_gemm_s8 {

mmagen::Status run_unaligned(mmagen::GemmArguments<large::Config> const& args, cudaStream_t stream)
{
  return mmagen::run_sm90_unaligned<large::Config>(args, stream);
}

}  // namespace sm90_gemm_s8
