/* Runs control flow whose regions are written here, with memory that runs out at every possible place and regions that fail at
 * every possible one. Usage: control ROUNDS. Exits with 0 if results are right and every byte was given back.
 */
#include "forge_runtime.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLERS = 4, LENGTH = 3, NEVER = 1 << 30 };

#define REQUIRE(condition) \
  if (!(condition)) { fprintf(stderr, "line %d: %s\n", __LINE__, #condition); exit(1); }

/* A host that counts, and refuses one request. */
typedef struct {
  int32_t live, requests, refused;
} account;

static void *take(const forge_host *host, size_t bytes, size_t alignment) {
  account *a = host->state;
  if (a->requests++ == a->refused) return NULL;
  a->live++;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void give(const forge_host *host, void *memory, size_t bytes) {
  account *a = host->state;
  memset(memory, 0xee, bytes);
  a->live--;
  free(memory);
}

static int64_t no_arena(const int64_t *symbols) {
  (void)symbols;
  return 0;
}

static const char *const NAMES[] = {"given", "late"};

#define SCALAR(name, type) {name, type, 0, {{0, 0}}, NULL}
#define VECTOR(name, symbol) {name, FORGE_FLOAT32, 1, {{-1, symbol}}, NULL}
#define FIXED(name, size) {name, FORGE_FLOAT32, 1, {{size, 0}}, NULL}
#define MODEL(title, ins, outs, symbols, function)                                                               \
  {.abi_version = FORGE_ABI_VERSION, .n_inputs = sizeof ins / sizeof *ins, .n_outputs = sizeof outs / sizeof *outs,       \
   .n_symbols = symbols, .name = title, .cpu_features = "", .symbol_names = NAMES, .inputs = ins, .outputs = outs,        \
   .arena_size = no_arena, .entry = function}

/* body(iteration, condition, list, fail_at): the list with the iteration appended, [iteration, length]. */
static int32_t grow(const forge_call *call) {
  const int64_t iteration = *(const int64_t *)call->inputs[0], length = call->symbols[0];
  forge_tensor *list = &call->out[1];
  const size_t bytes = sizeof(float) * (size_t)(length + 1);
  list->data = call->host->alloc(call->host, bytes, FORGE_ALIGNMENT);
  if (list->data == NULL) return FORGE_ERROR_MEMORY;
  list->capacity = (int64_t)bytes;
  list->ndim = 1;
  list->shape[0] = length + 1;
  memcpy(list->data, call->inputs[2], sizeof(float) * (size_t)length);
  ((float *)list->data)[length] = (float)iteration;
  ((float *)call->outputs[2])[0] = (float)iteration;
  ((float *)call->outputs[2])[1] = (float)length;
  *(uint8_t *)call->outputs[0] = length < 6;
  if (iteration != *(const int64_t *)call->inputs[3]) return FORGE_OK;
  call->host->report_error(call->host, FORGE_ERROR_VALUE, "body: asked to fail");
  return FORGE_ERROR_VALUE;
}

static const forge_tensor_spec GROW_IN[] = {SCALAR("i", FORGE_INT64), SCALAR("c", FORGE_BOOL), VECTOR("list", 0), SCALAR("f", FORGE_INT64)};
static const forge_tensor_spec GROW_OUT[] = {SCALAR("c", FORGE_BOOL), VECTOR("list", 1), FIXED("pair", 2)};
static const forge_model GROW = MODEL("grow", GROW_IN, GROW_OUT, 2, grow);
static const forge_control LOOP = {FORGE_LOOP, FORGE_LOOP_TRIPS | FORGE_LOOP_CONDITION, 1, 0, NULL, {&GROW, NULL}, "grows", 0, NULL};

/* body(total, slice, fail_at): total + slice, its copy. */
static int32_t add(const forge_call *call) {
  const float *total = call->inputs[0], *slice = call->inputs[1];
  for (int d = 0; d < 2; d++) ((float *)call->outputs[0])[d] = ((float *)call->outputs[1])[d] = total[d] + slice[d];
  return slice[0] == (float)*(const int64_t *)call->inputs[2] ? FORGE_ERROR_VALUE : FORGE_OK;
}

static const forge_tensor_spec ADD_IN[] = {FIXED("total", 2), FIXED("slice", 2), SCALAR("f", FORGE_INT64)};
static const forge_tensor_spec ADD_OUT[] = {FIXED("total", 2), FIXED("row", 2)};
static const forge_model ADD = MODEL("add", ADD_IN, ADD_OUT, 0, add);
static const uint8_t BACKWARDS[] = {1, 1};
static const forge_control SCAN = {FORGE_SCAN, 0, 1, 1, BACKWARDS, {&ADD, NULL}, "adds", 0, NULL};

/* Takes the descriptors of a control-flow node apart as the entry of a model would. */
static forge_tensor tensor(void *data, int32_t dtype, int32_t ndim, int64_t rows, int64_t columns) {
  return (forge_tensor){data, dtype, ndim, {rows, columns}, 0};
}

/* run(list, fail_at): the loop, then a scan over what it stacked. */
static int32_t loop_and_scan(const forge_call *call) {
  const forge_host *host = call->host;
  int64_t trips = LENGTH;
  uint8_t condition = 1;
  float zeros[2] = {0, 0};
  const forge_tensor fail_at = tensor(call->inputs[1], FORGE_INT64, 0, 0, 0);
  const forge_tensor loop_in[] = {tensor(&trips, FORGE_INT64, 0, 0, 0), tensor(&condition, FORGE_BOOL, 0, 0, 0),
                                  tensor(call->inputs[0], FORGE_FLOAT32, 1, call->symbols[0], 0), fail_at};
  forge_tensor made[] = {tensor(NULL, FORGE_FLOAT32, 1, -1, 0), tensor(NULL, FORGE_FLOAT32, 2, -1, 2)};
  int32_t status = host->run_control(host, &LOOP, NULL, loop_in, 4, made, 2);
  if (status) return status;
  int64_t later = *(const int64_t *)call->inputs[1] - 10;
  const forge_tensor scan_in[] = {tensor(zeros, FORGE_FLOAT32, 1, 2, 0), made[1], tensor(&later, FORGE_INT64, 0, 0, 0)};
  forge_tensor rows[] = {tensor(NULL, FORGE_FLOAT32, 1, 2, 0), tensor(NULL, FORGE_FLOAT32, 2, made[1].shape[0], 2)};
  status = host->run_control(host, &SCAN, NULL, scan_in, 3, rows, 2);
  forge_free_output(host, &made[1]);
  if (status) {
    forge_free_output(host, &made[0]);
    return status;
  }
  call->out[0] = made[0];
  call->out[1] = rows[0];
  call->out[2] = rows[1];
  return FORGE_OK;
}

static const forge_tensor_spec RUN_IN[] = {VECTOR("list", 0), SCALAR("f", FORGE_INT64)};
static const forge_tensor_spec RUN_OUT[] = {VECTOR("list", 1), VECTOR("total", 1), {"rows", FORGE_FLOAT32, 2, {{-1, 1}, {2, 0}}, NULL}};
static const forge_model RUN = MODEL("run", RUN_IN, RUN_OUT, 2, loop_and_scan);

/* chosen(condition, x, fail_at): then: run; else: a failure. */
static int32_t refuse(const forge_call *call) {
  (void)call;
  return FORGE_ERROR_VALUE;
}

static const forge_model REFUSE = MODEL("refuse", RUN_IN, RUN_OUT, 2, refuse);
static const forge_control CHOICE = {FORGE_IF, 0, 0, 0, NULL, {&RUN, &REFUSE}, "chooses", 0, NULL};

static int32_t choose(const forge_call *call) {
  const forge_tensor in[] = {tensor(call->inputs[0], FORGE_BOOL, 0, 0, 0),
                             tensor(call->inputs[1], FORGE_FLOAT32, 1, call->symbols[0], 0),
                             tensor(call->inputs[2], FORGE_INT64, 0, 0, 0)};
  forge_tensor out[] = {tensor(NULL, FORGE_FLOAT32, 1, -1, 0), tensor(NULL, FORGE_FLOAT32, 1, 2, 0),
                        tensor(NULL, FORGE_FLOAT32, 2, -1, 2)};
  const int32_t status = call->host->run_control(call->host, &CHOICE, NULL, in, 3, out, 3);
  if (status == FORGE_OK) memcpy(call->out, out, sizeof out);
  return status;
}

static const forge_tensor_spec TOP_IN[] = {SCALAR("c", FORGE_BOOL), VECTOR("list", 0), SCALAR("f", FORGE_INT64)};
static const forge_model TOP = MODEL("top", TOP_IN, RUN_OUT, 2, choose);

static int32_t call_top(const forge_host *host, uint8_t condition, int64_t fail_at, int64_t length, forge_tensor *out) {
  float list[8] = {5, 5, 5, 5, 5, 5, 5, 5};
  const forge_tensor in[] = {tensor(&condition, FORGE_BOOL, 0, 0, 0), tensor(list, FORGE_FLOAT32, 1, length, 0),
                             tensor(&fail_at, FORGE_INT64, 0, 0, 0)};
  forge_error error;
  memset(out, 0, 3 * sizeof *out);
  const int32_t status = forge_run(&TOP, in, out, host, &error);
  REQUIRE(status == error.status && (status == FORGE_OK) == (error.message[0] == '\0'));
  for (int k = 0; k < 3; k++) REQUIRE((out[k].data != NULL) == (status == FORGE_OK));
  return status;
}

/* The loop appends 0, 1, .. while the list has fewer than 6 elements before; the scan sums [i, length] from the last. */
static void check_results(const forge_host *host, int64_t length, forge_tensor *out) {
  int64_t trips = 0;
  while (trips < LENGTH && (trips == 0 || length + trips - 1 < 6)) trips++;
  REQUIRE(out[0].shape[0] == length + trips && out[2].shape[0] == trips);
  for (int64_t i = 0; i < trips; i++) REQUIRE(((float *)out[0].data)[length + i] == (float)i);
  float sums[2] = {0, 0};
  for (int64_t i = trips - 1; i >= 0; i--) {
    sums[0] += (float)i;
    sums[1] += (float)(length + i);
    REQUIRE(memcmp((float *)out[2].data + 2 * i, sums, sizeof sums) == 0);
  }
  REQUIRE(memcmp(out[1].data, sums, sizeof sums) == 0);
  for (int k = 0; k < 3; k++) forge_free_output(host, &out[k]);
}

static void check_every_refusal(int64_t length) {
  forge_tensor out[3];
  account a = {.refused = NEVER};
  forge_host host = {.abi_version = FORGE_ABI_VERSION, .state = &a, .alloc = take, .free = give};
  REQUIRE(call_top(&host, 1, -1, length, out) == FORGE_OK);
  check_results(&host, length, out);
  const int32_t requests = a.requests;
  for (int32_t k = 0; k < requests; k++) {
    a = (account){.refused = k};
    REQUIRE(call_top(&host, 1, -1, length, out) == FORGE_ERROR_MEMORY && a.live == 0);
  }
  for (int64_t fail_at = 0; fail_at < LENGTH + 12; fail_at++) {
    a = (account){.refused = NEVER};
    const int32_t status = call_top(&host, 1, fail_at, length, out);
    if (status == FORGE_OK) check_results(&host, length, out);
    REQUIRE((status == FORGE_OK || status == FORGE_ERROR_VALUE) && a.live == 0);
  }
  REQUIRE(call_top(&host, 0, -1, length, out) == FORGE_ERROR_VALUE && a.live == 0);
}

static void *calls(void *argument) {
  const int32_t rounds = *(const int32_t *)argument;
  forge_tensor out[3];
  for (int32_t round = 0; round < rounds; round++) {
    const int64_t length = round % 8;
    REQUIRE(call_top(NULL, 1, -1, length, out) == FORGE_OK);
    check_results(forge_default_host(), length, out);
    REQUIRE(call_top(NULL, 1, 0, length, out) == FORGE_ERROR_VALUE);
  }
  return NULL;
}

int main(int argc, char **argv) {
  int32_t rounds = argc > 1 ? atoi(argv[1]) : 1;
  for (int64_t length = 0; length <= 7; length++) check_every_refusal(length);
  pthread_t threads[CALLERS];
  for (int k = 0; k < CALLERS; k++) REQUIRE(pthread_create(&threads[k], NULL, calls, &rounds) == 0);
  for (int k = 0; k < CALLERS; k++) pthread_join(threads[k], NULL);
  return 0;
}
