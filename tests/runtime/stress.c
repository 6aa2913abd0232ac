/* Stresses the built-in host: loops from many threads at once, nested, failing, resized; memory taken and given back; fork.
 * Usage: stress loops|memory|fork|growth ROUNDS. Exits with 0 if every index was visited exactly once, every byte kept its value,
 * and calls that need more memory than earlier ones, or far less, got little that is fresh.
 */
#define _GNU_SOURCE
#include "forge_internal.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLERS = 4, MAXIMUM = 500 };

static int32_t rounds;

#define REQUIRE(condition) \
  if (!(condition)) { fprintf(stderr, "line %d: %s\n", __LINE__, #condition); exit(1); }

typedef struct {
  int64_t count, grain;
  int32_t fail_at;
  unsigned char visits[MAXIMUM];
} job;

static int32_t visit(int64_t begin, int64_t end, void *closure) {
  job *j = closure;
  REQUIRE(end - begin >= j->grain || j->count < j->grain);
  for (int64_t i = begin; i < end; i++) j->visits[i]++;
  return begin <= j->fail_at && j->fail_at < end ? 42 : 0;
}

static int32_t nest(int64_t begin, int64_t end, void *closure) {
  (void)closure;
  const forge_host *host = forge_default_host();
  for (int64_t i = begin; i < end; i++) {
    job inner = {.count = 20, .grain = 1, .fail_at = -1};
    if (host->parallel_for(host, visit, &inner, inner.count, inner.grain)) return 1;
    for (int64_t k = 0; k < inner.count; k++) REQUIRE(inner.visits[k] == 1);
  }
  return 0;
}

static void check_one_loop(unsigned *seed) {
  const forge_host own = forge_host_with_threads(1 + rand_r(seed) % 4);
  const forge_host *host = rand_r(seed) % 2 ? forge_default_host() : &own;
  job j = {.count = rand_r(seed) % MAXIMUM, .grain = 1 + rand_r(seed) % 9, .fail_at = -1};
  REQUIRE(host->parallel_for(host, visit, &j, j.count, j.grain) == 0);
  for (int64_t i = 0; i < MAXIMUM; i++) REQUIRE(j.visits[i] == (i < j.count));
  if (j.count == 0) return;
  j.fail_at = (int32_t)(rand_r(seed) % j.count);
  REQUIRE(host->parallel_for(host, visit, &j, j.count, j.grain) == 42);
}

static void *loops(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  const forge_host *host = forge_default_host();
  for (int32_t round = 0; round < rounds; round++) {
    check_one_loop(&seed);
    if (round % 16 == 0) REQUIRE(host->parallel_for(host, nest, NULL, 7, 1) == 0);
    if (round % 64 == 0) forge_set_num_threads(1 + rand_r(&seed) % 4);
    if (round % 50 == 0) usleep(300);
  }
  return NULL;
}

static void *memory(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  const forge_host *host = forge_default_host();
  for (int32_t round = 0; round < rounds; round++) {
    const size_t bytes = 1 + (size_t)rand_r(&seed) % (round % 8 ? 100000 : 6000000);
    const size_t alignment = (size_t)64 << rand_r(&seed) % 4;
    unsigned char *block = host->alloc(host, bytes, alignment), *other = host->alloc(host, bytes, 64);
    REQUIRE(block && other && (uintptr_t)block % alignment == 0 && (uintptr_t)other % 64 == 0);
    forge_gives_back_soon = rand_r(&seed) % 2;
    unsigned char *soon = host->alloc(host, bytes, 64);
    REQUIRE(soon);
    memset(block, round & 0xff, bytes);
    memset(other, ~round & 0xff, bytes);
    memset(soon, 1 + (round & 0xff), bytes);
    REQUIRE(block[0] == (round & 0xff) && block[bytes - 1] == (round & 0xff));
    host->free(host, soon, bytes);
    host->free(host, block, bytes);
    host->free(host, other, bytes);
  }
  return NULL;
}

/* Pages that were fresh in a block which was taken, written to and given back. */
static long fresh_pages(size_t bytes, bool soon) {
  const forge_host *host = forge_default_host();
  struct rusage before, after;
  getrusage(RUSAGE_THREAD, &before);
  forge_gives_back_soon = soon;
  char *memory = host->alloc(host, bytes, 64);
  REQUIRE(memory);
  memset(memory, 1, bytes);
  host->free(host, memory, bytes);
  getrusage(RUSAGE_THREAD, &after);
  return after.ru_minflt - before.ru_minflt;
}

static void growth(void) {
  const long page = sysconf(_SC_PAGESIZE), spare = 8;
  REQUIRE(fresh_pages(200000, false) > 200000 / page / 2);
  for (size_t bytes = 210000; bytes < 4000000; bytes += bytes / 20)
    REQUIRE(fresh_pages(bytes, false) <= (long)bytes / 20 / page + spare);
  for (size_t bytes = 200000; bytes < 3800000; bytes += bytes / 3)
    REQUIRE(fresh_pages(bytes, false) <= spare); /* parts that are given back become one block again */
  for (size_t bytes = 3900000; bytes > 200000; bytes /= 2) REQUIRE(fresh_pages(bytes, true) <= spare);
  REQUIRE(fresh_pages(1000000, false) > spare); /* whoever keeps it gets none that is far too large */
}

static void run_callers(void *(*caller)(void *)) {
  pthread_t threads[CALLERS];
  for (uintptr_t i = 0; i < CALLERS; i++) REQUIRE(pthread_create(&threads[i], NULL, caller, (void *)(i + 1)) == 0);
  for (int32_t i = 0; i < CALLERS; i++) pthread_join(threads[i], NULL);
}

static void forks(void) {
  forge_set_num_threads(3);
  loops((void *)1);
  for (int32_t i = 0; i < 5; i++) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      loops((void *)2);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    loops((void *)3);
  }
}

int main(int argc, char **argv) {
  REQUIRE(argc == 3);
  rounds = atoi(argv[2]);
  forge_set_num_threads(3);
  if (strcmp(argv[1], "loops") == 0) run_callers(loops);
  if (strcmp(argv[1], "memory") == 0) run_callers(memory);
  if (strcmp(argv[1], "fork") == 0) forks();
  if (strcmp(argv[1], "growth") == 0) growth();
  return 0;
}
