/* Hand-written models for the tests of the runtime; -DMODEL_<NAME> chooses one. */
#include "forge_runtime.h"
#include <math.h>
#include <string.h>

#define FLOAT(name, ...) {name, FORGE_FLOAT32, sizeof((forge_dim[]){__VA_ARGS__}) / sizeof(forge_dim), {__VA_ARGS__}, NULL}
#define SYMBOL(number) {-1, number}
#define EXPRESSION(number) {-2, number}

#if defined(MODEL_IDENTITY)

static int32_t entry(const forge_call *call) {
  memcpy(call->outputs[0], call->inputs[0], sizeof(float));
  return FORGE_OK;
}

static const forge_tensor_spec inputs[] = {FLOAT("x", {1, 0})};
static const forge_tensor_spec outputs[] = {FLOAT("y", {1, 0})};
static const forge_model model = {.abi_version = FORGE_ABI_VERSION, .n_inputs = 1, .n_outputs = 1, .name = "identity",
                                  .cpu_features = FEATURES, .inputs = inputs, .outputs = outputs, .entry = entry};

#elif defined(MODEL_ROWS)

/* rows[i, j] = x[i, j] + weights[j] + sum(y[i, :]); total = sum(z). Goes through the arena, in parallel over i. */
typedef struct {
  const forge_call *call;
  const float *sums;
} closure;

static int32_t sum_rows(int64_t begin, int64_t end, void *data) {
  const forge_call *call = data;
  const int64_t k = call->symbols[1];
  for (int64_t i = begin; i < end; i++) {
    float sum = 0;
    for (int64_t j = 0; j < k; j++) sum += ((const float *)call->inputs[1])[i * k + j];
    ((float *)call->arena)[i] = sum;
  }
  return FORGE_OK;
}

static int32_t add_rows(int64_t begin, int64_t end, void *data) {
  const closure *c = data;
  const float *x = c->call->inputs[0], *weights = c->call->weights;
  for (int64_t i = begin; i < end; i++)
    for (int64_t j = 0; j < 4; j++) ((float *)c->call->outputs[0])[4 * i + j] = x[4 * i + j] + weights[j] + c->sums[i];
  return FORGE_OK;
}

static int32_t entry(const forge_call *call) {
  const int64_t n = call->symbols[0], k = call->symbols[1];
  int32_t status = call->host->parallel_for(call->host, sum_rows, (void *)call, n, 1);
  closure c = {call, call->arena};
  if (status == FORGE_OK) status = call->host->parallel_for(call->host, add_rows, &c, n, 2);
  int64_t total = 0;
  for (int64_t i = 0; i < 2 * k + 1; i++) total += ((const int64_t *)call->inputs[2])[i];
  *(int64_t *)call->outputs[1] = total;
  return status;
}

static int64_t arena_size(const int64_t *symbols) { return 4 * symbols[0]; }
static void dims(const int64_t *symbols, int64_t *values) { values[0] = 2 * symbols[1] + 1; }

static const char *const symbol_names[] = {"n", "k"};
static const forge_tensor_spec inputs[] = {FLOAT("x", SYMBOL(0), {4, 0}), FLOAT("y", SYMBOL(0), SYMBOL(1)),
                                           {"z", FORGE_INT64, 1, {EXPRESSION(0)}, NULL}};
static const forge_tensor_spec outputs[] = {FLOAT("rows", SYMBOL(0), {4, 0}), {"total", FORGE_INT64, 0, {{0, 0}}, NULL}};
static const _Alignas(64) float weights[4] = {1, 2, 3, 4};
static const forge_model model = {.abi_version = FORGE_ABI_VERSION, .n_inputs = 3, .n_outputs = 2, .n_symbols = 2, .n_dims = 1,
                                  .name = "rows", .cpu_features = FEATURES, .symbol_names = symbol_names, .inputs = inputs,
                                  .outputs = outputs, .weights = INSIDE ? weights : NULL, .weights_size = sizeof weights,
                                  .arena_size = arena_size, .dims = dims, .entry = entry};

#elif defined(MODEL_NONZERO)

