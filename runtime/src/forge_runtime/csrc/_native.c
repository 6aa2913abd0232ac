/* The CPython binding, limited API: loaded models as objects, NumPy arrays in and out without copies. */
#include "_functions.h"
#include "_native.h"
#include "_routines.h"
#include <string.h>

PyObject *native_raise(const module_state *state, const forge_error *error) {
  const int32_t status = error->status > 0 && error->status < N_STATUS ? error->status : FORGE_ERROR_INTERNAL;
  PyObject *message = PyUnicode_DecodeUTF8(error->message, (Py_ssize_t)strlen(error->message), "replace");
  if (message) PyErr_SetObject(state->errors[status], message);
  Py_XDECREF(message);
  return NULL;
}

module_state *native_state(PyObject *object) { return PyType_GetModuleState(Py_TYPE(object)); }

/* Memory that a model allocated for an output of data-dependent size. */

static int memory_getbuffer(PyObject *self, Py_buffer *view, int flags) {
  forge_tensor *tensor = &((memory_object *)self)->tensor;
  return PyBuffer_FillInfo(view, self, tensor->data, (Py_ssize_t)tensor->capacity, 0, flags);
}

void native_free_object(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc release = PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

static void memory_dealloc(PyObject *self) {
  forge_free_output(NULL, &((memory_object *)self)->tensor);
  native_free_object(self);
}

static PyType_Slot memory_slots[] = {
    {Py_tp_dealloc, memory_dealloc},
    {Py_bf_getbuffer, memory_getbuffer},
    {0, NULL},
};

static PyType_Spec memory_spec = {
    .name = "forge_runtime._native.Memory",
    .basicsize = sizeof(memory_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = memory_slots,
};

PyObject *native_new_object(PyObject *type) {
  allocfunc allocate = PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
  return allocate((PyTypeObject *)type, 0);
}

/* What a model says of itself. */

static PyObject *describe_dim(const forge_model *model, const forge_dim *dim) {
  if (dim->size >= 0) return PyLong_FromLongLong(dim->size);
  if (dim->size == -1) return PyUnicode_FromString(model->symbol_names[dim->symbol]);
  Py_RETURN_NONE;
}

static PyObject *describe_tensor(const forge_model *model, const forge_tensor_spec *spec) {
  PyObject *dims = PyTuple_New(spec->ndim < 0 ? 0 : spec->ndim);
  for (int32_t d = 0; dims && d < spec->ndim; d++) {
    PyObject *dim = describe_dim(model, &spec->dims[d]);
    if (dim == NULL || PyTuple_SetItem(dims, d, dim) < 0) Py_CLEAR(dims);
  }
  if (dims && spec->ndim < 0) {
    Py_DECREF(dims);
    dims = Py_None;
    Py_INCREF(dims);
  }
  return dims ? Py_BuildValue("(ssN)", spec->name, forge_dtype_name(spec->dtype), dims) : NULL;
}

static PyObject *describe_inputs(const model_object *self) {
  PyObject *tensors = PyTuple_New(self->n_inputs);
  for (int32_t i = 0; tensors && i < self->n_inputs; i++) {
    PyObject *tensor = describe_tensor(self->model, &self->model->inputs[self->inputs[i]]);
    if (tensor == NULL || PyTuple_SetItem(tensors, i, tensor) < 0) Py_CLEAR(tensors);
  }
  return tensors;
}

static PyObject *describe_outputs(const model_object *self) {
  PyObject *tensors = PyTuple_New(self->n_outputs);
  for (int32_t i = 0; tensors && i < self->n_outputs; i++) {
    PyObject *tensor = describe_tensor(self->model, &self->model->outputs[self->outputs[i].number]);
    if (tensor == NULL || PyTuple_SetItem(tensors, i, tensor) < 0) Py_CLEAR(tensors);
  }
  return tensors;
}

static PyObject *describe_functions(const forge_model *model) {
  const int32_t count = forge_functions(model);
  PyObject *names = PyTuple_New(count ? count : 1);
  for (int32_t i = 0; names && i < (count ? count : 1); i++) {
    PyObject *name = PyUnicode_FromString(forge_function_name(count ? model->functions[i] : model));
    if (name == NULL || PyTuple_SetItem(names, i, name) < 0) Py_CLEAR(names);
  }
  return names;
}

static PyObject *describe_states(const forge_model *model) {
  const int32_t count = forge_states(model);
  PyObject *states = PyTuple_New(count);
  for (int32_t i = 0; states && i < count; i++) {
    PyObject *state = Py_BuildValue("(ss)", model->states[i].name, forge_dtype_name(model->states[i].dtype));
    if (state == NULL || PyTuple_SetItem(states, i, state) < 0) Py_CLEAR(states);
  }
  return states;
}

static PyObject *describe_symbols(const forge_model *model) {
  PyObject *names = PyTuple_New(model->n_symbols);
  for (int32_t i = 0; names && i < model->n_symbols; i++) {
    PyObject *name = PyUnicode_FromString(model->symbol_names[i]);
    if (name == NULL || PyTuple_SetItem(names, i, name) < 0) Py_CLEAR(names);
  }
  return names;
}

/* Sets an item of a dict to a new reference. */
static int put(PyObject *dict, const char *key, PyObject *value) {
  const int status = value ? PyDict_SetItemString(dict, key, value) : -1;
  Py_XDECREF(value);
  return status;
}

static PyObject *model_describe(PyObject *object, PyObject *unused) {
  (void)unused;
  const model_object *self = (const model_object *)object;
  const forge_model *model = self->model;
  PyObject *described =
      Py_BuildValue("{s:s,s:s,s:s,s:L}", "name", model->name, "function", forge_function_name(model), "cpu_features",
                    model->cpu_features ? model->cpu_features : "", "weights_size", (long long)model->weights_size);
  if (described && put(described, "inputs", describe_inputs(self)) == 0 && put(described, "outputs", describe_outputs(self)) == 0 &&
      put(described, "symbols", describe_symbols(model)) == 0 && put(described, "functions", describe_functions(model)) == 0 &&
      put(described, "states", describe_states(model)) == 0)
    return described;
  Py_XDECREF(described);
  return NULL;
}

/* A number of threads; -1, with an error set, for anything else. */
static int32_t number_of_threads(PyObject *number) {
  const long threads = PyIndex_Check(number) && !PyBool_Check(number) ? PyLong_AsLong(number) : -1;
  PyErr_Clear();
  if (threads >= 0 && threads <= FORGE_MAX_THREADS) return (int32_t)threads;
  PyErr_Format(PyExc_ValueError, "num_threads: got %R; expected a whole number from 0 to %d", number, FORGE_MAX_THREADS);
  return -1;
}

static PyObject *model_set_threads(PyObject *object, PyObject *number) {
  const int32_t threads = number_of_threads(number);
  if (threads < 0) return NULL;
  ((model_object *)object)->host = forge_host_with_threads(threads);
  Py_RETURN_NONE;
}

static model_object *new_model(const module_state *state, PyObject *keepalive) {
  model_object *self = (model_object *)native_new_object(state->model_type);
  if (self == NULL) return NULL;
  self->host = forge_host_with_threads(0);
  self->keepalive = keepalive;
  Py_XINCREF(keepalive);
  return self;
}

/* An object for calls of `self`, or of a function of the same library, with the same host and limits. */
static model_object *new_view(PyObject *object) {
  const model_object *self = (const model_object *)object;
  model_object *view = new_model(native_state(object), object);
  if (view == NULL) return NULL;
  view->model = self->model;
  view->host = self->host;
  view->limits = self->limits;
  view->detaches = self->detaches;
  view->returned = self->returned;
  Py_XINCREF(view->returned);
  view->exchange = self->exchange;
  return view;
}

/* A view of the same function. */
static model_object *new_twin(PyObject *object) {
  const model_object *self = (const model_object *)object;
  model_object *view = new_view(object);
  if (view == NULL) return NULL;
  view->borrows_plans = true;
  view->n_inputs = self->n_inputs;
  view->n_outputs = self->n_outputs;
  view->inputs = self->inputs;
  view->outputs = self->outputs;
  return view;
}

/* Python has checked the values. */
static PyObject *model_limited(PyObject *object, PyObject *arguments) {
  long long memory, nanoseconds;
  if (!PyArg_ParseTuple(arguments, "LL", &memory, &nanoseconds)) return NULL;
  model_object *view = new_twin(object);
  if (view) view->limits = (forge_limits){.memory = memory, .nanoseconds = nanoseconds};
  return (PyObject *)view;
}

/* Makes an empty tensor like an output, to see whether the class has its element type and is what the exchange makes. */
static int try_output(const module_state *state, const model_object *self, const forge_tensor_spec *spec) {
  forge_tensor tensor = {.dtype = spec->dtype, .ndim = 1};
  PyObject *made = spec->dtype < FORGE_STRING && dlpack_type(spec->dtype).bits >= 8 ? dlpack_give(self->exchange, &tensor) : NULL;
  PyErr_Clear();
  const bool fits = made && (PyObject *)Py_TYPE(made) == self->returned;
  if (made && !fits)
    PyErr_Format(state->errors[FORGE_ERROR_INPUT], "returning: got %R; expected %R, which its exchange table makes", self->returned,
                 (PyObject *)Py_TYPE(made));
  else if (!fits)
    PyErr_Format(state->errors[FORGE_ERROR_INPUT], "model '%s': output '%s': got %s; expected an element type that %R has",
                 self->model->name, spec->name, forge_dtype_name(spec->dtype), self->returned);
  Py_XDECREF(made);
  return fits ? 0 : -1;
}

static PyObject *finish_model(const module_state *state, model_object *self) {
  int status = self->outputs ? 0 : native_plan(state, self);
  for (int32_t i = 0; status == 0 && self->exchange && i < self->n_outputs; i++)
    status = try_output(state, self, &self->model->outputs[self->outputs[i].number]);
  if (status == 0) return (PyObject *)self;
  Py_DECREF(self);
  return NULL;
}

static PyObject *model_returning(PyObject *object, PyObject *arguments) {
  const module_state *state = native_state(object);
  PyObject *returned;
  int detaches;
  if (!PyArg_ParseTuple(arguments, "Op", &returned, &detaches)) return NULL;
  const bool is_array = returned == state->ndarray;
  const dlpack_exchange *exchange = PyType_Check(returned) && !is_array ? dlpack_table(&state->dlpack, returned) : NULL;
  if (exchange == NULL && !is_array)
    return PyErr_Format(state->errors[FORGE_ERROR_INPUT],
                        "returning: got %R; expected numpy.ndarray or a class with __dlpack_c_exchange_api__, such as torch.Tensor; "
                        "others take the memory of arrays by their from_dlpack",
                        returned);
  model_object *view = new_twin(object);
  if (view == NULL) return NULL;
  Py_XDECREF(view->returned);
  view->returned = exchange ? returned : NULL;
  Py_XINCREF(view->returned);
  view->exchange = exchange;
  view->detaches = detaches;
  return finish_model(state, view);
}

static PyObject *model_find(PyObject *object, PyObject *name) {
  const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
  const forge_model *found = text ? forge_model_find(((const model_object *)object)->model, text) : NULL;
  if (text == NULL) return NULL;
  if (found == NULL) Py_RETURN_NONE;
  model_object *view = new_view(object);
  if (view == NULL) return NULL;
  view->model = found;
  return finish_model(native_state(object), view);
}

static void model_dealloc(PyObject *object) {
  model_object *self = (model_object *)object;
  if (!self->borrows_plans) native_free_plans(self);
  forge_release(self->prepared);
  forge_unload(self->library);
  if (self->weights.obj) PyBuffer_Release(&self->weights);
  Py_XDECREF(self->returned);
  Py_XDECREF(self->keepalive);
  native_free_object(object);
}

static PyObject *model_run(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
  return native_call((const model_object *)object, NULL, arguments, count);
}

static PyMethodDef model_methods[] = {
    {"run", (PyCFunction)(void (*)(void))model_run, METH_FASTCALL, "run(inputs, outputs=None) -> tuple of arrays"},
    {"describe", model_describe, METH_NOARGS,
     "describe() -> dict of name, function, cpu_features, weights_size, inputs, outputs, symbols, functions, states"},
    {"find", model_find, METH_O, "find(name) -> Model of another function of the library, or None"},
    {"session", native_new_session, METH_O, "session(capacity) -> Session"},
    {"limited", model_limited, METH_VARARGS,
     "limited(memory, nanoseconds) -> Model: this one, whose calls may take no more; 0: any number"},
    {"returning", model_returning, METH_VARARGS,
     "returning(class, detach) -> Model: this one, whose fresh outputs are of the class; detach: inputs may require gradients"},
    {"set_threads", model_set_threads, METH_O,
     "set_threads(n): threads of this model's calls; 0 for the process's number"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot model_slots[] = {
    {Py_tp_dealloc, model_dealloc},
    {Py_tp_methods, model_methods},
    {0, NULL},
};

static PyType_Spec model_spec = {
    .name = "forge_runtime._native.Model",
    .basicsize = sizeof(model_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = model_slots,
};

/* Making models. */

/* Points the model at weights from a buffer: copied, or kept and used in place. */
static int attach_weights(const module_state *state, model_object *self, const forge_model *model, PyObject *weights,
                          int copy) {
  forge_error error;
  if (PyObject_GetBuffer(weights, &self->weights, PyBUF_SIMPLE) < 0) {
    self->weights.obj = NULL;
    return -1;
  }
  Py_BEGIN_ALLOW_THREADS self->prepared =
      forge_prepare_weights(model, self->weights.buf, self->weights.len, copy, &error);
  Py_END_ALLOW_THREADS if (self->prepared && self->prepared->weights == self->weights.buf) return 0;
  PyBuffer_Release(&self->weights);
  self->weights.obj = NULL;
  if (self->prepared) return 0;
  native_raise(state, &error);
  return -1;
}

static int prepare(const module_state *state, model_object *self, const forge_model *model, PyObject *weights,
                   int copy) {
  if (weights != Py_None) return attach_weights(state, self, model, weights, copy);
  forge_error error;
  Py_BEGIN_ALLOW_THREADS self->prepared = forge_prepare(model, &error);
  Py_END_ALLOW_THREADS if (self->prepared) return 0;
  native_raise(state, &error);
  return -1;
}

static PyObject *native_load(PyObject *module, PyObject *arguments) {
  const module_state *state = PyModule_GetState(module);
  PyObject *weights = Py_None;
  forge_error error;
  int fd, copy = 1;
  if (!PyArg_ParseTuple(arguments, "i|Op", &fd, &weights, &copy)) return NULL;
  model_object *self = new_model(state, NULL);
  if (self == NULL) return NULL;
  Py_BEGIN_ALLOW_THREADS self->library = forge_load_fd(fd, &error);
  Py_END_ALLOW_THREADS if (self->library == NULL) {
    Py_DECREF(self);
    return native_raise(state, &error);
  }
  self->model = forge_library_model(self->library);
  if (weights != Py_None) {
    if (attach_weights(state, self, self->model, weights, copy) < 0) {
      Py_DECREF(self);
      return NULL;
    }
    self->model = self->prepared;
  }
  return finish_model(state, self);
}

static PyObject *native_wrap(PyObject *module, PyObject *arguments) {
  const module_state *state = PyModule_GetState(module);
  PyObject *keepalive, *weights = Py_None;
  unsigned long long address;
  int copy = 1;
  if (!PyArg_ParseTuple(arguments, "KO|Op", &address, &keepalive, &weights, &copy)) return NULL;
  model_object *self = new_model(state, keepalive);
  if (self == NULL) return NULL;
  if (prepare(state, self, (const forge_model *)(uintptr_t)address, weights, copy) < 0) {
    Py_DECREF(self);
    return NULL;
  }
  self->model = self->prepared;
  return finish_model(state, self);
}

static PyObject *native_check_cpu(PyObject *module, PyObject *features) {
  forge_error error;
  const char *text = PyUnicode_AsUTF8AndSize(features, NULL);
  if (text == NULL) return NULL;
  if (forge_check_cpu(text, &error) != FORGE_OK) return native_raise(PyModule_GetState(module), &error);
  Py_RETURN_NONE;
}

static PyObject *native_set_num_threads(PyObject *module, PyObject *number) {
  (void)module;
  const int32_t threads = number_of_threads(number);
  if (threads < 0) return NULL;
  forge_set_num_threads(threads);
  Py_RETURN_NONE;
}

static PyObject *native_num_threads(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  return PyLong_FromLong(forge_num_threads());
}

static PyObject *native_routine_addresses(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  PyObject *addresses = PyDict_New();
  for (size_t i = 0; addresses && i < sizeof FORGE_ROUTINES / sizeof *FORGE_ROUTINES; i++) {
    PyObject *address = PyLong_FromUnsignedLongLong((unsigned long long)(uintptr_t)FORGE_ROUTINES[i].address);
    if (address == NULL || PyDict_SetItemString(addresses, FORGE_ROUTINES[i].name, address) < 0) Py_CLEAR(addresses);
    Py_XDECREF(address);
  }
  return addresses;
}

PyObject *native_new_memory(const module_state *state, size_t bytes) {
  const forge_host *host = forge_default_host();
  PyObject *memory = native_new_object(state->memory_type);
  if (memory == NULL) return NULL;
  forge_tensor *tensor = &((memory_object *)memory)->tensor;
  tensor->data = host->alloc(host, bytes, FORGE_ALIGNMENT);
  tensor->capacity = (int64_t)bytes;
  if (tensor->data) return memory;
  Py_DECREF(memory);
  return PyErr_NoMemory();
}

static PyObject *native_allocate(PyObject *module, PyObject *size) {
  const size_t bytes = PyLong_AsSize_t(size);
  return PyErr_Occurred() ? NULL : native_new_memory(PyModule_GetState(module), bytes);
}

static PyMethodDef native_methods[] = {
    {"load", native_load, METH_VARARGS, "load(fd, weights=None, copy=True) -> Model of the library in an open file"},
    {"wrap", native_wrap, METH_VARARGS,
     "wrap(address, keepalive, weights=None, copy=True) -> Model of a forge_model in memory"},
    {"check_cpu", native_check_cpu, METH_O, "check_cpu(features): CpuFeatureError if this CPU lacks one"},
    {"set_num_threads", native_set_num_threads, METH_O,
     "set_num_threads(n): threads of the process; 0 for the default"},
    {"num_threads", native_num_threads, METH_NOARGS, "num_threads() -> int"},
    {"routine_addresses", native_routine_addresses, METH_NOARGS,
     "routine_addresses() -> dict: the C routines that kernels of a model call"},
    {"borrow", dlpack_borrow, METH_O,
     "borrow(tensor) -> memory of an object with __dlpack__, element type, shape if it is packed"},
    {"lend", dlpack_lend, METH_VARARGS, "lend(memory, dtype, packed_shape, flags, versioned) -> capsule for __dlpack__"},
    {"allocate", native_allocate, METH_O, "allocate(size) -> memory that serves later calls when nobody holds it any more"},
    {"register_function", forge_register_python, METH_VARARGS, "register_function(name, entry): see registry.py"},
    {"unregister_function", forge_unregister_python, METH_O, "unregister_function(name)"},
    {"checksums", native_checksums, METH_O, "checksums(((address, size), ...)) -> Checksums of blocks of memory"},
    {NULL, NULL, 0, NULL},
};

static PyObject *get_attribute(const char *module_name, const char *name) {
  PyObject *module = PyImport_ImportModule(module_name);
  PyObject *value = module ? PyObject_GetAttrString(module, name) : NULL;
  Py_XDECREF(module);
  return value;
}

static int import_errors(module_state *state) {
  static const char *const names[N_STATUS] = {"ForgeRuntimeError", "InputError",       "OutOfMemoryError", "CpuFeatureError",
                                              "ArtifactError",     "ExecutionError",   "InternalError",    "ArtifactError",
                                              "MemoryLimitError",  "TimeLimitError",   "InternalError",    "FunctionError"};
  for (int32_t i = 0; i < N_STATUS; i++)
    if ((state->errors[i] = get_attribute("forge_runtime.errors", names[i])) == NULL) return -1;
  return 0;
}

static int native_exec(PyObject *module) {
  module_state *state = PyModule_GetState(module);
  if (import_errors(state) < 0) return -1;
  if ((state->ndarray = get_attribute("numpy", "ndarray")) == NULL) return -1;
  if ((state->empty = get_attribute("numpy", "empty")) == NULL) return -1;
  if ((state->extended = PyDict_New()) == NULL) return -1;
  if ((state->donated_class = get_attribute("forge_runtime.donation", "Donated")) == NULL) return -1;
  if ((state->tensor_class = get_attribute("forge_runtime.tensors", "Tensor")) == NULL) return -1;
  if (dlpack_init(module, &state->dlpack) < 0) return -1;
  if ((state->adapt = get_attribute("forge_runtime.sequences", "adapt_value")) == NULL) return -1;
  if ((state->from_memory = get_attribute("forge_runtime.sequences", "value_from_memory")) == NULL) return -1;
  if ((state->output_dtypes = get_attribute("forge_runtime.arrays", "output_dtypes")) == NULL) return -1;
  if ((state->check_output = get_attribute("forge_runtime.arrays", "check_output")) == NULL) return -1;
  if ((state->model_type = PyType_FromModuleAndSpec(module, &model_spec, NULL)) == NULL) return -1;
  if ((state->memory_type = PyType_FromModuleAndSpec(module, &memory_spec, NULL)) == NULL) return -1;
  if ((state->session_type = PyType_FromModuleAndSpec(module, &native_session_spec, NULL)) == NULL) return -1;
  if ((state->checksums_type = PyType_FromModuleAndSpec(module, &native_checksums_spec, NULL)) == NULL) return -1;
  if (PyModule_AddIntConstant(module, "ABI_VERSION", FORGE_ABI_VERSION) < 0) return -1;
  if (PyModule_AddObjectRef(module, "Session", state->session_type) < 0) return -1;
  return PyModule_AddObjectRef(module, "Model", state->model_type);
}

static void native_free(void *module) {
  module_state *state = PyModule_GetState(module);
  if (state == NULL) return;
  PyObject **objects = (PyObject **)state;
  for (size_t i = 0; i < sizeof *state / sizeof *objects; i++)
    Py_CLEAR(objects[i]);
}

static PyModuleDef_Slot native_slots[] = {{Py_mod_exec, native_exec}, {0, NULL}};

static PyModuleDef native_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "forge_runtime._native",
    .m_doc = "Loaded models and the thread pool of this process.",
    .m_size = sizeof(module_state),
    .m_methods = native_methods,
    .m_slots = native_slots,
    .m_free = native_free,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&native_module); }
