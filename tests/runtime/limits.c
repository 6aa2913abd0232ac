/* Calls with limits, stopped calls, and the floating-point environment of the threads of a call. Exits with 0 if all is as promised.
 * Usage: limits ROUNDS.
 */
#define _GNU_SOURCE
#include "forge_runtime.h"
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUIRE(condition) \
  if (!(condition)) { fprintf(stderr, "line %d: %s\n", __LINE__, #condition); exit(1); }

enum { COUNT = 64, ARENA = 1 << 20, LATE = 1000 };

static const forge_host *host;
static int64_t live;

static void *take(const forge_host *h, size_t bytes, size_t alignment) {
  (void)h;
  __atomic_fetch_add(&live, (int64_t)bytes, __ATOMIC_RELAXED);
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void give(const forge_host *h, void *memory, size_t bytes) {
  (void)h;
  __atomic_fetch_sub(&live, (int64_t)bytes, __ATOMIC_RELAXED);
  free(memory);
}

static int32_t proceed(const forge_call *call) { return ((const forge_call_host *)call->host)->proceed(call->host, FORGE_OK); }

/* Divides the input by 3. Every chunk waits until the caller and another thread have both begun one. */
typedef struct {
  const forge_call *call;
  pthread_t caller;
  int32_t is_here[2];
} division;

static int32_t divide(int64_t begin, int64_t end, void *closure) {
  division *d = closure;
  __atomic_store_n(&d->is_here[pthread_equal(d->caller, pthread_self()) != 0], 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&d->is_here[0], __ATOMIC_ACQUIRE) || !__atomic_load_n(&d->is_here[1], __ATOMIC_ACQUIRE)) sched_yield();
  for (int64_t i = begin; i < end; i++)
    ((volatile float *)d->call->outputs[0])[i] = ((const volatile float *)d->call->inputs[0])[i] / 3.0f;
  return FORGE_OK;
}

static int32_t divide_entry(const forge_call *call) {
  division d = {call, pthread_self(), {0, 0}};
  return call->host->parallel_for(call->host, divide, &d, COUNT, 1);
}

/* Runs for ever, or until it is stopped. */
static int32_t endless_entry(const forge_call *call) {
  for (;;) {
    const int32_t status = proceed(call);
    if (status != FORGE_OK) return status;
  }
}

/* A region that never ends: its trips do nothing. */
static int32_t trip(const forge_call *call) {
  *(uint8_t *)call->outputs[0] = 1;
  *(float *)call->outputs[1] = *(const float *)call->inputs[2] + 1;
  return FORGE_OK;
}

static int64_t no_arena(const int64_t *symbols) {
  (void)symbols;
  return 0;
}

static int64_t large_arena(const int64_t *symbols) {
  (void)symbols;
  return ARENA;
}

/* An output of LATE floats whose size is known only now. */
static int32_t late_entry(const forge_call *call) {
  forge_tensor *out = &call->out[0];
  out->capacity = LATE * (int64_t)sizeof(float);
  out->data = call->host->alloc(call->host, (size_t)out->capacity, FORGE_ALIGNMENT);
  if (out->data == NULL) {
    call->host->report_error(call->host, FORGE_ERROR_MEMORY, "no memory");
    return FORGE_ERROR_MEMORY;
  }
  out->ndim = 1;
  out->shape[0] = LATE;
  return call->host->heap_alloc(call->host, 100) ? FORGE_OK : FORGE_ERROR_MEMORY;
}

static const char *const NAMES[] = {"late"};
#define FIXED(name) {name, FORGE_FLOAT32, 1, {{COUNT, 0}}, NULL}
#define SCALAR(name, type) {name, type, 0, {{0, 0}}, NULL}
#define MODEL(version, title, ins, outs, symbols, arena, function)                                              \
  {.abi_version = version, .n_inputs = sizeof ins / sizeof *ins, .n_outputs = sizeof outs / sizeof *outs,        \
   .n_symbols = symbols, .name = title, .cpu_features = "", .symbol_names = NAMES, .inputs = ins, .outputs = outs, \
   .arena_size = arena, .entry = function}
static const forge_tensor_spec IN[] = {FIXED("x")}, OUT[] = {FIXED("y")};
static const forge_tensor_spec LATE_OUT[] = {{"y", FORGE_FLOAT32, 1, {{-1, 0}}, NULL}};
static const forge_model DIVIDE = MODEL(FORGE_ABI_VERSION, "divide", IN, OUT, 0, no_arena, divide_entry);
static const forge_model ENDLESS = MODEL(FORGE_ABI_VERSION, "endless", IN, OUT, 0, large_arena, endless_entry);
static const forge_model LATE_SIZE = MODEL(FORGE_ABI_VERSION, "late", IN, LATE_OUT, 1, no_arena, late_entry);

static const forge_tensor_spec TRIP_IN[] = {SCALAR("i", FORGE_INT64), SCALAR("c", FORGE_BOOL), SCALAR("v", FORGE_FLOAT32)};
static const forge_tensor_spec TRIP_OUT[] = {SCALAR("c", FORGE_BOOL), SCALAR("v", FORGE_FLOAT32)};
static const forge_model TRIP = MODEL(FORGE_ABI_VERSION, "trip", TRIP_IN, TRIP_OUT, 0, no_arena, trip);
static const forge_model OLD_TRIP = MODEL(FORGE_ABI_OLDEST, "old trip", TRIP_IN, TRIP_OUT, 0, no_arena, trip);
static const forge_control LOOP = {FORGE_LOOP, 0, 1, 0, NULL, {&TRIP, NULL}, "loop", 0, NULL};
static const forge_control OLD_LOOP = {FORGE_LOOP, 0, 1, 0, NULL, {&OLD_TRIP, NULL}, "loop", 0, NULL};

static int32_t loop_forever(const forge_call *call, const forge_control *loop) {
  float value = 0;
  const forge_tensor in = {.data = &value, .dtype = FORGE_FLOAT32};
  forge_tensor out = {.dtype = FORGE_FLOAT32};
  return call->host->run_control(call->host, loop, NULL, &in, 1, &out, 1);
}

static int32_t loop_entry(const forge_call *call) { return loop_forever(call, &LOOP); }
static int32_t old_loop_entry(const forge_call *call) { return loop_forever(call, &OLD_LOOP); }
static const forge_model LOOPING = MODEL(FORGE_ABI_VERSION, "looping", IN, OUT, 0, no_arena, loop_entry);
static const forge_model OLD_LOOPING = MODEL(FORGE_ABI_OLDEST, "old", IN, OUT, 0, no_arena, old_loop_entry);

static float x[COUNT];
static forge_error error;

/* The status of a call; on failure, nothing is left of it. */
static int32_t run(const forge_model *model, const forge_limits *limits) {
  const forge_tensor in = {x, FORGE_FLOAT32, 1, {COUNT}, 0};
  forge_tensor out = {0};
  const int64_t before = live;
  const int32_t status = forge_run_limited(model, &in, &out, host, limits, &error);
  REQUIRE(status == FORGE_OK || out.data == NULL);
  forge_free_output(host, &out);
  REQUIRE(live == before);
  return status;
}

static volatile int32_t stop;

static void on_signal(int number) {
  (void)number;
  stop = 1;
}

static void *stop_soon(void *argument) {
  (void)argument;
  usleep(2000);
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  return NULL;
}

static void stopping(void) {
  const forge_model *const models[] = {&ENDLESS, &LOOPING, &OLD_LOOPING};
  const forge_limits limits = {.stop = &stop};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    pthread_t thread;
    stop = 0;
    REQUIRE(pthread_create(&thread, NULL, stop_soon, NULL) == 0);
    REQUIRE(run(models[i], &limits) == FORGE_ERROR_STOPPED);
    pthread_join(thread, NULL);
    REQUIRE(run(models[i], &limits) == FORGE_ERROR_STOPPED); /* it is still set: nothing begins */
    stop = 0;
    REQUIRE(run(&LATE_SIZE, &limits) == FORGE_OK);
  }
  REQUIRE(strcmp(error.message, "") == 0);
  signal(SIGALRM, on_signal);
  ualarm(2000, 0);
  REQUIRE(run(&LOOPING, &limits) == FORGE_ERROR_STOPPED);
  REQUIRE(strcmp(error.message, "model 'looping': the call was stopped") == 0);
}

static int32_t third_time(void *state) { return ++*(int32_t *)state == 3; }

static void asking(void) {
  int32_t asked = 0;
  REQUIRE(run(&ENDLESS, &(forge_limits){.interrupted = third_time, .state = &asked}) == FORGE_ERROR_STOPPED && asked == 3);
  REQUIRE(run(&LATE_SIZE, &(forge_limits){.interrupted = third_time, .state = &asked}) == FORGE_OK && asked == 3);
}

static void time_limits(void) {
  const forge_model *const models[] = {&ENDLESS, &LOOPING, &OLD_LOOPING};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    REQUIRE(run(models[i], &(forge_limits){.nanoseconds = 1000000}) == FORGE_ERROR_TIME_LIMIT);
    REQUIRE(strstr(error.message, "time limit; not done after 0.0") && strstr(error.message, "expected at most 0.001 s"));
  }
  REQUIRE(run(&LATE_SIZE, &(forge_limits){.nanoseconds = INT64_MAX}) == FORGE_OK);
}

