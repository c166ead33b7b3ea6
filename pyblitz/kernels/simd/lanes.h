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
/* So many rows are added up before what is above them: between two rows there is little to do then, and
 * processors read the second one before they are through with the first. */
enum { PB_ROWS_AT_ONCE = 64 };

#define PB_HALF(n) (((n) / 2 + PB_ROW - 1) & ~(intptr_t)(PB_ROW - 1))

/* The sum of what rows come to: neighbours are added, then neighbours of these; one that has none is left
 * for the next round.  There is one at least. */
#define PB_PAIRS(T)                                                           \
  static inline __attribute__((always_inline)) T pb_pairs_##T(T *rows, intptr_t count) {\
    intptr_t i;                                                               \
    for (; count > 1; count = (count + 1) / 2) {                              \
      for (i = 0; i < count / 2; i++)                                         \
        rows[i] = rows[2 * i] + rows[2 * i + 1];                              \
      if (count & 1)                                                          \
        rows[i] = rows[count - 1];                                            \
    }                                                                         \
    return rows[0];                                                           \
  }
PB_PAIRS(float)
PB_PAIRS(double)

/* NAME_row: at most PB_ROW items of a, or products of a's and b's, in 256 bytes of lanes, whatever the
 * WIDTH of a vector.
 * NAME_rows: of `count` rows, of which the last may be shorter.  It is inline, and calls nothing:
 * gcc 12 clears the upper halves of registers before a return, but not where a call comes between, and
 * conversions of integers behind it then take three times as long.
 * NAME_sum, NAME_dot: any number, in a tree whose shape depends on that alone. */
