/* Running a model: checks, binding of symbols, memory of one call. */
#include "forge_fp.h"
#include "forge_internal.h"
#include "forge_strings.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { UNBOUND = -1, TEXT_SIZE = 256, SCRATCH_SIZE = 2048 };

typedef struct {
  const char *name;
  int32_t size;
  int32_t alignment;
} dtype_info;

static const dtype_info DTYPES[] = {
    [FORGE_BOOL] = {"bool", 1, 1},
    [FORGE_INT8] = {"int8", 1, 1},
    [FORGE_INT16] = {"int16", 2, 2},
    [FORGE_INT32] = {"int32", 4, 4},
    [FORGE_INT64] = {"int64", 8, 8},
    [FORGE_UINT8] = {"uint8", 1, 1},
    [FORGE_UINT16] = {"uint16", 2, 2},
    [FORGE_UINT32] = {"uint32", 4, 4},
    [FORGE_UINT64] = {"uint64", 8, 8},
    [FORGE_FLOAT16] = {"float16", 2, 2},
    [FORGE_BFLOAT16] = {"bfloat16", 2, 2},
    [FORGE_FLOAT32] = {"float32", 4, 4},
    [FORGE_FLOAT64] = {"float64", 8, 8},
    [FORGE_COMPLEX64] = {"complex64", 8, 4},
    [FORGE_COMPLEX128] = {"complex128", 16, 8},
    [FORGE_FLOAT8_E4M3FN] = {"float8_e4m3fn", 1, 1},
    [FORGE_FLOAT8_E4M3FNUZ] = {"float8_e4m3fnuz", 1, 1},
    [FORGE_FLOAT8_E5M2] = {"float8_e5m2", 1, 1},
    [FORGE_FLOAT8_E5M2FNUZ] = {"float8_e5m2fnuz", 1, 1},
    [FORGE_FLOAT8_E8M0FNU] = {"float8_e8m0fnu", 1, 1},
    [FORGE_FLOAT4_E2M1FN] = {"float4_e2m1fn", 1, 1},
    [FORGE_INT2] = {"int2", 1, 1},
    [FORGE_UINT2] = {"uint2", 1, 1},
    [FORGE_INT4] = {"int4", 1, 1},
    [FORGE_UINT4] = {"uint4", 1, 1},
    [FORGE_STRING] = {"string", sizeof(forge_string), _Alignof(forge_string)},
    [FORGE_SEQUENCE] = {"sequence", sizeof(forge_sequence), _Alignof(forge_sequence)},
    [FORGE_OPTIONAL] = {"optional", sizeof(forge_sequence), _Alignof(forge_sequence)},
};

static const dtype_info *find_dtype(int32_t dtype) {
  static const dtype_info unknown = {"an unknown dtype", 0, 1};
  const int32_t known = (int32_t)(sizeof DTYPES / sizeof *DTYPES);
  return dtype >= 0 && dtype < known ? &DTYPES[dtype] : &unknown;
}

const char *forge_dtype_name(int32_t dtype) { return find_dtype(dtype)->name; }

int64_t forge_dtype_alignment(int32_t dtype) { return find_dtype(dtype)->alignment; }

size_t forge_dtype_size(int32_t dtype) { return (size_t)find_dtype(dtype)->size; }

int32_t forge_fail(forge_error *error, int32_t status, const char *format, ...) {
  if (error == NULL) return status;
  error->status = status;
  va_list arguments;
  va_start(arguments, format);
  const int needed = vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  if (needed >= (int)sizeof error->message) {
    size_t end = sizeof error->message - 1;
    while (end > 0 && ((unsigned char)error->message[end - 1] & 0xC0) == 0x80)
      end--;
    if (end > 0 && (unsigned char)error->message[end - 1] >= 0xC0) end--;
    error->message[end] = '\0';
  }
  return status;
}

static void clear(forge_error *error) {
  if (error == NULL) return;
  error->status = FORGE_OK;
  error->message[0] = '\0';
}

