/* Control flow: runs the regions of a node. Every tensor made here comes from host->alloc, and is given back or handed on. */
#include "forge_internal.h"
#include <string.h>

static int32_t report(const forge_host *host, int32_t status, const char *message) {
  if (host->report_error) host->report_error(host, status, message);
  return status;
}

static const char *const KINDS[] = {
    [FORGE_IF] = "if", [FORGE_LOOP] = "loop", [FORGE_SCAN] = "scan", [FORGE_SEQUENCE_MAP] = "sequence_map",
    [FORGE_SEQUENCE_CONSTRUCT] = "sequence_construct", [FORGE_SEQUENCE_INSERT] = "sequence_insert",
    [FORGE_SEQUENCE_ERASE] = "sequence_erase", [FORGE_SEQUENCE_AT] = "sequence_at", [FORGE_SEQUENCE_LENGTH] = "sequence_length",
    [FORGE_SEQUENCE_SPLIT] = "split_to_sequence", [FORGE_SEQUENCE_CONCAT] = "concat_from_sequence",
    [FORGE_OPTIONAL_HAS] = "optional_has_element", [FORGE_OPTIONAL_GET] = "optional_get_element",
    [FORGE_CALL_REGISTERED] = "call_registered",
};

int32_t forge_node_fail(const forge_host *host, const forge_control *control, int32_t status, const char *message) {
  forge_error error;
  forge_fail(&error, status, "node %s (%s): %s", control->name, KINDS[control->kind], message);
  return report(host, status, error.message);
}

static int32_t out_of_memory(const forge_host *host, const forge_control *control) {
  return forge_node_fail(host, control, FORGE_ERROR_MEMORY, "no memory for its results");
}

int32_t forge_node_region(const forge_host *host, const forge_model *region, const void *weights, const forge_tensor *in,
                          forge_tensor *out) {
  forge_model model;
  forge_error error;
  forge_copy_model(&model, region);
  model.weights = weights;
  for (int32_t i = 0; i < model.n_outputs; i++)
    out[i].data = NULL;
  const int32_t status = forge_run_region(&model, in, out, host, &error);
  return status == FORGE_OK ? FORGE_OK : report(host, status, error.message);
}

int32_t forge_node_allocate(const forge_host *host, const forge_control *control, forge_tensor *tensor, int64_t bytes) {
  if (bytes < 0) return out_of_memory(host, control);
  tensor->capacity = bytes ? bytes : 1;
  tensor->data = host->alloc(host, (size_t)tensor->capacity, FORGE_ALIGNMENT);
  return tensor->data ? FORGE_OK : out_of_memory(host, control);
}

/* Memory for an empty tensor: kernels may read and discard elements of it, as if each extent were at least 1. */
static int32_t allocate_empty(const forge_host *host, const forge_control *control, forge_tensor *tensor) {
  forge_tensor full = *tensor;
  for (int32_t d = 0; d < full.ndim; d++)
    if (full.shape[d] == 0) full.shape[d] = 1;
  return forge_node_allocate(host, control, tensor, forge_byte_count(&full));
}

int32_t forge_hand_over(const forge_host *host, const forge_control *control, forge_tensor *value, forge_tensor *result) {
  bool fits = value->dtype == result->dtype && (result->ndim < 0 || value->ndim == result->ndim);
  for (int32_t d = 0; fits && d < result->ndim; d++)
    fits = result->shape[d] < 0 || result->shape[d] == value->shape[d];
  if (!fits) return forge_node_fail(host, control, FORGE_ERROR_VALUE, "a result has another type than the model says");
  *result = *value;
  value->data = NULL;
  if (forge_byte_count(result)) return FORGE_OK;
  forge_free_output(host, result);
  return allocate_empty(host, control, result);
}

/* The first element of a scalar operand. */
static int32_t read_scalar(const forge_host *host, const forge_control *control, const forge_tensor *operand,
                           int32_t dtype, int64_t *value) {
  if (operand->dtype != dtype || forge_byte_count(operand) <= 0)
    return forge_node_fail(host, control, FORGE_ERROR_VALUE, "a condition or number of trips is not a scalar");
  *value = dtype == FORGE_BOOL ? *(const uint8_t *)operand->data != 0 : *(const int64_t *)operand->data;
  return FORGE_OK;
}

