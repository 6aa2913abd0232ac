/* Looking up strings among keys, and counting n-grams of numbers, with hash tables that live for one call of a routine. */
#include "forge_strings.h"
#include <stdbool.h>
#include <string.h>

/* Open addressing; a slot holds the number of an item plus 1, or 0. */
typedef struct {
  const forge_host *host;
  int64_t *slots;
  int64_t capacity; /* a power of two, larger than the number of items */
} table;

static const uint64_t OFFSET = 14695981039346656037u, PRIME = 1099511628211u;

static uint64_t hash_bytes(uint64_t hash, const void *data, int64_t size) {
  const unsigned char *bytes = data;
  for (int64_t i = 0; i < size; i++)
    hash = (hash ^ bytes[i]) * PRIME;
  return hash;
}

static bool make_table(table *t, int64_t items, const forge_host *host) {
  *t = (table){.host = host, .capacity = 16};
  while (t->capacity < 2 * items && t->capacity < INT64_MAX / 32)
    t->capacity *= 2;
  if (t->capacity <= items) return false;
  t->slots = host->alloc(host, (size_t)t->capacity * sizeof *t->slots, FORGE_ALIGNMENT);
  if (t->slots) memset(t->slots, 0, (size_t)t->capacity * sizeof *t->slots);
  return t->slots != NULL;
}

static void free_table(table *t) { t->host->free(t->host, t->slots, (size_t)t->capacity * sizeof *t->slots); }

static int64_t *slot_at(const table *t, uint64_t hash) { return &t->slots[hash & (uint64_t)(t->capacity - 1)]; }

static int64_t *next_slot(const table *t, int64_t *slot) { return slot + 1 == t->slots + t->capacity ? t->slots : slot + 1; }

static bool same(const forge_string *a, const forge_string *b) {
  return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, (size_t)a->size) == 0);
}

/* The slot of the key that equals `text`, or the empty one where it would stand. */
static int64_t *find_text(const table *t, const forge_string *keys, const forge_string *text) {
  int64_t *slot = slot_at(t, hash_bytes(OFFSET, text->data, text->size));
  while (*slot && !same(&keys[*slot - 1], text))
    slot = next_slot(t, slot);
  return slot;
}

int32_t forge_string_lookup(const forge_string *data, const forge_string *keys, int64_t *out, int64_t count, int64_t n_keys,
                            const forge_host *host) {
  table t;
  if (!make_table(&t, n_keys, host)) return forge_string_no_memory(host);
  for (int64_t k = 0; k < n_keys; k++) {
    int64_t *slot = find_text(&t, keys, &keys[k]);
    if (*slot == 0) *slot = k + 1;
  }
  for (int64_t i = 0; i < count; i++) {
    const int64_t found = *find_text(&t, keys, &data[i]);
    out[i] = found ? found - 1 : n_keys;
  }
  free_table(&t);
  return FORGE_OK;
}

/* Less than 0, 0 or greater than 0 as a comes before b, equals it or comes after it, by code points. */
static int32_t compare(const forge_string *a, const forge_string *b) {
  for (int64_t i = 0, j = 0;;) {
    if (i >= a->size || j >= b->size) return (i < a->size) - (j < b->size);
    const forge_decoded x = forge_decode(a->data + i, a->size - i), y = forge_decode(b->data + j, b->size - j);
    if (x.point != y.point) return x.point < y.point ? -1 : 1;
    i += x.size;
    j += y.size;
  }
}

/* Merges the ascending runs [begin, middle) and [middle, end) of `from` into `to`. */
static void merge(const forge_string *data, const int64_t *from, int64_t *to, int64_t begin, int64_t middle, int64_t end) {
  int64_t i = begin, j = middle;
  for (int64_t k = begin; k < end; k++)
    to[k] = j >= end || (i < middle && compare(&data[from[i]], &data[from[j]]) <= 0) ? from[i++] : from[j++];
}

/* The positions in ascending order, by merging runs of growing length; in one of the two arrays. */
static int64_t *ascending(const forge_string *data, int64_t count, int64_t *order, int64_t *spare) {
  for (int64_t i = 0; i < count; i++)
    order[i] = i;
  for (int64_t run = 1; run < count; run *= 2) {
    for (int64_t begin = 0; begin < count; begin += 2 * run) {
      const int64_t middle = count - begin < run ? count : begin + run;
      merge(data, order, spare, begin, middle, count - middle < run ? count : middle + run);
    }
    int64_t *const done = spare;
    spare = order;
    order = done;
  }
  return order;
}

int32_t forge_string_rank(const forge_string *data, int64_t *out, int64_t count, const forge_host *host) {
  const size_t bytes = 2 * (size_t)count * sizeof(int64_t);
  int64_t *scratch = count > INT64_MAX / 32 ? NULL : host->alloc(host, bytes ? bytes : 1, FORGE_ALIGNMENT);
  if (scratch == NULL) return forge_string_no_memory(host);
  const int64_t *order = ascending(data, count, scratch, scratch + count);
  for (int64_t k = 0; k < count; k++) {
    const bool repeated = k > 0 && same(&data[order[k]], &data[order[k - 1]]);
    out[order[k]] = repeated ? out[order[k - 1]] : k;
  }
  host->free(host, scratch, bytes ? bytes : 1);
  return FORGE_OK;
}

