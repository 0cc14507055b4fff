// Weights of few bits as B under test: drawn here, packed as the header of a library says, and converted to the type of A for a
// library that has no such weights. Knows nothing of the library's headers.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <type_traits>
#include <vector>

#include "buffers.cuh"
#include "operands.cuh"
#include "scales.cuh"
#include "types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// An element of the reference's B: a weight less its zero point, as Base holds it, divided by 2^kLog2 so that none is larger
/// than 1, as the error bounds of uniform inputs want it. The scales have the factor.
template <class Base, int kLog2_>
struct WeightOf : Base {
  static constexpr bool kInteger = false;
  static constexpr bool kSigned = true;
  static constexpr int kLog2 = kLog2_;
  __host__ __device__ static double load(typename Base::Storage value) { return Base::load(value) * power_of_two(-kLog2); }
};
struct weight_s4 : WeightOf<s8, 3> {
  static constexpr char const* kWord = "s4";
};
struct weight_u4 : WeightOf<s8, 4> {
  static constexpr char const* kWord = "u4";
};
struct weight_s8 : WeightOf<s8, 7> {
  static constexpr char const* kWord = "s8";
};
struct weight_e4m3 : WeightOf<e4m3, 9> {
  static constexpr char const* kWord = "e4m3";
};

template <class T>
inline constexpr bool is_weight_u4 = std::is_same<T, weight_u4>::value;

/// The scales of weights of type B, of type T, of the call's further tensor kWhich: one for kGroup elements of K, 0 for all of
/// a row. kZero: the further tensor with zero points, -1 for none.
template <class B, class T, int kWhich, int kGroup_, int kZero_>
struct WeightScales {
  using OfA = ScalesOf<-1, 0, 0>;
  using OfB = ScalesOf<-1, 0, 0>;
  using Type = T;
  static constexpr bool kAny = true;
  static constexpr bool kAlongK = true;
  static constexpr bool kOneSign = is_weight_u4<B>;
  static constexpr int kGroup = kGroup_;
  static constexpr int kZero = kZero_;

  Matrix scales;

  static WeightScales of(FurtherMatrices const& further) { return {further.at[kWhich]}; }
  static WeightScales of(std::vector<Matrix> const& further) { return {further[kWhich]}; }

  __host__ __device__ static int64_t group_of(int64_t k) { return kGroup > 0 ? k / kGroup : 0; }
  __host__ __device__ double scale(int64_t n, int64_t k, int64_t batch) const {
    return T::load(static_cast<typename T::Storage const*>(scales.data)[scales.offset(n, group_of(k), batch)]);
  }
  __host__ __device__ double factor(int64_t, int64_t n, int64_t k, int64_t batch) const {
    return scale(n, k, batch) * power_of_two(B::kLog2);
  }
  /// A kernel rounds what it adds up; a library that gets the product of weight and scale in the type of A has that rounded
  /// too.
  __host__ __device__ static double rounding(bool promoted) { return promoted ? growth(kRoundoffF32, 3) : exp2(-9.0); }
};

/// As fill_scales(), of type T, and of uniform inputs 2^kLog2 times smaller.
template <class T, int kLog2>
__global__ void fill_weight_scales_kernel(Matrix matrix, Fill fill) {
  auto* const data = static_cast<typename T::Storage*>(matrix.data);
  int64_t const stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < matrix.elements(); i += stride) {
    int64_t const col = i % matrix.cols;
    int64_t const row = i / matrix.cols % matrix.rows;
    int64_t const b = i / (matrix.cols * matrix.rows);
    uint64_t const random =
        splitmix64(splitmix64(fill.seed + static_cast<uint64_t>(b * matrix.rows + row)) + static_cast<uint64_t>(col));
    double const part = static_cast<double>(random >> 40) / (1 << 24);  // 0 .. 1
    double const exponents = log2(fill.reach) + 1;
    bool const any = fill.distribution == Distribution::kUniform;
    double const sign = sign_of_line(fill.seed, b * matrix.rows + row);
    data[matrix.offset(row, col, b)] = T::store(sign * (any ? exp2(-2.0 * part - kLog2) : exp2(floor(part * exponents))));
  }
}
template <class T, int kLog2>
void fill_weight_scales(Matrix const& matrix, Fill const& fill, cudaStream_t stream) {
  fill_weight_scales_kernel<T, kLog2><<<blocks_for(matrix.elements()), kThreads, 0, stream>>>(matrix, fill);
  check(cudaGetLastError(), "launching fill_weight_scales_kernel");
}

