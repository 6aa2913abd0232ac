/* The thread pool: one per process, shared by all models; a fork-join takes microseconds.
 *
 * A job is announced through `gate`, one word: how many workers are inside, whether it is still open, and its number. Workers join
 * by compare-and-swap; the caller works too, closes the gate when nothing is left to claim, and waits only for those who joined: a
 * worker that wakes late never delays a job. A second caller, and a loop within a loop, run on their own thread.
 */
#define _GNU_SOURCE
#include "forge_internal.h"
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CHUNKS_PER_THREAD = 4, SPIN_NANOSECONDS = 100000, SPINS_PER_YIELD = 64 };

#define GATE_INSIDE 0x0fffu
#define GATE_OPEN 0x1000u
#define GATE_NUMBER_SHIFT 13

/* The units of work that belong to one thread; others help when they are done with their own. */
typedef struct {
  _Alignas(64) atomic_llong next;
  int64_t end;
} work_range;

static struct {
  _Alignas(64) atomic_uint gate; /* futex of sleeping workers */
  _Alignas(64) atomic_uint left; /* futex of a waiting caller: changes when the last worker leaves a closed gate */
  atomic_uint sleepers;
  atomic_bool caller_sleeps;
  _Alignas(64) atomic_bool busy; /* held by the caller whose job runs */
  atomic_int requested;          /* set by forge_set_num_threads */
  atomic_int cpus;
  int32_t workers; /* this and the job below belong to the holder of `busy` */
  bool fork_handled;
  int32_t threads;
  bool spin;
  int32_t caller_cpu;
  forge_parallel_body body;
  void *closure;
  int64_t count, grain, units, step;
  atomic_int status;
  work_range ranges[FORGE_MAX_THREADS];
} pool;

static _Thread_local bool inside_job;

static void futex_wait(atomic_uint *word, uint32_t expected) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int32_t waiters) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, waiters, NULL, NULL, 0);
}

static void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");
#endif
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Spins until the word differs from `seen` or the time is over; tells whether it differs. Yields now and then: what it waits for may
 * need this very CPU.
 */
static bool spin_while(atomic_uint *word, uint32_t seen) {
  const int64_t deadline = now() + SPIN_NANOSECONDS;
  do {
    for (int32_t i = 0; i < SPINS_PER_YIELD; i++) {
      if (atomic_load_explicit(word, memory_order_acquire) != seen) return true;
      pause_cpu();
    }
    sched_yield();
  } while (now() < deadline);
  return false;
}

static void record_failure(int32_t status) {
  int32_t none = FORGE_OK;
  atomic_compare_exchange_strong(&pool.status, &none, status);
}

static void run_units(int64_t begin, int64_t end) {
  const int64_t last = end == pool.units ? pool.count : end * pool.grain;
  const int32_t status = pool.body(begin * pool.grain, last, pool.closure);
  if (status != FORGE_OK) record_failure(status);
}

/* Runs units until none is left: first those of this thread, then those of the others. */
static void work(int32_t thread) {
  for (int32_t i = 0; i < pool.threads; i++) {
    work_range *range = &pool.ranges[(thread + i) % pool.threads];
    while (atomic_load_explicit(&pool.status, memory_order_relaxed) == FORGE_OK) {
      const int64_t begin = atomic_fetch_add_explicit(&range->next, pool.step, memory_order_relaxed);
      if (begin >= range->end) break;
      run_units(begin, begin + pool.step < range->end ? begin + pool.step : range->end);
    }
  }
}

static void leave(void) {
  const uint32_t before = atomic_fetch_sub(&pool.gate, 1);
  if ((before & GATE_INSIDE) != 1 || (before & GATE_OPEN)) return;
  atomic_fetch_add(&pool.left, 1);
  if (atomic_load(&pool.caller_sleeps)) futex_wake(&pool.left, 1);
}

