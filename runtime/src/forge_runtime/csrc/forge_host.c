/* The built-in host: aligned memory that is kept for the next call, and the thread pool. */
#define _GNU_SOURCE
#include "forge_internal.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { CACHE_SLOTS = 16 };

static const size_t CACHE_MINIMUM = (size_t)32 << 10; /* smaller blocks: malloc is as fast */
static const size_t CACHE_LIMIT = (size_t)1 << 30;    /* of all kept blocks together */
static const size_t HUGE_MINIMUM = (size_t)4 << 20;
static const int64_t KEEP_SECONDS = 10; /* a kept block that nobody takes for so long goes back to the system */

/* Lies in the 64 bytes before what the model gets. */
typedef struct {
  void *base;
  size_t capacity;
  int64_t since; /* second in which it was kept */
} block;

_Static_assert(sizeof(block) <= FORGE_ALIGNMENT, "the header must fit before an aligned block");

static _Atomic(block *) cache[CACHE_SLOTS];
static atomic_size_t cached_bytes;
static atomic_llong last_trim; /* second */

void *forge_alloc_pages(size_t bytes) {
  void *memory = NULL;
  const size_t size = (bytes + FORGE_PAGE_SIZE - 1) & ~(FORGE_PAGE_SIZE - 1);
  if (size < bytes || posix_memalign(&memory, FORGE_PAGE_SIZE, size)) return NULL;
  (void)madvise(memory, size, MADV_HUGEPAGE);
  return memory;
}

static void *block_memory(block *header) { return (char *)header + FORGE_ALIGNMENT; }

static block *new_block(size_t bytes, size_t alignment) {
  const size_t offset = alignment > FORGE_ALIGNMENT ? alignment : FORGE_ALIGNMENT;
  if (bytes > PTRDIFF_MAX - offset) return NULL;
  void *base = NULL;
  if (bytes >= HUGE_MINIMUM && offset <= FORGE_PAGE_SIZE)
    base = forge_alloc_pages(bytes + offset);
  else if (posix_memalign(&base, offset, bytes + offset))
    return NULL;
  if (base == NULL) return NULL;
  block *header = (block *)((char *)base + offset - FORGE_ALIGNMENT);
  *header = (block){.base = base, .capacity = bytes};
  return header;
}

/* Keeps a block for later; false where there is no room. */
static bool put(block *header) {
  for (int32_t i = 0; i < CACHE_SLOTS; i++) {
    block *none = NULL;
    if (atomic_load_explicit(&cache[i], memory_order_relaxed) == NULL &&
        atomic_compare_exchange_strong(&cache[i], &none, header))
      return true;
  }
  return false;
}

static int64_t current_second(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return (int64_t)time.tv_sec;
}

/* Frees the blocks that were kept before `second`. */
static void trim(int64_t second) {
  for (int32_t i = 0; i < CACHE_SLOTS; i++) {
    if (atomic_load_explicit(&cache[i], memory_order_relaxed) == NULL) continue;
    block *header = atomic_exchange(&cache[i], NULL);
    if (header == NULL || (header->since >= second && put(header))) continue;
    atomic_fetch_sub(&cached_bytes, header->capacity);
    free(header->base);
  }
}

/* At most once a second. */
static void trim_unused(int64_t now) {
  long long last = atomic_load_explicit(&last_trim, memory_order_relaxed);
  if (last != now && atomic_compare_exchange_strong(&last_trim, &last, now)) trim(now - KEEP_SECONDS);
}

void forge_trim_memory(void) { trim(INT64_MAX); }

static void keep_or_free(block *header) {
  const size_t capacity = header->capacity;
  if (atomic_fetch_add(&cached_bytes, capacity) + capacity <= CACHE_LIMIT && put(header)) return;
  atomic_fetch_sub(&cached_bytes, capacity);
  free(header->base);
}

static void give_back(block *header) {
  if (header->capacity < CACHE_MINIMUM) {
    free(header->base);
    return;
  }
  header->since = current_second();
  trim_unused(header->since);
  keep_or_free(header);
}

static bool suits(block *header, size_t bytes, size_t alignment) {
  return header->capacity >= bytes && header->capacity / 2 <= bytes && (uintptr_t)block_memory(header) % alignment == 0;
}

/* A kept block that suits, or NULL. While a slot is looked at its block belongs to this thread alone. */
static block *take(size_t bytes, size_t alignment) {
  for (int32_t i = 0; i < CACHE_SLOTS; i++) {
    if (atomic_load_explicit(&cache[i], memory_order_relaxed) == NULL) continue;
    block *header = atomic_exchange(&cache[i], NULL);
    if (header == NULL) continue;
    atomic_fetch_sub(&cached_bytes, header->capacity);
    if (suits(header, bytes, alignment)) return header;
    keep_or_free(header);
  }
  return NULL;
}

static void *host_alloc(const forge_host *host, size_t bytes, size_t alignment) {
  (void)host;
  block *header = bytes >= CACHE_MINIMUM ? take(bytes, alignment) : NULL;
  if (header == NULL) header = new_block(bytes, alignment);
  return header ? block_memory(header) : NULL;
}

static void host_free(const forge_host *host, void *memory, size_t bytes) {
  (void)host;
  (void)bytes;
  if (memory) give_back((block *)((char *)memory - FORGE_ALIGNMENT));
}

static int32_t host_parallel_for(const forge_host *host, forge_parallel_body body, void *closure, int64_t count,
                                 int64_t grain) {
  return forge_pool_run((int32_t)(intptr_t)host->state, body, closure, count, grain);
}

forge_host forge_host_with_threads(int32_t threads) {
  return (forge_host){.abi_version = FORGE_ABI_VERSION,
                      .state = (void *)(intptr_t)threads,
                      .alloc = host_alloc,
                      .free = host_free,
                      .parallel_for = host_parallel_for};
}

const forge_host *forge_default_host(void) {
  static const forge_host host = {
      .abi_version = FORGE_ABI_VERSION, .alloc = host_alloc, .free = host_free, .parallel_for = host_parallel_for};
  return &host;
}

/* Blocks kept when the library is unloaded would be lost. */
__attribute__((destructor)) static void free_cache(void) { forge_trim_memory(); }
