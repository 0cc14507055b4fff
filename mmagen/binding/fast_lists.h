/* Calls of a kernel whose groups have matrices of their own: lists of arrays, one of each group. What groups.py does, for the
 * usual cases: all of a list are arrays of one library on the current device, and nothing that is written shares bytes with
 * what another group has. */
#ifndef MMAGEN_BINDING_FAST_LISTS_H
#define MMAGEN_BINDING_FAST_LISTS_H

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dlpack.h"
#include "fast_arrays.h"
#include "fast_caller.h"
#include "fast_operands.h"
#include "fast_workspace.h"

enum { kTmaBytes = 16 }; /* TMA addresses A and B */
enum { kListA, kListB, kListC, kListD, kListFurther, kLists = kListFurther + kMostFurther };

/* Bytes that a group reads or writes; group kAllGroups: that all groups share. */
enum { kAllGroups = -1 };
typedef struct {
  char const *begin, *end;
  Py_ssize_t group;
} Span;

/* The lists of a call, as tuples that no other thread can change, and what is made of them. pointers, numbers: the arrays that
 * the device reads, one value for each group, list after list, numbers behind pointers; NULL and 0 for C if there is none. */
typedef struct {
  PyObject* arrays[kLists]; /* NULL: there is none; of D: they are to be made */
  PyObject* results;
  Py_ssize_t count;
  int64_t largest[3]; /* M, N and K */
  uint64_t* pointers;
  int32_t* numbers;
  Span *written, *others; /* what the call writes; everything else */
  Py_ssize_t written_count, others_count;
  int32_t device;
} Lists;

static void release_lists(Lists* all) {
  for (int i = 0; i < kLists; ++i) { Py_XDECREF(all->arrays[i]); }
  Py_XDECREF(all->results);
  PyMem_Free(all->pointers);
  PyMem_Free(all->written);
}

static bool take_list(PyObject* given, Lists* all, int at) {
  if (!PyList_CheckExact(given) && !PyTuple_CheckExact(given)) { return false; }
  all->arrays[at] = PySequence_Tuple(given);
  return all->arrays[at] != NULL && PyTuple_GET_SIZE(all->arrays[at]) == all->count;
}

static void note(void const* begin, int64_t bytes, Py_ssize_t group, Span* spans, Py_ssize_t* count) {
  if (begin != NULL && bytes > 0) { spans[(*count)++] = (Span){begin, (char const*)begin + bytes, group}; }
}

static void note_operand(Operand const* found, bool written, Py_ssize_t group, Lists* all) {
  if (!found->given) { return; }
  char const* const begin = first_byte(&found->tensor);
  if (written) {
    note(begin, found->bytes, group, all->written, &all->written_count);
  } else {
    note(begin, found->bytes, group, all->others, &all->others_count);
  }
}

/* The lists that a call passes by name, and arrays that all groups share, which go to the struct. */
static bool take_further(Caller* self, Exchange* api, PyObject* given, Lists* all, Struct* call) {
  int64_t const values[] = {1, 0, 0, 0, 1};
  for (int i = 0; i < self->further_count; ++i) {
    Further const* const one = &self->further[i];
    PyObject* const value = PyDict_GetItemWithError(given, one->name);
    if (value == NULL || value == Py_None) { return false; }
    if (one->of_groups) {
      if (!take_list(value, all, kListFurther + i)) { return false; }
      continue;
    }
    Operand found;
    if (!read_tensor(self, api, value, &found.tensor)) { return false; }
    if (found.tensor.device_id != all->device || !read_further(one, &found, false) || !fits(one, &found, values)) {
      return false;
    }
    note_operand(&found, one->written, kAllGroups, all);
    put(call, one->pointer, (int64_t)(intptr_t)first_byte(&found.tensor));
    put(call, one->ld, found.of.ld);
    put(call, one->stride, found.of.stride);
  }
  return PyDict_GET_SIZE(given) == self->further_count;
}

/* The leading dimension that the device gets. Nothing is addressed by that of a single line, so it is rounded up to what TMA
 * takes. */
