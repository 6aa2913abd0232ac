/* Runs the model of demo.py with a function of this program.
 *
 * Build: cc main.c modelLibrary.so -I <folder of forge_runtime.h>
 */
#include <stdio.h>

#include "forge_runtime.h"

enum { ARTICLES = 3 };

/* in: articles; out: memory for as many prices. */
static int32_t prices(void *state, const forge_tensor *in, int32_t n_in, forge_tensor *out, int32_t n_out, forge_error *error) {
  const float *table = state;
  const int64_t *articles = in[0].data;
  float *result = out[0].data;
  (void)n_in, (void)n_out;
  for (int64_t i = 0; i < in[0].shape[0]; i++) {
    if (articles[i] < 0 || articles[i] >= ARTICLES) {
      snprintf(error->message, sizeof error->message, "article %lld; expected 0 to %d", (long long)articles[i], ARTICLES - 1);
      return FORGE_ERROR_VALUE;
    }
    result[i] = table[articles[i]];
  }
  return FORGE_OK;
}

static int total(const forge_model *model, int64_t *articles, float *counts, int64_t n) {
  float sum = 0;
  forge_error error;
  const forge_tensor inputs[] = {{.data = articles, .dtype = FORGE_INT64, .ndim = 1, .shape = {n}},
                                 {.data = counts, .dtype = FORGE_FLOAT32, .ndim = 1, .shape = {n}}};
  forge_tensor output = {.data = &sum, .capacity = sizeof sum};
  const int32_t status = forge_run(model, inputs, &output, NULL, &error);
  if (status == FORGE_OK)
    printf("total %g\n", (double)sum);
  else
    printf("%s\n", error.message);
  return status;
}

int main(void) {
  float table[ARTICLES] = {0.5f, 2.0f, 7.25f};
  float counts[] = {4, 1, 2};
  int64_t articles[] = {0, 2, 2}, unknown[] = {9};
  forge_error error;
  if (forge_prepare(forge_model_get(), &error) == NULL) printf("%s\n", error.message);
  if (forge_register("shop.prices", prices, table, 0, &error) != FORGE_OK) return 1;
  forge_model *model = forge_prepare(forge_model_get(), &error);
  if (model == NULL) return 1;
  int32_t status = total(model, articles, counts, 3);
  if (status == FORGE_OK && total(model, unknown, counts, 1) != FORGE_ERROR_VALUE) status = 1;
  forge_release(model);
  return status;
}
