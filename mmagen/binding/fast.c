/* The usual call of a kernel without Python between its arrays and its C function: tensors by DLPack's C exchange API. Whatever
 * is unusual, and every error, is left to kernel.py: a call then returns None, and has done nothing. What is accepted here must
 * be what kernel.py accepts. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "dlpack.h"
#include "fast_caller.h"
#include "fast_operands.h"
#include "fast_workspace.h"

static PyObject *requires_grad, *is_neg, *cuda_stream; /* interned names */

static Exchange* exchange_of(Caller* self, PyObject* type) {
  PyObject* known = PyDict_GetItemWithError(self->exchanges, type);
  if (known == NULL) {
    if (PyErr_Occurred()) { return NULL; }
    PyObject* const found = PyObject_CallOneArg(self->exchange_of, type);
    if (found == NULL) { return NULL; }
    int const kept = PyDict_SetItem(self->exchanges, type, found);
    Py_DECREF(found);
    if (kept != 0) { return NULL; }
    known = found; /* the dictionary has a reference */
  }
  return (Exchange*)PyLong_AsVoidPtr(known);
}

/* 1: plain, 0: to be looked at by kernel.py, -1: an exception. */
static int is_plain(PyObject* tensor) {
  PyObject* const grad = PyObject_GetAttr(tensor, requires_grad);
  if (grad == NULL) { return -1; }
  bool const has_grad = grad != Py_False;
  Py_DECREF(grad);
  if (has_grad) { return 0; }
  PyObject* const negated = PyObject_CallMethodNoArgs(tensor, is_neg);
  if (negated == NULL) { return -1; }
  bool const has_sign = negated != Py_False;
  Py_DECREF(negated);
  return !has_sign;
}

static bool read_tensor(Caller* self, Exchange* api, PyObject* object, DLTensor* tensor) {
  int const plain = is_plain(object);
  if (plain != 1 || api->tensor_from_object(object, tensor) != 0) { return false; }
  return tensor->device_type == self->device_type;
}

static bool read_operand(Caller* self, Exchange* api, PyObject* object, Type type, Operand* found) {
  return read_tensor(self, api, object, &found->tensor) && read_matrices(&found->tensor, type, found);
}

/* The shape of a compressed A before it was compressed, a tuple. */
static bool read_shape(PyObject* shape, Matrices* a) {
  if (!PyTuple_CheckExact(shape) || PyTuple_GET_SIZE(shape) != (a->batch == -1 ? 2 : 3)) { return false; }
  Py_ssize_t const last = PyTuple_GET_SIZE(shape) - 1;
  int64_t const batch = last == 2 ? PyLong_AsLongLong(PyTuple_GET_ITEM(shape, 0)) : -1;
  int64_t const rows = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, last - 1));
  a->columns = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, last));
  return !PyErr_Occurred() && batch == a->batch && rows == a->rows && a->columns > 0 && a->columns <= INT32_MAX;
}

/* A, B, and C where it is read. */
static bool read_inputs(Caller* self, Exchange* api, PyObject* const* objects, PyObject* shape, bool reads_c, Operands* all) {
  Operand *const a = &all->a, *const b = &all->b, *const c = &all->c;
  if (!read_operand(self, api, objects[0], self->a, a) || !read_operand(self, api, objects[1], self->b, b)) { return false; }
  a->of.columns *= self->packed_a;
  if (shape != Py_None && !read_shape(shape, &a->of)) { return false; }
  if (b->tensor.device_id != a->tensor.device_id || b->of.columns % self->columns_of_element != 0) { return false; }
  if ((a->of.columns + self->packed_b - 1) / self->packed_b != b->of.rows) { return false; }
  c->given = false;
  if (!reads_c) { return true; }
  if (!read_operand(self, api, objects[3], self->d, c) || c->tensor.device_id != a->tensor.device_id) { return false; }
  return c->of.rows == a->of.rows && c->of.columns == b->of.columns;
}

/* The number of groups, by the argument that has their sizes; 0 where kernel.py is to look at it. */
static int64_t groups_of(Caller* self, Exchange* api, PyObject* given) {
  int64_t count = 0;
  bool found = false;
  for (int i = 0; i < self->groups.count; ++i) {
    PyObject* const value = PyDict_GetItemWithError(given, self->further[self->groups.sizes[i]].name);
    if (value == NULL || value == Py_None) { continue; }
    DLTensor t;
    if (found || exchange_of(self, (PyObject*)Py_TYPE(value)) != api || !read_tensor(self, api, value, &t)) { return 0; }
    if (t.ndim != 1) { return 0; }
    found = true;
    count = t.shape[0] - self->groups.beside[i];
  }
  return count;
}