/* Enters the job announced by `gate` unless it is closed or was seen before. */
static bool try_join(uint32_t gate, uint32_t *seen) {
  while ((gate & GATE_OPEN) && gate >> GATE_NUMBER_SHIFT != *seen) {
    if (!atomic_compare_exchange_weak(&pool.gate, &gate, gate + 1)) continue;
    *seen = gate >> GATE_NUMBER_SHIFT;
    return true;
  }
  return false;
}

static void join_next_job(uint32_t *seen, bool spin) {
  for (;;) {
    const uint32_t gate = atomic_load(&pool.gate);
    if (try_join(gate, seen)) return;
    if (spin && spin_while(&pool.gate, gate)) continue;
    spin = false;
    atomic_fetch_add(&pool.sleepers, 1);
    futex_wait(&pool.gate, gate);
    atomic_fetch_sub(&pool.sleepers, 1);
  }
}

/* Moves this thread to another CPU if it woke up on the caller's, where the scheduler likes to put it and may leave it for
 * milliseconds while other CPUs are idle.
 */
static void avoid_caller_cpu(void) {
  cpu_set_t allowed, others;
  const int32_t cpu = sched_getcpu();
  if (cpu != pool.caller_cpu || cpu < 0 || sched_getaffinity(0, sizeof allowed, &allowed)) return;
  others = allowed;
  CPU_CLR((size_t)cpu, &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others)) return;
  (void)sched_setaffinity(0, sizeof allowed, &allowed);
}

static void *worker_main(void *argument) {
  const int32_t thread = (int32_t)(intptr_t)argument;
  uint32_t seen = UINT32_MAX;
  bool spin = false;
  inside_job = true;
  for (;;) {
    join_next_job(&seen, spin);
    const bool takes_part = thread < pool.threads;
    spin = takes_part && pool.spin;
    if (spin) avoid_caller_cpu();
    if (takes_part) work(thread);
    leave();
  }
  return NULL;
}

/* The child of a fork has no workers, and whoever held the pool is not there either. */
static void reset_in_child(void) {
  pool.workers = 0;
  atomic_store(&pool.gate, 0);
  atomic_store(&pool.sleepers, 0);
  atomic_store(&pool.caller_sleeps, false);
  atomic_store(&pool.busy, false);
  inside_job = false;
}

