/* The functions that are compiled once for each level of a processor, or for all that have no better
 * one, in one table a level.
 *
 * C, because Cython cannot say for which processor a function is compiled.  All levels give
 * the same bits: no fused multiply-add, and sums whose order does not depend on the vectors. */
#ifndef PYBLITZ_SIMD_KERNELS_H
#define PYBLITZ_SIMD_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define PB_X86 1
#define PB_CODE_V3 __attribute__((target("avx2,bmi,bmi2,popcnt")))
#if defined(__clang__)
#define PB_CODE_V4 __attribute__((target("avx2,bmi,bmi2,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl")))
#else
#define PB_CODE_V4                                                            \
  __attribute__((target("avx2,bmi,bmi2,popcnt,avx512f,avx512bw,avx512cd,avx512dq,"   \
                        "avx512vl,prefer-vector-width=512")))
#endif
#endif

#include "pyblitz/kernels/simd/bins.h"
#include "pyblitz/kernels/simd/extremes.h"
#include "pyblitz/kernels/simd/keys.h"
#include "pyblitz/kernels/simd/lanes.h"
#include "pyblitz/kernels/simd/pairs.h"

/* What a sort asks before it parts more than so many items: whether to go on is in vain. */
enum { PB_UNASKED = 1 << 20 };
typedef struct {
  int (*must_stop)(void *ctx);
  void *ctx;
} pb_sort_check;

#include "pyblitz/kernels/simd/quicksorts.h"
#include "pyblitz/kernels/simd/running.h"
#include "pyblitz/kernels/simd/split.h"

