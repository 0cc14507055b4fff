/* Arrays, numbers and streams as a call in Python passes them, and the library that arrays belong to. */
#ifndef MMAGEN_BINDING_FAST_ARRAYS_H
#define MMAGEN_BINDING_FAST_ARRAYS_H

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "dlpack.h"
#include "fast_caller.h"
#include "fast_operands.h"

static PyObject *requires_grad, *is_neg, *is_conj, *cuda_stream; /* interned names */

/* The functions of C behind the names that is_plain() asks for, if a type has such. */
static void find_functions(Known* known) {
  PyObject *const type = (PyObject*)known->type, *const grad = PyObject_GetAttr(type, requires_grad);
  PyObject* const negative = PyObject_GetAttr(type, is_neg);
  PyErr_Clear(); /* a type without them may have instances with them */
  if (grad != NULL && Py_IS_TYPE(grad, &PyGetSetDescr_Type)) {
    known->requires_grad = ((PyGetSetDescrObject*)grad)->d_getset; /* lives as long as the type */
  }
  if (negative != NULL && Py_IS_TYPE(negative, &PyMethodDescr_Type)) {
    PyMethodDef const* const method = ((PyMethodDescrObject*)negative)->d_method;
    if (method->ml_flags == METH_NOARGS) { known->is_neg = method->ml_meth; }
  }
  Py_XDECREF(grad);
  Py_XDECREF(negative);
}

/* What is known of the type of an array; NULL if it has no Exchange. */
static Known const* known_of(Caller* self, PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  for (int i = 0; i < kTypes; ++i) {
    if (self->known[i].type == type) { return &self->known[i]; }
  }
  PyObject* const found = PyObject_CallOneArg(self->exchange_of, (PyObject*)type);
  Known made = {type, found == NULL ? NULL : (Exchange*)PyLong_AsVoidPtr(found), NULL, NULL};
  Py_XDECREF(found);
  if (made.api == NULL) { return NULL; }
  find_functions(&made);
  for (int i = 0; i < kTypes; ++i) {
    Known* const place = &self->known[i]; /* that of this type where another thread was faster */
    if (place->type != NULL && place->type != type) { continue; }
    if (place->type == NULL) { Py_INCREF(type); }
    *place = made;
    return place;
  }
  return NULL;
}

static Exchange* exchange_of(Caller* self, PyObject* object) {
  Known const* const known = known_of(self, object);
  return known == NULL ? NULL : known->api;
}

/* Is it False? Not after an exception. */
static bool is_false(PyObject* answer) {
  bool const found = answer == Py_False;
  Py_XDECREF(answer);
  return found;
}

/* Is its memory what it stands for? torch negates and conjugates when elements are read. Only complex tensors are asked for
 * conjugation: each question takes time. */
static bool is_plain(Known const* known, PyObject* tensor, bool is_complex) {
  PyGetSetDef const* const grad = known->requires_grad;
  if (!is_false(grad != NULL ? grad->get(tensor, grad->closure) : PyObject_GetAttr(tensor, requires_grad))) { return false; }
  if (!is_false(known->is_neg != NULL ? known->is_neg(tensor, NULL) : PyObject_CallMethodNoArgs(tensor, is_neg))) {
    return false;
  }
  return !is_complex || is_false(PyObject_CallMethodNoArgs(tensor, is_conj));
}

/* An array of the library that `api` is of, in memory of the device; false for anything else. */
static bool read_tensor(Caller* self, Exchange* api, PyObject* object, DLTensor* tensor) {
  Known const* const known = known_of(self, object);
  if (known == NULL || known->api != api) { return false; }
  if (api->tensor_from_object(object, tensor) != 0 || tensor->device_type != self->device_type) { return false; }
  return is_plain(known, object, tensor->code == kComplex);
}

static bool read_operand(Caller* self, Exchange* api, PyObject* object, Type type, Operand* found) {
  return read_tensor(self, api, object, &found->tensor) && read_matrices(&found->tensor, type, found);
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
    usable = read_any(&all->d.tensor, self->d, self->lists.used, &all->d);
  }
  if (!usable) {
    if (managed->deleter != NULL) { managed->deleter(managed); }
    return NULL;
  }
  return api->managed_to_object(managed, &made) == 0 ? (PyObject*)made : NULL;
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

/* A number, or an element of GPU memory. */
static bool scalar(Caller* self, Exchange* api, PyObject* object, int32_t device, double* value, void const** address) {
  *address = NULL;
  if (number(object, value)) { return true; }
  DLTensor t;
  if (PyErr_Occurred() || !read_tensor(self, api, object, &t)) { return false; }
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
  bool const usable = found != NULL && PyTuple_CheckExact(found) && PyTuple_GET_SIZE(found) == 5;
  if (usable && self->current_device == NULL) { /* another thread may have asked meanwhile */
    self->take = Py_NewRef(PyTuple_GET_ITEM(found, 1));
    self->give_back = Py_NewRef(PyTuple_GET_ITEM(found, 2));
    self->current_device = Py_NewRef(PyTuple_GET_ITEM(found, 0));
    self->copy = (int (*)(uint64_t, void const*, size_t, void*))PyLong_AsVoidPtr(PyTuple_GET_ITEM(found, 3));
    self->is_capturing = (int (*)(void*, int*))PyLong_AsVoidPtr(PyTuple_GET_ITEM(found, 4));
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
    if (is_number) { *stream = (void*)(uintptr_t)PyLong_AsUnsignedLongLong(handle); }
    Py_DECREF(handle);
    return is_number && !PyErr_Occurred();
  }
  return tensor->device_type == 1 || api->current_stream(tensor->device_type, tensor->device_id, stream) == 0;
}

/* Is what a call writes apart from everything else of it? */
static bool output_is_apart(Caller* self, Operands const* all, Operand const* written) {
  int64_t const scalar = self->scalar.bits / 8;
  return is_apart(written, all, self->further_count) && !covers(written, all->alpha, scalar) &&
         !covers(written, all->beta, scalar);
}

static bool outputs_are_apart(Caller* self, Operands const* all) {
  if (!output_is_apart(self, all, &all->d)) { return false; }
  for (int i = 0; i < self->further_count; ++i) {
    if (self->further[i].written && !output_is_apart(self, all, &all->further[i])) { return false; }
  }
  return true;
}

#endif /* MMAGEN_BINDING_FAST_ARRAYS_H */
