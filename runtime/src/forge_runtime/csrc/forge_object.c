/* Sequences and optionals at the border of a call: inputs are checked, outputs get a memory of their own. */
#include "forge_internal.h"
#include <string.h>

static const char *check_strings(const forge_tensor *tensor) {
  const forge_string *strings = tensor->data;
  const int64_t count = forge_byte_count(tensor) / (int64_t)sizeof *strings;
  for (int64_t k = 0; k < count; k++)
    if (strings[k].size < 0 || (strings[k].data == NULL && strings[k].size)) return "a string has no data or a negative size";
  return NULL;
}

/* What is wrong with an element, or NULL. */
static const char *check_element(const forge_tensor *element, const forge_tensor_spec *spec) {
  if (element->dtype != spec->dtype) return "an element has another dtype";
  if (element->ndim < 0 || element->ndim > FORGE_MAX_RANK) return "an element has a rank out of range";
  if (spec->ndim >= 0 && element->ndim != spec->ndim) return "an element has another rank";
  for (int32_t d = 0; d < element->ndim; d++)
    if (element->shape[d] < 0 || (spec->ndim >= 0 && spec->dims[d].size >= 0 && spec->dims[d].size != element->shape[d]))
      return "an element has another shape";
  const int64_t bytes = forge_byte_count(element), alignment = forge_dtype_alignment(element->dtype);
  if (bytes < 0) return "an element has more bytes than 64 bits count";
  if (element->data == NULL && bytes) return "the data of an element is NULL";
  if ((uintptr_t)element->data % (uintptr_t)alignment) return "the data of an element is not aligned to its element type";
  if (element->dtype == FORGE_STRING) return check_strings(element);
  return forge_is_sequence(element) ? forge_check_sequence(element, spec) : NULL;
}

const char *forge_check_sequence(const forge_tensor *tensor, const forge_tensor_spec *spec) {
  if (spec->element == NULL) return "the model does not say what the elements are; it is damaged";
  const forge_sequence *sequence = tensor->data;
  if (sequence->length < 0 || (tensor->dtype == FORGE_OPTIONAL && sequence->length > 1)) return "the length is out of range";
  if (sequence->elements == NULL && sequence->length) return "the elements are NULL";
  if (sequence->backing) return "the field 'backing' is not NULL";
  const char *wrong = NULL;
  for (int64_t k = 0; wrong == NULL && k < sequence->length; k++)
    wrong = check_element(&sequence->elements[k], spec->element);
  return wrong;
}

static bool add(size_t *total, int64_t bytes) {
  if (bytes < 0 || __builtin_add_overflow(*total, (size_t)bytes, total)) return false;
  if (__builtin_add_overflow(*total, (size_t)FORGE_ALIGNMENT - 1, total)) return false;
  *total &= ~(size_t)(FORGE_ALIGNMENT - 1);
  return true;
}

static int64_t string_count(const forge_tensor *tensor) {
  return tensor->dtype == FORGE_STRING ? forge_byte_count(tensor) / (int64_t)sizeof(forge_string) : 0;
}

/* Bytes of all characters of a tensor of strings; -1 where there are too many. */
static int64_t character_count(const forge_tensor *tensor) {
  const forge_string *strings = tensor->data;
  int64_t bytes = 0;
  for (int64_t k = 0; k < string_count(tensor); k++)
    if (__builtin_add_overflow(bytes, strings[k].size, &bytes)) return -1;
  return bytes;
}

/* Adds the memory of a tensor and of all it refers to. */
static bool measure(const forge_tensor *tensor, size_t *total) {
  const int64_t bytes = forge_byte_count(tensor), characters = character_count(tensor);
  if (bytes < 0 || characters < 0 || !add(total, bytes) || !add(total, characters)) return false;
  if (!forge_is_sequence(tensor)) return true;
  const forge_sequence *sequence = tensor->data;
  int64_t table;
  if (__builtin_mul_overflow(sequence->length, (int64_t)sizeof(forge_tensor), &table) || !add(total, table)) return false;
  for (int64_t k = 0; k < sequence->length; k++)
    if (!measure(&sequence->elements[k], total)) return false;
  return true;
}

static void *place(char **at, int64_t bytes) {
  void *memory = *at;
  *at += (bytes + FORGE_ALIGNMENT - 1) / FORGE_ALIGNMENT * FORGE_ALIGNMENT;
  return memory;
}

static void pack_characters(forge_tensor *tensor, char *characters) {
  forge_string *strings = tensor->data;
  for (int64_t k = 0; k < string_count(tensor); k++) {
    if (strings[k].size) memcpy(characters, strings[k].data, (size_t)strings[k].size);
    strings[k].data = characters;
    characters += strings[k].size;
  }
}

static void pack(forge_tensor *tensor, char **at);

static void pack_elements(forge_sequence *sequence, char **at) {
  const int64_t bytes = sequence->length * (int64_t)sizeof(forge_tensor);
  forge_tensor *elements = place(at, bytes);
  if (bytes) memcpy(elements, sequence->elements, (size_t)bytes);
  for (int64_t k = 0; k < sequence->length; k++)
    pack(&elements[k], at);
  *sequence = (forge_sequence){sequence->length ? elements : NULL, sequence->length, NULL};
}

/* Moves a tensor's data to `at`, and all that it refers to behind it. */
static void pack(forge_tensor *tensor, char **at) {
  const int64_t bytes = forge_byte_count(tensor);
  tensor->capacity = bytes + character_count(tensor);
  void *data = place(at, tensor->capacity);
  if (bytes) memcpy(data, tensor->data, (size_t)bytes);
  tensor->data = data;
  if (tensor->dtype == FORGE_STRING) pack_characters(tensor, (char *)data + bytes);
  if (forge_is_sequence(tensor)) pack_elements(data, at);
}

int32_t forge_pack(const forge_host *host, forge_tensor *tensor) {
  size_t total = 0;
  if (!measure(tensor, &total) || total > PTRDIFF_MAX) return FORGE_ERROR_MEMORY;
  if (total == 0) total = FORGE_ALIGNMENT;
  char *block = host->alloc(host, total, FORGE_ALIGNMENT), *at = block;
  if (block == NULL) return FORGE_ERROR_MEMORY;
  forge_tensor packed = *tensor;
  pack(&packed, &at);
  forge_free_output(host, tensor);
  packed.capacity = (int64_t)total;
  *tensor = packed;
  tensor->data = block;
  return FORGE_OK;
}
