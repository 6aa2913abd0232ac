/* Runs model libraries for a program on another machine, which writes one line for each run to standard input:
 *
 *     LIBRARY INPUTS OUTPUTS
 *
 * The answer is a line: "0", or a forge_status and a message. A file of values has their number (int64) and each of them: dtype and
 * rank (int32), shape (int64) and elements; a string is its size (int64) and bytes, a sequence its length (int64) and values.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forge_runtime.h"

enum { LINE_SIZE = 4096, MOST_TENSORS = 4096 };

/* The program on the other side is ours: what it wrote wrongly ends this one. */
_Noreturn static void give_up(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  exit(2);
}

static void *allocate(size_t size) {
  void *memory = calloc(1, size ? size : 1);
  if (memory == NULL) give_up("no memory for %zu bytes\n", size);
  return memory;
}

static void get(FILE *file, void *data, size_t size) {
  if (fread(data, 1, size, file) != size) give_up("the file of inputs ends too early\n");
}

static int64_t get_size(FILE *file) {
  int64_t size;
  get(file, &size, sizeof size);
  if (size < 0) give_up("a size of inputs is %lld\n", (long long)size);
  return size;
}

static bool is_sequence(int32_t dtype) { return dtype == FORGE_SEQUENCE || dtype == FORGE_OPTIONAL; }

static int64_t count_elements(const forge_tensor *tensor) {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor->ndim; i++) count *= tensor->shape[i];
  return count;
}

static void get_tensor(FILE *file, forge_tensor *tensor);

static void get_strings(FILE *file, forge_string *strings, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    strings[i].size = get_size(file);
    char *text = allocate((size_t)strings[i].size);
    get(file, text, (size_t)strings[i].size);
    strings[i].data = text;
  }
}

static void get_sequence(FILE *file, forge_sequence *sequence) {
  sequence->length = get_size(file);
  forge_tensor *elements = allocate((size_t)sequence->length * sizeof *elements);
  for (int64_t i = 0; i < sequence->length; i++) get_tensor(file, &elements[i]);
  sequence->elements = elements;
}

static void get_tensor(FILE *file, forge_tensor *tensor) {
  get(file, &tensor->dtype, sizeof tensor->dtype);
  get(file, &tensor->ndim, sizeof tensor->ndim);
  if (tensor->ndim < 0 || tensor->ndim > FORGE_MAX_RANK) give_up("the rank of an input is %d\n", tensor->ndim);
  for (int32_t i = 0; i < tensor->ndim; i++) tensor->shape[i] = get_size(file);
  const int64_t count = count_elements(tensor);
  const size_t size = forge_dtype_size(tensor->dtype);
  tensor->data = allocate((size_t)count * size);
  if (tensor->dtype == FORGE_STRING) get_strings(file, tensor->data, count);
  else if (is_sequence(tensor->dtype)) get_sequence(file, tensor->data);
  else get(file, tensor->data, (size_t)count * size);
}

static void free_tensor(forge_tensor *tensor) {
  const int64_t count = count_elements(tensor);
  if (tensor->dtype == FORGE_STRING)
    for (int64_t i = 0; i < count; i++) free((char *)((forge_string *)tensor->data)[i].data);
  if (is_sequence(tensor->dtype)) {
    forge_sequence *sequence = tensor->data;
    forge_tensor *elements = (forge_tensor *)sequence->elements;
    for (int64_t i = 0; i < sequence->length; i++) free_tensor(&elements[i]);
    free(elements);
  }
  free(tensor->data);
}

static void put(FILE *file, const void *data, size_t size) {
  if (size && fwrite(data, 1, size, file) != size) give_up("outputs cannot be written\n");
}

static void put_tensor(FILE *file, const forge_tensor *tensor) {
  put(file, &tensor->dtype, sizeof tensor->dtype);
  put(file, &tensor->ndim, sizeof tensor->ndim);
  put(file, tensor->shape, (size_t)tensor->ndim * sizeof *tensor->shape);
  const int64_t count = count_elements(tensor);
  if (tensor->dtype == FORGE_STRING) {
    const forge_string *strings = tensor->data;
    for (int64_t i = 0; i < count; i++) {
      put(file, &strings[i].size, sizeof strings[i].size);
      put(file, strings[i].data, (size_t)strings[i].size);
    }
  } else if (is_sequence(tensor->dtype)) {
    const forge_sequence *sequence = tensor->data;
    put(file, &sequence->length, sizeof sequence->length);
    for (int64_t i = 0; i < sequence->length; i++) put_tensor(file, &sequence->elements[i]);
  } else {
    put(file, tensor->data, (size_t)count * forge_dtype_size(tensor->dtype));
  }
}

static FILE *open_file(const char *path, const char *mode) {
  FILE *file = fopen(path, mode);
  if (file == NULL) give_up("%s cannot be opened\n", path);
  return file;
}

static int32_t get_inputs(const char *path, forge_tensor *inputs) {
  FILE *file = open_file(path, "rb");
  const int64_t count = get_size(file);
  if (count > MOST_TENSORS) give_up("there are %lld inputs\n", (long long)count);
  for (int64_t i = 0; i < count; i++) get_tensor(file, &inputs[i]);
  fclose(file);
  return (int32_t)count;
}

static void put_outputs(const char *path, const forge_tensor *outputs, int64_t count) {
  FILE *file = open_file(path, "wb");
  put(file, &count, sizeof count);
  for (int64_t i = 0; i < count; i++) put_tensor(file, &outputs[i]);
  if (fclose(file) != 0) give_up("outputs cannot be written\n");
}

static int32_t run_model(const forge_model *model, const char *inputs_path, const char *outputs_path, forge_error *error) {
  static forge_tensor inputs[MOST_TENSORS], outputs[MOST_TENSORS];
  memset(inputs, 0, sizeof inputs);
  memset(outputs, 0, sizeof outputs);
  const int32_t count = get_inputs(inputs_path, inputs);
  if (count != model->n_inputs || model->n_outputs > MOST_TENSORS)
    give_up("the model has %d inputs and %d outputs; got %d inputs\n", model->n_inputs, model->n_outputs, count);
  const int32_t status = forge_run(model, inputs, outputs, NULL, error);
  if (status == FORGE_OK) {
    put_outputs(outputs_path, outputs, model->n_outputs);
    for (int32_t i = 0; i < model->n_outputs; i++) forge_free_output(NULL, &outputs[i]);
  }
  for (int32_t i = 0; i < count; i++) free_tensor(&inputs[i]);
  return status;
}

static void answer(const char *line) {
  char library_path[LINE_SIZE], inputs[LINE_SIZE], outputs[LINE_SIZE];
  if (sscanf(line, "%4095s %4095s %4095s", library_path, inputs, outputs) != 3) give_up("unexpected line: %s\n", line);
  forge_error error = {0};
  forge_library *library = forge_load(library_path, &error);
  int32_t status = error.status;
  if (library != NULL) status = run_model(forge_library_model(library), inputs, outputs, &error);
  for (char *c = error.message; *c; c++)
    if (*c == '\n') *c = ' ';
  printf("%d%s%s\n", status, status ? " " : "", status ? error.message : "");
  fflush(stdout);
  forge_unload(library);
}

int main(void) {
  static char line[3 * LINE_SIZE];
  while (fgets(line, sizeof line, stdin) != NULL) answer(line);
  return 0;
}
