/* Calls from Python: NumPy arrays and tensors of other libraries in and out without copies. */
#include "_functions.h"
#include "_native.h"
#include <string.h>

/* Outputs of at least KEPT_OUTPUT bytes come from the built-in host, which keeps their memory for later calls: malloc gives blocks of
 * this size back to the system, and every call would pay for fresh pages. */
enum { STACK_TENSORS = 24, KEPT_OUTPUT = 128 << 10 };

typedef struct {
  PyObject *object;  /* what the buffer belongs to */
  PyObject *donated; /* the array whose memory an output may take, or NULL */
  Py_buffer view;    /* view.obj NULL: nothing is held */
} held_tensor;

static void drop_view(held_tensor *held) {
  if (held->view.obj) PyBuffer_Release(&held->view);
  held->view.obj = NULL;
}

static void drop(held_tensor *held) {
  drop_view(held);
  Py_XDECREF(held->object);
  Py_XDECREF(held->donated);
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
  drop_view(held);
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

/* Holds a copy in C order of what the view holds. */
static int hold_copy(const module_state *state, int32_t dtype, held_tensor *held, forge_tensor *tensor) {
  fill_tensor(tensor, &held->view, dtype);
  if (held->view.ndim > FORGE_MAX_RANK) return 0; /* the call refuses it */
  PyObject *copy = native_copy_in_order(state, &held->view);
  if (copy == NULL) return -1;
  tensor->data = ((memory_object *)copy)->tensor.data;
  drop_view(held);
  Py_DECREF(held->object);
  held->object = copy;
  return 0;
}

/* Asks Python for an array with the same elements whose buffer can be read, or an InputError that names what is wrong. */
static int adapt_input(const module_state *state, const model_object *self, const forge_tensor_spec *spec, held_tensor *held) {
  PyErr_Clear();
  PyObject *array = PyObject_CallFunction(state->adapt, "OsssO", held->object, self->model->name, spec->name,
                                          forge_dtype_name(spec->dtype), self->detaches ? Py_True : Py_False);
  return replace_object(held, array);
}

/* Holds the array of a Donated; it is spent when the call begins. */
static int hold_donated(const model_object *self, int32_t position, held_tensor *held) {
  const forge_tensor_spec *spec = &self->model->inputs[self->inputs[position]];
  bool taken = false;
  for (int32_t i = 0; i < self->n_outputs; i++)
    taken |= self->outputs[i].donor == position;
  if (!taken) {
    PyErr_Format(native_state((PyObject *)self)->errors[FORGE_ERROR_INPUT],
                 "model '%s': input '%s': got a donated array; expected one that is not: no output takes the memory of this input",
                 self->model->name, spec->name);
    return -1;
  }
  held->donated = PyObject_CallMethod(held->object, "array", "ss", self->model->name, spec->name);
  if (held->donated == NULL) return -1;
  Py_DECREF(held->object);
  held->object = held->donated;
  Py_INCREF(held->object);
  return 0;
}

/* Holds the tensor of another library, or a copy in order. 0: Python has to look at the object; -1: an exception. */
static int hold_tensor(const module_state *state, const forge_tensor_spec *spec, bool detaches, held_tensor *held,
                       forge_tensor *tensor) {
  PyObject *owner = dlpack_input(&state->dlpack, held->object, spec->dtype, detaches, tensor);
  if (owner == NULL) return PyErr_Occurred() ? -1 : 0;
  if (tensor->data) {
    Py_DECREF(held->object);
    held->object = owner;
    return 1;
  }
  return replace_object(held, owner) < 0 || hold_copy(state, spec->dtype, held, tensor) < 0 ? -1 : 1;
}

/* Tensors of jax and tensorflow have buffers, which cost less than capsules; of other objects none is asked for. */
static bool has_tensor_buffer(const module_state *state, PyObject *object) {
  return PyObject_CheckBuffer(object) && PyObject_HasAttr(object, state->dlpack.dlpack);
}

/* What output_dtypes says of an element type that only ml_dtypes knows; borrowed, NULL with an exception. */
static PyObject *extended_dtypes(const module_state *state, int32_t dtype) {
  PyObject *key = PyLong_FromLong(dtype);
  PyObject *pair = key ? PyDict_GetItemWithError(state->extended, key) : NULL;
  if (key && pair == NULL && !PyErr_Occurred()) {
    PyObject *found = PyObject_CallFunction(state->output_dtypes, "s", forge_dtype_name(dtype));
    if (found && PyDict_SetItem(state->extended, key, found) == 0) pair = found;
    Py_XDECREF(found);
  }
  Py_XDECREF(key);
  return pair;
}

/* Holds the memory of an array of such a type as one of unsigned integers, which has a buffer. */
static bool hold_extended(const module_state *state, int32_t dtype, held_tensor *held) {
  PyObject *own = PyObject_GetAttrString(held->object, "dtype");
  PyObject *pair = own ? extended_dtypes(state, dtype) : NULL;
  PyObject *view = pair && own == PyTuple_GetItem(pair, 1)
                       ? PyObject_CallMethod(held->object, "view", "O", PyTuple_GetItem(pair, 0)) : NULL;
  Py_XDECREF(own);
  return view && replace_object(held, view) == 0;
}

static int hold_input(const module_state *state, const model_object *self, int32_t position, held_tensor *held,
                      forge_tensor *tensor) {
  const forge_tensor_spec *spec = &self->model->inputs[self->inputs[position]];
  const int32_t storage = storage_dtype(spec->dtype);
  bool is_array = PyObject_TypeCheck(held->object, (PyTypeObject *)state->ndarray);
  if (!is_array && Py_TYPE(held->object) == (PyTypeObject *)state->donated_class) {
    if (hold_donated(self, position, held) < 0) return -1;
    is_array = PyObject_TypeCheck(held->object, (PyTypeObject *)state->ndarray);
  }
  bool direct = false;
  if (storage == spec->dtype)
    direct = (is_array || has_tensor_buffer(state, held->object)) && get_buffer(held, 0) == 0 &&
             buffer_dtype(&held->view) == storage;
  else if (is_array && spec->dtype < FORGE_STRING)
    direct = hold_extended(state, spec->dtype, held);
  if (!direct && !is_array) {
    drop_view(held);
    PyErr_Clear();
    const int taken = hold_tensor(state, spec, self->detaches && held->donated == NULL, held, tensor);
    if (taken) return taken < 0 ? -1 : 0;
  }
  if (!direct && adapt_input(state, self, spec, held) < 0) return -1;
  if (!is_plain(&held->view)) return hold_copy(state, spec->dtype, held, tensor);
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

static int hold_output(const module_state *state, const model_object *self, int32_t position, PyObject *given,
                       held_tensor *held, forge_tensor *tensor) {
  const output_plan *plan = &self->outputs[position];
  const bool large = has_unknown_size(tensor) || forge_byte_count(tensor) >= KEPT_OUTPUT;
  if (given == NULL && (large || tensor->dtype >= FORGE_STRING || self->limits.memory || self->exchange)) return 0;
  if (given) {
    if (hold_given(state, self->model, plan->number, given, held, tensor) < 0) return -1;
    if (held->view.obj == NULL) return 0;
  } else {
    held->object = new_array(state, plan, tensor);
    if (held->object == NULL || get_buffer(held, PyBUF_WRITABLE) < 0) return -1;
  }
  tensor->data = held->view.buf;
  tensor->capacity = held->view.len;
  return 0;
}

PyObject *native_wrap_memory(const module_state *state, forge_tensor *tensor) {
  PyObject *memory = native_new_object(state->memory_type);
  if (memory == NULL) {
    forge_free_output(NULL, tensor);
    return NULL;
  }
  ((memory_object *)memory)->tensor = *tensor;
  tensor->data = NULL;
  PyObject *shape = shape_tuple(tensor);
  PyObject *array =
      shape ? PyObject_CallFunction(state->from_memory, "OsO", memory, forge_dtype_name(tensor->dtype), shape) : NULL;
  Py_XDECREF(shape);
  Py_DECREF(memory);
  return array;
}

/* A fresh array in the dtype of the output, which takes the place of `array`. */
static PyObject *finish_array(const module_state *state, const output_plan *plan, PyObject *array) {
  if (array == NULL || plan->view_dtype == NULL) return array;
  PyObject *view = PyObject_CallMethod(array, "view", "OO", plan->view_dtype, state->tensor_class);
  Py_DECREF(array);
  return view;
}

/* What the runtime allocated: wrapped, or where it is small copied, which takes less time. */
static PyObject *take_memory(const module_state *state, const output_plan *plan, forge_tensor *tensor) {
  const int64_t bytes = tensor->dtype < FORGE_STRING ? forge_byte_count(tensor) : KEPT_OUTPUT;
  if (bytes >= KEPT_OUTPUT) return native_wrap_memory(state, tensor);
  PyObject *array = new_array(state, plan, tensor);
  Py_buffer view;
  if (array && PyObject_GetBuffer(array, &view, PyBUF_WRITABLE) == 0) {
    memcpy(view.buf, tensor->data, (size_t)bytes);
    PyBuffer_Release(&view);
  } else {
    Py_CLEAR(array);
  }
  forge_free_output(NULL, tensor);
  return finish_array(state, plan, array);
}

static PyObject *result_of(const module_state *state, const model_object *self, const output_plan *plan, PyObject *given,
                           held_tensor *held, forge_tensor *tensor) {
  if (held->object == NULL && self->exchange) return dlpack_give(self->exchange, tensor);
  if (held->object == NULL) return take_memory(state, plan, tensor);
  drop_view(held);
  PyObject *result = given ? given : held->object;
  Py_INCREF(result);
  return given ? result : finish_array(state, plan, result);
}

/* One call: tensors of the inputs, then of the outputs, without states. */
typedef struct {
  const model_object *self;
  forge_session *session; /* or NULL */
  PyObject *inputs, *outputs;
  forge_tensor *tensors;
  held_tensor *held;
} call_frame;

/* The array that an output is written to, borrowed; NULL: a fresh one. */
static PyObject *given_output(const call_frame *frame, int32_t position) {
  const int32_t donor = frame->self->outputs[position].donor;
  if (donor >= 0 && frame->held[donor].donated) return frame->held[donor].donated;
  PyObject *given = frame->outputs ? PyTuple_GetItem(frame->outputs, position) : NULL;
  return given == Py_None ? NULL : given;
}

/* Refuses an array for an output that takes donated memory. */
static int check_donated(const module_state *state, const call_frame *frame, int32_t position) {
  const output_plan *plan = &frame->self->outputs[position];
  if (plan->donor < 0 || frame->held[plan->donor].donated == NULL || frame->outputs == NULL) return 0;
  if (PyTuple_GetItem(frame->outputs, position) == Py_None) return 0;
  const forge_model *model = frame->self->model;
  PyErr_Format(state->errors[FORGE_ERROR_INPUT],
               "model '%s': output '%s': got an array and donated memory of input '%s'; expected one of them", model->name,
               model->outputs[plan->number].name, model->inputs[frame->self->inputs[plan->donor]].name);
  return -1;
}

static int32_t find_shapes(const call_frame *frame, forge_error *error) {
  const model_object *self = frame->self;
  forge_tensor *outputs = frame->tensors + self->n_inputs;
  return frame->session ? forge_session_shapes_entered(frame->session, self->model, frame->tensors, outputs, error)
                        : forge_output_shapes(self->model, frame->tensors, outputs, error);
}

static int hold_inputs(const module_state *state, const call_frame *frame, bool *any_donated) {
  for (int32_t i = 0; i < frame->self->n_inputs; i++) {
    held_tensor *held = &frame->held[i];
    held->object = PyTuple_GetItem(frame->inputs, i);
    Py_INCREF(held->object);
    if (hold_input(state, frame->self, i, held, &frame->tensors[i]) < 0) return -1;
    *any_donated |= held->donated != NULL;
  }
  return 0;
}

static int hold_all(const module_state *state, const call_frame *frame) {
  const model_object *self = frame->self;
  bool any_donated = false;
  forge_error error;
  if (hold_inputs(state, frame, &any_donated) < 0) return -1;
  if ((frame->session || self->exchange) && !any_donated && frame->outputs == NULL) return 0;
  if (find_shapes(frame, &error) != FORGE_OK) {
    native_raise(state, &error);
    return -1;
  }
  for (int32_t i = 0; i < self->n_outputs; i++) {
    if (check_donated(state, frame, i) < 0) return -1;
    const int32_t at = self->n_inputs + i;
    if (hold_output(state, self, i, given_output(frame, i), &frame->held[at], &frame->tensors[at]) < 0) return -1;
  }
  for (int32_t i = 0; any_donated && i < self->n_inputs; i++) {
    if (frame->held[i].donated == NULL) continue;
    PyObject *done = PyObject_CallMethod(PyTuple_GetItem(frame->inputs, i), "spend", "ss", self->model->name,
                                         self->model->inputs[self->inputs[i]].name);
    if (done == NULL) return -1;
    Py_DECREF(done);
  }
  return 0;
}

static PyObject *collect(const module_state *state, const call_frame *frame) {
  const model_object *self = frame->self;
  PyObject *results = PyTuple_New(self->n_outputs);
  for (int32_t i = 0; i < self->n_outputs; i++) {
    held_tensor *held = &frame->held[self->n_inputs + i];
    forge_tensor *tensor = &frame->tensors[self->n_inputs + i];
    PyObject *result = results ? result_of(state, self, &self->outputs[i], given_output(frame, i), held, tensor) : NULL;
    if (result == NULL || PyTuple_SetItem(results, i, result) < 0) Py_CLEAR(results);
    if (results == NULL && held->object == NULL) forge_free_output(NULL, tensor);
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

/* What a signal handler or a registered function has raised, else the error. */
static void raise_failure(const module_state *state, const forge_error *error) {
  if (!PyErr_Occurred())
    (void)native_raise(state, error);
  else if (error->status == FORGE_ERROR_FUNCTION)
    forge_add_note(error->message);
}

/* -1: an exception. */
static int run_held(const module_state *state, const call_frame *frame) {
  const model_object *self = frame->self;
  if (hold_all(state, frame) < 0) return -1;
  forge_error error;
  forge_tensor *inputs = frame->tensors, *outputs = frame->tensors + self->n_inputs;
  forge_limits limits = self->limits;
  PyThreadState *thread = PyEval_SaveThread();
  limits.interrupted = check_signals;
  limits.state = &thread;
  const int32_t status = frame->session
                             ? forge_session_run_entered(frame->session, self->model, inputs, outputs, &limits, &error)
                             : forge_run_limited(self->model, inputs, outputs, &self->host, &limits, &error);
  PyEval_RestoreThread(thread);
  if (status == FORGE_OK) return 0;
  error.status = status;
  raise_failure(state, &error);
  return -1;
}

/* From the first look at its shapes on, the session is this call's: no other may change them. */
static PyObject *run_frame(const call_frame *frame) {
  const module_state *state = native_state((PyObject *)frame->self);
  forge_error error;
  if (frame->session && forge_session_enter(frame->session, &error) != FORGE_OK) return native_raise(state, &error);
  const int done = run_held(state, frame);
  if (frame->session) (void)forge_session_leave(frame->session, FORGE_OK);
  return done < 0 ? NULL : collect(state, frame);
}

static int check_count(const model_object *self, PyObject *tensors, const char *what, int32_t expected) {
  const Py_ssize_t got = PyTuple_Check(tensors) ? PyTuple_Size(tensors) : -1;
  if (got == expected) return 0;
  PyErr_Format(native_state((PyObject *)self)->errors[FORGE_ERROR_INPUT],
               "model '%s': wrong number of %s; got %zd; expected %d", self->model->name, what, got, expected);
  return -1;
}

/* With `frame->tensors` and `frame->held` as memory for `count` tensors. */
static PyObject *call_with_memory(const call_frame *frame, size_t count) {
  for (size_t i = 0; i < count; i++) {
    frame->tensors[i].data = NULL;
    frame->held[i].object = frame->held[i].donated = frame->held[i].view.obj = NULL;
  }
  PyObject *results = run_frame(frame);
  for (size_t i = 0; i < count; i++)
    drop(&frame->held[i]);
  return results;
}

PyObject *native_call(const model_object *self, forge_session *session, PyObject *const *arguments, Py_ssize_t count) {
  if (count < 1 || count > 2)
    return PyErr_Format(PyExc_TypeError, "run takes a tuple of inputs and, optionally, one of outputs");
  PyObject *outputs = count == 2 && arguments[1] != Py_None ? arguments[1] : NULL;
  if (session == NULL && forge_bindings(self->model) > 0)
    return PyErr_Format(native_state((PyObject *)self)->errors[FORGE_ERROR_INPUT],
                        "model '%s': function '%s' keeps states from one call to the next; got a call without a session; expected one "
                        "in a session: run.session()(...)",
                        self->model->name, forge_function_name(self->model));
  if (check_count(self, arguments[0], "inputs", self->n_inputs) < 0) return NULL;
  if (outputs && check_count(self, outputs, "outputs", self->n_outputs) < 0) return NULL;
  const size_t n = (size_t)self->n_inputs + (size_t)self->n_outputs;
  call_frame frame = {.self = self, .session = session, .inputs = arguments[0], .outputs = outputs};
  if (n <= STACK_TENSORS) {
    forge_tensor tensors[STACK_TENSORS];
    held_tensor held[STACK_TENSORS];
    frame.tensors = tensors;
    frame.held = held;
    return call_with_memory(&frame, n);
  }
  frame.tensors = PyMem_Malloc(n * sizeof(forge_tensor));
  frame.held = PyMem_Malloc(n * sizeof(held_tensor));
  PyObject *results = frame.tensors && frame.held ? call_with_memory(&frame, n) : PyErr_NoMemory();
  PyMem_Free(frame.tensors);
  PyMem_Free(frame.held);
  return results;
}

/* How the inputs and outputs of a model are made. */

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

/* Numbers of the inputs and outputs that are not states. */
static void plan_numbers(model_object *self) {
  const forge_model *model = self->model;
  for (int32_t i = 0; i < model->n_inputs; i++) {
    bool is_state = false;
    for (int32_t k = 0; k < forge_bindings(model); k++)
      is_state |= model->bindings[k].input == i;
    if (!is_state) self->inputs[self->n_inputs++] = i;
  }
  for (int32_t i = 0; i < model->n_outputs; i++) {
    bool is_state = false;
    for (int32_t k = 0; k < forge_bindings(model); k++)
      is_state |= model->bindings[k].output == i;
    if (!is_state) self->outputs[self->n_outputs++].number = i;
  }
}

static int32_t donor_of(const model_object *self, int32_t output) {
  const int32_t *donated = forge_donated(self->model);
  for (int32_t i = 0; donated && donated[output] >= 0 && i < self->n_inputs; i++)
    if (self->inputs[i] == donated[output]) return i;
  return -1;
}

int native_plan(const module_state *state, model_object *self) {
  const size_t inputs = (size_t)self->model->n_inputs, outputs = (size_t)self->model->n_outputs;
  self->inputs = PyMem_Calloc(inputs ? inputs : 1, sizeof *self->inputs);
  self->outputs = PyMem_Calloc(outputs ? outputs : 1, sizeof *self->outputs);
  if (self->inputs == NULL || self->outputs == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  plan_numbers(self);
  for (int32_t i = 0; i < self->n_outputs; i++) {
    output_plan *plan = &self->outputs[i];
    plan->donor = donor_of(self, plan->number);
    if (plan_output(state, &self->model->outputs[plan->number], plan) < 0) return -1;
  }
  return 0;
}

void native_free_plans(model_object *self) {
  for (int32_t i = 0; self->outputs && i < self->n_outputs; i++) {
    Py_XDECREF(self->outputs[i].storage_dtype);
    Py_XDECREF(self->outputs[i].view_dtype);
    Py_XDECREF(self->outputs[i].arguments);
  }
  PyMem_Free(self->inputs);
  PyMem_Free(self->outputs);
}

int native_view(PyObject *array, int32_t dtype, Py_buffer *view, forge_tensor *tensor) {
  if (PyObject_GetBuffer(array, view, PyBUF_FORMAT | PyBUF_STRIDES) < 0) return -1;
  fill_tensor(tensor, view, dtype);
  return 0;
}
