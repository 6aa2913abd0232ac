/* Tensors of other libraries through DLPack 1 (https://dmlc.github.io/dlpack): its structures, and what the CPython binding uses.
 * In this folder, but no part of the native interface. */
#ifndef FORGE_DLPACK_H
#define FORGE_DLPACK_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "forge_internal.h"

#define DLPACK_VERSIONED "dltensor_versioned" /* names of capsules */
#define DLPACK_UNVERSIONED "dltensor"
enum { DLPACK_READ_ONLY = 1, DLPACK_PADDED = 4 }; /* flags of a versioned tensor */
enum { DLPACK_CPU = 1 };                          /* a type of device */

typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} dlpack_dtype;

typedef struct {
  int32_t type, id;
} dlpack_device;

/* DLTensor */
typedef struct {
  void *data;
  dlpack_device device;
  int32_t ndim;
  dlpack_dtype dtype;
  int64_t *shape, *strides; /* in elements; strides NULL: C-contiguous */
  uint64_t byte_offset;
} dlpack_tensor;

/* DLManagedTensor: a capsule "dltensor" holds one. */
typedef struct dlpack_unversioned {
  dlpack_tensor tensor;
  void *context;
  void (*deleter)(struct dlpack_unversioned *self);
} dlpack_unversioned;

/* DLManagedTensorVersioned: a capsule "dltensor_versioned" holds one. */
typedef struct dlpack_versioned {
  uint32_t major, minor;
  void *context;
  void (*deleter)(struct dlpack_versioned *self);
  uint64_t flags;
  dlpack_tensor tensor;
} dlpack_versioned;

/* DLPackExchangeAPI, which a type has as `__dlpack_c_exchange_api__`: the members up to the one that the binding calls. */
typedef struct {
  uint32_t major, minor;
  void *previous;
  void *allocate;
  int (*from_object)(void *object, void **managed); /* gives a dlpack_versioned */
  int (*to_object)(void *managed, void **object);   /* takes one */
  int (*view)(void *object, dlpack_tensor *tensor); /* of what stays the object's; may be NULL */
} dlpack_exchange;

/* Python objects that every exchange needs. */
typedef struct {
  PyObject *borrowed_type, *no_arguments, *versioned_request;
  PyObject *dlpack, *device, *exchange, *requires_grad, *is_neg, *is_conj, *dtype, *as_numpy_dtype; /* names of attributes */
} dlpack_state;

FORGE_LOCAL int dlpack_init(PyObject *module, dlpack_state *state);

/* The table that lets C exchange tensors without a call of Python; NULL, without an exception, for types that have none. */
FORGE_LOCAL const dlpack_exchange *dlpack_table(const dlpack_state *state, PyObject *type);

/* Fills in a tensor that kernels can read where it lies, and returns a new reference to what keeps it there. tensor->data NULL:
 * its strides are not for kernels; copy the buffer of what is returned. NULL without an exception: Python has to look at it. One
 * that requires gradients is taken if the caller `detaches`. */
FORGE_LOCAL PyObject *dlpack_input(const dlpack_state *state, PyObject *object, int32_t dtype, bool detaches, forge_tensor *tensor);

/* The same of memory that kernels can write where it lies; dtype and shape of the tensor say what it has to be. */
FORGE_LOCAL PyObject *dlpack_output(const dlpack_state *state, PyObject *object, forge_tensor *tensor);

/* The type of elements of `dtype`, which is before FORGE_STRING. */
FORGE_LOCAL dlpack_dtype dlpack_type(int32_t dtype);

/* A tensor of the library that the table is from, over memory of the built-in host, which is taken over also if it fails. */
FORGE_LOCAL PyObject *dlpack_give(const dlpack_exchange *exchange, forge_tensor *tensor);

/* Functions of the module, whose state begins with a dlpack_state; described in _native.pyi. */
FORGE_LOCAL PyObject *dlpack_borrow(PyObject *module, PyObject *object);
FORGE_LOCAL PyObject *dlpack_lend(PyObject *module, PyObject *arguments);

#endif
