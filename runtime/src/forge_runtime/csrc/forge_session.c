/* Sessions: tensors that live from one call of a model to the next. */
#include "forge_invocation.h"
#include <string.h>

/* States of so many bytes are saved before a call writes over them: a microsecond is the time of a small call, this takes a tenth. */
enum { SAVED_BYTES = 4096 };

typedef struct {
  void *data;
  int64_t capacity; /* bytes */
} memory_block;

typedef enum { STATE_UNSET, STATE_SET, STATE_LOST } condition;

/* The value of a state. */
typedef struct {
  memory_block memory, spare; /* what replaces the value is written to the spare block; or the value is saved there */
  int64_t shape[FORGE_MAX_RANK]; /* in stored order, of a state that is set */
  condition is;
  bool grows; /* some function appends to it */
} state_value;

/* The tables of a call follow the struct in the same block. */
struct forge_session {
  const forge_model *model;
  const forge_host *host;
  int64_t capacity; /* forge_session_options */
  size_t size;      /* of the block */
  atomic_flag busy;
  state_value *states;
  forge_tensor *inputs, *outputs; /* of the call: all that the function has */
  int64_t *sizes;                 /* of symbols and dimensions that are expressions */
  int32_t *input_roles, *output_roles; /* number of the binding, or -1 */
  int32_t *donated;
};

/* Most of each that a function of the library has. */
typedef struct {
  size_t states, inputs, outputs, sizes;
} extents;

static size_t larger(size_t most, int32_t count) { return most < (size_t)count ? (size_t)count : most; }

static extents measure(const forge_model *model) {
  extents most = {.states = (size_t)forge_states(model)};
  const int32_t count = forge_functions(model);
  for (int32_t i = 0; i < (count ? count : 1); i++) {
    const forge_model *function = count ? model->functions[i] : model;
    most.inputs = larger(most.inputs, function->n_inputs);
    most.outputs = larger(most.outputs, function->n_outputs);
    most.sizes = larger(most.sizes, function->n_symbols + function->n_dims);
  }
  return most;
}

static const char *name_of(const forge_session *session) { return session->model->name; }

static const forge_state_spec *spec_of(const forge_session *session, int32_t state) { return &session->model->states[state]; }

int32_t forge_session_enter(forge_session *session, forge_error *error) {
  if (session == NULL) return forge_fail(error, FORGE_ERROR_INPUT, "session: got NULL; expected one of forge_session_new");
  forge_clear_error(error);
  if (!atomic_flag_test_and_set_explicit(&session->busy, memory_order_acquire)) return FORGE_OK;
  return forge_fail(error, FORGE_ERROR_INPUT,
                    "model '%s': session: in use by another call; expected one thread at a time; make a session for each thread",
                    name_of(session));
}

int32_t forge_session_leave(forge_session *session, int32_t status) {
  atomic_flag_clear_explicit(&session->busy, memory_order_release);
  return status;
}

static void release(const forge_session *session, memory_block *block) {
  if (block->data) session->host->free(session->host, block->data, (size_t)block->capacity);
  *block = (memory_block){NULL, 0};
}

/* Room for `needed` bytes, of which the first `kept` stay as they are. A block that is too small becomes one of `wanted` bytes from
 * `host`, which counts what a limited call takes. */
static int32_t reserve(const forge_session *session, const forge_host *host, int32_t state, memory_block *block, int64_t kept,
                       int64_t needed, int64_t wanted, forge_error *error) {
  if (block->capacity >= needed) return FORGE_OK;
  if (wanted < needed) wanted = needed;
  void *data = host->alloc(host, (size_t)wanted, FORGE_ALIGNMENT);
  if (data == NULL)
    return forge_fail(error, FORGE_ERROR_MEMORY, "model '%s': state '%s': no memory for %lld bytes", name_of(session),
                      spec_of(session, state)->name, (long long)wanted);
  if (kept) memcpy(data, block->data, (size_t)kept);
  release(session, block);
  *block = (memory_block){data, wanted};
  return FORGE_OK;
}

