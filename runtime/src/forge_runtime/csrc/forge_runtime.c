/* Running a model: memory of one call, and what is called when. */
#include "forge_fp.h"
#include "forge_invocation.h"
#include "forge_strings.h"
#include <string.h>

enum { SCRATCH_SIZE = 2048 };

void forge_clear_error(forge_error *error) {
  if (error == NULL) return;
  error->status = FORGE_OK;
  error->message[0] = '\0';
}

int32_t forge_check_model(const forge_model *model, forge_error *error) {
  if (model == NULL) return forge_fail(error, FORGE_ERROR_ABI, "forge_run: the model is NULL");
  if (model->abi_version < FORGE_ABI_OLDEST || model->abi_version > FORGE_ABI_VERSION)
    return forge_fail(error, FORGE_ERROR_ABI,
                      "model: interface version; got %d; expected %d to %d; update the runtime, or compile the model again",
                      model->abi_version, FORGE_ABI_OLDEST, FORGE_ABI_VERSION);
  if (model->reserved & FORGE_MODEL_CHECKED) return FORGE_OK;
  if (model->n_inputs < 0 || model->n_outputs < 0 || model->n_symbols < 0 || model->n_dims < 0 || model->entry == NULL)
    return forge_fail(error, FORGE_ERROR_ABI, "model: its descriptor is damaged; compile the model again");
  return forge_check_cpu(model->cpu_features, error);
}

static bool overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes) {
  const uintptr_t a_begin = (uintptr_t)a, b_begin = (uintptr_t)b;
  return a_bytes > 0 && b_bytes > 0 && a_begin < b_begin + (uintptr_t)b_bytes && b_begin < a_begin + (uintptr_t)a_bytes;
}

/* The input whose memory an output takes, or -1. */
static int32_t donor(const forge_invocation *b, int32_t output) { return b->donated ? b->donated[output] : -1; }

/* Bytes that the memory of an output must have. */
static int64_t needed_bytes(const forge_invocation *b, int32_t output) {
  const int32_t input = donor(b, output);
  const int64_t bytes = forge_byte_count(&b->outputs[output]), donated = input < 0 ? 0 : forge_byte_count(&b->inputs[input]);
  return bytes < donated ? donated : bytes;
}

static int32_t check_overlap(const forge_invocation *b, int32_t index) {
  const forge_tensor *output = &b->outputs[index];
  const char *other = NULL;
  for (int32_t i = 0; other == NULL && i < b->model->n_inputs; i++)
    if (!(i == donor(b, index) && output->data == b->inputs[i].data) &&
        overlap(output->data, forge_byte_count(output), b->inputs[i].data, forge_byte_count(&b->inputs[i])))
      other = b->model->inputs[i].name;
  for (int32_t i = 0; other == NULL && i < index; i++)
    if (overlap(output->data, forge_byte_count(output), b->outputs[i].data, forge_byte_count(&b->outputs[i])))
      other = b->model->outputs[i].name;
  if (other == NULL) return FORGE_OK;
  return forge_fail(b->error, FORGE_ERROR_INPUT,
                    "model '%s': the memory of output '%s' overlaps that of '%s'; give it its own", b->model->name,
                    b->model->outputs[index].name, other);
}

static int32_t check_given_output(const forge_invocation *b, int32_t index) {
  const forge_tensor *tensor = &b->outputs[index];
  const char *name = b->model->outputs[index].name;
  const int64_t alignment = forge_dtype_alignment(tensor->dtype), needed = needed_bytes(b, index);
  char text[FORGE_TEXT_SIZE];
  if (forge_is_data_dependent(tensor) || forge_is_sequence(tensor))
    return forge_fail(b->error, FORGE_ERROR_INPUT,
                      "model '%s': output '%s' has a size that depends on data; pass NULL, the runtime allocates it",
                      b->model->name, name);
  if (tensor->capacity < needed)
    return forge_fail(b->error, FORGE_ERROR_INPUT,
                      "model '%s': output '%s' is too small; got %lld bytes; expected %lld for shape %s of %s",
                      b->model->name, name, (long long)tensor->capacity, (long long)needed, forge_shape_text(tensor, text),
                      forge_dtype_name(tensor->dtype));
  if ((uintptr_t)tensor->data % (uintptr_t)alignment)
    return forge_fail(b->error, FORGE_ERROR_INPUT,
                      "model '%s': output '%s': data at %p is not aligned; expected a multiple of %lld",
                      b->model->name, name, tensor->data, (long long)alignment);
  return check_overlap(b, index);
}

