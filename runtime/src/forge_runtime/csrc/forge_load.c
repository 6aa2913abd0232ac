/* Bringing a model into the process: from a file, a descriptor or memory; weights into huge pages. */
#define _GNU_SOURCE
#include "forge_internal.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NAME_SIZE = 256, NAME_BITS = 32, COPY_PIECE = 2 << 20 };

static const int64_t COPY_MINIMUM = (int64_t)4 << 20; /* smaller weights gain nothing from huge pages */

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif

typedef struct prepared_library prepared_library;

typedef struct {
  forge_model model; /* first: callers hold a pointer to it */
  prepared_library *library;
} prepared_model;

/* The functions of a library that share their weights; after them lies the table that their descriptors point to. */
struct prepared_library {
  void *pages; /* the copy of the weights, or NULL */
  int32_t count;
  prepared_model functions[];
};

struct forge_library {
  void *handle;
  forge_model *model;
};

/* Unmaps the whole pages of a part of a file that is mapped and not written to; if they are read again, the file gives them again. */
static void drop_pages(const char *begin, const char *end) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t first = ((uintptr_t)begin + page - 1) / page * page, last = (uintptr_t)end / page * page;
  if (first < last) (void)madvise((void *)first, last - first, MADV_DONTNEED);
}

/* Memory on huge pages where the system has them. */
static void *alloc_pages(size_t bytes) {
  void *memory = NULL;
  const size_t size = (bytes + FORGE_PAGE_SIZE - 1) & ~(FORGE_PAGE_SIZE - 1);
  if (size < bytes || posix_memalign(&memory, FORGE_PAGE_SIZE, size)) return NULL;
  (void)madvise(memory, size, MADV_HUGEPAGE);
  return memory;
}

/* A piece at a time, so that weights mapped from a file are not in memory twice. */
static void *copy_weights(const char *weights, size_t size, bool mapped) {
  char *pages = alloc_pages(size);
  for (size_t at = 0; pages && at < size; at += COPY_PIECE) {
    const size_t piece = size - at < COPY_PIECE ? size - at : COPY_PIECE;
    memcpy(pages + at, weights + at, piece);
    if (mapped) drop_pages(weights + at, weights + at + piece);
  }
  return pages;
}

typedef enum { IN_PLACE, COPIED, COPIED_FROM_FILE } placement;

static int32_t attach_weights(prepared_library *library, const void *weights, int64_t size, placement how, forge_error *error) {
  const forge_model *first = &library->functions[0].model;
  if (size != first->weights_size)
    return forge_fail(error, FORGE_ERROR_FILE, "model '%s': wrong size of weights; got %lld bytes; expected %lld", first->name,
                      (long long)size, (long long)first->weights_size);
  if (how != IN_PLACE && size > 0) {
    weights = library->pages = copy_weights(weights, (size_t)size, how == COPIED_FROM_FILE);
    if (weights == NULL)
      return forge_fail(error, FORGE_ERROR_MEMORY, "model '%s': no memory for %lld bytes of weights", first->name,
                        (long long)size);
  }
  for (int32_t i = 0; i < library->count; i++)
    library->functions[i].model.weights = weights;
  return FORGE_OK;
}

void forge_copy_model(forge_model *copy, const forge_model *model) {
  *copy = (forge_model){0};
  memcpy(copy, model, model->abi_version < FORGE_ABI_FUNCTIONS ? offsetof(forge_model, function) : sizeof *copy);
}

static int32_t check_functions(const forge_model *model, forge_error *error) {
  int32_t status = forge_check_model(model, error);
  bool found = forge_functions(model) == 0;
  for (int32_t i = 0; status == FORGE_OK && i < forge_functions(model); i++) {
    status = forge_check_model(model->functions[i], error);
    found |= model->functions[i] == model;
    if (status == FORGE_OK && (forge_functions(model->functions[i]) != model->n_functions ||
                               model->functions[i]->weights_size != model->weights_size))
      return forge_fail(error, FORGE_ERROR_ABI, "model '%s': its table of functions is damaged; compile the model again",
                        model->name);
  }
  if (status == FORGE_OK && !found)
    return forge_fail(error, FORGE_ERROR_ABI, "model '%s': its table of functions lacks itself; compile the model again",
                      model->name);
  return status;
}

/* Checked copies of `model` and its siblings, without weights yet; *prepared is that of `model`. */
static prepared_library *copy_functions(const forge_model *model, forge_model **prepared) {
  const int32_t count = forge_functions(model) ? model->n_functions : 1;
  const size_t size = sizeof(prepared_library) + (size_t)count * (sizeof(prepared_model) + sizeof(forge_model *));
  prepared_library *library = calloc(1, size);
  if (library == NULL) return NULL;
  const forge_model **table = (const forge_model **)(library->functions + count);
  library->count = count;
  for (int32_t i = 0; i < count; i++) {
    const forge_model *function = forge_functions(model) ? model->functions[i] : model;
    forge_model *copy = &library->functions[i].model;
    forge_copy_model(copy, function);
    copy->reserved |= FORGE_MODEL_CHECKED;
    if (forge_functions(model)) copy->functions = table;
    library->functions[i].library = library;
    table[i] = copy;
    if (function == model) *prepared = copy;
  }
  return library;
}

