/* Floats as words whose unsigned order is theirs, and back: minus infinity is 0, and NaNs of
 * either sign come after infinity.  The source may be the target.  And what is asked of items
 * in passing: by loops that the compiler makes vectors of. */
#ifndef PYBLITZ_KEYS_H
#define PYBLITZ_KEYS_H

#include <stdint.h>

#define PB_NARROW_SHIFT UINT32_C(0x007FFFFF)
#define PB_WIDE_SHIFT UINT64_C(0x000FFFFFFFFFFFFF)
#define PB_NARROW_INFINITY (UINT32_C(0xFF800000) - PB_NARROW_SHIFT)
#define PB_WIDE_INFINITY (UINT64_C(0xFFF0000000000000) - PB_WIDE_SHIFT)

/* SHIFT: the turned bits of minus infinity; what is below them wraps to the end. */
#define PB_KEYS(NAME, T, SHIFT, ATTR)                                         \
  static ATTR void NAME##_encode(const T *bits, intptr_t n, T *keys) {        \
    const int top = 8 * sizeof(T) - 1;                                        \
    const T sign = (T)1 << top;                                               \
    intptr_t i;                                                               \
    for (i = 0; i < n; i++)                                                   \
      keys[i] = (bits[i] ^ (sign | (T)(0 - (bits[i] >> top)))) - SHIFT;       \
  }                                                                           \
  static ATTR void NAME##_decode(const T *keys, intptr_t n, T *bits) {        \
    const int top = 8 * sizeof(T) - 1;                                        \
    const T sign = (T)1 << top;                                               \
    intptr_t i;                                                               \
    for (i = 0; i < n; i++) {                                                 \
      const T turned = keys[i] + SHIFT;                                       \
      bits[i] = turned ^ (sign | (T)((turned >> top) - 1));                   \
    }                                                                         \
  }

/* NaNs, and zeros with a sign. */
#define PB_LOOK(NAME, T, LAST, ATTR)                                          \
  static ATTR void NAME##_look(const T *bits, intptr_t n, int64_t *nans,      \
                               int64_t *negative) {                           \
    const T sign = (T)1 << (8 * sizeof(T) - 1);                               \
    intptr_t i = 0, end;                                                      \
    while (i < n) {                                                           \
      T some = 0, zeros = 0; /* of less than what T counts */                 \
      for (end = n - i < 65536 ? n : i + 65536; i < end; i++) {               \
        some += (T)(bits[i] << 1) > LAST;                                     \
        zeros += bits[i] == sign;                                             \
      }                                                                       \
      *nans += (int64_t)some;                                                 \
      *negative += (int64_t)zeros;                                            \
    }                                                                         \
  }

/* How many are not zero without their first `shift` bits.  What is counted are zeros: a comparison
 * gives them without another step. */
#define PB_NONZERO(NAME, T, ATTR)                                             \
  static ATTR int64_t NAME##_nonzero(const T *words, intptr_t n, int shift) { \
    int64_t found = n;                                                        \
    intptr_t i = 0, end;                                                      \
    while (i < n) {                                                           \
      T zeros = 0; /* of less than what T counts */                           \
      end = n - i < 65536 ? n : i + 65536;                                    \
      _Pragma("GCC unroll 4") for (; i < end; i++)                            \
        zeros += (T)(words[i] << shift) == 0;                                 \
      found -= (int64_t)zeros;                                                \
    }                                                                         \
    return found;                                                             \
  }

/* The least and the greatest of n > 0 words. */
#define PB_RANGE(NAME, T, ATTR)                                               \
  static ATTR void NAME##_range(const T *words, intptr_t n, uint64_t *low,    \
                                uint64_t *high) {                             \
    T least = words[0], most = words[0];                                      \
    intptr_t i;                                                               \
    for (i = 1; i < n; i++) {                                                 \
      least = words[i] < least ? words[i] : least;                            \
      most = words[i] > most ? words[i] : most;                               \
    }                                                                         \
    *low = least;                                                             \
    *high = most;                                                             \
  }