typedef struct {
  const char *name; /* of the level */
  float (*sum_floats)(const float *a, intptr_t n);
  double (*sum_doubles)(const double *a, intptr_t n);
  float (*dot_floats)(const float *a, const float *b, intptr_t n);
  double (*dot_doubles)(const double *a, const double *b, intptr_t n);
  uint64_t (*sum_signed)(const int32_t *a, intptr_t n);
  uint64_t (*sum_unsigned)(const uint32_t *a, intptr_t n);
  uint64_t (*sum_wide)(const uint64_t *a, intptr_t n);
  uint64_t (*dot_narrow)(const uint32_t *a, const uint32_t *b, intptr_t n);
  uint64_t (*dot_wide)(const uint64_t *a, const uint64_t *b, intptr_t n);
  void (*split_narrow)(const uint32_t *words, intptr_t n,
                       const pb_narrow_splitters *s, uint8_t *parts);
  void (*split_wide)(const uint64_t *words, intptr_t n,
                     const pb_wide_splitters *s, uint8_t *parts);
  void (*encode_narrow)(const uint32_t *bits, intptr_t n, uint32_t *keys);
  void (*decode_narrow)(const uint32_t *keys, intptr_t n, uint32_t *bits);
  void (*encode_wide)(const uint64_t *bits, intptr_t n, uint64_t *keys);
  void (*decode_wide)(const uint64_t *keys, intptr_t n, uint64_t *bits);
  void (*look_narrow)(const uint32_t *bits, intptr_t n, int64_t *nans,
                      int64_t *negative);
  void (*look_wide)(const uint64_t *bits, intptr_t n, int64_t *nans,
                    int64_t *negative);
  int64_t (*nonzero_narrow)(const uint32_t *words, intptr_t n, int shift);
  int64_t (*nonzero_wide)(const uint64_t *words, intptr_t n, int shift);
  int (*any_byte)(const uint8_t *bytes, intptr_t n);
  int (*all_bytes)(const uint8_t *bytes, intptr_t n);
  int64_t (*nonzero_bytes)(const uint8_t *bytes, intptr_t n);
  void (*range_narrow)(const uint32_t *words, intptr_t n, uint64_t *low,
                       uint64_t *high);
  void (*range_wide)(const uint64_t *words, intptr_t n, uint64_t *low,
                     uint64_t *high);
  int (*doubtful_floats)(const float *x, const float *y, intptr_t n,
                         int descending, int strict);
  int (*doubtful_doubles)(const double *x, const double *y, intptr_t n,
                          int descending, int strict);
  int (*doubtful_signed)(const int64_t *x, const int64_t *y, intptr_t n,
                         int descending, int strict);
  int (*doubtful_unsigned)(const uint64_t *x, const uint64_t *y, intptr_t n,
                           int descending, int strict);
  int (*extremes_floats)(const float *a, intptr_t n, float *low, float *high);
  int (*extremes_doubles)(const double *a, intptr_t n, double *low, double *high);
  int (*bins_floats)(const float *x, intptr_t n, float first, float scale,
                     float bins, float apart, int32_t *bin);
  int (*bins_doubles)(const double *x, intptr_t n, double first, double scale,
                      double bins, double apart, int32_t *bin);
  void (*run_narrow)(const uint32_t *a, intptr_t n, uint32_t before, uint32_t *out);
  void (*run_wide)(const uint64_t *a, intptr_t n, uint64_t before, uint64_t *out);
  void (*products_narrow)(const uint32_t *a, intptr_t n, uint32_t before, uint32_t *out);
  void (*products_wide)(const uint64_t *a, intptr_t n, uint64_t before, uint64_t *out);
  void (*thirds_narrow)(const uint32_t *words, intptr_t n, uint32_t flip,
                    uint32_t low, uint32_t high, int64_t *counts);
  void (*thirds_wide)(const uint64_t *words, intptr_t n, uint64_t flip,
                    uint64_t low, uint64_t high, int64_t *counts);
  void (*places_narrow)(const uint32_t *words, intptr_t n, uint32_t low,
                        uint32_t high, int64_t *const *to, int64_t *sizes,
                        int64_t first);
  void (*places_wide)(const uint64_t *words, intptr_t n, uint64_t low,
                      uint64_t high, int64_t *const *to, int64_t *sizes,
                      int64_t first);
  const pb_pairs *pairs;
  int few_narrow, few_wide; /* so many parts cost little more than two */
  /* NULL where there are no vectors for it: the rest, too.  check: a pb_sort_check, or NULL. */
  int (*sort_narrow)(void *words, intptr_t n, void *check);
  int (*sort_wide)(void *words, intptr_t n, void *check);
  int (*sort_doubles)(void *numbers, intptr_t n, void *check);
  int (*sort_int32)(void *numbers, intptr_t n, void *check);
  int (*sort_int64)(void *numbers, intptr_t n, void *check);
  int64_t (*within_narrow)(const uint32_t *words, intptr_t n, uint32_t low,
                           uint32_t high, uint32_t *some, int64_t *less);
  int64_t (*within_wide)(const uint64_t *words, intptr_t n, uint64_t low,
                         uint64_t high, uint64_t *some, int64_t *less);
  int (*around_narrow)(const uint32_t *keys, const uint32_t *items, intptr_t n,
                   intptr_t wide, uint32_t flip, uint32_t low, uint32_t high,
                   uint32_t *out, uint32_t *some, int64_t *at,
                   const int64_t *ends);
  int (*around_wide)(const uint64_t *keys, const uint64_t *items, intptr_t n,
                   intptr_t wide, uint64_t flip, uint64_t low, uint64_t high,
                   uint64_t *out, uint64_t *some, int64_t *at,
                   const int64_t *ends);
  void (*count_narrow)(const uint32_t *words, intptr_t n,
                       const pb_narrow_splitters *s, int64_t *counts);
  int (*move_narrow)(const uint32_t *words, intptr_t n,
                     const pb_narrow_splitters *s, int64_t *to,
                     const int64_t *ends, uint32_t *mid);
  void (*count_wide)(const uint64_t *words, intptr_t n,
                     const pb_wide_splitters *s, int64_t *counts);
  int (*move_wide)(const uint64_t *words, intptr_t n,
                   const pb_wide_splitters *s, int64_t *to,
                   const int64_t *ends, uint64_t *mid);
  int (*equal_narrow)(const uint32_t *items, intptr_t n, uint32_t value);
  int (*equal_wide)(const uint64_t *items, intptr_t n, uint64_t value);
  int (*equal_floats)(const float *items, intptr_t n, float value);
  int (*equal_doubles)(const double *items, intptr_t n, double value);
  int (*extremes_narrow)(const int32_t *a, intptr_t n, int32_t *low, int32_t *high);
  int (*extremes_wide)(const int64_t *a, intptr_t n, int64_t *low, int64_t *high);
  intptr_t (*keep_narrow)(const uint32_t *words, const uint8_t *mask, intptr_t n,
                          uint32_t *to, intptr_t room, intptr_t *kept);
  intptr_t (*keep_wide)(const uint64_t *words, const uint8_t *mask, intptr_t n,
                        uint64_t *to, intptr_t room, intptr_t *kept);
  intptr_t (*keep_both_narrow)(const uint32_t *words, const uint8_t *mask,
                               intptr_t n, uint32_t *yes, intptr_t yes_room,
                               uint32_t *no, intptr_t no_room, intptr_t *kept);
  intptr_t (*keep_both_wide)(const uint64_t *words, const uint8_t *mask,
                             intptr_t n, uint64_t *yes, intptr_t yes_room,
                             uint64_t *no, intptr_t no_room, intptr_t *kept);
  intptr_t (*keep_indices)(const uint8_t *mask, intptr_t n, int64_t first,
                           int64_t *to, intptr_t room, intptr_t *kept);
} pb_kernels;

