// SPDX-License-Identifier: MIT-0
// The boundary between the project's C header and the kernels: reads the versioned structs, and keeps the status of this
// thread's last call for an error text that names the argument and its value. Host only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "further_tensors.cuh"
#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Facts about a library for its error texts, from the plan. major_*: the contiguous modes. bytes_*: of an element, or
/// what a pointer must be aligned to. needs: "sm_90a", or "sm_80 or later". compiled_for: where that is not what the plan says,
/// else "". shape: the sentence of a kernel that computes a fixed shape.
struct Interface {
  char const* name;
  char major_a, major_b, major_d;
  int bytes_a, bytes_b, bytes_d, bytes_scalar;
  char const* needs;
  char const* compiled_for;
  int smem_bytes, cluster_ctas;
  char const* shape;
  int columns_of_element = 1;   // of A B^T, for an element of D
  int group_a = 1, kept_a = 1;  // of a sparse A, as a call has it: kept_a of each group_a columns
  int packed_b = 1;             // elements of B in one of its memory
  int packed_a = 1;             // and of A
  int most_k = 0x7fffffff - 16384;
};

/// Copies the caller's struct, which may be of another version: a shorter one is refused, of a longer one all that this library
/// does not know must be zero. A batch of 0 is one matrix.
template <class Args>
Status read_args(Args const* from, Args& args) {
  if (from == nullptr) { return Status::kNullArgs; }
  if (from->struct_size < sizeof(Args)) { return Status::kStructSize; }
  auto const* const bytes = reinterpret_cast<unsigned char const*>(from);
  constexpr uint64_t kMost = 4096;  // of any version to come: more is a struct that was not initialized
  if (from->struct_size > kMost) { return Status::kStructSize; }
  for (uint64_t i = sizeof(Args); i < from->struct_size; ++i) {
    if (bytes[i] != 0) { return Status::kStructSize; }
  }
  args = *from;
  args.struct_size = sizeof(Args);
  if (args.batch == 0) { args.batch = 1; }
  return Status::kSuccess;
}