/* Whether for some i y[i] does not belong behind x[i]; a NaN does not. */
#define PB_DOUBTFUL(NAME, T, SIGNED, ATTR)                                    \
  static ATTR int NAME##_doubtful(const T *x, const T *y, intptr_t n,         \
                                  int descending, int strict) {               \
    SIGNED bad = 0; /* as wide as what is compared, for vectors */            \
    intptr_t i;                                                               \
    if (descending) {                                                         \
      const T *other = x;                                                     \
      x = y;                                                                  \
      y = other;                                                              \
    }                                                                         \
    if (strict)                                                               \
      _Pragma("GCC unroll 4") for (i = 0; i < n; i++)                         \
        bad |= -(SIGNED)!(x[i] < y[i]);                                       \
    else                                                                      \
      _Pragma("GCC unroll 4") for (i = 0; i < n; i++)                         \
        bad |= -(SIGNED)!(x[i] <= y[i]);                                      \
    return bad != 0;                                                          \
  }

/* Whether some item is equal to a value.  In lines of the cache: where each vector straddles two,
 * a search in L2 takes a third longer (Intel Xeon). */
#define PB_EQUAL(NAME, T, SIGNED, ATTR)                                       \
  static ATTR int NAME##_equal(const T *items, intptr_t n, T value) {         \
    SIGNED some = 0; /* as wide as what is compared, for vectors */           \
    const T *line;                                                            \
    intptr_t i;                                                               \
    for (; n > 0 && (uintptr_t)items % 64 != 0; items++, n--)                 \
      some |= *items == value;                                                \
    line = (const T *)__builtin_assume_aligned(items, 64);                    \
    /* Minus one is what a comparison of vectors gives. */                    \
    _Pragma("GCC unroll 4") for (i = 0; i < n; i++)                           \
      some |= -(SIGNED)(line[i] == value);                                    \
    return some != 0;                                                         \
  }

/* Adds how many keys, which are the words but for the bits of `flip`, are less than `low`, and how many
 * are from there to `high`. */
#define PB_COUNT_THIRDS(NAME, T, ATTR)                                        \
  static ATTR void NAME##_thirds(const T *words, intptr_t n, T flip, T low,   \
                                 T high, int64_t *counts) {                   \
    intptr_t i = 0, end;                                                      \
    while (i < n) {                                                           \
      T less = 0, upto = 0; /* of less than what T counts */                  \
      for (end = n - i < 65536 ? n : i + 65536; i < end; i++) {               \
        const T key = words[i] ^ flip; /* read once: another thread may write */ \
        less += key < low;                                                    \
        upto += key <= high;                                                  \
      }                                                                       \
      counts[0] += (int64_t)less;                                             \
      counts[1] += (int64_t)(upto - less);                                    \
    }                                                                         \
  }

/* See thirds.h.  Where no branch is to depend on a word, it is stored in all places, and the next one
 * over it where it does not belong. */
#define PB_PLACES_LEVEL(NAME, T)                                              \
  static void NAME##_places(const T *words, intptr_t n, T low, T high,        \
                            int64_t *const *to, int64_t *sizes,               \
                            int64_t first) {                                  \
    int64_t below = 0, upto = 0;                                              \
    intptr_t i;                                                               \
    for (i = 0; i < n; i++) {                                                 \
      to[0][below] = to[1][upto - below] = to[2][i - upto] = first + i;       \
      below += words[i] < low;                                                \
      upto += words[i] <= high;                                               \
    }                                                                         \
    sizes[0] = below;                                                         \
    sizes[1] = upto - below;                                                  \
    sizes[2] = n - upto;                                                      \
  }

