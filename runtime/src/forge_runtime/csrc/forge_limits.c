/* Calls that can be stopped, and may take only so much memory and time. */
#define _GNU_SOURCE
#include "forge_invocation.h"
#include <time.h>

static const int64_t ASK_NANOSECONDS = 20000000; /* between two questions to forge_limits.interrupted */
static const int64_t SECOND = 1000000000;

enum { TRIPS_PER_CHECK = 16 }; /* a body that takes long is checked between its kernels too */

struct forge_watch {
  const forge_limits *limits;
  int32_t status;  /* why the call ends; FORGE_OK while it goes on */
  int32_t trips;   /* since the last check */
  clockid_t clock; /* a coarse one is four times as fast to read, but may lag by 10 ms */
  int64_t begun, ask, ended;
};

/* A host that counts what it gives, and gives no more than it may. */
typedef struct {
  forge_host host;
  const forge_host *outer;
  int64_t allowed;
  _Atomic int64_t used;
  _Atomic int64_t refused; /* the sum that was too much; 0: none was */
} metered_host;

static int64_t read_clock(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (int64_t)time.tv_sec * SECOND + time.tv_nsec;
}

static void begin_watch(forge_watch *watch, const forge_limits *limits) {
  *watch = (forge_watch){.limits = limits, .clock = limits->nanoseconds ? CLOCK_MONOTONIC : CLOCK_MONOTONIC_COARSE};
  if (limits->nanoseconds == 0 && limits->interrupted == NULL) return;
  watch->begun = read_clock(watch->clock);
  watch->ask = watch->begun + ASK_NANOSECONDS;
}

/* Asks whether the call is to end; the answer may take long. */
static bool is_interrupted(forge_watch *watch, int64_t now) {
  if (watch->limits->interrupted == NULL || now < watch->ask) return false;
  const bool interrupted = watch->limits->interrupted(watch->limits->state) != 0;
  watch->ask = read_clock(watch->clock) + ASK_NANOSECONDS;
  return interrupted;
}

static bool is_stopped(const forge_watch *watch) {
  return watch->limits->stop && __atomic_load_n(watch->limits->stop, __ATOMIC_RELAXED);
}

int32_t forge_watch_check(forge_watch *watch) {
  const forge_limits *limits = watch->limits;
  if (watch->status != FORGE_OK) return watch->status;
  watch->trips = 0;
  if (is_stopped(watch)) return watch->status = FORGE_ERROR_STOPPED;
  if (limits->nanoseconds == 0 && limits->interrupted == NULL) return FORGE_OK;
  const int64_t now = read_clock(watch->clock);
  if (is_interrupted(watch, now)) return watch->status = FORGE_ERROR_STOPPED;
  if (limits->nanoseconds == 0 || now - watch->begun <= limits->nanoseconds) return FORGE_OK;
  watch->ended = now;
  return watch->status = FORGE_ERROR_TIME_LIMIT;
}

int32_t forge_watch_trip(forge_watch *watch, const forge_model *body) {
  const bool checks_itself = body->abi_version > FORGE_ABI_OLDEST;
  return checks_itself && ++watch->trips < TRIPS_PER_CHECK && !is_stopped(watch) ? watch->status : forge_watch_check(watch);
}

static bool take(metered_host *meter, size_t bytes) {
  int64_t used = atomic_load(&meter->used), needed = 0;
  do {
    const bool absurd = __builtin_add_overflow(used, bytes, &needed);
    if (!absurd && needed <= meter->allowed) continue;
    atomic_store(&meter->refused, absurd ? INT64_MAX : needed);
    return false;
  } while (!atomic_compare_exchange_weak(&meter->used, &used, needed));
  return true;
}

static void *metered_alloc(const forge_host *host, size_t bytes, size_t alignment) {
  metered_host *meter = (metered_host *)(uintptr_t)host;
  if (!take(meter, bytes)) return NULL;
  void *memory = meter->outer->alloc(meter->outer, bytes, alignment);
  if (memory == NULL) atomic_fetch_sub(&meter->used, (int64_t)bytes);
  return memory;
}

