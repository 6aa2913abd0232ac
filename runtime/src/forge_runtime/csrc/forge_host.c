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
static const size_t MAP_MINIMUM = (size_t)128 << 10;  /* larger blocks are mappings, which can grow and keep their pages */
static const size_t MAP_UNIT = (size_t)64 << 10;      /* a multiple of the system's pages */
static const size_t HUGE_MINIMUM = (size_t)4 << 20; /* a huge page costs as much time as 30 small ones; callers may keep many blocks */
static const size_t SOON_HUGE_MINIMUM = (size_t)256 << 10; /* of arenas: few are in use at once */
static const int64_t KEEP_SECONDS = 10; /* a kept block that nobody needs half of for so long goes back to the system */

/* Lies in the 64 bytes before what the model gets. */
typedef struct {
  char *base;
  size_t mapped;   /* bytes of the mapping at base; 0: base is of malloc */
  size_t capacity; /* bytes for the model: the most that were asked for */
  size_t wanted;   /* bytes that were asked for last */
  int64_t since;   /* second in which it was last given back by a call that needed half of it */
  size_t origin;   /* number of the mapping that it is, or was cut from */
  bool soon;       /* was last given to who gives it back soon */
  bool parted;     /* it was cut, or from another one */
} block;

_Static_assert(sizeof(block) <= FORGE_ALIGNMENT, "the header must fit before an aligned block");

_Thread_local bool forge_gives_back_soon;

static _Atomic(block *) cache[CACHE_SLOTS];
static atomic_size_t cached_bytes;
static atomic_llong last_trim; /* second */
static atomic_size_t mappings; /* that were made */

static char *block_memory(block *header) { return (char *)header + FORGE_ALIGNMENT; }

static size_t most(size_t a, size_t b) { return a > b ? a : b; }

static size_t map_unit(size_t bytes) {
  return bytes < (forge_gives_back_soon ? SOON_HUGE_MINIMUM : HUGE_MINIMUM) ? MAP_UNIT : FORGE_PAGE_SIZE;
}