/* How many matrices the call has, and D. */
static bool count_matrices(Caller* self, Exchange* api, PyObject* given, Operands* all) {
  int64_t const a = all->a.of.batch, b = all->b.of.batch, c = all->c.given ? all->c.of.batch : -1;
  if (self->groups.count == 0) {
    all->batch = a;
    if (!join_batch(&all->batch, b) || !join_batch(&all->batch, c)) { return false; }
    all->count = all->batch == -1 ? 1 : all->batch;
    return true;
  }
  int64_t const count = groups_of(self, api, given);
  all->count = count;
  all->batch = self->groups.stacked ? -1 : count;
  if (count < 1 || !serves(b, count)) { return false; }
  return self->groups.stacked ? a == -1 && c == -1 : serves(a, count) && serves(c, count);
}

/* The further arguments, of a dictionary by name. */
static bool read_all_further(Caller* self, Exchange* api, PyObject* given, Operands* all) {
  int64_t const values[] = {1, all->a.of.rows, all->b.of.columns, all->a.of.columns, all->count};
  Py_ssize_t known = 0;
  for (int i = 0; i < self->further_count; ++i) {
    Further const* const one = &self->further[i];
    Operand* const found = &all->further[i];
    PyObject* const value = PyDict_GetItemWithError(given, one->name);
    found->given = false;
    known += value != NULL;
    if (value == NULL || value == Py_None) {
      if (one->required || PyErr_Occurred()) { return false; }
      continue;
    }
    if (exchange_of(self, (PyObject*)Py_TYPE(value)) != api || !read_tensor(self, api, value, &found->tensor)) { return false; }
    if (found->tensor.device_id != all->a.tensor.device_id) { return false; }
    if (!read_further(one, found) || !fits(one, found, values)) { return false; }
  }
  return known == PyDict_GET_SIZE(given);
}

static bool outputs_are_apart(Caller* self, Operands const* all) {
  if (!is_apart(&all->d, all, self->further_count)) { return false; }
  for (int i = 0; i < self->further_count; ++i) {
    if (self->further[i].written && !is_apart(&all->further[i], all, self->further_count)) { return false; }
  }
  return true;
}

static bool check_output(Caller* self, Operands const* all) {
  Matrices const* const d = &all->d.of;
  if (all->d.tensor.device_id != all->a.tensor.device_id || d->batch != all->batch) { return false; }
  if (d->rows != all->a.of.rows || d->columns != all->b.of.columns / self->columns_of_element) { return false; }
  return is_disjoint(d, self->d);
}

/* Exchanges the last two dimensions of a new array, in place. */
static void transpose(DLTensor* t) {
  int64_t *const shape = t->shape + t->ndim - 2, *const strides = t->strides + t->ndim - 2;
  int64_t const rows = shape[0], step = strides[0];
  shape[0] = shape[1], strides[0] = strides[1];
  shape[1] = rows, strides[1] = step;
}

/* A new array for d, by the allocator of the arrays' library, and all->d; NULL where that fails. */
static PyObject* new_output(Caller* self, Exchange* api, Operands* all) {
  int64_t const rows = all->a.of.rows, columns = all->b.of.columns / self->columns_of_element;
  bool const by_rows = self->d.last_contiguous;
  int64_t shape[3] = {all->batch, by_rows ? rows : columns, by_rows ? columns : rows};
  int64_t strides[3] = {shape[1] * shape[2], shape[2], 1};
  int const skipped = all->batch == -1;
  DLTensor prototype = all->a.tensor;
  prototype.data = NULL;
  prototype.byte_offset = 0;
  prototype.ndim = 3 - skipped;
  prototype.code = self->d.code;
  prototype.bits = self->d.bits;
  prototype.shape = shape + skipped;
  prototype.strides = strides + skipped;
  DLManaged* managed = NULL;
  void* made = NULL;
  if (api->allocate(&prototype, &managed, NULL, keep_no_error) != 0) { return NULL; }
  bool usable = managed->tensor.strides != NULL && managed->tensor.device_type == self->device_type;
  if (usable) {
    if (!by_rows) { transpose(&managed->tensor); }
    all->d.tensor = managed->tensor;
    usable = read_matrices(&all->d.tensor, self->d, &all->d);
  }
  if (!usable) {
    if (managed->deleter != NULL) { managed->deleter(managed); }
    return NULL;
  }
  return api->managed_to_object(managed, &made) == 0 ? (PyObject*)made : NULL;
}

