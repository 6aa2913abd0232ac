/* Sessions by themselves: many threads with one each, two threads in one, calls that fail, limits, donated memory. */
#define _GNU_SOURCE
#include "session_model.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                          \
  do {                                                                            \
    if (!(condition)) {                                                           \
      fprintf(stderr, "line %d: %s; %s\n", __LINE__, #condition, error.message);  \
      exit(1);                                                                    \
    }                                                                             \
  } while (0)

enum { THREADS = 16, LONGEST = 70 };

static forge_error error_of_main;
static const forge_model *model;
static int calls;

static forge_tensor vector(float *data, int64_t size) {
  return (forge_tensor){.data = data, .dtype = FORGE_FLOAT32, .ndim = 1, .shape = {size}, .capacity = size * 4};
}

/* Appends `value` and checks that y is what the last `n` rows and `total` say. */
static void append_and_check(forge_session *session, float value, int64_t n, float total) {
  forge_error error;
  float x[2] = {value, 1};
  const forge_tensor input = vector(x, 2);
  forge_tensor output = {.data = NULL};
  CHECK(forge_session_run(session, NULL, &input, &output, NULL, &error) == FORGE_OK);
  CHECK(output.ndim == 1 && output.shape[0] == n + 2);
  const float *y = output.data;
  CHECK(y[n] == 10 * value + 100 && y[n + 1] == total);
  forge_free_output(NULL, &output);
}

static void *own_session(void *argument) {
  const int number = (int)(intptr_t)argument;
  forge_error error;
  forge_session_options options = {number % 3 * 20};
  forge_session *session = forge_session_new(model, NULL, &options, &error);
  CHECK(session);
  for (int round = 0; round < calls; round++) {
    float total = 0;
    forge_session *fork = NULL;
    for (int64_t n = 0; n < LONGEST; n++) {
      total += (float)(number + n);
      append_and_check(session, (float)(number + n), n, total);
      if (n == LONGEST / 2) fork = forge_session_copy(session, &error);
      if (n > LONGEST / 2) append_and_check(fork, (float)number, n, total - (float)((n - LONGEST / 2) * (n + LONGEST / 2 + 1) / 2));
    }
    forge_tensor log = {.data = NULL};
    CHECK(forge_session_get(session, "log", &log, &error) == FORGE_OK);
    CHECK(log.ndim == 2 && log.shape[0] == 2 && log.shape[1] == LONGEST);
    for (int64_t n = 0; n < LONGEST; n++)
      CHECK(((float *)log.data)[n] == 10 * (float)(number + n) && ((float *)log.data)[LONGEST + n] == 100);
    CHECK(forge_session_set(fork, "log", &log, &error) == FORGE_OK);
    forge_free_output(NULL, &log);
    CHECK(forge_session_reset(session, &error) == FORGE_OK);
    forge_session_free(fork);
  }
  forge_session_free(session);
  return NULL;
}

static atomic_int refused, accepted;

static void *shared_session(void *argument) {
  forge_session *session = argument;
  for (int i = 0; i < 200 * calls; i++) {
    forge_error error;
    float x[2] = {1, 1};
    const forge_tensor input = vector(x, 2);
    forge_tensor output = {.data = NULL};
    const int32_t status = forge_session_run(session, NULL, &input, &output, NULL, &error);
    CHECK(status == FORGE_OK || (status == FORGE_ERROR_INPUT && strstr(error.message, "one thread at a time") && !output.data));
    atomic_fetch_add(status == FORGE_OK ? &accepted : &refused, 1);
    forge_free_output(NULL, &output);
  }
  return NULL;
}

static void test_threads(void) {
  pthread_t threads[THREADS];
  for (intptr_t i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, own_session, (void *)i);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  forge_error error = {0};
  forge_session *session = forge_session_new(model, NULL, NULL, &error);
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, shared_session, session);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  forge_tensor log = {.data = NULL};
  CHECK(forge_session_get(session, "log", &log, &error) == FORGE_OK);
  CHECK(log.shape[1] == accepted && accepted + refused == 400 * calls);
  forge_free_output(NULL, &log);
  forge_session_free(session);
}

/* A host that counts what it gave and did not get back, and gives nothing where `most` is reached. */
static int64_t held, most = INT64_MAX;
static void *take(const forge_host *host, size_t bytes, size_t alignment) {
  (void)host;
  void *memory = NULL;
  if (held + (int64_t)bytes > most || posix_memalign(&memory, alignment, bytes)) return NULL;
  held += (int64_t)bytes;
  return memory;
}
static void give(const forge_host *host, void *memory, size_t bytes) {
  (void)host;
  held -= (int64_t)bytes;
  free(memory);
}
static const forge_host COUNTING = {.abi_version = FORGE_ABI_VERSION, .alloc = take, .free = give};

