// The CUDA runtime as far as a library of wgmma kernels calls it, without a device: it notes launches and answers as it is
// told to. The program reads calls of the library from stdin, one a line, and prints what became of each.
//
//   fail FUNCTION CODE   from now on FUNCTION returns this cudaError_t
//   clusters N           so many clusters fit on the device at once
//   pending CODE         an error that somebody else has left behind
//   thread               the next call comes from a thread of its own
//   workspace            what <name>_workspace_bytes says
//   run M N K BATCH A LDA STRIDE_A B LDB STRIDE_B C LDC STRIDE_C D LDD STRIDE_D ALPHA BETA WORKSPACE BYTES
#include LIBRARY_HEADER

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <thread>

namespace {

constexpr std::uintptr_t kStream = 0x5000;
std::map<void const*, std::string> kernels;
std::map<std::string, int> failures;
int resident = 100;
thread_local cudaError_t last = cudaSuccess;
thread_local bool has_context = false;

cudaError_t answer(char const* function) {
  auto const found = failures.find(function);
  if (found == failures.end()) { return cudaSuccess; }
  last = cudaError_t(found->second);
  return last;
}

cudaError_t note_launch(void const* kernel, dim3 grid, dim3 block, size_t smem, cudaStream_t stream, unsigned cluster,
                        int serial) {
  has_context = true;
  cudaError_t const error = answer("launch");
  std::string const name = kernels.at(kernel).find("unaligned") != std::string::npos ? "unaligned" : "tma";
  std::printf("launch %s grid %u block %u smem %zu stream %d cluster %u programmatic %d\n", name.c_str(), grid.x, block.x, smem,
              reinterpret_cast<std::uintptr_t>(stream) == kStream, cluster, serial);
  return error;
}

/// Of the manual's conditions those that a matrix may fail, and the context that it needs.
CUresult encode(CUtensorMap*, CUtensorMapDataType, cuuint32_t rank, void* address, cuuint64_t const* extents,
                cuuint64_t const* strides, cuuint32_t const* box, cuuint32_t const*, CUtensorMapInterleave, CUtensorMapSwizzle,
                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  if (!has_context) { return CUDA_ERROR_INVALID_CONTEXT; }
  bool good = reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
  for (cuuint32_t i = 0; i < rank; ++i) {
    good = good && extents[i] > 0 && extents[i] <= 1ull << 32 && box[i] > 0 && box[i] <= 256;
  }
  for (cuuint32_t i = 0; i + 1 < rank; ++i) { good = good && strides[i] % 16 == 0 && strides[i] < 1ull << 40; }
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) { return new void*; }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, char const*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, char const* host, char*, char const* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  kernels[host] = name;
}
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) { return cudaErrorUnknown; }
cudaError_t __cudaGetKernel(cudaKernel_t*, void const*) { return cudaErrorUnknown; }
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) { return cudaErrorUnknown; }

cudaError_t cudaGetLastError() {
  cudaError_t const error = last;
  last = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last; }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return answer("cudaGetDevice");
}
cudaError_t cudaSetDevice(int) {
  has_context = true;
  return answer("cudaSetDevice");
}
cudaError_t cudaFuncSetAttribute(void const*, cudaFuncAttribute, int) {
  has_context = true;
  return answer("cudaFuncSetAttribute");
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, void const*) { return answer("cudaFuncGetAttributes"); }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void const*, int, size_t, unsigned) {
  *blocks = 1;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, void const*, cudaLaunchConfig_t const*) {
  *clusters = resident;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(char const*, void** entry, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  *entry = reinterpret_cast<void*>(&encode);
  *found = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(void const* kernel, dim3 grid, dim3 block, void**, size_t smem, cudaStream_t stream) {
  return note_launch(kernel, grid, block, smem, stream, 1, 0);
}
cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* config, void const* kernel, void**) {
  unsigned cluster = 1;
  int serial = 0;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    auto const& attribute = config->attrs[i];
    if (attribute.id == cudaLaunchAttributeClusterDimension) { cluster = attribute.val.clusterDim.x; }
    if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      serial = attribute.val.programmaticStreamSerializationAllowed;
    }
  }
  return note_launch(kernel, config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream, cluster, serial);
}

}  // extern "C"

int main() {
  std::string line;
  bool apart = false;
  while (std::getline(std::cin, line)) {
    std::istringstream in(line);
    std::string verb;
    in >> verb;
    if (verb == "fail") {
      std::string function;
      in >> function;
      in >> failures[function];
    } else if (verb == "clusters") {
      in >> resident;
    } else if (verb == "pending") {
      int code = 0;
      in >> code;
      last = cudaError_t(code);
    } else if (verb == "thread") {
      apart = true;
    } else if (verb == "workspace") {
      int64_t bytes = -1;
      int const status = LIBRARY(workspace_bytes)(&bytes);
      std::printf("status %d bytes %lld\n", status, (long long)bytes);
    } else {
      LIBRARY(args) args = {};
      long long a, b, c, d, workspace;
      in >> args.m >> args.n >> args.k >> args.batch >> a >> args.lda >> args.batch_stride_a >> b >> args.ldb >>
          args.batch_stride_b >> c >> args.ldc >> args.batch_stride_c >> d >> args.ldd >> args.batch_stride_d >> args.alpha >>
          args.beta >> workspace >> args.workspace_bytes;
      args.a = reinterpret_cast<void*>(a);
      args.b = reinterpret_cast<void*>(b);
      args.c = reinterpret_cast<void*>(c);
      args.d = reinterpret_cast<void*>(d);
      args.workspace = reinterpret_cast<void*>(workspace);
      if (!in) { return 2; }
      auto const call = [&] {
        int const status = LIBRARY(run)(&args, reinterpret_cast<CUstream_st*>(kStream));
        std::printf("status %d left %d\n", status, int(cudaPeekAtLastError()));
      };
      if (apart) {
        std::thread(call).join();
      } else {
        call();
      }
      apart = false;
    }
  }
}
