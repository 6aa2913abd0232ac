/* Whether blocks of memory are as they were when they were read. Anybody may write to them, and nobody has to say so. */
#include "_native.h"

#include <stdlib.h>
#include <string.h>

enum {
  CHUNK = 1024,  /* bytes with a digest of their own */
  LINE = 64,     /* bytes that are sampled together */
  LINES = 3,     /* samples of a block; all of it where it is not longer than they are */
  CALLS = 4096,  /* of `unchanged` that compare all of the memory */
  FEW = 24 << 10 /* bytes that each call compares with a copy where there are no more; more do not stay in a first-level cache */
};

typedef struct {
  const char *data;
  size_t bytes, first; /* number of its first chunk */
  char samples[LINES][LINE];
} block;

typedef struct {
  PyObject_HEAD block *blocks;
  uint64_t *digests;
  char *copy; /* of few bytes; NULL: there are more */
  Py_ssize_t count;
  size_t bytes;  /* of all blocks */
  size_t chunks; /* of all blocks */
  size_t part;   /* of them, which a call compares */
  size_t next;   /* number of the chunk that is compared next */
  Py_ssize_t at; /* its block */
} checksums_object;

/* One step of xxHash64: sums alone would not see signs that change in pairs, nor elements that change places. */
static inline uint64_t mix(uint64_t lane, const char *data) {
  uint64_t word;
  memcpy(&word, data, sizeof word);
  lane += word * 0xC2B2AE3D27D4EB4Full;
  return (lane << 31 | lane >> 33) * 0x9E3779B185EBCA87ull;
}

static uint64_t digest(const char *data, size_t bytes) {
  uint64_t a = 1, b = 2, c = 3, d = 4;
  for (; bytes >= 32; data += 32, bytes -= 32)
    a = mix(a, data), b = mix(b, data + 8), c = mix(c, data + 16), d = mix(d, data + 24);
  char rest[32] = {0};
  memcpy(rest, data, bytes);
  if (bytes) a = mix(a, rest), b = mix(b, rest + 8), c = mix(c, rest + 16), d = mix(d, rest + 24);
  uint64_t all = 5;
  const uint64_t lanes[] = {a, b, c, d};
  for (int i = 0; i < 4; i++)
    all = mix(all, (const char *)&lanes[i]);
  return all;
}

static size_t chunk_count(const block *of) { return (of->bytes + CHUNK - 1) / CHUNK; }

static uint64_t chunk_digest(const block *of, size_t chunk) {
  const size_t offset = (chunk - of->first) * CHUNK, left = of->bytes - offset;
  return digest(of->data + offset, left < CHUNK ? left : CHUNK);
}

static size_t sample_bytes(const block *of) { return of->bytes < LINE ? of->bytes : LINE; }

static const char *sample(const block *of, size_t number) {
  const size_t offset = number * (of->bytes - sample_bytes(of)) / (LINES - 1);
  return of->data + (of->bytes > LINES * LINE ? offset - offset % LINE : offset);
}

static void read_all(checksums_object *self) {
  char *copy = self->copy;
  for (Py_ssize_t i = 0; i < self->count; i++) {
    block *of = &self->blocks[i];
    for (size_t k = 0; k < chunk_count(of); k++)
      self->digests[of->first + k] = chunk_digest(of, of->first + k);
    for (size_t k = 0; of->bytes && k < LINES; k++)
      memcpy(of->samples[k], sample(of, k), sample_bytes(of));
    if (copy && of->bytes) memcpy(copy, of->data, of->bytes), copy += of->bytes;
  }
}

static int find_block(checksums_object *self, PyObject *pair) {
  block *of = &self->blocks[self->count];
  unsigned long long address;
  Py_ssize_t bytes;
  if (!PyArg_ParseTuple(pair, "Kn", &address, &bytes)) return -1;
  *of = (block){.data = (const char *)(uintptr_t)address, .bytes = address ? (size_t)bytes : 0, .first = self->chunks};
  self->chunks += chunk_count(of);
  self->bytes += of->bytes;
  self->count++;
  return 0;
}

