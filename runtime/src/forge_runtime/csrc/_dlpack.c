#include "_dlpack.h"

#include <string.h>

enum { INT, UINT, FLOAT, BFLOAT = 4, COMPLEX, BOOL }; /* codes of element types */
enum { CUDA_HOST = 3, ROCM_HOST = 11, CUDA_MANAGED = 13 };

/* Of each forge_dtype: its type in DLPack, and the format of a buffer of the integers or numbers that hold it. */
static const struct {
  dlpack_dtype dtype;
  char format[3];
} TYPES[FORGE_STRING] = {
    [FORGE_BOOL] = {{BOOL, 8, 1}, "?"},
    [FORGE_INT8] = {{INT, 8, 1}, "b"},
    [FORGE_INT16] = {{INT, 16, 1}, "h"},
    [FORGE_INT32] = {{INT, 32, 1}, "i"},
    [FORGE_INT64] = {{INT, 64, 1}, "l"},
    [FORGE_UINT8] = {{UINT, 8, 1}, "B"},
    [FORGE_UINT16] = {{UINT, 16, 1}, "H"},
    [FORGE_UINT32] = {{UINT, 32, 1}, "I"},
    [FORGE_UINT64] = {{UINT, 64, 1}, "L"},
    [FORGE_FLOAT16] = {{FLOAT, 16, 1}, "e"},
    [FORGE_BFLOAT16] = {{BFLOAT, 16, 1}, "H"},
    [FORGE_FLOAT32] = {{FLOAT, 32, 1}, "f"},
    [FORGE_FLOAT64] = {{FLOAT, 64, 1}, "d"},
    [FORGE_COMPLEX64] = {{COMPLEX, 64, 1}, "Zf"},
    [FORGE_COMPLEX128] = {{COMPLEX, 128, 1}, "Zd"},
    [FORGE_FLOAT8_E4M3FN] = {{10, 8, 1}, "B"},
    [FORGE_FLOAT8_E4M3FNUZ] = {{11, 8, 1}, "B"},
    [FORGE_FLOAT8_E5M2] = {{12, 8, 1}, "B"},
    [FORGE_FLOAT8_E5M2FNUZ] = {{13, 8, 1}, "B"},
    [FORGE_FLOAT8_E8M0FNU] = {{14, 8, 1}, "B"},
    [FORGE_FLOAT4_E2M1FN] = {{17, 4, 1}, "B"},
    [FORGE_INT2] = {{INT, 2, 1}, "B"},
    [FORGE_UINT2] = {{UINT, 2, 1}, "B"},
    [FORGE_INT4] = {{INT, 4, 1}, "B"},
    [FORGE_UINT4] = {{UINT, 4, 1}, "B"},
};

dlpack_dtype dlpack_type(int32_t dtype) { return TYPES[dtype].dtype; }

/* Of any number of lanes; -1: none. */
static int32_t dtype_of(dlpack_dtype type) {
  for (int32_t dtype = 0; dtype < FORGE_STRING; dtype++)
    if (TYPES[dtype].dtype.code == type.code && TYPES[dtype].dtype.bits == type.bits) return dtype;
  return -1;
}

static bool is_on_host(dlpack_device device) {
  return device.type == DLPACK_CPU || device.type == CUDA_HOST || device.type == ROCM_HOST || device.type == CUDA_MANAGED;
}

static void refuse_device(dlpack_device device) {
  PyErr_Format(PyExc_BufferError, "its memory is on DLPack device type %d, number %d", (int)device.type, (int)device.id);
}

static int64_t count_of(const dlpack_tensor *tensor) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor->ndim; d++)
    count *= tensor->shape[d];
  return count;
}

static bool is_contiguous(const dlpack_tensor *tensor) {
  int64_t expected = 1;
  for (int32_t d = tensor->ndim; tensor->strides && d-- > 0;) {
    if (tensor->shape[d] == 0) return true;
    if (tensor->shape[d] != 1 && tensor->strides[d] != expected) return false;
    expected *= tensor->shape[d];
  }
  return true;
}

