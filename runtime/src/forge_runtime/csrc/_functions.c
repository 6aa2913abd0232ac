/* Functions of Python that models call by name: the entries of registry.py. */
#define PY_SSIZE_T_CLEAN
#include "_functions.h"
#include "forge_internal.h"

static PyObject *describe(const forge_tensor *tensor, int flags) {
  static char nothing;
  PyObject *shape = PyTuple_New(tensor->ndim);
  for (int32_t d = 0; shape && d < tensor->ndim; d++) {
    PyObject *size = PyLong_FromLongLong(tensor->shape[d]);
    if (size == NULL || PyTuple_SetItem(shape, d, size) < 0) Py_CLEAR(shape);
  }
  if (shape == NULL) return NULL;
  char *memory = tensor->data ? tensor->data : &nothing;
  PyObject *view = PyMemoryView_FromMemory(memory, (Py_ssize_t)forge_byte_count(tensor), flags);
  return Py_BuildValue("(NsN)", view, forge_dtype_name(tensor->dtype), shape);
}

static PyObject *describe_all(const forge_tensor *tensors, int32_t count, int flags) {
  PyObject *all = PyTuple_New(count);
  for (int32_t i = 0; all && i < count; i++) {
    PyObject *one = describe(&tensors[i], flags);
    if (one == NULL || PyTuple_SetItem(all, i, one) < 0) Py_CLEAR(all);
  }
  return all;
}

/* What an entry returned: None, or what is wrong with the function's results. An exception stays set: the call of the model ends, and
 * raises it. */
static int32_t status_of(PyObject *returned, forge_error *error) {
  if (returned == Py_None) return FORGE_OK;
  const char *problem = returned ? PyUnicode_AsUTF8AndSize(returned, NULL) : NULL;
  if (problem) return forge_fail(error, FORGE_ERROR_FUNCTION, "%s", problem);
  return forge_fail(error, FORGE_ERROR_FUNCTION, "it raised an exception");
}

static int32_t call_entry(void *entry, const forge_tensor *in, int32_t n_in, forge_tensor *out, int32_t n_out,
                          forge_error *error) {
  const PyGILState_STATE lock = PyGILState_Ensure();
  PyObject *inputs = describe_all(in, n_in, PyBUF_READ);
  PyObject *outputs = inputs ? describe_all(out, n_out, PyBUF_WRITE) : NULL;
  PyObject *returned = outputs ? PyObject_CallFunctionObjArgs(entry, inputs, outputs, NULL) : NULL;
  const int32_t status = status_of(returned, error);
  Py_XDECREF(returned);
  Py_XDECREF(outputs);
  Py_XDECREF(inputs);
  PyGILState_Release(lock);
  return status;
}

PyObject *forge_register_python(PyObject *module, PyObject *arguments) {
  (void)module;
  const char *name;
  PyObject *entry;
  if (!PyArg_ParseTuple(arguments, "sO", &name, &entry)) return NULL;
  if (forge_register(name, call_entry, entry, 1, NULL) != FORGE_OK) return PyErr_NoMemory();
  Py_INCREF(entry); /* for ever: a call may have begun */
  Py_RETURN_NONE;
}

PyObject *forge_unregister_python(PyObject *module, PyObject *name) {
  (void)module;
  const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
  if (text == NULL) return NULL;
  (void)forge_unregister(text, NULL);
  Py_RETURN_NONE;
}

void forge_add_note(const char *text) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) (void)PyException_SetTraceback(value, traceback);
  PyObject *added = PyObject_CallMethod(value, "add_note", "s", text);
  if (added == NULL) PyErr_Clear();
  Py_XDECREF(added);
  PyErr_Restore(type, value, traceback);
}