static void mark_growing(forge_session *session, const forge_model *function) {
  for (int32_t k = 0; k < forge_bindings(function); k++)
    if (function->bindings[k].memory == FORGE_STATE_APPENDED) session->states[function->bindings[k].state].grows = true;
}

static forge_session *allocate(const forge_model *model, const forge_host *host, int64_t capacity, forge_error *error) {
  const extents most = measure(model);
  const size_t size = sizeof(forge_session) + most.states * sizeof(state_value) +
                      (most.inputs + most.outputs) * (sizeof(forge_tensor) + sizeof(int32_t)) + most.sizes * sizeof(int64_t) +
                      most.outputs * sizeof(int32_t);
  forge_session *session = host->alloc(host, size, FORGE_ALIGNMENT);
  if (session == NULL) {
    forge_fail(error, FORGE_ERROR_MEMORY, "model '%s': session: no memory for %zu bytes", model->name, size);
    return NULL;
  }
  memset(session, 0, size);
  *session = (forge_session){.model = model, .host = host, .capacity = capacity, .size = size, .busy = ATOMIC_FLAG_INIT};
  session->states = (state_value *)(session + 1);
  session->inputs = (forge_tensor *)(session->states + most.states);
  session->outputs = session->inputs + most.inputs;
  session->sizes = (int64_t *)(session->outputs + most.outputs);
  session->input_roles = (int32_t *)(session->sizes + most.sizes);
  session->output_roles = session->input_roles + most.inputs;
  session->donated = session->output_roles + most.outputs;
  const int32_t count = forge_functions(model);
  for (int32_t i = 0; i < (count ? count : 1); i++)
    mark_growing(session, count ? model->functions[i] : model);
  return session;
}

forge_session *forge_session_new(const forge_model *model, const forge_host *host, const forge_session_options *options,
                                 forge_error *error) {
  if (host == NULL) host = forge_default_host();
  forge_clear_error(error);
  const int64_t capacity = options ? options->capacity : 0;
  if (forge_check_model(model, error) != FORGE_OK || forge_check_host(model, host, error) != FORGE_OK) return NULL;
  if (capacity >= 0) return allocate(model, host, capacity, error);
  forge_fail(error, FORGE_ERROR_INPUT, "model '%s': session: capacity; got %lld elements; expected 0 or more", model->name,
             (long long)capacity);
  return NULL;
}

void forge_session_free(forge_session *session) {
  if (session == NULL) return;
  for (int32_t i = 0; i < forge_states(session->model); i++) {
    release(session, &session->states[i].memory);
    release(session, &session->states[i].spare);
  }
  session->host->free(session->host, session, session->size);
}

/* A state as a tensor in stored order, without data. */
static forge_tensor stored_tensor(const forge_state_spec *spec, const int64_t *shape) {
  forge_tensor tensor = {.dtype = spec->dtype, .ndim = spec->ndim};
  memcpy(tensor.shape, shape, (size_t)spec->ndim * sizeof *shape);
  return tensor;
}

static void to_stored_order(const forge_state_spec *spec, const int64_t *logical, int64_t *stored) {
  for (int32_t k = 0; k < spec->ndim; k++)
    stored[k] = logical[spec->axes[k]];
}

/* Calls. */

static int32_t check_function(const forge_session *session, const forge_model *function, forge_error *error) {
  const forge_model *model = session->model;
  if (function == model) return FORGE_OK;
  const int32_t status = forge_check_model(function, error);
  if (status != FORGE_OK || (forge_functions(model) && forge_functions(function) && function->functions == model->functions))
    return status;
  return forge_fail(error, FORGE_ERROR_INPUT,
                    "model '%s': session: got function '%s' of another model; expected one that forge_model_find finds in its own",
                    model->name, forge_function_name(function));
}

