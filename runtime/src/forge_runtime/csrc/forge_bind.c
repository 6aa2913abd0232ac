/* What the tensors of a call are checked for, and the sizes that follow from them. */
#include "forge_invocation.h"
#include <stdarg.h>
#include <stdio.h>

static void append(char *text, size_t *length, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t *length, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int needed = vsnprintf(text + *length, FORGE_TEXT_SIZE - *length, format, arguments);
  va_end(arguments);
  if (needed > 0) *length += (size_t)needed;
  if (*length >= FORGE_TEXT_SIZE) *length = FORGE_TEXT_SIZE - 1;
}

const char *forge_shape_text(const forge_tensor *tensor, char *text) {
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

static int32_t shape_error(const forge_invocation *b, int32_t input, int32_t d) {
  char got[FORGE_TEXT_SIZE], expected[FORGE_TEXT_SIZE];
  const forge_tensor_spec *spec = &b->model->inputs[input];
  return forge_fail(b->error, FORGE_ERROR_INPUT,
                    "model '%s': input '%s': wrong shape; got %s; expected %s; see dimension %d", b->model->name,
                    spec->name, forge_shape_text(&b->inputs[input], got), spec_text(b->model, spec, expected), d);
}

static int32_t check_input(const forge_invocation *b, int32_t input) {
  const forge_tensor *tensor = &b->inputs[input];
  const forge_tensor_spec *spec = &b->model->inputs[input];
  char got[FORGE_TEXT_SIZE], expected[FORGE_TEXT_SIZE];
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
                      spec->name, tensor->ndim, forge_shape_text(tensor, got), spec->ndim,
                      spec_text(b->model, spec, expected));
  for (int32_t d = 0; d < tensor->ndim; d++)
    if (tensor->shape[d] < 0) return shape_error(b, input, d);
  if (forge_byte_count(tensor) < 0)
    return forge_fail(b->error, FORGE_ERROR_INPUT, "model '%s': input '%s': shape %s has more bytes than 64 bits count",
                      b->model->name, spec->name, forge_shape_text(tensor, got));
  return FORGE_OK;
}

