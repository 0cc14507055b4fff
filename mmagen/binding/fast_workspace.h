/* The workspace of a call, of the library of its arrays. */
#ifndef MMAGEN_BINDING_FAST_WORKSPACE_H
#define MMAGEN_BINDING_FAST_WORKSPACE_H

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "dlpack.h"
#include "fast_caller.h"

static void keep_last_bits(void const** pointer) { *pointer = (void const*)((uintptr_t)*pointer % kAlignment); }

/* What workspace_bytes() says of a call; false where it is refused. */
static bool bytes_of_workspace(Caller* self, Struct const* of, int32_t device, int64_t* bytes) {
  Struct call; /* has no padding */
  size_t const size = (size_t)self->struct_size;
  memcpy(&call, of, size);
  Args* const args = &call.args;
  void const** const pointers[] = {&args->a.data, &args->b.data,       &args->c.data,
                                   &args->d.data, &args->alpha_device, &args->beta_device};
  for (size_t i = 0; i < sizeof pointers / sizeof *pointers; ++i) { keep_last_bits(pointers[i]); }
  for (int i = 0; i < self->further_count; ++i) {
    keep_last_bits((void const**)(void*)(call.bytes + self->further[i].pointer));
  }
  int64_t const facts[] = {args->m, args->n, args->k, args->batch, args->a.ld, args->b.ld, args->d.ld, device};
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof facts / sizeof *facts; ++i) { hash = (hash ^ (uint64_t)facts[i]) * 0x9e3779b97f4a7c15u; }
  Workspace* const known = self->workspaces + (hash >> 32) % kWorkspaces;
  if (known->device != device || memcmp(&known->call, &call, size) != 0) {
    if (self->workspace_bytes(&of->args, bytes) != 0) { return false; }
    memcpy(&known->call, &call, size);
    known->device = device;
    known->bytes = *bytes;
  }
  *bytes = known->bytes;
  return true;
}

/* Memory for partial sums, of the library of the arrays. It is freed once the kernel is enqueued: the library does not hand it
 * out again before what is on the same stream has run. `pointer` is that of take(), `managed` that of the exchange API, which
 * has no argument for the stream: it serves the current one. */
typedef struct {
  PyObject* pointer;
  DLManaged* managed;
} Room;

static void* take_pointer(Caller* self, int64_t bytes, void* stream, Room* room) {
  PyObject *const size = PyLong_FromLongLong(bytes), *const handle = PyLong_FromVoidPtr(stream);
  PyObject* const given[] = {size, handle};
  if (size != NULL && handle != NULL) { room->pointer = PyObject_Vectorcall(self->take, given, 2, NULL); }
  Py_XDECREF(size);
  Py_XDECREF(handle);
  return room->pointer == NULL ? NULL : PyLong_AsVoidPtr(room->pointer);
}

static void* take_managed(Exchange* api, DLTensor const* like, int64_t bytes, Room* room) {
  int64_t one = 1;
  DLTensor prototype = *like;
  prototype.data = NULL;
  prototype.byte_offset = 0;
  prototype.ndim = 1;
  prototype.code = 1;
  prototype.bits = 8;
  prototype.shape = &bytes;
  prototype.strides = &one;
  if (api->allocate(&prototype, &room->managed, NULL, keep_no_error) != 0) { return NULL; }
  return first_byte(&room->managed->tensor);
}

/* is_own: the caller has named the stream, which may not be the current one. */
static void* take_memory(Caller* self, Exchange* api, DLTensor const* like, int64_t bytes, void* stream, bool is_own,
                         Room* room) {
  if (self->take != Py_None) { return take_pointer(self, bytes, stream, room); }
  return is_own ? NULL : take_managed(api, like, bytes, room);
}

static bool take_room(Caller* self, Exchange* api, DLTensor const* like, Struct* call, void* stream, bool is_own, Room* room) {
  int64_t bytes = 0;
  if (self->workspace_bytes == NULL) { return true; }
  if (self->lists.used) { /* of other arrays each time */
    if (self->workspace_bytes(&call->args, &bytes) != 0) { return false; }
  } else if (!bytes_of_workspace(self, call, like->device_id, &bytes)) {
    return false;
  }
  if (bytes == 0) { return true; }
  call->args.workspace = take_memory(self, api, like, bytes, stream, is_own, room);
  call->args.workspace_bytes = bytes;
  return call->args.workspace != NULL;
}

static void give_back(Caller* self, Room* room) {
  if (room->managed != NULL && room->managed->deleter != NULL) { room->managed->deleter(room->managed); }
  if (room->pointer == NULL) { return; }
  PyErr_Clear(); /* where the call fails: Python functions must not be called with an exception set */
  PyObject* const done = PyObject_CallOneArg(self->give_back, room->pointer);
  Py_XDECREF(done);
  Py_DECREF(room->pointer);
}

/* Runs the kernel with a workspace; false where it refuses. */
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

#endif /* MMAGEN_BINDING_FAST_WORKSPACE_H */
