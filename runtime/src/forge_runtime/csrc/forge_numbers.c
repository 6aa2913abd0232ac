/* Numbers as text, and text as numbers. */
#define _GNU_SOURCE
#include "forge_strings.h"
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 32, SHOWN = 40, FLOAT_TEXT = 1 << 10 };

/* Characters of `count` numbers, each of at most LONGEST. */
static char *reserve(const forge_host *host, int64_t count) {
  return count > INT64_MAX / LONGEST ? NULL : host->heap_alloc(host, (size_t)(count * LONGEST));
}

static char *keep(forge_string *out, char *at, int written) {
  *out = (forge_string){at, written};
  return at + written;
}

int32_t forge_string_from_int64(const int64_t *data, forge_string *out, int64_t count, const forge_host *host) {
  char *at = reserve(host, count);
  if (at == NULL) return forge_string_no_memory(host);
  for (int64_t i = 0; i < count; i++)
    at = keep(&out[i], at, snprintf(at, LONGEST, "%" PRId64, data[i]));
  return FORGE_OK;
}

int32_t forge_string_from_uint64(const uint64_t *data, forge_string *out, int64_t count, const forge_host *host) {
  char *at = reserve(host, count);
  if (at == NULL) return forge_string_no_memory(host);
  for (int64_t i = 0; i < count; i++)
    at = keep(&out[i], at, snprintf(at, LONGEST, "%" PRIu64, data[i]));
  return FORGE_OK;
}

int32_t forge_string_from_bool(const uint8_t *data, forge_string *out, int64_t count, const forge_host *host) {
  (void)host;
  for (int64_t i = 0; i < count; i++)
    out[i] = data[i] ? (forge_string){"True", 4} : (forge_string){"False", 5};
  return FORGE_OK;
}

/* The C locale for this thread while a routine runs; false where there is none. */
static bool enter_c_locale(locale_t *c, locale_t *before) {
  *c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (*c == (locale_t)0) return false;
  *before = uselocale(*c);
  return true;
}

static void leave_c_locale(locale_t c, locale_t before) {
  uselocale(before);
  freelocale(c);
}

static int float_text(double value, int64_t digits, char *at) {
  if (isnan(value)) return snprintf(at, LONGEST, "nan");
  if (isinf(value)) return snprintf(at, LONGEST, value < 0 ? "-inf" : "inf");
  return snprintf(at, LONGEST, "%.*g", (int)digits, value);
}

int32_t forge_string_from_float64(const double *data, forge_string *out, int64_t count, int64_t digits,
                                  const forge_host *host) {
  locale_t c, before;
  char *at = digits < 1 || digits > 17 ? NULL : reserve(host, count);
  if (at == NULL || !enter_c_locale(&c, &before)) return forge_string_no_memory(host);
  for (int64_t i = 0; i < count; i++)
    at = keep(&out[i], at, float_text(data[i], digits, at));
  leave_c_locale(c, before);
  return FORGE_OK;
}

static int32_t refuse(const forge_string *text, const char *expected, const forge_host *host) {
  char message[256];
  const int shown = text->size < SHOWN ? (int)text->size : SHOWN;
  snprintf(message, sizeof message, "cast: the string '%.*s' is no %s", shown, shown ? text->data : "", expected);
  host->report_error(host, FORGE_ERROR_VALUE, message);
  return FORGE_ERROR_VALUE;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Sign and digits as sign and magnitude; false for other text, or where the magnitude exceeds 64 bits. */
static bool parse_integer(const forge_string *text, bool *negative, uint64_t *magnitude) {
  int64_t at = 0;
  *negative = text->size > 0 && text->data[0] == '-';
  if (text->size > 0 && (text->data[0] == '-' || text->data[0] == '+')) at = 1;
  if (at == text->size) return false;
  *magnitude = 0;
  for (; at < text->size; at++) {
    if (!is_digit(text->data[at]) || __builtin_mul_overflow(*magnitude, (uint64_t)10, magnitude) ||
        __builtin_add_overflow(*magnitude, (uint64_t)(text->data[at] - '0'), magnitude))
      return false;
  }
  return true;
}

int32_t forge_string_to_int64(const forge_string *data, int64_t *out, int64_t count, int64_t low, int64_t high,
                              const forge_host *host) {
  for (int64_t i = 0; i < count; i++) {
    bool negative;
    uint64_t magnitude;
    const bool parsed = parse_integer(&data[i], &negative, &magnitude);
    const uint64_t limit = negative ? (uint64_t)0 - (uint64_t)low : (uint64_t)high;
    if (!parsed || magnitude > limit) return refuse(&data[i], "integer of the type asked for", host);
    out[i] = (int64_t)(negative ? (uint64_t)0 - magnitude : magnitude);
  }
  return FORGE_OK;
}

int32_t forge_string_to_uint64(const forge_string *data, uint64_t *out, int64_t count, const forge_host *host) {
  for (int64_t i = 0; i < count; i++) {
    bool negative;
    const bool parsed = parse_integer(&data[i], &negative, &out[i]);
    if (!parsed || (negative && out[i] != 0)) return refuse(&data[i], "integer of the type asked for", host);
  }
  return FORGE_OK;
}

static int64_t skip_digits(const forge_string *text, int64_t at) {
  while (at < text->size && is_digit(text->data[at]))
    at++;
  return at;
}

static bool is_word_of(const forge_string *text, int64_t at, const char *word) {
  const int64_t length = (int64_t)strlen(word);
  if (text->size - at != length) return false;
  for (int64_t i = 0; i < length; i++)
    if ((text->data[at + i] | 0x20) != word[i]) return false;
  return true;
}

/* Whether the text is [+-] digits [. digits] [e [+-] digits] with a digit in front of the e, or [+-] inf, infinity or nan. */
static bool is_float(const forge_string *text) {
  int64_t at = text->size > 0 && (text->data[0] == '-' || text->data[0] == '+');
  if (is_word_of(text, at, "inf") || is_word_of(text, at, "infinity") || is_word_of(text, at, "nan")) return true;
  int64_t end = skip_digits(text, at), digits = end - at;
  if (end < text->size && text->data[end] == '.') {
    at = end + 1;
    end = skip_digits(text, at);
    digits += end - at;
  }
  if (digits == 0) return false;
  if (end < text->size && (text->data[end] | 0x20) == 'e') {
    at = end + 1;
    if (at < text->size && (text->data[at] == '-' || text->data[at] == '+')) at++;
    end = skip_digits(text, at);
    if (end == at) return false;
  }
  return end == text->size;
}

static bool parse_float(const forge_string *text, double *out) {
  char buffer[FLOAT_TEXT];
  if (text->size >= FLOAT_TEXT || !is_float(text)) return false;
  memcpy(buffer, text->data, (size_t)text->size);
  buffer[text->size] = '\0';
  *out = strtod(buffer, NULL);
  return true;
}

int32_t forge_string_to_float64(const forge_string *data, double *out, int64_t count, const forge_host *host) {
  locale_t c, before;
  if (!enter_c_locale(&c, &before)) return forge_string_no_memory(host);
  int64_t i = 0;
  while (i < count && parse_float(&data[i], &out[i]))
    i++;
  leave_c_locale(c, before);
  return i == count ? FORGE_OK : refuse(&data[i], "number of fewer than 1024 characters", host);
}
