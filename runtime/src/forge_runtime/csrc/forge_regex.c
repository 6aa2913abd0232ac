/* Matching of regular expressions by simulating a nondeterministic automaton: time is the product of the lengths of program and
 * text, memory that of the program. The program is a table that forge.ops.regex has compiled.
 */
#include "forge_strings.h"
#include <stdbool.h>

enum { MATCH = 0, RANGES = 1, SPLIT = 2, JUMP = 3, ASSERT = 4 };
enum { BEGIN_TEXT = 0, END_TEXT = 1, BEGIN_LINE = 2, END_LINE = 3, WORD_BOUNDARY = 4, NO_WORD_BOUNDARY = 5 };
enum { NO_CHARACTER = -1 };

typedef struct {
  int32_t op, a, b; /* RANGES: the first range and how many; SPLIT: two places; JUMP: a place; ASSERT: what */
} instruction;

typedef struct {
  int32_t first, last;
} range;

typedef struct {
  const instruction *code;
  const range *ranges;
  int32_t length, n_ranges;
} program;

/* A set of places in a program, in order of insertion. `where` may hold anything. */
typedef struct {
  int32_t *members, *where;
  int32_t count;
} place_set;

/* The characters around a position. */
typedef struct {
  int32_t before, after;
} surroundings;

static bool holds(const place_set *set, int32_t place) {
  const int32_t at = set->where[place];
  return at >= 0 && at < set->count && set->members[at] == place;
}

static void insert(place_set *set, int32_t place) {
  if (holds(set, place)) return;
  set->where[place] = set->count;
  set->members[set->count++] = place;
}

static bool is_word(int32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool is_true(int32_t what, surroundings s) {
  switch (what) {
  case BEGIN_TEXT: return s.before == NO_CHARACTER;
  case END_TEXT: return s.after == NO_CHARACTER;
  case BEGIN_LINE: return s.before == NO_CHARACTER || s.before == '\n';
  case END_LINE: return s.after == NO_CHARACTER || s.after == '\n';
  case WORD_BOUNDARY: return is_word(s.before) != is_word(s.after);
  default: return is_word(s.before) == is_word(s.after);
  }
}

/* Adds the places that can be reached from members without a character; the set grows while it is walked. */
static void close_set(const program *p, place_set *set, surroundings s) {
  for (int32_t i = 0; i < set->count; i++) {
    const int32_t place = set->members[i];
    const instruction *it = &p->code[place];
    if (it->op == JUMP || it->op == SPLIT) insert(set, it->a);
    if (it->op == SPLIT) insert(set, it->b);
    if (it->op == ASSERT && is_true(it->a, s)) insert(set, place + 1);
  }
}

static bool contains(const range *ranges, int32_t count, int32_t c) {
  int32_t low = 0, high = count;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (ranges[middle].last < c)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && ranges[low].first <= c;
}

static void step(const program *p, const place_set *from, place_set *to, int32_t c) {
  to->count = 0;
  for (int32_t i = 0; i < from->count; i++) {
    const instruction *it = &p->code[from->members[i]];
    if (it->op == RANGES && contains(p->ranges + it->a, it->b, c)) insert(to, from->members[i] + 1);
  }
}

static bool accepts(const program *p, const place_set *set) {
  for (int32_t i = 0; i < set->count; i++)
    if (p->code[set->members[i]].op == MATCH) return true;
  return false;
}

static bool matches(const program *p, const forge_string *text, place_set *now, place_set *next) {
  surroundings s = {NO_CHARACTER, NO_CHARACTER};
  now->count = 0;
  insert(now, 0);
  for (int64_t at = 0; at < text->size && now->count > 0;) {
    const forge_decoded c = forge_decode(text->data + at, text->size - at);
    s.after = c.point;
    close_set(p, now, s);
    step(p, now, next, c.point);
    place_set *const done = now;
    now = next;
    next = done;
    s = (surroundings){c.point, NO_CHARACTER};
    at += c.size;
  }
  close_set(p, now, s);
  return accepts(p, now);
}

static bool is_place(const program *p, int32_t place) { return place >= 0 && place < p->length; }

/* Whether every instruction stays inside the tables. */
static bool is_sound(const program *p, const instruction *it) {
  const bool last = it == p->code + p->length - 1;
  switch (it->op) {
  case MATCH: return true;
  case RANGES: return !last && it->a >= 0 && it->b >= 0 && it->a <= p->n_ranges - it->b;
  case SPLIT: return is_place(p, it->a) && is_place(p, it->b);
  case JUMP: return is_place(p, it->a);
  case ASSERT: return !last;
  default: return false;
  }
}

static bool read_program(const int32_t *words, int64_t size, program *p) {
  if (size < 2 || words[0] < 1 || words[1] < 0 || size != 2 + 3 * (int64_t)words[0] + 2 * (int64_t)words[1]) return false;
  p->length = words[0];
  p->n_ranges = words[1];
  p->code = (const instruction *)(words + 2);
  p->ranges = (const range *)(words + 2 + 3 * (int64_t)words[0]);
  for (int32_t i = 0; i < p->length; i++)
    if (!is_sound(p, &p->code[i])) return false;
  return true;
}

int32_t forge_string_match(const forge_string *data, const int32_t *words, uint8_t *out, int64_t count, int64_t size,
                           const forge_host *host) {
  program p;
  if (!read_program(words, size, &p)) {
    host->report_error(host, FORGE_ERROR_INTERNAL, "strings: the program of a regular expression is damaged");
    return FORGE_ERROR_INTERNAL;
  }
  const size_t bytes = 4 * (size_t)p.length * sizeof(int32_t);
  int32_t *scratch = host->alloc(host, bytes, FORGE_ALIGNMENT);
  if (scratch == NULL) return forge_string_no_memory(host);
  for (int64_t i = 0; i < 4 * (int64_t)p.length; i++)
    scratch[i] = 0;
  place_set now = {scratch, scratch + p.length, 0}, next = {scratch + 2 * (size_t)p.length, scratch + 3 * (size_t)p.length, 0};
  int32_t status = FORGE_OK;
  for (int64_t i = 0; i < count && (status = forge_may_proceed(host, i)) == FORGE_OK; i++)
    out[i] = matches(&p, &data[i], &now, &next);
  host->free(host, scratch, bytes);
  return status;
}