static int32_t allocate_output(const forge_invocation *b, int32_t index, const forge_host *host) {
  forge_tensor *tensor = &b->outputs[index];
  const int64_t needed = needed_bytes(b, index), bytes = needed ? needed : 1;
  tensor->data = host->alloc(host, (size_t)bytes, FORGE_ALIGNMENT);
  if (tensor->data == NULL)
    return forge_fail(b->error, FORGE_ERROR_MEMORY, "model '%s': output '%s': no memory for %lld bytes", b->model->name,
                      b->model->outputs[index].name, (long long)bytes);
  tensor->capacity = bytes;
  return FORGE_OK;
}

void forge_free_output(const forge_host *host, forge_tensor *output) {
  if (host == NULL) host = forge_default_host();
  if (output->data) host->free(host, output->data, (size_t)output->capacity);
  output->data = NULL;
  output->capacity = 0;
}

/* Pointer tables of a call. */
typedef struct {
  void **inputs;
  void **outputs;
  bool *allocated; /* by this call: freed if it fails */
} call_tables;

static int32_t check_produced(const forge_invocation *b) {
  for (int32_t i = 0; i < b->model->n_outputs; i++)
    if (b->outputs[i].data == NULL)
      return forge_fail(b->error, FORGE_ERROR_INTERNAL,
                        "model '%s': output '%s' was not produced; this is a defect of the compiler", b->model->name,
                        b->model->outputs[i].name);
  return FORGE_OK;
}

static int32_t enter(forge_invocation *b, const call_tables *tables, const forge_host *host) {
  const forge_model *model = b->model;
  const int32_t ended = b->is_region && b->watch ? forge_watch_trip(b->watch, model) : FORGE_OK;
  if (ended != FORGE_OK) return forge_fail(b->error, ended, "model '%s': the call ends here", model->name);
  const int64_t arena_size = model->arena_size ? model->arena_size(b->symbols) : 0;
  if (arena_size < 0)
    return forge_fail(b->error, FORGE_ERROR_INPUT, "model '%s': these shapes need more memory than 64 bits count",
                      model->name);
  forge_gives_back_soon = true;
  void *arena = arena_size ? host->alloc(host, (size_t)arena_size, FORGE_ALIGNMENT) : NULL;
  forge_gives_back_soon = false;
  if (arena_size && arena == NULL)
    return forge_fail(b->error, FORGE_ERROR_MEMORY, "model '%s': no memory for an arena of %lld bytes", model->name,
                      (long long)arena_size);
  forge_running running;
  forge_begin_call(&running, model, b->error, host, b->heap, b->watch);
  const forge_call call = {tables->inputs, tables->outputs, model->weights, arena, b->symbols, &running.table.host, b->outputs};
  b->entered = true;
  const int32_t status = model->entry(&call);
  if (arena) host->free(host, arena, (size_t)arena_size);
  if (status == FORGE_OK) return check_produced(b);
  if (!atomic_flag_test_and_set(&running.reported))
    return forge_fail(b->error, status, "model '%s': an operator failed with status %d", model->name, status);
  if (b->error) b->error->status = status;
  return status;
}

int64_t forge_discarded_bytes(const forge_tensor *tensor) {
  if (forge_is_data_dependent(tensor) || forge_byte_count(tensor) != 0) return 0;
  int64_t bytes = (int64_t)forge_dtype_size(tensor->dtype);
  for (int32_t d = 0; d < tensor->ndim; d++)
    if (tensor->shape[d] > 0 && __builtin_mul_overflow(bytes, tensor->shape[d], &bytes)) return INT64_MAX;
  return bytes;
}

/* Memory that stands for all empty tensors of a call; NULL with *bytes 0 where none is empty. */
static void *nothing_for(const forge_invocation *b, const forge_host *host, int64_t *bytes) {
  *bytes = 0;
  for (int32_t i = 0; i < b->model->n_inputs; i++)
    if (forge_discarded_bytes(&b->inputs[i]) > *bytes) *bytes = forge_discarded_bytes(&b->inputs[i]);
  for (int32_t i = 0; i < b->model->n_outputs; i++)
    if (forge_discarded_bytes(&b->outputs[i]) > *bytes) *bytes = forge_discarded_bytes(&b->outputs[i]);
  return *bytes ? host->alloc(host, (size_t)*bytes, FORGE_ALIGNMENT) : NULL;
}

static bool is_kept(const forge_invocation *b, int32_t output) { return b->session && forge_session_keeps(b->session, output); }

static int32_t prepare_output(const forge_invocation *b, const call_tables *tables, int32_t index, const forge_host *host) {
  if (is_kept(b, index)) return FORGE_OK;
  if (!tables->allocated[index]) return check_given_output(b, index);
  return forge_is_data_dependent(&b->outputs[index]) ? FORGE_OK : allocate_output(b, index, host);
}

/* Lets an output take the memory of an input. One that the caller gave to something else, or not at all, gets a copy of the input. */
static void take_memory(const forge_invocation *b, const call_tables *tables, int32_t index) {
  const int32_t input = donor(b, index);
  if (input < 0) return;
  const forge_tensor *output = &b->outputs[index], *given = &b->inputs[input];
  if (output->data != given->data && forge_byte_count(given) > 0)
    memcpy(output->data, given->data, (size_t)forge_byte_count(given));
  tables->inputs[input] = tables->outputs[index];
}