/* One call: what is known of it while it is checked and run. */
typedef struct {
  const forge_model *model;
  const forge_tensor *inputs;
  forge_tensor *outputs;
  int64_t *symbols;
  int64_t *dims;
  forge_error *error;
  forge_heap *heap;
  forge_watch *watch;
  bool is_region; /* of a node of a model whose inputs have been checked */
} binding;

static void append(char *text, size_t *length, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t *length, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int needed = vsnprintf(text + *length, TEXT_SIZE - *length, format, arguments);
  va_end(arguments);
  if (needed > 0) *length += (size_t)needed;
  if (*length >= TEXT_SIZE) *length = TEXT_SIZE - 1;
}

static const char *shape_text(const forge_tensor *tensor, char *text) {
  size_t length = 0;
  append(text, &length, "[");
  for (int32_t d = 0; d < tensor->ndim; d++)
    append(text, &length, d ? ", %lld" : "%lld", (long long)tensor->shape[d]);
  append(text, &length, "]");
  return text;
}

static const char *spec_text(const forge_model *model, const forge_tensor_spec *spec, char *text) {
  size_t length = 0;
  append(text, &length, "[");
  for (int32_t d = 0; d < spec->ndim; d++) {
    const forge_dim *dim = &spec->dims[d];
    if (d) append(text, &length, ", ");
    if (dim->size >= 0)
      append(text, &length, "%lld", (long long)dim->size);
    else if (dim->size == -1)
      append(text, &length, "%s", model->symbol_names[dim->symbol]);
    else
      append(text, &length, "(expression)");
  }
  append(text, &length, "]");
  return text;
}

int64_t forge_byte_count(const forge_tensor *tensor) {
  int64_t bytes = find_dtype(tensor->dtype)->size;
  bool empty = false;
  for (int32_t d = 0; d < tensor->ndim; d++)
    empty |= tensor->shape[d] == 0;
  if (empty) return 0;
  for (int32_t d = 0; d < tensor->ndim; d++)
    if (__builtin_mul_overflow(bytes, tensor->shape[d], &bytes)) return -1;
  return bytes;
}

static int32_t shape_error(const binding *b, int32_t input, int32_t d) {
  char got[TEXT_SIZE], expected[TEXT_SIZE];
  const forge_tensor_spec *spec = &b->model->inputs[input];
  return forge_fail(b->error, FORGE_ERROR_INPUT,
                    "model '%s': input '%s': wrong shape; got %s; expected %s; see dimension %d", b->model->name,
                    spec->name, shape_text(&b->inputs[input], got), spec_text(b->model, spec, expected), d);
}

static int32_t check_input(const binding *b, int32_t input) {
  const forge_tensor *tensor = &b->inputs[input];
  const forge_tensor_spec *spec = &b->model->inputs[input];
  char got[TEXT_SIZE], expected[TEXT_SIZE];
  if (tensor->dtype != spec->dtype)
    return forge_fail(
        b->error, FORGE_ERROR_INPUT,
        "model '%s': input '%s': wrong dtype; got %s; expected %s; convert it, nothing is converted silently",
        b->model->name, spec->name, forge_dtype_name(tensor->dtype), forge_dtype_name(spec->dtype));
  if (tensor->ndim < 0 || tensor->ndim > FORGE_MAX_RANK)
    return forge_fail(b->error, FORGE_ERROR_INPUT,
                      "model '%s': input '%s': rank out of range; got %d; expected at most %d", b->model->name,
                      spec->name, tensor->ndim, FORGE_MAX_RANK);
  if (spec->ndim >= 0 && tensor->ndim != spec->ndim)
    return forge_fail(b->error, FORGE_ERROR_INPUT,
                      "model '%s': input '%s': wrong rank; got %d, shape %s; expected %d, shape %s", b->model->name,
                      spec->name, tensor->ndim, shape_text(tensor, got), spec->ndim,
                      spec_text(b->model, spec, expected));
  for (int32_t d = 0; d < tensor->ndim; d++)
    if (tensor->shape[d] < 0) return shape_error(b, input, d);
  if (forge_byte_count(tensor) < 0)
    return forge_fail(b->error, FORGE_ERROR_INPUT, "model '%s': input '%s': shape %s has more bytes than 64 bits count",
                      b->model->name, spec->name, shape_text(tensor, got));
  return FORGE_OK;
}