static void memory_limits(void) {
  const int64_t output = LATE * (int64_t)sizeof(float), heap = 4096;
  REQUIRE(run(&LATE_SIZE, &(forge_limits){.memory = output + heap}) == FORGE_OK);
  REQUIRE(run(&LATE_SIZE, &(forge_limits){.memory = output + heap - 1}) == FORGE_ERROR_MEMORY_LIMIT);
  REQUIRE(strstr(error.message, "model 'late': memory limit; needs 8096 bytes at once; expected at most 8095; raise"));
  REQUIRE(run(&LATE_SIZE, &(forge_limits){.memory = output - 1}) == FORGE_ERROR_MEMORY_LIMIT);
  REQUIRE(run(&ENDLESS, &(forge_limits){.memory = ARENA}) == FORGE_ERROR_MEMORY_LIMIT);
  REQUIRE(run(&ENDLESS, &(forge_limits){.memory = -1}) == FORGE_ERROR_INPUT);
  REQUIRE(run(&ENDLESS, &(forge_limits){.nanoseconds = -1}) == FORGE_ERROR_INPUT);
}

/* The result of one environment is the same for every element, whoever computes it; the flags are as before. */
static void check_environment(int32_t rounding) {
  float out[COUNT];
  const forge_tensor in = {x, FORGE_FLOAT32, 1, {COUNT}, 0};
  REQUIRE(fesetround(rounding) == 0);
  feclearexcept(FE_ALL_EXCEPT);
  forge_tensor y = {.data = out, .capacity = sizeof out};
  REQUIRE(forge_run(&DIVIDE, &in, &y, host, &error) == FORGE_OK);
  REQUIRE(fetestexcept(FE_ALL_EXCEPT) == 0 && fegetround() == rounding);
  for (int32_t i = 0; i < COUNT; i++) REQUIRE(out[i] == ((volatile float *)x)[i] / 3.0f);
  fesetround(FE_TONEAREST);
}

