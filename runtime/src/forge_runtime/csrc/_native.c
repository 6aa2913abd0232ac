/* The CPython binding, limited API: loaded models as objects, NumPy arrays in and out without copies. */
#include "_dlpack.h"
#include "_functions.h"
#include "_routines.h"
#include <stddef.h>
#include <string.h>

/* Outputs of at least KEPT_OUTPUT bytes come from the built-in host, which keeps their memory for later calls: malloc gives blocks of
 * this size back to the system, and every call would pay for fresh pages. */
enum { STACK_TENSORS = 12, KEPT_OUTPUT = 128 << 10, N_STATUS = FORGE_ERROR_FUNCTION + 1 };

/* Python objects that every call needs, found once. */
typedef struct {
  dlpack_state dlpack;        /* first: the functions of _dlpack.c take it for the state of the module */
  PyObject *errors[N_STATUS]; /* exception class of a forge_status */
  PyObject *ndarray, *tensor_class, *empty;
  PyObject *adapt, *copy_contiguous, *from_memory, *output_dtypes, *check_output;
  PyObject *model_type, *memory_type;
} module_state;

/* How a fresh output is made: numpy.empty(*arguments), then .view(view_dtype) for types that have no buffer protocol. */
typedef struct {
  PyObject *storage_dtype, *view_dtype;
  PyObject *arguments; /* NULL: the shape is dynamic */
} output_plan;

typedef struct {
  PyObject_HEAD forge_library *library;
  forge_model *prepared;
  const forge_model *model;
  forge_host host;
  forge_limits limits; /* memory and time; the rest belongs to a call */
  Py_buffer weights;   /* kept while the model uses it in place */
  PyObject *keepalive;
  output_plan *outputs;
  bool is_view; /* all but host and limits belong to the model that is kept alive */
} model_object;

typedef struct {
  PyObject_HEAD forge_tensor tensor;
} memory_object;

static PyObject *raise_error(const module_state *state, const forge_error *error) {
  const int32_t status = error->status > 0 && error->status < N_STATUS ? error->status : FORGE_ERROR_INTERNAL;
  PyObject *message = PyUnicode_DecodeUTF8(error->message, (Py_ssize_t)strlen(error->message), "replace");
  if (message) PyErr_SetObject(state->errors[status], message);
  Py_XDECREF(message);
  return NULL;
}

/* Of a call of a model: what a signal handler or a registered function has raised, else the error. */
static PyObject *raise_failure(const module_state *state, const forge_error *error) {
  if (!PyErr_Occurred()) return raise_error(state, error);
  if (error->status == FORGE_ERROR_FUNCTION) forge_add_note(error->message);
  return NULL;
}

static module_state *state_of(PyObject *object) { return PyType_GetModuleState(Py_TYPE(object)); }

/* Memory that a model allocated for an output of data-dependent size. */

static int memory_getbuffer(PyObject *self, Py_buffer *view, int flags) {
  forge_tensor *tensor = &((memory_object *)self)->tensor;
  return PyBuffer_FillInfo(view, self, tensor->data, (Py_ssize_t)tensor->capacity, 0, flags);
}

