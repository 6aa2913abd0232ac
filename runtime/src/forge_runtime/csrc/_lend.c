/* Memory given to other libraries through DLPack. */
#include "_dlpack.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  union {
    dlpack_versioned versioned;
    dlpack_unversioned unversioned;
  } managed;
  Py_buffer view;
  int64_t sizes[]; /* shape, then strides in elements */
} lent_memory;

static void free_lent(lent_memory *lent) {
  PyBuffer_Release(&lent->view);
  PyMem_Free(lent);
}

/* Any thread may call it; after the end of the interpreter there is nothing left to give back. */
static void end_loan(void *managed) {
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE lock = PyGILState_Ensure();
  free_lent(managed);
  PyGILState_Release(lock);
}

static void end_versioned(dlpack_versioned *managed) { end_loan(managed); }

static void end_unversioned(dlpack_unversioned *managed) { end_loan(managed); }

/* A capsule that nobody has taken still has its first name. */
static void capsule_destructor(PyObject *capsule) {
  const char *name = PyCapsule_GetName(capsule);
  if (strcmp(name, DLPACK_VERSIONED) == 0 || strcmp(name, DLPACK_UNVERSIONED) == 0) end_loan(PyCapsule_GetPointer(capsule, name));
}

static int find_dtype(const char *name) {
  for (int32_t dtype = 0; dtype < FORGE_STRING; dtype++)
    if (strcmp(name, forge_dtype_name(dtype)) == 0) return dtype;
  PyErr_Format(PyExc_BufferError, "element type %s has no type in DLPack", name);
  return -1;
}

static int64_t *new_sizes(lent_memory *lent, PyObject *shape, Py_ssize_t ndim) {
  const Py_buffer *view = &lent->view;
  int64_t *strides = lent->sizes + ndim, contiguous = 1;
  for (Py_ssize_t d = ndim; d-- > 0;) {
    lent->sizes[d] = shape == Py_None ? view->shape[d] : PyLong_AsLongLong(PyTuple_GetItem(shape, d));
    strides[d] = shape == Py_None ? view->strides[d] / view->itemsize : contiguous;
    contiguous *= lent->sizes[d];
    if (shape == Py_None && view->strides[d] % view->itemsize != 0) {
      PyErr_SetString(PyExc_BufferError, "its strides are not multiples of its elements");
      return NULL;
    }
  }
  return PyErr_Occurred() ? NULL : lent->sizes;
}

static PyObject *wrap_lent(lent_memory *lent, const dlpack_tensor *tensor, uint64_t flags, bool is_versioned) {
  if (is_versioned)
    lent->managed.versioned =
        (dlpack_versioned){.major = 1, .minor = 1, .deleter = end_versioned, .flags = flags, .tensor = *tensor};
  else
    lent->managed.unversioned = (dlpack_unversioned){.deleter = end_unversioned, .tensor = *tensor};
  return PyCapsule_New(lent, is_versioned ? DLPACK_VERSIONED : DLPACK_UNVERSIONED, capsule_destructor);
}

PyObject *dlpack_lend(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *memory, *shape, *capsule = NULL;
  const char *name;
  unsigned long long flags;
  int is_versioned;
  if (!PyArg_ParseTuple(arguments, "OsOKp", &memory, &name, &shape, &flags, &is_versioned)) return NULL;
  const int32_t dtype = find_dtype(name);
  Py_buffer view;
  if (dtype < 0 || PyObject_GetBuffer(memory, &view, PyBUF_STRIDES) < 0) return NULL;
  const Py_ssize_t ndim = shape == Py_None ? view.ndim : PyTuple_Size(shape);
  lent_memory *lent = ndim < 0 ? NULL : PyMem_Malloc(sizeof *lent + 2 * (size_t)ndim * sizeof *lent->sizes);
  if (lent == NULL) {
    PyBuffer_Release(&view);
    return ndim < 0 ? NULL : PyErr_NoMemory();
  }
  lent->view = view;
  if (new_sizes(lent, shape, ndim)) {
    const dlpack_tensor tensor = {.data = view.buf, .device = {DLPACK_CPU, 0}, .ndim = (int32_t)ndim, .dtype = dlpack_type(dtype),
                                  .shape = lent->sizes, .strides = lent->sizes + ndim};
    capsule = wrap_lent(lent, &tensor, flags | (view.readonly ? DLPACK_READ_ONLY : 0), is_versioned);
  }
  if (capsule == NULL) free_lent(lent);
  return capsule;
}

/* Memory of the built-in host, which no Python is needed to give back. It is held by who takes the tensor, and until that has happened
 * by who offers it: an exchange that fails does not say whether it has given the tensor back. */
typedef struct {
  dlpack_versioned managed;
  forge_tensor tensor;
  int64_t strides[FORGE_MAX_RANK];
  atomic_int holders;
} given_memory;

static void drop_given(dlpack_versioned *managed) {
  given_memory *given = (given_memory *)managed;
  if (atomic_fetch_sub(&given->holders, 1) > 1) return;
  forge_free_output(NULL, &given->tensor);
  free(given);
}

static given_memory *new_given(const forge_tensor *tensor) {
  given_memory *given = malloc(sizeof *given);
  if (given == NULL) return NULL;
  given->tensor = *tensor;
  int64_t contiguous = 1;
  for (int32_t d = tensor->ndim; d-- > 0; contiguous *= tensor->shape[d] ? tensor->shape[d] : 1)
    given->strides[d] = contiguous;
  given->managed = (dlpack_versioned){.major = 1,
                                      .minor = 1,
                                      .deleter = drop_given,
                                      .tensor = {.data = tensor->data,
                                                 .device = {DLPACK_CPU, 0},
                                                 .ndim = tensor->ndim,
                                                 .dtype = dlpack_type(tensor->dtype),
                                                 .shape = given->tensor.shape,
                                                 .strides = given->strides}};
  atomic_init(&given->holders, 2);
  return given;
}

PyObject *dlpack_give(const dlpack_exchange *exchange, forge_tensor *tensor) {
  given_memory *given = new_given(tensor);
  if (given == NULL) {
    forge_free_output(NULL, tensor);
    return PyErr_NoMemory();
  }
  tensor->data = NULL;
  void *object = NULL;
  const bool failed = exchange->to_object(&given->managed, &object) < 0;
  if (failed && atomic_load(&given->holders) > 1) drop_given(&given->managed);
  drop_given(&given->managed);
  return failed ? NULL : object;
}
