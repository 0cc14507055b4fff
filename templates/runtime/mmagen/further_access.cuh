// Addresses of a further tensor in a kernel: for one matrix of a batch, or for one group of separate matrices.
#pragma once

#include <cstdint>

#include <cute/config.hpp>

#include "further_tensors.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Element>
CUTE_DEVICE Element* matrix_of(FurtherTensor const& tensor, int batch) {
  return static_cast<Element*>(tensor.data) + batch * tensor.batch_stride;
}
template <class Element>
CUTE_DEVICE Element* matrix_of(FurtherPointers const& tensor, int group) {
  return static_cast<Element*>(tensor.data[group]);
}

CUTE_DEVICE int64_t pitch_of(FurtherTensor const& tensor, int) { return tensor.ld; }
CUTE_DEVICE int64_t pitch_of(FurtherPointers const& tensor, int group) {
  return tensor.lds != nullptr ? tensor.lds[group] : tensor.ld;
}

namespace detail {

template <class Class, class Member>
Member type_of_member(Member Class::* member);

}  // namespace detail

/// FurtherTensor or FurtherPointers: the type of a member of a project's Further.
template <auto kMember>
using FurtherMember = decltype(detail::type_of_member(kMember));

}  // namespace v0_1
}  // namespace mmagen
