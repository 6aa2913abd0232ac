/* Operators on sequences and optionals. A value is a forge_sequence; elements never change and are shared. They lie in the call's
 * heap, or, of inputs, in the caller's memory. Appending to the newest sequence of a backing array fills its next place.
 */
#include "forge_internal.h"
#include <stdio.h>
#include <string.h>

enum { SMALLEST_BACKING = 4, TEXT_SIZE = 200 };

/* An array that sequences are parts of. */
typedef struct {
  int64_t used, capacity;
  forge_tensor elements[];
} backing;

/* A node on its way. */
typedef struct {
  const forge_host *host;
  const forge_control *control;
  forge_heap *heap;
  const void *weights;
  const forge_tensor *in;
  int32_t n_in;
  forge_tensor *out;
  int32_t n_out;
} running;

static int32_t fail(const running *r, const char *message) {
  return forge_node_fail(r->host, r->control, FORGE_ERROR_VALUE, message);
}

static int32_t out_of_memory(const running *r) {
  return forge_node_fail(r->host, r->control, FORGE_ERROR_MEMORY, "no memory for the elements of a sequence");
}

static const forge_sequence *sequence_of(const forge_tensor *value) { return value->data; }

static backing *new_backing(forge_heap *heap, int64_t length) {
  int64_t capacity = 0, bytes = 0;
  if (__builtin_mul_overflow(length < SMALLEST_BACKING ? SMALLEST_BACKING : length, (int64_t)2, &capacity) ||
      __builtin_mul_overflow(capacity, (int64_t)sizeof(forge_tensor), &bytes) ||
      __builtin_add_overflow(bytes, (int64_t)sizeof(backing), &bytes))
    return NULL;
  backing *fresh = forge_heap_alloc(heap, (size_t)bytes);
  if (fresh) *fresh = (backing){0, capacity};
  return fresh;
}

static bool ends_backing(const forge_sequence *sequence) {
  const backing *shared = sequence->backing;
  return shared && shared->used < shared->capacity &&
         sequence->elements + sequence->length == shared->elements + shared->used;
}

/* `count` elements from `first` on, moved behind those of `to`, which has room. */
static void copy_elements(backing *to, const forge_sequence *from, int64_t first, int64_t count) {
  if (count) memcpy(to->elements + to->used, from->elements + first, sizeof(forge_tensor) * (size_t)count);
  to->used += count;
}

/* The sequence with `element`, whose data stays as it is, before `position`. `to` may be `from`. */
static bool insert(forge_heap *heap, const forge_sequence *from, int64_t position, const forge_tensor *element,
                   forge_sequence *to) {
  backing *into = from->backing;
  const int64_t length = from->length;
  if (position == length && ends_backing(from)) {
    into->elements[into->used++] = *element;
    *to = (forge_sequence){from->elements, length + 1, into};
    return true;
  }
  into = new_backing(heap, length + 1);
  if (into == NULL) return false;
  copy_elements(into, from, 0, position);
  into->elements[into->used++] = *element;
  copy_elements(into, from, position, length - position);
  *to = (forge_sequence){into->elements, length + 1, into};
  return true;
}

/* The sequence without the element at `position`; at the ends it shares the backing. */
static bool erase(forge_heap *heap, const forge_sequence *from, int64_t position, forge_sequence *to) {
  const int64_t left = from->length - 1;
  if (position == 0 || position == left) {
    *to = (forge_sequence){from->elements + (position == 0), left, from->backing};
    return true;
  }
  backing *into = new_backing(heap, left);
  if (into == NULL) return false;
  copy_elements(into, from, 0, position);
  copy_elements(into, from, position + 1, left - position);
  *to = (forge_sequence){into->elements, left, into};
  return true;
}