/* Whether some byte is not 0, whether none is, and how many are not. */
#define PB_BYTES(NAME, ATTR)                                                  \
  typedef uint8_t NAME##_v __attribute__((vector_size(32)));                  \
  static ATTR int NAME##_any(const uint8_t *bytes, intptr_t n) {              \
    uint8_t all[32], any = 0;                                                 \
    intptr_t i = 0;                                                           \
    int k;                                                                    \
    if (n >= 256) {                                                           \
      NAME##_v some[4] = {{0}}, v;                                            \
      for (; n - i >= 256; i += 256)                                          \
        _Pragma("GCC unroll 8") for (k = 0; k < 8; k++) {                     \
          memcpy(&v, bytes + i + 32 * k, 32);                                 \
          some[k & 3] |= v;                                                   \
        }                                                                     \
      some[0] |= some[1] | some[2] | some[3];                                 \
      memcpy(all, some, 32);                                                  \
      for (k = 0; k < 32; k++)                                                \
        any |= all[k];                                                        \
    }                                                                         \
    for (; i < n; i++)                                                        \
      any |= bytes[i];                                                        \
    return any != 0;                                                          \
  }                                                                           \
  static ATTR int NAME##_all(const uint8_t *bytes, intptr_t n) {              \
    uint8_t least = 255;                                                      \
    intptr_t i;                                                               \
    _Pragma("GCC unroll 4") for (i = 0; i < n; i++)                           \
      least = bytes[i] < least ? bytes[i] : least;                            \
    return least != 0;                                                        \
  }                                                                           \
  static ATTR int64_t NAME##_nonzero(const uint8_t *bytes, intptr_t n) {      \
    const uint64_t low = UINT64_C(0x00FF00FF00FF00FF);                        \
    int64_t found = 0;                                                        \
    intptr_t i = 0, end;                                                      \
    int k;                                                                    \
    while (n - i >= 32) {                                                     \
      NAME##_v some = {0}, v; /* of less than what a byte counts */           \
      uint64_t words[4];                                                      \
      end = n - i < 255 * 32 ? n - 31 : i + 255 * 32;                         \
      _Pragma("GCC unroll 4") for (; i < end; i += 32) {                      \
        memcpy(&v, bytes + i, 32);                                            \
        some -= (NAME##_v)(v != 0);                                           \
      }                                                                       \
      memcpy(words, &some, 32);                                               \
      for (k = 0; k < 4; k++)                                                 \
        found += (int64_t)(((words[k] & low) + (words[k] >> 8 & low)) *       \
                           UINT64_C(0x0001000100010001) >> 48);               \
    }                                                                         \
    for (; i < n; i++)                                                        \
      found += bytes[i] != 0;                                                 \
    return found;                                                             \
  }

#define PB_EQUAL_LEVEL(LEVEL, ATTR)                                           \
  PB_EQUAL(pb_narrow_##LEVEL, uint32_t, int32_t, ATTR)                        \
  PB_EQUAL(pb_wide_##LEVEL, uint64_t, int64_t, ATTR)                          \
  PB_EQUAL(pb_float_##LEVEL, float, int32_t, ATTR)                            \
  PB_EQUAL(pb_double_##LEVEL, double, int64_t, ATTR)

#define PB_KEYS_LEVEL(LEVEL, ATTR)                                            \
  PB_BYTES(pb_bytes_##LEVEL, ATTR)                                            \
  PB_KEYS(pb_narrow_##LEVEL, uint32_t, PB_NARROW_SHIFT, ATTR)                 \
  PB_KEYS(pb_wide_##LEVEL, uint64_t, PB_WIDE_SHIFT, ATTR)                     \
  PB_LOOK(pb_narrow_##LEVEL, uint32_t, UINT32_C(0xFF000000), ATTR)            \
  PB_LOOK(pb_wide_##LEVEL, uint64_t, UINT64_C(0xFFE0000000000000), ATTR)      \
  PB_NONZERO(pb_narrow_##LEVEL, uint32_t, ATTR)                               \
  PB_NONZERO(pb_wide_##LEVEL, uint64_t, ATTR)                                 \
  PB_COUNT_THIRDS(pb_narrow_##LEVEL, uint32_t, ATTR)                          \
  PB_COUNT_THIRDS(pb_wide_##LEVEL, uint64_t, ATTR)                            \
  PB_RANGE(pb_narrow_##LEVEL, uint32_t, ATTR)                                 \
  PB_RANGE(pb_wide_##LEVEL, uint64_t, ATTR)                                   \
  PB_DOUBTFUL(pb_float_##LEVEL, float, int32_t, ATTR)                         \
  PB_DOUBTFUL(pb_double_##LEVEL, double, int64_t, ATTR)                       \
  PB_DOUBTFUL(pb_signed_##LEVEL, int64_t, int64_t, ATTR)                      \
  PB_DOUBTFUL(pb_unsigned_##LEVEL, uint64_t, int64_t, ATTR)

#endif
