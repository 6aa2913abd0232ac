/* Memory of one call: values of no fixed size (elements of sequences, characters of strings) live here until the outputs are
 * delivered. Not part of the interface.
 */
#ifndef FORGE_HEAP_H
#define FORGE_HEAP_H
#include "forge_runtime.h"

/* One thread at a time. All zero but `host` at the start. */
typedef struct {
  const forge_host *host;    /* gives the memory */
  struct forge_chunk *chunk; /* the newest; each knows the one before */
  size_t used;               /* bytes of the newest */
} forge_heap;

/* Memory aligned to FORGE_ALIGNMENT, of at least 1 byte and undefined contents; NULL where there is none or `bytes` is absurd. */
void *forge_heap_alloc(forge_heap *heap, size_t bytes) __attribute__((visibility("hidden")));

/* Gives all memory back; the heap is empty afterwards and can be used again. */
void forge_heap_clear(forge_heap *heap) __attribute__((visibility("hidden")));

#endif
