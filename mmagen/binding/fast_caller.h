/* The struct of a call, see the header of any library, and what is known of a kernel. */
#ifndef MMAGEN_BINDING_FAST_CALLER_H
#define MMAGEN_BINDING_FAST_CALLER_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "fast_operands.h"

typedef struct {
  uint64_t struct_size;
  int64_t m, n, k, batch;
  struct {
    void const* data;
    int64_t ld, batch_stride;
  } a, b, c, d;
  double alpha, beta;
  void const *alpha_device, *beta_device;
  void* workspace;
  int64_t workspace_bytes;
  void const *metadata_a, *scale_a, *scale_b;
} Args;

enum { kMostBytes = 1024, kWorkspaces = 64, kAlignment = 256 };

/* Of a kernel whose groups are rows of common matrices. sizes: places of the further arguments that give the sizes of groups,
 * of which a call passes exactly one; beside: how many elements each has in addition to one per group. count: of these
 * arguments, 0 for any other kernel. stacked: all groups share one A, one C and one D. */
typedef struct {
  int count, stacked;
  int sizes[2], beside[2];
} Groups;

/* Of a kernel whose groups have matrices of their own: byte offsets of the members of the struct that point to arrays of
 * pointers (of A to D, then of further tensors) and to arrays of numbers (M, N, K, four leading dimensions, then those of
 * further tensors). The arrays lie in one allocation, in this order. used: 0 for any other kernel. */
enum { kMostPointers = 4 + kMostFurther, kMostNumbers = 7 + kMostFurther };
typedef struct {
  int used, pointer_count, number_count;
  int pointers[kMostPointers], numbers[kMostNumbers];
} OfLists;

/* With the members for the further arguments of a kernel. */
typedef union {
  Args args;
  unsigned char bytes[kMostBytes];
} Struct;

/* A type of arrays with an Exchange, and what answers two questions about one: functions of C, which take half the time of a
 * search for their names; NULL where they are something else. type: NULL, where nothing is known. */
enum { kTypes = 4 };
typedef struct {
  PyTypeObject* type;
  Exchange* api;
  PyGetSetDef const* requires_grad;
  PyCFunction is_neg;
} Known;

/* The workspace of a call. Finding it out takes as long as a choice among all kernels of a library. */
typedef struct {
  Struct call; /* of pointers the last bits alone; struct_size is 0 where nothing is known yet */
  int32_t device;
  int64_t bytes;
} Workspace;

typedef struct {
  PyObject_HEAD int (*run)(Args const*, void*);
  int (*workspace_bytes)(Args const*, int64_t*); /* NULL: the kernel takes none */
  Type a, b, d, scalar;
  int device_type;
  int packed_a, packed_b; /* elements along K in an element of A, and of B */
  int columns_of_element; /* columns of the product in an element of D */
  int struct_size;
  int further_count;
  Further further[kMostFurther];
  Groups groups;
  OfLists lists;
  Known known[kTypes];
  PyObject* exchange_of;    /* called with a type that is not in there: the address of its Exchange, or 0 */
  PyObject* functions;      /* called once, by the first call with arrays: see _functions() in fast.py */
  PyObject* current_device; /* NULL before that; None, or a function: of several devices, which one is current */
  PyObject* take;           /* None, or a function (bytes, stream) -> address: memory in the order of a stream */
  PyObject* give_back;      /* (address) */
  int (*copy)(uint64_t, void const*, size_t, void*); /* cuMemcpyHtoDAsync; NULL where there is no driver */
  int (*is_capturing)(void*, int*);                  /* cuStreamIsCapturing */
  Workspace* workspaces; /* kWorkspaces of them, by a hash of the extents; NULL: the kernel takes none */
} Caller;

static void put(Struct* call, int at, int64_t value) {
  if (at >= 0) { memcpy(call->bytes + at, &value, sizeof value); }
}

/* The arguments of a call from kernel.py. */
enum { kA, kB, kOut, kC, kAlpha, kBeta, kStream, kFurther, kShape, kArguments };

#endif /* MMAGEN_BINDING_FAST_CALLER_H */
