/* Fourier transforms in float64: mixed radix, in order (Stockham), Bluestein's way where a prime factor is large.
 *
 * A block of rows is transformed together: number j of row b is at [j * rows + b], real and imaginary parts in arrays of their own.
 * So the loops over neighbouring numbers, which grow with every stage, start with the rows of the block. Inverse transforms are
 * forward ones with real and imaginary parts exchanged. Real rows of even length are packed into complex ones of half the length.
 */
#include "forge_fft.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

enum { LARGEST_RADIX = 31, MAX_STAGES = 64, BLOCK_NUMBERS = 8192, MOST_ROWS = 8, CHUNK_NUMBERS = 16384 };

static const int64_t LONGEST = INT64_C(1) << 48;

/* A number on the unit circle. */
typedef struct {
  double re, im;
} root;

typedef struct {
  double *re, *im;
} line;

typedef int64_t line_function(line x, line y, int64_t begin, int64_t count, int64_t in, int64_t out, const root *w);
typedef int64_t pair_function(line a, line b, line y, int64_t begin, int64_t count, const root *w);

/* The functions of _fft_lines.h for one vector type. */
typedef struct {
  int64_t lanes;
  line_function *line2, *line3, *line4, *line5;
  int64_t (*line_any)(line x, line y, int64_t begin, int64_t count, int64_t in, int64_t out, const root *w, int32_t radix,
                      const root *unit);
  int64_t (*turn)(line x, int64_t begin, int64_t count, const root *w);
  pair_function *split, *join;
} kit;

#define SIN_3 0.86602540378443864676   /* sin(2 pi / 3) */
#define COS_5 0.30901699437494742410   /* cos(2 pi / 5), sin; cos(4 pi / 5), sin */
#define SIN_5 0.95105651629515357212
#define COS_25 -0.80901699437494742410
#define SIN_25 0.58778525229247312917

#define REAL double
#define LANES 1
#define TARGET
#define LINE(name) name##_1
#include "_fft_lines.h"

#define REAL double __attribute__((vector_size(16)))
#define LANES 2
#define TARGET
#define LINE(name) name##_2
#include "_fft_lines.h"

#if defined(__x86_64__)
#define REAL double __attribute__((vector_size(32)))
#define LANES 4
#define TARGET __attribute__((target("avx2")))
#define LINE(name) name##_4
#include "_fft_lines.h"

static const kit *widest(void) { return __builtin_cpu_supports("avx2") ? &KIT_4 : &KIT_2; }
#else
static const kit *widest(void) { return &KIT_2; }
#endif

/* Roots of unity. */

/* cos and sin of (pi / 4) * u / n for 0 <= u <= n, with the angle in two parts. */
static root octant(int64_t u, int64_t n) {
  const double high = 0.78539816339744830962, low = 3.0616169978683830179e-17; /* pi / 4 */
  const double part = (double)u / (double)n, rest = fma(-part, (double)n, (double)u) / (double)n;
  const double angle = high * part, more = fma(high, part, -angle) + (low * part + high * rest);
  const double c = cos(angle), s = sin(angle);
  return (root){c - s * more, s + c * more};
}

/* exp(-2 pi i k / n) for 0 <= k < n. */
static root unit_root(int64_t k, int64_t n) {
  if (2 * k > n) {
    const root mirrored = unit_root(n - k, n);
    return (root){mirrored.re, -mirrored.im};
  }
  const int64_t u = 8 * k;
  root r;
  if (u <= n) return r = octant(u, n), (root){r.re, -r.im};
  if (u <= 2 * n) return r = octant(2 * n - u, n), (root){r.im, -r.re};
  if (u <= 3 * n) return r = octant(u - 2 * n, n), (root){-r.im, -r.re};
  return r = octant(4 * n - u, n), (root){-r.re, -r.im};
}

/* All n-th roots; those beyond the first part of the circle are images of others. */
static void fill_roots(root *table, int64_t n) {
  const int64_t first = n % 4 == 0 ? n / 8 : n % 2 == 0 ? n / 4 : n / 2;
  for (int64_t k = 0; k <= first; k++)
    table[k] = unit_root(k, n);
  for (int64_t k = first + 1; n % 4 == 0 && k <= n / 4; k++)
    table[k] = (root){-table[n / 4 - k].im, -table[n / 4 - k].re};
  for (int64_t k = n / 4 + 1; n % 2 == 0 && k <= n / 2; k++)
    table[k] = (root){-table[n / 2 - k].re, table[n / 2 - k].im};
  for (int64_t k = n / 2 + 1; k < n; k++)
    table[k] = (root){table[n - k].re, -table[n - k].im};
}