/* A copy of the value in the heap; what its elements refer to is shared. */
static bool keep(forge_heap *heap, const forge_tensor *value, forge_tensor *kept) {
  const int64_t bytes = forge_byte_count(value);
  if (bytes < 0) return false;
  *kept = *value;
  kept->capacity = bytes;
  kept->data = forge_heap_alloc(heap, (size_t)bytes);
  if (kept->data == NULL) return false;
  if (bytes) memcpy(kept->data, value->data, (size_t)bytes);
  return true;
}

static bool append_copy(forge_heap *heap, forge_sequence *sequence, const forge_tensor *value) {
  forge_tensor kept;
  return keep(heap, value, &kept) && insert(heap, sequence, sequence->length, &kept, sequence);
}

/* Results. */

/* A copy of `value` as result number `index`. */
static int32_t give(const running *r, int32_t index, const forge_tensor *value) {
  forge_tensor copy = *value;
  const int64_t bytes = forge_byte_count(value);
  int32_t status = forge_node_allocate(r->host, r->control, &copy, bytes);
  if (status != FORGE_OK) return status;
  if (bytes) memcpy(copy.data, value->data, (size_t)bytes);
  status = forge_hand_over(r->host, r->control, &copy, &r->out[index]);
  forge_free_output(r->host, &copy);
  return status;
}

static int32_t give_scalar(const running *r, int32_t dtype, void *element) {
  const forge_tensor value = {.data = element, .dtype = dtype};
  return give(r, 0, &value);
}

static int32_t give_sequence(const running *r, int32_t index, forge_sequence *sequence) {
  const forge_tensor value = {.data = sequence, .dtype = r->out[index].dtype};
  return give(r, index, &value);
}

/* Operands. */

static int64_t integer_at(const forge_tensor *tensor, int64_t index) {
  return tensor->dtype == FORGE_INT32 ? ((const int32_t *)tensor->data)[index] : ((const int64_t *)tensor->data)[index];
}

/* The integers of a vector or scalar; -1 where it is something else. */
static int64_t integer_count(const forge_tensor *tensor) {
  if ((tensor->dtype != FORGE_INT32 && tensor->dtype != FORGE_INT64) || tensor->ndim > 1) return -1;
  return tensor->ndim ? tensor->shape[0] : 1;
}

/* Operand `index` as a position from the start, within 0 and `last`; `standard` without that operand. */
static int32_t read_position(const running *r, int32_t index, int64_t length, int64_t last, int64_t standard, int64_t *position) {
  char text[TEXT_SIZE];
  *position = standard;
  if (index < r->n_in) {
    if (integer_count(&r->in[index]) != 1) return fail(r, "the position is not an integer");
    *position = integer_at(&r->in[index], 0);
  }
  const int64_t given = *position;
  if (given < 0) *position += length;
  if (*position >= 0 && *position <= last) return FORGE_OK;
  snprintf(text, sizeof text, "got position %lld; expected one of %lld to %lld in a sequence of %lld", (long long)given,
           (long long)-length, (long long)last, (long long)length);
  return fail(r, text);
}

/* The operators. */

static int32_t run_construct(const running *r) {
  forge_sequence made = {NULL, 0, NULL};
  for (int32_t k = 0; k < r->n_in; k++)
    if (!append_copy(r->heap, &made, &r->in[k])) return out_of_memory(r);
  return give_sequence(r, 0, &made);
}

static int32_t run_insert(const running *r) {
  const forge_sequence *given = sequence_of(&r->in[0]);
  forge_sequence made;
  forge_tensor kept;
  int64_t position;
  const int32_t status = read_position(r, 2, given->length, given->length, given->length, &position);
  if (status != FORGE_OK) return status;
  if (!keep(r->heap, &r->in[1], &kept) || !insert(r->heap, given, position, &kept, &made)) return out_of_memory(r);
  return give_sequence(r, 0, &made);
}