/* A mapping for `bytes` at a multiple of `alignment`, rounded to pages: the `moved` bytes at `old`, as far as they go. Or NULL. */
static char *map_pages(size_t *bytes, size_t alignment, char *old, size_t moved) {
  const size_t unit = map_unit(*bytes), multiple = most(unit, alignment), size = (*bytes + unit - 1) & ~(unit - 1);
  char *start = mmap(NULL, size + multiple, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return NULL;
  char *base = start + (-(uintptr_t)start & (multiple - 1));
  if (base > start) munmap(start, (size_t)(base - start));
  munmap(base + size, (size_t)(start + multiple - base));
  /* Where this fails, the addresses may be another thread's already. */
  if (old && mremap(old, moved, size, MREMAP_MAYMOVE | MREMAP_FIXED, base) == MAP_FAILED) return NULL;
  if (unit == FORGE_PAGE_SIZE) (void)madvise(base, size, MADV_HUGEPAGE);
  *bytes = size;
  return base;
}

static block *new_block(size_t bytes, size_t alignment) {
  const size_t offset = most(alignment, FORGE_ALIGNMENT);
  size_t mapped = bytes < MAP_MINIMUM ? 0 : bytes + offset;
  void *base = NULL;
  if (mapped)
    base = map_pages(&mapped, offset, NULL, 0);
  else if (posix_memalign(&base, offset, bytes + offset))
    return NULL;
  if (base == NULL) return NULL;
  block *header = (block *)((char *)base + offset - FORGE_ALIGNMENT);
  *header = (block){.base = base, .mapped = mapped, .capacity = bytes, .origin = atomic_fetch_add(&mappings, 1)};
  return header;
}

static void release(const block *header) {
  if (header->mapped)
    munmap(header->base, header->mapped);
  else
    free(header->base);
}

/* The mapped block with room for `bytes`, maybe at another place. NULL where there is no memory: it is released then. */
static block *grow(block *header, size_t bytes) {
  const size_t offset = (size_t)(block_memory(header) - header->base);
  size_t mapped = bytes + offset;
  if (mapped > header->mapped) {
    char *base = map_pages(&mapped, offset, header->base, header->mapped);
    if (base == NULL) {
      release(header);
      return NULL;
    }
    header = (block *)(base + offset - FORGE_ALIGNMENT);
    header->base = base;
    header->mapped = mapped;
    header->origin = atomic_fetch_add(&mappings, 1);
    header->parted = false;
  }
  header->capacity = bytes;
  return header;
}

/* A block of the last pages that a larger one used, which keeps those before: huge pages where half of one is needed. Or NULL. */
static block *cut(block *larger, size_t bytes) {
  const bool is_huge = (((uintptr_t)larger->base | larger->mapped) & (FORGE_PAGE_SIZE - 1)) == 0;
  const size_t unit = is_huge && bytes >= FORGE_PAGE_SIZE / 2 ? FORGE_PAGE_SIZE : MAP_UNIT;
  const size_t offset = (size_t)(block_memory(larger) - larger->base);
  const size_t size = (bytes + FORGE_ALIGNMENT + unit - 1) & ~(unit - 1);
  const size_t used = (offset + larger->capacity + unit - 1) & ~(unit - 1);
  if (used < size + offset + unit) return NULL;
  char *base = larger->base + used - size;
  block *header = (block *)base;
  *header = (block){.base = base, .mapped = larger->mapped - (used - size), .capacity = bytes, .origin = larger->origin};
  larger->mapped = used - size;
  larger->capacity = larger->mapped - offset;
  larger->parted = header->parted = true;
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

/* The block of a slot, which belongs to this thread alone then; NULL where there is none. */
static block *claim(int32_t slot) {
  if (atomic_load_explicit(&cache[slot], memory_order_relaxed) == NULL) return NULL;
  block *header = atomic_exchange(&cache[slot], NULL);
  if (header) atomic_fetch_sub(&cached_bytes, header->capacity);
  return header;
}

static void keep_or_free(block *header) {
  const size_t capacity = header->capacity;
  if (atomic_fetch_add(&cached_bytes, capacity) + capacity <= CACHE_LIMIT && put(header)) return;
  atomic_fetch_sub(&cached_bytes, capacity);
  release(header);
}

/* Frees the blocks that were kept before `second`. */
static void trim(int64_t second) {
  for (int32_t i = 0; i < CACHE_SLOTS; i++) {
    block *header = claim(i);
    if (header == NULL) continue;
    if (header->since >= second)
      keep_or_free(header);
    else
      release(header);
  }
}

/* At most once a second. */
static void trim_unused(int64_t now) {
  long long last = atomic_load_explicit(&last_trim, memory_order_relaxed);
  if (last != now && atomic_compare_exchange_strong(&last_trim, &last, now)) trim(now - KEEP_SECONDS);
}

void forge_trim_memory(void) { trim(INT64_MAX); }

/* Whether `b` begins where `a` ends, and both were one block before. */
static bool precedes(const block *a, const block *b) {
  return a->origin == b->origin && a->soon == b->soon && a->base + a->mapped == b->base;
}

/* A part that is given back, and what is kept of the block that it was cut from, as one block: larger ones get these pages. */
static block *joined(block *header) {
  for (int32_t i = 0; i < CACHE_SLOTS; i++) {
    block *other = claim(i);
    if (other == NULL) continue;
    if (!other->parted || !(precedes(other, header) || precedes(header, other))) {
      keep_or_free(other);
      continue;
    }
    block *low = other->base < header->base ? other : header, *high = low == other ? header : other;
    low->since = low->capacity > high->capacity ? low->since : high->since;
    low->mapped += high->mapped;
    low->capacity = (size_t)(block_memory(high) - block_memory(low)) + high->capacity;
    header = low;
    i = -1; /* a slot that was passed may hold the next part */
  }
  return header;
}

static void give_back(block *header) {
  if (header->capacity < CACHE_MINIMUM) {
    release(header);
    return;
  }
  const int64_t now = current_second();
  if (header->wanted >= header->capacity / 2) header->since = now;
  trim_unused(now);
  if (header->parted) header = joined(header);
  if (header->since >= now - KEEP_SECONDS)
    keep_or_free(header);
  else
    release(header);
}

/* How a kept block is to what is asked for. */
typedef enum {
  FITS,      /* up to twice as large */
  TOO_LARGE, /* more than that, of a use of the same kind: who gives it back soon takes it whole, others a part */
  TOO_SMALL, /* at least half as large, and can grow */
  UNFIT
} fitness;

static fitness fitness_of(block *header, size_t bytes, size_t alignment) {
  if ((uintptr_t)block_memory(header) % alignment) return UNFIT;
  if (header->soon && !forge_gives_back_soon) return UNFIT; /* the next call needs it, and callers may keep outputs */
  if (header->capacity >= bytes && header->capacity / 2 <= bytes) return FITS;
  if (header->capacity >= bytes) return header->soon == forge_gives_back_soon ? TOO_LARGE : UNFIT;
  return header->mapped && header->capacity >= bytes / 2 && alignment <= FORGE_ALIGNMENT ? TOO_SMALL : UNFIT;
}

/* A kept block, or NULL. While a slot is looked at its block belongs to this thread alone. */
static block *take(size_t bytes, size_t alignment, fitness wanted) {
  for (int32_t i = 0; i < CACHE_SLOTS; i++) {
    block *header = claim(i);
    if (header == NULL) continue;
    if (fitness_of(header, bytes, alignment) == wanted) return header;
    keep_or_free(header);
  }
  return NULL;
}

/* Part of a kept block that is much larger, or NULL. */
static block *take_part(size_t bytes, size_t alignment) {
  block *larger = take(bytes, alignment, TOO_LARGE);
  if (larger == NULL) return NULL;
  block *part = larger->mapped ? cut(larger, bytes) : NULL;
  keep_or_free(larger);
  return part;
}

/* A kept block that is large enough or was made so, or NULL. */
static block *take_any(size_t bytes, size_t alignment) {
  block *header = take(bytes, alignment, FITS);
  if (header == NULL && forge_gives_back_soon) header = take(bytes, alignment, TOO_LARGE);
  if (header == NULL && !forge_gives_back_soon && bytes >= MAP_MINIMUM && alignment <= FORGE_ALIGNMENT)
    header = take_part(bytes, alignment);
  if (header || (header = take(bytes, alignment, TOO_SMALL)) == NULL) return header;
  return grow(header, bytes);
}

static void *host_alloc(const forge_host *host, size_t bytes, size_t alignment) {
  (void)host;
  if (bytes > PTRDIFF_MAX / 2) return NULL;
  block *header = bytes >= CACHE_MINIMUM ? take_any(bytes, alignment) : NULL;
  if (header == NULL) header = new_block(bytes, alignment);
  if (header == NULL) return NULL;
  header->wanted = bytes;
  header->soon = forge_gives_back_soon;
  return block_memory(header);
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