static int64_t ld_of(Matrices const* of, Type type) {
  if ((type.last_contiguous ? of->rows : of->columns) != 1) { return of->ld; }
  int64_t const vector = type.bits > 8 ? kTmaBytes * 8 / type.bits : kTmaBytes;
  return (of->ld + vector - 1) / vector * vector;
}

static bool fits_32_bits(Matrices const* of) {
  return of->rows <= INT32_MAX && of->columns <= INT32_MAX && of->ld <= INT32_MAX;
}

static bool read_of_group(Caller* self, Exchange* api, Lists const* all, int list, Py_ssize_t group, Operand* found) {
  PyObject* const array = PyTuple_GET_ITEM(all->arrays[list], group);
  return read_tensor(self, api, array, &found->tensor) && found->tensor.device_id == all->device;
}

static bool read_matrix(Caller* self, Exchange* api, Lists const* all, int list, Type type, Py_ssize_t group, Operand* found) {
  if (!read_of_group(self, api, all, list, group, found) || found->tensor.ndim != 2) { return false; }
  if (!read_any(&found->tensor, type, true, found)) { return false; }
  found->of.ld = ld_of(&found->of, type);
  return fits_32_bits(&found->of);
}

static bool begins_where_tma_reads(Operand const* found, Type type) {
  int64_t const bytes = type.bits > 8 ? type.bits / 8 : 1;
  return found->bytes == 0 || (((uintptr_t)first_byte(&found->tensor) | (uintptr_t)(found->of.ld * bytes)) % kTmaBytes) == 0;
}

/* The D of a group: that of `out`, or a new one. */
static bool take_output(Caller* self, Exchange* api, Lists* all, Py_ssize_t group, Operands* of) {
  PyObject* out;
  if (all->arrays[kListD] == NULL) {
    of->batch = -1;
    out = new_output(self, api, of);
  } else {
    out = Py_NewRef(PyTuple_GET_ITEM(all->arrays[kListD], group));
    if (!read_matrix(self, api, all, kListD, self->d, group, &of->d)) {
      Py_DECREF(out);
      return false;
    }
  }
  if (out == NULL) { return false; }
  PyList_SET_ITEM(all->results, group, out);
  of->d.of.ld = ld_of(&of->d.of, self->d);
  if (!fits_32_bits(&of->d.of)) { return false; }
  return of->d.of.rows == of->a.of.rows && of->d.of.columns == of->b.of.columns / self->columns_of_element;
}

/* Reads and checks the arrays of one group, and notes the bytes that they span. */
static bool take_group(Caller* self, Exchange* api, Lists* all, Py_ssize_t group) {
  Operands of;
  of.alpha = of.beta = NULL; /* groups_are_apart() looks at those of all groups */
  Operand* const letters[] = {&of.a, &of.b, &of.c, &of.d};
  Py_ssize_t const count = all->count;
  if (!read_matrix(self, api, all, kListA, self->a, group, &of.a) || !begins_where_tma_reads(&of.a, self->a)) { return false; }
  if (!read_matrix(self, api, all, kListB, self->b, group, &of.b) || !begins_where_tma_reads(&of.b, self->b)) { return false; }
  if (of.a.of.columns != of.b.of.rows || of.b.of.columns % self->columns_of_element != 0) { return false; }
  of.c.given = false;
  if (all->arrays[kListC] != NULL) {
    if (!read_matrix(self, api, all, kListC, self->d, group, &of.c)) { return false; }
    if (of.c.of.rows != of.a.of.rows || of.c.of.columns != of.b.of.columns) { return false; }
  }
  if (!take_output(self, api, all, group, &of)) { return false; }
  int64_t const extents[] = {of.a.of.rows, of.b.of.columns, of.a.of.columns};
  int64_t const values[] = {1, extents[0], extents[1], extents[2], 1};
  for (int i = 0; i < 3; ++i) {
    all->largest[i] = extents[i] > all->largest[i] ? extents[i] : all->largest[i];
    all->numbers[i * count + group] = (int32_t)extents[i];
  }
  for (int i = 0; i < 4; ++i) {
    bool const given = letters[i]->given;
    all->pointers[i * count + group] = given ? (uintptr_t)first_byte(&letters[i]->tensor) : 0;
    all->numbers[(3 + i) * count + group] = given ? (int32_t)letters[i]->of.ld : 0;
  }
  Py_ssize_t list = 4, line = 7;
  for (int i = 0; i < self->further_count; ++i) {
    Further const* const one = &self->further[i];
    Operand* const found = &of.further[i];
    found->given = false;
    if (!one->of_groups) { continue; }
    if (!read_of_group(self, api, all, kListFurther + i, group, found) || !read_further(one, found, true)) { return false; }
    if (!fits(one, found, values) || !fits_32_bits(&found->of)) { return false; }
    all->pointers[list++ * count + group] = (uintptr_t)first_byte(&found->tensor);
    if (one->pitched) { all->numbers[line++ * count + group] = (int32_t)found->of.ld; }
    note_operand(found, one->written, group, all);
  }
  for (int i = 0; i < 4; ++i) { note_operand(letters[i], i == 3, group, all); }
  return outputs_are_apart(self, &of);
}