/// One sentence for a status, without the values of a call.
inline char const* status_text(Status status, Interface const& interface) {
  switch (status) {
    case Status::kSuccess: return "success";
    case Status::kCudaError: return "CUDA error: the launch was refused, or an earlier one has failed";
    case Status::kNoDriver: return "no driver: this machine has no CUDA driver";
    case Status::kOldDriver: return "old driver: the CUDA driver is older than the CUDA that this library was built with";
    case Status::kNoDevice: return "no device: the CUDA driver shows no device";
    case Status::kWrongDevice: return "wrong device: this library has no code for the architecture of the current device";
    case Status::kSmallDevice: return "small device: it has too little shared memory for a CTA, or too few SMs for a cluster";
    case Status::kNullArgs: return "the argument struct is NULL";
    case Status::kStructSize:
      return "struct_size is less than the size of this library's struct, or members that this library does not know are not "
             "zero";
    case Status::kFixedShape: return interface.shape;
    case Status::kTooManyTiles: return "too many tiles: m, n and batch make more than 2^31 - 16385, or more than 2^31 - 1 CTAs";
    case Status::kWrongStream: return "stream belongs to another device than the current one";
    case Status::kForeignMemory: return "a pointer is to memory that the current device cannot access";
    case Status::kNegativeM: return "m is negative";
    case Status::kNegativeN: return "n is negative";
    case Status::kNegativeK: return "k is negative";
    case Status::kNegativeBatch: return "batch is negative";
    case Status::kTooLargeM: return "m is too large: 2^31 - 16385 is the most";
    case Status::kTooLargeN: return "n is too large: 2^31 - 16385 is the most";
    case Status::kTooLargeK:
      return "k is too large: 2^31 - 16385 is the most, less where A is sparse or operands are split into pieces";
    case Status::kNullA: return "a is NULL";
    case Status::kNullB: return "b is NULL";
    case Status::kNullC: return "c is NULL, and is read: beta is not 0";
    case Status::kNullD: return "d is NULL";
    case Status::kNullMetadataA: return "metadata_a is NULL";
    case Status::kNullScaleA: return "scale_a is NULL";
    case Status::kNullScaleB: return "scale_b is NULL";
    case Status::kMisalignedA: return "a is not aligned to its elements";
    case Status::kMisalignedB: return "b is not aligned to its elements";
    case Status::kMisalignedC: return "c is not aligned to its elements";
    case Status::kMisalignedD: return "d is not aligned to its elements";
    case Status::kMisalignedMetadataA: return "metadata_a, or its batch stride, is not a multiple of 16 bytes";
    case Status::kMisalignedScaleA: return "scale_a is not aligned to 16 bytes";
    case Status::kMisalignedScaleB: return "scale_b is not aligned to 16 bytes";
    case Status::kMisalignedAlpha: return "alpha_device is not aligned to a scalar";
    case Status::kMisalignedBeta: return "beta_device is not aligned to a scalar";
    case Status::kMisalignedWorkspace: return "workspace is not aligned to 16 bytes";
    case Status::kShortWorkspace: return "workspace is NULL, or has fewer bytes than this call needs";
    case Status::kShortLda: return "lda is less than the extent of A along its contiguous mode";
    case Status::kShortLdb: return "ldb is less than the extent of B along its contiguous mode";
    case Status::kShortLdc: return "ldc is less than the extent of C along its contiguous mode";
    case Status::kShortLdd: return "ldd is less than the extent of D along its contiguous mode";
    case Status::kAlphaNotInteger: return "alpha is not a 32-bit integer, and the scalars of this kernel are";
    case Status::kBetaNotInteger: return "beta is not a 32-bit integer, and the scalars of this kernel are";
    case Status::kSharedD: return "batch_stride_d is 0, and batch is more than 1: all results would be written to one D";
    case Status::kNegativeStrideA: return "batch_stride_a is negative";
    case Status::kNegativeStrideB: return "batch_stride_b is negative";
    case Status::kNegativeStrideC: return "batch_stride_c is negative";
    case Status::kNegativeStrideD: return "batch_stride_d is negative";
    case Status::kNegativeStrideMetadataA: return "batch_stride_metadata_a is negative";
    case Status::kNullTensor: return "a tensor argument other than a, b, c and d is NULL, and the kernel needs it";
    case Status::kMisalignedTensor: return "a tensor argument other than a, b, c and d is misaligned";
    case Status::kShortTensor: return "the leading dimension of a tensor argument is less than the tensor's contiguous extent";
    case Status::kSharedTensor:
      return "the batch stride of a tensor argument that is written is 0: all matrices would be written to one";
    case Status::kNegativeTensor: return "the batch stride of a tensor argument is negative";
    case Status::kUnusedAlpha: return "alpha is not 1, and this epilogue does not multiply by it";
    case Status::kUnusedBeta: return "beta is not 0, and this epilogue does not add C";
    case Status::kUnalignedA: return "a, lda or batch_stride_a is not a multiple of 16 bytes, which this kernel needs";
    case Status::kUnalignedB: return "b, ldb or batch_stride_b is not a multiple of 16 bytes, which this kernel needs";
    case Status::kNullMatrix: return "a matrix of the call is NULL";
    case Status::kMisalignedMatrix: return "a matrix of the call is misaligned";
    case Status::kShortMatrix: return "a leading dimension is less than the contiguous extent of its matrix";
    case Status::kSharedMatrix: return "a batch stride is 0: all matrices of the batch would be written to one";
    case Status::kNotSparse: return "not sparse: a group of neighbours along K has more nonzeros than the format keeps";
    case Status::kIllegalMetadata: return "illegal metadata: 4 bits select no legal positions of a group";
    case Status::kOddN: return "n is odd, and each element of D is made of two columns of A * B";
    case Status::kGroupSizes: return "group_offsets and group_ends are both NULL, or both given: pass exactly one of them";
    case Status::kNotForTma:
      return "a or b, a leading dimension or a batch stride of theirs, is not a multiple of 16 bytes, which TMA needs";
    case Status::kTooLargeA: return "a takes more than 2^63 - 1 bytes, with its leading dimension and batch stride";
    case Status::kTooLargeB: return "b takes more than 2^63 - 1 bytes, with its leading dimension and batch stride";
    case Status::kTooLargeC: return "c takes more than 2^63 - 1 bytes, with its leading dimension and batch stride";
    case Status::kTooLargeD: return "d takes more than 2^63 - 1 bytes, with its leading dimension and batch stride";
    case Status::kTooLargeTensor:
      return "a tensor argument other than a, b, c and d takes more than 2^63 - 1 bytes, with its strides";
    case Status::kTooLargeMatrix: return "a matrix of the call takes more than 2^63 - 1 bytes, with its strides";
    case Status::kNegativeMatrix: return "the batch stride of a matrix of the call is negative";
    case Status::kFarApartA: return "lda or batch_stride_a is 2^40 bytes or more, which TMA cannot address";
    case Status::kFarApartB: return "ldb or batch_stride_b is 2^40 bytes or more, which TMA cannot address";
    case Status::kFarApartTensor: return "batch_stride_metadata_a is 2^40 bytes or more, which TMA cannot address";
  }
  return "unknown status";
}

