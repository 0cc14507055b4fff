/* The usual call of a kernel without Python between its arrays and its C function: tensors by the DLPack C exchange API
 * (https://dmlc.github.io/dlpack/latest/c_api.html). Whatever is unusual, and every error, is left to kernel.py: a call then
 * returns None, and has done nothing. What is accepted here must be what kernel.py accepts. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* --- DLPack 1.3 -------------------------------------------------------------------------------------------------------- */

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

/* --- the C interface of a kernel: see its header ------------------------------------------------------------------------ */

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

typedef struct {
  uint8_t code, bits;
  bool last_contiguous; /* of the two dimensions of a matrix */
} Type;

/* The workspace of a call. Finding it out takes as long as a choice among all kernels of a library. */
typedef struct {
  Args call; /* of pointers the last bits alone; struct_size is 0 where nothing is known yet */
  int32_t device;
  int64_t bytes;
} Workspace;

enum { kWorkspaces = 64, kAlignment = 256 };

typedef struct {
  PyObject_HEAD int (*run)(Args const*, void*);
  int (*workspace_bytes)(Args const*, int64_t*); /* NULL: the kernel takes none */
  Type a, b, d;
  int device_type;
  PyObject* exchanges;      /* type -> address of its Exchange, or 0 */
  PyObject* exchange_of;    /* called with a type that is not in there */
  PyObject* devices;        /* called once, by the first call with arrays: what current_device is */
  PyObject* current_device; /* NULL before that; None, or a function: of several devices, which one is current */
  Workspace* workspaces;    /* kWorkspaces of them, by a hash of the extents; NULL: the kernel takes none */
} Caller;

/* One matrix, or a batch of them; batch -1: no batch. */
typedef struct {
  int64_t rows, columns, batch, ld, stride;
} Matrices;

static PyObject *requires_grad, *is_neg, *cuda_stream; /* interned names */

static char* first_byte(DLTensor const* t) { return (char*)t->data + t->byte_offset; }

/* Fills `found`; false for anything that kernel.py is to look at. */
static bool read_matrices(DLTensor const* t, Type type, Matrices* found) {
  if (t->code != type.code || t->bits != type.bits || t->lanes != 1 || t->strides == NULL) { return false; }
  if (t->ndim != 2 && t->ndim != 3) { return false; }
  int64_t const *const shape = t->shape + t->ndim - 2, *const strides = t->strides + t->ndim - 2;
  int const along = type.last_contiguous ? 1 : 0;
  int64_t const line = shape[along], lines = shape[1 - along], across = strides[1 - along];
  if (line < 1 || lines < 1 || (t->ndim == 3 && t->shape[0] < 1)) { return false; }
  if ((line > 1 && strides[along] != 1) || (lines > 1 && across < line)) { return false; }
  found->rows = shape[0];
  found->columns = shape[1];
  found->ld = lines > 1 ? across : line;
  found->batch = t->ndim == 3 ? t->shape[0] : -1;
  found->stride = found->batch > 1 ? t->strides[0] : 0;
  return found->stride >= 0;
}

/* Bytes from the first element to the end of the last one. */
static int64_t span(Matrices const* of, Type type) {
  int64_t const lines = type.last_contiguous ? of->rows : of->columns;
  int64_t const line = type.last_contiguous ? of->columns : of->rows;
  int64_t const batches = of->batch > 1 ? of->batch : 1;
  return ((batches - 1) * of->stride + (lines - 1) * of->ld + line) * (type.bits / 8);
}

static bool overlap(DLTensor const* s, int64_t s_bytes, DLTensor const* t, int64_t t_bytes) {
  return first_byte(s) < first_byte(t) + t_bytes && first_byte(t) < first_byte(s) + s_bytes;
}

/* Joins the number of matrices of another operand; false where they differ. */
static bool join_batch(int64_t* batch, int64_t other) {
  if (other == -1 || other == *batch || (other == 1 && *batch != -1)) { return true; }
  if (*batch > 1) { return false; }
  *batch = other;
  return true;
}

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

static void keep_no_error(void* context, char const* kind, char const* message) {
  (void)context, (void)kind, (void)message; /* kernel.py meets the error again, and raises it */
}

/* The arrays of a call. c.data is NULL where C is not read. */
typedef struct {
  DLTensor a, b, c, d;
  Matrices of_a, of_b, of_c, of_d;
  int64_t batch;
} Operands;

static bool read_operand(Caller* self, Exchange* api, PyObject* object, Type type, DLTensor* tensor, Matrices* found) {
  int const plain = is_plain(object);
  if (plain != 1 || api->tensor_from_object(object, tensor) != 0) { return false; }
  return tensor->device_type == self->device_type && read_matrices(tensor, type, found);
}

