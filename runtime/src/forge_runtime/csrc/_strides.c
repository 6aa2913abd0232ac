/* Copies of arrays and tensors whose elements do not lie in C order. */
#include "_native.h"
#include <string.h>

/* Tiles of a transposition: so many rows of the result, which lie next to each other in the source, by so many columns. Both stay in
 * the first cache, whatever the strides; the fastest of the squares and rectangles from 8 to 64. */
enum { TILE_ROWS = 32, TILE_COLUMNS = 64 };

/* Calls that copy at least so many bytes let other threads run meanwhile. */
enum { LONG_COPY = 64 << 10 };

/* Axes of more than one element, without those that lie as one with the next. Strides in bytes. */
typedef struct {
  int32_t ndim;
  int64_t sizes[FORGE_MAX_RANK], from[FORGE_MAX_RANK], to[FORGE_MAX_RANK];
} strided_axes;

/* Two of them: rows and columns of the result, whose columns lie next to each other. */
typedef struct {
  int64_t rows, columns, from_row, from_column, to_row;
} strided_plane;

static void find_axes(const Py_buffer *view, strided_axes *axes) {
  axes->ndim = 0;
  for (int32_t d = 0; d < view->ndim; d++) {
    const int64_t size = view->shape[d], stride = view->strides[d];
    const int32_t last = axes->ndim - 1;
    if (size == 1) continue;
    if (last >= 0 && axes->from[last] == size * stride) {
      axes->sizes[last] *= size;
      axes->from[last] = stride;
    } else {
      axes->sizes[axes->ndim] = size;
      axes->from[axes->ndim++] = stride;
    }
  }
  int64_t contiguous = view->itemsize;
  for (int32_t d = axes->ndim; d-- > 0; contiguous *= axes->sizes[d])
    axes->to[d] = contiguous;
}

static int64_t distance(int64_t stride) { return stride < 0 ? -stride : stride; }

/* Takes the last axis, and the one along which the source lies closest if that is closer, else the last but one. */
static strided_plane take_plane(strided_axes *axes, int64_t itemsize) {
  strided_plane plane = {1, 1, 0, itemsize, 0};
  if (axes->ndim == 0) return plane;
  const int32_t last = --axes->ndim;
  plane.columns = axes->sizes[last];
  plane.from_column = axes->from[last];
  if (last == 0) return plane;
  int32_t row = last - 1;
  for (int32_t d = 0; d < last - 1; d++)
    if (distance(axes->from[d]) < distance(plane.from_column) && distance(axes->from[d]) < distance(axes->from[row])) row = d;
  plane.rows = axes->sizes[row];
  plane.from_row = axes->from[row];
  plane.to_row = axes->to[row];
  axes->ndim--;
  for (int32_t d = row; d < axes->ndim; d++) {
    axes->sizes[d] = axes->sizes[d + 1];
    axes->from[d] = axes->from[d + 1];
    axes->to[d] = axes->to[d + 1];
  }
  return plane;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* With `size` known where it is compiled. */
static inline __attribute__((always_inline)) void copy_tiles(const strided_plane *plane, char *to, const char *from, size_t size) {
  const strided_plane p = *plane;
  const bool is_transposed = distance(p.from_row) < distance(p.from_column);
  const int64_t rows = is_transposed ? TILE_ROWS : 1, columns = is_transposed ? TILE_COLUMNS : p.columns;
  for (int64_t row = 0; row < p.rows; row += rows)
    for (int64_t column = 0; column < p.columns; column += columns)
      for (int64_t i = row; i < least(row + rows, p.rows); i++)
        for (int64_t j = column; j < least(column + columns, p.columns); j++)
          memcpy(to + i * p.to_row + j * (int64_t)size, from + i * p.from_row + j * p.from_column, size);
}

static void copy_plane(const strided_plane *plane, char *to, const char *from, int64_t itemsize) {
  if (plane->from_column == itemsize) {
    for (int64_t i = 0; i < plane->rows; i++)
      memcpy(to + i * plane->to_row, from + i * plane->from_row, (size_t)(plane->columns * itemsize));
    return;
  }
  switch (itemsize) {
  case 1: copy_tiles(plane, to, from, 1); break;
  case 2: copy_tiles(plane, to, from, 2); break;
  case 4: copy_tiles(plane, to, from, 4); break;
  case 8: copy_tiles(plane, to, from, 8); break;
  default: copy_tiles(plane, to, from, (size_t)itemsize);
  }
}

static void copy_axes(const strided_axes *axes, const strided_plane *plane, int32_t axis, char *to, const char *from, int64_t itemsize) {
  if (axis == axes->ndim) {
    copy_plane(plane, to, from, itemsize);
    return;
  }
  for (int64_t k = 0; k < axes->sizes[axis]; k++)
    copy_axes(axes, plane, axis + 1, to + k * axes->to[axis], from + k * axes->from[axis], itemsize);
}

PyObject *native_copy_in_order(const module_state *state, const Py_buffer *view) {
  PyObject *memory = native_new_memory(state, (size_t)view->len);
  if (memory == NULL || view->len == 0) return memory;
  strided_axes axes;
  find_axes(view, &axes);
  const strided_plane plane = take_plane(&axes, view->itemsize);
  PyThreadState *thread = view->len >= LONG_COPY ? PyEval_SaveThread() : NULL;
  copy_axes(&axes, &plane, 0, ((memory_object *)memory)->tensor.data, view->buf, view->itemsize);
  if (thread) PyEval_RestoreThread(thread);
  return memory;
}