static int32_t check(int64_t begin, int64_t end, void *data) {
  const forge_call *call = data;
  for (int64_t i = begin; i < end; i++)
    if (isnan(((const float *)call->inputs[0])[i])) {
      call->host->report_error(call->host, FORGE_ERROR_VALUE, "node 'NonZero_0': a value is NaN");
      return FORGE_ERROR_VALUE;
    }
  return FORGE_OK;
}

/* The positions of the values that are not zero: a size known only after the run. */
static int32_t entry(const forge_call *call) {
  const float *x = call->inputs[0];
  const int32_t status = call->host->parallel_for(call->host, check, (void *)call, call->symbols[0], 1);
  if (status != FORGE_OK) return status;
  int64_t count = 0;
  for (int64_t i = 0; i < call->symbols[0]; i++) count += x[i] != 0;
  forge_tensor *out = &call->out[0];
  out->capacity = 8 * count + 8;
  int64_t *positions = out->data = call->host->alloc(call->host, (size_t)out->capacity, 8);
  if (positions == NULL) return FORGE_ERROR_MEMORY;
  out->ndim = 1;
  out->shape[0] = count;
  for (int64_t i = 0; i < call->symbols[0]; i++)
    if (x[i] != 0) *positions++ = i;
  return FORGE_OK;
}

static const char *const symbol_names[] = {"n", "found"};
static const forge_tensor_spec inputs[] = {FLOAT("x", SYMBOL(0))};
static const forge_tensor_spec outputs[] = {{"positions", FORGE_INT64, 1, {SYMBOL(1)}, NULL}};
static const forge_model model = {.abi_version = FORGE_ABI_VERSION, .n_inputs = 1, .n_outputs = 1, .n_symbols = 2, .name = "nonzero",
                                  .cpu_features = FEATURES, .symbol_names = symbol_names, .inputs = inputs, .outputs = outputs,
                                  .entry = entry};

#elif defined(MODEL_NEGATE)

/* bfloat16: flips the sign bit. */
static int32_t entry(const forge_call *call) {
  for (int64_t i = 0; i < call->symbols[0]; i++)
    ((uint16_t *)call->outputs[0])[i] = ((const uint16_t *)call->inputs[0])[i] ^ 0x8000u;
  return FORGE_OK;
}

static const char *const symbol_names[] = {"n"};
static const forge_tensor_spec inputs[] = {{"x", FORGE_BFLOAT16, 1, {SYMBOL(0)}, NULL}};
static const forge_tensor_spec outputs[] = {{"y", FORGE_BFLOAT16, 1, {SYMBOL(0)}, NULL}};
static const forge_model model = {.abi_version = FORGE_ABI_VERSION, .n_inputs = 1, .n_outputs = 1, .n_symbols = 1, .name = "negate",
                                  .cpu_features = FEATURES, .symbol_names = symbol_names, .inputs = inputs, .outputs = outputs,
                                  .entry = entry};

#elif defined(MODEL_PATIENT)

/* Asks x[0] million times whether it may go on, holding 1000 bytes; y = x. */
static int32_t entry(const forge_call *call) {
  const forge_call_host *host = (const forge_call_host *)call->host;
  int32_t status = call->host->heap_alloc(call->host, 1000) ? FORGE_OK : FORGE_ERROR_MEMORY;
  for (float k = ((const float *)call->inputs[0])[0]; status == FORGE_OK && k > 0; k -= 1)
    for (int32_t i = 0; status == FORGE_OK && i < 1000000; i++) status = host->proceed(call->host, FORGE_OK);
  if (status == FORGE_OK) memcpy(call->outputs[0], call->inputs[0], sizeof(float));
  return status;
}

static const forge_tensor_spec inputs[] = {FLOAT("x", {1, 0})};
static const forge_tensor_spec outputs[] = {FLOAT("y", {1, 0})};
static const forge_model model = {.abi_version = FORGE_ABI_VERSION, .n_inputs = 1, .n_outputs = 1, .name = "patient",
                                  .cpu_features = FEATURES, .inputs = inputs, .outputs = outputs, .entry = entry};

#elif defined(MODEL_SESSIONS)

#include "session_model.h"
#define model MAIN

#endif

const forge_model *forge_model_get(void) { return &model; }