static void free_object(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc release = PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

static void memory_dealloc(PyObject *self) {
  forge_free_output(NULL, &((memory_object *)self)->tensor);
  free_object(self);
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

static PyObject *new_object(PyObject *type) {
  allocfunc allocate = PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
  return allocate((PyTypeObject *)type, 0);
}

/* Inputs and outputs of a call. */

typedef struct {
  PyObject *object; /* what the buffer belongs to */
  Py_buffer view;   /* view.obj NULL: nothing is held */
} held_tensor;

static void drop(held_tensor *held) {
  if (held->view.obj) PyBuffer_Release(&held->view);
  Py_XDECREF(held->object);
}

static int32_t signed_dtype(Py_ssize_t size) {
  return size == 1 ? FORGE_INT8 : size == 2 ? FORGE_INT16 : size == 4 ? FORGE_INT32 : size == 8 ? FORGE_INT64 : -1;
}

/* The forge_dtype of a buffer's format; -1 for formats that are not an element type in this machine's byte order. */
static int32_t buffer_dtype(const Py_buffer *view) {
  const char *format = view->format ? view->format : "B";
  if (*format == '@' || *format == '=' || *format == '<') format++;
  if (format[0] == 'Z' && format[1] && !format[2])
    return format[1] == 'f' ? FORGE_COMPLEX64 : format[1] == 'd' ? FORGE_COMPLEX128 : -1;
  if (format[0] == '\0' || format[1] != '\0') return -1;
  const int32_t integer = signed_dtype(view->itemsize);
  switch (*format) {
  case '?': return FORGE_BOOL;
  case 'e': return FORGE_FLOAT16;
  case 'f': return FORGE_FLOAT32;
  case 'd': return FORGE_FLOAT64;
  case 'b':
  case 'h':
  case 'i':
  case 'l':
  case 'q': return integer;
  case 'B':
  case 'H':
  case 'I':
  case 'L':
  case 'Q': return integer < 0 ? -1 : integer - FORGE_INT8 + FORGE_UINT8;
  default: return -1;
  }
}

/* The type whose buffer holds elements of `dtype`: types that only ml_dtypes knows travel as unsigned integers. */
static int32_t storage_dtype(int32_t dtype) {
  if (dtype == FORGE_BFLOAT16) return FORGE_UINT16;
  return dtype >= FORGE_FLOAT8_E4M3FN ? FORGE_UINT8 : dtype;
}

static int get_buffer(held_tensor *held, int flags) {
  if (PyObject_GetBuffer(held->object, &held->view, flags | PyBUF_FORMAT | PyBUF_STRIDES) == 0) return 0;
  held->view.obj = NULL;
  return -1;
}

static int replace_object(held_tensor *held, PyObject *object) {
  if (object == NULL) return -1;
  if (held->view.obj) PyBuffer_Release(&held->view);
  held->view.obj = NULL;
  Py_XDECREF(held->object);
  held->object = object;
  return get_buffer(held, 0);
}

static void fill_tensor(forge_tensor *tensor, const Py_buffer *view, int32_t dtype) {
  tensor->data = view->buf;
  tensor->dtype = dtype;
  tensor->ndim = view->ndim;
  tensor->capacity = view->len;
  for (int32_t d = 0; d < view->ndim && d < FORGE_MAX_RANK; d++)
    tensor->shape[d] = view->shape[d];
}

static bool is_plain(const Py_buffer *view) {
  const uintptr_t alignment = view->itemsize > 8 ? 8 : (uintptr_t)view->itemsize;
  return PyBuffer_IsContiguous(view, 'C') && (uintptr_t)view->buf % alignment == 0;
}

/* Asks Python for an array with the same elements whose buffer can be read, or an InputError that names what is wrong. */
static int adapt_input(const module_state *state, const forge_model *model, const forge_tensor_spec *spec,
                       held_tensor *held) {
  PyErr_Clear();
  PyObject *array =
      PyObject_CallFunction(state->adapt, "Osss", held->object, model->name, spec->name, forge_dtype_name(spec->dtype));
  return replace_object(held, array);
}

/* Holds the tensor of another library, or a copy in order. 0: Python has to look at the object; -1: an exception. */
static int hold_tensor(const module_state *state, const forge_tensor_spec *spec, held_tensor *held, forge_tensor *tensor) {
  PyObject *owner = dlpack_input(&state->dlpack, held->object, spec->dtype, tensor);
  if (owner == NULL) return PyErr_Occurred() ? -1 : 0;
  if (tensor->data) {
    Py_DECREF(held->object);
    held->object = owner;
    return 1;
  }
  PyObject *copy = PyObject_CallFunctionObjArgs(state->copy_contiguous, owner, NULL);
  Py_DECREF(owner);
  if (replace_object(held, copy) < 0) return -1;
  fill_tensor(tensor, &held->view, spec->dtype);
  return 1;
}

static int hold_input(const module_state *state, const forge_model *model, int32_t index, held_tensor *held,
                      forge_tensor *tensor) {
  const forge_tensor_spec *spec = &model->inputs[index];
  const int32_t storage = storage_dtype(spec->dtype);
  const bool is_array = PyObject_TypeCheck(held->object, (PyTypeObject *)state->ndarray);
  const int taken = is_array ? 0 : hold_tensor(state, spec, held, tensor);
  if (taken) return taken < 0 ? -1 : 0;
  const bool direct =
      is_array && storage == spec->dtype && get_buffer(held, 0) == 0 && buffer_dtype(&held->view) == storage;
  if (!direct && adapt_input(state, model, spec, held) < 0) return -1;
  if (!is_plain(&held->view) &&
      replace_object(held, PyObject_CallFunctionObjArgs(state->copy_contiguous, held->object, NULL)) < 0)
    return -1;
  fill_tensor(tensor, &held->view, spec->dtype);
  return 0;
}

static PyObject *shape_tuple(const forge_tensor *tensor) {
  PyObject *shape = PyTuple_New(tensor->ndim);
  for (int32_t d = 0; shape && d < tensor->ndim; d++) {
    PyObject *size = PyLong_FromLongLong(tensor->shape[d]);
    if (size == NULL || PyTuple_SetItem(shape, d, size) < 0) Py_CLEAR(shape);
  }
  return shape;
}

static PyObject *new_array(const module_state *state, const output_plan *plan, const forge_tensor *tensor) {
  if (plan->arguments) return PyObject_Call(state->empty, plan->arguments, NULL);
  PyObject *shape = shape_tuple(tensor);
  PyObject *array = shape ? PyObject_CallFunctionObjArgs(state->empty, shape, plan->storage_dtype, NULL) : NULL;
  Py_XDECREF(shape);
  return array;
}

static bool has_unknown_size(const forge_tensor *tensor) {
  for (int32_t d = 0; d < tensor->ndim; d++)
    if (tensor->shape[d] < 0) return true;
  return tensor->ndim < 0;
}

/* Checks an array the caller gave; Python returns it, or a view of it that has a buffer. */
static PyObject *check_given(const module_state *state, const forge_model *model, int32_t index, PyObject *given,
                             const forge_tensor *tensor) {
  const forge_tensor_spec *spec = &model->outputs[index];
  PyObject *shape = shape_tuple(tensor);
  if (shape == NULL) return NULL;
  PyObject *array = PyObject_CallFunction(state->check_output, "OsssO", given, model->name, spec->name,
                                          forge_dtype_name(spec->dtype), shape);
  Py_DECREF(shape);
  return array;
}

static bool buffer_fits(const Py_buffer *view, const forge_tensor *tensor) {
  if (view->ndim != tensor->ndim || buffer_dtype(view) != tensor->dtype || !is_plain(view)) return false;
  for (int32_t d = 0; d < tensor->ndim; d++)
    if (view->shape[d] != tensor->shape[d]) return false;
  return true;
}

/* Holds what the caller gave, or finds out in Python what is wrong with it. */
static int hold_given(const module_state *state, const forge_model *model, int32_t index, PyObject *given,
                      held_tensor *held, forge_tensor *tensor) {
  if (!PyObject_TypeCheck(given, (PyTypeObject *)state->ndarray)) {
    held->object = dlpack_output(&state->dlpack, given, tensor);
    if (held->object) return 0;
  } else if (storage_dtype(tensor->dtype) == tensor->dtype) {
    held->object = given;
    Py_INCREF(given);
    if (get_buffer(held, PyBUF_WRITABLE) == 0 && buffer_fits(&held->view, tensor)) return 0;
    drop(held);
    held->object = held->view.obj = NULL;
    PyErr_Clear();
  }
  if (PyErr_Occurred()) return -1;
  held->object = check_given(state, model, index, given, tensor);
  return held->object ? get_buffer(held, PyBUF_WRITABLE) : -1;
}

static int hold_output(const module_state *state, const model_object *self, int32_t index, PyObject *given,
                       held_tensor *held, forge_tensor *tensor) {
  const bool large = has_unknown_size(tensor) || forge_byte_count(tensor) >= KEPT_OUTPUT;
  if (given == NULL && (large || tensor->dtype >= FORGE_STRING || self->limits.memory)) return 0;
  if (given) {
    if (hold_given(state, self->model, index, given, held, tensor) < 0) return -1;
    if (held->view.obj == NULL) return 0;
  } else {
    held->object = new_array(state, &self->outputs[index], tensor);
    if (held->object == NULL || get_buffer(held, PyBUF_WRITABLE) < 0) return -1;
  }
  tensor->data = held->view.buf;
  tensor->capacity = held->view.len;
  return 0;
}

/* Takes over memory that the model allocated. */
static PyObject *wrap_memory(const module_state *state, const model_object *self, int32_t index, forge_tensor *tensor) {
  PyObject *memory = new_object(state->memory_type);
  if (memory == NULL) return NULL;
  ((memory_object *)memory)->tensor = *tensor;
  tensor->data = NULL;
  PyObject *shape = shape_tuple(tensor);
  PyObject *array = NULL;
  if (shape)
    array = PyObject_CallFunction(state->from_memory, "OsO", memory,
                                  forge_dtype_name(self->model->outputs[index].dtype), shape);
  Py_XDECREF(shape);
  Py_DECREF(memory);
  return array;
}

static PyObject *result_of(const module_state *state, const model_object *self, int32_t index, PyObject *given,
                           held_tensor *held, forge_tensor *tensor) {
  if (held->object == NULL) return wrap_memory(state, self, index, tensor);
  if (held->view.obj) PyBuffer_Release(&held->view);
  held->view.obj = NULL;
  PyObject *view_dtype = self->outputs[index].view_dtype;
  if (given == NULL && view_dtype) return PyObject_CallMethod(held->object, "view", "OO", view_dtype, state->tensor_class);
  PyObject *result = given ? given : held->object;
  Py_INCREF(result);
  return result;
}

/* One call: n_inputs + n_outputs of each. */
typedef struct {
  forge_tensor *tensors;
  held_tensor *held;
} call_frame;

static PyObject *given_output(PyObject *outputs, int32_t index) {
  PyObject *given = outputs ? PyTuple_GetItem(outputs, index) : NULL;
  return given == Py_None ? NULL : given;
}

static int hold_all(const module_state *state, const model_object *self, PyObject *inputs, PyObject *outputs,
                    const call_frame *frame) {
  const forge_model *model = self->model;
  forge_error error;
  for (int32_t i = 0; i < model->n_inputs; i++) {
    frame->held[i].object = PyTuple_GetItem(inputs, i);
    Py_INCREF(frame->held[i].object);
    if (hold_input(state, model, i, &frame->held[i], &frame->tensors[i]) < 0) return -1;
  }
  forge_tensor *out = frame->tensors + model->n_inputs;
  if (forge_output_shapes(model, frame->tensors, out, &error) != FORGE_OK) {
    raise_error(state, &error);
    return -1;
  }
  for (int32_t i = 0; i < model->n_outputs; i++)
    if (hold_output(state, self, i, given_output(outputs, i), &frame->held[model->n_inputs + i], &out[i]) < 0)
      return -1;
  return 0;
}

static PyObject *collect(const module_state *state, const model_object *self, PyObject *outputs,
                         const call_frame *frame) {
  const forge_model *model = self->model;
  PyObject *results = PyTuple_New(model->n_outputs);
  for (int32_t i = 0; i < model->n_outputs; i++) {
    const int32_t at = model->n_inputs + i;
    PyObject *result =
        results ? result_of(state, self, i, given_output(outputs, i), &frame->held[at], &frame->tensors[at]) : NULL;
    if (result == NULL || PyTuple_SetItem(results, i, result) < 0) Py_CLEAR(results);
    if (results == NULL && frame->held[at].object == NULL) forge_free_output(&self->host, &frame->tensors[at]);
  }
  return results;
}

/* Lets Python's signal handlers run. What they raise, such as KeyboardInterrupt, stays set and ends the call. */
static int32_t check_signals(void *state) {
  PyThreadState **thread = state;
  PyEval_RestoreThread(*thread);
  const int32_t raised = PyErr_CheckSignals() < 0;
  *thread = PyEval_SaveThread();
  return raised;
}

static PyObject *run_frame(const model_object *self, PyObject *inputs, PyObject *outputs, const call_frame *frame) {
  const module_state *state = state_of((PyObject *)self);
  if (hold_all(state, self, inputs, outputs, frame) < 0) return NULL;
  forge_error error;
  forge_limits limits = self->limits;
  PyThreadState *thread = PyEval_SaveThread();
  limits.interrupted = check_signals;
  limits.state = &thread;
  const int32_t status = forge_run_limited(self->model, frame->tensors, frame->tensors + self->model->n_inputs, &self->host,
                                           &limits, &error);
  PyEval_RestoreThread(thread);
  if (status != FORGE_OK) {
    error.status = status;
    return raise_failure(state, &error);
  }
  return collect(state, self, outputs, frame);
}

static int check_count(const model_object *self, PyObject *tensors, const char *what, int32_t expected) {
  const Py_ssize_t got = PyTuple_Check(tensors) ? PyTuple_Size(tensors) : -1;
  if (got == expected) return 0;
  PyErr_Format(state_of((PyObject *)self)->errors[FORGE_ERROR_INPUT],
               "model '%s': wrong number of %s; got %zd; expected %d", self->model->name, what, got, expected);
  return -1;
}

static PyObject *model_run(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
  const model_object *self = (const model_object *)object;
  if (count < 1 || count > 2)
    return PyErr_Format(PyExc_TypeError, "run takes a tuple of inputs and, optionally, one of outputs");
  PyObject *outputs = count == 2 && arguments[1] != Py_None ? arguments[1] : NULL;
  if (check_count(self, arguments[0], "inputs", self->model->n_inputs) < 0) return NULL;
  if (outputs && check_count(self, outputs, "outputs", self->model->n_outputs) < 0) return NULL;
  const size_t n = (size_t)self->model->n_inputs + (size_t)self->model->n_outputs;
  forge_tensor stack_tensors[STACK_TENSORS];
  held_tensor stack_held[STACK_TENSORS];
  const bool small = n <= STACK_TENSORS;
  const call_frame frame = {small ? stack_tensors : PyMem_Malloc(n * sizeof(forge_tensor)),
                            small ? stack_held : PyMem_Malloc(n * sizeof(held_tensor))};
  PyObject *results = NULL;
  if (frame.tensors && frame.held) {
    for (size_t i = 0; i < n; i++) {
      frame.tensors[i].data = NULL;
      frame.held[i].object = frame.held[i].view.obj = NULL;
    }
    results = run_frame(self, arguments[0], outputs, &frame);
    for (size_t i = 0; i < n; i++)
      drop(&frame.held[i]);
  } else {
    PyErr_NoMemory();
  }
  if (!small) {
    PyMem_Free(frame.tensors);
    PyMem_Free(frame.held);
  }
  return results;
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

static PyObject *describe_tensors(const forge_model *model, const forge_tensor_spec *specs, int32_t count) {
  PyObject *tensors = PyTuple_New(count);
  for (int32_t i = 0; tensors && i < count; i++) {
    PyObject *tensor = describe_tensor(model, &specs[i]);
    if (tensor == NULL || PyTuple_SetItem(tensors, i, tensor) < 0) Py_CLEAR(tensors);
  }
  return tensors;
}

static PyObject *describe_symbols(const forge_model *model) {
  PyObject *names = PyTuple_New(model->n_symbols);
  for (int32_t i = 0; names && i < model->n_symbols; i++) {
    PyObject *name = PyUnicode_FromString(model->symbol_names[i]);
    if (name == NULL || PyTuple_SetItem(names, i, name) < 0) Py_CLEAR(names);
  }
  return names;
}

static PyObject *model_describe(PyObject *object, PyObject *unused) {
  (void)unused;
  const forge_model *model = ((const model_object *)object)->model;
  PyObject *inputs = describe_tensors(model, model->inputs, model->n_inputs);
  PyObject *outputs = inputs ? describe_tensors(model, model->outputs, model->n_outputs) : NULL;
  PyObject *symbols = outputs ? describe_symbols(model) : NULL;
  if (symbols == NULL) {
    Py_XDECREF(inputs);
    Py_XDECREF(outputs);
    return NULL;
  }
  return Py_BuildValue("{s:s,s:s,s:L,s:N,s:N,s:N}", "name", model->name, "cpu_features",
                       model->cpu_features ? model->cpu_features : "", "weights_size", (long long)model->weights_size,
                       "inputs", inputs, "outputs", outputs, "symbols", symbols);
}

static PyObject *model_set_threads(PyObject *object, PyObject *number) {
  const long threads = PyLong_AsLong(number);
  if (threads == -1 && PyErr_Occurred()) return NULL;
  if (threads < 0 || threads > INT32_MAX)
    return PyErr_Format(PyExc_ValueError, "num_threads: got %ld; expected 0 or more", threads);
  ((model_object *)object)->host = forge_host_with_threads((int32_t)threads);
  Py_RETURN_NONE;
}

static model_object *new_model(const module_state *state, PyObject *keepalive) {
  model_object *self = (model_object *)new_object(state->model_type);
  if (self == NULL) return NULL;
  self->host = forge_host_with_threads(0);
  self->keepalive = keepalive;
  Py_XINCREF(keepalive);
  return self;
}

/* Python has checked the values. */
static PyObject *model_limited(PyObject *object, PyObject *arguments) {
  const model_object *self = (const model_object *)object;
  long long memory, nanoseconds;
  if (!PyArg_ParseTuple(arguments, "LL", &memory, &nanoseconds)) return NULL;
  model_object *view = new_model(state_of(object), object);
  if (view == NULL) return NULL;
  view->is_view = true;
  view->model = self->model;
  view->outputs = self->outputs;
  view->host = self->host;
  view->limits = (forge_limits){.memory = memory, .nanoseconds = nanoseconds};
  return (PyObject *)view;
}

static void free_plans(model_object *self) {
  for (int32_t i = 0; self->outputs && i < self->model->n_outputs; i++) {
    Py_XDECREF(self->outputs[i].storage_dtype);
    Py_XDECREF(self->outputs[i].view_dtype);
    Py_XDECREF(self->outputs[i].arguments);
  }
  PyMem_Free(self->outputs);
}

static void model_dealloc(PyObject *object) {
  model_object *self = (model_object *)object;
  if (!self->is_view) free_plans(self);
  forge_release(self->prepared);
  forge_unload(self->library);
  if (self->weights.obj) PyBuffer_Release(&self->weights);
  Py_XDECREF(self->keepalive);
  free_object(object);
}

static PyMethodDef model_methods[] = {
    {"run", (PyCFunction)(void (*)(void))model_run, METH_FASTCALL, "run(inputs, outputs=None) -> tuple of arrays"},
    {"describe", model_describe, METH_NOARGS,
     "describe() -> dict of name, cpu_features, weights_size, inputs, outputs, symbols"},
    {"limited", model_limited, METH_VARARGS,
     "limited(memory, nanoseconds) -> Model: this one, whose calls may take no more; 0: any number"},
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

static bool is_static(const forge_tensor_spec *spec) {
  for (int32_t d = 0; d < spec->ndim; d++)
    if (spec->dims[d].size < 0) return false;
  return spec->ndim >= 0;
}

static int plan_output(const module_state *state, const forge_tensor_spec *spec, output_plan *plan) {
  PyObject *dtypes = PyObject_CallFunction(state->output_dtypes, "s", forge_dtype_name(spec->dtype));
  if (dtypes == NULL) return -1;
  const int parsed = PyArg_ParseTuple(dtypes, "OO", &plan->storage_dtype, &plan->view_dtype);
  if (parsed) {
    Py_INCREF(plan->storage_dtype);
    if (plan->view_dtype == Py_None) plan->view_dtype = NULL;
    Py_XINCREF(plan->view_dtype);
  }
  Py_DECREF(dtypes);
  if (!parsed) return -1;
  if (!is_static(spec)) return 0;
  forge_tensor tensor = {.ndim = spec->ndim};
  for (int32_t d = 0; d < spec->ndim; d++)
    tensor.shape[d] = spec->dims[d].size;
  PyObject *shape = shape_tuple(&tensor);
  plan->arguments = shape ? Py_BuildValue("(NO)", shape, plan->storage_dtype) : NULL;
  return plan->arguments ? 0 : -1;
}

static int plan_outputs(const module_state *state, model_object *self) {
  const size_t count = (size_t)self->model->n_outputs;
  self->outputs = PyMem_Calloc(count ? count : 1, sizeof(output_plan));
  if (self->outputs == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (size_t i = 0; i < count; i++)
    if (plan_output(state, &self->model->outputs[i], &self->outputs[i]) < 0) return -1;
  return 0;
}

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
  raise_error(state, &error);
  return -1;
}

static int prepare(const module_state *state, model_object *self, const forge_model *model, PyObject *weights,
                   int copy) {
  if (weights != Py_None) return attach_weights(state, self, model, weights, copy);
  forge_error error;
  Py_BEGIN_ALLOW_THREADS self->prepared = forge_prepare(model, &error);
  Py_END_ALLOW_THREADS if (self->prepared) return 0;
  raise_error(state, &error);
  return -1;
}

static PyObject *finish_model(const module_state *state, model_object *self) {
  if (plan_outputs(state, self) == 0) return (PyObject *)self;
  Py_DECREF(self);
  return NULL;
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
    return raise_error(state, &error);
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
  if (forge_check_cpu(text, &error) != FORGE_OK) return raise_error(PyModule_GetState(module), &error);
  Py_RETURN_NONE;
}

static PyObject *native_set_num_threads(PyObject *module, PyObject *number) {
  (void)module;
  const long threads = PyLong_AsLong(number);
  if (threads == -1 && PyErr_Occurred()) return NULL;
  if (threads < 0 || threads > INT32_MAX)
    return PyErr_Format(PyExc_ValueError, "num_threads: got %ld; expected 0 or more", threads);
  forge_set_num_threads((int32_t)threads);
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
    {"register_function", forge_register_python, METH_VARARGS, "register_function(name, entry): see registry.py"},
    {"unregister_function", forge_unregister_python, METH_O, "unregister_function(name)"},
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
  if ((state->tensor_class = get_attribute("forge_runtime.tensors", "Tensor")) == NULL) return -1;
  if (dlpack_init(module, &state->dlpack) < 0) return -1;
  if ((state->adapt = get_attribute("forge_runtime.sequences", "adapt_value")) == NULL) return -1;
  if ((state->copy_contiguous = get_attribute("forge_runtime.arrays", "copy_contiguous")) == NULL) return -1;
  if ((state->from_memory = get_attribute("forge_runtime.sequences", "value_from_memory")) == NULL) return -1;
  if ((state->output_dtypes = get_attribute("forge_runtime.arrays", "output_dtypes")) == NULL) return -1;
  if ((state->check_output = get_attribute("forge_runtime.arrays", "check_output")) == NULL) return -1;
  if ((state->model_type = PyType_FromModuleAndSpec(module, &model_spec, NULL)) == NULL) return -1;
  if ((state->memory_type = PyType_FromModuleAndSpec(module, &memory_spec, NULL)) == NULL) return -1;
  if (PyModule_AddIntConstant(module, "ABI_VERSION", FORGE_ABI_VERSION) < 0) return -1;
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
