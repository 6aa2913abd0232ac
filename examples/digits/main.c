/* Classifies pictures with the compiled model: main PICTURES LOGITS
 *
 * PICTURES holds 8x8 float32 values a picture. All pictures run as one batch; LOGITS receives ten float32 a picture.
 * Build: cc main.c modelLibrary.so -I <folder of forge_runtime.h>
 */
#include <stdio.h>
#include <stdlib.h>

#include "forge_runtime.h"

enum { SIDE = 8, CLASSES = 10 };

static float *read_pictures(const char *path, int64_t *count) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) return NULL;
  fseek(file, 0, SEEK_END);
  size_t bytes = (size_t)ftell(file);
  rewind(file);
  float *pictures = malloc(bytes);
  *count = (int64_t)(bytes / (SIDE * SIDE * sizeof(float)));
  if (pictures != NULL && fread(pictures, 1, bytes, file) != bytes) {
    free(pictures);
    pictures = NULL;
  }
  fclose(file);
  return pictures;
}

static int write_logits(const char *path, const forge_tensor *logits) {
  FILE *file = fopen(path, "wb");
  if (file == NULL) return 1;
  size_t values = (size_t)(logits->shape[0] * CLASSES);
  int failed = fwrite(logits->data, sizeof(float), values, file) != values;
  return fclose(file) != 0 || failed;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s PICTURES LOGITS\n", argv[0]);
    return 2;
  }
  int64_t count = 0;
  float *pictures = read_pictures(argv[1], &count);
  if (pictures == NULL) {
    perror(argv[1]);
    return 1;
  }
  forge_tensor image = {.data = pictures, .dtype = FORGE_FLOAT32, .ndim = 4, .shape = {count, 1, SIDE, SIDE}};
  forge_tensor logits = {0}; /* no data: forge_run allocates it */
  forge_error error;
  int status = forge_run(forge_model_get(), &image, &logits, NULL, &error);
  free(pictures);
  if (status != FORGE_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  int failed = write_logits(argv[2], &logits);
  if (failed) perror(argv[2]);
  forge_free_output(forge_default_host(), &logits);
  return failed;
}
