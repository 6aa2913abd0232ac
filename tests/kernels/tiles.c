/* Functions that stand in for AMX's instructions on tile registers: what each does, by Intel's manual, in plain C. Each thread has
 * registers of its own. Whatever the hardware faults on aborts. */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 8, ROWS = 16, BYTES = 64 };

typedef struct {
  uint8_t data[ROWS][BYTES];
  int rows, bytes;
} tile;

static _Thread_local tile tiles[COUNT];
static _Atomic int64_t products;

/* Products of tiles since the library was loaded. */
int64_t forge_tile_products(void) { return products; }

static void check(int is_right, const char *what) {
  if (is_right) return;
  fprintf(stderr, "tiles: %s\n", what);
  abort();
}

static tile *used(int8_t number) {
  check(number >= 0 && number < COUNT && tiles[number].rows > 0, "a register that is not configured is used");
  return &tiles[number];
}

void forge_ldtilecfg(const uint8_t *memory) {
  check(memory[0] == 1 && memory[1] == 0, "the palette is not 1");
  memset(tiles, 0, sizeof tiles);
  for (int i = 0; i < COUNT; i++) {
    uint16_t bytes;
    memcpy(&bytes, memory + 16 + 2 * i, 2);
    tiles[i].bytes = bytes, tiles[i].rows = memory[48 + i];
    check(bytes <= BYTES && tiles[i].rows <= ROWS && (bytes == 0) == (tiles[i].rows == 0), "a shape is out of range");
  }
}

void forge_tilerelease(void) { memset(tiles, 0, sizeof tiles); }

void forge_tilezero(int8_t number) { memset(used(number)->data, 0, ROWS * BYTES); }

void forge_tileloadd64(int8_t number, const uint8_t *memory, int64_t stride) {
  tile *t = used(number);
  memset(t->data, 0, ROWS * BYTES);
  for (int r = 0; r < t->rows; r++) memcpy(t->data[r], memory + r * stride, (size_t)t->bytes);
}

void forge_tilestored64(int8_t number, uint8_t *memory, int64_t stride) {
  const tile *t = used(number);
  for (int r = 0; r < t->rows; r++) memcpy(memory + r * stride, t->data[r], (size_t)t->bytes);
}

static float normal(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }

static float bfloat16(const uint8_t *memory) {
  uint32_t bits = (uint32_t)memory[0] << 16 | (uint32_t)memory[1] << 24;
  float x;
  memcpy(&x, &bits, 4);
  return normal(x);
}

static void check_shapes(const tile *sums, const tile *left, const tile *right) {
  products++;
  check(sums->rows == left->rows && sums->bytes == right->bytes && left->bytes / 4 <= right->rows, "shapes of a product differ");
}

/* Every finite float16 is 0 or a normal float32, whose exponent is 112 more. */
static float float16(const uint8_t *memory) {
  uint32_t half = (uint32_t)memory[0] | (uint32_t)memory[1] << 8, bits = (half & 0x7fff) << 13;
  float x;
  if (bits >= 0x0f800000) bits |= 0x7f800000;
  memcpy(&x, &bits, 4);
  return copysignf(bits < 0x0f800000 ? x * 0x1p112f : x, half >> 15 ? -1.0f : 1.0f);
}

#define FLOAT_DOT(name, number)                                                                                          \
  void name(int8_t sums_number, int8_t left_number, int8_t right_number) {                                               \
    tile *sums = used(sums_number);                                                                                      \
    const tile *left = used(left_number), *right = used(right_number);                                                   \
    check_shapes(sums, left, right);                                                                                     \
    for (int m = 0; m < sums->rows; m++)                                                                                 \
      for (int n = 0; n < sums->bytes / 4; n++) {                                                                        \
        float even = 0.0f, odd = 0.0f, total;                                                                            \
        for (int k = 0; k < left->bytes / 4; k++) {                                                                      \
          even = normal(fmaf(number(&left->data[m][4 * k]), number(&right->data[k][4 * n]), even));                      \
          odd = normal(fmaf(number(&left->data[m][4 * k + 2]), number(&right->data[k][4 * n + 2]), odd));                \
        }                                                                                                                \
        memcpy(&total, &sums->data[m][4 * n], 4);                                                                        \
        total = normal(normal(total) + normal(even + odd));                                                              \
        memcpy(&sums->data[m][4 * n], &total, 4);                                                                        \
      }                                                                                                                  \
  }

FLOAT_DOT(forge_tdpbf16ps, bfloat16)
FLOAT_DOT(forge_tdpfp16ps, float16)

#define DOT(name, left_type, right_type)                                                                                 \
  void name(int8_t sums_number, int8_t left_number, int8_t right_number) {                                               \
    tile *sums = used(sums_number);                                                                                      \
    const tile *left = used(left_number), *right = used(right_number);                                                   \
    check_shapes(sums, left, right);                                                                                     \
    for (int m = 0; m < sums->rows; m++)                                                                                 \
      for (int n = 0; n < sums->bytes / 4; n++) {                                                                        \
        int32_t total;                                                                                                   \
        memcpy(&total, &sums->data[m][4 * n], 4);                                                                        \
        for (int k = 0; k < left->bytes / 4; k++)                                                                        \
          for (int i = 0; i < 4; i++)                                                                                    \
            total = (int32_t)((uint32_t)total + (uint32_t)((int32_t)(left_type)left->data[m][4 * k + i] *                \
                                                           (int32_t)(right_type)right->data[k][4 * n + i]));             \
        memcpy(&sums->data[m][4 * n], &total, 4);                                                                        \
      }                                                                                                                  \
  }

DOT(forge_tdpbusd, uint8_t, int8_t)
DOT(forge_tdpbsud, int8_t, uint8_t)
DOT(forge_tdpbssd, int8_t, int8_t)
DOT(forge_tdpbuud, uint8_t, uint8_t)