static int32_t run_erase(const running *r) {
  const forge_sequence *given = sequence_of(&r->in[0]);
  forge_sequence made;
  int64_t position;
  const int32_t status = read_position(r, 1, given->length, given->length - 1, -1, &position);
  if (status != FORGE_OK) return status;
  if (!erase(r->heap, given, position, &made)) return out_of_memory(r);
  return give_sequence(r, 0, &made);
}

static int32_t run_at(const running *r) {
  const forge_sequence *given = sequence_of(&r->in[0]);
  int64_t position;
  const int32_t status = read_position(r, 1, given->length, given->length - 1, 0, &position);
  return status == FORGE_OK ? give(r, 0, &given->elements[position]) : status;
}

static int32_t run_length(const running *r) {
  int64_t length = sequence_of(&r->in[0])->length;
  return give_scalar(r, FORGE_INT64, &length);
}

static int32_t run_has(const running *r) {
  uint8_t has = r->n_in > 0;
  if (has && r->in[0].dtype == FORGE_OPTIONAL) has = sequence_of(&r->in[0])->length > 0;
  return give_scalar(r, FORGE_BOOL, &has);
}

static int32_t run_get(const running *r) {
  if (r->in[0].dtype != FORGE_OPTIONAL) return give(r, 0, &r->in[0]);
  const forge_sequence *given = sequence_of(&r->in[0]);
  if (given->length == 0) return fail(r, "the optional is empty; expected a value; ask optional_has_element first");
  return give(r, 0, &given->elements[0]);
}

/* Bytes of the elements behind (`from` on) or in front (before `to`) of a dimension. */
static int64_t product(const forge_tensor *tensor, int32_t from, int32_t to, int64_t start) {
  for (int32_t d = from; d < to; d++)
    start *= tensor->shape[d];
  return start;
}

/* Splitting: parts of `data` along `axis`. */
typedef struct {
  const forge_tensor *data;
  int32_t axis;
  bool drops; /* the dimension, of size 1 */
} splitting;

/* Copies the rows from `begin` on; the part is not empty. */
static void copy_part(const splitting *s, int64_t begin, int64_t size, char *part) {
  const int64_t row = product(s->data, s->axis + 1, s->data->ndim, (int64_t)forge_dtype_size(s->data->dtype));
  const int64_t stride = row * s->data->shape[s->axis], outer = product(s->data, 0, s->axis, 1);
  for (int64_t k = 0; k < outer; k++)
    memcpy(part + k * row * size, (const char *)s->data->data + k * stride + begin * row, (size_t)(row * size));
}

static bool append_part(forge_heap *heap, const splitting *s, int64_t begin, int64_t size, forge_sequence *parts) {
  forge_tensor part = *s->data;
  part.shape[s->axis] = size;
  const int64_t bytes = forge_byte_count(&part);
  part.data = forge_heap_alloc(heap, (size_t)bytes);
  part.capacity = bytes;
  if (part.data == NULL) return false;
  if (bytes) copy_part(s, begin, size, part.data);
  if (s->drops) {
    part.ndim--;
    memmove(part.shape + s->axis, part.shape + s->axis + 1, sizeof(int64_t) * (size_t)(part.ndim - s->axis));
  }
  return insert(heap, parts, parts->length, &part, parts);
}

/* Parts of `size`, the last one smaller; at least one where `one`. */
static int32_t split_evenly(const running *r, const splitting *s, int64_t size, bool one, forge_sequence *parts) {
  const int64_t extent = s->data->shape[s->axis];
  if (size < 1) return fail(r, "the size of the parts is not positive");
  for (int64_t begin = 0; begin < extent || (one && parts->length == 0); begin += size) {
    const int64_t left = extent - begin;
    if (!append_part(r->heap, s, begin, left < size ? left : size, parts)) return out_of_memory(r);
    if (left <= size) break;
  }
  return FORGE_OK;
}