static void metered_free(const forge_host *host, void *memory, size_t bytes) {
  metered_host *meter = (metered_host *)(uintptr_t)host;
  meter->outer->free(meter->outer, memory, bytes);
  if (memory) atomic_fetch_sub(&meter->used, (int64_t)bytes);
}

static int32_t metered_parallel_for(const forge_host *host, forge_parallel_body body, void *closure, int64_t count,
                                    int64_t grain) {
  const forge_host *outer = ((const metered_host *)host)->outer;
  return outer->parallel_for(outer, body, closure, count, grain);
}

static void metered_report_error(const forge_host *host, int32_t status, const char *message) {
  const forge_host *outer = ((const metered_host *)host)->outer;
  outer->report_error(outer, status, message);
}

static int32_t metered_call_registered(const forge_host *host, const char *name, const forge_tensor *in, int32_t n_in,
                                       forge_tensor *out, int32_t n_out) {
  const forge_host *outer = ((const metered_host *)host)->outer;
  return outer->call_registered(outer, name, in, n_in, out, n_out);
}

static void begin_meter(metered_host *meter, const forge_host *outer, int64_t allowed) {
  *meter = (metered_host){.host = *outer, .outer = outer, .allowed = allowed};
  meter->host.alloc = metered_alloc;
  meter->host.free = metered_free;
  if (outer->parallel_for) meter->host.parallel_for = metered_parallel_for;
  if (outer->report_error) meter->host.report_error = metered_report_error;
  if (outer->call_registered) meter->host.call_registered = metered_call_registered;
}

/* The error of a call that failed with `status`: a limit, where one was reached. */
static int32_t tell(const forge_model *model, const forge_watch *watch, const metered_host *meter, int32_t status,
                    forge_error *error) {
  const forge_limits *limits = watch->limits;
  if (watch->status == FORGE_ERROR_STOPPED)
    return forge_fail(error, FORGE_ERROR_STOPPED, "model '%s': the call was stopped", model->name);
  if (watch->status == FORGE_ERROR_TIME_LIMIT)
    return forge_fail(error, FORGE_ERROR_TIME_LIMIT,
                      "model '%s': time limit; not done after %.6g s; expected at most %.6g s; raise the limit, or pass smaller "
                      "inputs",
                      model->name, (double)(watch->ended - watch->begun) / (double)SECOND,
                      (double)limits->nanoseconds / (double)SECOND);
  if (meter && status == FORGE_ERROR_MEMORY && atomic_load(&meter->refused))
    return forge_fail(error, FORGE_ERROR_MEMORY_LIMIT,
                      "model '%s': memory limit; needs %lld bytes at once; expected at most %lld; raise the limit, or pass "
                      "smaller inputs",
                      model->name, (long long)atomic_load(&meter->refused), (long long)meter->allowed);
  return status;
}

static int32_t check_limits(const forge_limits *limits, forge_error *error) {
  if (limits->memory >= 0 && limits->nanoseconds >= 0) return FORGE_OK;
  return forge_fail(error, FORGE_ERROR_INPUT,
                    "forge_run_limited: limits; got %lld bytes and %lld nanoseconds; expected 0 (none) or more",
                    (long long)limits->memory, (long long)limits->nanoseconds);
}

int32_t forge_invoke(forge_invocation *b, const forge_host *host, const forge_limits *limits) {
  if (limits == NULL) return forge_invoke_watched(b, host);
  int32_t status = check_limits(limits, b->error);
  if (status != FORGE_OK) return status;
  metered_host meter;
  forge_watch watch;
  if (limits->memory) begin_meter(&meter, host, limits->memory);
  begin_watch(&watch, limits);
  b->watch = &watch;
  if (is_stopped(&watch))
    status = watch.status = FORGE_ERROR_STOPPED;
  else
    status = forge_invoke_watched(b, limits->memory ? &meter.host : host);
  return status == FORGE_OK ? FORGE_OK : tell(b->model, &watch, limits->memory ? &meter : NULL, status, b->error);
}