/* --- the call ----------------------------------------------------------------------------------------------------------- */

static bool number(PyObject* object, double* value) {
  if (PyFloat_CheckExact(object)) {
    *value = PyFloat_AS_DOUBLE(object);
    return true;
  }
  if (!PyLong_CheckExact(object)) { return false; }
  *value = PyLong_AsDouble(object);
  return !(*value == -1.0 && PyErr_Occurred());
}

/* A number, or an element of GPU memory. */
static bool scalar(Caller* self, Exchange* api, PyObject* object, int32_t device, double* value, void const** address) {
  *address = NULL;
  if (number(object, value)) { return true; }
  DLTensor t;
  if (PyErr_Occurred() || exchange_of(self, (PyObject*)Py_TYPE(object)) != api || !read_tensor(self, api, object, &t)) {
    return false;
  }
  if (t.code != self->scalar.code || t.bits != self->scalar.bits || t.lanes != 1 || t.device_id != device) { return false; }
  for (int i = 0; i < t.ndim; ++i) {
    if (t.shape[i] != 1) { return false; }
  }
  *value = 0;
  *address = first_byte(&t);
  return true;
}

static bool ask_library(Caller* self) {
  PyObject* const found = PyObject_CallNoArgs(self->functions);
  bool const usable = found != NULL && PyTuple_CheckExact(found) && PyTuple_GET_SIZE(found) == 3;
  if (usable) {
    self->take = Py_NewRef(PyTuple_GET_ITEM(found, 1));
    self->give_back = Py_NewRef(PyTuple_GET_ITEM(found, 2));
    self->current_device = Py_NewRef(PyTuple_GET_ITEM(found, 0));
  }
  Py_XDECREF(found);
  return usable;
}

/* Is the device of the arrays the current one? */
static bool is_current(Caller* self, DLTensor const* tensor) {
  if (self->current_device == NULL && !ask_library(self)) { return false; }
  if (self->current_device == Py_None) { return true; }
  PyObject* const device = PyObject_CallNoArgs(self->current_device);
  if (device == NULL) { return false; }
  bool const same = PyLong_AsLong(device) == tensor->device_id;
  Py_DECREF(device);
  return same;
}

static bool stream_of(Exchange* api, PyObject* given, DLTensor const* tensor, void** stream) {
  *stream = NULL;
  if (given != Py_None) {
    PyObject* const handle = PyLong_CheckExact(given) ? Py_NewRef(given) : PyObject_GetAttr(given, cuda_stream);
    if (handle == NULL) { return false; }
    bool const is_number = PyLong_CheckExact(handle);
    if (is_number) { *stream = PyLong_AsVoidPtr(handle); }
    Py_DECREF(handle);
    return is_number && !PyErr_Occurred();
  }
  return tensor->device_type == 1 || api->current_stream(tensor->device_type, tensor->device_id, stream) == 0;
}

static void put(Struct* call, int at, int64_t value) {
  if (at >= 0) { memcpy(call->bytes + at, &value, sizeof value); }
}

/* The struct of a call. */
static void fill(Caller* self, Operands const* all, double alpha, double beta, Struct* call) {
  memset(call, 0, (size_t)self->struct_size);
  Args* const args = &call->args;
  args->struct_size = (uint64_t)self->struct_size;
  args->m = all->a.of.rows;
  args->n = all->b.of.columns;
  args->k = all->a.of.columns;
  args->batch = all->count;
  args->a.data = first_byte(&all->a.tensor), args->a.ld = all->a.of.ld, args->a.batch_stride = all->a.of.stride;
  args->b.data = first_byte(&all->b.tensor), args->b.ld = all->b.of.ld, args->b.batch_stride = all->b.of.stride;
  args->d.data = first_byte(&all->d.tensor), args->d.ld = all->d.of.ld, args->d.batch_stride = all->d.of.stride;
  if (all->c.given) {
    args->c.data = first_byte(&all->c.tensor), args->c.ld = all->c.of.ld, args->c.batch_stride = all->c.of.stride;
  }
  args->alpha = alpha, args->alpha_device = all->alpha;
  args->beta = beta, args->beta_device = all->beta;
  for (int i = 0; i < self->further_count; ++i) {
    Further const* const one = &self->further[i];
    Operand const* const found = &all->further[i];
    if (!found->given) { continue; }
    put(call, one->pointer, (int64_t)(intptr_t)first_byte(&found->tensor));
    put(call, one->ld, found->of.ld);
    put(call, one->stride, found->of.stride);
  }
}