/* A loop or scan on its way. `in` and `out` are the tables of its body. */
typedef struct {
  const forge_host *host;
  const forge_control *control;
  const forge_model *body;
  const void *weights;
  const forge_tensor *operands; /* from the first carried one on */
  forge_tensor *results;
  int32_t n_stacked;
  int32_t first_in, first_out; /* of the carried values in the tables */
  int64_t trips, condition;    /* trips: -1 where nothing limits them */
  int64_t iteration;
  forge_tensor *in, *out;
  bool *owned; /* per carried value: its data in the table is ours */
} looping;

static forge_tensor scalar(int32_t dtype, int32_t ndim, void *data) {
  forge_tensor tensor = {.data = data, .dtype = dtype, .ndim = ndim};
  for (int32_t d = 0; d < FORGE_MAX_RANK; d++)
    tensor.shape[d] = 1;
  return tensor;
}

static bool is_backwards(const looping *l, int32_t number) {
  return l->control->backwards && l->control->backwards[number];
}

/* The slice of a scanned operand for this iteration. */
static forge_tensor slice(const looping *l, int32_t number) {
  forge_tensor part = l->operands[l->control->carried + number];
  const int64_t length = part.shape[0];
  part.ndim--;
  memmove(part.shape, part.shape + 1, sizeof(int64_t) * (size_t)part.ndim);
  const int64_t row = is_backwards(l, number) ? length - 1 - l->iteration : l->iteration;
  if (part.data) part.data = (char *)part.data + row * forge_byte_count(&part);
  return part;
}

/* Grows the memory of a stacked result to hold `bytes`. */
static int32_t reserve(const looping *l, forge_tensor *stack, int64_t bytes, int64_t used) {
  if (stack->data && stack->capacity >= bytes) return FORGE_OK;
  forge_tensor larger = *stack;
  int64_t wanted = 0;
  if (__builtin_mul_overflow(bytes, (int64_t)2, &wanted)) return out_of_memory(l->host, l->control);
  const int32_t status = forge_node_allocate(l->host, l->control, &larger, l->trips < 0 || stack->data ? wanted : bytes);
  if (status != FORGE_OK) return status;
  if (used) memcpy(larger.data, stack->data, (size_t)used);
  forge_free_output(l->host, stack);
  *stack = larger;
  return FORGE_OK;
}

/* Sizes of a stacked result from its first slice; the number of iterations, where known, is reserved at once. */
static int32_t begin_stack(const looping *l, const forge_tensor *part, forge_tensor *stack) {
  bool fits = part->dtype == stack->dtype && part->ndim + 1 == stack->ndim;
  for (int32_t d = 0; fits && d < part->ndim; d++)
    fits = stack->shape[d + 1] < 0 || stack->shape[d + 1] == part->shape[d];
  if (!fits) return forge_node_fail(l->host, l->control, FORGE_ERROR_VALUE, "a result has another type than the model says");
  memcpy(stack->shape + 1, part->shape, sizeof(int64_t) * (size_t)part->ndim);
  int64_t total = forge_byte_count(part);
  const bool bounded = l->control->kind == FORGE_SCAN;
  if (__builtin_mul_overflow(total, bounded ? l->trips : 1, &total)) return out_of_memory(l->host, l->control);
  return reserve(l, stack, total, 0);
}

static int32_t append(const looping *l, const forge_tensor *part, int32_t number) {
  forge_tensor *stack = &l->results[l->control->carried + number];
  int32_t status = FORGE_OK;
  if (l->iteration == 0) status = begin_stack(l, part, stack);
  if (status != FORGE_OK) return status;
  if (memcmp(stack->shape + 1, part->shape, sizeof(int64_t) * (size_t)part->ndim))
    return forge_node_fail(l->host, l->control, FORGE_ERROR_VALUE, "a stacked result has other sizes in another iteration");
  const int64_t bytes = forge_byte_count(part);
  int64_t row = l->iteration, end = 0;
  if (__builtin_mul_overflow(bytes, l->iteration + 1, &end)) return out_of_memory(l->host, l->control);
  status = reserve(l, stack, end, bytes * l->iteration);
  if (status != FORGE_OK) return status;
  if (is_backwards(l, l->control->scanned + number)) row = l->trips - 1 - l->iteration;
  if (bytes) memcpy((char *)stack->data + row * bytes, part->data, (size_t)bytes);
  return FORGE_OK;
}