static int32_t prepare_outputs(const forge_invocation *b, const call_tables *tables, const forge_host *host, void *nothing) {
  for (int32_t i = 0; i < b->model->n_outputs; i++)
    tables->allocated[i] = b->outputs[i].data == NULL;
  for (int32_t i = 0; i < b->model->n_outputs; i++) {
    const int32_t status = prepare_output(b, tables, i, host);
    if (status != FORGE_OK) return status;
    tables->outputs[i] = forge_discarded_bytes(&b->outputs[i]) && !is_kept(b, i) ? nothing : b->outputs[i].data;
    take_memory(b, tables, i);
  }
  return FORGE_OK;
}

/* Moves the characters of strings from the heap of the call to behind the elements. */
static int32_t deliver_strings(const forge_invocation *b, const call_tables *tables, const forge_host *host) {
  for (int32_t i = 0; i < b->model->n_outputs; i++) {
    if (b->outputs[i].dtype != FORGE_STRING) continue;
    const int64_t missing = forge_string_deliver(&b->outputs[i], tables->allocated[i], host);
    if (missing < 0)
      return forge_fail(b->error, FORGE_ERROR_MEMORY, "model '%s': output '%s': no memory for its characters", b->model->name,
                        b->model->outputs[i].name);
    if (missing > 0)
      return forge_fail(b->error, FORGE_ERROR_INPUT,
                        "model '%s': output '%s' is too small; got %lld bytes; expected %lld, for elements and characters; pass "
                        "NULL, the runtime allocates it",
                        b->model->name, b->model->outputs[i].name, (long long)b->outputs[i].capacity,
                        (long long)(b->outputs[i].capacity + missing));
  }
  return FORGE_OK;
}

/* Gives sequences, whose elements lie in the call's heap or in inputs, a memory of their own. */
static int32_t pack_outputs(const forge_invocation *b, const forge_host *host) {
  for (int32_t i = 0; i < b->model->n_outputs; i++)
    if (forge_is_sequence(&b->outputs[i]) && forge_pack(host, &b->outputs[i]) != FORGE_OK)
      return forge_fail(b->error, FORGE_ERROR_MEMORY, "model '%s': output '%s': no memory for its elements", b->model->name,
                        b->model->outputs[i].name);
  return FORGE_OK;
}

static int32_t run_tables(forge_invocation *b, const call_tables *tables, const forge_host *host, void *nothing) {
  for (int32_t i = 0; i < b->model->n_inputs; i++) {
    const int32_t status = forge_check_data(b, i);
    if (status != FORGE_OK) return status;
    tables->inputs[i] = forge_discarded_bytes(&b->inputs[i]) ? nothing : b->inputs[i].data;
  }
  int32_t status = prepare_outputs(b, tables, host, nothing);
  if (status == FORGE_OK) status = enter(b, tables, host);
  if (status == FORGE_OK && !b->is_region) status = pack_outputs(b, host);
  if (status == FORGE_OK && !b->is_region) status = deliver_strings(b, tables, host);
  for (int32_t i = 0; status != FORGE_OK && i < b->model->n_outputs; i++)
    if (tables->allocated[i]) forge_free_output(host, &b->outputs[i]);
  return status;
}

static int32_t run_bound(forge_invocation *b, const call_tables *tables, const forge_host *host) {
  int64_t nothing_bytes;
  void *nothing = nothing_for(b, host, &nothing_bytes);
  if (nothing_bytes && nothing == NULL)
    return forge_fail(b->error, FORGE_ERROR_MEMORY, "model '%s': no memory for an empty tensor with such large other extents",
                      b->model->name);
  const int32_t status = run_tables(b, tables, host, nothing);
  if (nothing) host->free(host, nothing, (size_t)nothing_bytes);
  return status;
}

static size_t scratch_size(const forge_model *model) {
  return sizeof(int64_t) * ((size_t)model->n_symbols + (size_t)model->n_dims) +
         sizeof(void *) * ((size_t)model->n_inputs + (size_t)model->n_outputs) + (size_t)model->n_outputs;
}

/* Binds and, if `host` is given, runs with `scratch` as the memory of all tables. */
static int32_t call_with_scratch(forge_invocation *b, const forge_host *host, void *scratch) {
  const forge_model *model = b->model;
  b->symbols = scratch;
  b->dims = b->symbols + model->n_symbols;
  int32_t status = forge_bind(b);
  if (status == FORGE_OK && b->session && host) status = forge_session_place(b, host);
  if (status != FORGE_OK || host == NULL) return status;
  call_tables tables = {.inputs = (void **)(b->dims + model->n_dims)};
  tables.outputs = tables.inputs + model->n_inputs;
  tables.allocated = (bool *)(tables.outputs + model->n_outputs);
  return run_bound(b, &tables, host);
}

