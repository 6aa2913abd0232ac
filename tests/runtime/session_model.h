/* A hand-written library of six functions with states, for the tests of sessions. */
#include "forge_runtime.h"
#include <math.h>
#include <string.h>

#define VECTOR(name, type, size, symbol) {name, type, 1, {{size, symbol}}, NULL}
#define ROWS(name, size, symbol) {name, FORGE_FLOAT32, 2, {{size, symbol}, {2, 0}}, NULL}
#define COUNT(table) ((int32_t)(sizeof(table) / sizeof *(table)))

enum { LOG, TOTAL, GAIN, FOUND, HALF, SUMS, N_SUMS = 1025 };
static const forge_state_spec STATES[] = {
    {"log", FORGE_FLOAT32, 2, {2, -1}, {0}, {1, 0}, -1},
    {"total", FORGE_FLOAT32, 1, {1}, {0}, {0}, -1},
    {"gain", FORGE_FLOAT32, 1, {2}, {2}, {0}, 64},
    {"found", FORGE_INT64, 1, {-1}, {0}, {0}, -1},
    {"half", FORGE_BFLOAT16, 1, {-1}, {0}, {0}, -1},
    {"sums", FORGE_FLOAT32, 1, {N_SUMS}, {0}, {0}, -1},
};

static const _Alignas(64) float WEIGHTS[18] = {[16] = 10, [17] = 100};

static int32_t fail(const forge_call *call, int32_t status, const char *message) {
  call->host->report_error(call->host, status, message);
  return status;
}

/* main: appends gain * x to the log, adds x[0] to total; y[i] = sum(log[i, :]), and total last. NaN fails after total was written. */
static int32_t append_row(const forge_call *call) {
  const float *x = call->inputs[1], *gain = call->inputs[3];
  float *log = call->outputs[1], *total = call->outputs[2], *y = call->outputs[0];
  const int64_t n = call->symbols[0];
  if (call->inputs[0] != call->outputs[1] || call->inputs[2] != call->outputs[2])
    return fail(call, FORGE_ERROR_INTERNAL, "states do not share memory");
  *total += x[0];
  if (isnan(x[0])) return fail(call, FORGE_ERROR_VALUE, "x is not a number");
  for (int32_t k = 0; k < 2; k++)
    log[2 * n + k] = gain[k] * x[k];
  for (int64_t i = 0; i <= n; i++)
    y[i] = log[2 * i] + log[2 * i + 1];
  y[n + 1] = *total;
  return FORGE_OK;
}

static void append_dims(const int64_t *symbols, int64_t *values) {
  values[0] = symbols[0] + 1;
  values[1] = symbols[0] + 2;
}

static const char *const N[] = {"n", "found"};
static const forge_tensor_spec MAIN_IN[] = {ROWS("log", -1, 0), VECTOR("x", FORGE_FLOAT32, 2, 0),
                                            VECTOR("total", FORGE_FLOAT32, 1, 0), VECTOR("gain", FORGE_FLOAT32, 2, 0)};
static const forge_tensor_spec MAIN_OUT[] = {VECTOR("y", FORGE_FLOAT32, -2, 1), ROWS("log_after", -2, 0),
                                             VECTOR("total_after", FORGE_FLOAT32, 1, 0)};
static const forge_binding MAIN_STATES[] = {
    {LOG, 0, 1, FORGE_STATE_APPENDED}, {TOTAL, 2, 2, FORGE_STATE_IN_PLACE}, {GAIN, 3, -1, FORGE_STATE_REPLACED}};

/* tune: gain = new. */
static int32_t set_gain(const forge_call *call) {
  memcpy(call->outputs[0], call->inputs[0], 2 * sizeof(float));
  return FORGE_OK;
}

static const forge_tensor_spec TUNE_IN[] = {VECTOR("new", FORGE_FLOAT32, 2, 0)};
static const forge_binding TUNE_STATES[] = {{GAIN, -1, 0, FORGE_STATE_REPLACED}};

/* find: found = the positions in x of what is not 0; count: of those found before. A size known only after the run. */
static int32_t find(const forge_call *call) {
  const float *x = call->inputs[1];
  int64_t count = 0;
  for (int64_t i = 0; i < call->symbols[0]; i++)
    count += x[i] != 0;
  forge_tensor *out = &call->out[0];
  out->capacity = 8 * count + 8;
  int64_t *positions = out->data = call->host->alloc(call->host, (size_t)out->capacity, FORGE_ALIGNMENT);
  if (positions == NULL) return FORGE_ERROR_MEMORY;
  out->ndim = 1;
  out->shape[0] = count;
  for (int64_t i = 0; i < call->symbols[0]; i++)
    if (x[i] != 0) *positions++ = i;
  *(int64_t *)call->outputs[1] = call->symbols[1];
  return FORGE_OK;
}

static const char *const FIND_NAMES[] = {"n", "before", "after"};
static const forge_tensor_spec FIND_IN[] = {VECTOR("found", FORGE_INT64, -1, 1), VECTOR("x", FORGE_FLOAT32, -1, 0)};
static const forge_tensor_spec FIND_OUT[] = {VECTOR("found", FORGE_INT64, -1, 2), {"count", FORGE_INT64, 0, {{0, 0}}, NULL}};
static const forge_binding FIND_STATES[] = {{FOUND, 0, 0, FORGE_STATE_REPLACED}};

