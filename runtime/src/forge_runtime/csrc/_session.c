/* Sessions as Python objects. */
#include "_native.h"
#include <string.h>

typedef struct {
  PyObject_HEAD forge_session *session;
  PyObject *model; /* holds weights, code and host */
} session_object;

static PyObject *wrap(const module_state *state, forge_session *session, PyObject *model, const forge_error *error) {
  session_object *self = session ? (session_object *)native_new_object(state->session_type) : NULL;
  if (self == NULL) {
    forge_session_free(session);
    return session ? NULL : native_raise(state, error);
  }
  self->session = session;
  self->model = model;
  Py_INCREF(model);
  return (PyObject *)self;
}

PyObject *native_new_session(PyObject *model, PyObject *capacity) {
  const model_object *self = (const model_object *)model;
  forge_error error;
  const forge_session_options options = {PyLong_AsLongLong(capacity)};
  if (options.capacity == -1 && PyErr_Occurred()) return NULL;
  return wrap(native_state(model), forge_session_new(self->model, &self->host, &options, &error), model, &error);
}

static PyObject *session_copy(PyObject *object, PyObject *unused) {
  (void)unused;
  const session_object *self = (const session_object *)object;
  forge_session *copy;
  forge_error error;
  Py_BEGIN_ALLOW_THREADS copy = forge_session_copy(self->session, &error);
  Py_END_ALLOW_THREADS return wrap(native_state(object), copy, self->model, &error);
}

static PyObject *session_run(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
  const module_state *state = native_state(object);
  if (count < 1 || Py_TYPE(arguments[0]) != (PyTypeObject *)state->model_type)
    return PyErr_Format(PyExc_TypeError, "run takes a model, a tuple of inputs and, optionally, one of outputs");
  return native_call((const model_object *)arguments[0], ((session_object *)object)->session, arguments + 1, count - 1);
}

/* A copy of one state; None where it has no value. */
static PyObject *value_of(session_object *self, PyObject *name) {
  const module_state *state = native_state((PyObject *)self);
  const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
  forge_tensor value = {.data = NULL};
  forge_error error;
  int32_t status;
  if (text == NULL) return NULL;
  Py_BEGIN_ALLOW_THREADS status = forge_session_get_entered(self->session, text, &value, &error);
  Py_END_ALLOW_THREADS if (status != FORGE_OK) return native_raise(state, &error);
  if (value.ndim < 0) Py_RETURN_NONE;
  return native_wrap_memory(state, &value);
}

/* Of one moment: no call comes between two of them. */
static PyObject *session_get(PyObject *object, PyObject *names) {
  session_object *self = (session_object *)object;
  forge_error error;
  const Py_ssize_t count = PyTuple_Check(names) ? PyTuple_Size(names) : -1;
  if (count < 0) return PyErr_Format(PyExc_TypeError, "get takes a tuple of names");
  if (forge_session_enter(self->session, &error) != FORGE_OK) return native_raise(native_state(object), &error);
  PyObject *values = PyTuple_New(count);
  for (Py_ssize_t i = 0; values && i < count; i++) {
    PyObject *value = value_of(self, PyTuple_GetItem(names, i));
    if (value == NULL || PyTuple_SetItem(values, i, value) < 0) Py_CLEAR(values);
  }
  (void)forge_session_leave(self->session, FORGE_OK);
  return values;
}

static PyObject *session_reset(PyObject *object, PyObject *unused) {
  (void)unused;
  forge_error error;
  if (forge_session_reset(((session_object *)object)->session, &error) != FORGE_OK) return native_raise(native_state(object), &error);
  Py_RETURN_NONE;
}

/* Values to be loaded: as many of each as `held` says. */
typedef struct {
  const char **names;
  Py_buffer *views;
  forge_tensor *tensors;
  Py_ssize_t held;
} loaded_values;

static int32_t dtype_of(const forge_model *model, const char *name) {
  for (int32_t i = 0; i < forge_states(model); i++)
    if (strcmp(model->states[i].name, name) == 0) return model->states[i].dtype;
  return -1;
}

static PyObject *load_values(const session_object *self, PyObject *names, PyObject *arrays, Py_ssize_t count, loaded_values *values) {
  forge_error error;
  int32_t status;
  for (Py_ssize_t i = 0; i < count; i++) {
    values->names[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL);
    if (values->names[i] == NULL) return NULL;
    const int32_t dtype = dtype_of(((const model_object *)self->model)->model, values->names[i]);
    if (native_view(PyTuple_GetItem(arrays, i), dtype, &values->views[i], &values->tensors[i]) < 0) return NULL;
    values->held++;
  }
  Py_BEGIN_ALLOW_THREADS status = forge_session_load(self->session, (int32_t)count, values->names, values->tensors, &error);
  Py_END_ALLOW_THREADS if (status != FORGE_OK) return native_raise(native_state((PyObject *)self), &error);
  Py_RETURN_NONE;
}

/* Python has made the arrays C-contiguous, and of the storage types of the states. */
static PyObject *session_load(PyObject *object, PyObject *arguments) {
  PyObject *names, *arrays, *result = NULL;
  if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &names, &PyTuple_Type, &arrays)) return NULL;
  const Py_ssize_t count = PyTuple_Size(names);
  if (PyTuple_Size(arrays) != count) return PyErr_Format(PyExc_TypeError, "load takes as many names as arrays");
  const size_t room = count ? (size_t)count : 1;
  loaded_values values = {PyMem_Calloc(room, sizeof(char *)), PyMem_Calloc(room, sizeof(Py_buffer)),
                          PyMem_Calloc(room, sizeof(forge_tensor)), 0};
  if (values.names && values.views && values.tensors)
    result = load_values((session_object *)object, names, arrays, count, &values);
  else
    PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < values.held; i++)
    PyBuffer_Release(&values.views[i]);
  PyMem_Free(values.names);
  PyMem_Free(values.views);
  PyMem_Free(values.tensors);
  return result;
}

static void session_dealloc(PyObject *object) {
  session_object *self = (session_object *)object;
  forge_session_free(self->session);
  Py_XDECREF(self->model);
  native_free_object(object);
}

static PyMethodDef session_methods[] = {
    {"run", (PyCFunction)(void (*)(void))session_run, METH_FASTCALL, "run(model, inputs, outputs=None) -> tuple of arrays"},
    {"get", session_get, METH_O, "get(names) -> tuple of arrays, None where a state has no value"},
    {"load", session_load, METH_VARARGS, "load(names, arrays): sets these states and unsets all others"},
    {"reset", session_reset, METH_NOARGS, "reset(): unsets all states"},
    {"copy", session_copy, METH_NOARGS, "copy() -> Session"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot session_slots[] = {
    {Py_tp_dealloc, session_dealloc},
    {Py_tp_methods, session_methods},
    {0, NULL},
};

PyType_Spec native_session_spec = {
    .name = "forge_runtime._native.Session",
    .basicsize = sizeof(session_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = session_slots,
};