/// Any numbers of 4 bits.
static __global__ void fill_zero_points_kernel(Matrix matrix, Fill fill) {
  auto* const data = static_cast<uint8_t*>(matrix.data);
  int64_t const stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < matrix.elements(); i += stride) {
    int64_t const col = i % matrix.cols;
    int64_t const row = i / matrix.cols % matrix.rows;
    int64_t const b = i / (matrix.cols * matrix.rows);
    uint64_t const random = splitmix64(fill.seed + static_cast<uint64_t>((b * matrix.rows + row) * matrix.cols + col));
    data[matrix.offset(row, col, b)] = static_cast<uint8_t>(random >> 60);
  }
}
inline void fill_zero_points(Matrix const& matrix, Fill const& fill, cudaStream_t stream) {
  fill_zero_points_kernel<<<blocks_for(matrix.elements()), kThreads, 0, stream>>>(matrix, fill);
  check(cudaGetLastError(), "launching fill_zero_points_kernel");
}

/// As further_tensor(), of scales (of type T) or zero points of weights of type B.
template <class B, class T>
FurtherTensor weight_scale_tensor(Problem const& problem, int place, int64_t rows, int64_t cols, bool cols_contiguous) {
  FurtherTensor tensor = further_tensor<T>(problem, place, rows, cols, cols_contiguous, true, true, false);
  tensor.fill = &fill_weight_scales<T, B::kLog2>;
  tensor.scales = true;
  return tensor;
}
inline FurtherTensor zero_point_tensor(Problem const& problem, int place, int64_t rows, int64_t cols, bool cols_contiguous) {
  FurtherTensor tensor = further_tensor<u8>(problem, place, rows, cols, cols_contiguous, true, true, false);
  tensor.fill = &fill_zero_points;
  return tensor;
}

namespace detail {

/// The zero point of an element; 0 without.
template <class Scales>
__device__ int zero_point(Matrix const& zeros, int64_t n, int64_t k, int64_t batch) {
  if constexpr (Scales::kZero < 0) {
    return 0;
  } else {
    return static_cast<uint8_t const*>(zeros.data)[zeros.offset(n, Scales::group_of(k), batch)];
  }
}

}  // namespace detail

/// Uniform: every value of the type. Else as they are: small integers, of which those of u4 are made codes of 4 bits once their
/// zero point is added.
template <class B, class Scales>
__global__ void draw_weights_kernel(Matrix weights, Matrix zeros, bool uniform, uint64_t seed) {
  using Storage = typename B::Storage;
  auto* const data = static_cast<Storage*>(weights.data);
  int64_t const stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < weights.rows * weights.cols * weights.batch;
       i += stride) {
    int64_t const k = i % weights.cols, n = i / weights.cols % weights.rows, batch = i / weights.cols / weights.rows;
    uint64_t const random =
        splitmix64(splitmix64(seed + static_cast<uint64_t>(batch * weights.rows + n)) + static_cast<uint64_t>(k));
    Storage& weight = data[weights.offset(n, k, batch)];
    if constexpr (std::is_same<B, weight_e4m3>::value) {
      if (uniform) { weight = e4m3::store((static_cast<double>(random >> 11) * power_of_two(-52) - 1.0) * 448.0); }
    } else if constexpr (is_weight_u4<B>) {
      int const zero = detail::zero_point<Scales>(zeros, n, k, batch);
      int const code = uniform ? static_cast<int>(random >> 60) : weight + zero;
      weight = static_cast<Storage>((code < 0 ? 0 : code > 15 ? 15 : code) - zero);
    } else if (uniform) {
      weight = static_cast<Storage>(std::is_same<B, weight_s4>::value ? static_cast<int>(random >> 60) - 8
                                                                      : static_cast<int>(random >> 56) - 128);
    }
  }
}

/// weights (N,K): less their zero points; packed: as a call gets them, bytes.
template <class B, class Scales>
__global__ void pack_weights_kernel(Matrix weights, Matrix zeros, uint8_t* packed, int64_t pitch, int64_t batch_stride) {
  constexpr int kPacked = std::is_same<B, weight_s4>::value || is_weight_u4<B> ? 2 : 1;
  auto const* const data = static_cast<typename B::Storage const*>(weights.data);
  int64_t const columns = (weights.cols + kPacked - 1) / kPacked;
  int64_t const stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < weights.rows * columns * weights.batch;
       i += stride) {
    int64_t const col = i % columns, n = i / columns % weights.rows, batch = i / columns / weights.rows;
    unsigned code = 0;
    for (int half = 0; half < kPacked; ++half) {
      int64_t const k = col * kPacked + half;
      unsigned one = 13;  // of the half that no element has
      if (k < weights.cols) {
        one = static_cast<unsigned>(data[weights.offset(n, k, batch)] + detail::zero_point<Scales>(zeros, n, k, batch));
      }
      code |= kPacked == 1 ? one & 0xff : (one & 15) << (4 * half);
    }
    packed[batch * batch_stride + n * pitch + col] = static_cast<uint8_t>(code);
  }
}

