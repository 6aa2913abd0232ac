/* A C program that runs a model on strings: the example of how forge_runtime.h has them.
 * Usage: strings modelLibrary.so of a model (x: string[n], y: string[n]) -> (z: string[n]).
 */
#include "forge_runtime.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef const forge_model *(*get_model)(void);
typedef int32_t (*run_model)(const forge_model *, const forge_tensor *, forge_tensor *, const forge_host *, forge_error *);
typedef void (*free_output)(const forge_host *, forge_tensor *);

static void *symbol(void *library, const char *name) {
  void *address = dlsym(library, name);
  if (address == NULL) fprintf(stderr, "%s\n", dlerror());
  return address;
}

static void show(const forge_tensor *tensor) {
  const forge_string *strings = tensor->data;
  for (int64_t i = 0; i < tensor->shape[0]; i++)
    printf("%.*s|", (int)strings[i].size, strings[i].size ? strings[i].data : "");
  printf(" %lld bytes\n", (long long)tensor->capacity);
}

int main(int argc, char **argv) {
  void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) return 1;
  const get_model get = (get_model)symbol(library, "forge_model_get");
  const run_model run = (run_model)symbol(library, "forge_run");
  const free_output release = (free_output)symbol(library, "forge_free_output");
  if (!get || !run || !release) return 1;
  forge_string x[3] = {{"ab", 2}, {NULL, 0}, {"\xff", 1}}, y[3] = {{"c", 1}, {"\xc3\xa9", 2}, {NULL, 0}};
  const forge_tensor in[2] = {{x, FORGE_STRING, 1, {3}, 0}, {y, FORGE_STRING, 1, {3}, 0}};
  forge_error error;
  forge_tensor out = {.data = NULL};
  if (run(get(), in, &out, NULL, &error)) return fprintf(stderr, "%s\n", error.message), 1;
  show(&out); /* the characters lie behind the elements, in the same memory */
  release(NULL, &out);
  forge_string room[8];
  out = (forge_tensor){.data = room, .capacity = sizeof room};
  if (run(get(), in, &out, NULL, &error)) return fprintf(stderr, "%s\n", error.message), 1;
  show(&out);
  out = (forge_tensor){.data = room, .capacity = 3 * sizeof *room};
  if (run(get(), in, &out, NULL, &error) != FORGE_ERROR_INPUT) return 1;
  puts(error.message);
  x[1].size = 5;
  out.data = NULL;
  if (run(get(), in, &out, NULL, &error) != FORGE_ERROR_INPUT || out.data) return 1;
  puts(strstr(error.message, "string 1"));
  return 0;
}