static int32_t check_strings(const forge_invocation *b, int32_t input) {
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

static int32_t check_sequence(const forge_invocation *b, int32_t input) {
  const forge_tensor_spec *spec = &b->model->inputs[input];
  const char *wrong = b->is_region ? NULL : forge_check_sequence(&b->inputs[input], spec);
  if (wrong == NULL) return FORGE_OK;
  return forge_fail(b->error, FORGE_ERROR_INPUT, "model '%s': input '%s': %s", b->model->name, spec->name, wrong);
}

int32_t forge_check_data(const forge_invocation *b, int32_t input) {
  const forge_tensor *tensor = &b->inputs[input];
  const int64_t alignment = forge_dtype_alignment(tensor->dtype);
  if (tensor->data == NULL && forge_byte_count(tensor) > 0)
    return forge_fail(b->error, FORGE_ERROR_INPUT, "model '%s': input '%s': data is NULL; expected %lld bytes",
                      b->model->name, b->model->inputs[input].name, (long long)forge_byte_count(tensor));
  if ((uintptr_t)tensor->data % (uintptr_t)alignment)
    return forge_fail(b->error, FORGE_ERROR_INPUT,
                      "model '%s': input '%s': data at %p is not aligned; expected a multiple of %lld", b->model->name,
                      b->model->inputs[input].name, tensor->data, (long long)alignment);
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

static int32_t symbol_error(const forge_invocation *b, int32_t input, int32_t d) {
  const forge_tensor_spec *spec = &b->model->inputs[input];
  const int64_t symbol = spec->dims[d].symbol;
  int32_t first = 0, first_d = 0;
  find_binder(b->model, symbol, &first, &first_d);
  return forge_fail(
      b->error, FORGE_ERROR_INPUT,
      "model '%s': input '%s', dimension %d: symbol '%s' has two values; got %lld; expected %lld, the size of input '%s', dimension %d; "
      "if an ONNX model gives unequal sizes one name, load it with unify_dimensions=False",
      b->model->name, spec->name, d, b->model->symbol_names[symbol], (long long)b->inputs[input].shape[d],
      (long long)b->symbols[symbol], b->model->inputs[first].name, first_d);
}

static int32_t bind_dimension(const forge_invocation *b, int32_t input, int32_t d) {
  const forge_dim *dim = &b->model->inputs[input].dims[d];
  const int64_t size = b->inputs[input].shape[d];
  if (dim->size >= 0) return dim->size == size ? FORGE_OK : shape_error(b, input, d);
  if (dim->size != -1) return FORGE_OK;
  int64_t *symbol = &b->symbols[dim->symbol];
  if (*symbol == FORGE_UNBOUND) *symbol = size;
  return *symbol == size ? FORGE_OK : symbol_error(b, input, d);
}

static int32_t expression_error(const forge_invocation *b, int32_t input, int32_t d) {
  const forge_tensor_spec *spec = &b->model->inputs[input];
  char values[FORGE_TEXT_SIZE] = "";
  size_t length = 0;
  for (int32_t s = 0; s < b->model->n_symbols; s++)
    if (b->symbols[s] != FORGE_UNBOUND)
      append(values, &length, length ? ", %s = %lld" : "%s = %lld", b->model->symbol_names[s],
             (long long)b->symbols[s]);
  return forge_fail(b->error, FORGE_ERROR_INPUT,
                    "model '%s': input '%s', dimension %d: wrong size; got %lld; expected %lld for %s", b->model->name,
                    spec->name, d, (long long)b->inputs[input].shape[d], (long long)b->dims[spec->dims[d].symbol],
                    values);
}

static int32_t check_expressions(const forge_invocation *b) {
  for (int32_t i = 0; i < b->model->n_inputs; i++) {
    const forge_tensor_spec *spec = &b->model->inputs[i];
    for (int32_t d = 0; d < spec->ndim; d++)
      if (spec->dims[d].size == -2 && b->dims[spec->dims[d].symbol] != b->inputs[i].shape[d])
        return expression_error(b, i, d);
  }
  return FORGE_OK;
}

static int32_t bind_inputs(const forge_invocation *b) {
  const forge_model *model = b->model;
  for (int32_t s = 0; s < model->n_symbols; s++)
    b->symbols[s] = FORGE_UNBOUND;
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

static int64_t resolve(const forge_invocation *b, const forge_dim *dim) {
  if (dim->size >= 0) return dim->size;
  return dim->size == -1 ? b->symbols[dim->symbol] : b->dims[dim->symbol];
}

bool forge_is_data_dependent(const forge_tensor *tensor) {
  for (int32_t d = 0; d < tensor->ndim; d++)
    if (tensor->shape[d] == FORGE_UNBOUND) return true;
  return tensor->ndim < 0;
}

static int32_t resolve_output(const forge_invocation *b, int32_t index) {
  const forge_tensor_spec *spec = &b->model->outputs[index];
  forge_tensor *tensor = &b->outputs[index];
  char text[FORGE_TEXT_SIZE];
  tensor->dtype = spec->dtype;
  tensor->ndim = spec->ndim;
  for (int32_t d = 0; d < spec->ndim; d++) {
    tensor->shape[d] = resolve(b, &spec->dims[d]);
    if (tensor->shape[d] < 0 && spec->dims[d].size != -1)
      return forge_fail(b->error, FORGE_ERROR_INPUT,
                        "model '%s': output '%s', dimension %d would have %lld elements for these inputs",
                        b->model->name, spec->name, d, (long long)tensor->shape[d]);
  }
  if (!forge_is_data_dependent(tensor) && forge_byte_count(tensor) < 0)
    return forge_fail(b->error, FORGE_ERROR_INPUT,
                      "model '%s': output '%s' would have shape %s, more bytes than 64 bits count", b->model->name,
                      spec->name, forge_shape_text(tensor, text));
  return FORGE_OK;
}

int32_t forge_bind(const forge_invocation *b) {
  int32_t status = bind_inputs(b);
  for (int32_t i = 0; status == FORGE_OK && i < b->model->n_outputs; i++)
    status = resolve_output(b, i);
  return status;
}