static int32_t check_strings(const binding *b, int32_t input) {
  const forge_tensor *tensor = &b->inputs[input];
  const forge_string *elements = tensor->data;
  const int64_t count = forge_byte_count(tensor) / (int64_t)sizeof *elements;
  for (int64_t i = 0; i < count; i++)
    if (elements[i].size < 0 || (elements[i].data == NULL && elements[i].size > 0))
      return forge_fail(b->error, FORGE_ERROR_INPUT,
                        "model '%s': input '%s': string %lld at %p has size %lld; expected 0 or more, with data", b->model->name,
                        b->model->inputs[input].name, (long long)i, (const void *)elements[i].data, (long long)elements[i].size);
  return FORGE_OK;
}

static int32_t check_sequence(const binding *b, int32_t input) {
  const forge_tensor_spec *spec = &b->model->inputs[input];
  const char *wrong = b->is_region ? NULL : forge_check_sequence(&b->inputs[input], spec);
  if (wrong == NULL) return FORGE_OK;
  return forge_fail(b->error, FORGE_ERROR_INPUT, "model '%s': input '%s': %s", b->model->name, spec->name, wrong);
}

static int32_t check_input_data(const binding *b, int32_t input) {
  const forge_tensor *tensor = &b->inputs[input];
  const dtype_info *dtype = find_dtype(tensor->dtype);
  if (tensor->data == NULL && forge_byte_count(tensor) > 0)
    return forge_fail(b->error, FORGE_ERROR_INPUT, "model '%s': input '%s': data is NULL; expected %lld bytes",
                      b->model->name, b->model->inputs[input].name, (long long)forge_byte_count(tensor));
  if ((uintptr_t)tensor->data % (uintptr_t)dtype->alignment)
    return forge_fail(b->error, FORGE_ERROR_INPUT,
                      "model '%s': input '%s': data at %p is not aligned; expected a multiple of %d", b->model->name,
                      b->model->inputs[input].name, tensor->data, dtype->alignment);
  if (forge_is_sequence(tensor)) return check_sequence(b, input);
  return tensor->dtype == FORGE_STRING ? check_strings(b, input) : FORGE_OK;
}

/* The input dimension that bound a symbol; the caller knows that there is one. */
static void find_binder(const forge_model *model, int64_t symbol, int32_t *input, int32_t *dimension) {
  for (*input = 0; *input < model->n_inputs; ++*input) {
    const forge_tensor_spec *spec = &model->inputs[*input];
    for (*dimension = 0; *dimension < spec->ndim; ++*dimension)
      if (spec->dims[*dimension].size == -1 && spec->dims[*dimension].symbol == symbol) return;
  }
}

static int32_t symbol_error(const binding *b, int32_t input, int32_t d) {
  const forge_tensor_spec *spec = &b->model->inputs[input];
  const int64_t symbol = spec->dims[d].symbol;
  int32_t first = 0, first_d = 0;
  find_binder(b->model, symbol, &first, &first_d);
  return forge_fail(
      b->error, FORGE_ERROR_INPUT,
      "model '%s': input '%s', dimension %d: symbol '%s' has two values; got %lld; expected %lld, the size of input '%s', dimension %d",
      b->model->name, spec->name, d, b->model->symbol_names[symbol], (long long)b->inputs[input].shape[d],
      (long long)b->symbols[symbol], b->model->inputs[first].name, first_d);
}

static int32_t bind_dimension(const binding *b, int32_t input, int32_t d) {
  const forge_dim *dim = &b->model->inputs[input].dims[d];
  const int64_t size = b->inputs[input].shape[d];
  if (dim->size >= 0) return dim->size == size ? FORGE_OK : shape_error(b, input, d);
  if (dim->size != -1) return FORGE_OK;
  int64_t *symbol = &b->symbols[dim->symbol];
  if (*symbol == UNBOUND) *symbol = size;
  return *symbol == size ? FORGE_OK : symbol_error(b, input, d);
}