/* Transforms of lengths with small prime factors. */

typedef struct {
  int64_t size;
  int32_t radices[MAX_STAGES];
  int32_t stages;
  const root *table; /* of size * step roots */
  int64_t step;
} smooth;

/* Splits `size` into radices; returns false where a prime factor is too large for that. */
static bool factorize(smooth *s, int64_t size) {
  s->size = size;
  s->stages = 0;
  for (; size % 4 == 0; size /= 4)
    s->radices[s->stages++] = 4;
  for (int32_t radix = 2; radix <= LARGEST_RADIX; radix++)
    for (; size % radix == 0; size /= radix)
      s->radices[s->stages++] = radix;
  return size == 1;
}

static int64_t run_line(const kit *k, int32_t radix, line x, line y, int64_t begin, int64_t count, int64_t in, const root *w,
                        const root *unit) {
  switch (radix) {
  case 2: return k->line2(x, y, begin, count, in, count, w);
  case 3: return k->line3(x, y, begin, count, in, count, w);
  case 4: return k->line4(x, y, begin, count, in, count, w);
  case 5: return k->line5(x, y, begin, count, in, count, w);
  default: return k->line_any(x, y, begin, count, in, count, w, radix, unit);
  }
}

static line shifted(line x, int64_t by) { return (line){x.re + by, x.im + by}; }

static line swapped(line x, bool wanted) { return wanted ? (line){x.im, x.re} : x; }

/* One stage: `left` numbers a transform are left to do, in lines of `count`; `step` of the table goes with `left`. */
static void run_stage(const smooth *s, int32_t radix, line x, line y, int64_t left, int64_t count, int64_t step, const kit *wide) {
  root w[LARGEST_RADIX], unit[LARGEST_RADIX];
  const int64_t legs = left / radix;
  const bool vectors = count >= wide->lanes, rest = !vectors || count % wide->lanes;
  for (int32_t j = 0; j < radix; j++)
    unit[j] = s->table[j * legs * step];
  for (int64_t i = 0; i < legs; i++) {
    for (int32_t j = 1; j < radix; j++)
      w[j] = s->table[i * j * step];
    const line from = shifted(x, i * count), to = shifted(y, i * radix * count);
    const int64_t done = vectors ? run_line(wide, radix, from, to, 0, count, legs * count, w, unit) : 0;
    if (rest) run_line(&KIT_1, radix, from, to, done, count, legs * count, w, unit);
  }
}

/* Transforms `rows` rows in x, with y as spare memory; returns that of the two where the result is. */
static line transform(const smooth *s, line x, line y, int64_t rows, const kit *wide) {
  int64_t left = s->size, count = rows;
  for (int32_t stage = 0; stage < s->stages; stage++) {
    const int32_t radix = s->radices[stage];
    run_stage(s, radix, x, y, left, count, s->step * (s->size / left), wide);
    left /= radix;
    count *= radix;
    const line done = y;
    y = x;
    x = done;
  }
  return x;
}

/* What all rows of a call share. */
typedef struct {
  const void *data;
  void *out;
  int64_t extent, inner, length, count, flags, rows;
  const forge_host *host;
  const kit *wide;
  bool packed;       /* real rows of even length */
  int64_t size;      /* of the complex transform: length, or half of it */
  smooth main;       /* does that, or (chirp is there) the convolutions that do it */
  const root *turns; /* packed: roots of `length` */
  const root *chirp; /* exp(-pi i j^2 / size); NULL where the size has small factors only */
  line filter;       /* transform of the conjugate chirp / main.size */
  int64_t block;     /* rows of a block */
} job;

static bool has(const job *j, int64_t flag) { return (j->flags & flag) != 0; }

static void turn(const kit *wide, line x, int64_t count, const root *w) {
  const int64_t done = wide->turn(x, 0, count, w);
  if (done < count) KIT_1.turn(x, done, count, w);
}

static void clear(line x, int64_t begin, int64_t end) {
  memset(x.re + begin, 0, (size_t)(end - begin) * sizeof *x.re);
  memset(x.im + begin, 0, (size_t)(end - begin) * sizeof *x.im);
}