static void test_failures(void) {
  forge_error error = {0};
  float x[2] = {3, 1}, bad[2] = {NAN, 1}, y[8], total[1];
  const forge_tensor good_input = vector(x, 2), bad_input = vector(bad, 2);
  forge_session *session = forge_session_new(model, &COUNTING, NULL, &error);
  forge_tensor output = vector(y, 8), value = vector(total, 1);
  CHECK(forge_session_run(session, NULL, &bad_input, &output, NULL, &error) == FORGE_ERROR_VALUE);
  CHECK(forge_session_run(session, NULL, &good_input, &output, NULL, &error) == FORGE_OK && y[0] == 130 && y[1] == 3);
  CHECK(forge_session_run(session, NULL, &bad_input, &output, NULL, &error) == FORGE_ERROR_VALUE);
  CHECK(forge_session_get(session, "total", &value, &error) == FORGE_OK && total[0] == 3);
  total[0] = 40;
  CHECK(forge_session_set(session, "total", &value, &error) == FORGE_OK);
  CHECK(forge_session_run(session, NULL, &good_input, &output, NULL, &error) == FORGE_OK && y[0] == 130 && y[2] == 43);
  most = held; /* no room for another row */
  const int64_t before = held;
  int32_t status = FORGE_OK;
  output.data = y;
  while (status == FORGE_OK && output.shape[0] < 8)
    status = forge_session_run(session, NULL, &good_input, &output, NULL, &error);
  CHECK(status == FORGE_ERROR_MEMORY && held == before);
  most = INT64_MAX;
  CHECK(forge_session_run(session, NULL, &good_input, &output, NULL, &error) == FORGE_OK);
  const forge_limits limits = {.memory = 1};
  forge_session_reset(session, &error);
  forge_session *small = forge_session_new(model, &COUNTING, NULL, &error);
  CHECK(forge_session_run(small, NULL, &good_input, &output, &limits, &error) == FORGE_ERROR_MEMORY_LIMIT);
  forge_session_free(small);
  forge_session_free(session);
  CHECK(held == 0);
}

static void test_lost_state(void) {
  forge_error error = {0};
  float x = 3, bad = NAN, y = 0, sums[N_SUMS] = {4};
  const forge_tensor good_input = vector(&x, 1), bad_input = vector(&bad, 1), value = vector(sums, N_SUMS);
  forge_tensor output = vector(&y, 1), copy = {.data = NULL};
  forge_session *session = forge_session_new(forge_model_find(model, "sum"), &COUNTING, NULL, &error);
  CHECK(forge_session_run(session, NULL, &bad_input, &output, NULL, &error) == FORGE_ERROR_VALUE);
  CHECK(forge_session_run(session, NULL, &good_input, &output, NULL, &error) == FORGE_OK && y == 3);
  CHECK(forge_session_run(session, NULL, &bad_input, &output, NULL, &error) == FORGE_ERROR_VALUE);
  CHECK(forge_session_run(session, NULL, &good_input, &output, NULL, &error) == FORGE_ERROR_INPUT);
  CHECK(strstr(error.message, "state 'sums' is undefined"));
  CHECK(forge_session_get(session, "sums", &copy, &error) == FORGE_ERROR_INPUT);
  forge_session *fork = forge_session_copy(session, &error);
  CHECK(forge_session_run(fork, NULL, &good_input, &output, NULL, &error) == FORGE_ERROR_INPUT);
  forge_tensor many_axes = value;
  many_axes.ndim = 1 << 30;
  CHECK(forge_session_set(session, "sums", &many_axes, &error) == FORGE_ERROR_INPUT && strstr(error.message, "got rank 1073741824"));
  CHECK(forge_session_set(session, "sums", &value, &error) == FORGE_OK);
  CHECK(forge_session_run(session, NULL, &good_input, &output, NULL, &error) == FORGE_OK && y == 7);
  forge_session_free(session);
  forge_session_free(fork);
  CHECK(held == 0);
}

