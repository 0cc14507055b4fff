/* Arrays as matrices, and the further arguments of a kernel: what matrices.py and further.py do, for the usual cases. */
#ifndef MMAGEN_BINDING_FAST_OPERANDS_H
#define MMAGEN_BINDING_FAST_OPERANDS_H

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "dlpack.h"

typedef struct {
  uint8_t code, bits;
  bool last_contiguous; /* of the two dimensions of a matrix */
} Type;

/* One matrix, or a batch of them; batch -1: no batch. */
typedef struct {
  int64_t rows, columns, batch, ld, stride;
} Matrices;

typedef struct {
  DLTensor tensor;
  Matrices of;
  int64_t bytes; /* from its first element to the end of the last one */
  bool given;
} Operand;

/* ceil(of / step) * times + plus. of: an index into {1, m, n, k, batch}. */
typedef struct {
  int of;
  int64_t step, times, plus;
} Extent;

/* A further argument, a matrix of rows x columns. pointer, ld, stride: where the struct of a call has them, in bytes; -1:
 * nowhere. */
typedef struct {
  PyObject* name;
  Type type;
  Extent rows, columns;
  int vector, pitched, batched, written, required, of_groups;
  int pointer, ld, stride;
} Further;

enum { kMostFurther = 16 };

/* The arrays of a call. */
typedef struct {
  Operand a, b, c, d, further[kMostFurther];
  void const *alpha, *beta; /* NULL where they are numbers */
  int64_t batch;            /* matrices of D; -1: no batch */
  int64_t count;            /* matrices of the call, or groups */
} Operands;

/* Do all lines of all matrices lie within 2^63 - 1 bytes? Else the library refuses them, which kernel.py reports. */
static bool fits_64_bits(Matrices const* of, int64_t lines, int bytes) {
  int64_t elements, between = 0;
  if (of->stride < 0 || __builtin_mul_overflow(lines, of->ld, &elements)) { return false; }
  if (of->batch > 1 && __builtin_mul_overflow(of->batch - 1, of->stride, &between)) { return false; }
  return !__builtin_add_overflow(between, elements, &elements) && !__builtin_mul_overflow(elements, bytes, &elements);
}

/* Fills `found`; false for anything that kernel.py is to look at, such as an array without elements unless `empty`. */
static bool read_any(DLTensor const* t, Type type, bool empty, Operand* found) {
  if (t->code != type.code || t->bits != type.bits || t->lanes != 1 || t->strides == NULL) { return false; }
  if (t->ndim != 2 && t->ndim != 3) { return false; }
  int64_t const *const shape = t->shape + t->ndim - 2, *const strides = t->strides + t->ndim - 2;
  int const along = type.last_contiguous ? 1 : 0;
  int64_t const line = shape[along], lines = shape[1 - along];
  bool const is_empty = line == 0 || lines == 0;
  int64_t const across = is_empty ? line : strides[1 - along]; /* strides of no elements mean nothing */
  if (line < 0 || lines < 0 || (is_empty && !empty) || (t->ndim == 3 && t->shape[0] < 1)) { return false; }
  if (line > INT32_MAX || lines > INT32_MAX) { return false; }
  if (!is_empty && ((line > 1 && strides[along] != 1) || (lines > 1 && across < line))) { return false; }
  Matrices* const of = &found->of;
  of->rows = shape[0];
  of->columns = shape[1];
  of->ld = lines > 1 ? across : line > 0 ? line : 1;
  of->batch = t->ndim == 3 ? t->shape[0] : -1;
  of->stride = of->batch > 1 ? t->strides[0] : 0;
  int const bytes = type.bits > 8 ? type.bits / 8 : 1;
  found->given = true;
  found->bytes = 0;
  if (is_empty) { return true; }
  if (!fits_64_bits(of, lines, bytes)) { return false; }
  int64_t const batches = of->batch > 1 ? of->batch : 1;
  found->bytes = ((batches - 1) * of->stride + (lines - 1) * of->ld + line) * bytes;
  return true;
}

