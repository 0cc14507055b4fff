/* The usual call of a kernel without Python between its arrays and its C function: tensors by DLPack's C exchange API. Whatever
 * is unusual, and every error, is left to kernel.py: a call then returns None, and has done nothing. What is accepted here must
 * be what kernel.py accepts. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "dlpack.h"
#include "fast_arrays.h"
#include "fast_caller.h"
#include "fast_lists.h"
#include "fast_operands.h"
#include "fast_workspace.h"

/* The shape of a compressed A before it was compressed, a tuple. */
static bool read_shape(PyObject* shape, Matrices* a) {
  if (!PyTuple_CheckExact(shape) || PyTuple_GET_SIZE(shape) != (a->batch == -1 ? 2 : 3)) { return false; }
  Py_ssize_t const last = PyTuple_GET_SIZE(shape) - 1;
  int64_t const batch = last == 2 ? PyLong_AsLongLong(PyTuple_GET_ITEM(shape, 0)) : -1;
  int64_t const rows = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, last - 1));
  a->columns = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, last));
  return !PyErr_Occurred() && batch == a->batch && rows == a->rows && a->columns > 0 && a->columns <= INT32_MAX;
}

/* A, whose tensor is known, B, and C where it is read. */
static bool read_inputs(Caller* self, Exchange* api, PyObject* const* objects, PyObject* shape, bool reads_c, Operands* all) {
  Operand *const a = &all->a, *const b = &all->b, *const c = &all->c;
  if (!read_matrices(&a->tensor, self->a, a) || !read_operand(self, api, objects[kB], self->b, b)) { return false; }
  a->of.columns *= self->packed_a;
  if (shape != Py_None && !read_shape(shape, &a->of)) { return false; }
  if (b->tensor.device_id != a->tensor.device_id || b->of.columns % self->columns_of_element != 0) { return false; }
  if ((a->of.columns + self->packed_b - 1) / self->packed_b != b->of.rows) { return false; }
  c->given = false;
  if (!reads_c) { return true; }
  if (!read_operand(self, api, objects[kC], self->d, c) || c->tensor.device_id != a->tensor.device_id) { return false; }
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
    if (found || !read_tensor(self, api, value, &t) || t.ndim != 1) { return 0; }
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
    if (!read_tensor(self, api, value, &found->tensor) || found->tensor.device_id != all->a.tensor.device_id) { return false; }
    if (!read_further(one, found, false) || !fits(one, found, values)) { return false; }
  }
  return known == PyDict_GET_SIZE(given);
}

static bool check_output(Caller* self, Operands const* all) {
  Matrices const* const d = &all->d.of;
  if (all->d.tensor.device_id != all->a.tensor.device_id || d->batch != all->batch) { return false; }
  if (d->rows != all->a.of.rows || d->columns != all->b.of.columns / self->columns_of_element) { return false; }
  return is_disjoint(d, self->d);
}

/* --- the call ----------------------------------------------------------------------------------------------------------- */

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

