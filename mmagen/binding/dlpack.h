/* DLPack 1.3 and its C exchange API (https://dmlc.github.io/dlpack/latest/c_api.html), as far as fast.c needs them. */
#ifndef MMAGEN_BINDING_DLPACK_H
#define MMAGEN_BINDING_DLPACK_H

#include <stdint.h>

enum { kComplex = 5 }; /* a DLDataTypeCode */

typedef struct {
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManaged {
  uint32_t major, minor;
  void* manager_ctx;
  void (*deleter)(struct DLManaged*);
  uint64_t flags;
  DLTensor tensor;
} DLManaged;

typedef void (*SetError)(void*, char const*, char const*);
typedef struct {
  uint32_t major, minor;
  void* prev_api;
  int (*allocate)(DLTensor*, DLManaged**, void*, SetError);
  int (*managed_from_object)(void*, DLManaged**);
  int (*managed_to_object)(DLManaged*, void**);
  int (*tensor_from_object)(void*, DLTensor*);
  int (*current_stream)(int32_t, int32_t, void**);
} Exchange;

static char* first_byte(DLTensor const* t) { return (char*)t->data + t->byte_offset; }

static void keep_no_error(void* context, char const* kind, char const* message) {
  (void)context, (void)kind, (void)message; /* kernel.py meets the error again, and raises it */
}

#endif /* MMAGEN_BINDING_DLPACK_H */
