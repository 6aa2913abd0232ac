/* Runs the model of demo.py in sessions.
 *
 * Build: cc main.c modelLibrary.so -I <folder of forge_runtime.h>
 */
#include <stdio.h>

#include "forge_runtime.h"

static forge_error error;

/* Gives `n` numbers to a session and prints the mean of all that it was given. */
static int add(forge_session *session, float *numbers, int64_t n, const char *what) {
  float mean = 0;
  const forge_tensor input = {.data = numbers, .dtype = FORGE_FLOAT32, .ndim = 1, .shape = {n}};
  forge_tensor output = {.data = &mean, .capacity = sizeof mean};
  const int32_t status = forge_session_run(session, NULL, &input, &output, NULL, &error);
  if (status == FORGE_OK) printf("%s %.1f\n", what, (double)mean);
  return status;
}

static int converse(const forge_model *model, forge_session *session) {
  float first[] = {1, 2}, second[] = {6}, third[] = {-9}, fourth[] = {5}, largest = 0;
  int32_t status = add(session, first, 2, "mean");
  if (status == FORGE_OK) status = add(session, second, 1, "mean");
  forge_session *fork = status == FORGE_OK ? forge_session_copy(session, &error) : NULL;
  if (fork == NULL) return error.status;
  status = add(fork, third, 1, "mean in a fork");
  forge_session_free(fork);
  forge_tensor output = {.data = &largest, .capacity = sizeof largest};
  if (status == FORGE_OK) status = forge_session_run(session, forge_model_find(model, "largest"), NULL, &output, NULL, &error);
  if (status != FORGE_OK) return status;
  printf("largest %.1f\n", (double)largest);
  forge_tensor seen = {.data = NULL};
  status = forge_session_get(session, "seen", &seen, &error);
  for (int64_t i = 0; status == FORGE_OK && i < seen.shape[0]; i++)
    printf(i ? ", %.1f" : "seen [%.1f", (double)((float *)seen.data)[i]);
  printf("]\n");
  forge_free_output(NULL, &seen);
  if (status == FORGE_OK) status = forge_session_reset(session, &error);
  return status == FORGE_OK ? add(session, fourth, 1, "mean") : status;
}

int main(void) {
  const forge_session_options options = {.capacity = 1000};
  forge_model *model = forge_prepare(forge_model_get(), &error); /* once, for all functions and sessions */
  forge_session *session = model ? forge_session_new(forge_model_find(model, "add"), NULL, &options, &error) : NULL;
  const int status = session ? converse(model, session) : error.status;
  if (status != FORGE_OK) printf("%s\n", error.message);
  forge_session_free(session);
  forge_release(model);
  return status;
}