/* d, a new reference; NULL where kernel.py is to do it. */
static PyObject* compute(Caller* self, PyObject* const* given) {
  Operands all;
  Struct args;
  double alpha = 1, beta = 0;
  void* stream = NULL;
  Exchange* const api = exchange_of(self, given[kA]);
  DLTensor* const a = &all.a.tensor;
  if (api == NULL || !read_tensor(self, api, given[kA], a)) { return NULL; }
  if (!scalar(self, api, given[kAlpha], a->device_id, &alpha, &all.alpha)) { return NULL; }
  if (!scalar(self, api, given[kBeta], a->device_id, &beta, &all.beta)) { return NULL; }
  bool const reads_c = beta != 0 || all.beta != NULL, is_own = given[kStream] != Py_None;
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

static PyObject* compute_all_lists(Caller* self, PyObject* const* given) {
  Lists all;
  Struct call;
  memset(&all, 0, sizeof all);
  memset(&call, 0, (size_t)self->struct_size);
  PyObject* const done = compute_lists(self, given, &all, &call);
  if (done != NULL) { PyErr_Clear(); /* of give_back() alone: the kernel is enqueued */ }
  release_lists(&all);
  return done;
}

/* call(a, b, out, c, alpha, beta, stream, further, shape): d, or None where kernel.py is to do it. shape: None, or that of a
 * compressed A. */
static PyObject* call(PyObject* object, PyObject* const* given, Py_ssize_t count) {
  Caller* const self = (Caller*)object;
  PyObject* done = NULL;
  if (count == kArguments && PyDict_CheckExact(given[kFurther])) {
    done = self->lists.used ? compute_all_lists(self, given) : compute(self, given);
  }
  if (done != NULL) { return done; }
  PyErr_Clear(); /* kernel.py meets it again */
  Py_RETURN_NONE;
}

/* --- the module -------------------------------------------------------------------------------------------------------- */

/* (name, type, rows, columns, (vector, pitched, batched, written, required, of_groups), (pointer, ld, stride)) */
static bool add_further(Caller* self, PyObject* described) {
  Further* const one = &self->further[self->further_count];
  Extent *const rows = &one->rows, *const columns = &one->columns;
  int last = 0;
  if (!PyArg_ParseTuple(described, "U(bbp)(iLLL)(iLLL)(pppppp)(iii)", &one->name, &one->type.code, &one->type.bits, &last,
                        &rows->of, &rows->step, &rows->times, &rows->plus, &columns->of, &columns->step, &columns->times,
                        &columns->plus, &one->vector, &one->pitched, &one->batched, &one->written, &one->required,
                        &one->of_groups, &one->pointer, &one->ld, &one->stride)) {
    return false;
  }
  one->type.last_contiguous = last;
  Py_INCREF(one->name);
  self->further_count += 1;
  return true;
}

static bool read_places(PyObject* given, int most, int* places, int* count) {
  *count = (int)PyTuple_GET_SIZE(given);
  for (int i = 0; i < *count && i < most; ++i) { places[i] = (int)PyLong_AsLong(PyTuple_GET_ITEM(given, i)); }
  return *count <= most && !PyErr_Occurred();
}

/* (), or (places of pointers, places of numbers) */
static bool read_lists(Caller* self, PyObject* given) {
  OfLists* const lists = &self->lists;
  PyObject *pointers = NULL, *numbers = NULL;
  lists->used = PyTuple_GET_SIZE(given) > 0;
  if (!lists->used) { return true; }
  return PyArg_ParseTuple(given, "O!O!", &PyTuple_Type, &pointers, &PyTuple_Type, &numbers) &&
         read_places(pointers, kMostPointers, lists->pointers, &lists->pointer_count) &&
         read_places(numbers, kMostNumbers, lists->numbers, &lists->number_count);
}

static int caller_init(PyObject* object, PyObject* arguments, PyObject* named) {
  Caller* const self = (Caller*)object;
  static char* names[] = {"run",         "workspace_bytes",    "a",           "b",       "d",      "scalar", "packed_a",
                          "packed_b",    "columns_of_element", "struct_size", "further", "groups", "lists",  "device_type",
                          "exchange_of", "functions",          NULL};
  Groups* const groups = &self->groups;
  unsigned long long run = 0, workspace_bytes = 0;
  Type *const a = &self->a, *const b = &self->b, *const d = &self->d;
  int a_last = 0, b_last = 0, d_last = 0;
  PyObject *further = NULL, *lists = NULL;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "KK(bbp)(bbp)(bbp)(bb)iiiiO!(pi(ii)(ii))O!iOO", names, &run,
                                   &workspace_bytes, &a->code, &a->bits, &a_last, &b->code, &b->bits, &b_last, &d->code,
                                   &d->bits, &d_last, &self->scalar.code, &self->scalar.bits, &self->packed_a, &self->packed_b,
                                   &self->columns_of_element, &self->struct_size, &PyTuple_Type, &further, &groups->stacked,
                                   &groups->count, &groups->sizes[0], &groups->sizes[1], &groups->beside[0], &groups->beside[1],
                                   &PyTuple_Type, &lists, &self->device_type, &self->exchange_of, &self->functions)) {
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
  if (!read_lists(self, lists)) { return -1; }
  if (self->workspace_bytes != NULL) {
    self->workspaces = PyMem_Calloc(kWorkspaces, sizeof *self->workspaces);
    if (self->workspaces == NULL) { PyErr_NoMemory(); }
  }
  return PyErr_Occurred() ? -1 : 0;
}

static void caller_dealloc(PyObject* object) {
  Caller* const self = (Caller*)object;
  PyTypeObject* const type = Py_TYPE(object);
  for (int i = 0; i < kTypes; ++i) { Py_XDECREF(self->known[i].type); }
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
  is_conj = PyUnicode_InternFromString("is_conj");
  cuda_stream = PyUnicode_InternFromString("cuda_stream");
  if (caller == NULL || requires_grad == NULL || is_neg == NULL || is_conj == NULL || cuda_stream == NULL ||
      PyModule_AddIntConstant(made, "MOST_FURTHER", kMostFurther) != 0 ||
      PyModule_AddIntConstant(made, "MOST_BYTES", kMostBytes) != 0 || PyModule_AddObject(made, "Caller", caller) != 0) {
    return NULL;
  }
  return made;
}