#define PB_LEVEL(NAME, LEVEL, SUMS, NARROW, WIDE, ...)                        \
  {                                                                           \
    NAME, pb_float_##SUMS##_sum, pb_double_##SUMS##_sum,                      \
        pb_float_##SUMS##_dot, pb_double_##SUMS##_dot,                        \
        pb_sum_signed_##LEVEL, pb_sum_unsigned_##LEVEL, pb_sum_wide_##LEVEL,  \
        pb_dot_narrow_##LEVEL, pb_dot_wide_##LEVEL,                           \
        pb_split_narrow_##LEVEL, pb_split_wide_##LEVEL,                       \
        pb_narrow_##LEVEL##_encode, pb_narrow_##LEVEL##_decode,               \
        pb_wide_##LEVEL##_encode, pb_wide_##LEVEL##_decode,                   \
        pb_narrow_##LEVEL##_look, pb_wide_##LEVEL##_look,                     \
        pb_narrow_##LEVEL##_nonzero, pb_wide_##LEVEL##_nonzero,               \
        pb_bytes_##LEVEL##_any, pb_bytes_##LEVEL##_all,                       \
        pb_bytes_##LEVEL##_nonzero,                                           \
        pb_narrow_##LEVEL##_range, pb_wide_##LEVEL##_range,                   \
        pb_float_##LEVEL##_doubtful, pb_double_##LEVEL##_doubtful,            \
        pb_signed_##LEVEL##_doubtful, pb_unsigned_##LEVEL##_doubtful,         \
        pb_float_##LEVEL##_extremes, pb_double_##LEVEL##_extremes,            \
        pb_float_##LEVEL##_bins, pb_double_##LEVEL##_bins,                    \
        pb_run_narrow_##SUMS, pb_run_wide_##SUMS,                             \
        pb_products_narrow, pb_products_wide,                                 \
        pb_narrow_##LEVEL##_thirds, pb_wide_##LEVEL##_thirds,                 \
        pb_narrow_##LEVEL##_places, pb_wide_##LEVEL##_places,                 \
        &pb_pairs_##LEVEL, NARROW, WIDE, __VA_ARGS__                          \
  }

#define PB_NO_SORT NULL, NULL, NULL, NULL, NULL
#define PB_NO_WITHIN NULL, NULL
#define PB_NO_AROUND NULL, NULL
#define PB_NO_MOVE NULL, NULL, NULL, NULL
#define PB_NO_EQUAL NULL, NULL, NULL, NULL
#define PB_NO_EXTREMES NULL, NULL
#define PB_NO_KEEP NULL, NULL, NULL, NULL, NULL
#define PB_KEEP_OF(LEVEL)                                                     \
  pb_narrow_##LEVEL##_keep, pb_wide_##LEVEL##_keep,                           \
      pb_narrow_##LEVEL##_keep_both, pb_wide_##LEVEL##_keep_both,             \
      pb_indices_##LEVEL##_keep
#define PB_WITHIN_OF(LEVEL) pb_narrow_##LEVEL##_within, pb_wide_##LEVEL##_within
#define PB_AROUND_OF(LEVEL) pb_narrow_##LEVEL##_around, pb_wide_##LEVEL##_around
#define PB_MOVE_OF(LEVEL)                                                     \
  pb_narrow_##LEVEL##_count, pb_narrow_##LEVEL##_move,                        \
      pb_wide_##LEVEL##_count, pb_wide_##LEVEL##_move
#define PB_EXTREMES_OF(LEVEL) pb_narrow_##LEVEL##_extremes, pb_wide_##LEVEL##_extremes
#define PB_EQUALS(LEVEL)                                                      \
  pb_narrow_##LEVEL##_equal, pb_wide_##LEVEL##_equal,                         \
      pb_float_##LEVEL##_equal, pb_double_##LEVEL##_equal

PB_SUMS(pb_float_base, float, 16, )
PB_SUMS(pb_double_base, double, 16, )
PB_INTEGERS(base, )
PB_KEYS_LEVEL(base, )
PB_PLACES_LEVEL(pb_narrow_base, uint32_t)
PB_PLACES_LEVEL(pb_wide_base, uint64_t)
PB_EXTREMES_BASE
PB_BINS_BASE
PB_RUNNING_BASE
PB_PAIRS_LEVEL(base, 16, )
#if defined(PB_X86)
PB_SPLIT_LEVEL(base, , 0, 0, 16)
PB_SUMS(pb_float_v3, float, 32, PB_CODE_V3)
PB_SUMS(pb_double_v3, double, 32, PB_CODE_V3)
PB_INTEGERS(v3, PB_CODE_V3)
PB_KEYS_LEVEL(v3, PB_CODE_V3)
PB_EQUAL_LEVEL(v3, PB_CODE_V3)
PB_EXTREMES_V3
PB_BINS_V3
PB_RUNNING_V3
PB_PAIRS_LEVEL(v3, 32, PB_CODE_V3)
PB_SPLIT_LEVEL(v3, PB_CODE_V3, 64, 64, 32)
PB_INTEGERS(v4, PB_CODE_V4)
PB_KEYS_LEVEL(v4, PB_CODE_V4)
PB_EQUAL_LEVEL(v4, PB_CODE_V4)
PB_EXTREMES_V4
PB_BINS_V4
/* Only products of words of 8 bytes are faster than by v3. */
PB_PAIRS_INTEGERS(pb_wide_v4_pair, uint64_t, 32, PB_CODE_V4)
PB_PAIRS_TABLE(v4, v3, v4)
PB_SPLIT_BY_TREE(pb_split_narrow_v4_by_tree, uint32_t, pb_narrow_splitters, )
PB_SPLIT_BY_TREE(pb_split_wide_v4_by_tree, uint64_t, pb_wide_splitters, )
PB_SPLIT_BY_REGISTERS(pb_split_narrow_v4, uint32_t, pb_narrow_splitters, 32, 16,
                      PB_NARROW_ROW, PB_NARROW_MOST,
                      _mm_storeu_si128((__m128i *)(parts + i), _mm512_cvtepi32_epi8(at)))