static void test_other_functions(void) {
  forge_error error = {0};
  float x[4] = {0, 2, 0, 4}, gain[2] = {1, 7}, y[4] = {0};
  int64_t count = -1;
  const forge_tensor input = vector(x, 4), other = vector(y, 4), gains = vector(gain, 2);
  forge_tensor number = {.data = &count, .capacity = 8};
  forge_session *session = forge_session_new(forge_model_find(model, "find"), &COUNTING, NULL, &error);
  CHECK(forge_session_run(session, NULL, &input, &number, NULL, &error) == FORGE_OK && count == 0);
  CHECK(forge_session_run(session, NULL, &other, &number, NULL, &error) == FORGE_OK && count == 2);
  CHECK(forge_session_run(session, NULL, &input, &number, NULL, &error) == FORGE_OK && count == 0);
  CHECK(forge_session_run(session, forge_model_find(model, "tune"), &gains, NULL, NULL, &error) == FORGE_OK);
  const forge_tensor row = vector(x, 2);
  forge_tensor sums = vector(y, 4);
  CHECK(forge_session_run(session, forge_model_find(model, "main"), &row, &sums, NULL, &error) == FORGE_OK && y[0] == 14);
  CHECK(forge_session_run(session, forge_model_find(&MAIN, "tune"), &gains, NULL, NULL, &error) ==
        (model == &MAIN ? FORGE_OK : FORGE_ERROR_INPUT));
  forge_session_free(session);
  CHECK(held == 0);
}

/* y = 2 x + w: in the memory of x only where the caller gave it. */
static void test_donation(void) {
  forge_error error = {0};
  const forge_model *twice_model = forge_model_find(model, "double");
  float x[3] = {1, 2, 3}, w[3] = {10, 10, 10}, y[3];
  const forge_tensor inputs[] = {vector(x, 3), vector(w, 3)};
  forge_tensor output = {.data = NULL}, own = vector(y, 3), donated = vector(x, 3), wrong = vector(w, 3);
  CHECK(forge_run(twice_model, inputs, &output, NULL, &error) == FORGE_OK);
  CHECK(x[2] == 3 && ((float *)output.data)[2] == 16);
  forge_free_output(NULL, &output);
  CHECK(forge_run(twice_model, inputs, &own, NULL, &error) == FORGE_OK && x[2] == 3 && y[2] == 16);
  CHECK(forge_run(twice_model, inputs, &wrong, NULL, &error) == FORGE_ERROR_INPUT && strstr(error.message, "overlaps that of 'w'"));
  CHECK(forge_run(twice_model, inputs, &donated, NULL, &error) == FORGE_OK && x[2] == 16 && donated.data == x);
  const forge_tensor same[] = {vector(x, 3), vector(x, 3)};
  CHECK(forge_run(twice_model, same, &donated, NULL, &error) == FORGE_ERROR_INPUT);
  const forge_tensor empty[] = {vector(NULL, 0), vector(NULL, 0)};
  CHECK(forge_run(twice_model, empty, &output, NULL, &error) == FORGE_OK && output.shape[0] == 0);
  forge_free_output(NULL, &output);
}

/* A model of an earlier version, in memory that ends where it does. */
static void test_old_model(void) {
  forge_error error = {0};
  void *shorter = malloc(offsetof(forge_model, function));
  forge_model *old = shorter;
  memcpy(old, &TUNE, offsetof(forge_model, function));
  old->abi_version = 3;
  forge_model *prepared = forge_prepare(old, &error);
  CHECK(prepared && forge_model_find(old, "main") == old && forge_model_find(prepared, "main") == prepared);
  CHECK(forge_model_find(prepared, "tune") == NULL);
  const forge_model *models[] = {old, prepared};
  for (int i = 0; i < 2; i++) {
    float x[2] = {3, 4}, y[2] = {0};
    const forge_tensor input = vector(x, 2);
    forge_tensor output = vector(y, 2);
    CHECK(forge_run(models[i], &input, &output, NULL, &error) == FORGE_OK && y[1] == 4);
    forge_session *session = forge_session_new(models[i], &COUNTING, NULL, &error);
    y[1] = 0;
    CHECK(forge_session_run(session, NULL, &input, &output, NULL, &error) == FORGE_OK && y[1] == 4);
    CHECK(forge_session_run(session, &MAIN, &input, &output, NULL, &error) == FORGE_ERROR_INPUT);
    CHECK(strstr(error.message, "function 'main' of another model"));
    CHECK(forge_session_set(session, "log", &input, &error) == FORGE_ERROR_INPUT);
    CHECK(forge_session_reset(session, &error) == FORGE_OK);
    forge_session *copy = forge_session_copy(session, &error);
    forge_session_free(session);
    forge_session_free(copy);
  }
  CHECK(held == 0);
  forge_release(prepared);
  free(old);
}

int main(int argc, char **argv) {
  calls = argc > 1 ? atoi(argv[1]) : 1;
  forge_model *prepared = forge_prepare(&MAIN, &error_of_main);
  const forge_model *choices[] = {&MAIN, prepared};
  for (int i = 0; i < 2; i++) {
    model = choices[i];
    accepted = refused = 0;
    test_threads();
    test_failures();
    test_lost_state();
    test_other_functions();
    test_donation();
  }
  forge_release(prepared);
  test_old_model();
  return 0;
}
