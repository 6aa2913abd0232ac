/* Tensors of strings: constants, concatenation, comparison, splitting, normalization. */
#include "forge_strings.h"
#include <stdbool.h>
#include <string.h>

enum { ESCAPED = 0xDC00 };

static bool continues(unsigned char byte) { return (byte & 0xC0) == 0x80; }

/* Bytes of the sequence that starts with `lead`, and the smallest code point that needs so many; 0 for other bytes. */
static int32_t sequence_length(unsigned char lead, int32_t *smallest) {
  if (lead >= 0xC2 && lead < 0xE0) return *smallest = 0x80, 2;
  if (lead >= 0xE0 && lead < 0xF0) return *smallest = 0x800, 3;
  if (lead >= 0xF0 && lead < 0xF5) return *smallest = 0x10000, 4;
  return 0;
}

forge_decoded forge_decode(const char *text, int64_t size) {
  const unsigned char *bytes = (const unsigned char *)text;
  const forge_decoded escaped = {ESCAPED + bytes[0], 1};
  if (bytes[0] < 0x80) return (forge_decoded){bytes[0], 1};
  int32_t smallest = 0;
  const int32_t length = sequence_length(bytes[0], &smallest);
  if (length == 0 || size < length) return escaped;
  int32_t point = bytes[0] & (0x7F >> length);
  for (int32_t i = 1; i < length; i++) {
    if (!continues(bytes[i])) return escaped;
    point = point << 6 | (bytes[i] & 0x3F);
  }
  const bool valid = point >= smallest && point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF);
  return valid ? (forge_decoded){point, length} : escaped;
}

static bool is_escaped(int32_t point) { return point >= ESCAPED + 0x80 && point <= ESCAPED + 0xFF; }

static int64_t encoded_size(int32_t point) {
  if (is_escaped(point)) return 1;
  return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}

static char *encode(int32_t point, char *out) {
  static const int32_t leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
  const int64_t size = encoded_size(point);
  if (size == 1) {
    *out = (char)(point & 0xFF);
    return out + 1;
  }
  for (int64_t i = size - 1; i > 0; i--, point >>= 6)
    out[i] = (char)(0x80 | (point & 0x3F));
  out[0] = (char)(leads[size] | point);
  return out + size;
}

int32_t forge_string_no_memory(const forge_host *host) {
  host->report_error(host, FORGE_ERROR_MEMORY, "strings: no memory for their characters");
  return FORGE_ERROR_MEMORY;
}

static void copy(char *to, const char *from, int64_t size) {
  if (size > 0) memcpy(to, from, (size_t)size);
}

static int32_t damaged(const forge_host *host) {
  host->report_error(host, FORGE_ERROR_INTERNAL, "strings: a constant is damaged; compile the model again");
  return FORGE_ERROR_INTERNAL;
}

int32_t forge_string_unpack(const uint8_t *packed, forge_string *out, int64_t count, int64_t bytes, const forge_host *host) {
  const int64_t room = bytes - 8 * count;
  const char *characters = (const char *)packed + 8 * count;
  int64_t begin = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t end;
    memcpy(&end, packed + 8 * i, sizeof end);
    if (end < begin || end > room) return damaged(host);
    out[i] = (forge_string){characters + begin, end - begin};
    begin = end;
  }
  return FORGE_OK;
}

int32_t forge_string_concat(const forge_string *a, const forge_string *b, forge_string *out, int64_t count,
                            const forge_host *host) {
  int64_t total = 0;
  for (int64_t i = 0; i < count; i++)
    if (__builtin_add_overflow(total, a[i].size, &total) || __builtin_add_overflow(total, b[i].size, &total))
      return forge_string_no_memory(host);
  char *at = host->heap_alloc(host, (size_t)total);
  if (at == NULL) return forge_string_no_memory(host);
  for (int64_t i = 0; i < count; i++) {
    copy(at, a[i].data, a[i].size);
    copy(at + a[i].size, b[i].data, b[i].size);
    out[i] = (forge_string){at, a[i].size + b[i].size};
    at += out[i].size;
  }
  return FORGE_OK;
}

/* Copies the strings so that their characters follow the elements. `to` may be `from`. */
static void pack(forge_string *to, const forge_string *from, int64_t count) {
  char *at = (char *)(to + count);
  for (int64_t i = 0; i < count; i++) {
    copy(at, from[i].data, from[i].size);
    to[i] = (forge_string){at, from[i].size};
    at += from[i].size;
  }
}