/* Which inputs and outputs are states, and whose memory outputs take. */
static void assign_roles(forge_session *session, const forge_model *function) {
  const int32_t *donated = forge_donated(function);
  for (int32_t i = 0; i < function->n_inputs; i++)
    session->input_roles[i] = -1;
  for (int32_t i = 0; i < function->n_outputs; i++) {
    session->output_roles[i] = -1;
    session->donated[i] = donated ? donated[i] : -1;
  }
  for (int32_t k = 0; k < forge_bindings(function); k++) {
    const forge_binding *binding = &function->bindings[k];
    if (binding->input >= 0) session->input_roles[binding->input] = k;
    if (binding->output < 0) continue;
    session->output_roles[binding->output] = k;
    session->donated[binding->output] = binding->memory == FORGE_STATE_REPLACED ? -1 : binding->input;
  }
}

/* Fills in the shapes of states that were not set and have no initial value. */
static void shape_unset(const forge_session *session, const forge_model *function) {
  int64_t *symbols = session->sizes;
  for (int32_t s = 0; s < function->n_symbols; s++)
    symbols[s] = FORGE_UNBOUND;
  for (int32_t i = 0; i < function->n_inputs; i++) {
    const forge_tensor_spec *spec = &function->inputs[i];
    for (int32_t d = 0; d < spec->ndim && d < session->inputs[i].ndim; d++)
      if (spec->dims[d].size == -1 && symbols[spec->dims[d].symbol] == FORGE_UNBOUND)
        symbols[spec->dims[d].symbol] = session->inputs[i].shape[d];
  }
  for (int32_t s = 0; s < function->n_symbols; s++)
    if (symbols[s] == FORGE_UNBOUND) symbols[s] = 0;
  if (function->n_dims) function->dims(symbols, symbols + function->n_symbols);
  for (int32_t i = 0; i < function->n_inputs; i++) {
    const forge_tensor_spec *spec = &function->inputs[i];
    forge_tensor *input = &session->inputs[i];
    if (input->ndim >= 0 || session->input_roles[i] < 0) continue;
    input->ndim = spec->ndim;
    for (int32_t d = 0; d < spec->ndim; d++)
      input->shape[d] = spec->dims[d].size >= 0 ? spec->dims[d].size
                                                : symbols[spec->dims[d].symbol + (spec->dims[d].size == -1 ? 0 : function->n_symbols)];
  }
}

static int32_t read_states(forge_session *session, const forge_model *function, forge_error *error) {
  bool any_unset = false;
  for (int32_t k = 0; k < forge_bindings(function); k++) {
    const forge_binding *binding = &function->bindings[k];
    const forge_state_spec *spec = spec_of(session, binding->state);
    const state_value *state = &session->states[binding->state];
    if (binding->input < 0) continue;
    if (state->is == STATE_LOST)
      return forge_fail(error, FORGE_ERROR_INPUT,
                        "model '%s': state '%s' is undefined: a call that was writing it failed; expected a session that was reset, "
                        "or the state to be set",
                        name_of(session), spec->name);
    forge_tensor *input = &session->inputs[binding->input];
    *input = stored_tensor(spec, state->shape);
    if (state->is == STATE_SET) continue;
    if (spec->initial >= 0) {
      to_stored_order(spec, spec->initial_shape, input->shape);
    } else {
      input->ndim = -1;
      any_unset = true;
    }
  }
  if (any_unset) shape_unset(session, function);
  return FORGE_OK;
}