#if defined(__x86_64__)

enum { FLUSH = 0x8040, MASKS = 0x1f80 };

static void check_flushing(void) {
  const uint32_t before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | FLUSH);
  check_environment(FE_TONEAREST);
  REQUIRE((__builtin_ia32_stmxcsr() & FLUSH) == FLUSH);
  __builtin_ia32_ldmxcsr((before & ~(uint32_t)(MASKS | 0x3f)));
  x[0] = 0.1f;
  float out[COUNT];
  const forge_tensor in = {x, FORGE_FLOAT32, 1, {COUNT}, 0};
  forge_tensor y = {.data = out, .capacity = sizeof out};
  const int32_t status = forge_run(&DIVIDE, &in, &y, host, &error); /* inexact: would trap */
  REQUIRE((__builtin_ia32_stmxcsr() & (MASKS | 0x3f)) == 0);
  __builtin_ia32_ldmxcsr(before);
  REQUIRE(status == FORGE_OK);
}

#else

static void check_flushing(void) {}

#endif

static void environments(void) {
  const int32_t roundings[] = {FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};
  for (int32_t i = 0; i < COUNT; i++) x[i] = (float)(i + 1) * (i % 2 ? 1e-40f : 0.7f);
  for (int32_t i = 0; i < 4; i++) check_environment(roundings[i]);
  check_flushing();
}

int main(int argc, char **argv) {
  REQUIRE(argc == 2);
  forge_set_num_threads(2);
  forge_host own = *forge_default_host();
  own.alloc = take;
  own.free = give;
  own.abi_version = FORGE_ABI_OLDEST;
  host = &own;
  for (int32_t round = atoi(argv[1]); round > 0; round--) environments();
  stopping();
  asking();
  time_limits();
  memory_limits();
  return 0;
}
