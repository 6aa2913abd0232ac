/* The Fourier transform that kernels of a model call. Not part of the interface. */
#ifndef FORGE_FFT_H
#define FORGE_FFT_H
#include "forge_strings.h"

enum {
  FORGE_FFT_WIDE = 1,     /* float64 elements, else float32 */
  FORGE_FFT_COMPLEX = 2,  /* elements of data are pairs (real, imaginary), else single numbers */
  FORGE_FFT_INVERSE = 4,  /* positive sign, divided by length */
  FORGE_FFT_ONESIDED = 8  /* with INVERSE: data has the first half of a Hermitian spectrum, out has real numbers */
};

/* out[a, k, b] = sum over t of data[a, t, b] * exp(-2 pi i k t / length), for k < count; in float64, over the threads of the host.
 * data is [outer, extent, inner], cut or padded with zeros to length; out is [outer, count, inner], of pairs unless real.
 * Sizes below 1 of length count as 1. Working memory comes from host->alloc and is given back. */
FORGE_ROUTINE forge_fft(const void *data, void *out, int64_t outer, int64_t extent, int64_t inner, int64_t length, int64_t count,
                        int64_t flags, const forge_host *host);

#endif
