/* Butterflies of forge_fft.c over lines of LANES numbers at a time. Included once for each REAL type, with LINE(name) and TARGET.
 *
 * A line function does positions begin .. count of a line, in steps of LANES, and returns the first that is left: leg j of the
 * input is at x[j * in], leg k of the output at y[k * out], multiplied by w[k] (w[0] is 1 and not read).
 */

static inline TARGET REAL LINE(load)(const double *at) {
  REAL value;
  memcpy(&value, at, sizeof value);
  return value;
}

static inline TARGET void LINE(store)(double *at, REAL value) { memcpy(at, &value, sizeof value); }

/* Stores a number times w. */
static inline TARGET void LINE(turn)(line y, int64_t at, REAL re, REAL im, const root *w) {
  LINE(store)(y.re + at, re * w->re - im * w->im);
  LINE(store)(y.im + at, re * w->im + im * w->re);
}

static TARGET int64_t LINE(line2)(line x, line y, int64_t begin, int64_t count, int64_t in, int64_t out, const root *w) {
  int64_t q = begin;
  for (; q + LANES <= count; q += LANES) {
    const REAL ar = LINE(load)(x.re + q), ai = LINE(load)(x.im + q);
    const REAL br = LINE(load)(x.re + q + in), bi = LINE(load)(x.im + q + in);
    LINE(store)(y.re + q, ar + br);
    LINE(store)(y.im + q, ai + bi);
    LINE(turn)(y, q + out, ar - br, ai - bi, w + 1);
  }
  return q;
}

static TARGET int64_t LINE(line3)(line x, line y, int64_t begin, int64_t count, int64_t in, int64_t out, const root *w) {
  int64_t q = begin;
  for (; q + LANES <= count; q += LANES) {
    const REAL ar = LINE(load)(x.re + q), ai = LINE(load)(x.im + q);
    const REAL br = LINE(load)(x.re + q + in), bi = LINE(load)(x.im + q + in);
    const REAL cr = LINE(load)(x.re + q + 2 * in), ci = LINE(load)(x.im + q + 2 * in);
    const REAL sr = br + cr, si = bi + ci, dr = (br - cr) * SIN_3, di = (bi - ci) * SIN_3;
    const REAL mr = ar - sr * 0.5, mi = ai - si * 0.5;
    LINE(store)(y.re + q, ar + sr);
    LINE(store)(y.im + q, ai + si);
    LINE(turn)(y, q + out, mr + di, mi - dr, w + 1);
    LINE(turn)(y, q + 2 * out, mr - di, mi + dr, w + 2);
  }
  return q;
}

static TARGET int64_t LINE(line4)(line x, line y, int64_t begin, int64_t count, int64_t in, int64_t out, const root *w) {
  int64_t q = begin;
  for (; q + LANES <= count; q += LANES) {
    const REAL ar = LINE(load)(x.re + q), ai = LINE(load)(x.im + q);
    const REAL br = LINE(load)(x.re + q + in), bi = LINE(load)(x.im + q + in);
    const REAL cr = LINE(load)(x.re + q + 2 * in), ci = LINE(load)(x.im + q + 2 * in);
    const REAL dr = LINE(load)(x.re + q + 3 * in), di = LINE(load)(x.im + q + 3 * in);
    const REAL er = ar + cr, ei = ai + ci, fr = ar - cr, fi = ai - ci;
    const REAL gr = br + dr, gi = bi + di, hr = br - dr, hi = bi - di;
    LINE(store)(y.re + q, er + gr);
    LINE(store)(y.im + q, ei + gi);
    LINE(turn)(y, q + out, fr + hi, fi - hr, w + 1);
    LINE(turn)(y, q + 2 * out, er - gr, ei - gi, w + 2);
    LINE(turn)(y, q + 3 * out, fr - hi, fi + hr, w + 3);
  }
  return q;
}

static TARGET int64_t LINE(line5)(line x, line y, int64_t begin, int64_t count, int64_t in, int64_t out, const root *w) {
  int64_t q = begin;
  for (; q + LANES <= count; q += LANES) {
    const REAL ar = LINE(load)(x.re + q), ai = LINE(load)(x.im + q);
    const REAL br = LINE(load)(x.re + q + in), bi = LINE(load)(x.im + q + in);
    const REAL cr = LINE(load)(x.re + q + 2 * in), ci = LINE(load)(x.im + q + 2 * in);
    const REAL dr = LINE(load)(x.re + q + 3 * in), di = LINE(load)(x.im + q + 3 * in);
    const REAL er = LINE(load)(x.re + q + 4 * in), ei = LINE(load)(x.im + q + 4 * in);
    const REAL pr = br + er, pi = bi + ei, mr = br - er, mi = bi - ei;
    const REAL sr = cr + dr, si = ci + di, nr = cr - dr, ni = ci - di;
    const REAL ur = ar + pr * COS_5 + sr * COS_25, ui = ai + pi * COS_5 + si * COS_25;
    const REAL vr = ar + pr * COS_25 + sr * COS_5, vi = ai + pi * COS_25 + si * COS_5;
    const REAL jr = mr * SIN_5 + nr * SIN_25, ji = mi * SIN_5 + ni * SIN_25;
    const REAL kr = mr * SIN_25 - nr * SIN_5, ki = mi * SIN_25 - ni * SIN_5;
    LINE(store)(y.re + q, ar + pr + sr);
    LINE(store)(y.im + q, ai + pi + si);
    LINE(turn)(y, q + out, ur + ji, ui - jr, w + 1);
    LINE(turn)(y, q + 2 * out, vr + ki, vi - kr, w + 2);
    LINE(turn)(y, q + 3 * out, vr - ki, vi + kr, w + 3);
    LINE(turn)(y, q + 4 * out, ur - ji, ui + jr, w + 4);
  }
  return q;
}

