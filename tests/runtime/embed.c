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

#define EXPECT(expected, call) \
  if ((call) != (expected)) { fprintf(stderr, "line %d: %d %s\n", __LINE__, error.status, error.message); return 1; }

/* What only C can get wrong. */
static int mistakes(const forge_model *model) {
  forge_tensor in[3] = {{x, FORGE_FLOAT32, 2, {2, 4}, 0}, {y, FORGE_FLOAT32, 2, {2, 1}, 0}, {z, FORGE_INT64, 1, {3}, 0}};
  forge_tensor out[2] = {{0}, {0}};
  forge_error error = {0};
  EXPECT(FORGE_ERROR_ABI, forge_run(NULL, in, out, NULL, &error));
  EXPECT(FORGE_ERROR_INPUT, forge_run(model, NULL, out, NULL, &error));
  EXPECT(FORGE_ERROR_INPUT, forge_run(model, in, NULL, NULL, NULL));
  forge_host host = *forge_default_host();
  host.parallel_for = NULL;
  EXPECT(FORGE_OK, forge_run(model, in, out, &host, &error));
  for (int i = 0; i < 2; i++) forge_free_output(&host, &out[i]);
  host.abi_version = 7;
  EXPECT(FORGE_ERROR_ABI, forge_run(model, in, out, &host, &error));
  in[0].data = NULL;
  EXPECT(FORGE_ERROR_INPUT, forge_run(model, in, out, NULL, &error));
  EXPECT(FORGE_OK, forge_output_shapes(model, in, out, &error));
  in[0].data = (char *)x + 1;
  EXPECT(FORGE_ERROR_INPUT, forge_run(model, in, out, NULL, &error));
  in[0].shape[0] = in[1].shape[0] = INT64_MAX / 8;
  EXPECT(FORGE_ERROR_INPUT, forge_output_shapes(model, in, out, &error));
  in[0].shape[0] = -1;
  EXPECT(FORGE_ERROR_INPUT, forge_output_shapes(model, in, out, &error));
  in[0].ndim = 9;
  EXPECT(FORGE_ERROR_INPUT, forge_output_shapes(model, in, out, &error));
  in[0].dtype = 99;
  EXPECT(FORGE_ERROR_INPUT, forge_output_shapes(model, in, out, &error));
  return 0;
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
  int status = run(forge_library_model(library)) | run(forge_library_model(copy));
  status |= mistakes(forge_library_model(library));
  forge_unload(library);
  forge_unload(copy);
  if (forge_load_memory(bytes, 100, &error) || error.status != FORGE_ERROR_FILE) return 5;
  if (forge_load("/nowhere", &error) || error.status != FORGE_ERROR_FILE) return 6;
  return status;
}