static int32_t expression_error(const binding *b, int32_t input, int32_t d) {
  const forge_tensor_spec *spec = &b->model->inputs[input];
  char values[TEXT_SIZE] = "";
  size_t length = 0;
  for (int32_t s = 0; s < b->model->n_symbols; s++)
    if (b->symbols[s] != UNBOUND)
      append(values, &length, length ? ", %s = %lld" : "%s = %lld", b->model->symbol_names[s],
             (long long)b->symbols[s]);
  return forge_fail(b->error, FORGE_ERROR_INPUT,
                    "model '%s': input '%s', dimension %d: wrong size; got %lld; expected %lld for %s", b->model->name,
                    spec->name, d, (long long)b->inputs[input].shape[d], (long long)b->dims[spec->dims[d].symbol],
                    values);
}

static int32_t check_expressions(const binding *b) {
  for (int32_t i = 0; i < b->model->n_inputs; i++) {
    const forge_tensor_spec *spec = &b->model->inputs[i];
    for (int32_t d = 0; d < spec->ndim; d++)
      if (spec->dims[d].size == -2 && b->dims[spec->dims[d].symbol] != b->inputs[i].shape[d])
        return expression_error(b, i, d);
  }
  return FORGE_OK;
}

static int32_t bind_inputs(const binding *b) {
  const forge_model *model = b->model;
  for (int32_t s = 0; s < model->n_symbols; s++)
    b->symbols[s] = UNBOUND;
  for (int32_t i = 0; i < model->n_inputs; i++) {
    int32_t status = check_input(b, i);
    for (int32_t d = 0; status == FORGE_OK && d < model->inputs[i].ndim; d++)
      status = bind_dimension(b, i, d);
    if (status != FORGE_OK) return status;
  }
  if (model->n_dims == 0) return FORGE_OK;
  model->dims(b->symbols, b->dims);
  return check_expressions(b);
}

static int64_t resolve(const binding *b, const forge_dim *dim) {
  if (dim->size >= 0) return dim->size;
  return dim->size == -1 ? b->symbols[dim->symbol] : b->dims[dim->symbol];
}

static bool is_data_dependent(const forge_tensor *tensor) {
  for (int32_t d = 0; d < tensor->ndim; d++)
    if (tensor->shape[d] == UNBOUND) return true;
  return tensor->ndim < 0;
}

static int32_t resolve_output(const binding *b, int32_t index) {
  const forge_tensor_spec *spec = &b->model->outputs[index];
  forge_tensor *tensor = &b->outputs[index];
  char text[TEXT_SIZE];
  tensor->dtype = spec->dtype;
  tensor->ndim = spec->ndim;
  for (int32_t d = 0; d < spec->ndim; d++) {
    tensor->shape[d] = resolve(b, &spec->dims[d]);
    if (tensor->shape[d] < 0 && spec->dims[d].size != -1)
      return forge_fail(b->error, FORGE_ERROR_INPUT,
                        "model '%s': output '%s', dimension %d would have %lld elements for these inputs",
                        b->model->name, spec->name, d, (long long)tensor->shape[d]);
  }
  if (!is_data_dependent(tensor) && forge_byte_count(tensor) < 0)
    return forge_fail(b->error, FORGE_ERROR_INPUT,
                      "model '%s': output '%s' would have shape %s, more bytes than 64 bits count", b->model->name,
                      spec->name, shape_text(tensor, text));
  return FORGE_OK;
}

static int32_t bind(const binding *b) {
  int32_t status = bind_inputs(b);
  for (int32_t i = 0; status == FORGE_OK && i < b->model->n_outputs; i++)
    status = resolve_output(b, i);
  return status;
}