/* Bluestein's way: X[k] = c[k] * sum over t of (x[t] c[t]) conj(c[k - t]). */
static line convolve(const job *j, line x, line y, int64_t rows) {
  for (int64_t k = 0; k < j->size; k++)
    turn(j->wide, shifted(x, k * rows), rows, j->chirp + k);
  clear(x, j->size * rows, j->main.size * rows);
  const line z = transform(&j->main, x, y, rows, j->wide), spare = z.re == x.re ? y : x;
  for (int64_t k = 0; k < j->main.size; k++)
    turn(j->wide, shifted(z, k * rows), rows, &(root){j->filter.re[k], j->filter.im[k]});
  const line back = swapped(transform(&j->main, swapped(z, true), swapped(spare, true), rows, j->wide), true);
  for (int64_t k = 0; k < j->size; k++)
    turn(j->wide, shifted(back, k * rows), rows, j->chirp + k);
  return back;
}

static line transform_block(const job *j, line x, line y, int64_t rows) {
  return j->chirp ? convolve(j, x, y, rows) : transform(&j->main, x, y, rows, j->wide);
}

/* Rows in memory. Strides and offsets count single numbers. */

static void fetch(const job *j, int64_t at, int64_t stride, int64_t count, double *to, int64_t rows) {
  if (has(j, FORGE_FFT_WIDE)) {
    const double *from = (const double *)j->data + at;
    for (int64_t k = 0; k < count; k++)
      to[k * rows] = from[k * stride];
  } else {
    const float *from = (const float *)j->data + at;
    for (int64_t k = 0; k < count; k++)
      to[k * rows] = from[k * stride];
  }
}