static bool read_matrices(DLTensor const* t, Type type, Operand* found) { return read_any(t, type, false, found); }

/* Does an array of several matrices have room for each? */
static bool is_disjoint(Matrices const* of, Type type) {
  int64_t const lines = type.last_contiguous ? of->rows : of->columns;
  int64_t const line = type.last_contiguous ? of->columns : of->rows;
  return of->batch <= 1 || of->stride > (lines - 1) * of->ld + line - 1;
}

static bool overlap(Operand const* s, Operand const* t) {
  return s->given && t->given && first_byte(&s->tensor) < first_byte(&t->tensor) + t->bytes &&
         first_byte(&t->tensor) < first_byte(&s->tensor) + s->bytes;
}

/* Does it span any of `bytes` bytes of an address, which may be NULL? */
static bool covers(Operand const* s, void const* address, int64_t bytes) {
  char const* const at = address;
  return address != NULL && s->given && at < first_byte(&s->tensor) + s->bytes && first_byte(&s->tensor) < at + bytes;
}

/* Joins the number of matrices of another operand; false where they differ. */
static bool join_batch(int64_t* batch, int64_t other) {
  if (other == -1 || other == *batch || (other == 1 && *batch != -1)) { return true; }
  if (*batch > 1) { return false; }
  *batch = other;
  return true;
}

/* Do so many matrices serve `count` groups: one for each, or one for all? */
static bool serves(int64_t batch, int64_t count) { return batch == -1 || batch == 1 || batch == count; }

static int64_t extent(Extent const* of, int64_t const* values) {
  int64_t const steps = of->step == 1 ? values[of->of] : (values[of->of] + of->step - 1) / of->step; /* divisions are slow */
  return steps * of->times + of->plus;
}

/* A vector, or one for each matrix of a batch, has a dimension less than a matrix of one row. */
static bool read_further(Further const* one, Operand* found, bool empty) {
  DLTensor t = found->tensor;
  int64_t shape[3], strides[3];
  if (one->vector && t.strides != NULL && (t.ndim == 1 || (t.ndim == 2 && t.shape[0] != 1))) {
    int32_t const last = t.ndim - 1;
    shape[0] = t.shape[0], strides[0] = t.strides[0];
    shape[last] = 1, strides[last] = 1;
    shape[last + 1] = t.shape[last], strides[last + 1] = t.strides[last];
    t.ndim += 1, t.shape = shape, t.strides = strides;
  }
  return read_any(&t, one->type, empty, found);
}

/* Is it of the shape that a call wants? values: {1, m, n, k, batch}. */
static bool fits(Further const* one, Operand const* found, int64_t const* values) {
  Matrices const* const of = &found->of;
  int64_t const batch = values[4];
  int64_t const lines = one->type.last_contiguous ? of->rows : of->columns;
  int64_t const line = one->type.last_contiguous ? of->columns : of->rows;
  if (of->rows != extent(&one->rows, values) || of->columns != extent(&one->columns, values)) { return false; }
  if (of->batch > 1 && (of->batch != batch || !one->batched)) { return false; }
  if (!one->pitched && lines > 1 && of->ld != line) { return false; }
  return !one->written || is_disjoint(of, one->type);
}

/* Does what a call writes overlap another array of it? */
static bool is_apart(Operand const* written, Operands const* all, int count) {
  if (written != &all->d && overlap(written, &all->d)) { return false; }
  if (overlap(written, &all->a) || overlap(written, &all->b)) { return false; }
  for (int i = 0; i < count; ++i) {
    if (written != &all->further[i] && overlap(written, &all->further[i])) { return false; }
  }
  if (!overlap(written, &all->c)) { return true; }
  Matrices const *const c = &all->c.of, *const d = &all->d.of; /* C may be exactly D */
  return written == &all->d && first_byte(&all->c.tensor) == first_byte(&all->d.tensor) && c->ld == d->ld &&
         c->stride == d->stride && c->batch == d->batch && c->columns == d->columns;
}

#endif /* MMAGEN_BINDING_FAST_OPERANDS_H */