/* Workers run this library's code for ever, so it must never be unmapped once there are any. */
static void prepare_first_worker(void) {
  if (pool.fork_handled) return;
  Dl_info info;
  if (dladdr(&pool, &info)) (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  pool.fork_handled = pthread_atfork(NULL, NULL, reset_in_child) == 0;
}

static bool start_worker(int32_t thread) {
  pthread_attr_t attributes;
  pthread_t id;
  if (pthread_attr_init(&attributes)) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  const bool started = pthread_create(&id, &attributes, worker_main, (void *)(intptr_t)thread) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

/* Starts workers until there are `wanted`, or the system refuses more; signals from outside stay with the program's own threads. */
static void ensure_workers(int32_t wanted) {
  static const int own_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
  if (pool.workers >= wanted) return;
  prepare_first_worker();
  sigset_t blocked, before;
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof own_faults / sizeof *own_faults; i++)
    sigdelset(&blocked, own_faults[i]);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  while (pool.workers < wanted && start_worker(pool.workers + 1))
    pool.workers++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int32_t usable_cpus(void) {
  int32_t cpus = atomic_load_explicit(&pool.cpus, memory_order_relaxed);
  if (cpus == 0) {
    cpus = forge_usable_cpus();
    atomic_store_explicit(&pool.cpus, cpus, memory_order_relaxed);
  }
  return cpus;
}

static int32_t clamp_threads(int64_t threads) {
  return (int32_t)(threads < 1 ? 1 : threads > FORGE_MAX_THREADS ? FORGE_MAX_THREADS : threads);
}

static int32_t default_threads(void) {
  const char *text = getenv("FORGE_NUM_THREADS");
  if (text == NULL || *text == '\0') return clamp_threads(usable_cpus());
  char *end = NULL;
  const long threads = strtol(text, &end, 10);
  if (*end == '\0' && threads >= 1) return clamp_threads(threads);
  fprintf(stderr, "forge: FORGE_NUM_THREADS is '%s'; expected a positive number; using %d\n", text, usable_cpus());
  return clamp_threads(usable_cpus());
}

int32_t forge_num_threads(void) {
  int32_t threads = atomic_load_explicit(&pool.requested, memory_order_relaxed);
  if (threads == 0) {
    threads = default_threads();
    atomic_store_explicit(&pool.requested, threads, memory_order_relaxed);
  }
  return threads;
}

void forge_set_num_threads(int32_t threads) {
  atomic_store(&pool.requested, threads <= 0 ? 0 : clamp_threads(threads));
}

static void divide_units(void) {
  const int64_t share = (pool.units + pool.threads - 1) / pool.threads;
  pool.step = (share + CHUNKS_PER_THREAD - 1) / CHUNKS_PER_THREAD;
  for (int32_t t = 0; t < pool.threads; t++) {
    const int64_t extra = pool.units % pool.threads;
    const int64_t begin = pool.units / pool.threads * t + (t < extra ? t : extra);
    atomic_store_explicit(&pool.ranges[t].next, begin, memory_order_relaxed);
    pool.ranges[t].end = begin + pool.units / pool.threads + (t < extra);
  }
}

static void open_gate(void) {
  const uint32_t number = (atomic_load(&pool.gate) >> GATE_NUMBER_SHIFT) + 1;
  atomic_store(&pool.gate, number << GATE_NUMBER_SHIFT | GATE_OPEN);
  if (atomic_load(&pool.sleepers) == 0) return;
  futex_wake(&pool.gate, pool.workers == pool.threads - 1 ? pool.threads - 1 : FORGE_MAX_THREADS);
}

/* Lets nobody in any more and waits until all have left. */
static void close_gate(void) {
  atomic_fetch_and(&pool.gate, ~GATE_OPEN);
  for (;;) {
    const uint32_t left = atomic_load(&pool.left);
    if ((atomic_load(&pool.gate) & GATE_INSIDE) == 0) return;
    if (pool.spin && spin_while(&pool.left, left)) continue;
    atomic_store(&pool.caller_sleeps, true);
    if (atomic_load(&pool.gate) & GATE_INSIDE) futex_wait(&pool.left, left);
    atomic_store(&pool.caller_sleeps, false);
  }
}

static int32_t run_job(void) {
  atomic_store_explicit(&pool.status, FORGE_OK, memory_order_relaxed);
  pool.spin = pool.threads <= usable_cpus();
  pool.caller_cpu = pool.spin ? sched_getcpu() : -1;
  divide_units();
  inside_job = true;
  open_gate();
  work(0);
  close_gate();
  inside_job = false;
  return atomic_load_explicit(&pool.status, memory_order_relaxed);
}

int32_t forge_pool_run(int32_t threads, forge_parallel_body body, void *closure, int64_t count, int64_t grain) {
  if (count <= 0) return FORGE_OK;
  if (grain < 1) grain = 1;
  const int64_t units = count / grain > 1 ? count / grain : 1;
  threads = clamp_threads(threads > 0 ? threads : forge_num_threads());
  if (threads > units) threads = (int32_t)units;
  if (threads == 1 || inside_job || atomic_exchange(&pool.busy, true)) return body(0, count, closure);
  ensure_workers(threads - 1);
  pool.threads = pool.workers < threads ? pool.workers + 1 : threads;
  pool.body = body;
  pool.closure = closure;
  pool.count = count;
  pool.grain = grain;
  pool.units = units;
  const int32_t status = pool.threads == 1 ? body(0, count, closure) : run_job();
  atomic_store(&pool.busy, false);
  return status;
}