/* All but d. */
static bool read_inputs(Caller* self, Exchange* api, PyObject* const* objects, bool reads_c, Operands* all) {
  if (!read_operand(self, api, objects[0], self->a, &all->a, &all->of_a)) { return false; }
  if (!read_operand(self, api, objects[1], self->b, &all->b, &all->of_b)) { return false; }
  if (all->b.device_id != all->a.device_id || all->of_a.columns != all->of_b.rows) { return false; }
  all->batch = all->of_a.batch;
  if (!join_batch(&all->batch, all->of_b.batch)) { return false; }
  all->c.data = NULL;
  if (!reads_c) { return true; }
  if (!read_operand(self, api, objects[3], self->d, &all->c, &all->of_c)) { return false; }
  if (all->c.device_id != all->a.device_id || all->of_c.rows != all->of_a.rows || all->of_c.columns != all->of_b.columns) {
    return false;
  }
  return join_batch(&all->batch, all->of_c.batch);
}

static bool check_output(Caller* self, Operands const* all) {
  Matrices const* const d = &all->of_d;
  if (all->d.device_id != all->a.device_id || d->batch != all->batch) { return false; }
  if (d->rows != all->of_a.rows || d->columns != all->of_b.columns) { return false; }
  int64_t const lines = self->d.last_contiguous ? d->rows : d->columns;
  int64_t const line = self->d.last_contiguous ? d->columns : d->rows;
  if (d->batch > 1 && d->stride <= (lines - 1) * d->ld + line - 1) { return false; } /* interleaved, or overlapping */
  int64_t const bytes = span(d, self->d);
  if (overlap(&all->d, bytes, &all->a, span(&all->of_a, self->a))) { return false; }
  if (overlap(&all->d, bytes, &all->b, span(&all->of_b, self->b))) { return false; }
  if (all->c.data == NULL || !overlap(&all->d, bytes, &all->c, span(&all->of_c, self->d))) { return true; }
  Matrices const* const c = &all->of_c;
  return first_byte(&all->c) == first_byte(&all->d) && c->ld == d->ld && c->stride == d->stride && c->batch == d->batch;
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
  int64_t const rows = all->of_a.rows, columns = all->of_b.columns;
  bool const by_rows = self->d.last_contiguous;
  int64_t shape[3] = {all->batch, by_rows ? rows : columns, by_rows ? columns : rows};
  int64_t strides[3] = {shape[1] * shape[2], shape[2], 1};
  int const skipped = all->batch == -1;
  DLTensor prototype = all->a;
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
    all->d = managed->tensor;
    usable = read_matrices(&all->d, self->d, &all->of_d);
  }
  if (!usable) {
    if (managed->deleter != NULL) { managed->deleter(managed); }
    return NULL;
  }
  return api->managed_to_object(managed, &made) == 0 ? (PyObject*)made : NULL;
}

static void const* last_bits(void const* pointer) { return (void const*)((uintptr_t)pointer % kAlignment); }

/* What workspace_bytes() says of a call; false where it is refused. */
static bool bytes_of_workspace(Caller* self, Args const* args, int32_t device, int64_t* bytes) {
  Args call = *args; /* has no padding */
  call.a.data = last_bits(call.a.data), call.b.data = last_bits(call.b.data);
  call.c.data = last_bits(call.c.data), call.d.data = last_bits(call.d.data);
  int64_t const facts[] = {call.m, call.n, call.k, call.batch, call.a.ld, call.b.ld, call.d.ld, device};
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof facts / sizeof *facts; ++i) { hash = (hash ^ (uint64_t)facts[i]) * 0x9e3779b97f4a7c15u; }
  Workspace* const known = self->workspaces + (hash >> 32) % kWorkspaces;
  if (known->device != device || memcmp(&known->call, &call, sizeof call) != 0) {
    if (self->workspace_bytes(args, bytes) != 0) { return false; }
    known->call = call;
    known->device = device;
    known->bytes = *bytes;
  }
  *bytes = known->bytes;
  return true;
}

/* Memory for partial sums. Freed by the caller once the kernel is enqueued: the library does not hand it out again before
 * what is on the same stream has run. */
static bool take_workspace(Caller* self, Exchange* api, Operands const* all, Args* args, DLManaged** managed) {
  int64_t bytes = 0;
  if (self->workspace_bytes == NULL) { return true; }
  if (!bytes_of_workspace(self, args, all->a.device_id, &bytes)) { return false; }
  if (bytes == 0) { return true; }
  int64_t const one = 1;
  DLTensor prototype = all->a;
  prototype.data = NULL;
  prototype.byte_offset = 0;
  prototype.ndim = 1;
  prototype.code = 1;
  prototype.bits = 8;
  prototype.shape = &bytes;
  prototype.strides = (int64_t*)&one;
  if (api->allocate(&prototype, managed, NULL, keep_no_error) != 0) { return false; }
  args->workspace = first_byte(&(*managed)->tensor);
  args->workspace_bytes = bytes;
  return true;
}

static bool number(PyObject* object, double* value) {
  if (PyFloat_CheckExact(object)) {
    *value = PyFloat_AS_DOUBLE(object);
    return true;
  }
  if (!PyLong_CheckExact(object)) { return false; }
  *value = PyLong_AsDouble(object);
  return !(*value == -1.0 && PyErr_Occurred());
}