/* All inputs and outputs of the call: those that the caller gives, and the states without data. */
static int32_t gather(forge_session *session, const forge_model *function, const forge_tensor *inputs, const forge_tensor *outputs,
                      forge_error *error) {
  int32_t taken = 0, given = 0;
  assign_roles(session, function);
  for (int32_t i = 0; i < function->n_inputs; i++)
    taken += session->input_roles[i] < 0;
  for (int32_t i = 0; i < function->n_outputs; i++)
    given += session->output_roles[i] < 0;
  if ((taken && inputs == NULL) || (given && outputs == NULL))
    return forge_fail(error, FORGE_ERROR_INPUT,
                      "model '%s': the tensors are NULL; expected %d inputs and %d outputs besides the states", name_of(session), taken,
                      given);
  for (int32_t i = 0; i < function->n_inputs; i++)
    if (session->input_roles[i] < 0) session->inputs[i] = *inputs++;
  for (int32_t i = 0; i < function->n_outputs; i++)
    session->outputs[i] = session->output_roles[i] < 0 ? *outputs++ : (forge_tensor){0};
  return read_states(session, function, error);
}

static void scatter(const forge_session *session, const forge_model *function, forge_tensor *outputs) {
  for (int32_t i = 0; i < function->n_outputs; i++)
    if (session->output_roles[i] < 0) *outputs++ = session->outputs[i];
}

bool forge_session_keeps(const forge_session *session, int32_t output) { return session->output_roles[output] >= 0; }

/* Bytes that the entry may touch. */
static int64_t touched_bytes(const forge_tensor *tensor) {
  const int64_t bytes = forge_byte_count(tensor), discarded = forge_discarded_bytes(tensor);
  return bytes > discarded ? bytes : discarded ? discarded : 1;
}

/* What to take for a value, in stored order, that does not fit into `block`. */
static int64_t wanted_bytes(const forge_session *session, const state_value *state, const memory_block *block,
                            const forge_tensor *tensor) {
  int64_t wanted = 0, doubled = 0;
  if (__builtin_mul_overflow(block->capacity, 2, &doubled)) doubled = 0;
  if (state->grows && tensor->ndim > 0 && tensor->shape[0] > 0 &&
      __builtin_mul_overflow(forge_byte_count(tensor) / tensor->shape[0], session->capacity, &wanted))
    wanted = INT64_MAX;
  return wanted < doubled ? doubled : wanted;
}

static void write_first_value(const forge_session *session, const forge_state_spec *spec, void *data, const forge_tensor *tensor) {
  const size_t bytes = (size_t)forge_byte_count(tensor);
  if (bytes && spec->initial >= 0)
    memcpy(data, (const char *)session->model->weights + spec->initial, bytes);
  else if (bytes)
    memset(data, 0, bytes);
}

/* Whether a value that a call writes over is saved first. */
static bool is_saved(const state_value *state, int64_t bytes) { return state->is == STATE_SET && bytes <= SAVED_BYTES; }

static int32_t save(const forge_invocation *b, int32_t number, int64_t bytes, const forge_host *host) {
  state_value *state = &b->session->states[number];
  const int32_t status = reserve(b->session, host, number, &state->spare, 0, bytes, 0, b->error);
  if (status == FORGE_OK && bytes > 0) memcpy(state->spare.data, state->memory.data, (size_t)bytes);
  return status;
}

static int32_t place_input(const forge_invocation *b, const forge_binding *binding, const forge_host *host) {
  forge_session *session = b->session;
  state_value *state = &session->states[binding->state];
  forge_tensor *input = &session->inputs[binding->input];
  const bool shares = binding->memory != FORGE_STATE_REPLACED;
  const forge_tensor *largest = shares ? &b->outputs[binding->output] : input;
  int64_t needed = touched_bytes(input);
  if (needed < touched_bytes(largest)) needed = touched_bytes(largest);
  const int64_t kept = state->is == STATE_SET ? forge_byte_count(input) : 0;
  const int64_t wanted = wanted_bytes(session, state, &state->memory, largest);
  const int32_t status = reserve(session, host, binding->state, &state->memory, kept, needed, wanted, b->error);
  if (status != FORGE_OK) return status;
  if (state->is == STATE_UNSET) write_first_value(session, spec_of(session, binding->state), state->memory.data, input);
  input->data = state->memory.data;
  return binding->memory == FORGE_STATE_IN_PLACE && is_saved(state, kept) ? save(b, binding->state, kept, host) : FORGE_OK;
}