static int32_t call_model(forge_invocation *b, const forge_host *host) {
  _Alignas(16) char stack[SCRATCH_SIZE];
  const size_t size = scratch_size(b->model);
  if (size <= sizeof stack) return call_with_scratch(b, host, stack);
  const forge_host *memory = host ? host : forge_default_host();
  void *heap = memory->alloc(memory, size, FORGE_ALIGNMENT);
  if (heap == NULL) return forge_fail(b->error, FORGE_ERROR_MEMORY, "model '%s': no memory for %zu bytes", b->model->name, size);
  const int32_t status = call_with_scratch(b, host, heap);
  memory->free(memory, heap, size);
  return status;
}

int32_t forge_check_arguments(const forge_model *model, const void *inputs, const void *outputs, forge_error *error) {
  const int32_t status = forge_check_model(model, error);
  if (status != FORGE_OK) return status;
  if ((inputs == NULL && model->n_inputs) || (outputs == NULL && model->n_outputs))
    return forge_fail(error, FORGE_ERROR_INPUT, "model '%s': the tensors are NULL; expected %d inputs and %d outputs", model->name,
                      model->n_inputs, model->n_outputs);
  return FORGE_OK;
}

/* The same of a call outside sessions. */
static int32_t check_plain(const forge_model *model, const void *inputs, const void *outputs, forge_error *error) {
  const int32_t status = forge_check_arguments(model, inputs, outputs, error);
  if (status != FORGE_OK || forge_bindings(model) == 0) return status;
  return forge_fail(error, FORGE_ERROR_INPUT,
                    "model '%s': function '%s' reads or replaces states; got a call without a session; expected one in a session "
                    "(forge_session_run)",
                    model->name, forge_function_name(model));
}

int32_t forge_check_host(const forge_model *model, const forge_host *host, forge_error *error) {
  const bool known = host->abi_version >= FORGE_ABI_OLDEST && host->abi_version <= FORGE_ABI_VERSION;
  if (!known || host->alloc == NULL || host->free == NULL)
    return forge_fail(error, FORGE_ERROR_ABI,
                      "forge_run: unusable host; got interface version %d; expected %d to %d, with alloc and free",
                      host->abi_version, FORGE_ABI_OLDEST, FORGE_ABI_VERSION);
  if (model->weights == NULL && model->weights_size > 0)
    return forge_fail(error, FORGE_ERROR_FILE, "model '%s': its weights are not loaded; use forge_prepare_weights", model->name);
  return FORGE_OK;
}

int32_t forge_invoke_watched(forge_invocation *b, const forge_host *host) {
  const forge_fp environment = forge_fp_mask();
  forge_heap heap = {.host = host};
  b->heap = &heap;
  const int32_t status = call_model(b, host);
  forge_heap_clear(&heap);
  forge_fp_leave(environment);
  return status;
}

int32_t forge_invoke_shapes(forge_invocation *b) { return call_model(b, NULL); }

int32_t forge_run_limited(const forge_model *model, const forge_tensor *inputs, forge_tensor *outputs, const forge_host *host,
                          const forge_limits *limits, forge_error *error) {
  if (host == NULL) host = forge_default_host();
  forge_clear_error(error);
  int32_t status = check_plain(model, inputs, outputs, error);
  if (status == FORGE_OK) status = forge_check_host(model, host, error);
  if (status != FORGE_OK) return status;
  forge_invocation b = {.model = model, .inputs = inputs, .outputs = outputs, .error = error, .donated = forge_donated(model)};
  return forge_invoke(&b, host, limits);
}

int32_t forge_run(const forge_model *model, const forge_tensor *inputs, forge_tensor *outputs, const forge_host *host,
                  forge_error *error) {
  return forge_run_limited(model, inputs, outputs, host, NULL, error);
}

int32_t forge_run_region(const forge_model *region, const forge_tensor *inputs, forge_tensor *outputs, const forge_host *host,
                         forge_error *error) {
  forge_clear_error(error);
  forge_invocation b = {.model = region, .inputs = inputs, .outputs = outputs, .error = error, .heap = forge_heap_of(host),
                        .watch = forge_watch_of(host), .is_region = true};
  return call_model(&b, host);
}

int32_t forge_output_shapes(const forge_model *model, const forge_tensor *inputs, forge_tensor *outputs, forge_error *error) {
  forge_clear_error(error);
  const int32_t status = check_plain(model, inputs, outputs, error);
  if (status != FORGE_OK) return status;
  forge_invocation b = {.model = model, .inputs = inputs, .outputs = outputs, .error = error};
  return forge_invoke_shapes(&b);
}