static bool launch(Caller* self, Exchange* api, DLTensor const* like, Struct* call, void* stream, bool is_own) {
  Room room = {NULL, NULL};
  int status = -1;
  if (take_room(self, api, like, call, stream, is_own, &room)) {
    Py_BEGIN_ALLOW_THREADS;
    status = self->run(&call->args, stream);
    Py_END_ALLOW_THREADS;
  }
  give_back(self, &room);
  return status == 0;
}

enum { kA, kB, kOut, kC, kAlpha, kBeta, kStream, kFurther, kShape, kArguments };

/* d, a new reference; NULL where kernel.py is to do it. */
static PyObject* compute(Caller* self, PyObject* const* given) {
  Operands all;
  Struct args;
  double alpha = 1, beta = 0;
  void* stream = NULL;
  Exchange* const api = exchange_of(self, (PyObject*)Py_TYPE(given[kA]));
  if (api == NULL || exchange_of(self, (PyObject*)Py_TYPE(given[kB])) != api) { return NULL; }
  DLTensor* const a = &all.a.tensor;
  if (api->tensor_from_object(given[kA], a) != 0) { return NULL; }
  if (!scalar(self, api, given[kAlpha], a->device_id, &alpha, &all.alpha)) { return NULL; }
  if (!scalar(self, api, given[kBeta], a->device_id, &beta, &all.beta)) { return NULL; }
  bool const reads_c = beta != 0 || all.beta != NULL, is_own = given[kStream] != Py_None;
  if (reads_c && exchange_of(self, (PyObject*)Py_TYPE(given[kC])) != api) { return NULL; }
  if (given[kOut] != Py_None && exchange_of(self, (PyObject*)Py_TYPE(given[kOut])) != api) { return NULL; }
  if (!read_inputs(self, api, given, given[kShape], reads_c, &all)) { return NULL; }
  if (!count_matrices(self, api, given[kFurther], &all) || !read_all_further(self, api, given[kFurther], &all)) { return NULL; }
  if (!is_current(self, a) || !stream_of(api, given[kStream], a, &stream)) { return NULL; }
  PyObject* out = NULL;
  bool ready = true;
  if (given[kOut] != Py_None) {
    out = Py_NewRef(given[kOut]);
    ready = read_operand(self, api, out, self->d, &all.d) && check_output(self, &all);
  } else {
    out = new_output(self, api, &all);
  }
  if (out != NULL && ready && outputs_are_apart(self, &all)) {
    fill(self, &all, alpha, beta, &args);
    if (launch(self, api, a, &args, stream, is_own)) {
      PyErr_Clear(); /* of give_back() alone: the kernel is enqueued */
      return out;
    }
  }
  Py_XDECREF(out);
  return NULL;
}

/* call(a, b, out, c, alpha, beta, stream, further, shape): d, or None where kernel.py is to do it. shape: None, or that of a
 * compressed A. */
static PyObject* call(PyObject* object, PyObject* const* given, Py_ssize_t count) {
  PyObject* const done = count == kArguments && PyDict_CheckExact(given[kFurther]) ? compute((Caller*)object, given) : NULL;
  if (done != NULL) { return done; }
  PyErr_Clear(); /* kernel.py meets it again */
  Py_RETURN_NONE;
}

/* --- the module -------------------------------------------------------------------------------------------------------- */

/* (name, type, rows, columns, (vector, pitched, batched, written, required), (pointer, ld, stride)) */
static bool add_further(Caller* self, PyObject* described) {
  Further* const one = &self->further[self->further_count];
  Extent *const rows = &one->rows, *const columns = &one->columns;
  int last = 0;
  if (!PyArg_ParseTuple(described, "U(bbp)(iLLL)(iLLL)(ppppp)(iii)", &one->name, &one->type.code, &one->type.bits, &last,
                        &rows->of, &rows->step, &rows->times, &rows->plus, &columns->of, &columns->step, &columns->times,
                        &columns->plus, &one->vector, &one->pitched, &one->batched, &one->written, &one->required,
                        &one->pointer, &one->ld, &one->stride)) {
    return false;
  }
  one->type.last_contiguous = last;
  Py_INCREF(one->name);
  self->further_count += 1;
  return true;
}