int32_t forge_check_model(const forge_model *model, forge_error *error) {
  if (model == NULL) return forge_fail(error, FORGE_ERROR_ABI, "forge_run: the model is NULL");
  if (model->abi_version < FORGE_ABI_OLDEST || model->abi_version > FORGE_ABI_VERSION)
    return forge_fail(error, FORGE_ERROR_ABI,
                      "model: interface version; got %d; expected %d to %d; update the runtime, or compile the model again",
                      model->abi_version, FORGE_ABI_OLDEST, FORGE_ABI_VERSION);
  if (model->reserved & FORGE_MODEL_CHECKED) return FORGE_OK;
  if (model->n_inputs < 0 || model->n_outputs < 0 || model->n_symbols < 0 || model->n_dims < 0 || model->entry == NULL)
    return forge_fail(error, FORGE_ERROR_ABI, "model: its descriptor is damaged; compile the model again");
  return forge_check_cpu(model->cpu_features, error);
}

static bool overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes) {
  const uintptr_t a_begin = (uintptr_t)a, b_begin = (uintptr_t)b;
  return a_bytes > 0 && b_bytes > 0 && a_begin < b_begin + (uintptr_t)b_bytes && b_begin < a_begin + (uintptr_t)a_bytes;
}

static int32_t check_overlap(const binding *b, int32_t index) {
  const forge_tensor *output = &b->outputs[index];
  const char *other = NULL;
  for (int32_t i = 0; other == NULL && i < b->model->n_inputs; i++)
    if (overlap(output->data, forge_byte_count(output), b->inputs[i].data, forge_byte_count(&b->inputs[i])))
      other = b->model->inputs[i].name;
  for (int32_t i = 0; other == NULL && i < index; i++)
    if (overlap(output->data, forge_byte_count(output), b->outputs[i].data, forge_byte_count(&b->outputs[i])))
      other = b->model->outputs[i].name;
  if (other == NULL) return FORGE_OK;
  return forge_fail(b->error, FORGE_ERROR_INPUT,
                    "model '%s': the memory of output '%s' overlaps that of '%s'; give it its own", b->model->name,
                    b->model->outputs[index].name, other);
}

static int32_t check_given_output(const binding *b, int32_t index) {
  const forge_tensor *tensor = &b->outputs[index];
  const char *name = b->model->outputs[index].name;
  const dtype_info *dtype = find_dtype(tensor->dtype);
  char text[TEXT_SIZE];
  if (is_data_dependent(tensor) || forge_is_sequence(tensor))
    return forge_fail(b->error, FORGE_ERROR_INPUT,
                      "model '%s': output '%s' has a size that depends on data; pass NULL, the runtime allocates it",
                      b->model->name, name);
  if (tensor->capacity < forge_byte_count(tensor))
    return forge_fail(b->error, FORGE_ERROR_INPUT,
                      "model '%s': output '%s' is too small; got %lld bytes; expected %lld for shape %s of %s",
                      b->model->name, name, (long long)tensor->capacity, (long long)forge_byte_count(tensor),
                      shape_text(tensor, text), dtype->name);
  if ((uintptr_t)tensor->data % (uintptr_t)dtype->alignment)
    return forge_fail(b->error, FORGE_ERROR_INPUT,
                      "model '%s': output '%s': data at %p is not aligned; expected a multiple of %d", b->model->name,
                      name, tensor->data, dtype->alignment);
  return check_overlap(b, index);
}

static int32_t allocate_output(const binding *b, int32_t index, const forge_host *host) {
  forge_tensor *tensor = &b->outputs[index];
  const int64_t bytes = forge_byte_count(tensor) ? forge_byte_count(tensor) : 1;
  tensor->data = host->alloc(host, (size_t)bytes, FORGE_ALIGNMENT);
  if (tensor->data == NULL)
    return forge_fail(b->error, FORGE_ERROR_MEMORY, "model '%s': output '%s': no memory for %lld bytes", b->model->name,
                      b->model->outputs[index].name, (long long)bytes);
  tensor->capacity = bytes;
  return FORGE_OK;
}

void forge_free_output(const forge_host *host, forge_tensor *output) {
  if (host == NULL) host = forge_default_host();
  if (output->data) host->free(host, output->data, (size_t)output->capacity);
  output->data = NULL;
  output->capacity = 0;
}