/// The outcome of a thread's last call. Zero-initialized, without a constructor: a C program would not run the constructor of a
/// thread-local variable.
struct LastStatus {
  static constexpr int kBytes = 320;

  Status status;
  int cuda_error;
  char sentence[kBytes];
  bool told;  // is `sentence` about this status?

  /// Before a call.
  void begin() {
    cuda_error_of_thread() = 0;
    told = false;
  }

  /// The status, with the sentence for it.
  template <class... Values>
  Status tell(Status now, char const* format, Values... values) {
    std::snprintf(sentence, kBytes, format, values...);
    told = true;
    return now;
  }

  Status keep(Status now) {
    status = now;
    cuda_error = now == Status::kSuccess ? 0 : cuda_error_of_thread();
    return now;
  }

  /// The status of the last call as one sentence.
  char const* text(Interface const& interface) {
    return told || about_device(interface) ? sentence : status_text(status, interface);
  }

 protected:
  template <class... Values>
  bool say(char const* format, Values... values) {
    std::snprintf(sentence, kBytes, format, values...);
    return true;
  }

  bool about_device(Interface const& interface) {
    int device = 0, major = 0, minor = 0, smem = 0, driver = 0;
    switch (status) {
      case Status::kCudaError: {
        auto const error = cudaError_t(cuda_error);
        return say("CUDA error %d, %s: %s", cuda_error, cudaGetErrorName(error), cudaGetErrorString(error));
      }
      case Status::kOldDriver:
        if (cudaDriverGetVersion(&driver) != cudaSuccess) { return false; }
        return say("old driver: it supports CUDA %d.%d, and this library was built with CUDA %d.%d", driver / 1000,
                   driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
      case Status::kWrongStream:
        if (cudaGetDevice(&device) != cudaSuccess) { return false; }
        return say("stream is no stream of the current device, which is device %d: pass one that was created there", device);
      case Status::kWrongDevice:
      case Status::kSmallDevice: break;
      default: return false;
    }
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&smem, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess) {
      return false;
    }
    if (status == Status::kSmallDevice) {
      return say(
          "this device is sm_%d%d with %d bytes of shared memory for a CTA; the kernel needs %d, and SMs for a cluster "
          "of %d",
          major, minor, smem, interface.smem_bytes, interface.cluster_ctas);
    }
    if (interface.compiled_for[0] != '\0') {
      return say("this device is sm_%d%d, the kernel needs %s; this library was compiled for %s", major, minor, interface.needs,
                 interface.compiled_for);
    }
    return say("this device is sm_%d%d, the kernel needs %s", major, minor, interface.needs);
  }
};