int64_t forge_string_deliver(forge_tensor *output, int32_t allocated, const forge_host *host) {
  int64_t count = 1, bytes;
  for (int32_t d = 0; d < output->ndim; d++)
    count *= output->shape[d];
  const forge_string *elements = output->data;
  if (__builtin_mul_overflow(count, (int64_t)sizeof *elements, &bytes)) return -1;
  for (int64_t i = 0; i < count; i++)
    if (__builtin_add_overflow(bytes, elements[i].size, &bytes)) return -1;
  if (!allocated) {
    if (bytes > output->capacity) return bytes - output->capacity;
    pack(output->data, elements, count);
    return 0;
  }
  const int64_t size = bytes ? bytes : 1;
  void *memory = host->alloc(host, (size_t)size, FORGE_ALIGNMENT);
  if (memory == NULL) return -1;
  pack(memory, elements, count);
  host->free(host, output->data, (size_t)output->capacity);
  output->data = memory;
  output->capacity = size;
  return 0;
}

static bool same(const forge_string *a, const forge_string *b) {
  return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, (size_t)a->size) == 0);
}

int32_t forge_string_equal(const forge_string *a, const forge_string *b, uint8_t *out, int64_t count, int64_t negate,
                           const forge_host *host) {
  (void)host;
  for (int64_t i = 0; i < count; i++)
    out[i] = same(&a[i], &b[i]) != (negate != 0);
  return FORGE_OK;
}

/* Splitting. */

/* The code points that Unicode has as white space, and the four separators of ASCII. */
static bool is_space(int32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

/* The first position from `at` on whose character is white space or not, as asked for; the end where there is none. */
static int64_t find_space(const forge_string *text, int64_t at, bool space) {
  while (at < text->size) {
    const forge_decoded c = forge_decode(text->data + at, text->size - at);
    if (is_space(c.point) == space) break;
    at += c.size;
  }
  return at;
}

/* What is left of a string that is being split. */
typedef struct {
  const forge_string *text;
  const forge_string *delimiter;
  int64_t at; /* after the last delimiter; behind the end: nothing is left */
  int64_t cuts;
} splitter;

static int64_t find(const forge_string *text, int64_t at, const forge_string *part) {
  for (; part->size <= text->size - at; at++) {
    const char *found = memchr(text->data + at, part->data[0], (size_t)(text->size - at - part->size + 1));
    if (found == NULL) break;
    at = found - text->data;
    if (memcmp(found, part->data, (size_t)part->size) == 0) return at;
  }
  return -1;
}

static bool next_word(splitter *s, forge_string *part) {
  const int64_t begin = find_space(s->text, s->at, false);
  if (begin >= s->text->size) return false;
  const int64_t end = s->cuts == 0 ? s->text->size : find_space(s->text, begin, true);
  if (s->cuts > 0) s->cuts--;
  s->at = end;
  *part = (forge_string){s->text->data + begin, end - begin};
  return true;
}

/* Takes off the next part; false where none is left. */
static bool next_part(splitter *s, forge_string *part) {
  if (s->delimiter->size == 0) return next_word(s, part);
  if (s->at > s->text->size) return false;
  const int64_t found = s->cuts == 0 ? -1 : find(s->text, s->at, s->delimiter);
  const int64_t end = found < 0 ? s->text->size : found;
  if (s->cuts > 0) s->cuts--;
  *part = (forge_string){s->text->size ? s->text->data + s->at : NULL, end - s->at};
  s->at = found < 0 ? s->text->size + 1 : found + s->delimiter->size;
  return true;
}

int32_t forge_string_most_parts(const forge_string *data, const forge_string *delimiter, int64_t *most, int64_t count,
                                int64_t maxsplit, const forge_host *host) {
  (void)host;
  *most = 0;
  for (int64_t i = 0; i < count; i++) {
    splitter s = {&data[i], delimiter, 0, maxsplit};
    forge_string part;
    int64_t parts = 0;
    while (next_part(&s, &part))
      parts++;
    if (parts > *most) *most = parts;
  }
  return FORGE_OK;
}

int32_t forge_string_split(const forge_string *data, const forge_string *delimiter, forge_string *parts, int64_t *counts,
                           int64_t count, int64_t most, int64_t maxsplit, const forge_host *host) {
  (void)host;
  for (int64_t i = 0; i < count; i++) {
    splitter s = {&data[i], delimiter, 0, maxsplit};
    forge_string *row = parts + i * most;
    int64_t k = 0;
    while (k < most && next_part(&s, &row[k]))
      k++;
    counts[i] = k;
    for (; k < most; k++)
      row[k] = (forge_string){NULL, 0};
  }
  return FORGE_OK;
}

/* Normalization. */

typedef struct {
  const forge_case *rows;
  int64_t count;
} case_table;

static int32_t changed(const case_table *table, int32_t point) {
  int64_t low = 0, high = table->count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (table->rows[middle].last < point)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == table->count) return point;
  const forge_case *row = &table->rows[low];
  const bool hit = point >= row->first && row->step > 0 && (point - row->first) % row->step == 0;
  return hit ? point + row->delta : point;
}