/* Memory borrowed from another library: a buffer of it, or for elements packed several to a byte one of its bytes. */
typedef struct {
  PyObject_HEAD void *managed; /* dlpack_versioned or dlpack_unversioned, with a tensor that `tensor` points to */
  const dlpack_tensor *tensor;
  Py_ssize_t *sizes; /* shape, then strides in bytes */
  Py_ssize_t itemsize;
  int32_t dtype;
  bool is_versioned, is_writable, is_packed;
} borrowed_object;

static void give_back(void *managed, bool is_versioned) {
  dlpack_versioned *versioned = managed;
  dlpack_unversioned *unversioned = managed;
  if (is_versioned && versioned->deleter) versioned->deleter(versioned);
  if (!is_versioned && unversioned->deleter) unversioned->deleter(unversioned);
}

static void borrowed_dealloc(PyObject *object) {
  borrowed_object *self = (borrowed_object *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject *exception, *value, *traceback; /* a deleter may run Python, which must not meet the exception of a failing call */
  PyErr_Fetch(&exception, &value, &traceback);
  if (self->managed) give_back(self->managed, self->is_versioned);
  PyErr_Restore(exception, value, traceback);
  PyMem_Free(self->sizes);
  freefunc release = PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

static int borrowed_getbuffer(PyObject *object, Py_buffer *view, int flags) {
  const borrowed_object *self = (const borrowed_object *)object;
  const dlpack_tensor *tensor = self->tensor;
  char *data = tensor->data ? (char *)tensor->data + tensor->byte_offset : (char *)self->sizes;
  const int64_t count = count_of(tensor);
  if ((flags & PyBUF_WRITABLE) && !self->is_writable) {
    PyErr_SetString(PyExc_BufferError, "the memory is read-only");
    return -1;
  }
  if (self->is_packed)
    return PyBuffer_FillInfo(view, object, data, (count * tensor->dtype.lanes * tensor->dtype.bits + 7) / 8, !self->is_writable,
                             flags);
  if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
    PyErr_SetString(PyExc_BufferError, "the memory has strides");
    return -1;
  }
  *view = (Py_buffer){.buf = data,
                      .obj = object,
                      .len = count * self->itemsize,
                      .itemsize = self->itemsize,
                      .readonly = !self->is_writable,
                      .ndim = tensor->ndim,
                      .format = flags & PyBUF_FORMAT ? (char *)TYPES[self->dtype].format : NULL,
                      .shape = self->sizes,
                      .strides = self->sizes + tensor->ndim};
  Py_INCREF(object);
  return 0;
}

static PyType_Slot borrowed_slots[] = {
    {Py_tp_dealloc, borrowed_dealloc},
    {Py_bf_getbuffer, borrowed_getbuffer},
    {0, NULL},
};

static PyType_Spec borrowed_spec = {
    .name = "forge_runtime._native.Borrowed",
    .basicsize = sizeof(borrowed_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = borrowed_slots,
};

/* Moves what a capsule holds into `self`. */
static int take_capsule(borrowed_object *self, PyObject *capsule) {
  self->is_versioned = PyCapsule_IsValid(capsule, DLPACK_VERSIONED);
  if (!self->is_versioned && !PyCapsule_IsValid(capsule, DLPACK_UNVERSIONED)) {
    PyErr_Format(PyExc_BufferError, "__dlpack__ gave %R; expected a capsule \"%s\" or \"%s\"", capsule, DLPACK_VERSIONED,
                 DLPACK_UNVERSIONED);
    return -1;
  }
  void *managed = PyCapsule_GetPointer(capsule, self->is_versioned ? DLPACK_VERSIONED : DLPACK_UNVERSIONED);
  if (PyCapsule_SetName(capsule, self->is_versioned ? "used_dltensor_versioned" : "used_dltensor") < 0) return -1;
  self->managed = managed;
  return 0;
}

static int read_version(borrowed_object *self) {
  if (!self->is_versioned) {
    self->tensor = &((const dlpack_unversioned *)self->managed)->tensor;
    self->is_packed = self->tensor->dtype.bits < 8;
    return 0;
  }
  const dlpack_versioned *versioned = self->managed;
  if (versioned->major != 1) {
    PyErr_Format(PyExc_BufferError, "its DLPack has version %u.%u; expected 1", (unsigned)versioned->major,
                 (unsigned)versioned->minor);
    return -1;
  }
  self->tensor = &versioned->tensor;
  self->is_writable = !(versioned->flags & DLPACK_READ_ONLY); /* an unversioned tensor cannot say that it may be written */
  self->is_packed = self->tensor->dtype.bits < 8 && !(versioned->flags & DLPACK_PADDED);
  return 0;
}

static int check_tensor(borrowed_object *self) {
  const dlpack_tensor *tensor = self->tensor;
  const dlpack_dtype type = tensor->dtype;
  self->dtype = dtype_of(type);
  const bool fills_bytes = type.lanes == 1 || (self->is_packed && type.lanes * type.bits == 8 && tensor->ndim > 0);
  if (!is_on_host(tensor->device))
    refuse_device(tensor->device);
  else if (self->dtype < 0 || !fills_bytes)
    PyErr_Format(PyExc_BufferError, "its elements have DLPack type code %d, %d bits, %d lanes", type.code, type.bits, type.lanes);
  else if (tensor->data == NULL && count_of(tensor) != 0)
    PyErr_SetString(PyExc_BufferError, "it has no memory of its own");
  else if (self->is_packed && !is_contiguous(tensor))
    PyErr_Format(PyExc_BufferError, "its elements of %d bits are packed, but not contiguous", type.bits);
  else
    return 0;
  return -1;
}

static int fill_sizes(borrowed_object *self) {
  const dlpack_tensor *tensor = self->tensor;
  const size_t ndim = (size_t)tensor->ndim;
  self->itemsize = (tensor->dtype.bits + 7) / 8;
  self->sizes = PyMem_Malloc((2 * ndim + 2) * sizeof *self->sizes);
  if (self->sizes == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  Py_ssize_t contiguous = self->itemsize;
  for (size_t d = ndim; d-- > 0;) {
    self->sizes[d] = tensor->shape[d];
    self->sizes[ndim + d] = tensor->strides ? tensor->strides[d] * self->itemsize : contiguous;
    contiguous *= tensor->shape[d];
  }
  return 0;
}

static int refuse_if(int truth, const char *reason) {
  if (truth > 0) PyErr_SetString(PyExc_BufferError, reason);
  return truth == 0 ? 0 : -1;
}

/* The truth of an attribute, or of what it returns as a method; 0 where there is none, -1 after an exception. */
static int says(PyObject *object, PyObject *name, bool is_method) {
  PyObject *value = is_method ? PyObject_CallMethodObjArgs(object, name, NULL) : PyObject_GetAttr(object, name);
  if (value == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    return PyObject_HasAttr(object, name) ? refuse_if(1, "it does not say what its memory means") : 0;
  }
  const int truth = value ? PyObject_IsTrue(value) : -1;
  Py_XDECREF(value);
  return truth;
}

/* torch marks tensors as negated or conjugated without a change of memory. Its __dlpack__ looks at the second only, its exchange
 * table at neither. */
static int check_meaning(const dlpack_state *state, PyObject *object, bool detaches, bool may_be_complex) {
  if (!detaches && refuse_if(says(object, state->requires_grad, false), "it requires gradients") < 0) return -1;
  if (refuse_if(says(object, state->is_neg, true), "its elements are the negatives of what its memory holds") < 0) return -1;
  if (!may_be_complex) return 0;
  return refuse_if(says(object, state->is_conj, true), "its elements are the conjugates of what its memory holds");
}

const dlpack_exchange *dlpack_table(const dlpack_state *state, PyObject *type) {
  PyObject *capsule = PyObject_GetAttr(type, state->exchange);
  const dlpack_exchange *exchange = capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
  Py_XDECREF(capsule);
  if (exchange == NULL) PyErr_Clear();
  return exchange && exchange->major == 1 ? exchange : NULL;
}

static const dlpack_exchange *exchange_of(const dlpack_state *state, PyObject *object) {
  return dlpack_table(state, (PyObject *)Py_TYPE(object));
}

static int check_device(const dlpack_state *state, PyObject *object) {
  PyObject *method = PyObject_GetAttr(object, state->device);
  PyObject *pair = method ? PyObject_CallNoArgs(method) : NULL;
  Py_XDECREF(method);
  if (pair == NULL) return -1;
  dlpack_device device;
  const bool is_pair = PyTuple_Check(pair) && PyArg_ParseTuple(pair, "ii", &device.type, &device.id);
  if (!is_pair)
    PyErr_Format(PyExc_BufferError, "__dlpack_device__ gave %R; expected a pair of integers", pair);
  else if (!is_on_host(device))
    refuse_device(device);
  Py_DECREF(pair);
  return is_pair && is_on_host(device) ? 0 : -1;
}

/* tensorflow ends the process where it is asked for the memory of strings or other objects. */
static int check_elements(const dlpack_state *state, PyObject *object) {
  PyObject *dtype = PyObject_GetAttr(object, state->dtype);
  PyObject *kind = dtype ? PyObject_GetAttr(dtype, state->as_numpy_dtype) : NULL;
  const bool is_object = kind == (PyObject *)&PyBaseObject_Type;
  Py_XDECREF(kind);
  Py_XDECREF(dtype);
  PyErr_Clear();
  return refuse_if(is_object, "its elements are objects");
}

/* `__dlpack__`, of producers that know version 1 and of those before it. */
static PyObject *ask(const dlpack_state *state, PyObject *object) {
  if (check_elements(state, object) < 0 || check_device(state, object) < 0) return NULL;
  PyObject *method = PyObject_GetAttr(object, state->dlpack);
  PyObject *capsule = method ? PyObject_Call(method, state->no_arguments, state->versioned_request) : NULL;
  if (method && capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    capsule = PyObject_Call(method, state->no_arguments, NULL);
  }
  Py_XDECREF(method);
  return capsule;
}

static int take(const dlpack_state *state, PyObject *object, bool detaches, borrowed_object *self) {
  const dlpack_exchange *exchange = exchange_of(state, object);
  if ((exchange || PyObject_HasAttr(object, state->is_neg)) && check_meaning(state, object, detaches, true) < 0) return -1;
  if (exchange) {
    self->is_versioned = true;
    return exchange->from_object(object, &self->managed);
  }
  PyObject *capsule = ask(state, object);
  const int status = capsule ? take_capsule(self, capsule) : -1;
  Py_XDECREF(capsule);
  return status;
}

static borrowed_object *borrow(const dlpack_state *state, PyObject *object, bool detaches) {
  allocfunc allocate = PyType_GetSlot((PyTypeObject *)state->borrowed_type, Py_tp_alloc);
  borrowed_object *self = (borrowed_object *)allocate((PyTypeObject *)state->borrowed_type, 0);
  if (self && (take(state, object, detaches, self) < 0 || read_version(self) < 0 || check_tensor(self) < 0 || fill_sizes(self) < 0))
    Py_CLEAR(self);
  return self;
}

static bool has_dtype(const dlpack_tensor *tensor, int32_t dtype) {
  return memcmp(&tensor->dtype, &TYPES[dtype].dtype, sizeof tensor->dtype) == 0;
}

/* False where the tensor has to be copied or refused. */
static bool fill_tensor(const dlpack_tensor *from, int32_t dtype, forge_tensor *tensor) {
  const uintptr_t size = TYPES[dtype].dtype.bits / 8u, alignment = size > 8 ? 8 : size;
  if (!has_dtype(from, dtype) || size == 0 || from->ndim > FORGE_MAX_RANK || !is_on_host(from->device)) return false;
  static char nothing[16];
  tensor->data = from->data ? (char *)from->data + from->byte_offset : nothing;
  tensor->dtype = dtype;
  tensor->ndim = from->ndim;
  for (int32_t d = 0; d < from->ndim; d++)
    tensor->shape[d] = from->shape[d];
  tensor->capacity = count_of(from) * (int64_t)size;
  return is_contiguous(from) && (from->data || tensor->capacity == 0) && (uintptr_t)tensor->data % alignment == 0;
}

static PyObject *hold_memory(const dlpack_state *state, PyObject *object, int32_t dtype, bool detaches, forge_tensor *tensor) {
  const dlpack_exchange *exchange = exchange_of(state, object);
  dlpack_tensor view;
  if (exchange && exchange->view) {
    if (exchange->view(object, &view) < 0) return NULL;
    if (fill_tensor(&view, dtype, tensor)) {
      if (check_meaning(state, object, detaches, view.dtype.code == COMPLEX) < 0) return NULL;
      Py_INCREF(object);
      return object;
    }
  }
  if (!PyObject_HasAttr(object, state->dlpack)) return NULL;
  borrowed_object *borrowed = borrow(state, object, detaches);
  if (borrowed && !fill_tensor(borrowed->tensor, dtype, tensor)) {
    tensor->data = NULL;
    if (borrowed->is_packed || !has_dtype(borrowed->tensor, dtype)) Py_CLEAR(borrowed);
  }
  return (PyObject *)borrowed;
}

/* What `borrow` will raise again; not what ends the program, such as KeyboardInterrupt. */
static void forget_exception(void) {
  if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
}

PyObject *dlpack_input(const dlpack_state *state, PyObject *object, int32_t dtype, bool detaches, forge_tensor *tensor) {
  PyObject *owner = dtype < FORGE_STRING ? hold_memory(state, object, dtype, detaches, tensor) : NULL;
  if (owner == NULL) forget_exception();
  return owner;
}

static bool has_shape(const dlpack_tensor *tensor, const forge_tensor *expected) {
  if (tensor->ndim != expected->ndim) return false;
  for (int32_t d = 0; d < tensor->ndim; d++)
    if (tensor->shape[d] != expected->shape[d]) return false;
  return true;
}

PyObject *dlpack_output(const dlpack_state *state, PyObject *object, forge_tensor *tensor) {
  if (tensor->dtype >= FORGE_STRING || !PyObject_HasAttr(object, state->dlpack)) return NULL;
  borrowed_object *borrowed = borrow(state, object, false);
  forge_tensor filled;
  if (borrowed && borrowed->is_writable && has_shape(borrowed->tensor, tensor) &&
      fill_tensor(borrowed->tensor, tensor->dtype, &filled)) {
    tensor->data = filled.data;
    tensor->capacity = filled.capacity;
    return (PyObject *)borrowed;
  }
  Py_XDECREF((PyObject *)borrowed);
  forget_exception();
  return NULL;
}

/* Exceptions that libraries make up for themselves become a BufferError with their text. */
static void unify_exception(void) {
  if (PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_MemoryError) ||
      !PyErr_ExceptionMatches(PyExc_Exception))
    return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_Format(PyExc_BufferError, "%S", value ? value : type);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

static PyObject *tuple_of(const int64_t *numbers, int32_t count) {
  PyObject *tuple = PyTuple_New(count);
  for (int32_t k = 0; tuple && k < count; k++) {
    PyObject *number = PyLong_FromLongLong(numbers[k]);
    if (number == NULL || PyTuple_SetItem(tuple, k, number) < 0) Py_CLEAR(tuple);
  }
  return tuple;
}

PyObject *dlpack_borrow(PyObject *module, PyObject *object) {
  borrowed_object *self = borrow(PyModule_GetState(module), object, false);
  if (self == NULL) {
    unify_exception();
    return NULL;
  }
  const dlpack_tensor *tensor = self->tensor;
  if (!self->is_packed) return Py_BuildValue("(NsO)", self, forge_dtype_name(self->dtype), Py_None);
  if (tensor->dtype.lanes > 1) self->sizes[tensor->ndim - 1] *= tensor->dtype.lanes;
  PyObject *shape = tuple_of(self->sizes, tensor->ndim);
  if (shape) return Py_BuildValue("(NsN)", self, forge_dtype_name(self->dtype), shape);
  Py_DECREF(self);
  return NULL;
}

int dlpack_init(PyObject *module, dlpack_state *state) {
  static const char *const names[] = {"__dlpack__", "__dlpack_device__", "__dlpack_c_exchange_api__",
                                      "requires_grad", "is_neg", "is_conj", "dtype", "as_numpy_dtype"};
  PyObject **attributes = &state->dlpack;
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if ((attributes[k] = PyUnicode_InternFromString(names[k])) == NULL) return -1;
  if ((state->no_arguments = PyTuple_New(0)) == NULL) return -1;
  if ((state->versioned_request = Py_BuildValue("{s:(ii)}", "max_version", 1, 1)) == NULL) return -1;
  return (state->borrowed_type = PyType_FromModuleAndSpec(module, &borrowed_spec, NULL)) ? 0 : -1;
}
