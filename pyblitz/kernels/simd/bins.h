/* The bins of a row of items, where all bins have one width. */
#ifndef PYBLITZ_BINS_H
#define PYBLITZ_BINS_H

#include <stdint.h>
#include <string.h>

#include "pyblitz/kernels/simd/extremes.h"

/* Bin k begins k - 1 widths above `first`, for k from 1 to `bins`; bin 0 is before them, and of NaNs;
 * bin bins + 1 is behind them.  Not 0: some item is more than `apart` widths from the middle of the
 * bin that was computed, and may belong to a neighbour of it.
 *
 * MIN and MAX give the second of two if either is a NaN.  What MAGIC is added to and taken from is
 * rounded to an integer.  Items are asked for ahead: while a chunk's bins are counted, the processor
 * does not do so by itself. */
#define PB_BINS(NAME, T, MASK, WIDTH, MAGIC, MIN, MAX, ATTR)                  \
  typedef T NAME##_bins_v __attribute__((vector_size(WIDTH)));                \
  typedef MASK NAME##_bins_m __attribute__((vector_size(WIDTH)));             \
  typedef int32_t NAME##_bins_b                                               \
      __attribute__((vector_size(WIDTH * 4 / sizeof(T))));                    \
  static inline __attribute__((always_inline)) ATTR NAME##_bins_m             \
  NAME##_bins_of(const T *x, T first, T scale, T bins, T apart,               \
                 int32_t *bin) {                                              \
    NAME##_bins_v v, k, low = {0}, high = low + (bins + 1);                   \
    NAME##_bins_b b;                                                          \
    memcpy(&v, x, WIDTH);                                                     \
    v = (v - first) * scale + (T)0.5;                                         \
    v = (NAME##_bins_v)MAX(v, low);                                           \
    v = (NAME##_bins_v)MIN(v, high);                                          \
    k = (v + (T)MAGIC) - (T)MAGIC;                                            \
    v -= k;                                                                   \
    b = __builtin_convertvector(k, NAME##_bins_b);                            \
    memcpy(bin, &b, sizeof b);                                                \
    return (NAME##_bins_v)MAX(v, -v) > apart;                                 \
  }                                                                           \
  static ATTR int NAME##_bins(const T *x, intptr_t n, T first, T scale,       \
                              T bins, T apart, int32_t *bin) {                \
    enum { V = WIDTH / sizeof(T), AHEAD = 2048 / sizeof(T) };                 \
    NAME##_bins_m near = {0};                                                 \
    T rest[V];                                                                \
    int32_t bins_of_rest[V];                                                  \
    intptr_t i;                                                               \
    int k, some = 0;                                                          \
    for (i = 0; i + V <= n; i += V) {                                         \
      __builtin_prefetch(x + i + AHEAD);                                      \
      near |= NAME##_bins_of(x + i, first, scale, bins, apart, bin + i);      \
    }                                                                         \
    if (i < n) {                                                              \
      for (k = 0; k < V; k++)                                                 \
        rest[k] = x[i + k < n ? i + k : i];                                   \
      near |= NAME##_bins_of(rest, first, scale, bins, apart, bins_of_rest);  \
      memcpy(bin + i, bins_of_rest, (n - i) * sizeof *bin);                   \
    }                                                                         \
    for (k = 0; k < V; k++)                                                   \
      some |= near[k] != 0;                                                   \
    return some;                                                              \
  }

#define PB_BINS_LEVEL(LEVEL, WIDTH, MIN_FLOATS, MAX_FLOATS, MIN_DOUBLES, MAX_DOUBLES, ATTR) \
  PB_BINS(pb_float_##LEVEL, float, int32_t, WIDTH, 0x1.8p23, MIN_FLOATS, MAX_FLOATS, ATTR) \
  PB_BINS(pb_double_##LEVEL, double, int64_t, WIDTH, 0x1.8p52, MIN_DOUBLES, MAX_DOUBLES, ATTR)

#if defined(__x86_64__) && defined(__GNUC__)
#define PB_BINS_BASE                                                          \
  PB_BINS_LEVEL(base, 16, _mm_min_ps, _mm_max_ps, _mm_min_pd, _mm_max_pd, )
#define PB_BINS_V3                                                            \
  PB_BINS_LEVEL(v3, 32, _mm256_min_ps, _mm256_max_ps, _mm256_min_pd,          \
                _mm256_max_pd, PB_CODE_V3)
#define PB_BINS_V4                                                            \
  PB_BINS_LEVEL(v4, 64, _mm512_min_ps, _mm512_max_ps, _mm512_min_pd,          \
                _mm512_max_pd, PB_CODE_V4)
#else
#define PB_BINS_BASE                                                          \
  PB_BINS_LEVEL(base, 16, PB_MIN_FLOATS, PB_MAX_FLOATS, PB_MIN_DOUBLES,       \
                PB_MAX_DOUBLES, )
#endif

#endif
