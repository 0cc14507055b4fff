// 4-bit integers as operands under test: the reference has each in a byte of its own, a library gets them as its header says,
// two to a byte. Knows nothing of the library's headers.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <map>

#include "buffers.cuh"
#include "operands.cuh"
#include "types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

struct packed_s4 : Integer<int8_t, 4> {
  static constexpr char const* kWord = "s4";
};
struct packed_u4 : Integer<uint8_t, 4> {
  static constexpr char const* kWord = "u4";
};

/// matrix (rows,K) to bytes of two neighbours along K, the one of even k in the low half. The half that no element has is not
/// zero.
template <class T>
__global__ void pack_operand_kernel(Matrix matrix, uint8_t* packed, int64_t pitch, int64_t batch_stride) {
  auto const* const data = static_cast<typename T::Storage const*>(matrix.data);
  int64_t const columns = (matrix.cols + 1) / 2;
  int64_t const stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < matrix.rows * columns * matrix.batch;
       i += stride) {
    int64_t const col = i % columns, row = i / columns % matrix.rows, batch = i / columns / matrix.rows;
    unsigned const low = static_cast<unsigned>(data[matrix.offset(row, 2 * col, batch)]);
    unsigned const high = 2 * col + 1 < matrix.cols ? static_cast<unsigned>(data[matrix.offset(row, 2 * col + 1, batch)]) : 13u;
    packed[batch * batch_stride + row * pitch + col] = static_cast<uint8_t>((low & 15) | (high & 15) << 4);
  }
}

/// The packed form of a program's matrices, by the address of the reference's. Lines are as long, and begin as far from 16-byte
/// boundaries, as the reference's would be if they were packed.
class PackedOperand {
 public:
  template <class T>
  static void prepare(Matrix matrix, cudaStream_t stream) {
    PackedOperand& mine = all()[matrix.data];
    if (matrix.batch_stride == 0) { matrix.batch = 1; }
    mine.pitch_ = (matrix.ld + 1) / 2;
    mine.offset_ = static_cast<int64_t>(reinterpret_cast<uintptr_t>(matrix.data) % 16);
    mine.batch_stride_ = matrix.batch == 1 ? 0 : (mine.pitch_ * matrix.rows + 15) / 16 * 16;
    int64_t const bytes = mine.offset_ + mine.pitch_ * matrix.rows + mine.batch_stride_ * (matrix.batch - 1);
    mine.packed_ = DeviceMemory(static_cast<std::size_t>(bytes));
    check(cudaMemsetAsync(mine.packed_.get(), 0x7d, mine.packed_.bytes(), stream), "filling what lies behind rows");
    pack_operand_kernel<T><<<blocks_for(matrix.elements()), kThreads, 0, stream>>>(matrix, static_cast<uint8_t*>(mine.data()),
                                                                                   mine.pitch_, mine.batch_stride_);
    check(cudaGetLastError(), "launching pack_operand_kernel");
  }

  /// Puts the packed form of a matrix into the members of a call; a leading dimension that is too short stays so. Leaves what
  /// is no matrix of the program.
  static void put(Matrix const& matrix, void const*& data, int64_t& ld, int64_t& batch_stride) {
    auto const found = all().find(matrix.data);
    if (found == all().end()) { return; }
    data = found->second.data();
    ld = matrix.ld < matrix.inner() ? (matrix.inner() + 1) / 2 - 1 : found->second.pitch_;
    batch_stride = found->second.batch_stride_;
  }

  /// Frees what was made of this matrix.
  static void forget(Matrix const& matrix) { all().erase(matrix.data); }

 private:
  static std::map<void*, PackedOperand>& all() {
    static auto* const known = new std::map<void*, PackedOperand>;  // outlives the runtime
    return *known;
  }
  void* data() const { return static_cast<uint8_t*>(packed_.get()) + offset_; }

  DeviceMemory packed_;
  int64_t pitch_ = 0, offset_ = 0, batch_stride_ = 0;
};

}  // namespace v0_1
}  // namespace mmagen::test
