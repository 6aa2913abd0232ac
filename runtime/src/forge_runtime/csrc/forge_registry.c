/* Functions of the embedding program that models call by name. One table for this copy of the runtime; calls take no lock. */
#include "forge_internal.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 256, LIST_SIZE = 640 };

/* A name that is, or once was, registered; never freed, so that readers need not be waited for. What it stands for is read between
 * two equal even values of `version`. */
typedef struct entry entry;
struct entry {
  entry *next;
  atomic_uint version;
  atomic_bool is_registered;
  _Atomic(forge_function) function;
  _Atomic(void *) state;
  char name[];
};

typedef struct {
  bool is_registered;
  forge_function function;
  void *state;
} registration;

static _Atomic(entry *) table[BUCKETS];
static pthread_mutex_t writers = PTHREAD_MUTEX_INITIALIZER;

static _Atomic(entry *) *bucket_of(const char *name) {
  uint32_t hash = 2166136261U; /* FNV-1a */
  for (; *name; name++)
    hash = (hash ^ (unsigned char)*name) * 16777619U;
  return &table[hash % BUCKETS];
}

static entry *find_entry(const char *name) {
  entry *found = atomic_load(bucket_of(name));
  while (found && strcmp(found->name, name))
    found = found->next;
  return found;
}

static registration find(const char *name) {
  registration found = {false, NULL, NULL};
  entry *e = find_entry(name);
  if (e == NULL) return found;
  unsigned before;
  do {
    before = atomic_load(&e->version);
    found = (registration){atomic_load(&e->is_registered), atomic_load(&e->function), atomic_load(&e->state)};
  } while (before % 2 || atomic_load(&e->version) != before);
  return found;
}

/* The functions from here on to forge_unregister hold the lock of writers. */
static entry *add_entry(const char *name) {
  const size_t size = strlen(name) + 1;
  entry *e = calloc(1, sizeof *e + size);
  if (e == NULL) return NULL;
  _Atomic(entry *) *bucket = bucket_of(name);
  memcpy(e->name, name, size);
  e->next = atomic_load(bucket);
  atomic_store(bucket, e);
  return e;
}

static void change(entry *e, registration value) {
  atomic_fetch_add(&e->version, 1);
  atomic_store(&e->is_registered, value.is_registered);
  atomic_store(&e->function, value.function);
  atomic_store(&e->state, value.state);
  atomic_fetch_add(&e->version, 1);
}

static int32_t add(const char *name, registration value, int32_t override, forge_error *error) {
  entry *e = find_entry(name);
  if (e && atomic_load(&e->is_registered) && !override)
    return forge_fail(error, FORGE_ERROR_FUNCTION, "forge_register: '%s' is registered already; pass override to replace it", name);
  if (e == NULL) e = add_entry(name);
  if (e == NULL) return forge_fail(error, FORGE_ERROR_MEMORY, "forge_register: no memory for '%s'", name);
  change(e, value);
  return FORGE_OK;
}

int32_t forge_register(const char *name, forge_function function, void *state, int32_t override, forge_error *error) {
  forge_fail(error, FORGE_OK, "%s", "");
  if (name == NULL || *name == '\0')
    return forge_fail(error, FORGE_ERROR_INPUT, "forge_register: got no name; expected a text that is not empty");
  pthread_mutex_lock(&writers);
  const int32_t status = add(name, (registration){true, function, state}, override, error);
  pthread_mutex_unlock(&writers);
  return status;
}

int32_t forge_unregister(const char *name, forge_error *error) {
  forge_fail(error, FORGE_OK, "%s", "");
  if (name == NULL) return forge_fail(error, FORGE_ERROR_INPUT, "forge_unregister: got no name; expected one that is registered");
  pthread_mutex_lock(&writers);
  entry *e = find_entry(name);
  const bool found = e && atomic_load(&e->is_registered);
  if (found) change(e, (registration){false, NULL, NULL});
  pthread_mutex_unlock(&writers);
  return found ? FORGE_OK : forge_fail(error, FORGE_ERROR_FUNCTION, "forge_unregister: no function is registered as '%s'", name);
}

int32_t forge_check_registered(const forge_model *model, forge_error *error) {
  char list[LIST_SIZE] = "";
  size_t length = 0;
  int32_t missing = 0, listed = 0;
  const int32_t count = model->abi_version < FORGE_ABI_FUNCTIONS ? 0 : model->n_registered;
  for (int32_t i = 0; i < count; i++) {
    if (find(model->registered[i]).is_registered || missing++ > listed) continue;
    const int size = snprintf(list + length, sizeof list - length, "%s'%s'", length ? ", " : "", model->registered[i]);
    const bool fits = size > 0 && (size_t)size < sizeof list - length;
    if (fits) length += (size_t)size;
    listed += fits;
    list[length] = '\0';
  }
  if (missing == 0) return FORGE_OK;
  return forge_fail(error, FORGE_ERROR_FUNCTION,
                    "model '%s': %d of the functions that it calls are not registered: %s%s; register them before it is loaded "
                    "(forge_register; in Python forge.register_func)",
                    model->name, missing, list, listed < missing ? " and more" : "");
}

/* The function, of the host or of the registry; what it reports goes to *error. */
static int32_t call(const forge_host *outer, const char *name, const forge_tensor *in, int32_t n_in, forge_tensor *out,
                    int32_t n_out, forge_error *error) {
  if (outer->call_registered) return outer->call_registered(outer, name, in, n_in, out, n_out);
  const registration found = find(name);
  if (!found.is_registered) return forge_fail(error, FORGE_ERROR_FUNCTION, "it is not registered any more; register it again");
  if (found.function == NULL)
    return forge_fail(error, FORGE_ERROR_FUNCTION, "it is registered as one that the host has, but call_registered of the host is NULL");
  return found.function(found.state, in, n_in, out, n_out, error);
}

/* Whether the sizes, which are expressions that the model states, are sizes of a tensor. */
static bool has_sizes(const forge_tensor *tensor) {
  for (int32_t d = 0; d < tensor->ndim; d++)
    if (tensor->shape[d] < 0) return false;
  return forge_byte_count(tensor) >= 0;
}

int32_t forge_call_function(const forge_host *host, const forge_control *control, const forge_tensor *in, int32_t n_in,
                            forge_tensor *out, int32_t n_out) {
  forge_error error = {FORGE_OK, ""};
  for (int32_t k = 0; k < n_in + n_out; k++)
    if (!has_sizes(k < n_in ? &in[k] : &out[k - n_in]))
      return forge_node_fail(host, control, FORGE_ERROR_INPUT,
                             "a tensor would have a negative size, or more bytes than 64 bits count, for these inputs");
  for (int32_t k = 0; k < n_out; k++)
    out[k].capacity = forge_byte_count(&out[k]);
  const int32_t returned = call(forge_outer_host(host), control->function, in, n_in, out, n_out, &error);
  if (returned == FORGE_OK) return forge_watch_of(host) ? forge_watch_check(forge_watch_of(host)) : FORGE_OK;
  const int32_t status = returned > FORGE_OK && returned <= FORGE_ERROR_FUNCTION ? returned : FORGE_ERROR_FUNCTION;
  forge_error whole;
  error.message[sizeof error.message - 1] = '\0';
  if (*error.message)
    forge_fail(&whole, status, "the function '%s': %s", control->function, error.message);
  else
    forge_fail(&whole, status, "the function '%s' failed with status %d", control->function, returned);
  return forge_node_fail(host, control, status, whole.message);
}