static int32_t split_by(const running *r, const splitting *s, const forge_tensor *sizes, forge_sequence *parts) {
  int64_t left = s->data->shape[s->axis];
  for (int64_t k = 0; k < sizes->shape[0]; k++) {
    const int64_t size = integer_at(sizes, k);
    if (size < 0 || size > left) return fail(r, "the sizes of the parts do not add up to the size of the dimension");
    if (!append_part(r->heap, s, s->data->shape[s->axis] - left, size, parts)) return out_of_memory(r);
    left -= size;
  }
  return left ? fail(r, "the sizes of the parts do not add up to the size of the dimension") : FORGE_OK;
}

static int32_t run_split(const running *r) {
  splitting s = {.data = &r->in[0], .axis = r->control->axis};
  forge_sequence parts = {NULL, 0, NULL};
  if (s.axis < 0 || s.axis >= s.data->ndim) return fail(r, "the axis is out of range");
  int32_t status = FORGE_OK;
  if (r->n_in == 1) {
    s.drops = r->control->flags & FORGE_SEQUENCE_DROP_AXIS;
    status = split_evenly(r, &s, 1, false, &parts);
  } else if (integer_count(&r->in[1]) < 0) {
    status = fail(r, "the sizes of the parts are not integers");
  } else if (r->in[1].ndim == 0) {
    status = split_evenly(r, &s, integer_at(&r->in[1], 0), true, &parts);
  } else {
    status = split_by(r, &s, &r->in[1], &parts);
  }
  return status == FORGE_OK ? give_sequence(r, 0, &parts) : status;
}

/* Concatenation: `whole` has the sizes of the result. */

static bool same_but(const forge_tensor *a, const forge_tensor *b, int32_t axis) {
  bool same = a->dtype == b->dtype && a->ndim == b->ndim;
  for (int32_t d = 0; same && d < a->ndim; d++)
    same = d == axis || a->shape[d] == b->shape[d];
  return same;
}

static int32_t measure_concat(const running *r, const forge_sequence *given, int32_t axis, bool stacks, forge_tensor *whole) {
  *whole = given->elements[0];
  whole->data = NULL;
  for (int64_t k = 1; k < given->length; k++) {
    const forge_tensor *element = &given->elements[k];
    if (!same_but(element, &given->elements[0], stacks ? -1 : axis))
      return fail(r, "the elements have other ranks, sizes or element types than the first one");
    if (!stacks && __builtin_add_overflow(whole->shape[axis], element->shape[axis], &whole->shape[axis]))
      return out_of_memory(r);
  }
  if (!stacks) return FORGE_OK;
  memmove(whole->shape + axis + 1, whole->shape + axis, sizeof(int64_t) * (size_t)(whole->ndim - axis));
  whole->shape[axis] = given->length;
  whole->ndim++;
  return FORGE_OK;
}

static void copy_concat(const forge_sequence *given, int32_t axis, bool stacks, const forge_tensor *whole) {
  const int64_t row = product(whole, axis + 1, whole->ndim, (int64_t)forge_dtype_size(whole->dtype));
  const int64_t outer = product(whole, 0, axis, 1), stride = row * whole->shape[axis];
  int64_t at = 0;
  for (int64_t k = 0; k < given->length; k++) {
    const int64_t bytes = stacks ? row : row * given->elements[k].shape[axis];
    for (int64_t o = 0; bytes && o < outer; o++)
      memcpy((char *)whole->data + o * stride + at, (const char *)given->elements[k].data + o * bytes, (size_t)bytes);
    at += bytes;
  }
}