/* Takes what the body has given: carried values move to its inputs, slices are appended. */
static int32_t take(looping *l) {
  int32_t status = FORGE_OK;
  for (int32_t k = 0; k < l->control->carried; k++) {
    forge_tensor *value = &l->in[l->first_in + k], *next = &l->out[l->first_out + k];
    if (l->owned[k]) forge_free_output(l->host, value);
    *value = *next;
    next->data = NULL;
    l->owned[k] = true;
  }
  for (int32_t k = 0; status == FORGE_OK && k < l->n_stacked; k++)
    status = append(l, &l->out[l->first_out + l->control->carried + k], k);
  if (status == FORGE_OK && l->control->flags & FORGE_LOOP_CONDITION)
    status = read_scalar(l->host, l->control, &l->out[0], FORGE_BOOL, &l->condition);
  for (int32_t k = 0; k < l->body->n_outputs; k++)
    forge_free_output(l->host, &l->out[k]);
  return status;
}

static int32_t iterate(looping *l) {
  uint8_t condition = 1;
  if (l->control->kind == FORGE_LOOP) {
    l->in[0] = scalar(FORGE_INT64, l->body->inputs[0].ndim, &l->iteration);
    l->in[1] = scalar(FORGE_BOOL, l->body->inputs[1].ndim, &condition);
  }
  for (; l->condition && (l->trips < 0 || l->iteration < l->trips); l->iteration++) {
    for (int32_t k = 0; k < l->control->scanned; k++)
      l->in[l->first_in + l->control->carried + k] = slice(l, k);
    int32_t status = forge_node_region(l->host, l->body, l->weights, l->in, l->out);
    if (status == FORGE_OK) status = take(l);
    if (status != FORGE_OK) return status;
  }
  return FORGE_OK;
}

static int32_t give_carried(looping *l, int32_t k) {
  forge_tensor *value = &l->in[l->first_in + k];
  if (!l->owned[k]) {
    const void *initial = value->data;
    const int64_t bytes = forge_byte_count(value);
    const int32_t status = forge_node_allocate(l->host, l->control, value, bytes);
    if (status != FORGE_OK) return status;
    if (bytes) memcpy(value->data, initial, (size_t)bytes);
    l->owned[k] = true;
  }
  return forge_hand_over(l->host, l->control, value, &l->results[k]);
}

static int32_t finish_stack(const looping *l, int32_t number) {
  forge_tensor *stack = &l->results[l->control->carried + number];
  if (stack->shape[0] >= 0 && stack->shape[0] != l->iteration)
    return forge_node_fail(l->host, l->control, FORGE_ERROR_VALUE, "the number of iterations is another than the model says");
  stack->shape[0] = l->iteration;
  const forge_tensor_spec *spec = &l->body->outputs[l->first_out + l->control->carried + number];
  for (int32_t d = 1; d < stack->ndim; d++)
    if (stack->shape[d] < 0) stack->shape[d] = spec->dims[d - 1].size >= 0 ? spec->dims[d - 1].size : 0;
  if (stack->data && forge_byte_count(stack)) return FORGE_OK;
  forge_free_output(l->host, stack);
  return allocate_empty(l->host, l->control, stack);
}

static int32_t finish(looping *l) {
  int32_t status = FORGE_OK;
  for (int32_t k = 0; status == FORGE_OK && k < l->control->carried; k++)
    status = give_carried(l, k);
  for (int32_t k = 0; status == FORGE_OK && k < l->n_stacked; k++)
    status = finish_stack(l, k);
  return status;
}