/// The same for a call with the public argument struct, whose values the sentence names.
template <class Args, class Further = NoFurther>
struct LastCall : LastStatus {
  Args args;
  uint64_t known_bytes;  // of the struct that was read

  /// Runs `call(args)` on the caller's struct and keeps what it returns.
  template <class Call>
  Status with_args(Args const* from, Call const& call) {
    begin();
    Args read = {};
    known_bytes = sizeof(Args);
    Status const status = read_args(from, read);
    args = read;
    if (status == Status::kStructSize) { args.struct_size = from->struct_size; }
    return keep(status == Status::kSuccess ? call(static_cast<Args const&>(read)) : status);
  }

  /// The same for a call that launches nothing: then also asks CUDA where the memory of each pointer is.
  template <class Call>
  Status probe(Args const* from, Call const& call) {
    return with_args(from, [this, &call](Args const& read) {
      Status const found = call(read);
      return found == Status::kSuccess ? check_memory(read) : found;
    });
  }

  /// Runs `call(info)` on the caller's struct for results.
  template <class Info, class Call>
  Status with_info(Info* info, Call const& call) {
    begin();
    args = {};
    known_bytes = sizeof(Info);
    if (info == nullptr) { return keep(Status::kNullArgs); }
    args.struct_size = info->struct_size;
    return keep(info->struct_size < sizeof(Info) ? Status::kStructSize : call(*info));
  }

  /// The status of the last call as one sentence with the values that it is about.
  char const* text(Interface const& interface) {
    return told || about_matrix(interface) || about_tensor() || about_value(interface) ? sentence : LastStatus::text(interface);
  }

 private:
  /// kForeignMemory for the first pointer of a call to memory that the current device does not reach.
  Status check_memory(Args const& read) {
    if (read.m == 0 || read.n == 0) { return Status::kSuccess; }
    bool const multiplies = read.k > 0, reads_c = read.beta != 0 || read.beta_device != nullptr;
    struct Pointer {
      char const* name;
      void const* address;
    };
    Pointer const all[] = {
        {"a", multiplies ? read.a : nullptr}, {"b", multiplies ? read.b : nullptr},
        {"c", reads_c ? read.c : nullptr},    {"d", read.d},
        {"alpha_device", read.alpha_device},  {"beta_device", read.beta_device},
        {"workspace", read.workspace},
    };
    for (Pointer const& one : all) {
      if (!is_reached(one.name, one.address)) { return Status::kForeignMemory; }
    }
    for (int i = 0; i < Further::kTensors; ++i) {
      TensorArgument const one = Further::tensor(read, i);
      if (!is_reached(one.name, one.pointer)) { return Status::kForeignMemory; }
    }
    return Status::kSuccess;
  }