static int32_t run_concat(const running *r) {
  const forge_sequence *given = sequence_of(&r->in[0]);
  const bool stacks = r->control->flags & FORGE_SEQUENCE_NEW_AXIS;
  if (given->length == 0) return fail(r, "the sequence is empty; expected at least one element");
  const int32_t rank = given->elements[0].ndim + stacks;
  const int32_t axis = r->control->axis < 0 ? r->control->axis + rank : r->control->axis;
  if (axis < 0 || axis >= rank || rank > FORGE_MAX_RANK) return fail(r, "the axis or the rank is out of range");
  forge_tensor whole;
  int32_t status = measure_concat(r, given, axis, stacks, &whole);
  if (status == FORGE_OK) status = forge_node_allocate(r->host, r->control, &whole, forge_byte_count(&whole));
  if (status != FORGE_OK) return status;
  if (forge_byte_count(&whole)) copy_concat(given, axis, stacks, &whole);
  status = forge_hand_over(r->host, r->control, &whole, &r->out[0]);
  forge_free_output(r->host, &whole);
  return status;
}

/* Mapping: `in` and `out` are the tables of the body, `made` the results so far. */
typedef struct {
  const running *r;
  forge_tensor *in, *out;
  forge_sequence *made;
} mapping;

static bool is_mapped(const running *r, int32_t k) {
  return k < r->control->carried && r->in[k].dtype == FORGE_SEQUENCE;
}

static int32_t map_one(const mapping *m, int64_t position) {
  const running *r = m->r;
  for (int32_t k = 0; k < r->n_in; k++)
    m->in[k] = is_mapped(r, k) ? sequence_of(&r->in[k])->elements[position] : r->in[k];
  int32_t status = forge_node_region(r->host, r->control->regions[0], r->weights, m->in, m->out);
  if (status != FORGE_OK) return status;
  for (int32_t k = 0; status == FORGE_OK && k < r->n_out; k++)
    if (!append_copy(r->heap, &m->made[k], &m->out[k])) status = out_of_memory(r);
  for (int32_t k = 0; k < r->n_out; k++)
    forge_free_output(r->host, &m->out[k]);
  return status;
}

static int32_t map_all(const mapping *m) {
  const running *r = m->r;
  const int64_t length = sequence_of(&r->in[0])->length;
  for (int32_t k = 1; k < r->n_in; k++)
    if (is_mapped(r, k) && sequence_of(&r->in[k])->length != length) return fail(r, "the sequences have different lengths");
  int32_t status = FORGE_OK;
  for (int64_t position = 0; status == FORGE_OK && position < length; position++)
    status = map_one(m, position);
  for (int32_t k = 0; status == FORGE_OK && k < r->n_out; k++)
    status = give_sequence(r, k, &m->made[k]);
  return status;
}

static int32_t run_map(const running *r) {
  const size_t tensors = (size_t)r->n_in + (size_t)r->n_out;
  const size_t bytes = sizeof(forge_tensor) * tensors + sizeof(forge_sequence) * (size_t)r->n_out;
  forge_tensor *table = forge_heap_alloc(r->heap, bytes);
  if (table == NULL) return out_of_memory(r);
  memset(table, 0, bytes);
  const mapping m = {r, table, table + r->n_in, (forge_sequence *)(table + tensors)};
  return map_all(&m);
}

int32_t forge_run_sequence(const forge_host *host, const forge_control *control, const void *weights, const forge_tensor *in,
                           int32_t n_in, forge_tensor *out, int32_t n_out) {
  const running r = {host, control, forge_heap_of(host), weights, in, n_in, out, n_out};
  switch (control->kind) {
  case FORGE_SEQUENCE_MAP: return run_map(&r);
  case FORGE_SEQUENCE_CONSTRUCT: return run_construct(&r);
  case FORGE_SEQUENCE_INSERT: return run_insert(&r);
  case FORGE_SEQUENCE_ERASE: return run_erase(&r);
  case FORGE_SEQUENCE_AT: return run_at(&r);
  case FORGE_SEQUENCE_LENGTH: return run_length(&r);
  case FORGE_SEQUENCE_SPLIT: return run_split(&r);
  case FORGE_SEQUENCE_CONCAT: return run_concat(&r);
  case FORGE_OPTIONAL_HAS: return run_has(&r);
  default: return run_get(&r);
  }
}