PyObject *native_checksums(PyObject *module, PyObject *pairs) {
  const module_state *state = PyModule_GetState(module);
  const Py_ssize_t count = PyTuple_Check(pairs) ? PyTuple_Size(pairs) : -1;
  if (count < 0) return PyErr_Format(PyExc_TypeError, "checksums: got %R; expected a tuple of pairs (address, size)", pairs);
  checksums_object *self = (checksums_object *)native_new_object(state->checksums_type);
  if (self == NULL) return NULL;
  *self = (checksums_object){.ob_base = self->ob_base, .blocks = calloc((size_t)count + 1, sizeof(block))};
  for (Py_ssize_t i = 0; self->blocks && i < count; i++) {
    if (find_block(self, PyTuple_GetItem(pairs, i)) == 0) continue;
    Py_DECREF(self);
    return NULL;
  }
  self->digests = malloc((self->chunks + 1) * sizeof(uint64_t));
  self->copy = self->bytes <= FEW ? malloc(self->bytes + 1) : NULL;
  if (self->blocks == NULL || self->digests == NULL || (self->bytes <= FEW && self->copy == NULL)) {
    Py_DECREF(self);
    return PyErr_NoMemory();
  }
  self->part = (self->chunks + CALLS - 1) / CALLS;
  Py_BEGIN_ALLOW_THREADS read_all(self);
  Py_END_ALLOW_THREADS return (PyObject *)self;
}

typedef uint64_t words __attribute__((vector_size(16)));

/* Inline: a call of memcmp takes longer than the comparison. */
static inline words line_difference(const char *one, const char *other) {
  words a[LINE / 16], b[LINE / 16];
  memcpy(a, one, LINE);
  memcpy(b, other, LINE);
  return (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]);
}

static bool samples_are_equal(const block *of) {
  if (of->bytes < LINE) return memcmp(of->samples[0], of->data, of->bytes) == 0;
  words difference = {0};
  for (size_t k = 0; k < LINES; k++)
    difference |= line_difference(of->samples[k], sample(of, k));
  return (difference[0] | difference[1]) == 0;
}

static bool next_chunk_is_equal(checksums_object *self) {
  if (self->next == self->chunks) self->next = 0, self->at = 0;
  while (self->next >= self->blocks[self->at].first + chunk_count(&self->blocks[self->at]))
    self->at++;
  const bool is_equal = chunk_digest(&self->blocks[self->at], self->next) == self->digests[self->next];
  self->next++;
  return is_equal;
}

static bool copy_is_equal(const checksums_object *self) {
  const char *copy = self->copy;
  for (Py_ssize_t i = 0; i < self->count; copy += self->blocks[i].bytes, i++)
    if (self->blocks[i].bytes && memcmp(copy, self->blocks[i].data, self->blocks[i].bytes) != 0) return false;
  return true;
}

static PyObject *checksums_unchanged(PyObject *object, PyObject *unused) {
  (void)unused;
  checksums_object *self = (checksums_object *)object;
  if (self->copy) return PyBool_FromLong(copy_is_equal(self));
  bool is_equal = true;
  for (Py_ssize_t i = 0; is_equal && i < self->count; i++)
    is_equal = self->blocks[i].bytes == 0 || samples_are_equal(&self->blocks[i]);
  for (size_t i = 0; is_equal && i < self->part; i++)
    is_equal = next_chunk_is_equal(self);
  return PyBool_FromLong(is_equal);
}

static PyObject *checksums_digests(PyObject *object, PyObject *unused) {
  (void)unused;
  const checksums_object *self = (const checksums_object *)object;
  PyObject *all = PyTuple_New(self->count);
  for (Py_ssize_t i = 0; all && i < self->count; i++) {
    const block *of = &self->blocks[i];
    const uint64_t found = digest((const char *)(self->digests + of->first), chunk_count(of) * sizeof(uint64_t));
    PyObject *number = PyLong_FromUnsignedLongLong(found);
    if (number == NULL || PyTuple_SetItem(all, i, number) < 0) Py_CLEAR(all);
  }
  return all;
}

static void checksums_dealloc(PyObject *object) {
  checksums_object *self = (checksums_object *)object;
  free(self->blocks);
  free(self->digests);
  free(self->copy);
  native_free_object(object);
}

static PyMethodDef checksums_methods[] = {
    {"unchanged", checksums_unchanged, METH_NOARGS,
     "unchanged() -> bool: few bytes are all as they were; of more, samples of each block and the next part of all memory"},
    {"digests", checksums_digests, METH_NOARGS, "digests() -> tuple of int: what the contents of each block were"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot checksums_slots[] = {
    {Py_tp_dealloc, checksums_dealloc},
    {Py_tp_methods, checksums_methods},
    {0, NULL},
};

PyType_Spec native_checksums_spec = {
    .name = "forge_runtime._native.Checksums",
    .basicsize = sizeof(checksums_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = checksums_slots,
};