/* Reads the scalars in front of a loop's operands. */
static int32_t read_limits(looping *l) {
  int32_t status = FORGE_OK;
  l->trips = -1;
  l->condition = 1;
  if (l->control->flags & FORGE_LOOP_TRIPS) {
    status = read_scalar(l->host, l->control, l->operands++, FORGE_INT64, &l->trips);
    if (l->trips < 0) l->trips = 0;
  }
  if (status == FORGE_OK && l->control->flags & FORGE_LOOP_CONDITION)
    status = read_scalar(l->host, l->control, l->operands++, FORGE_BOOL, &l->condition);
  if (l->control->kind == FORGE_SCAN) l->trips = l->operands[l->control->carried].shape[0];
  return status;
}

static int32_t check_lengths(const looping *l) {
  for (int32_t k = 0; k < l->control->scanned; k++)
    if (l->operands[l->control->carried + k].shape[0] != l->trips)
      return forge_node_fail(l->host, l->control, FORGE_ERROR_VALUE, "the scan inputs have different lengths");
  return FORGE_OK;
}

static int32_t run_looping(looping *l) {
  const int32_t count = l->body->n_inputs - l->first_in;
  int32_t status = read_limits(l);
  if (status == FORGE_OK) status = check_lengths(l);
  if (status != FORGE_OK) return status;
  memcpy(l->in + l->first_in, l->operands, sizeof *l->in * (size_t)count);
  status = iterate(l);
  if (status == FORGE_OK) status = finish(l);
  for (int32_t k = 0; k < l->control->carried; k++)
    if (l->owned[k]) forge_free_output(l->host, &l->in[l->first_in + k]);
  return status;
}

static int32_t run_loop(const forge_host *host, const forge_control *control, const void *weights, const forge_tensor *in,
                        forge_tensor *out, int32_t n_out) {
  const forge_model *body = control->regions[0];
  const bool is_loop = control->kind == FORGE_LOOP;
  const size_t tensors = (size_t)body->n_inputs + (size_t)body->n_outputs;
  const size_t bytes = sizeof(forge_tensor) * tensors + (size_t)control->carried;
  forge_tensor *table = host->alloc(host, bytes, FORGE_ALIGNMENT);
  if (table == NULL) return out_of_memory(host, control);
  memset(table, 0, bytes);
  looping l = {.host = host, .control = control, .body = body, .weights = weights, .operands = in, .results = out,
               .n_stacked = n_out - control->carried, .first_in = is_loop ? 2 : 0, .first_out = is_loop ? 1 : 0,
               .in = table, .out = table + body->n_inputs, .owned = (bool *)(table + tensors)};
  const int32_t status = run_looping(&l);
  host->free(host, table, bytes);
  return status;
}

static int32_t run_if(const forge_host *host, const forge_control *control, const void *weights, const forge_tensor *in,
                      forge_tensor *out, int32_t n_out) {
  int64_t condition = 0;
  int32_t status = read_scalar(host, control, in, FORGE_BOOL, &condition);
  if (status != FORGE_OK) return status;
  const size_t bytes = sizeof(forge_tensor) * ((size_t)n_out + 1);
  forge_tensor *table = host->alloc(host, bytes, FORGE_ALIGNMENT);
  if (table == NULL) return out_of_memory(host, control);
  memset(table, 0, bytes);
  status = forge_node_region(host, control->regions[condition ? 0 : 1], weights, in + 1, table);
  for (int32_t k = 0; status == FORGE_OK && k < n_out; k++)
    status = forge_hand_over(host, control, &table[k], &out[k]);
  for (int32_t k = 0; k < n_out; k++)
    forge_free_output(host, &table[k]);
  host->free(host, table, bytes);
  return status;
}

int32_t forge_run_control(const forge_host *host, const forge_control *control, const void *weights, const forge_tensor *in,
                          int32_t n_in, forge_tensor *out, int32_t n_out) {
  int32_t status;
  if (control->kind == FORGE_CALL_REGISTERED) return forge_call_function(host, control, in, n_in, out, n_out);
  if (control->kind == FORGE_IF)
    status = run_if(host, control, weights, in, out, n_out);
  else if (control->kind >= FORGE_SEQUENCE_MAP)
    status = forge_run_sequence(host, control, weights, in, n_in, out, n_out);
  else
    status = run_loop(host, control, weights, in, out, n_out);
  for (int32_t k = 0; status != FORGE_OK && k < n_out; k++)
    forge_free_output(host, &out[k]);
  return status;
}