/// weights times their scales, rounded to T.
template <class B, class T, class Scales>
__global__ void dequantize_kernel(Matrix weights, Scales scales, typename T::Storage* to, int64_t batch_stride) {
  auto const* const data = static_cast<typename B::Storage const*>(weights.data);
  int64_t const stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < weights.rows * weights.cols * weights.batch;
       i += stride) {
    int64_t const k = i % weights.cols, n = i / weights.cols % weights.rows, batch = i / weights.cols / weights.rows;
    double const weight = B::load(data[weights.offset(n, k, batch)]) * scales.factor(0, n, k, batch);
    to[batch * batch_stride + n * weights.cols + k] = T::store(weight);
  }
}

/// The weights of a program, by the address of the reference's B.
template <class Subject>
class PackedWeights {
 public:
  using B = typename Subject::B;
  using Scales = typename Subject::Scales;
  static constexpr int kPacked = Subject::kPackedB;

  /// Draws the weights and packs them; `further` is filled.
  static void prepare(Matrix b, std::vector<Matrix> const& further, Distribution distribution, uint64_t seed,
                      cudaStream_t stream) {
    PackedWeights& mine = all()[b.data];
    if (b.batch_stride == 0) { b.batch = 1; }
    mine.pitch_ = ((b.cols + kPacked - 1) / kPacked + 15) / 16 * 16;
    mine.batch_stride_ = b.batch == 1 ? 0 : mine.pitch_ * b.rows;
    mine.packed_ = DeviceMemory(static_cast<std::size_t>(mine.pitch_ * b.rows * b.batch));
    mine.dequantized_ = DeviceMemory();
    check(cudaMemsetAsync(mine.packed_.get(), 0x7d, mine.packed_.bytes(), stream), "filling what lies behind rows of weights");
    Matrix const zeros =
        Scales::kZero < 0 ? Matrix{} : further[static_cast<std::size_t>(Scales::kZero < 0 ? 0 : Scales::kZero)];
    if (distribution != Distribution::kZeros) {
      bool const uniform = distribution == Distribution::kUniform;
      draw_weights_kernel<B, Scales><<<blocks_for(b.elements()), kThreads, 0, stream>>>(b, zeros, uniform, seed);
      check(cudaGetLastError(), "launching draw_weights_kernel");
    }
    pack_weights_kernel<B, Scales><<<blocks_for(b.elements()), kThreads, 0, stream>>>(
        b, zeros, static_cast<uint8_t*>(mine.packed_.get()), mine.pitch_, mine.batch_stride_);
    check(cudaGetLastError(), "launching pack_weights_kernel");
  }

  /// Those of B, null for what is no B of the program.
  static PackedWeights const* of(Matrix const& b) {
    auto const found = all().find(b.data);
    return found == all().end() ? nullptr : &found->second;
  }

  /// Frees what was made of this B.
  static void forget(Matrix const& b) { all().erase(b.data); }

  void* data() const { return packed_.get(); }
  int64_t pitch() const { return pitch_; }
  int64_t batch_stride() const { return batch_stride_; }

  /// The call with a B of the type of A: weights times scales, rounded.
  static Call dequantized(Call call) {
    using T = typename Subject::A;
    PackedWeights& mine = all().at(call.b.data);
    Matrix b = call.b;
    if (b.batch_stride == 0) { b.batch = 1; }
    int64_t const elements = b.rows * b.cols;
    if (mine.dequantized_.get() == nullptr) {
      mine.dequantized_ = DeviceMemory(static_cast<std::size_t>(elements * b.batch) * sizeof(typename T::Storage));
      dequantize_kernel<B, T, Scales><<<blocks_for(b.elements()), kThreads>>>(
          b, Scales::of(call.further), static_cast<typename T::Storage*>(mine.dequantized_.get()), elements);
      check(cudaGetLastError(), "launching dequantize_kernel");
      check(cudaDeviceSynchronize(), "converting weights");
    }
    call.b.data = mine.dequantized_.get();
    call.b.ld = b.cols;
    call.b.batch_stride = call.b.batch_stride == 0 ? 0 : elements;
    call.b.element_bytes = sizeof(typename T::Storage);
    return call;
  }

 private:
  static std::map<void*, PackedWeights>& all() {
    static auto* const known = new std::map<void*, PackedWeights>;  // outlives the runtime
    return *known;
  }

  DeviceMemory packed_, dequantized_;
  int64_t pitch_ = 0, batch_stride_ = 0;
};

}  // namespace v0_1
}  // namespace mmagen::test
