/* The Fourier transform on random sizes, layouts and bits; every buffer is exactly as large as the sizes say. */
#include "forge_fft.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;

static int64_t draw(int64_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((state >> 33) % (uint64_t)below);
}

static void report(const forge_host *host, int32_t status, const char *message) {
  (void)host;
  (void)status;
  fprintf(stderr, "%s\n", message);
  abort();
}

static void *room(int64_t bytes) {
  uint8_t *memory = malloc(bytes ? (size_t)bytes : 1);
  if (memory == NULL) abort();
  for (int64_t i = 0; i < bytes; i++)
    memory[i] = (uint8_t)draw(256);
  return memory;
}

static void round_trip(const forge_host *host) {
  const int64_t flags = draw(16), outer = draw(5), extent = draw(70), inner = draw(7), length = 1 + draw(draw(20) ? 140 : 3000);
  const int64_t half = length / 2 + 1, real = (flags & FORGE_FFT_INVERSE) && (flags & FORGE_FFT_ONESIDED);
  const int64_t count = draw(4) == 0 ? draw(length + 1) : (flags & FORGE_FFT_ONESIDED) && !real ? half : length;
  const int64_t size = flags & FORGE_FFT_WIDE ? 8 : 4;
  void *data = room(outer * extent * inner * size * (flags & FORGE_FFT_COMPLEX ? 2 : 1));
  void *out = room(outer * count * inner * size * (real ? 1 : 2));
  if (forge_fft(data, out, outer, extent, inner, length, count, flags, host) != FORGE_OK) abort();
  free(data);
  free(out);
}

int main(int argc, char **argv) {
  forge_host host = *forge_default_host();
  host.report_error = report;
  for (int rounds = argc > 1 ? atoi(argv[1]) : 1; rounds > 0; rounds--)
    round_trip(&host);
  puts("done");
  return 0;
}
