/* The host that a model sees: the caller's, with what belongs to one call. */
#include "forge_fp.h"
#include "forge_internal.h"

static const forge_running *running(const forge_host *host) { return (const forge_running *)host; }

forge_heap *forge_heap_of(const forge_host *host) { return running(host)->heap; }

forge_watch *forge_watch_of(const forge_host *host) { return running(host)->watch; }

const forge_host *forge_outer_host(const forge_host *host) { return running(host)->outer; }

static void *call_heap_alloc(const forge_host *host, size_t bytes) { return forge_heap_alloc(running(host)->heap, bytes); }

static void *call_alloc(const forge_host *host, size_t bytes, size_t alignment) {
  const forge_host *outer = running(host)->outer;
  return outer->alloc(outer, bytes, alignment);
}

static void call_free(const forge_host *host, void *memory, size_t bytes) {
  const forge_host *outer = running(host)->outer;
  outer->free(outer, memory, bytes);
}

/* A parallel loop whose chunks compute in the environment of the thread that began it. */
typedef struct {
  forge_parallel_body body;
  void *closure;
  forge_fp environment;
} shared_loop;

static int32_t run_chunk(int64_t begin, int64_t end, void *closure) {
  const shared_loop *loop = closure;
  const forge_fp before = forge_fp_enter(loop->environment);
  const int32_t status = loop->body(begin, end, loop->closure);
  forge_fp_leave(before);
  return status;
}

static int32_t call_parallel_for(const forge_host *host, forge_parallel_body body, void *closure, int64_t count,
                                 int64_t grain) {
  const forge_host *outer = running(host)->outer;
  if (count <= 0) return FORGE_OK;
  if (outer->parallel_for == NULL || count == 1) return body(0, count, closure);
  shared_loop loop = {body, closure, forge_fp_masked(forge_fp_get())};
  return outer->parallel_for(outer, run_chunk, &loop, count, grain);
}

static void call_report_error(const forge_host *host, int32_t status, const char *message) {
  forge_running *call = (forge_running *)(uintptr_t)host;
  if (atomic_flag_test_and_set(&call->reported)) return;
  forge_fail(call->error, status, "model '%s': %s", call->model->name, message);
  if (call->outer->report_error) call->outer->report_error(call->outer, status, message);
}

static int32_t call_proceed(const forge_host *host, int32_t status) {
  forge_watch *watch = running(host)->watch;
  return status != FORGE_OK || watch == NULL ? status : forge_watch_check(watch);
}

void forge_begin_call(forge_running *call, const forge_model *model, forge_error *error, const forge_host *outer,
                      forge_heap *heap, forge_watch *watch) {
  *call = (forge_running){.table = {{FORGE_ABI_VERSION, outer->state, call_alloc, call_free, call_parallel_for,
                                     call_report_error, NULL, forge_run_control, call_heap_alloc},
                                    call_proceed},
                          .outer = outer,
                          .heap = heap,
                          .watch = watch,
                          .model = model,
                          .error = error,
                          .reported = ATOMIC_FLAG_INIT};
}
