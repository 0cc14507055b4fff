// The CUDA runtime as far as a generated library's host code calls it, without a device. It answers as a device of the
// given compute capability would, refuses the launches that the real runtime refuses, and prints those that it accepts
// with the bytes of their parameters. A function that is not here stops the library from loading, with its name.
#include <cuda_runtime_api.h>

#include <cstdarg>
#include <cstring>
#include <utility>

#include "state.h"

using namespace mmagen_host;

namespace mmagen_host {

State& state() {
  static State kept;
  return kept;
}

KernelAttributes& Kernel::attributes() {
  return of_device.try_emplace(state().current, KernelAttributes{kDefaultSharedBytes - static_shared_bytes}).first->second;
}

Device const* device_at(int device, char const* function) {
  auto const found = state().devices.find(device);
  if (found != state().devices.end()) { return &found->second; }
  refuse(cudaErrorInvalidDevice, function, "there is no device %d", device);
  return nullptr;
}

void note_refusal(char const* function, int code, char const* reason) {
  std::fprintf(state().out, "refused %s %d %s\n", function, code, reason);
}

cudaError_t refuse(cudaError_t error, char const* function, char const* format, ...) {
  char reason[512];
  va_list values;
  va_start(values, format);
  std::vsnprintf(reason, sizeof reason, format, values);
  va_end(values);
  note_refusal(function, error, reason);
  last_error = error;
  return error;
}

cudaError_t injected(char const* function) {
  auto const found = state().failures.find(function);
  if (found == state().failures.end()) { return cudaSuccess; }
  last_error = cudaError_t(found->second);
  return last_error;
}

namespace {

struct Launch {
  dim3 grid, block, cluster{1, 1, 1};
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  int programmatic = 0;
};

/// Null where the library has not registered `host` as a kernel or its PTX has none of that name.
Kernel* kernel_at(void const* host, char const* function) {
  auto const found = state().kernel_of_host.find(host);
  if (found == state().kernel_of_host.end()) {
    refuse(cudaErrorInvalidDeviceFunction, function, "%p is no kernel", host);
    return nullptr;
  }
  Kernel& kernel = state().kernels[found->second];
  if (!kernel.in_ptx) {
    refuse(cudaErrorInvalidDeviceFunction, function, "the PTX has no entry %s", found->second.c_str());
    return nullptr;
  }
  return &kernel;
}

uint64_t count(dim3 const& extent) { return uint64_t(extent.x) * extent.y * extent.z; }

/// Is the shape of the cluster one that the device and the kernel allow?
cudaError_t check_cluster_size(Kernel& kernel, dim3 const& cluster, char const* function) {
  uint64_t const ctas = count(cluster);
  if (ctas == 1) { return cudaSuccess; }
  if (state().device().major < 9) { return refuse(cudaErrorNotSupported, function, "clusters need compute capability 9.0"); }
  if (ctas == 0 || ctas > (kernel.attributes().large_clusters ? 16 : 8)) {
    return refuse(cudaErrorInvalidClusterSize, function, "a cluster of %llu CTAs; the kernel's attributes allow %d",
                  (unsigned long long)ctas, kernel.attributes().large_clusters ? 16 : 8);
  }
  return cudaSuccess;
}

cudaError_t check_cluster(Kernel& kernel, Launch const& launch, char const* function) {
  dim3 const& grid = launch.grid;
  dim3 const& cluster = launch.cluster;
  cudaError_t const error = check_cluster_size(kernel, cluster, function);
  if (error != cudaSuccess) { return error; }
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
    return refuse(cudaErrorInvalidClusterSize, function,
                  "a grid of %u x %u x %u CTAs is no whole number of clusters of %u x %u x %u", grid.x, grid.y, grid.z,
                  cluster.x, cluster.y, cluster.z);
  }
  return cudaSuccess;
}

cudaError_t check(Kernel& kernel, Launch const& launch, char const* function) {
  dim3 const& grid = launch.grid;
  dim3 const& block = launch.block;
  if (count(grid) == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
    return refuse(cudaErrorInvalidConfiguration, function, "a grid of %u x %u x %u CTAs", grid.x, grid.y, grid.z);
  }
  if (count(block) == 0 || count(block) > 1024 || block.x > 1024 || block.y > 1024 || block.z > 64) {
    return refuse(cudaErrorInvalidConfiguration, function, "a CTA of %u x %u x %u threads", block.x, block.y, block.z);
  }
  if (count(block) > uint64_t(kernel.most_threads)) {
    return refuse(cudaErrorInvalidValue, function, "%llu threads; the kernel's __launch_bounds__ allow %d",
                  (unsigned long long)count(block), kernel.most_threads);
  }
  if (launch.shared_bytes > size_t(kernel.attributes().allowed_shared_bytes)) {
    return refuse(cudaErrorInvalidValue, function, "%zu bytes of dynamic shared memory; cudaFuncSetAttribute has allowed %d",
                  launch.shared_bytes, kernel.attributes().allowed_shared_bytes);
  }
  return check_cluster(kernel, launch, function);
}

void print_launch(FILE* out, Kernel const& kernel, Launch const& launch, void** arguments) {
  std::vector<unsigned char> bytes;
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    Parameter const& one = kernel.parameters[i];
    if (bytes.size() < one.offset + one.size) { bytes.resize(one.offset + one.size); }
    std::memcpy(bytes.data() + one.offset, arguments[i], one.size);
  }
  std::fprintf(out, "launch %s grid %u %u %u block %u %u %u cluster %u %u %u shared %zu stream %llu programmatic %d params ",
               kernel.name.c_str(), launch.grid.x, launch.grid.y, launch.grid.z, launch.block.x, launch.block.y, launch.block.z,
               launch.cluster.x, launch.cluster.y, launch.cluster.z, launch.shared_bytes,
               (unsigned long long)reinterpret_cast<uintptr_t>(launch.stream), launch.programmatic);
  for (unsigned char const byte : bytes) { std::fprintf(out, "%02x", byte); }
  std::fputs(bytes.empty() ? "-\n" : "\n", out);
}