/* Is the device of the arrays the current one? */
static bool is_current(Caller* self, DLTensor const* tensor) {
  if (self->current_device == NULL) { self->current_device = PyObject_CallNoArgs(self->devices); }
  if (self->current_device == NULL) { return false; }
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

static bool launch(Caller* self, Exchange* api, Operands const* all, double alpha, double beta, void* stream) {
  Args args = {.struct_size = sizeof args};
  args.m = all->of_a.rows;
  args.n = all->of_b.columns;
  args.k = all->of_a.columns;
  args.batch = all->batch == -1 ? 1 : all->batch;
  args.a.data = first_byte(&all->a), args.a.ld = all->of_a.ld, args.a.batch_stride = all->of_a.stride;
  args.b.data = first_byte(&all->b), args.b.ld = all->of_b.ld, args.b.batch_stride = all->of_b.stride;
  args.d.data = first_byte(&all->d), args.d.ld = all->of_d.ld, args.d.batch_stride = all->of_d.stride;
  if (all->c.data != NULL) {
    args.c.data = first_byte(&all->c), args.c.ld = all->of_c.ld, args.c.batch_stride = all->of_c.stride;
  }
  args.alpha = alpha;
  args.beta = beta;
  DLManaged* workspace = NULL;
  if (!take_workspace(self, api, all, &args, &workspace)) { return false; }
  int status = 0;
  Py_BEGIN_ALLOW_THREADS;
  status = self->run(&args, stream);
  Py_END_ALLOW_THREADS;
  if (workspace != NULL && workspace->deleter != NULL) { workspace->deleter(workspace); }
  return status == 0;
}

/* call(a, b, out, c, alpha, beta, stream): d, or None where kernel.py is to do it. */
static PyObject* call(PyObject* object, PyObject* const* given, Py_ssize_t count) {
  Caller* const self = (Caller*)object;
  PyObject* out = NULL;
  Operands all;
  double alpha = 1, beta = 0;
  void* stream = NULL;
  bool done = false;
  if (count == 7 && number(given[4], &alpha) && number(given[5], &beta)) {
    Exchange* const api = exchange_of(self, (PyObject*)Py_TYPE(given[0]));
    PyObject* const objects[] = {given[0], given[1], given[2], given[3]};
    bool const same = api != NULL && exchange_of(self, (PyObject*)Py_TYPE(given[1])) == api &&
                      (beta == 0 || exchange_of(self, (PyObject*)Py_TYPE(given[3])) == api) &&
                      (given[2] == Py_None || exchange_of(self, (PyObject*)Py_TYPE(given[2])) == api);
    if (same && read_inputs(self, api, objects, beta != 0, &all) && is_current(self, &all.a) &&
        stream_of(api, given[6], &all.a, &stream)) {
      bool ready = false;
      if (given[2] != Py_None) {
        out = Py_NewRef(given[2]);
        ready = read_operand(self, api, out, self->d, &all.d, &all.of_d) && check_output(self, &all);
      } else {
        out = new_output(self, api, &all); /* nothing overlaps it */
        ready = out != NULL;
      }
      done = ready && launch(self, api, &all, alpha, beta, stream);
    }
  }
  if (done) { return out; }
  Py_XDECREF(out);
  PyErr_Clear(); /* kernel.py meets it again */
  Py_RETURN_NONE;
}

/* --- the module -------------------------------------------------------------------------------------------------------- */

static int caller_init(PyObject* object, PyObject* arguments, PyObject* named) {
  Caller* const self = (Caller*)object;
  static char* names[] = {"run", "workspace_bytes", "a", "b", "d", "device_type", "exchange_of", "devices", NULL};
  unsigned long long run = 0, workspace_bytes = 0;
  Type *const a = &self->a, *const b = &self->b, *const d = &self->d;
  int a_last = 0, b_last = 0, d_last = 0;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "KK(bbp)(bbp)(bbp)iOO", names, &run, &workspace_bytes, &a->code, &a->bits,
                                   &a_last, &b->code, &b->bits, &b_last, &d->code, &d->bits, &d_last, &self->device_type,
                                   &self->exchange_of, &self->devices)) {
    self->exchange_of = self->devices = NULL; /* borrowed until here */
    return -1;
  }
  Py_INCREF(self->exchange_of);
  Py_INCREF(self->devices);
  self->run = (int (*)(Args const*, void*))(uintptr_t)run;
  self->workspace_bytes = (int (*)(Args const*, int64_t*))(uintptr_t)workspace_bytes;
  a->last_contiguous = a_last, b->last_contiguous = b_last, d->last_contiguous = d_last;
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
  Py_XDECREF(self->devices);
  Py_XDECREF(self->current_device);
  PyMem_Free(self->workspaces);
  type->tp_free(object);
  Py_DECREF(type);
}

static PyMethodDef caller_methods[] = {
    {"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL, "call(a, b, out, c, alpha, beta, stream) -> d or None"},
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
      PyModule_AddObject(made, "Caller", caller) != 0) {
    return NULL;
  }
  return made;
}