static int32_t place_output(const forge_invocation *b, const forge_binding *binding, const forge_host *host) {
  state_value *state = &b->session->states[binding->state];
  forge_tensor *output = &b->outputs[binding->output];
  memory_block *block = binding->memory == FORGE_STATE_REPLACED ? &state->spare : &state->memory;
  if (forge_is_data_dependent(output)) return FORGE_OK;
  const int64_t wanted = wanted_bytes(b->session, state, block, output);
  const int32_t status = reserve(b->session, host, binding->state, block, 0, touched_bytes(output), wanted, b->error);
  if (status != FORGE_OK) return status;
  output->data = block->data;
  output->capacity = block->capacity;
  return FORGE_OK;
}

int32_t forge_session_place(const forge_invocation *b, const forge_host *host) {
  int32_t status = FORGE_OK;
  for (int32_t k = 0; status == FORGE_OK && k < forge_bindings(b->model); k++) {
    const forge_binding *binding = &b->model->bindings[k];
    if (binding->input >= 0) status = place_input(b, binding, host);
    if (status == FORGE_OK && binding->output >= 0) status = place_output(b, binding, host);
  }
  return status;
}

/* Makes what the call has produced the value of the states. */
static void commit(forge_session *session, const forge_model *function) {
  for (int32_t k = 0; k < forge_bindings(function); k++) {
    const forge_binding *binding = &function->bindings[k];
    if (binding->output < 0) continue;
    state_value *state = &session->states[binding->state];
    const forge_tensor *output = &session->outputs[binding->output];
    if (binding->memory == FORGE_STATE_REPLACED) {
      memory_block before = state->memory;
      if (output->data != state->spare.data) release(session, &state->spare);
      state->memory = (memory_block){output->data, output->capacity};
      if (state->grows) release(session, &before); /* large, and seldom replaced */
      state->spare = before;
    }
    memcpy(state->shape, output->shape, sizeof state->shape);
    state->is = STATE_SET;
  }
}

/* Brings back what a call may have written over. */
static void restore(forge_session *session, const forge_model *function) {
  for (int32_t k = 0; k < forge_bindings(function); k++) {
    const forge_binding *binding = &function->bindings[k];
    state_value *state = &session->states[binding->state];
    if (binding->memory != FORGE_STATE_IN_PLACE || state->is != STATE_SET) continue;
    const forge_tensor value = stored_tensor(spec_of(session, binding->state), state->shape);
    const int64_t bytes = forge_byte_count(&value);
    if (!is_saved(state, bytes))
      state->is = STATE_LOST;
    else if (bytes > 0)
      memcpy(state->memory.data, state->spare.data, (size_t)bytes);
  }
}

int32_t forge_session_run_entered(forge_session *session, const forge_model *function, const forge_tensor *inputs,
                                  forge_tensor *outputs, const forge_limits *limits, forge_error *error) {
  if (function == NULL) function = session->model;
  int32_t status = check_function(session, function, error);
  if (status == FORGE_OK) status = gather(session, function, inputs, outputs, error);
  if (status != FORGE_OK) return status;
  forge_invocation b = {.model = function, .inputs = session->inputs, .outputs = session->outputs, .donated = session->donated,
                        .session = session, .error = error};
  status = forge_invoke(&b, session->host, limits);
  scatter(session, function, outputs);
  if (status == FORGE_OK)
    commit(session, function);
  else if (b.entered)
    restore(session, function);
  return status;
}

int32_t forge_session_run(forge_session *session, const forge_model *function, const forge_tensor *inputs, forge_tensor *outputs,
                          const forge_limits *limits, forge_error *error) {
  const int32_t status = forge_session_enter(session, error);
  if (status != FORGE_OK) return status;
  return forge_session_leave(session, forge_session_run_entered(session, function, inputs, outputs, limits, error));
}