cudaError_t launch_kernel(void const* host, Launch const& launch, void** arguments, char const* function) {
  has_context = true;
  Kernel* const kernel = kernel_at(host, function);
  if (kernel == nullptr) { return last_error; }
  cudaError_t error = injected("launch");
  if (error == cudaSuccess) { error = check(*kernel, launch, function); }
  if (error != cudaSuccess) { return error; }
  FILE* const out = output_for(launch.stream, function);
  if (out == nullptr) { return last_error; }
  print_launch(out, *kernel, launch, arguments);
  return cudaSuccess;
}

cudaError_t read_config(cudaLaunchConfig_t const& config, Launch& launch, char const* function) {
  launch.grid = config.gridDim;
  launch.block = config.blockDim;
  launch.shared_bytes = config.dynamicSmemBytes;
  launch.stream = config.stream;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    cudaLaunchAttribute const& attribute = config.attrs[i];
    switch (attribute.id) {
      case cudaLaunchAttributeIgnore: break;
      case cudaLaunchAttributeClusterDimension:
        launch.cluster = dim3(attribute.val.clusterDim.x, attribute.val.clusterDim.y, attribute.val.clusterDim.z);
        break;
      case cudaLaunchAttributeProgrammaticStreamSerialization:
        launch.programmatic = attribute.val.programmaticStreamSerializationAllowed;
        break;
      default: return refuse(cudaErrorNotSupported, function, "launch attribute %d is not emulated", int(attribute.id));
    }
  }
  return cudaSuccess;
}

thread_local std::vector<Launch> configurations;  // of <<<>>>, between its push and its pop

}  // namespace
}  // namespace mmagen_host

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterVar(void**, char*, char*, char const*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, char const* host, char*, char const* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  state().kernel_of_host[host] = name;
  state().kernels[name].name = name;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st* stream) {
  Launch launch;
  launch.grid = grid;
  launch.block = block;
  launch.shared_bytes = shared_bytes;
  launch.stream = stream;
  configurations.push_back(launch);
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  if (configurations.empty()) {
    return refuse(cudaErrorMissingConfiguration, "<<<>>>", "a kernel called without a configuration");
  }
  Launch const launch = configurations.back();
  configurations.pop_back();
  *grid = launch.grid;
  *block = launch.block;
  *shared_bytes = launch.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = launch.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, void const* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                               cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<void const*>(kernel), grid, block, arguments, shared_bytes, stream);
}

cudaError_t cudaGetLastError() {
  cudaError_t const error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaGetDeviceCount(int* devices) {
  *devices = int(state().devices.size());
  return injected("cudaGetDeviceCount");
}
cudaError_t cudaGetDevice(int* device) {
  *device = state().current;
  return injected("cudaGetDevice");
}
cudaError_t cudaSetDevice(int device) {
  if (device_at(device, "cudaSetDevice") == nullptr) { return last_error; }
  has_context = true;
  state().current = device;
  return injected("cudaSetDevice");
}
/// A capture does not survive it: on an H200 the launch behind it returned this error.
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  if (state().capturing) { state().failures["launch"] = cudaErrorStreamCaptureInvalidated; }
  invalidate_by_query(stream);
  *device = state().device_of_streams < 0 ? state().current : state().device_of_streams;
  return injected("cudaStreamGetDevice");
}
/// Whatever an address is, it is memory of the current device, but for one of which the test says otherwise.
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, void const* pointer) {
  bool const foreign = pointer == state().foreign;
  *attributes = {};
  attributes->type = foreign && state().foreign_device < 0 ? cudaMemoryTypeUnregistered : cudaMemoryTypeDevice;
  attributes->device = foreign ? state().foreign_device : state().current;
  attributes->devicePointer = foreign ? nullptr : const_cast<void*>(pointer);
  return injected("cudaPointerGetAttributes");
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  Device const* const found = device_at(device, "cudaDeviceGetAttribute");
  if (found == nullptr) { return last_error; }
  Device const& here = *found;
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = here.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = here.minor; break;
    case cudaDevAttrMultiProcessorCount: *value = here.multiprocessors; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = kDefaultSharedBytes; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = here.most_shared_bytes; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrPageableMemoryAccess: *value = 0; break;
    case cudaDevAttrL2CacheSize: *value = here.l2_bytes; break;
    case cudaDevAttrClusterLaunch: *value = here.major >= 9; break;
    default: return refuse(cudaErrorNotSupported, "cudaDeviceGetAttribute", "attribute %d is not emulated", int(attribute));
  }
  return injected("cudaDeviceGetAttribute");
}

