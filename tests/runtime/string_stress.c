/* The routines on strings on random bytes, for the sanitizers. Usage: string_stress ROUNDS. */
#include "forge_internal.h"
#include "forge_strings.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 5, LONGEST = 24, WORDS = 12 };

static uint64_t state = 88172645463325252u;
static forge_heap heap;

static uint32_t draw(uint32_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 32) % below;
}

static void *heap_alloc(const forge_host *host, size_t bytes) {
  (void)host;
  return forge_heap_alloc(&heap, bytes);
}

static void report(const forge_host *host, int32_t status, const char *message) {
  (void)host;
  if (status == FORGE_OK || strlen(message) == 0) abort();
}

/* Ends every hundredth routine that asks. */
static int32_t proceed(const forge_host *host, int32_t status) {
  (void)host;
  return status == FORGE_OK && draw(100) == 0 ? FORGE_ERROR_STOPPED : status;
}

/* Bytes that are often, but not always, UTF-8, in memory of exactly their size. */
static forge_string fresh(void) {
  static const char *const pieces[] = {"a", " ", "\n", "\xc3\xa9", "\xe2\x80\xa8",
                                      "\xf0\x9f\x98\x80", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80"};
  char text[LONGEST];
  int64_t size = 0;
  for (uint32_t left = draw(8); left > 0; left--) {
    const char *piece = pieces[draw(9)];
    const size_t length = strlen(piece) - (draw(4) == 0 && strlen(piece) > 1);
    if (size + (int64_t)length > LONGEST) break;
    memcpy(text + size, piece, length);
    size += (int64_t)length;
    if (draw(3) == 0) text[size - 1] = (char)draw(256);
  }
  char *data = malloc((size_t)size ? (size_t)size : 1);
  if (data) memcpy(data, text, (size_t)size);
  return (forge_string){size ? data : (free(data), NULL), size};
}

static void release(forge_string *strings, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    free((void *)(uintptr_t)strings[i].data);
}

static int64_t total(const forge_string *strings, int64_t count) {
  int64_t sum = 0;
  for (int64_t i = 0; i < count; i++)
    for (int64_t k = 0; k < strings[i].size; k++)
      sum += strings[i].data[k];
  return sum;
}

static int64_t round_trip(const forge_host *host) {
  forge_string a[COUNT], b[COUNT], out[COUNT], delimiter = draw(2) ? fresh() : (forge_string){NULL, 0};
  for (int32_t i = 0; i < COUNT; i++)
    a[i] = fresh(), b[i] = fresh();
  int64_t sum = 0, most = 0, counts[COUNT], kept = 0, integers[COUNT];
  uint64_t naturals[COUNT];
  double floats[COUNT];
  uint8_t flags[COUNT];
  const forge_case cases[2] = {{0, 0, 1, 0}, {'a', 0xe9, 1, 3}};
  forge_string_concat(a, b, out, COUNT, host);
  sum += total(out, COUNT);
  forge_string_equal(a, b, flags, COUNT, 0, host);
  forge_string_most_parts(a, &delimiter, &most, COUNT, (int64_t)draw(4) - 1, host);
  forge_string *parts = malloc((size_t)(COUNT * most + 1) * sizeof *parts);
  if (parts == NULL) abort();
  forge_string_split(a, &delimiter, parts, counts, COUNT, most, -1, host);
  sum += total(parts, COUNT * most);
  free(parts);
  forge_string_count_words(a, b, cases, &kept, COUNT, COUNT, 2, host);
  forge_string_normalize(a, b, cases, cases, out, COUNT, COUNT, 2, 2, kept, host);
  sum += total(out, kept);
  forge_string_to_int64(a, integers, COUNT, -128, 127, host);
  forge_string_to_uint64(a, naturals, COUNT, host);
  forge_string_to_float64(a, floats, COUNT, host);
  forge_string_lookup(a, b, integers, COUNT, COUNT, host);
  forge_string_rank(a, counts, COUNT, host);
  int64_t tokens[WORDS], starts[2], indexes[WORDS];
  float found[4];
  for (int32_t i = 0; i < WORDS; i++)
    tokens[i] = (int64_t)draw(3), indexes[i] = (int64_t)draw(draw(9) ? 4 : 5);
  starts[0] = 0, starts[1] = (int64_t)draw(WORDS + 4) - 2;
  forge_ngram_counts(tokens, tokens, starts, indexes, found, 1, (int64_t)draw(WORDS), (int64_t)draw(WORDS), 2, WORDS, 1,
                     1 + (int64_t)draw(3), (int64_t)draw(4), 4, host);
  const int32_t steps = 1 + (int32_t)draw(6), ranges = (int32_t)draw(3);
  const int32_t size = 2 + 3 * steps + 2 * ranges;
  int32_t *words = malloc((size_t)size * sizeof *words);
  if (words == NULL) abort();
  words[0] = steps, words[1] = ranges;
  for (int32_t i = 2; i < size; i++)
    words[i] = i < 2 + 3 * steps && (i - 2) % 3 ? (int32_t)draw(8) - 1 : (int32_t)draw(6);
  forge_string_match(a, words, flags, COUNT, size, host);
  free(words);
  release(a, COUNT);
  release(b, COUNT);
  release(&delimiter, 1);
  forge_heap_clear(&heap);
  return sum;
}

int main(int argc, char **argv) {
  forge_call_host call = {*forge_default_host(), proceed};
  call.host.heap_alloc = heap_alloc;
  call.host.report_error = report;
  heap.host = forge_default_host();
  int64_t sum = 0;
  for (int rounds = argc > 1 ? atoi(argv[1]) : 1; rounds > 0; rounds--)
    sum += round_trip(&call.host);
  printf("%s\n", sum ? "done" : "nothing");
  return 0;
}