/* Pointer tables of a call. */
typedef struct {
  void **inputs;
  void **outputs;
  bool *allocated; /* by this call: freed if it fails */
} call_tables;

static int32_t check_produced(const binding *b) {
  for (int32_t i = 0; i < b->model->n_outputs; i++)
    if (b->outputs[i].data == NULL)
      return forge_fail(b->error, FORGE_ERROR_INTERNAL,
                        "model '%s': output '%s' was not produced; this is a defect of the compiler", b->model->name,
                        b->model->outputs[i].name);
  return FORGE_OK;
}

static int32_t enter(const binding *b, const call_tables *tables, const forge_host *host) {
  const forge_model *model = b->model;
  const int32_t ended = b->is_region && b->watch ? forge_watch_trip(b->watch, model) : FORGE_OK;
  if (ended != FORGE_OK) return forge_fail(b->error, ended, "model '%s': the call ends here", model->name);
  const int64_t arena_size = model->arena_size ? model->arena_size(b->symbols) : 0;
  if (arena_size < 0)
    return forge_fail(b->error, FORGE_ERROR_INPUT, "model '%s': these shapes need more memory than 64 bits count",
                      model->name);
  void *arena = arena_size ? host->alloc(host, (size_t)arena_size, FORGE_ALIGNMENT) : NULL;
  if (arena_size && arena == NULL)
    return forge_fail(b->error, FORGE_ERROR_MEMORY, "model '%s': no memory for an arena of %lld bytes", model->name,
                      (long long)arena_size);
  forge_running running;
  forge_begin_call(&running, model, b->error, host, b->heap, b->watch);
  const forge_call call = {tables->inputs, tables->outputs, model->weights, arena, b->symbols, &running.table.host, b->outputs};
  const int32_t status = model->entry(&call);
  if (arena) host->free(host, arena, (size_t)arena_size);
  if (status == FORGE_OK) return check_produced(b);
  if (!atomic_flag_test_and_set(&running.reported))
    return forge_fail(b->error, status, "model '%s': an operator failed with status %d", model->name, status);
  if (b->error) b->error->status = status;
  return status;
}

/* Kernels may read and discard elements of an empty tensor, as if each of its extents were at least 1. */
static int64_t discarded_bytes(const forge_tensor *tensor) {
  if (is_data_dependent(tensor) || forge_byte_count(tensor) != 0) return 0;
  int64_t bytes = (int64_t)forge_dtype_size(tensor->dtype);
  for (int32_t d = 0; d < tensor->ndim; d++)
    if (tensor->shape[d] > 0 && __builtin_mul_overflow(bytes, tensor->shape[d], &bytes)) return INT64_MAX;
  return bytes;
}

/* Memory that stands for all empty tensors of a call; NULL with *bytes 0 where none is empty. */
static void *nothing_for(const binding *b, const forge_host *host, int64_t *bytes) {
  *bytes = 0;
  for (int32_t i = 0; i < b->model->n_inputs; i++)
    if (discarded_bytes(&b->inputs[i]) > *bytes) *bytes = discarded_bytes(&b->inputs[i]);
  for (int32_t i = 0; i < b->model->n_outputs; i++)
    if (discarded_bytes(&b->outputs[i]) > *bytes) *bytes = discarded_bytes(&b->outputs[i]);
  return *bytes ? host->alloc(host, (size_t)*bytes, FORGE_ALIGNMENT) : NULL;
}

static int32_t prepare_outputs(const binding *b, const call_tables *tables, const forge_host *host, void *nothing) {
  for (int32_t i = 0; i < b->model->n_outputs; i++)
    tables->allocated[i] = b->outputs[i].data == NULL;
  for (int32_t i = 0; i < b->model->n_outputs; i++) {
    int32_t status = FORGE_OK;
    if (!tables->allocated[i])
      status = check_given_output(b, i);
    else if (!is_data_dependent(&b->outputs[i]))
      status = allocate_output(b, i, host);
    if (status != FORGE_OK) return status;
    tables->outputs[i] = discarded_bytes(&b->outputs[i]) ? nothing : b->outputs[i].data;
  }
  return FORGE_OK;
}

