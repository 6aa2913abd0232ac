/* Registered functions: calls from many threads while others register, replace and remove them; errors; hosts that have functions of
 * their own. Usage: functions ROUNDS. Exits with 0 if all is as promised.
 */
#include "forge_runtime.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLERS = 4, LENGTH = 3 };

#define REQUIRE(condition) \
  if (!(condition)) { fprintf(stderr, "line %d: %s\n", __LINE__, #condition); exit(1); }

/* A model that calls "work" on its input; the output is the function's destination. */
static const forge_control WORK = {.kind = FORGE_CALL_REGISTERED, .name = "here in layer", .function = "work"};

static int32_t entry(const forge_call *call) {
  const forge_tensor in = {.data = call->inputs[0], .dtype = FORGE_FLOAT32, .ndim = 1, .shape = {call->symbols[0]}};
  forge_tensor out = {.data = call->outputs[0], .dtype = FORGE_FLOAT32, .ndim = 1, .shape = {call->symbols[0]}};
  return call->host->run_control(call->host, &WORK, call->weights, &in, 1, &out, 1);
}

static const char *const SYMBOLS[] = {"n"};
static const char *const NEEDED[] = {"work", "print"};
static const forge_tensor_spec IN[] = {{"x", FORGE_FLOAT32, 1, {{-1, 0}}, NULL}};
static const forge_tensor_spec OUT[] = {{"y", FORGE_FLOAT32, 1, {{-1, 0}}, NULL}};
static const forge_model MODEL = {.abi_version = FORGE_ABI_VERSION, .n_inputs = 1, .n_outputs = 1, .n_symbols = 1, .name = "calls",
                                  .cpu_features = "", .symbol_names = SYMBOLS, .inputs = IN, .outputs = OUT, .entry = entry,
                                  .function = "main", .registered = NEEDED, .n_registered = 2};

/* Writes the input times the factor at `state`, which must fit the function: `twice` only ever has that of 2. */
static int32_t scaled(float expected, const float *factor, const forge_tensor *in, forge_tensor *out) {
  if (*factor != expected || out->capacity != (int64_t)sizeof(float) * in->shape[0]) return 77;
  for (int64_t i = 0; i < in->shape[0]; i++)
    ((float *)out->data)[i] = *factor * ((const float *)in->data)[i];
  return FORGE_OK;
}

static int32_t twice(void *state, const forge_tensor *in, int32_t n_in, forge_tensor *out, int32_t n_out, forge_error *error) {
  (void)n_in, (void)n_out, (void)error;
  return scaled(2, state, in, out);
}

static int32_t thrice(void *state, const forge_tensor *in, int32_t n_in, forge_tensor *out, int32_t n_out, forge_error *error) {
  (void)n_in, (void)n_out, (void)error;
  return scaled(3, state, in, out);
}

static int32_t refuse(void *state, const forge_tensor *in, int32_t n_in, forge_tensor *out, int32_t n_out, forge_error *error) {
  (void)state, (void)in, (void)n_in, (void)out, (void)n_out;
  snprintf(error->message, sizeof error->message, "it is closed on Mondays");
  return FORGE_ERROR_VALUE;
}

/* Calls the model from within, on its own input. */
static int32_t again(void *state, const forge_tensor *in, int32_t n_in, forge_tensor *out, int32_t n_out, forge_error *error) {
  (void)n_in, (void)n_out;
  int *depth = state;
  if ((*depth)-- > 0) return forge_run(&MODEL, in, out, NULL, error);
  memcpy(out->data, in->data, sizeof(float) * LENGTH);
  return FORGE_OK;
}

static int32_t host_call(const forge_host *host, const char *name, const forge_tensor *in, int32_t n_in, forge_tensor *out,
                         int32_t n_out) {
  (void)n_in, (void)n_out;
  REQUIRE(strcmp(name, "work") == 0);
  return scaled(5, host->state, in, out);
}

static float TWO = 2, THREE = 3;

static int32_t run(const forge_host *host, const forge_limits *limits, float *y, forge_error *error) {
  static float x[LENGTH] = {1, 2, 3};
  const forge_tensor in = {.data = x, .dtype = FORGE_FLOAT32, .ndim = 1, .shape = {LENGTH}};
  forge_tensor out = {.data = y, .capacity = sizeof x};
  return forge_run_limited(&MODEL, &in, &out, host, limits, error);
}

static void expect(const char *message, int32_t status) {
  float y[LENGTH];
  forge_error error;
  REQUIRE(run(NULL, NULL, y, &error) == status);
  if (strcmp(error.message, message)) fprintf(stderr, "got %s\n", error.message);
  REQUIRE(strcmp(error.message, message) == 0);
}

static void check_loading(void) {
  forge_error error;
  REQUIRE(forge_prepare(&MODEL, &error) == NULL && error.status == FORGE_ERROR_FUNCTION);
  REQUIRE(strstr(error.message, "2 of the functions that it calls are not registered: 'work', 'print'; register them before"));
  REQUIRE(forge_register("print", refuse, NULL, 0, &error) == FORGE_OK);
  REQUIRE(forge_prepare(&MODEL, &error) == NULL && strstr(error.message, "1 of the functions that it calls are not registered: 'work';"));
  REQUIRE(forge_register("work", twice, &TWO, 0, &error) == FORGE_OK && error.status == FORGE_OK);
  forge_model *model = forge_prepare(&MODEL, &error);
  REQUIRE(model != NULL);
  forge_release(model);
}

static void check_long_lists(void) {
  static char names[100][32];
  const char *table[100];
  forge_error error;
  for (int i = 0; i < 100; i++) {
    snprintf(names[i], sizeof names[i], "function_%03d", i);
    table[i] = names[i];
  }
  forge_model model = MODEL;
  model.registered = table;
  model.n_registered = 100;
  REQUIRE(forge_prepare(&model, &error) == NULL && strstr(error.message, "100 of the functions"));
  REQUIRE(strstr(error.message, "'function_039' and more; register them"));
}

static void check_errors(void) {
  forge_error error;
  float y[LENGTH];
  REQUIRE(forge_register("work", thrice, &THREE, 0, &error) == FORGE_ERROR_FUNCTION);
  REQUIRE(strcmp(error.message, "forge_register: 'work' is registered already; pass override to replace it") == 0);
  REQUIRE(forge_register("", thrice, &THREE, 0, &error) == FORGE_ERROR_INPUT);
  REQUIRE(run(NULL, NULL, y, &error) == FORGE_OK && y[2] == 6);
  REQUIRE(forge_register("work", thrice, &THREE, 1, NULL) == FORGE_OK);
  REQUIRE(run(NULL, NULL, y, &error) == FORGE_OK && y[2] == 9);
  REQUIRE(forge_register("work", refuse, NULL, 1, NULL) == FORGE_OK);
  expect("model 'calls': node here in layer (call_registered): the function 'work': it is closed on Mondays", FORGE_ERROR_VALUE);
  REQUIRE(forge_register("work", twice, &THREE, 1, NULL) == FORGE_OK);
  expect("model 'calls': node here in layer (call_registered): the function 'work' failed with status 77", FORGE_ERROR_FUNCTION);
  REQUIRE(forge_register("work", NULL, NULL, 1, NULL) == FORGE_OK);
  expect("model 'calls': node here in layer (call_registered): the function 'work': it is registered as one that the host has, but "
         "call_registered of the host is NULL", FORGE_ERROR_FUNCTION);
  REQUIRE(forge_unregister("work", NULL) == FORGE_OK && forge_unregister("work", &error) == FORGE_ERROR_FUNCTION);
  REQUIRE(strcmp(error.message, "forge_unregister: no function is registered as 'work'") == 0);
  expect("model 'calls': node here in layer (call_registered): the function 'work': it is not registered any more; register it again",
         FORGE_ERROR_FUNCTION);
}

static void check_host(void) {
  float y[LENGTH], five = 5;
  forge_error error;
  forge_host host = *forge_default_host();
  host.state = &five;
  host.parallel_for = NULL;
  host.call_registered = host_call;
  const forge_limits limits = {.memory = 1 << 20};
  REQUIRE(run(&host, NULL, y, &error) == FORGE_OK && y[2] == 15);
  REQUIRE(run(&host, &limits, y, &error) == FORGE_OK && y[2] == 15);
  five = 6;
  REQUIRE(run(&host, NULL, y, &error) == FORGE_ERROR_FUNCTION && strstr(error.message, "'work' failed with status 77"));
}

static int32_t stop_now(void *state) { return *(int *)state; }

static void check_nesting_and_stopping(void) {
  float y[LENGTH];
  forge_error error;
  int depth = 5, stop = 1;
  REQUIRE(forge_register("work", again, &depth, 1, NULL) == FORGE_OK);
  REQUIRE(run(NULL, NULL, y, &error) == FORGE_OK && y[2] == 3 && depth == -1);
  depth = 0;
  const forge_limits limits = {.nanoseconds = 1, .interrupted = stop_now, .state = &stop};
  REQUIRE(run(NULL, &limits, y, &error) == FORGE_ERROR_STOPPED || error.status == FORGE_ERROR_TIME_LIMIT);
}

static int rounds;
static bool done;

static void *call_often(void *unused) {
  (void)unused;
  float y[LENGTH];
  forge_error error;
  for (int i = 0; i < 200 * rounds; i++) {
    const int32_t status = run(NULL, NULL, y, &error);
    REQUIRE(status == FORGE_OK ? y[2] == 6 || y[2] == 9 : strstr(error.message, "not registered any more") != NULL);
  }
  return NULL;
}

static void *change_often(void *unused) {
  (void)unused;
  char name[32];
  for (int i = 0; !__atomic_load_n(&done, __ATOMIC_ACQUIRE); i++) {
    (void)forge_register("work", i % 2 ? twice : thrice, i % 2 ? &TWO : &THREE, 1, NULL);
    if (i % 7 == 0) (void)forge_unregister("work", NULL);
    snprintf(name, sizeof name, "other %d", i % 999);
    REQUIRE(forge_register(name, refuse, NULL, 1, NULL) == FORGE_OK);
  }
  return NULL;
}

static void check_threads(void) {
  pthread_t callers[CALLERS], writers[2];
  REQUIRE(forge_register("work", twice, &TWO, 1, NULL) == FORGE_OK);
  for (int i = 0; i < 2; i++) REQUIRE(pthread_create(&writers[i], NULL, change_often, NULL) == 0);
  for (int i = 0; i < CALLERS; i++) REQUIRE(pthread_create(&callers[i], NULL, call_often, NULL) == 0);
  for (int i = 0; i < CALLERS; i++) pthread_join(callers[i], NULL);
  __atomic_store_n(&done, true, __ATOMIC_RELEASE);
  for (int i = 0; i < 2; i++) pthread_join(writers[i], NULL);
}

int main(int argc, char **argv) {
  rounds = argc > 1 ? atoi(argv[1]) : 1;
  check_loading();
  check_long_lists();
  check_errors();
  check_host();
  check_nesting_and_stopping();
  check_threads();
  return 0;
}