int32_t forge_session_shapes_entered(forge_session *session, const forge_model *function, const forge_tensor *inputs,
                                     forge_tensor *outputs, forge_error *error) {
  if (function == NULL) function = session->model;
  int32_t status = check_function(session, function, error);
  if (status == FORGE_OK) status = gather(session, function, inputs, outputs, error);
  if (status != FORGE_OK) return status;
  forge_invocation b = {.model = function, .inputs = session->inputs, .outputs = session->outputs, .error = error};
  status = forge_invoke_shapes(&b);
  scatter(session, function, outputs);
  return status;
}

int32_t forge_session_output_shapes(forge_session *session, const forge_model *function, const forge_tensor *inputs,
                                    forge_tensor *outputs, forge_error *error) {
  const int32_t status = forge_session_enter(session, error);
  if (status != FORGE_OK) return status;
  return forge_session_leave(session, forge_session_shapes_entered(session, function, inputs, outputs, error));
}

/* States from outside. */

static int32_t find_state(const forge_session *session, const char *name, int32_t *number, forge_error *error) {
  const int32_t count = forge_states(session->model);
  for (*number = 0; *number < count; ++*number)
    if (strcmp(spec_of(session, *number)->name, name) == 0) return FORGE_OK;
  return forge_fail(error, FORGE_ERROR_INPUT, "model '%s': no state is called '%s'; expected one of its %d states", name_of(session),
                    name, count);
}

/* Copies a tensor whose axes have `strides`, in bytes, to where they lie in order; returns the end. */
static char *copy_axes(char *to, const char *from, int32_t ndim, const int64_t *shape, const int64_t *strides, int64_t run) {
  if (ndim == 0) {
    memcpy(to, from, (size_t)run);
    return to + run;
  }
  for (int64_t i = 0; i < shape[0]; i++)
    to = copy_axes(to, from + i * strides[0], ndim - 1, shape + 1, strides + 1, run);
  return to;
}

/* Copies the elements of `from`, so that axis axes[k] of it is axis k of what lies at `to`. */
static void copy_permuted(void *to, const forge_tensor *from, const int32_t *axes) {
  int64_t strides[FORGE_MAX_RANK], shape[FORGE_MAX_RANK], permuted[FORGE_MAX_RANK];
  int64_t run = (int64_t)forge_dtype_size(from->dtype);
  if (forge_byte_count(from) == 0) return;
  for (int32_t d = from->ndim - 1, first = 1; d >= 0; d--, first = 0)
    strides[d] = first ? run : strides[d + 1] * from->shape[d + 1];
  for (int32_t k = 0; k < from->ndim; k++) {
    shape[k] = from->shape[axes[k]];
    permuted[k] = strides[axes[k]];
  }
  int32_t outer = from->ndim;
  while (outer > 0 && permuted[outer - 1] == run)
    run *= shape[--outer];
  copy_axes(to, from->data, outer, shape, permuted, run);
}

/* The value of a state in stored order; ndim is -1 where it has none. Zeros have no data. */
static forge_tensor value_of(const forge_session *session, int32_t number) {
  const forge_state_spec *spec = spec_of(session, number);
  const state_value *state = &session->states[number];
  forge_tensor value = stored_tensor(spec, state->shape);
  value.data = state->memory.data;
  if (state->is == STATE_SET) return value;
  to_stored_order(spec, spec->initial >= 0 ? spec->initial_shape : spec->dims, value.shape);
  value.data = spec->initial >= 0 ? (char *)(uintptr_t)session->model->weights + spec->initial : NULL;
  for (int32_t k = 0; k < spec->ndim; k++)
    if (value.shape[k] < 0) value.ndim = -1;
  return value;
}