/* Moves the characters of strings from the heap of the call to behind the elements. */
static int32_t deliver_strings(const binding *b, const call_tables *tables, const forge_host *host) {
  for (int32_t i = 0; i < b->model->n_outputs; i++) {
    if (b->outputs[i].dtype != FORGE_STRING) continue;
    const int64_t missing = forge_string_deliver(&b->outputs[i], tables->allocated[i], host);
    if (missing < 0)
      return forge_fail(b->error, FORGE_ERROR_MEMORY, "model '%s': output '%s': no memory for its characters", b->model->name,
                        b->model->outputs[i].name);
    if (missing > 0)
      return forge_fail(b->error, FORGE_ERROR_INPUT,
                        "model '%s': output '%s' is too small; got %lld bytes; expected %lld, for elements and characters; pass "
                        "NULL, the runtime allocates it",
                        b->model->name, b->model->outputs[i].name, (long long)b->outputs[i].capacity,
                        (long long)(b->outputs[i].capacity + missing));
  }
  return FORGE_OK;
}

/* Gives sequences, whose elements lie in the call's heap or in inputs, a memory of their own. */
static int32_t pack_outputs(const binding *b, const forge_host *host) {
  for (int32_t i = 0; i < b->model->n_outputs; i++)
    if (forge_is_sequence(&b->outputs[i]) && forge_pack(host, &b->outputs[i]) != FORGE_OK)
      return forge_fail(b->error, FORGE_ERROR_MEMORY, "model '%s': output '%s': no memory for its elements", b->model->name,
                        b->model->outputs[i].name);
  return FORGE_OK;
}

static int32_t run_tables(const binding *b, const call_tables *tables, const forge_host *host, void *nothing) {
  for (int32_t i = 0; i < b->model->n_inputs; i++) {
    const int32_t status = check_input_data(b, i);
    if (status != FORGE_OK) return status;
    tables->inputs[i] = discarded_bytes(&b->inputs[i]) ? nothing : b->inputs[i].data;
  }
  int32_t status = prepare_outputs(b, tables, host, nothing);
  if (status == FORGE_OK) status = enter(b, tables, host);
  if (status == FORGE_OK && !b->is_region) status = pack_outputs(b, host);
  if (status == FORGE_OK && !b->is_region) status = deliver_strings(b, tables, host);
  for (int32_t i = 0; status != FORGE_OK && i < b->model->n_outputs; i++)
    if (tables->allocated[i]) forge_free_output(host, &b->outputs[i]);
  return status;
}

static int32_t run_bound(const binding *b, const call_tables *tables, const forge_host *host) {
  int64_t nothing_bytes;
  void *nothing = nothing_for(b, host, &nothing_bytes);
  if (nothing_bytes && nothing == NULL)
    return forge_fail(b->error, FORGE_ERROR_MEMORY, "model '%s': no memory for an empty tensor with such large other extents",
                      b->model->name);
  const int32_t status = run_tables(b, tables, host, nothing);
  if (nothing) host->free(host, nothing, (size_t)nothing_bytes);
  return status;
}

static size_t scratch_size(const forge_model *model) {
  return sizeof(int64_t) * ((size_t)model->n_symbols + (size_t)model->n_dims) +
         sizeof(void *) * ((size_t)model->n_inputs + (size_t)model->n_outputs) + (size_t)model->n_outputs;
}

/* Binds and, if `host` is given, runs with `scratch` as the memory of all tables. */
static int32_t call_with_scratch(binding *b, const forge_host *host, void *scratch) {
  const forge_model *model = b->model;
  b->symbols = scratch;
  b->dims = b->symbols + model->n_symbols;
  const int32_t status = bind(b);
  if (status != FORGE_OK || host == NULL) return status;
  call_tables tables = {.inputs = (void **)(b->dims + model->n_dims)};
  tables.outputs = tables.inputs + model->n_inputs;
  tables.allocated = (bool *)(tables.outputs + model->n_outputs);
  return run_bound(b, &tables, host);
}