static bool same_folded(const forge_string *a, const forge_string *b, const case_table *folds) {
  int64_t i = 0, j = 0;
  while (i < a->size && j < b->size) {
    const forge_decoded x = forge_decode(a->data + i, a->size - i), y = forge_decode(b->data + j, b->size - j);
    if (x.point != y.point && changed(folds, x.point) != changed(folds, y.point)) return false;
    i += x.size;
    j += y.size;
  }
  return i == a->size && j == b->size;
}

typedef struct {
  const forge_string *words;
  int64_t count;
  case_table folds;
} stopword_list;

static bool is_stopword(const forge_string *text, const stopword_list *stops) {
  for (int64_t k = 0; k < stops->count; k++)
    if (same_folded(text, &stops->words[k], &stops->folds)) return true;
  return false;
}

int32_t forge_string_count_words(const forge_string *data, const forge_string *stopwords, const forge_case *folds,
                                 int64_t *kept, int64_t count, int64_t n_stopwords, int64_t n_folds, const forge_host *host) {
  const stopword_list stops = {stopwords, n_stopwords, {folds, n_folds}};
  int32_t status = FORGE_OK;
  *kept = 0;
  for (int64_t i = 0; i < count && (status = forge_may_proceed(host, i)) == FORGE_OK; i++)
    *kept += !is_stopword(&data[i], &stops);
  if (*kept == 0) *kept = 1;
  return status;
}

static int64_t changed_size(const forge_string *text, const case_table *changes) {
  int64_t size = 0;
  for (int64_t at = 0; at < text->size;) {
    const forge_decoded c = forge_decode(text->data + at, text->size - at);
    size += encoded_size(changed(changes, c.point));
    at += c.size;
  }
  return size;
}

static char *write_changed(const forge_string *text, const case_table *changes, char *out) {
  for (int64_t at = 0; at < text->size;) {
    const forge_decoded c = forge_decode(text->data + at, text->size - at);
    out = encode(changed(changes, c.point), out);
    at += c.size;
  }
  return out;
}

int32_t forge_string_normalize(const forge_string *data, const forge_string *stopwords, const forge_case *folds,
                               const forge_case *changes, forge_string *out, int64_t count, int64_t n_stopwords,
                               int64_t n_folds, int64_t n_changes, int64_t room, const forge_host *host) {
  const stopword_list stops = {stopwords, n_stopwords, {folds, n_folds}};
  const case_table table = {changes, n_changes};
  int64_t kept = 0, total = 0;
  for (int64_t i = 0; i < count && kept < room; i++) {
    const int32_t status = forge_may_proceed(host, i);
    if (status != FORGE_OK) return status;
    if (is_stopword(&data[i], &stops)) continue;
    out[kept++] = data[i];
    if (__builtin_add_overflow(total, changed_size(&data[i], &table), &total)) return forge_string_no_memory(host);
  }
  for (int64_t i = kept; i < room; i++)
    out[i] = (forge_string){NULL, 0};
  char *at = host->heap_alloc(host, (size_t)total);
  if (at == NULL) return forge_string_no_memory(host);
  for (int64_t i = 0; i < kept; i++) {
    char *end = write_changed(&out[i], &table, at);
    out[i] = (forge_string){at, end - at};
    at = end;
  }
  return FORGE_OK;
}
