/* A C program around a model library: runs it with the runtime inside it, and loads it from memory.
 * Usage: embed modelLibrary.so of the model "rows".
 */
#include "forge_runtime.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[2] = {10, 20};
static int64_t z[3] = {1, 2, 3};

static int fail(const forge_error *error) {
  fprintf(stderr, "%d: %s\n", error->status, error->message);
  return 1;
}

static int run(const forge_model *model) {
  const forge_tensor in[3] = {{x, FORGE_FLOAT32, 2, {2, 4}, 0}, {y, FORGE_FLOAT32, 2, {2, 1}, 0}, {z, FORGE_INT64, 1, {3}, 0}};
  int64_t total = 0;
  forge_tensor out[2] = {{0}, {.data = &total, .capacity = sizeof total}};
  forge_error error;
  if (forge_run(model, in, out, NULL, &error)) return fail(&error);
  const float *rows = out[0].data;
  printf("%g %g %lld %lld %d\n", rows[0], rows[7], (long long)total, (long long)out[0].shape[0], out[0].ndim);
  forge_free_output(NULL, &out[0]);
  out[1].capacity = 4;
  if (forge_run(model, in, out, NULL, &error) != FORGE_ERROR_INPUT) return 2;
  puts(error.message);
  return out[0].data != NULL;
}

int main(int argc, char **argv) {
  static char bytes[1 << 22];
  forge_error error;
  FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (file == NULL) return 3;
  const size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  forge_library *library = forge_load(argv[1], &error), *copy = forge_load_memory(bytes, size, &error);
  if (library == NULL || copy == NULL) return fail(&error);
  if (forge_library_model(library)->entry == forge_library_model(copy)->entry) return 4;
  const int status = run(forge_library_model(library)) | run(forge_library_model(copy));
  forge_unload(library);
  forge_unload(copy);
  if (forge_load_memory(bytes, 100, &error) || error.status != FORGE_ERROR_FILE) return 5;
  if (forge_load("/nowhere", &error) || error.status != FORGE_ERROR_FILE) return 6;
  return status;
}