static int by_begin(void const* s, void const* t) {
  uintptr_t const first = (uintptr_t)((Span const*)s)->begin, second = (uintptr_t)((Span const*)t)->begin;
  return (first > second) - (first < second);
}

/* The first of what is written, in order, that ends behind `begin`. It may be that of the array before: arrays are often made
 * one after another. */
static Py_ssize_t first_behind(Lists const* all, char const* begin, Py_ssize_t before) {
  Span const* const written = all->written;
  Py_ssize_t low = 0, high = all->written_count;
  if ((before == 0 || written[before - 1].end <= begin) && (before == high || written[before].end > begin)) { return before; }
  while (low < high) {
    Py_ssize_t const middle = low + (high - low) / 2;
    if (written[middle].end > begin) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/* Groups run in any order: what is written of one may overlap nothing that is written or read of another, nor what all share.
 * If spans overlap although no element is shared, as those of two ranges of columns of one matrix do, groups.py decides. */
static bool groups_are_apart(Lists* all) {
  Py_ssize_t const count = all->written_count;
  Py_ssize_t ordered = 1;
  while (ordered < count && all->written[ordered - 1].begin < all->written[ordered].begin) { ++ordered; }
  if (ordered < count) { qsort(all->written, (size_t)count, sizeof *all->written, by_begin); }
  for (Py_ssize_t i = 1; i < count; ++i) {
    if (all->written[i].begin < all->written[i - 1].end) { return false; }
  }
  Py_ssize_t low = 0;
  for (Py_ssize_t i = 0; i < all->others_count; ++i) {
    Span const* const other = &all->others[i];
    low = first_behind(all, other->begin, low);
    for (; low < count && all->written[low].begin < other->end; ++low) {
      if (other->group == kAllGroups || all->written[low].group != other->group) { return false; }
    }
  }
  return true;
}

/* Copies `bytes` bytes of the host to the device, in the order of the stream; false if that fails, or if the stream is
 * captured.
 */
static bool upload(Caller* self, void* to, void const* data, int64_t bytes, void* stream) {
  if (self->device_type == 1) {
    memcpy(to, data, (size_t)bytes);
    return true;
  }
  int capturing = 1;
  if (self->copy == NULL || self->is_capturing == NULL) { return false; }
  if (self->is_capturing(stream, &capturing) != 0 || capturing != 0) { return false; }
  int error;
  /* The driver may wait for the stream, which may wait for a function of the host that needs the GIL. */
  Py_BEGIN_ALLOW_THREADS;
  error = self->copy((uint64_t)(uintptr_t)to, data, (size_t)bytes, stream);
  Py_END_ALLOW_THREADS;
  return error == 0;
}

static bool launch_lists(Caller* self, Exchange* api, DLTensor const* like, Lists const* all, Struct* call, void* stream,
                         bool is_own) {
  int64_t const count = all->count, pointer_bytes = self->lists.pointer_count * count * 8;
  int64_t const bytes = pointer_bytes + self->lists.number_count * count * 4;
  Room room = {NULL, NULL};
  char* const base = take_memory(self, api, like, bytes, stream, is_own, &room);
  bool done = base != NULL && upload(self, base, all->pointers, bytes, stream);
  if (done) {
    for (int i = 0; i < self->lists.pointer_count; ++i) {
      bool const absent = i == kListC && all->arrays[kListC] == NULL;
      put(call, self->lists.pointers[i], absent ? 0 : (int64_t)(intptr_t)(base + i * count * 8));
    }
    for (int i = 0; i < self->lists.number_count; ++i) {
      put(call, self->lists.numbers[i], (int64_t)(intptr_t)(base + pointer_bytes + i * count * 4));
    }
    done = launch(self, api, like, call, stream, is_own);
  }
  give_back(self, &room);
  return done;
}

static bool allocate_lists(Caller* self, Lists* all) {
  size_t const count = (size_t)all->count, pointers = (size_t)self->lists.pointer_count * count;
  size_t const numbers = (size_t)self->lists.number_count * count;
  size_t const spans = pointers + kMostFurther + 2; /* an array for each pointer, those of all groups, alpha and beta */
  all->pointers = PyMem_Malloc(pointers * sizeof *all->pointers + numbers * sizeof *all->numbers);
  all->written = PyMem_Malloc(2 * spans * sizeof *all->written);
  all->results = PyList_New(all->count);
  if (all->pointers == NULL || all->written == NULL || all->results == NULL) { return false; }
  all->numbers = (int32_t*)(all->pointers + pointers);
  all->others = all->written + spans;
  return true;
}

/* The list of d, a new reference; NULL where groups.py is to do it. `all` and `call` are zero. */
static PyObject* compute_lists(Caller* self, PyObject* const* given, Lists* all, Struct* call) {
  if (!PyList_CheckExact(given[kA]) && !PyTuple_CheckExact(given[kA])) { return NULL; }
  all->count = PySequence_Fast_GET_SIZE(given[kA]);
  if (all->count < 1 || all->count > INT32_MAX || !take_list(given[kA], all, kListA) || !take_list(given[kB], all, kListB)) {
    return NULL;
  }
  PyObject* const first = PyTuple_GET_ITEM(all->arrays[kListA], 0);
  Exchange* const api = exchange_of(self, first);
  DLTensor like;
  if (api == NULL || !read_tensor(self, api, first, &like)) { return NULL; }
  all->device = like.device_id;
  Args* const args = &call->args;
  void* stream = NULL;
  bool const is_own = given[kStream] != Py_None;
  if (!scalar(self, api, given[kAlpha], all->device, &args->alpha, &args->alpha_device)) { return NULL; }
  if (!scalar(self, api, given[kBeta], all->device, &args->beta, &args->beta_device)) { return NULL; }
  bool const reads_c = args->beta != 0 || args->beta_device != NULL;
  if (reads_c && !take_list(given[kC], all, kListC)) { return NULL; }
  if (given[kOut] != Py_None && !take_list(given[kOut], all, kListD)) { return NULL; }
  if (!allocate_lists(self, all) || !take_further(self, api, given[kFurther], all, call)) { return NULL; }
  note(args->alpha_device, self->scalar.bits / 8, kAllGroups, all->others, &all->others_count);
  note(args->beta_device, self->scalar.bits / 8, kAllGroups, all->others, &all->others_count);
  if (!is_current(self, &like) || !stream_of(api, given[kStream], &like, &stream)) { return NULL; }
  for (Py_ssize_t i = 0; i < all->count; ++i) {
    if (!take_group(self, api, all, i)) { return NULL; }
  }
  if (!groups_are_apart(all)) { return NULL; }
  args->struct_size = (uint64_t)self->struct_size;
  args->m = all->largest[0], args->n = all->largest[1], args->k = all->largest[2];
  args->batch = all->count;
  return launch_lists(self, api, &like, all, call, stream, is_own) ? Py_NewRef(all->results) : NULL;
}

#endif /* MMAGEN_BINDING_FAST_LISTS_H */
