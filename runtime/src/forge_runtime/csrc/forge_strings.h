/* C routines on tensors of strings that kernels of a model call. Not part of the interface.
 *
 * Every routine takes pointers to the elements of tensors in row-major order, then 64-bit numbers, then the host of the call
 * (of a forge_call_host), and returns a forge_status, having reported to the host what went wrong. No routine uses the locale. Characters that a routine
 * makes lie in the heap of the call.
 *
 * Text is UTF-8. A byte that is not part of a valid sequence stands for itself: for code point 0xDC00 + byte.
 */
#ifndef FORGE_STRINGS_H
#define FORGE_STRINGS_H
#include "forge_runtime.h"

#define FORGE_ROUTINE __attribute__((visibility("hidden"))) int32_t

/* Rows of a case table: code points first, first + step, ..., last become themselves + delta. Ascending. */
typedef struct {
  int32_t first, last, step, delta;
} forge_case;

/* The strings of a constant: `count` ends (int64, in bytes, ascending), then the characters. */
FORGE_ROUTINE forge_string_unpack(const uint8_t *packed, forge_string *out, int64_t count, int64_t bytes, const forge_host *host);

FORGE_ROUTINE forge_string_concat(const forge_string *a, const forge_string *b, forge_string *out, int64_t count,
                                  const forge_host *host);

FORGE_ROUTINE forge_string_equal(const forge_string *a, const forge_string *b, uint8_t *out, int64_t count, int64_t negate,
                                 const forge_host *host);

/* The largest number of parts of a string; an empty delimiter stands for runs of white space; maxsplit < 0: any number of cuts. */
FORGE_ROUTINE forge_string_most_parts(const forge_string *data, const forge_string *delimiter, int64_t *most, int64_t count,
                                      int64_t maxsplit, const forge_host *host);

/* Parts, `most` a string, filled up with empty strings; how many there are of each. */
FORGE_ROUTINE forge_string_split(const forge_string *data, const forge_string *delimiter, forge_string *parts, int64_t *counts,
                                 int64_t count, int64_t most, int64_t maxsplit, const forge_host *host);

/* How many strings are not stopwords, at least 1; strings are compared after `folds`. */
FORGE_ROUTINE forge_string_count_words(const forge_string *data, const forge_string *stopwords, const forge_case *folds,
                                       int64_t *kept, int64_t count, int64_t n_stopwords, int64_t n_folds,
                                       const forge_host *host);

/* The strings that are not stopwords, after `changes`; one empty string where none is left. */
FORGE_ROUTINE forge_string_normalize(const forge_string *data, const forge_string *stopwords, const forge_case *folds,
                                     const forge_case *changes, forge_string *out, int64_t count, int64_t n_stopwords,
                                     int64_t n_folds, int64_t n_changes, int64_t room, const forge_host *host);

/* Whether a program of forge.ops.regex matches the whole of every string. */
FORGE_ROUTINE forge_string_match(const forge_string *data, const int32_t *program, uint8_t *out, int64_t count, int64_t size,
                                 const forge_host *host);

/* The position of every string among keys, of equal keys the first; n_keys where it is not there. */
FORGE_ROUTINE forge_string_lookup(const forge_string *data, const forge_string *keys, int64_t *out, int64_t count, int64_t n_keys,
                                  const forge_host *host);

/* How many strings come before each one in the order of code points. */
FORGE_ROUTINE forge_string_rank(const forge_string *data, int64_t *out, int64_t count, const forge_host *host);

/* How often each n-gram of a pool occurs in the rows of data, added at its index; up to max_skip tokens between two of a gram. */
FORGE_ROUTINE forge_ngram_counts(const int64_t *data, const int64_t *pool, const int64_t *starts, const int64_t *indexes,
                                 float *out, int64_t rows, int64_t columns, int64_t pool_size, int64_t n_starts,
                                 int64_t n_indexes, int64_t shortest, int64_t longest, int64_t max_skip, int64_t size,
                                 const forge_host *host);

/* Numbers as text, and text as numbers. It fails for other text, and for integers outside of the range. */
FORGE_ROUTINE forge_string_from_int64(const int64_t *data, forge_string *out, int64_t count, const forge_host *host);
FORGE_ROUTINE forge_string_from_uint64(const uint64_t *data, forge_string *out, int64_t count, const forge_host *host);
FORGE_ROUTINE forge_string_from_bool(const uint8_t *data, forge_string *out, int64_t count, const forge_host *host);
FORGE_ROUTINE forge_string_from_float64(const double *data, forge_string *out, int64_t count, int64_t digits,
                                        const forge_host *host);
FORGE_ROUTINE forge_string_to_int64(const forge_string *data, int64_t *out, int64_t count, int64_t low, int64_t high,
                                    const forge_host *host);
FORGE_ROUTINE forge_string_to_uint64(const forge_string *data, uint64_t *out, int64_t count, const forge_host *host);
FORGE_ROUTINE forge_string_to_float64(const forge_string *data, double *out, int64_t count, const forge_host *host);

/* What the files of string routines share: the code point at text (size > 0 bytes) and the bytes it takes. */
typedef struct {
  int32_t point;
  int32_t size;
} forge_decoded;
__attribute__((visibility("hidden"))) forge_decoded forge_decode(const char *text, int64_t size);

/* Moves the characters of an output behind its elements: into fresh memory from the host where the call has allocated the output.
 * Returns 0; the bytes that are missing of the memory that the caller gave; or -1 where there is no memory. */
__attribute__((visibility("hidden"))) int64_t forge_string_deliver(forge_tensor *output, int32_t allocated, const forge_host *host);

/* Whether a long routine may go on with element `k`: FORGE_OK, or the status to return. Asks the host now and then. */
static inline int32_t forge_may_proceed(const forge_host *host, int64_t k) {
  return k % 64 ? FORGE_OK : ((const forge_call_host *)host)->proceed(host, FORGE_OK);
}

/* Reports that there is no memory for characters. */
FORGE_ROUTINE forge_string_no_memory(const forge_host *host);

#endif