/* Any odd radix: legs j and radix - j are taken together; unit[j] is exp(-2 pi i j / radix). */
static TARGET int64_t LINE(line_any)(line x, line y, int64_t begin, int64_t count, int64_t in, int64_t out, const root *w,
                                     int32_t radix, const root *unit) {
  const int32_t half = radix / 2;
  REAL sums[2][LARGEST_RADIX / 2], gaps[2][LARGEST_RADIX / 2];
  int64_t q = begin;
  for (; q + LANES <= count; q += LANES) {
    const REAL ar = LINE(load)(x.re + q), ai = LINE(load)(x.im + q);
    REAL tr = ar, ti = ai;
    for (int32_t j = 1; j <= half; j++) {
      const int64_t low = q + j * in, high = q + (radix - j) * in;
      const REAL br = LINE(load)(x.re + low), bi = LINE(load)(x.im + low);
      const REAL cr = LINE(load)(x.re + high), ci = LINE(load)(x.im + high);
      sums[0][j - 1] = br + cr, sums[1][j - 1] = bi + ci;
      gaps[0][j - 1] = br - cr, gaps[1][j - 1] = bi - ci;
      tr = tr + sums[0][j - 1], ti = ti + sums[1][j - 1];
    }
    LINE(store)(y.re + q, tr);
    LINE(store)(y.im + q, ti);
    for (int32_t k = 1; k <= half; k++) {
      REAL er = ar + sums[0][0] * unit[k].re, ei = ai + sums[1][0] * unit[k].re;
      REAL fr = gaps[0][0] * unit[k].im, fi = gaps[1][0] * unit[k].im;
      for (int32_t j = 2, turns = 2 * k % radix; j <= half; j++, turns = (turns + k) % radix) {
        const root u = unit[turns];
        er = er + sums[0][j - 1] * u.re, ei = ei + sums[1][j - 1] * u.re;
        fr = fr + gaps[0][j - 1] * u.im, fi = fi + gaps[1][j - 1] * u.im;
      }
      LINE(turn)(y, q + k * out, er - fi, ei + fr, w + k);
      LINE(turn)(y, q + (radix - k) * out, er + fi, ei - fr, w + radix - k);
    }
  }
  return q;
}

/* A line times w, in place. */
static TARGET int64_t LINE(line_turn)(line x, int64_t begin, int64_t count, const root *w) {
  int64_t q = begin;
  for (; q + LANES <= count; q += LANES)
    LINE(turn)(x, q, LINE(load)(x.re + q), LINE(load)(x.im + q), w);
  return q;
}

/* From lines a = Z[k], b = Z[size - k] of packed real numbers their spectrum at k: (a + conj b) / 2 - i w (a - conj b) / 2. */
static TARGET int64_t LINE(line_split)(line a, line b, line y, int64_t begin, int64_t count, const root *w) {
  int64_t q = begin;
  for (; q + LANES <= count; q += LANES) {
    const REAL ar = LINE(load)(a.re + q), ai = LINE(load)(a.im + q), br = LINE(load)(b.re + q), bi = LINE(load)(b.im + q);
    const REAL er = (ar + br) * 0.5, ei = (ai - bi) * 0.5, fr = (ai + bi) * 0.5, fi = (br - ar) * 0.5;
    LINE(store)(y.re + q, er + (fr * w->re - fi * w->im));
    LINE(store)(y.im + q, ei + (fr * w->im + fi * w->re));
  }
  return q;
}

/* The way back, times 2: (a + conj b) + i conj(w) (a - conj b). */
static TARGET int64_t LINE(line_join)(line a, line b, line y, int64_t begin, int64_t count, const root *w) {
  int64_t q = begin;
  for (; q + LANES <= count; q += LANES) {
    const REAL ar = LINE(load)(a.re + q), ai = LINE(load)(a.im + q), br = LINE(load)(b.re + q), bi = LINE(load)(b.im + q);
    const REAL dr = ar - br, di = ai + bi;
    LINE(store)(y.re + q, (ar + br) + (dr * w->im - di * w->re));
    LINE(store)(y.im + q, (ai - bi) + (dr * w->re + di * w->im));
  }
  return q;
}

static const kit LINE(KIT) = {LANES,          LINE(line2),     LINE(line3),      LINE(line4),     LINE(line5),
                              LINE(line_any), LINE(line_turn), LINE(line_split), LINE(line_join)};

#undef LINE
#undef REAL
#undef LANES
#undef TARGET