static void deliver(const job *j, const double *from, int64_t rows, double factor, int64_t at, int64_t stride, int64_t count) {
  if (has(j, FORGE_FFT_WIDE)) {
    double *to = (double *)j->out + at;
    for (int64_t k = 0; k < count; k++)
      to[k * stride] = from[k * rows] * factor;
  } else {
    float *to = (float *)j->out + at;
    for (int64_t k = 0; k < count; k++)
      to[k * stride] = (float)(from[k * rows] * factor);
  }
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Offset of a row among rows of `extent` elements. */
static int64_t place(const job *j, int64_t row, int64_t extent) { return row / j->inner * extent * j->inner + row % j->inner; }

/* The first `count` numbers of the rows, and zeros up to `room`. */
static void load_numbers(const job *j, int64_t row, int64_t rows, line x, int64_t count, int64_t room) {
  const int64_t parts = has(j, FORGE_FFT_COMPLEX) ? 2 : 1, stride = j->inner * parts;
  const int64_t used = smaller(count, j->extent);
  if (parts == 1) memset(x.im, 0, (size_t)(used * rows) * sizeof *x.im);
  clear(x, used * rows, room * rows);
  for (int64_t b = 0; b < rows; b++)
    for (int64_t part = 0; part < parts; part++)
      fetch(j, place(j, row + b, j->extent) * parts + part, stride, used, (part ? x.im : x.re) + b, rows);
}

/* Pairs of neighbours of real rows as complex numbers. */
static void load_packed(const job *j, int64_t row, int64_t rows, line x) {
  const int64_t used = smaller(j->length, j->extent);
  clear(x, used / 2 * rows, j->size * rows);
  for (int64_t b = 0; b < rows; b++) {
    const int64_t at = place(j, row + b, j->extent);
    fetch(j, at, 2 * j->inner, (used + 1) / 2, x.re + b, rows);
    fetch(j, at + j->inner, 2 * j->inner, used / 2, x.im + b, rows);
  }
}

/* The conjugates that the other half of a Hermitian spectrum is. */
static void mirror(const job *j, line x, int64_t rows) {
  memset(x.im, 0, (size_t)rows * sizeof *x.im);
  for (int64_t k = j->length / 2 + 1; k < j->length; k++)
    for (int64_t b = 0; b < rows; b++) {
      x.re[k * rows + b] = x.re[(j->length - k) * rows + b];
      x.im[k * rows + b] = -x.im[(j->length - k) * rows + b];
    }
}

static void pairs(const job *j, pair_function *wide, pair_function *one, line x, line y, int64_t last, int64_t rows) {
  for (int64_t k = 0; k <= last; k++) {
    const line a = shifted(x, k * rows), b = shifted(x, (j->size - k) * rows), to = shifted(y, k * rows);
    const int64_t done = wide(a, b, to, 0, rows, j->turns + k);
    if (done < rows) one(a, b, to, done, rows, j->turns + k);
  }
}

/* Half a Hermitian spectrum in y becomes that of packed neighbours in x. */
static void join(const job *j, line y, line x, int64_t rows) {
  memset(y.im, 0, (size_t)rows * sizeof *y.im);
  memset(y.im + j->size * rows, 0, (size_t)rows * sizeof *y.im);
  pairs(j, j->wide->join, KIT_1.join, y, x, j->size - 1, rows);
}

/* The spectrum of packed neighbours in x becomes that of real rows in y. */
static void split(const job *j, line x, line y, int64_t rows) {
  memcpy(x.re + j->size * rows, x.re, (size_t)rows * sizeof *x.re);
  memcpy(x.im + j->size * rows, x.im, (size_t)rows * sizeof *x.im);
  pairs(j, j->wide->split, KIT_1.split, x, y, j->size, rows);
}

static void load_block(const job *j, int64_t row, int64_t rows, line x, line y) {
  const bool hermitian = has(j, FORGE_FFT_INVERSE) && has(j, FORGE_FFT_ONESIDED);
  if (!hermitian) {
    if (j->packed) load_packed(j, row, rows, x);
    else load_numbers(j, row, rows, swapped(x, has(j, FORGE_FFT_INVERSE)), j->length, j->length);
  } else if (j->packed) {
    load_numbers(j, row, rows, y, j->size + 1, j->size + 1);
    join(j, y, swapped(x, true), rows);
  } else {
    load_numbers(j, row, rows, swapped(x, true), j->length / 2 + 1, j->length);
    mirror(j, swapped(x, true), rows);
  }
}

static void store_real(const job *j, int64_t row, int64_t rows, line x) {
  const double factor = 1.0 / (double)j->length;
  for (int64_t b = 0; b < rows; b++) {
    const int64_t at = place(j, row + b, j->count);
    if (j->packed) {
      deliver(j, x.re + b, rows, factor, at, 2 * j->inner, (j->count + 1) / 2);
      deliver(j, x.im + b, rows, factor, at + j->inner, 2 * j->inner, j->count / 2);
    } else {
      deliver(j, x.re + b, rows, factor, at, j->inner, j->count);
    }
  }
}

/* Pairs; of packed rows, x holds the first half of the spectrum. */
static void store_pairs(const job *j, int64_t row, int64_t rows, line x) {
  const double factor = has(j, FORGE_FFT_INVERSE) ? 1.0 / (double)j->length : 1.0;
  const double sign = j->packed && has(j, FORGE_FFT_INVERSE) ? -factor : factor;
  const int64_t stride = 2 * j->inner, there = j->packed ? smaller(j->count, j->size + 1) : j->count;
  for (int64_t b = 0; b < rows; b++) {
    const int64_t at = 2 * place(j, row + b, j->count), next = at + there * stride, image = (j->length - there) * rows + b;
    deliver(j, x.re + b, rows, factor, at, stride, there);
    deliver(j, x.im + b, rows, sign, at + 1, stride, there);
    if (there == j->count) continue;
    deliver(j, x.re + image, -rows, factor, next, stride, j->count - there);
    deliver(j, x.im + image, -rows, -sign, next + 1, stride, j->count - there);
  }
}

static void run_block(const job *j, int64_t row, int64_t rows, line x, line y) {
  load_block(j, row, rows, x, y);
  const line z = transform_block(j, x, y, rows), spare = z.re == x.re ? y : x;
  const bool inverse = has(j, FORGE_FFT_INVERSE);
  if (inverse && has(j, FORGE_FFT_ONESIDED)) {
    store_real(j, row, rows, swapped(z, true));
  } else if (j->packed) {
    split(j, z, spare, rows);
    store_pairs(j, row, rows, spare);
  } else {
    store_pairs(j, row, rows, swapped(z, inverse));
  }
}

static int32_t no_memory(const forge_host *host) {
  host->report_error(host, FORGE_ERROR_MEMORY, "fft: no memory for a transform of this length");
  return FORGE_ERROR_MEMORY;
}

/* Blocks begin .. end, with memory of their own. */
static int32_t run_blocks(int64_t begin, int64_t end, void *closure) {
  const job *j = closure;
  const int64_t room = (j->main.size + 1) * j->block;
  const size_t bytes = 4 * (size_t)room * sizeof(double);
  double *scratch = j->host->alloc(j->host, bytes, FORGE_ALIGNMENT);
  if (scratch == NULL) return no_memory(j->host);
  const line x = {scratch, scratch + room}, y = {scratch + 2 * room, scratch + 3 * room};
  for (int64_t k = begin; k < end; k++)
    run_block(j, k * j->block, smaller(j->block, j->rows - k * j->block), x, y);
  j->host->free(j->host, scratch, bytes);
  return FORGE_OK;
}

/* The smallest size from `least` on that has factors 2, 3 and 5 only, and 4 among them. */
static int64_t smooth_size(int64_t least) {
  int64_t best = INT64_MAX;
  for (int64_t five = 4; five / 5 < least && five < best; five *= 5)
    for (int64_t three = five; three / 3 < least && three < best; three *= 3) {
      int64_t size = three;
      while (size < least)
        size *= 2;
      best = smaller(best, size);
    }
  return best;
}

/* The chirp, and its conjugate's transform; `spare` is memory for one more row. */
static void fill_chirp(job *j, root *chirp, line filter, line spare) {
  const int64_t size = j->size, padded = j->main.size;
  const double factor = 1.0 / (double)padded;
  clear(filter, 0, padded);
  for (int64_t k = 0, square = 0; k < size; square = (square + 2 * k + 1) % (2 * size), k++) {
    chirp[k] = unit_root(square, 2 * size);
    const int64_t image = k ? padded - k : 0;
    filter.re[k] = filter.re[image] = chirp[k].re * factor;
    filter.im[k] = filter.im[image] = -chirp[k].im * factor;
  }
  j->filter = transform(&j->main, filter, spare, 1, j->wide);
  j->chirp = chirp;
}

/* Fills the tables of a call; `memory` has room for roots of main.size * step, of length, and for the chirp and two rows. */
static void prepare(job *j, root *memory, bool chirped) {
  const int64_t padded = j->main.size, table = padded * j->main.step;
  fill_roots(memory, table);
  j->main.table = memory;
  j->turns = memory;
  if (!chirped) return;
  root *turns = memory + table, *chirp = turns + j->length;
  if (j->packed) fill_roots(turns, j->length);
  j->turns = turns;
  double *rows = (double *)(chirp + j->size);
  fill_chirp(j, chirp, (line){rows, rows + padded}, (line){rows + 2 * padded, rows + 3 * padded});
}

static int32_t run_job(job *j) {
  const int64_t parts = has(j, FORGE_FFT_COMPLEX) ? 2 : 1;
  const bool hermitian = has(j, FORGE_FFT_INVERSE) && has(j, FORGE_FFT_ONESIDED);
  j->packed = j->length % 2 == 0 && (parts == 1 || hermitian);
  j->size = j->packed ? j->length / 2 : j->length;
  const bool chirped = !factorize(&j->main, j->size);
  if (chirped) factorize(&j->main, smooth_size(2 * j->size - 1));
  j->main.step = j->packed && !chirped ? 2 : 1;
  const int64_t padded = j->main.size, roots = padded * j->main.step + (chirped ? j->length + j->size + 2 * padded : 0);
  const size_t bytes = (size_t)roots * sizeof(root);
  root *memory = j->host->alloc(j->host, bytes, FORGE_ALIGNMENT);
  if (memory == NULL) return no_memory(j->host);
  prepare(j, memory, chirped);
  j->block = smaller(MOST_ROWS, BLOCK_NUMBERS / padded);
  j->block = smaller(j->block < 1 ? 1 : j->block, j->rows);
  const int64_t grain = CHUNK_NUMBERS / (padded * j->block), blocks = (j->rows - 1) / j->block + 1;
  const int32_t status = j->host->parallel_for(j->host, run_blocks, j, blocks, grain < 1 ? 1 : grain);
  j->host->free(j->host, memory, bytes);
  return status;
}

static int32_t bad_sizes(const forge_host *host) {
  host->report_error(host, FORGE_ERROR_INTERNAL, "fft: sizes do not fit together; compile the model again");
  return FORGE_ERROR_INTERNAL;
}

int32_t forge_fft(const void *data, void *out, int64_t outer, int64_t extent, int64_t inner, int64_t length, int64_t count,
                  int64_t flags, const forge_host *host) {
  if (outer < 0 || extent < 0 || inner < 0 || count < 0) return bad_sizes(host);
  if (outer == 0 || inner == 0 || count == 0) return FORGE_OK;
  if (length < 1) length = 1;
  int64_t rows, most;
  if (length > LONGEST) return no_memory(host);
  const int64_t longest = (extent > count ? extent : count) > length ? (extent > count ? extent : count) : length;
  if (__builtin_mul_overflow(outer, inner, &rows) || __builtin_mul_overflow(longest, 32, &most) ||
      __builtin_mul_overflow(most, rows, &most) || count > length)
    return bad_sizes(host);
  job j = {.data = data, .out = out, .extent = extent, .inner = inner, .length = length, .count = count, .flags = flags,
           .rows = rows, .host = host, .wide = widest()};
  return run_job(&j);
}