  /// Keeps the sentence if the pointer is to memory of the host alone, or of a device that the current one cannot access.
  bool is_reached(char const* name, void const* pointer) {
    cudaPointerAttributes found{};
    int device = 0, pageable = 0;
    if (pointer == nullptr) { return true; }
    if (cudaPointerGetAttributes(&found, pointer) != cudaSuccess || cudaGetDevice(&device) != cudaSuccess) {
      cudaGetLastError();  // nothing is known
      return true;
    }
    if (found.devicePointer != nullptr || found.device == device) { return true; }
    if (found.type == cudaMemoryTypeDevice) {
      tell(Status::kForeignMemory, "%s is memory of device %d, which the current device, %d, does not reach", name,
           found.device, device);
      return false;
    }
    if (cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, device) != cudaSuccess || pageable != 0) {
      return true;
    }
    tell(Status::kForeignMemory, "%s is %p, no memory that device %d reaches: copy it to memory of the device", name, pointer,
         device);
    return false;
  }

  bool about_matrix(Interface const& interface) {
    struct Matrix {
      char const* name;
      void const* pointer;
      long long ld, row, stride;
      int bytes;
    };
    auto const extent = [this](char mode) { return (long long)(mode == 'M' ? args.m : mode == 'N' ? args.n : args.k); };
    long long const groups_of_a = (extent(interface.major_a) + interface.group_a - 1) / interface.group_a;
    Matrix const matrices[] = {
        {"a", args.a, args.lda, (groups_of_a * interface.kept_a + interface.packed_a - 1) / interface.packed_a,
         args.batch_stride_a, interface.bytes_a},
        {"b", args.b, args.ldb, (extent(interface.major_b) + interface.packed_b - 1) / interface.packed_b, args.batch_stride_b,
         interface.bytes_b},
        {"c", args.c, args.ldc, extent(interface.major_d), args.batch_stride_c, interface.bytes_d},
        {"d", args.d, args.ldd, extent(interface.major_d) / (interface.major_d == 'N' ? interface.columns_of_element : 1),
         args.batch_stride_d, interface.bytes_d},
    };
    char const modes[] = {interface.major_a, interface.major_b, interface.major_d, interface.major_d};
    int const code = int(status);
    if (code >= int(Status::kShortLda) && code <= int(Status::kShortLdd)) {
      int const i = code - int(Status::kShortLda);
      return say("ld%s is %lld; a line of %c along %c has %lld elements", matrices[i].name, matrices[i].ld, "ABCD"[i], modes[i],
                 matrices[i].row);
    }
    if (code >= int(Status::kNegativeStrideA) && code <= int(Status::kNegativeStrideD)) {
      int const i = code - int(Status::kNegativeStrideA);
      return say("batch_stride_%s is %lld, a stride is 0 or more", matrices[i].name, matrices[i].stride);
    }
    if (code >= int(Status::kTooLargeA) && code <= int(Status::kTooLargeD)) {
      Matrix const& one = matrices[code - int(Status::kTooLargeA)];
      return about_size("", one.name, one.ld, one.stride, one.bytes);
    }
    if (code == int(Status::kFarApartA) || code == int(Status::kFarApartB)) {
      Matrix const& one = matrices[code - int(Status::kFarApartA)];
      bool const lines = !tma_takes_strides({1, one.ld, 1, 0, one.bytes});
      return say("%s%s is %lld, of %d bytes each; TMA addresses %s of %c that are less than 2^40 bytes apart",
                 lines ? "ld" : "batch_stride_", one.name, lines ? one.ld : one.stride, one.bytes, lines ? "lines" : "matrices",
                 "AB"[code - int(Status::kFarApartA)]);
    }
    if (code >= int(Status::kMisalignedA) && code <= int(Status::kMisalignedD)) {
      int const i = code - int(Status::kMisalignedA);
      return say("%s is %p, not aligned to %d bytes", matrices[i].name, matrices[i].pointer,
                 has_pointers() ? int(sizeof(void*)) : matrices[i].bytes);
    }
    return false;
  }

  /// Which stride makes a matrix, or a batch of them, take more bytes than an offset counts. between: after "ld" in a member's
  /// name.
  bool about_size(char const* between, char const* name, int64_t ld, int64_t stride, int bytes) {
    bool const matrices = !fits_64_bits({0, 0, args.batch, stride, bytes});
    return say("%s%s%s is %lld, of %d bytes each; %s takes more than 2^63 - 1 bytes", matrices ? "batch_stride_" : "ld",
               matrices ? "" : between, name, (long long)(matrices ? stride : ld), bytes, name);
  }

  /// Which argument of matrix `letter` keeps its lines from beginning at multiples of 16 bytes.
  bool about_lines(char letter, void const* pointer, int64_t ld, int64_t stride, int bytes) {
    constexpr int kAligned = 16;
    char const name = char(letter - 'a' + 'A');
    auto const about = [&](char const* member, int64_t value) {
      return say("%s%c is %lld, of %d bytes each; lines of %c begin at multiples of %d bytes", member, letter, (long long)value,
                 bytes, name, kAligned);
    };
    if (!is_aligned(pointer, kAligned)) { return say("%c is %p, not aligned to %d bytes", letter, pointer, kAligned); }
    if (ld % (kAligned / bytes) != 0) { return about("ld", ld); }
    return args.batch > 1 && stride % (kAligned / bytes) != 0 && about("batch_stride_", stride);
  }

  /// The further tensor of this name; without a name if the kernel has none.
  TensorArgument further(char const* name) const {
    TensorArgument found = {};
    for (int i = 0; i < Further::kTensors; ++i) {
      TensorArgument const one = Further::tensor(args, i);
      if (std::strcmp(one.name, name) == 0) { found = one; }
    }
    return found;
  }

  /// Are a, b, c and d arrays of pointers, to the matrices of groups?
  bool has_pointers() const { return further("group_lda").name != nullptr; }

  /// The same of a leading dimension that all groups have, where they do not have their own. own: the member for those.
  bool about_common_lines(char letter, char const* own, int64_t ld, int bytes) {
    return further(own).pointer == nullptr && about_lines(letter, nullptr, ld, 0, bytes);
  }

  bool about_metadata() {
    TensorArgument const one = further("metadata_a");
    if (one.name == nullptr) { return false; }
    if (status == Status::kNegativeStrideMetadataA) {
      return say("batch_stride_metadata_a is %lld, a stride is 0 or more", (long long)one.batch_stride);
    }
    if (status == Status::kFarApartTensor) {
      return say("batch_stride_metadata_a is %lld words; TMA addresses matrices that are less than 2^40 bytes apart",
                 (long long)one.batch_stride);
    }
    if (!is_aligned(one.pointer, 16)) { return say("metadata_a is %p, not aligned to 16 bytes", one.pointer); }
    return say("batch_stride_metadata_a is %lld, no multiple of 4 words", (long long)one.batch_stride);
  }

  /// The first of the further tensors that has what the status says.
  bool about_tensor() {
    bool const about_one = status >= Status::kNullTensor && status <= Status::kSharedTensor;
    if (!about_one && status != Status::kNegativeTensor && status != Status::kTooLargeTensor) { return false; }
    for (int i = 0; i < Further::kTensors; ++i) {
      TensorArgument const one = Further::tensor(args, i);
      if (check_tensor(one, args.batch) != status) { continue; }
      switch (status) {
        case Status::kNullTensor: return say("%s is NULL", one.name);
        case Status::kMisalignedTensor: return say("%s is %p, not aligned to %d bytes", one.name, one.pointer, one.aligned_to);
        case Status::kShortTensor:
          return say("ld_%s is %lld; a line of %s has %lld elements", one.name, (long long)one.ld, one.name,
                     (long long)one.line);
        case Status::kNegativeTensor:
          return say("batch_stride_%s is %lld, a stride is 0 or more", one.name, (long long)one.batch_stride);
        case Status::kTooLargeTensor: return about_size("_", one.name, one.ld, one.batch_stride, one.element_bytes);
        default:
          return say("batch is %lld and batch_stride_%s is 0: all matrices would be written to one", (long long)args.batch,
                     one.name);
      }
    }
    return false;
  }

  /// An extent that is legal by itself.
  bool about_pieces(char const* name, int64_t extent) {
    return say("%s is %lld; with k %lld and batch %lld an operand has more bf16 pieces than a kernel counts", name,
               (long long)extent, (long long)args.k, (long long)args.batch);
  }

  bool about_value(Interface const& interface) {
    constexpr long long kMost = 0x7fffffffLL - 16384;
    auto const number = [](int64_t value) { return (long long)value; };
    switch (status) {
      case Status::kStructSize:
        return say(
            "struct_size is %llu; set it to the size of the struct: this library knows %llu bytes, and any after them "
            "must be zero",
            (unsigned long long)args.struct_size, (unsigned long long)known_bytes);
      case Status::kNegativeM: return say("m is %lld, an extent is 0 or more", number(args.m));
      case Status::kNegativeN: return say("n is %lld, an extent is 0 or more", number(args.n));
      case Status::kNegativeK: return say("k is %lld, an extent is 0 or more", number(args.k));
      case Status::kNegativeBatch: return say("batch is %lld, a count is 0 or more", number(args.batch));
      case Status::kTooLargeM:
        if (args.m <= kMost) { return about_pieces("m", args.m); }
        return say("m is %lld, %lld is the most", number(args.m), kMost);
      case Status::kTooLargeN:
        if (args.n <= kMost) { return about_pieces("n", args.n); }
        return say("n is %lld, %lld is the most", number(args.n), kMost);
      case Status::kTooLargeK:
        if (args.k > interface.most_k) { return say("k is %lld, %d is the most", number(args.k), interface.most_k); }
        return say(
            "k is %lld; with m %lld and n %lld one matrix has 2^40 bytes of bf16 pieces or more, and TMA addresses matrices "
            "that are less than 2^40 bytes apart",
            number(args.k), number(args.m), number(args.n));
      case Status::kTooManyTiles:
        return say("m %lld, n %lld and batch %lld make more than %lld output tiles, or more than 2^31 - 1 CTAs", number(args.m),
                   number(args.n), number(args.batch), kMost);
      case Status::kMisalignedAlpha:
        return say("alpha_device is %p, not aligned to %d bytes", args.alpha_device, interface.bytes_scalar);
      case Status::kMisalignedBeta:
        return say("beta_device is %p, not aligned to %d bytes", args.beta_device, interface.bytes_scalar);
      case Status::kMisalignedWorkspace: return say("workspace is %p, not aligned to 16 bytes", args.workspace);
      case Status::kShortWorkspace:
        if (args.workspace == nullptr) {
          return say("workspace is NULL; this call needs one, of the bytes that %s_workspace_bytes() says", interface.name);
        }
        return say("workspace_bytes is %lld, fewer than this call needs: %s_workspace_bytes() says how many",
                   number(args.workspace_bytes), interface.name);
      case Status::kGroupSizes:
        return say("group_offsets and group_ends are both %s; pass one of them",
                   further("group_offsets").pointer == nullptr ? "NULL" : "given");
      case Status::kMisalignedMetadataA:
      case Status::kNegativeStrideMetadataA:
      case Status::kFarApartTensor: return about_metadata();
      case Status::kUnalignedA: return about_lines('a', args.a, args.lda, args.batch_stride_a, interface.bytes_a);
      case Status::kUnalignedB: return about_lines('b', args.b, args.ldb, args.batch_stride_b, interface.bytes_b);
      case Status::kNotForTma:
        if (has_pointers()) {
          return about_common_lines('a', "group_lda", args.lda, interface.bytes_a) ||
                 about_common_lines('b', "group_ldb", args.ldb, interface.bytes_b);
        }
        return about_lines('a', args.a, args.lda, args.batch_stride_a, interface.bytes_a) ||
               about_lines('b', args.b, args.ldb, args.batch_stride_b, interface.bytes_b);
      case Status::kAlphaNotInteger: return say("alpha is %g; this kernel takes a 32-bit integer", args.alpha);
      case Status::kBetaNotInteger: return say("beta is %g; this kernel takes a 32-bit integer", args.beta);
      case Status::kUnusedAlpha:
        return say("alpha is %g; this epilogue does not multiply by it: pass 1 and no alpha_device", args.alpha);
      case Status::kUnusedBeta: return say("beta is %g; this epilogue does not add C: pass 0 and no beta_device", args.beta);
      case Status::kOddN: return say("n is %lld; each element of D is made of two columns: pass an even n", number(args.n));
      case Status::kSharedD:
        return say("batch is %lld and batch_stride_d is 0: all matrices would be written to one D", number(args.batch));
      default: return false;
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
