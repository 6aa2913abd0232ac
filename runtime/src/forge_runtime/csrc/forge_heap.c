/* The heap of a call: chunks of growing size that are filled from the front and given back together. */
#include "forge_heap.h"
#include <stdbool.h>

#define FIRST_CHUNK ((size_t)4 << 10)
#define LARGEST_CHUNK ((size_t)1 << 20) /* larger requests get a chunk of their own */

struct forge_chunk {
  struct forge_chunk *before;
  size_t size; /* with this header, which takes FORGE_ALIGNMENT bytes */
};

_Static_assert(sizeof(struct forge_chunk) <= FORGE_ALIGNMENT, "the header must fit before the first block");

static size_t next_size(const forge_heap *heap, size_t needed) {
  size_t size = heap->chunk ? heap->chunk->size * 2 : FIRST_CHUNK;
  if (size > LARGEST_CHUNK) size = LARGEST_CHUNK;
  return size < needed ? needed : size;
}

/* Appends a chunk with room for `bytes`; false where there is no memory. */
static bool grow(forge_heap *heap, size_t bytes) {
  const size_t size = next_size(heap, bytes + FORGE_ALIGNMENT);
  struct forge_chunk *chunk = heap->host->alloc(heap->host, size, FORGE_ALIGNMENT);
  if (chunk == NULL) return false;
  *chunk = (struct forge_chunk){heap->chunk, size};
  heap->chunk = chunk;
  heap->used = FORGE_ALIGNMENT;
  return true;
}

void *forge_heap_alloc(forge_heap *heap, size_t bytes) {
  if (bytes > (size_t)PTRDIFF_MAX / 2) return NULL;
  const size_t rounded = bytes ? (bytes + FORGE_ALIGNMENT - 1) & ~(size_t)(FORGE_ALIGNMENT - 1) : FORGE_ALIGNMENT;
  const bool fits = heap->chunk && heap->chunk->size - heap->used >= rounded;
  if (!fits && !grow(heap, rounded)) return NULL;
  void *memory = (char *)heap->chunk + heap->used;
  heap->used += rounded;
  return memory;
}

void forge_heap_clear(forge_heap *heap) {
  while (heap->chunk) {
    struct forge_chunk *chunk = heap->chunk;
    heap->chunk = chunk->before;
    heap->host->free(heap->host, chunk, chunk->size);
  }
  heap->used = 0;
}