static int32_t take_room(const forge_session *session, int32_t number, forge_tensor *value, forge_error *error) {
  const int64_t bytes = forge_byte_count(value);
  const char *name = spec_of(session, number)->name;
  if (value->data && value->capacity < bytes)
    return forge_fail(error, FORGE_ERROR_INPUT, "model '%s': state '%s': got room for %lld bytes; expected %lld", name_of(session),
                      name, (long long)value->capacity, (long long)bytes);
  if (value->data) return FORGE_OK;
  value->capacity = bytes ? bytes : 1;
  value->data = session->host->alloc(session->host, (size_t)value->capacity, FORGE_ALIGNMENT);
  if (value->data) return FORGE_OK;
  return forge_fail(error, FORGE_ERROR_MEMORY, "model '%s': state '%s': no memory for %lld bytes", name_of(session), name,
                    (long long)bytes);
}

int32_t forge_session_get_entered(const forge_session *session, const char *name, forge_tensor *value, forge_error *error) {
  int32_t number = 0, inverse[FORGE_MAX_RANK];
  int32_t status = find_state(session, name, &number, error);
  if (status != FORGE_OK) return status;
  const forge_state_spec *spec = spec_of(session, number);
  const forge_tensor stored = value_of(session, number);
  if (session->states[number].is == STATE_LOST)
    return forge_fail(error, FORGE_ERROR_INPUT,
                      "model '%s': state '%s' is undefined: a call that was writing it failed; reset the session, or set the state",
                      name_of(session), name);
  value->dtype = spec->dtype;
  value->ndim = stored.ndim;
  if (stored.ndim < 0) {
    value->data = NULL;
    return FORGE_OK;
  }
  for (int32_t k = 0; k < spec->ndim; k++) {
    value->shape[spec->axes[k]] = stored.shape[k];
    inverse[spec->axes[k]] = k;
  }
  status = take_room(session, number, value, error);
  if (status != FORGE_OK) return status;
  if (stored.data)
    copy_permuted(value->data, &stored, inverse);
  else
    memset(value->data, 0, (size_t)forge_byte_count(value));
  return FORGE_OK;
}

int32_t forge_session_get(forge_session *session, const char *state, forge_tensor *value, forge_error *error) {
  const int32_t status = forge_session_enter(session, error);
  return status == FORGE_OK ? forge_session_leave(session, forge_session_get_entered(session, state, value, error)) : status;
}

static bool fits(const forge_state_spec *spec, const forge_tensor *value) {
  if (value->ndim != spec->ndim || value->dtype != spec->dtype) return false;
  for (int32_t d = 0; d < spec->ndim; d++)
    if (value->shape[d] < 0 || (spec->dims[d] >= 0 && spec->dims[d] != value->shape[d])) return false;
  const int64_t bytes = forge_byte_count(value);
  return bytes == 0 || (bytes > 0 && value->data);
}

/* Checks a value that is to be that of a state, and finds the state. */
static int32_t check_value(const forge_session *session, const char *name, const forge_tensor *value, int32_t *number,
                           forge_error *error) {
  char got[FORGE_TEXT_SIZE], expected[FORGE_TEXT_SIZE];
  const int32_t status = find_state(session, name, number, error);
  if (status != FORGE_OK) return status;
  const forge_state_spec *spec = spec_of(session, *number);
  if (value->ndim < 0 || value->ndim > FORGE_MAX_RANK)
    return forge_fail(error, FORGE_ERROR_INPUT, "model '%s': state '%s': wrong tensor; got rank %d; expected %d", name_of(session),
                      name, value->ndim, spec->ndim);
  if (fits(spec, value)) return FORGE_OK;
  const forge_tensor wanted = stored_tensor(spec, spec->dims);
  return forge_fail(error, FORGE_ERROR_INPUT,
                    "model '%s': state '%s': wrong tensor; got %s %s; expected %s %s (-1: any size), with data", name_of(session), name,
                    forge_dtype_name(value->dtype), forge_shape_text(value, got), forge_dtype_name(spec->dtype),
                    forge_shape_text(&wanted, expected));
}