static int caller_init(PyObject* object, PyObject* arguments, PyObject* named) {
  Caller* const self = (Caller*)object;
  static char* names[] = {"run",
                          "workspace_bytes",
                          "a",
                          "b",
                          "d",
                          "scalar",
                          "packed_a",
                          "packed_b",
                          "columns_of_element",
                          "struct_size",
                          "further",
                          "groups",
                          "device_type",
                          "exchange_of",
                          "functions",
                          NULL};
  Groups* const groups = &self->groups;
  unsigned long long run = 0, workspace_bytes = 0;
  Type *const a = &self->a, *const b = &self->b, *const d = &self->d;
  int a_last = 0, b_last = 0, d_last = 0;
  PyObject* further = NULL;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "KK(bbp)(bbp)(bbp)(bb)iiiiO!(pi(ii)(ii))iOO", names, &run,
                                   &workspace_bytes, &a->code, &a->bits, &a_last, &b->code, &b->bits, &b_last, &d->code,
                                   &d->bits, &d_last, &self->scalar.code, &self->scalar.bits, &self->packed_a, &self->packed_b,
                                   &self->columns_of_element, &self->struct_size, &PyTuple_Type, &further, &groups->stacked,
                                   &groups->count, &groups->sizes[0], &groups->sizes[1], &groups->beside[0], &groups->beside[1],
                                   &self->device_type, &self->exchange_of, &self->functions)) {
    self->exchange_of = self->functions = NULL; /* borrowed until here */
    return -1;
  }
  Py_INCREF(self->exchange_of);
  Py_INCREF(self->functions);
  self->run = (int (*)(Args const*, void*))(uintptr_t)run;
  self->workspace_bytes = (int (*)(Args const*, int64_t*))(uintptr_t)workspace_bytes;
  a->last_contiguous = a_last, b->last_contiguous = b_last, d->last_contiguous = d_last;
  if (self->struct_size > kMostBytes || PyTuple_GET_SIZE(further) > kMostFurther) {
    PyErr_SetString(PyExc_ValueError, "more arguments than a call has room for");
    return -1;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(further); ++i) {
    if (!add_further(self, PyTuple_GET_ITEM(further, i))) { return -1; }
  }
  self->exchanges = PyDict_New();
  if (self->workspace_bytes != NULL) {
    self->workspaces = PyMem_Calloc(kWorkspaces, sizeof *self->workspaces);
    if (self->workspaces == NULL) { PyErr_NoMemory(); }
  }
  return self->exchanges == NULL || PyErr_Occurred() ? -1 : 0;
}

static void caller_dealloc(PyObject* object) {
  Caller* const self = (Caller*)object;
  PyTypeObject* const type = Py_TYPE(object);
  Py_XDECREF(self->exchanges);
  Py_XDECREF(self->exchange_of);
  Py_XDECREF(self->functions);
  Py_XDECREF(self->current_device);
  Py_XDECREF(self->take);
  Py_XDECREF(self->give_back);
  for (int i = 0; i < self->further_count; ++i) { Py_XDECREF(self->further[i].name); }
  PyMem_Free(self->workspaces);
  type->tp_free(object);
  Py_DECREF(type);
}

static PyMethodDef caller_methods[] = {
    {"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL,
     "call(a, b, out, c, alpha, beta, stream, further, shape) -> d or None"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot caller_slots[] = {
    {Py_tp_init, (void*)caller_init},
    {Py_tp_dealloc, (void*)caller_dealloc},
    {Py_tp_new, (void*)PyType_GenericNew},
    {Py_tp_methods, caller_methods},
    {0, NULL},
};
static PyType_Spec caller_spec = {"mmagen_fast.Caller", sizeof(Caller), 0, Py_TPFLAGS_DEFAULT, caller_slots};
static struct PyModuleDef module = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "mmagen_fast", .m_size = -1};

PyMODINIT_FUNC PyInit_mmagen_fast(void) {
  PyObject* const made = PyModule_Create(&module);
  PyObject* const caller = made == NULL ? NULL : PyType_FromSpec(&caller_spec);
  requires_grad = PyUnicode_InternFromString("requires_grad");
  is_neg = PyUnicode_InternFromString("is_neg");
  cuda_stream = PyUnicode_InternFromString("cuda_stream");
  if (caller == NULL || requires_grad == NULL || is_neg == NULL || cuda_stream == NULL ||
      PyModule_AddIntConstant(made, "MOST_FURTHER", kMostFurther) != 0 ||
      PyModule_AddIntConstant(made, "MOST_BYTES", kMostBytes) != 0 || PyModule_AddObject(made, "Caller", caller) != 0) {
    return NULL;
  }
  return made;
}