PB_SPLIT_BY_REGISTERS(pb_split_wide_v4, uint64_t, pb_wide_splitters, 64, 8,
                      PB_WIDE_ROW, PB_WIDE_MOST,
                      _mm_storel_epi64((__m128i *)(parts + i), _mm512_cvtepi64_epi8(at)))

/* From the lowest one up.  Of v2 only its name is used: what x86-64 has from the first on.
 * Sums of v4 are v3's: arrays seldom begin on a cache line, and where each load straddles two,
 * vectors of 64 bytes are a tenth slower than of 32 (Zen 4).  What goes around a position is v3's, too: it
 * keeps its order in groups as long as a vector. */
static const pb_kernels pb_levels[] = {
    PB_LEVEL("v2", base, base, 16, 16, PB_NO_SORT, PB_NO_WITHIN, PB_NO_AROUND, PB_NO_MOVE,
             PB_NO_EQUAL, PB_NO_EXTREMES, PB_NO_KEEP),
    PB_LEVEL("v3", v3, v3, 32, 16, pb_narrow_v3_sort, pb_wide_v3_sort,
             pb_double_v3_sort, pb_int32_v3_sort, pb_int64_v3_sort,
             PB_WITHIN_OF(v3), PB_AROUND_OF(v3), PB_MOVE_OF(v3),
             PB_EQUALS(v3), PB_EXTREMES_OF(v3), PB_KEEP_OF(v3)),
    PB_LEVEL("v4", v4, v3, 256, 128, pb_narrow_v4_sort, pb_wide_v4_sort,
             pb_double_v4_sort, NULL, NULL, PB_WITHIN_OF(v4), PB_AROUND_OF(v3), PB_MOVE_OF(v4),
             PB_EQUALS(v4), PB_EXTREMES_OF(v4), PB_KEEP_OF(v4))};

/* Whether AVX-512's stores of selected lanes are microcode, dozens of cycles each: Zen 4 (AMD's family
 * 25; the others of that family have no AVX-512). */
#include <cpuid.h>
static inline int pb_slow_compress(void) {
  unsigned maker, b, c, d, version, family;
  if (!__get_cpuid(0, &maker, &b, &c, &d) || b != signature_AMD_ebx)
    return 0;
  if (!__get_cpuid(1, &version, &b, &c, &d))
    return 0;
  family = (version >> 8 & 15) + (version >> 20 & 255);
  return family == 25;
}

static inline int pb_best_level(void) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi2"))
    return 0;
  if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512cd") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return 1;
  return 2;
}
#else
/* Of counts in vectors the first byte is the least. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
PB_SPLIT_LEVEL(base, , 16, 0, 16)
#else
PB_SPLIT_LEVEL(base, , 0, 0, 16)
#endif
#if defined(__aarch64__)
PB_EQUAL_LEVEL(base, )
static const pb_kernels pb_levels[] = {PB_LEVEL("neon", base, base, 16, 16, PB_NO_SORT, PB_NO_WITHIN, PB_NO_AROUND, PB_NO_MOVE,
                                              PB_EQUALS(base), PB_NO_EXTREMES, PB_NO_KEEP)};
#else
static const pb_kernels pb_levels[] = {PB_LEVEL("any", base, base, 16, 16, PB_NO_SORT, PB_NO_WITHIN, PB_NO_AROUND, PB_NO_MOVE,
                                              PB_NO_EQUAL, PB_NO_EXTREMES, PB_NO_KEEP)};
#endif
static inline int pb_slow_compress(void) { return 0; }
static inline int pb_best_level(void) { return 0; }
#endif

#define PB_LEVELS ((int)(sizeof pb_levels / sizeof pb_levels[0]))

#endif