#define PB_SUMS(NAME, T, WIDTH, ATTR)                                         \
  typedef T NAME##_v __attribute__((vector_size(WIDTH)));                     \
  typedef T NAME##_part __attribute__((vector_size(16)));                     \
  static inline __attribute__((always_inline)) ATTR T                         \
  NAME##_row(const T *a, const T *b, intptr_t n, int product) {               \
    enum { V = WIDTH / sizeof(T), N = 256 / WIDTH, LANES = N * V };           \
    enum { PARTS = WIDTH / 16, ITEMS = 16 / sizeof(T) };                      \
    NAME##_v s[N], x, y;                                                      \
    NAME##_part part[PARTS];                                                  \
    T lane[LANES], sum = (T)-0.0; /* which changes nothing */                 \
    intptr_t i;                                                               \
    int k, width;                                                             \
    if (n < LANES) {                                                          \
      for (i = 0; i < n; i++)                                                 \
        sum += product ? a[i] * b[i] : a[i];                                  \
      return sum;                                                             \
    }                                                                         \
    _Pragma("GCC unroll 16") for (k = 0; k < N; k++) {                        \
      memcpy(&s[k], a + k * V, WIDTH);                                        \
      if (product) {                                                          \
        memcpy(&y, b + k * V, WIDTH);                                         \
        s[k] *= y;                                                            \
      }                                                                       \
    }                                                                         \
    for (i = LANES; i + LANES <= n; i += LANES)                               \
      _Pragma("GCC unroll 16") for (k = 0; k < N; k++) {                      \
        memcpy(&x, a + i + k * V, WIDTH);                                     \
        if (product) {                                                        \
          memcpy(&y, b + i + k * V, WIDTH);                                   \
          x *= y;                                                             \
        }                                                                     \
        s[k] += x;                                                            \
      }                                                                       \
    if (i < n) {                                                              \
      memcpy(lane, s, sizeof lane);                                           \
      for (k = 0; i < n; i++, k++)                                            \
        lane[k] += product ? a[i] * b[i] : a[i];                              \
      memcpy(s, lane, sizeof lane);                                           \
    }                                                                         \
    _Pragma("GCC unroll 16") for (width = N / 2; width > 0; width /= 2)       \
      _Pragma("GCC unroll 16") for (k = 0; k < width; k++)                    \
        s[k] += s[k + width];                                                 \
    /* Halves of vectors stay in registers, where an array of lanes would not. */ \
    memcpy(part, s, WIDTH);                                                   \
    _Pragma("GCC unroll 16") for (width = PARTS / 2; width > 0; width /= 2)   \
      _Pragma("GCC unroll 16") for (k = 0; k < width; k++)                    \
        part[k] += part[k + width];                                           \
    memcpy(lane, part, sizeof part[0]);                                       \
    _Pragma("GCC unroll 16") for (width = ITEMS / 2; width > 0; width /= 2)   \
      _Pragma("GCC unroll 16") for (k = 0; k < width; k++)                    \
        lane[k] += lane[k + width];                                           \
    return lane[0];                                                           \
  }                                                                           \
  static inline __attribute__((always_inline)) ATTR T                         \
  NAME##_rows(const T *a, const T *b, intptr_t n, intptr_t count, int product) { \
    T rows[PB_ROWS_AT_ONCE];                                                  \
    intptr_t i;                                                               \
    for (i = 0; i + PB_ROW < n; i += PB_ROW)                                  \
      rows[i / PB_ROW] = NAME##_row(a + i, b + i, PB_ROW, product);           \
    rows[i / PB_ROW] = NAME##_row(a + i, b + i, n - i, product);              \
    return pb_pairs_##T(rows, count);                                         \
  }                                                                           \
  static ATTR T NAME##_sum(const T *a, intptr_t n) {                          \
    const intptr_t half = PB_HALF(n), count = (n + PB_ROW - 1) / PB_ROW;      \
    if (count > PB_ROWS_AT_ONCE)                                              \
      return NAME##_sum(a, half) + NAME##_sum(a + half, n - half);            \
    return NAME##_rows(a, a, n, count, 0);                                    \
  }                                                                           \
  static ATTR T NAME##_dot(const T *a, const T *b, intptr_t n) {              \
    const intptr_t half = PB_HALF(n), count = (n + PB_ROW - 1) / PB_ROW;      \
    if (count > PB_ROWS_AT_ONCE)                                              \
      return NAME##_dot(a, b, half) + NAME##_dot(a + half, b + half, n - half); \
    return NAME##_rows(a, b, n, count, 1);                                    \
  }

/* UNROLL: sums of words that are made wider are slower with it, the others up to twice as fast (Zen 3). */
#define PB_INTEGER_SUM(NAME, T, UNROLL, ATTR)                                 \
  static ATTR uint64_t NAME(const T *a, intptr_t n) {                         \
    uint64_t sum = 0;                                                         \
    intptr_t i;                                                               \
    UNROLL for (i = 0; i < n; i++)                                            \
      sum += (uint64_t)a[i];                                                  \
    return sum;                                                               \
  }
#define PB_INTEGER_DOT(NAME, T, ATTR)                                         \
  static ATTR uint64_t NAME(const T *a, const T *b, intptr_t n) {             \
    T sum = 0;                                                                \
    intptr_t i;                                                               \
    _Pragma("GCC unroll 4") for (i = 0; i < n; i++)                           \
      sum += a[i] * b[i];                                                     \
    return sum;                                                               \
  }
#define PB_INTEGERS(LEVEL, ATTR)                                              \
  PB_INTEGER_SUM(pb_sum_signed_##LEVEL, int32_t, , ATTR)                      \
  PB_INTEGER_SUM(pb_sum_unsigned_##LEVEL, uint32_t, , ATTR)                   \
  PB_INTEGER_SUM(pb_sum_wide_##LEVEL, uint64_t, _Pragma("GCC unroll 4"), ATTR) \
  PB_INTEGER_DOT(pb_dot_narrow_##LEVEL, uint32_t, ATTR)                       \
  PB_INTEGER_DOT(pb_dot_wide_##LEVEL, uint64_t, ATTR)

#endif
