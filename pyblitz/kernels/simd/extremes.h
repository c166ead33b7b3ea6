/* The least and the greatest item of a row, in one pass.
 *
 * What chooses between two vectors is named, because compilers do not find it for floats, which may
 * be NaNs.  Elsewhere than on x86 it is made of comparisons. */
#ifndef PYBLITZ_EXTREMES_H
#define PYBLITZ_EXTREMES_H

#include <stdint.h>
#include <string.h>

#define PB_EXTREMES_ITEM(x, low, high, some)                                  \
  do {                                                                        \
    low = x < low ? x : low;                                                  \
    high = x > high ? x : high;                                               \
    some |= x != x;                                                           \
  } while (0)

/* Takes n items more into *low and *high.  Not 0: there was a NaN, and those say nothing.  N vectors
 * side by side, as each waits for the one before; in lines of the cache, see PB_EQUAL.
 * MIN(x, y) is one of them if either is a NaN.  NANS(x, y): whether there is one. */
#define PB_EXTREMES(NAME, T, WIDTH, N, MIN, MAX, NANS, ATTR)                  \
  typedef T NAME##_extremes_v __attribute__((vector_size(WIDTH)));            \
  static ATTR int NAME##_extremes(const T *a, intptr_t n, T *low, T *high) {  \
    enum { V = WIDTH / sizeof(T), ITEMS = N * V };                            \
    NAME##_extremes_v least[N], most[N], x[N];                                \
    T lanes[2][ITEMS], first = *low, last = *high;                            \
    int some = 0, k;                                                          \
    intptr_t i;                                                               \
    for (; n > 0 && (uintptr_t)a % 64 != 0; a++, n--)                         \
      PB_EXTREMES_ITEM(*a, first, last, some);                                \
    if (n >= ITEMS) {                                                         \
      for (k = 0; k < ITEMS; k++) {                                           \
        lanes[0][k] = first;                                                  \
        lanes[1][k] = last;                                                   \
      }                                                                       \
      memcpy(least, lanes[0], sizeof least);                                  \
      memcpy(most, lanes[1], sizeof most);                                    \
      for (i = 0; i + ITEMS <= n; i += ITEMS) {                               \
        _Pragma("GCC unroll 16") for (k = 0; k < N; k++)                      \
          memcpy(&x[k], a + i + k * V, WIDTH);                                \
        _Pragma("GCC unroll 16") for (k = 0; k < N; k++) {                    \
          least[k] = (NAME##_extremes_v)MIN(x[k], least[k]);                  \
          most[k] = (NAME##_extremes_v)MAX(x[k], most[k]);                    \
        }                                                                     \
        _Pragma("GCC unroll 16") for (k = 0; k < N; k += 2)                   \
          some |= NANS(x[k], x[k + 1]);                                       \
      }                                                                       \
      _Pragma("GCC unroll 16") for (k = 1; k < N; k++) {                      \
        least[0] = (NAME##_extremes_v)MIN(least[k], least[0]);                \
        most[0] = (NAME##_extremes_v)MAX(most[k], most[0]);                   \
      }                                                                       \
      memcpy(lanes[0], least, WIDTH);                                         \
      memcpy(lanes[1], most, WIDTH);                                          \
      for (k = 0; k < V; k++) {                                               \
        first = lanes[0][k] < first ? lanes[0][k] : first;                    \
        last = lanes[1][k] > last ? lanes[1][k] : last;                       \
      }                                                                       \
      a += i;                                                                 \
      n -= i;                                                                 \
    }                                                                         \
    for (i = 0; i < n; i++)                                                   \
      PB_EXTREMES_ITEM(a[i], first, last, some);                              \
    *low = first;                                                             \
    *high = last;                                                             \
    return some;                                                              \
  }

#define PB_NO_NANS(x, y) 0

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define PB_NANS_PS(x, y) _mm_movemask_ps(_mm_cmpunord_ps(x, y))
#define PB_NANS_PD(x, y) _mm_movemask_pd(_mm_cmpunord_pd(x, y))
#define PB_NANS_PS256(x, y) _mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_UNORD_Q))
#define PB_NANS_PD256(x, y) _mm256_movemask_pd(_mm256_cmp_pd(x, y, _CMP_UNORD_Q))
#define PB_NANS_PS512(x, y) _mm512_cmp_ps_mask(x, y, _CMP_UNORD_Q)
#define PB_NANS_PD512(x, y) _mm512_cmp_pd_mask(x, y, _CMP_UNORD_Q)
#define PB_MIN_NARROW256(x, y) _mm256_min_epi32((__m256i)(x), (__m256i)(y))
#define PB_MAX_NARROW256(x, y) _mm256_max_epi32((__m256i)(x), (__m256i)(y))
#define PB_PICK256(x, y, a, b)                                             \
  _mm256_blendv_epi8((__m256i)(a), (__m256i)(b),                              \
                     _mm256_cmpgt_epi64((__m256i)(x), (__m256i)(y)))
#define PB_MIN_WIDE256(x, y) PB_PICK256(x, y, x, y)
#define PB_MAX_WIDE256(x, y) PB_PICK256(x, y, y, x)
#define PB_MIN_NARROW512(x, y) _mm512_min_epi32((__m512i)(x), (__m512i)(y))
#define PB_MAX_NARROW512(x, y) _mm512_max_epi32((__m512i)(x), (__m512i)(y))
#define PB_MIN_WIDE512(x, y) _mm512_min_epi64((__m512i)(x), (__m512i)(y))
#define PB_MAX_WIDE512(x, y) _mm512_max_epi64((__m512i)(x), (__m512i)(y))

#define PB_EXTREMES_BASE                                                      \
  PB_EXTREMES(pb_float_base, float, 16, 4, _mm_min_ps, _mm_max_ps, PB_NANS_PS, ) \
  PB_EXTREMES(pb_double_base, double, 16, 4, _mm_min_pd, _mm_max_pd, PB_NANS_PD, )
#define PB_EXTREMES_V3                                                        \
  PB_EXTREMES(pb_float_v3, float, 32, 4, _mm256_min_ps, _mm256_max_ps,        \
              PB_NANS_PS256, PB_CODE_V3)                                      \
  PB_EXTREMES(pb_double_v3, double, 32, 4, _mm256_min_pd, _mm256_max_pd,      \
              PB_NANS_PD256, PB_CODE_V3)                                      \
  PB_EXTREMES(pb_narrow_v3, int32_t, 32, 4, PB_MIN_NARROW256,                 \
              PB_MAX_NARROW256, PB_NO_NANS, PB_CODE_V3)                       \
  PB_EXTREMES(pb_wide_v3, int64_t, 32, 4, PB_MIN_WIDE256, PB_MAX_WIDE256,     \
              PB_NO_NANS, PB_CODE_V3)
#define PB_EXTREMES_V4                                                        \
  PB_EXTREMES(pb_float_v4, float, 64, 4, _mm512_min_ps, _mm512_max_ps,        \
              PB_NANS_PS512, PB_CODE_V4)                                      \
  PB_EXTREMES(pb_double_v4, double, 64, 4, _mm512_min_pd, _mm512_max_pd,      \
              PB_NANS_PD512, PB_CODE_V4)                                      \
  PB_EXTREMES(pb_narrow_v4, int32_t, 64, 4, PB_MIN_NARROW512,                 \
              PB_MAX_NARROW512, PB_NO_NANS, PB_CODE_V4)                       \
  PB_EXTREMES(pb_wide_v4, int64_t, 64, 4, PB_MIN_WIDE512, PB_MAX_WIDE512,     \
              PB_NO_NANS, PB_CODE_V4)
#else
/* Masks of a comparison, which are integers as wide as what is compared. */
typedef int32_t pb_mask_narrow __attribute__((vector_size(16)));
typedef int64_t pb_mask_wide __attribute__((vector_size(16)));
#define PB_CHOOSE(M, m, x, y) (((M)(x) & (M)(m)) | ((M)(y) & ~(M)(m)))
#define PB_MIN_FLOATS(x, y) PB_CHOOSE(pb_mask_narrow, (x) < (y), x, y)
#define PB_MAX_FLOATS(x, y) PB_CHOOSE(pb_mask_narrow, (x) > (y), x, y)
#define PB_MIN_DOUBLES(x, y) PB_CHOOSE(pb_mask_wide, (x) < (y), x, y)
#define PB_MAX_DOUBLES(x, y) PB_CHOOSE(pb_mask_wide, (x) > (y), x, y)
#define PB_NANS_FLOATS(x, y) pb_is_any((pb_mask_wide)(((x) != (x)) | ((y) != (y))))
#define PB_NANS_DOUBLES(x, y) pb_is_any(((x) != (x)) | ((y) != (y)))

static inline int pb_is_any(pb_mask_wide m) { return (m[0] | m[1]) != 0; }

#define PB_EXTREMES_BASE                                                      \
  PB_EXTREMES(pb_float_base, float, 16, 4, PB_MIN_FLOATS, PB_MAX_FLOATS,      \
              PB_NANS_FLOATS, )                                               \
  PB_EXTREMES(pb_double_base, double, 16, 4, PB_MIN_DOUBLES, PB_MAX_DOUBLES,  \
              PB_NANS_DOUBLES, )
#endif

#endif