static int32_t set(forge_session *session, const char *name, const forge_tensor *value, forge_error *error) {
  int32_t number = 0;
  int32_t status = check_value(session, name, value, &number, error);
  if (status != FORGE_OK) return status;
  const forge_state_spec *spec = spec_of(session, number);
  state_value *state = &session->states[number];
  forge_tensor stored = stored_tensor(spec, value->shape);
  to_stored_order(spec, value->shape, stored.shape);
  const int64_t wanted = wanted_bytes(session, state, &state->memory, &stored);
  status = reserve(session, session->host, number, &state->memory, 0, touched_bytes(value), wanted, error);
  if (status != FORGE_OK) return status;
  copy_permuted(state->memory.data, value, spec->axes);
  memcpy(state->shape, stored.shape, sizeof state->shape);
  state->is = STATE_SET;
  return FORGE_OK;
}

int32_t forge_session_set(forge_session *session, const char *state, const forge_tensor *value, forge_error *error) {
  const int32_t status = forge_session_enter(session, error);
  return status == FORGE_OK ? forge_session_leave(session, set(session, state, value, error)) : status;
}

static void unset_all(forge_session *session) {
  for (int32_t i = 0; i < forge_states(session->model); i++)
    session->states[i].is = STATE_UNSET;
}

static int32_t load(forge_session *session, int32_t count, const char *const *states, const forge_tensor *values,
                    forge_error *error) {
  int32_t status = FORGE_OK, number = 0;
  for (int32_t i = 0; status == FORGE_OK && i < count; i++)
    status = check_value(session, states[i], &values[i], &number, error);
  if (status != FORGE_OK) return status;
  unset_all(session);
  for (int32_t i = 0; status == FORGE_OK && i < count; i++)
    status = set(session, states[i], &values[i], error);
  if (status != FORGE_OK) unset_all(session);
  return status;
}

int32_t forge_session_load(forge_session *session, int32_t count, const char *const *states, const forge_tensor *values,
                           forge_error *error) {
  const int32_t status = forge_session_enter(session, error);
  return status == FORGE_OK ? forge_session_leave(session, load(session, count, states, values, error)) : status;
}

int32_t forge_session_reset(forge_session *session, forge_error *error) {
  const int32_t status = forge_session_enter(session, error);
  if (status != FORGE_OK) return status;
  unset_all(session);
  return forge_session_leave(session, FORGE_OK);
}

static int32_t copy_state(const forge_session *from, forge_session *to, int32_t number, forge_error *error) {
  const state_value *source = &from->states[number];
  state_value *state = &to->states[number];
  const forge_tensor value = stored_tensor(spec_of(from, number), source->shape);
  memcpy(state->shape, source->shape, sizeof state->shape);
  state->is = source->is;
  if (source->is != STATE_SET) return FORGE_OK;
  const int32_t status = reserve(to, to->host, number, &state->memory, 0, touched_bytes(&value), source->memory.capacity, error);
  if (status == FORGE_OK && forge_byte_count(&value) > 0)
    memcpy(state->memory.data, source->memory.data, (size_t)forge_byte_count(&value));
  return status;
}

forge_session *forge_session_copy(forge_session *session, forge_error *error) {
  if (forge_session_enter(session, error) != FORGE_OK) return NULL;
  forge_session *copy = allocate(session->model, session->host, session->capacity, error);
  int32_t status = copy ? FORGE_OK : FORGE_ERROR_MEMORY;
  for (int32_t i = 0; status == FORGE_OK && i < forge_states(session->model); i++)
    status = copy_state(session, copy, i, error);
  forge_session_leave(session, status);
  if (status == FORGE_OK) return copy;
  forge_session_free(copy);
  return NULL;
}