cudaError_t cudaFuncSetAttribute(void const* host, cudaFuncAttribute attribute, int value) {
  has_context = true;
  Kernel* const kernel = kernel_at(host, "cudaFuncSetAttribute");
  if (kernel == nullptr) { return last_error; }
  cudaError_t const error = injected("cudaFuncSetAttribute");
  if (error != cudaSuccess) { return error; }
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      if (value < 0 || value > state().device().most_shared_bytes - kernel->static_shared_bytes) {
        return refuse(cudaErrorInvalidValue, "cudaFuncSetAttribute",
                      "%d bytes of dynamic shared memory beside %d static ones; sm_%d%d has %d", value,
                      kernel->static_shared_bytes, state().device().major, state().device().minor,
                      state().device().most_shared_bytes);
      }
      kernel->attributes().allowed_shared_bytes = value;
      return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed: kernel->attributes().large_clusters = value != 0; return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout: return cudaSuccess;
    default: return refuse(cudaErrorNotSupported, "cudaFuncSetAttribute", "attribute %d is not emulated", int(attribute));
  }
}
/// Registers and local memory are ptxas's to say: 0 here.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void const* host) {
  has_context = true;
  Kernel* const kernel = kernel_at(host, "cudaFuncGetAttributes");
  if (kernel == nullptr) { return last_error; }
  std::memset(attributes, 0, sizeof *attributes);
  attributes->sharedSizeBytes = size_t(kernel->static_shared_bytes);
  attributes->maxThreadsPerBlock = kernel->most_threads;
  attributes->maxDynamicSharedSizeBytes = kernel->attributes().allowed_shared_bytes;
  attributes->ptxVersion = 10 * state().device().major + state().device().minor;
  return injected("cudaFuncGetAttributes");
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* ctas, void const* host, int threads,
                                                                   size_t shared_bytes, unsigned) {
  has_context = true;
  Kernel* const kernel = kernel_at(host, "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  if (kernel == nullptr) { return last_error; }
  *ctas = threads <= kernel->most_threads && shared_bytes <= size_t(kernel->attributes().allowed_shared_bytes) ? 1 : 0;
  return injected("cudaOccupancyMaxActiveBlocksPerMultiprocessor");
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* ctas, void const* host, int threads, size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(ctas, host, threads, shared_bytes, 0);
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, void const* host, cudaLaunchConfig_t const* config) {
  has_context = true;
  Kernel* const kernel = kernel_at(host, "cudaOccupancyMaxActiveClusters");
  if (kernel == nullptr) { return last_error; }
  Launch launch;
  cudaError_t error = read_config(*config, launch, "cudaOccupancyMaxActiveClusters");
  if (error == cudaSuccess) { error = check_cluster_size(*kernel, launch.cluster, "cudaOccupancyMaxActiveClusters"); }
  if (error != cudaSuccess) { return error; }
  *clusters = launch.shared_bytes <= size_t(kernel->attributes().allowed_shared_bytes) ? state().device().resident_clusters : 0;
  return injected("cudaOccupancyMaxActiveClusters");
}

cudaError_t cudaGetDriverEntryPointByVersion(char const* symbol, void** entry, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  bool const known = std::strcmp(symbol, "cuTensorMapEncodeTiled") == 0;
  if (!known && std::strncmp(symbol, "cuTensorMapEncode", 17) == 0) {
    note_refusal(symbol, cudaErrorSymbolNotFound, "only tiled tensor maps are emulated");
  }
  *entry = known ? tensor_map_encoder() : nullptr;
  if (found != nullptr) { *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound; }
  return injected("cudaGetDriverEntryPointByVersion");
}

cudaError_t cudaLaunchKernel(void const* host, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  Launch launch;
  launch.grid = grid;
  launch.block = block;
  launch.shared_bytes = shared_bytes;
  launch.stream = stream;
  return launch_kernel(host, launch, arguments, "cudaLaunchKernel");
}
cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* config, void const* host, void** arguments) {
  Launch launch;
  cudaError_t const error = read_config(*config, launch, "cudaLaunchKernelExC");
  return error != cudaSuccess ? error : launch_kernel(host, launch, arguments, "cudaLaunchKernelExC");
}

}  // extern "C"