static forge_model *prepare_model(const forge_model *model, const void *weights, int64_t size, placement how,
                                  forge_error *error) {
  if (check_functions(model, error) != FORGE_OK || forge_check_registered(model, error) != FORGE_OK) return NULL;
  forge_model *prepared = NULL;
  prepared_library *library = copy_functions(model, &prepared);
  if (library == NULL) {
    forge_fail(error, FORGE_ERROR_MEMORY, "model '%s': out of memory", model->name);
    return NULL;
  }
  if (attach_weights(library, weights, size, how, error) == FORGE_OK) return prepared;
  free(library);
  return NULL;
}

forge_model *forge_prepare_weights(const forge_model *model, const void *weights, int64_t size, int32_t copy,
                                   forge_error *error) {
  const bool misaligned = (uintptr_t)weights % FORGE_ALIGNMENT != 0;
  return prepare_model(model, weights, size, copy || misaligned ? COPIED : IN_PLACE, error);
}

static forge_model *prepare_own_weights(const forge_model *model, placement how, forge_error *error) {
  if (forge_check_model(model, error) != FORGE_OK) return NULL;
  const bool large = model->weights != NULL && model->weights_size > COPY_MINIMUM;
  return prepare_model(model, model->weights, model->weights_size, large ? how : IN_PLACE, error);
}

forge_model *forge_prepare(const forge_model *model, forge_error *error) {
  return prepare_own_weights(model, COPIED, error);
}

void forge_release(forge_model *model) {
  if (model == NULL) return;
  prepared_library *library = ((prepared_model *)model)->library;
  free(library->pages);
  free(library);
  forge_trim_memory();
}

const forge_model *forge_model_find(const forge_model *model, const char *name) {
  for (int32_t i = 0; i < forge_functions(model); i++)
    if (strcmp(model->functions[i]->function, name) == 0) return model->functions[i];
  return forge_functions(model) == 0 && strcmp(forge_function_name(model), name) == 0 ? model : NULL;
}

/* A path to the open file that no library in this process was ever loaded by: the dynamic loader compares names before files, and
 * would give back an older library for a name it knows, though descriptor numbers and paths are used again. "//" and "/./" mean "/".
 */
static void unique_name(int fd, char *name) {
  static atomic_uint loads;
  const uint64_t number = (uint64_t)(uintptr_t)&loads << NAME_BITS | atomic_fetch_add(&loads, 1);
  size_t length = (size_t)snprintf(name, NAME_SIZE, "/proc/self/fd");
  for (int32_t bit = 0; bit < 64; bit++)
    length += (size_t)snprintf(name + length, NAME_SIZE - length, number >> bit & 1 ? "/." : "/");
  snprintf(name + length, NAME_SIZE - length, "/%d", fd);
}

static forge_library *load_model(void *handle, forge_error *error) {
  const forge_model *(*get)(void) = NULL;
  void *symbol = dlsym(handle, "forge_model_get");
  memcpy(&get, &symbol, sizeof get);
  forge_library *library = get ? calloc(1, sizeof *library) : NULL;
  if (library == NULL) {
    forge_fail(error, get ? FORGE_ERROR_MEMORY : FORGE_ERROR_FILE,
               get ? "forge_load: out of memory"
                   : "forge_load: the library has no forge_model_get; it is not a model that Forge compiled");
    return NULL;
  }
  library->handle = handle;
  library->model = prepare_own_weights(get(), COPIED_FROM_FILE, error);
  if (library->model) return library;
  free(library);
  return NULL;
}

forge_library *forge_load_fd(int fd, forge_error *error) {
  char name[NAME_SIZE];
  unique_name(fd, name);
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    const char *reason = dlerror();
    forge_fail(error, FORGE_ERROR_FILE, "forge_load: the system cannot load the library: %s",
               reason ? reason : "unknown reason");
    return NULL;
  }
  forge_library *library = load_model(handle, error);
  if (library == NULL) dlclose(handle);
  return library;
}

forge_library *forge_load(const char *path, forge_error *error) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    forge_fail(error, FORGE_ERROR_FILE, "%s: cannot be opened: %s", path, strerror(errno));
    return NULL;
  }
  forge_library *library = forge_load_fd(fd, error);
  close(fd);
  return library;
}

/* Systems of before Linux 6.3 do not know MFD_EXEC and need no flag. */
static int open_memory(void) {
  const int fd = memfd_create("forge-model", MFD_CLOEXEC | MFD_EXEC);
  return fd < 0 && errno == EINVAL ? memfd_create("forge-model", MFD_CLOEXEC) : fd;
}

static bool write_all(int fd, const char *bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = write(fd, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    size -= (size_t)written;
  }
  return true;
}

forge_library *forge_load_memory(const void *bytes, size_t size, forge_error *error) {
  const int fd = open_memory();
  if (fd < 0 || !write_all(fd, bytes, size)) {
    forge_fail(error, FORGE_ERROR_MEMORY, "forge_load_memory: no memory file of %zu bytes: %s", size, strerror(errno));
    if (fd >= 0) close(fd);
    return NULL;
  }
  forge_library *library = forge_load_fd(fd, error);
  close(fd);
  return library;
}

const forge_model *forge_library_model(const forge_library *library) { return library->model; }

void forge_unload(forge_library *library) {
  if (library == NULL) return;
  forge_release(library->model);
  dlclose(library->handle);
  free(library);
}
