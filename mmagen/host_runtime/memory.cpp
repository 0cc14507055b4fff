// Device memory, streams and events of the CUDA runtime, for whole programs; graph.cpp has the capture of streams. The caller
// keeps the memory: each request is a line on the output, and what it answers comes as a line on stdin.
//
//   allocate SIZE         answered by an address
//   set ADDRESS VALUE SIZE
//   write ADDRESS HEX
//   copy TO FROM SIZE     within the device
//   read ADDRESS SIZE     answered by hexadecimal bytes
//
// Work is executed as it is submitted, so that streams and events have nothing to wait for.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "state.h"

using namespace mmagen_host;

namespace {

bool refuses(char const* function) {
  if (state().has_memory) { return false; }
  refuse(cudaErrorNotSupported, function, "this library is called without device memory");
  return true;
}

/// The next line of stdin, without its end. The caller has ended where there is none.
std::string answer() {
  std::fflush(state().out);
  std::string line;
  for (int c = std::getchar(); c != '\n'; c = std::getchar()) {
    if (c == EOF) { std::_Exit(4); }
    line.push_back(char(c));
  }
  return line;
}

unsigned long long number_of(void const* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

void print_bytes(void const* bytes, size_t size, FILE* out) {
  static char const digits[] = "0123456789abcdef";
  std::string text(2 * size, '0');
  for (size_t i = 0; i < size; ++i) {
    unsigned char const byte = static_cast<unsigned char const*>(bytes)[i];
    text[2 * i] = digits[byte >> 4];
    text[2 * i + 1] = digits[byte & 15];
  }
  std::fprintf(out, "%s\n", text.c_str());
}

void read_bytes(void* to, size_t size) {
  std::string const text = answer();
  for (size_t i = 0; i < size && 2 * i + 1 < text.size(); ++i) {
    char const pair[3] = {text[2 * i], text[2 * i + 1], '\0'};
    static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(std::strtoul(pair, nullptr, 16));
  }
}

cudaError_t transfer(void* to, void const* from, size_t size, cudaMemcpyKind kind, FILE* out, cudaStream_t stream = nullptr) {
  if (out == nullptr || refuses("cudaMemcpy")) { return last_error; }
  has_context = true;
  if (kind == cudaMemcpyDefault) {
    bool const to_device = state().is_device(number_of(to)), from_device = state().is_device(number_of(from));
    kind = to_device ? (from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
                     : (from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
  }
  if (size == 0) { return cudaSuccess; }
  if (out != state().out && kind != cudaMemcpyDeviceToDevice) {
    invalidate_capture(stream);
    return refuse(cudaErrorNotSupported, "cudaMemcpyAsync", "copies from or to host memory in a graph are not emulated");
  }
  switch (kind) {
    case cudaMemcpyHostToHost: std::memmove(to, from, size); break;
    case cudaMemcpyHostToDevice:
      std::fprintf(out, "write %llu ", number_of(to));
      print_bytes(from, size, out);
      break;
    case cudaMemcpyDeviceToDevice: std::fprintf(out, "copy %llu %llu %zu\n", number_of(to), number_of(from), size); break;
    case cudaMemcpyDeviceToHost:
      std::fprintf(out, "read %llu %zu\n", number_of(from), size);
      read_bytes(to, size);
      break;
    default: return refuse(cudaErrorInvalidMemcpyDirection, "cudaMemcpy", "copies of kind %d", int(kind));
  }
  return cudaSuccess;
}

cudaError_t allocate(void** pointer, size_t size) {
  if (refuses("cudaMalloc")) { return last_error; }
  has_context = true;
  *pointer = nullptr;
  if (size == 0) { return cudaSuccess; }
  std::fprintf(state().out, "allocate %zu\n", size);
  unsigned long long const address = std::strtoull(answer().c_str(), nullptr, 10);
  *pointer = reinterpret_cast<void*>(uintptr_t(address));
  state().device_end = address + size;
  return cudaSuccess;
}

cudaError_t set(void* pointer, int value, size_t size, FILE* out) {
  if (out == nullptr || refuses("cudaMemset")) { return last_error; }
  has_context = true;
  if (size > 0) { std::fprintf(out, "set %llu %d %zu\n", number_of(pointer), value & 255, size); }
  return cudaSuccess;
}

/// Output for synchronous calls, which use the legacy default stream.
FILE* output_now(char const* function) { return refuse_if_unsafe(function) ? nullptr : output_for(nullptr, function); }

/// Streams and events are distinct handles, no more.
template <class Handle>
cudaError_t make_handle(Handle* handle) {
  static uintptr_t last = 0x6000;
  has_context = true;
  *handle = reinterpret_cast<Handle>(last += 16);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t size) {
  return refuse_if_unsafe("cudaMalloc") ? last_error : allocate(pointer, size);
}
cudaError_t cudaMallocAsync(void** pointer, size_t size, cudaStream_t) { return allocate(pointer, size); }
/// What was freed stays readable: an access to it is not found.
cudaError_t cudaFree(void*) { return cudaSuccess; }
cudaError_t cudaFreeAsync(void*, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMallocHost(void** pointer, size_t size) {
  *pointer = std::malloc(size);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* pointer, int value, size_t size) { return set(pointer, value, size, output_now("cudaMemset")); }
cudaError_t cudaMemsetAsync(void* pointer, int value, size_t size, cudaStream_t stream) {
  return set(pointer, value, size, output_for(stream, "cudaMemsetAsync"));
}
cudaError_t cudaMemcpy(void* to, void const* from, size_t size, cudaMemcpyKind kind) {
  return transfer(to, from, size, kind, output_now("cudaMemcpy"));
}
cudaError_t cudaMemcpyAsync(void* to, void const* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
  return transfer(to, from, size, kind, output_for(stream, "cudaMemcpyAsync"), stream);
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = state().device().free_bytes;
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return make_handle(stream); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  make_handle(stream);
  if (flags & cudaStreamNonBlocking) { add_non_blocking(*stream); }
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) { return make_handle(event); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return make_handle(event); }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
/// No time is measured; 1 ms keeps a rate finite.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  Device const* const found = device_at(device, "cudaGetDeviceProperties");
  if (found == nullptr) { return last_error; }
  Device const& here = *found;
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "mmagen.emulate");
  properties->major = here.major;
  properties->minor = here.minor;
  properties->multiProcessorCount = here.multiprocessors;
  properties->sharedMemPerBlock = kDefaultSharedBytes;
  properties->sharedMemPerBlockOptin = size_t(here.most_shared_bytes);
  properties->sharedMemPerMultiprocessor = size_t(here.most_shared_bytes) + 1024;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->warpSize = 32;
  properties->l2CacheSize = here.l2_bytes;
  properties->totalGlobalMem = here.free_bytes;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = state().driver_version;
  return cudaSuccess;
}
/// The refusal itself says why: the caller gets it from the output.
char const* cudaGetErrorString(cudaError_t error) {
  thread_local char text[32];
  std::snprintf(text, sizeof text, "CUDA error %d", int(error));
  return error == cudaSuccess ? "no error" : text;
}
char const* cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : cudaGetErrorString(error); }

/// Programs that link the driver call it by name.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                cuuint64_t const* extents, cuuint64_t const* strides, cuuint32_t const* box,
                                cuuint32_t const* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  has_context = true;
  auto const encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(tensor_map_encoder());
  return encode(map, type, rank, address, extents, strides, box, steps, interleave, swizzle, promotion, fill);
}
CUresult cuTensorMapEncodeIm2col(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, cuuint64_t const*, cuuint64_t const*,
                                 int const*, int const*, cuuint32_t, cuuint32_t, cuuint32_t const*, CUtensorMapInterleave,
                                 CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  note_refusal("cuTensorMapEncodeIm2col", CUDA_ERROR_NOT_SUPPORTED, "only tiled tensor maps are emulated");
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGetErrorString(CUresult error, char const** text) {
  *text = error == CUDA_SUCCESS ? "no error" : "refused by the emulated driver";
  return CUDA_SUCCESS;
}

}  // extern "C"
