/* Sums and sums of products of a row, pairwise, in lanes.
 *
 * All widths of a vector give the same bits.  Those of integers wrap, and are the same in any
 * order: the compiler makes vectors of them. */
#ifndef PYBLITZ_LANES_H
#define PYBLITZ_LANES_H

#include <stdint.h>
#include <string.h>

/* 32 lanes of double, 16 items each, and a tree: as many additions one after another as
 * in NumPy's 8 lanes of 16 items and the larger tree above them. */
enum { PB_ROW = 512 };

#define PB_HALF(n) (((n) / 2 + PB_ROW - 1) & ~(intptr_t)(PB_ROW - 1))

/* NAME_row: at most PB_ROW items, in 256 bytes of lanes, whatever the WIDTH of a vector.
 * NAME_sum, NAME_dot: any number, in a tree whose shape depends on that alone. */
#define PB_SUMS(NAME, T, WIDTH, ATTR)                                         \
  typedef T NAME##_v __attribute__((vector_size(WIDTH)));                     \
  static inline __attribute__((always_inline)) ATTR T                         \
  NAME##_row(const T *a, const T *b, intptr_t n) {                            \
    enum { V = WIDTH / sizeof(T), N = 256 / WIDTH, LANES = N * V };           \
    NAME##_v s[N], x, y;                                                      \
    T lane[LANES], sum = (T)-0.0; /* which changes nothing */                 \
    intptr_t i;                                                               \
    int k, width;                                                             \
    if (n < LANES) {                                                          \
      for (i = 0; i < n; i++)                                                 \
        sum += b ? a[i] * b[i] : a[i];                                        \
      return sum;                                                             \
    }                                                                         \
    _Pragma("GCC unroll 16") for (k = 0; k < N; k++) {                        \
      memcpy(&s[k], a + k * V, WIDTH);                                        \
      if (b) {                                                                \
        memcpy(&y, b + k * V, WIDTH);                                         \
        s[k] *= y;                                                            \
      }                                                                       \
    }                                                                         \
    for (i = LANES; i + LANES <= n; i += LANES) {                             \
      _Pragma("GCC unroll 16") for (k = 0; k < N; k++) {                      \
        memcpy(&x, a + i + k * V, WIDTH);                                     \
        if (b) {                                                              \
          memcpy(&y, b + i + k * V, WIDTH);                                   \
          x *= y;                                                             \
        }                                                                     \
        s[k] += x;                                                            \
      }                                                                       \
    }                                                                         \
    if (i < n) {                                                              \
      memcpy(lane, s, sizeof lane);                                           \
      for (k = 0; i < n; i++, k++)                                            \
        lane[k] += b ? a[i] * b[i] : a[i];                                    \
      memcpy(s, lane, sizeof lane);                                           \
    }                                                                         \
    _Pragma("GCC unroll 16") for (width = N / 2; width > 0; width /= 2)       \
      _Pragma("GCC unroll 16") for (k = 0; k < width; k++)                    \
        s[k] += s[k + width];                                                 \
    memcpy(lane, s, WIDTH);                                                   \
    for (width = V / 2; width > 0; width /= 2)                                \
      for (k = 0; k < width; k++)                                             \
        lane[k] += lane[k + width];                                           \
    return lane[0];                                                           \
  }                                                                           \
  static ATTR T NAME##_sum(const T *a, intptr_t n) {                          \
    intptr_t half = PB_HALF(n);                                               \
    if (n <= PB_ROW)                                                          \
      return NAME##_row(a, (const T *)0, n);                                  \
    return NAME##_sum(a, half) + NAME##_sum(a + half, n - half);              \
  }                                                                           \
  static ATTR T NAME##_dot(const T *a, const T *b, intptr_t n) {              \
    intptr_t half = PB_HALF(n);                                               \
    if (n <= PB_ROW)                                                          \
      return NAME##_row(a, b, n);                                             \
    return NAME##_dot(a, b, half) + NAME##_dot(a + half, b + half, n - half); \
  }

#define PB_INTEGER_SUM(NAME, T, ATTR)                                         \
  static ATTR uint64_t NAME(const T *a, intptr_t n) {                         \
    uint64_t sum = 0;                                                         \
    intptr_t i;                                                               \
    for (i = 0; i < n; i++)                                                   \
      sum += (uint64_t)a[i];                                                  \
    return sum;                                                               \
  }
#define PB_INTEGER_DOT(NAME, T, ATTR)                                         \
  static ATTR uint64_t NAME(const T *a, const T *b, intptr_t n) {             \
    T sum = 0;                                                                \
    intptr_t i;                                                               \
    for (i = 0; i < n; i++)                                                   \
      sum += a[i] * b[i];                                                     \
    return sum;                                                               \
  }
#define PB_INTEGERS(LEVEL, ATTR)                                              \
  PB_INTEGER_SUM(pb_sum_signed_##LEVEL, int32_t, ATTR)                        \
  PB_INTEGER_SUM(pb_sum_unsigned_##LEVEL, uint32_t, ATTR)                     \
  PB_INTEGER_SUM(pb_sum_wide_##LEVEL, uint64_t, ATTR)                         \
  PB_INTEGER_DOT(pb_dot_narrow_##LEVEL, uint32_t, ATTR)                       \
  PB_INTEGER_DOT(pb_dot_wide_##LEVEL, uint64_t, ATTR)

#endif
