// What the stand-in for the CUDA runtime knows: devices, the kernels of the library under test, and the errors to inject.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace mmagen_host {

/// Shared memory of a CTA that needs no cudaFuncSetAttribute, and what every GPU has.
inline constexpr int kDefaultSharedBytes = 48 * 1024;

struct Device {
  int major = 9, minor = 0;
  int multiprocessors = 132;
  int most_shared_bytes = 232448;  // dynamic and static, after cudaFuncSetAttribute
  int resident_clusters = 100;     // what cudaOccupancyMaxActiveClusters answers
  int l2_bytes =
      1 << 16;  // small, as is free_bytes, so that programs that rotate operands through more than the L2 launch few kernels
  size_t free_bytes = 1 << 20;
};

/// A parameter of a kernel as its PTX declares it, in bytes.
struct Parameter {
  size_t offset, size;
};

/// What cudaFuncSetAttribute has set of a kernel on one device, until the device is reset.
struct KernelAttributes {
  int allowed_shared_bytes;
  bool large_clusters = false;
};

struct Kernel {
  std::string name;     // of the PTX entry
  bool in_ptx = false;  // the caller said what the PTX declares
  int most_threads = 1024;
  int static_shared_bytes = 0;
  std::vector<Parameter> parameters;
  std::map<int, KernelAttributes> of_device;

  /// Those on the current device. Dynamic and static shared memory together have the default until a call says more.
  KernelAttributes& attributes();
};

struct State {
  std::map<int, Device> devices{{0, {}}};
  int current = 0;                                    // of these
  std::map<std::string, Kernel> kernels;              // by name
  std::map<void const*, std::string> kernel_of_host;  // address of the host function -> name
  int driver_version = CUDART_VERSION;                // 0: no driver
  int device_of_streams = -1;                         // < 0: the current one
  bool capturing = false;                             // are streams being captured?
  void* foreign = nullptr;                            // an address that the current device does not reach
  int foreign_device = 0;
  std::map<std::string, int> failures;  // function -> the cudaError_t that it returns
  bool has_memory = false;              // the caller keeps device memory and answers
  unsigned long long device_first = 0, device_end = 0;
  FILE* out = nullptr;

  /// The current one.
  Device& device() { return devices[current]; }

  /// Is that an address of device memory?
  bool is_device(unsigned long long address) const { return address >= device_first && address < device_end; }
};

State& state();

/// Per thread, as in CUDA: the last error, and whether a context is current.
inline thread_local cudaError_t last_error = cudaSuccess;
inline thread_local bool has_context = false;

/// The device of that number; null, and the call is refused, where there is none.
Device const* device_at(int device, char const* function);

/// Notes why a call was refused, for the caller to read, and returns `error`. `format` is printf's.
cudaError_t refuse(cudaError_t error, char const* function, char const* format, ...) __attribute__((format(printf, 3, 4)));

/// The error that a `fail` directive injects into `function`, else cudaSuccess.
cudaError_t injected(char const* function);

/// Where a line about work on `stream` is printed: to the output, or to the graph that the stream is captured into. Null if a
/// capture forbids the work; the call has then been refused. See graph.cpp.
FILE* output_for(cudaStream_t stream, char const* function);

/// Refuses a call that is unsafe during a capture (it synchronizes, or is not stream-ordered). Returns whether it was refused.
bool refuse_if_unsafe(char const* function);

/// Notes that `stream` was created with cudaStreamNonBlocking: it does not synchronize with the legacy default stream.
void add_non_blocking(cudaStream_t stream);

/// Invalidates the capture of `stream`, if there is one.
void invalidate_capture(cudaStream_t stream);

/// Invalidates the captures that do not survive cudaStreamGetDevice(stream): its own, and those that forbid unsafe calls.
void invalidate_by_query(cudaStream_t stream);

/// Prints one line that says why a call was refused.
void note_refusal(char const* function, int code, char const* reason);

/// The driver's cuTensorMapEncodeTiled.
void* tensor_map_encoder();

}  // namespace mmagen_host