static int32_t call_model(binding *b, const forge_host *host) {
  _Alignas(16) char stack[SCRATCH_SIZE];
  const size_t size = scratch_size(b->model);
  if (size <= sizeof stack) return call_with_scratch(b, host, stack);
  const forge_host *memory = host ? host : forge_default_host();
  void *heap = memory->alloc(memory, size, FORGE_ALIGNMENT);
  if (heap == NULL) return forge_fail(b->error, FORGE_ERROR_MEMORY, "model '%s': no memory for %zu bytes", b->model->name, size);
  const int32_t status = call_with_scratch(b, host, heap);
  memory->free(memory, heap, size);
  return status;
}

/* What must hold before the first tensor is looked at. */
static int32_t check_arguments(const forge_model *model, const void *inputs, const void *outputs, forge_error *error) {
  const int32_t status = forge_check_model(model, error);
  if (status != FORGE_OK) return status;
  if ((inputs == NULL && model->n_inputs) || (outputs == NULL && model->n_outputs))
    return forge_fail(error, FORGE_ERROR_INPUT, "model '%s': the tensors are NULL; expected %d inputs and %d outputs", model->name,
                      model->n_inputs, model->n_outputs);
  return FORGE_OK;
}

static int32_t check_run(const forge_model *model, const forge_host *host, forge_error *error) {
  const bool known = host->abi_version >= FORGE_ABI_OLDEST && host->abi_version <= FORGE_ABI_VERSION;
  if (!known || host->alloc == NULL || host->free == NULL)
    return forge_fail(error, FORGE_ERROR_ABI,
                      "forge_run: unusable host; got interface version %d; expected %d to %d, with alloc and free",
                      host->abi_version, FORGE_ABI_OLDEST, FORGE_ABI_VERSION);
  if (forge_bindings(model) > 0)
    return forge_fail(error, FORGE_ERROR_INPUT,
                      "model '%s': function '%s' reads or replaces states; it is called in a session (forge_session_run)", model->name,
                      forge_function_name(model));
  if (model->weights == NULL && model->weights_size > 0)
    return forge_fail(error, FORGE_ERROR_FILE, "model '%s': its weights are not loaded; use forge_prepare_weights", model->name);
  return FORGE_OK;
}

int32_t forge_begin_run(const forge_model *model, const forge_tensor *inputs, const forge_tensor *outputs,
                        const forge_host *host, forge_error *error) {
  clear(error);
  const int32_t status = check_arguments(model, inputs, outputs, error);
  return status == FORGE_OK ? check_run(model, host, error) : status;
}

int32_t forge_run_watched(const forge_model *model, const forge_tensor *inputs, forge_tensor *outputs, const forge_host *host,
                          forge_watch *watch, forge_error *error) {
  const forge_fp environment = forge_fp_mask();
  forge_heap heap = {.host = host};
  binding b = {.model = model, .inputs = inputs, .outputs = outputs, .error = error, .heap = &heap, .watch = watch};
  const int32_t status = call_model(&b, host);
  forge_heap_clear(&heap);
  forge_fp_leave(environment);
  return status;
}

int32_t forge_run_region(const forge_model *region, const forge_tensor *inputs, forge_tensor *outputs, const forge_host *host,
                         forge_error *error) {
  clear(error);
  binding b = {.model = region, .inputs = inputs, .outputs = outputs, .error = error, .heap = forge_heap_of(host),
               .watch = forge_watch_of(host), .is_region = true};
  return call_model(&b, host);
}

int32_t forge_output_shapes(const forge_model *model, const forge_tensor *inputs, forge_tensor *outputs, forge_error *error) {
  clear(error);
  const int32_t status = check_arguments(model, inputs, outputs, error);
  if (status != FORGE_OK) return status;
  binding b = {.model = model, .inputs = inputs, .outputs = outputs, .error = error};
  return call_model(&b, NULL);
}