/* halve: y = half, half = upper halves of x. */
static int32_t halve(const forge_call *call) {
  for (int64_t i = 0; i < call->symbols[0]; i++) {
    ((uint16_t *)call->outputs[0])[i] = ((const uint16_t *)call->inputs[1])[i];
    ((uint16_t *)call->outputs[1])[i] = (uint16_t)(((const uint32_t *)call->inputs[0])[i] >> 16);
  }
  return FORGE_OK;
}

static const forge_tensor_spec HALVE_IN[] = {VECTOR("x", FORGE_FLOAT32, -1, 0), VECTOR("half", FORGE_BFLOAT16, -1, 0)};
static const forge_tensor_spec HALVE_OUT[] = {VECTOR("y", FORGE_BFLOAT16, -1, 0), VECTOR("half", FORGE_BFLOAT16, -1, 0)};
static const forge_binding HALVE_STATES[] = {{HALF, 1, 1, FORGE_STATE_REPLACED}};

/* double: y = 2 x + w in the memory of x. */
static int32_t twice(const forge_call *call) {
  if (call->inputs[0] != call->outputs[0]) return fail(call, FORGE_ERROR_INTERNAL, "x and y do not share memory");
  for (int64_t i = 0; i < call->symbols[0]; i++)
    ((float *)call->outputs[0])[i] = 2 * ((const float *)call->inputs[0])[i] + ((const float *)call->inputs[1])[i];
  return FORGE_OK;
}

static const forge_tensor_spec DOUBLE_IN[] = {VECTOR("x", FORGE_FLOAT32, -1, 0), VECTOR("w", FORGE_FLOAT32, -1, 0)};
static const forge_tensor_spec DOUBLE_OUT[] = {VECTOR("y", FORGE_FLOAT32, -1, 0)};
static const int32_t DOUBLE_DONATED[] = {0};

/* sum: adds x[0] to all sums; y = sums[0]. NaN fails after half of them. */
static int32_t sum(const forge_call *call) {
  float *sums = call->outputs[1];
  const float x = *(const float *)call->inputs[1];
  if (call->inputs[0] != call->outputs[1]) return fail(call, FORGE_ERROR_INTERNAL, "the sums do not share memory");
  for (int32_t i = 0; i < N_SUMS; i++) {
    if (isnan(x) && i == N_SUMS / 2) return fail(call, FORGE_ERROR_VALUE, "x is not a number");
    sums[i] += x;
  }
  *(float *)call->outputs[0] = sums[0];
  return FORGE_OK;
}

static const forge_tensor_spec SUM_IN[] = {VECTOR("sums", FORGE_FLOAT32, N_SUMS, 0), VECTOR("x", FORGE_FLOAT32, 1, 0)};
static const forge_tensor_spec SUM_OUT[] = {VECTOR("y", FORGE_FLOAT32, 1, 0), VECTOR("sums", FORGE_FLOAT32, N_SUMS, 0)};
static const forge_binding SUM_STATES[] = {{SUMS, 0, 1, FORGE_STATE_IN_PLACE}};

static const forge_model *const FUNCTIONS[6];

#define FUNCTION(title, names, ins, outs, run, ...)                                                                        \
  {.abi_version = FORGE_ABI_VERSION, .n_inputs = COUNT(ins), .n_outputs = COUNT(outs), .n_symbols = COUNT(names),            \
   .name = "notes", .cpu_features = "", .symbol_names = names, .inputs = ins, .outputs = outs, .weights = WEIGHTS,            \
   .weights_size = sizeof WEIGHTS, .entry = run, .function = title, .functions = FUNCTIONS, .states = STATES,                 \
   .n_functions = COUNT(FUNCTIONS), .n_states = COUNT(STATES), __VA_ARGS__}

static const forge_model MAIN = FUNCTION("main", N, MAIN_IN, MAIN_OUT, append_row, .n_dims = 2, .dims = append_dims,
                                         .bindings = MAIN_STATES, .n_bindings = COUNT(MAIN_STATES));
static const forge_model TUNE = FUNCTION("tune", N, TUNE_IN, TUNE_IN, set_gain, .bindings = TUNE_STATES, .n_bindings = 1);
static const forge_model FIND = FUNCTION("find", FIND_NAMES, FIND_IN, FIND_OUT, find, .bindings = FIND_STATES, .n_bindings = 1);
static const forge_model HALVE = FUNCTION("halve", N, HALVE_IN, HALVE_OUT, halve, .bindings = HALVE_STATES, .n_bindings = 1);
static const forge_model DOUBLE = FUNCTION("double", N, DOUBLE_IN, DOUBLE_OUT, twice, .donated = DOUBLE_DONATED);
static const forge_model SUM = FUNCTION("sum", N, SUM_IN, SUM_OUT, sum, .bindings = SUM_STATES, .n_bindings = 1);
static const forge_model *const FUNCTIONS[6] = {&MAIN, &TUNE, &FIND, &HALVE, &DOUBLE, &SUM};