/* N-grams: those of length n begin at starts[n - 1] of the pool, one after the other. */
typedef struct {
  const int64_t *pool, *starts, *indexes;
  int64_t pool_size, n_starts, n_indexes, shortest, longest, size;
} grams;

typedef struct {
  const int64_t *tokens;
  int64_t length, step;
} gram;

static int64_t end_of(const grams *g, int64_t length) { return length < g->n_starts ? g->starts[length] : g->pool_size; }

static int64_t count_of(const grams *g, int64_t length) { return (end_of(g, length) - g->starts[length - 1]) / length; }

/* Whether offsets ascend inside the pool, and every gram has an index inside the result. */
static bool is_sound(const grams *g) {
  int64_t total = 0;
  for (int64_t n = 1; n <= g->n_starts; n++) {
    if (g->starts[n - 1] < 0 || g->starts[n - 1] > end_of(g, n) || end_of(g, n) > g->pool_size) return false;
    total += count_of(g, n);
  }
  for (int64_t i = 0; i < g->n_indexes; i++)
    if (g->indexes[i] < 0 || g->indexes[i] >= g->size) return false;
  return total <= g->n_indexes;
}

static uint64_t hash_gram(const gram *x) {
  uint64_t hash = hash_bytes(OFFSET, &x->length, sizeof x->length);
  for (int64_t k = 0; k < x->length; k++)
    hash = hash_bytes(hash, &x->tokens[k * x->step], sizeof *x->tokens);
  return hash;
}

static bool same_gram(const gram *a, const gram *b) {
  if (a->length != b->length) return false;
  for (int64_t k = 0; k < a->length; k++)
    if (a->tokens[k * a->step] != b->tokens[k * b->step]) return false;
  return true;
}

/* Gram number `id` of the pool; all lengths are numbered together. */
static gram gram_of(const grams *g, int64_t id) {
  int64_t n = 1;
  for (; id >= count_of(g, n); n++)
    id -= count_of(g, n);
  return (gram){g->pool + g->starts[n - 1] + id * n, n, 1};
}

static int64_t *find_gram(const table *t, const grams *g, const gram *wanted) {
  int64_t *slot = slot_at(t, hash_gram(wanted));
  for (; *slot; slot = next_slot(t, slot)) {
    const gram known = gram_of(g, *slot - 1);
    if (same_gram(&known, wanted)) break;
  }
  return slot;
}

/* Of equal grams the last counts. */
static void insert_grams(const table *t, const grams *g) {
  int64_t id = 0;
  for (int64_t n = 1; n <= g->n_starts; n++)
    for (int64_t k = 0; k < count_of(g, n); k++, id++) {
      const gram x = {g->pool + g->starts[n - 1] + k * n, n, 1};
      if (n >= g->shortest && n <= g->longest) *find_gram(t, g, &x) = id + 1;
    }
}

static void count_row(const table *t, const grams *g, const int64_t *row, int64_t columns, int64_t step, int64_t shortest,
                      float *out) {
  for (int64_t start = 0; start < columns; start++)
    for (int64_t n = shortest; n <= g->longest && n <= g->n_starts && (n - 1) <= (columns - 1 - start) / step; n++) {
      const gram x = {row + start, n, step};
      const int64_t found = *find_gram(t, g, &x);
      if (found) out[g->indexes[found - 1]] += 1;
    }
}

int32_t forge_ngram_counts(const int64_t *data, const int64_t *pool, const int64_t *starts, const int64_t *indexes, float *out,
                           int64_t rows, int64_t columns, int64_t pool_size, int64_t n_starts, int64_t n_indexes,
                           int64_t shortest, int64_t longest, int64_t max_skip, int64_t size, const forge_host *host) {
  const grams g = {pool, starts, indexes, pool_size, n_starts, n_indexes, shortest, longest, size};
  table t;
  if (!is_sound(&g)) {
    host->report_error(host, FORGE_ERROR_VALUE, "ngram_counts: the pool's offsets or indexes do not fit each other");
    return FORGE_ERROR_VALUE;
  }
  if (!make_table(&t, n_indexes, host)) return forge_string_no_memory(host);
  insert_grams(&t, &g);
  memset(out, 0, (size_t)(rows * size) * sizeof *out);
  int32_t status = FORGE_OK;
  for (int64_t r = 0; status == FORGE_OK && r < rows; r++)
    for (int64_t step = 1; status == FORGE_OK && step <= max_skip + 1 && step <= columns; step++) {
      count_row(&t, &g, data + r * columns, columns, step, step > 1 && shortest == 1 ? 2 : shortest, out + r * size);
      status = forge_may_proceed(host, r + step);
    }
  free_table(&t);
  return status;
}
