/* Sorts of words, their thirds and other parts, and what masks select, for each kind of vector:
 * quicksort.h with what it needs. */
#ifndef PYBLITZ_QUICKSORTS_H
#define PYBLITZ_QUICKSORTS_H

#include <stdint.h>
#include <string.h>

#include "pyblitz/kernels/simd/split.h"

#if defined(PB_X86)
#include <immintrin.h>

/* Rows of a network, for all kinds; with fewer registers some of them wait in memory, and it is
 * still worth it. */
enum { PB_ROWS = 16 };

/* By a bit for each of 8 lanes: in each byte the lane that comes there, if those without a bit
 * come first.  And of 4 lanes of 8 bytes, as pairs of 4. */
static uint64_t pb_orders[256], pb_pair_orders[16];

static inline uint64_t pb_order(int bits, int lanes) {
  uint64_t order = 0;
  int places = 0, bit, lane;
  for (bit = 0; bit < 2; bit++)
    for (lane = 0; lane < lanes; lane++)
      if ((bits >> lane & 1) == bit)
        order |= (uint64_t)lane << 8 * places++;
  return order;
}

/* Before all that is here. */
static inline void pb_prepare_orders(void) {
  int bits, k;
  for (bits = 0; bits < 256; bits++)
    pb_orders[bits] = pb_order(bits, 8);
  for (bits = 0; bits < 16; bits++) {
    uint64_t order = 0;
    for (k = 0; k < 4; k++)
      order |= ((pb_order(bits, 4) >> 8 * k & 3) * 0x0202 + 0x0100) << 16 * k;
    pb_pair_orders[bits] = order;
  }
}

static inline PB_CODE_V3 __m256i pb_order_of_8(const uint64_t *order) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)order));
}

/* Indices from `first` on: those of lanes without a bit first.  A vector of them is stored.  (Of four
 * lanes, those of eight: the other four come after what is kept.) */
static inline PB_CODE_V3 void pb_put_4_indices(int64_t *to, int64_t first, unsigned bits) {
  const __m256i lanes = _mm256_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)&pb_orders[bits]));
  _mm256_storeu_si256((__m256i *)to, _mm256_add_epi64(lanes, _mm256_set1_epi64x(first)));
}

static inline PB_CODE_V3 void pb_put_8_indices(int64_t *to, int64_t first, unsigned bits) {
  const __m128i lanes = _mm_loadl_epi64((const __m128i *)&pb_orders[bits]);
  const __m256i all = _mm256_set1_epi64x(first);
  _mm256_storeu_si256((__m256i *)to, _mm256_add_epi64(_mm256_cvtepu8_epi64(lanes), all));
  _mm256_storeu_si256((__m256i *)(to + 4),
                      _mm256_add_epi64(_mm256_cvtepu8_epi64(_mm_srli_epi64(lanes, 32)), all));
}

static inline PB_CODE_V4 void pb_put_8_indices_v4(int64_t *to, int64_t first, unsigned bits) {
  const __m512i lanes = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)&pb_orders[bits]));
  _mm512_storeu_si512(to, _mm512_add_epi64(lanes, _mm512_set1_epi64(first)));
}

/* A bit for each of 8 bytes that is 0. */
static inline PB_CODE_V3 unsigned pb_zeros_of_8(const uint8_t *bytes) {
  const __m128i zeros = _mm_cmpeq_epi8(_mm_loadl_epi64((const __m128i *)bytes), _mm_setzero_si128());
  return (unsigned)_mm_movemask_epi8(zeros) & 0xFF;
}

static inline PB_CODE_V3 int pb_none_of_32(const uint8_t *bytes) {
  const __m256i all = _mm256_loadu_si256((const __m256i *)bytes);
  return _mm256_testz_si256(all, all);
}

/* keep.h, of indices from `first` on. */
#define PB_KEEP_INDICES(NAME, PUT, ATTR)                                      \
  static ATTR intptr_t NAME(const uint8_t *mask, intptr_t n, int64_t first,   \
                            int64_t *to, intptr_t room, intptr_t *kept) {     \
    intptr_t i = 0, some = 0;                                                 \
    while (i + 8 <= n && room - some >= 8) {                                  \
      unsigned out;                                                           \
      if (i % 32 == 0 && i + 32 <= n && pb_none_of_32(mask + i)) {            \
        i += 32;                                                              \
        continue;                                                             \
      }                                                                       \
      out = pb_zeros_of_8(mask + i);                                          \
      PUT(to + some, first + i, out);                                         \
      some += 8 - __builtin_popcount(out);                                    \
      i += 8;                                                                 \
    }                                                                         \
    *kept = some;                                                             \
    return i;                                                                 \
  }

PB_KEEP_INDICES(pb_indices_v3_keep, pb_put_8_indices, PB_CODE_V3)
PB_KEEP_INDICES(pb_indices_v4_keep, pb_put_8_indices_v4, PB_CODE_V4)

/* ---- v3, words of 4 bytes ---------------------------------------------------------------- */

static inline PB_CODE_V3 unsigned pb_equal_lanes(__m256i a, __m256i b) {
  return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)));
}

#define PB_NAME(x) pb_narrow_v3_##x
#define PB_ATTR PB_CODE_V3
#define PB_WORD uint32_t
#define PB_VECTOR __m256i
#define PB_LANES 8
#define PB_GET(p) _mm256_loadu_si256((const __m256i *)(p))
#define PB_PUT(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define PB_ALL(x) _mm256_set1_epi32((int32_t)(x))
#define PB_LAST UINT32_MAX
#define PB_MIN _mm256_min_epu32
#define PB_MAX _mm256_max_epu32
#define PB_REVERSE_2(v) _mm256_shuffle_epi32(v, 0xB1)
#define PB_REVERSE_4(v) _mm256_shuffle_epi32(v, 0x1B)
#define PB_REVERSE_8(v) _mm256_permutevar8x32_epi32(v, _mm256_set_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define PB_SWAP_1 PB_REVERSE_2
#define PB_SWAP_2(v) _mm256_shuffle_epi32(v, 0x4E)
#define PB_MIX(a, b, MASK) _mm256_blend_epi32(a, b, (MASK) & 0xFF)
#define PB_NOT_LESS(v, pivots) pb_equal_lanes(_mm256_max_epu32(v, pivots), v)
#define PB_GREATER(v, pivots) (0xFFu & ~pb_equal_lanes(_mm256_max_epu32(v, pivots), pivots))
#define PB_ORDER(v, bits) _mm256_permutevar8x32_epi32(v, pb_order_of_8(&pb_orders[bits]))
#define PB_INDICES pb_put_8_indices
#define PB_AROUND
#define PB_SPLIT_BY pb_narrow_splitters
#define PB_AGAIN
#include "pyblitz/kernels/simd/quicksort.h"
#undef PB_AGAIN

/* ---- v3, signed integers of 4 bytes: the same, but for comparisons ------------------------- */

static inline PB_CODE_V3 unsigned pb_greater_lanes_of_8(__m256i a, __m256i b) {
  return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b)));
}

#define PB_NAME(x) pb_int32_v3_##x
#define PB_WORD int32_t
#define PB_GET(p) _mm256_loadu_si256((const __m256i *)(p))
#define PB_PUT(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define PB_ALL _mm256_set1_epi32
#define PB_LAST INT32_MAX
#define PB_MIN _mm256_min_epi32
#define PB_MAX _mm256_max_epi32
#define PB_NOT_LESS(v, pivots) (0xFFu & ~pb_greater_lanes_of_8(pivots, v))
#define PB_GREATER pb_greater_lanes_of_8
#include "pyblitz/kernels/simd/quicksort.h"

/* ---- v3, words of 8 bytes: compared as if they had a sign ---------------------------------- */

static inline PB_CODE_V3 __m256i pb_turn_sign(__m256i v) {
  return _mm256_xor_si256(v, _mm256_set1_epi64x(INT64_MIN));
}

static inline PB_CODE_V3 __m256i pb_min_signed(__m256i a, __m256i b) {
  return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b));
}

static inline PB_CODE_V3 __m256i pb_max_signed(__m256i a, __m256i b) {
  return _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b));
}

static inline PB_CODE_V3 unsigned pb_greater_lanes(__m256i a, __m256i b) {
  return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(a, b)));
}

#define PB_NAME(x) pb_wide_v3_##x
#define PB_ATTR PB_CODE_V3
#define PB_WORD uint64_t
#define PB_VECTOR __m256i
#define PB_LANES 4
#define PB_GET(p) pb_turn_sign(_mm256_loadu_si256((const __m256i *)(p)))
#define PB_PUT(p, v) _mm256_storeu_si256((__m256i *)(p), pb_turn_sign(v))
#define PB_ALL(x) pb_turn_sign(_mm256_set1_epi64x((int64_t)(x)))
#define PB_LAST UINT64_MAX
#define PB_MIN pb_min_signed
#define PB_MAX pb_max_signed
#define PB_REVERSE_2(v) _mm256_shuffle_epi32(v, 0x4E)
#define PB_REVERSE_4(v) _mm256_permute4x64_epi64(v, 0x1B)
#define PB_SWAP_1 PB_REVERSE_2
#define PB_MIX(a, b, MASK)                                                    \
  _mm256_blend_epi32(a, b, ((MASK) & 3) == 2 ? 0xCC : 0xF0)
#define PB_NOT_LESS(v, pivots) (0xFu & ~pb_greater_lanes(pivots, v))
#define PB_GREATER pb_greater_lanes
#define PB_ORDER(v, bits) _mm256_permutevar8x32_epi32(v, pb_order_of_8(&pb_pair_orders[bits]))
#define PB_INDICES pb_put_4_indices
#define PB_AROUND
#define PB_SPLIT_BY pb_wide_splitters
#define PB_AGAIN
#include "pyblitz/kernels/simd/quicksort.h"
#undef PB_AGAIN

/* ---- v3, signed integers of 8 bytes: the same, but that no sign is turned ------------------- */

#define PB_NAME(x) pb_int64_v3_##x
#define PB_WORD int64_t
#define PB_GET(p) _mm256_loadu_si256((const __m256i *)(p))
#define PB_PUT(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define PB_ALL _mm256_set1_epi64x
#define PB_LAST INT64_MAX
#define PB_MIN pb_min_signed
#define PB_MAX pb_max_signed
#define PB_NOT_LESS(v, pivots) (0xFu & ~pb_greater_lanes(pivots, v))
#define PB_GREATER pb_greater_lanes
#include "pyblitz/kernels/simd/quicksort.h"

/* ---- v3, doubles that are no NaNs: comparing them takes half as many instructions.  Which of two
 * zeros is stored in which place, the sign says afterwards; see sort_floats in radix.pyx. -------- */

#define PB_NAME(x) pb_double_v3_##x
#define PB_ATTR PB_CODE_V3
#define PB_WORD double
#define PB_VECTOR __m256d
#define PB_LANES 4
#define PB_GET _mm256_loadu_pd
#define PB_PUT _mm256_storeu_pd
#define PB_ALL _mm256_set1_pd
#define PB_LAST __builtin_inf()
#define PB_MIN _mm256_min_pd
#define PB_MAX _mm256_max_pd
#define PB_REVERSE_2(v) _mm256_permute_pd(v, 5)
#define PB_REVERSE_4(v) _mm256_permute4x64_pd(v, 0x1B)
#define PB_SWAP_1 PB_REVERSE_2
#define PB_MIX(a, b, MASK) _mm256_blend_pd(a, b, (MASK) & 0xF)
#define PB_NOT_LESS(v, pivots)                                                \
  (unsigned)_mm256_movemask_pd(_mm256_cmp_pd(v, pivots, _CMP_GE_OQ))
#define PB_GREATER(v, pivots)                                                 \
  (unsigned)_mm256_movemask_pd(_mm256_cmp_pd(v, pivots, _CMP_GT_OQ))
#define PB_ORDER(v, bits)                                                     \
  _mm256_castsi256_pd(_mm256_permutevar8x32_epi32(                            \
      _mm256_castpd_si256(v), pb_order_of_8(&pb_pair_orders[bits])))
#include "pyblitz/kernels/simd/quicksort.h"

/* ---- v4, words of 4 bytes: parted 8 at a time, as there is no table for 16 -------------------- */

#define PB_NAME(x) pb_narrow_v4_##x
#define PB_ATTR PB_CODE_V4
#define PB_WORD uint32_t
#define PB_VECTOR __m512i
#define PB_LANES 16
#define PB_GET(p) _mm512_loadu_si512(p)
#define PB_PUT(p, v) _mm512_storeu_si512(p, v)
#define PB_ALL(x) _mm512_set1_epi32((int32_t)(x))
#define PB_LAST UINT32_MAX
#define PB_MIN _mm512_min_epu32
#define PB_MAX _mm512_max_epu32
#define PB_REVERSE_2(v) _mm512_shuffle_epi32(v, (_MM_PERM_ENUM)0xB1)
#define PB_REVERSE_4(v) _mm512_shuffle_epi32(v, (_MM_PERM_ENUM)0x1B)
#define PB_REVERSE_8(v)                                                       \
  _mm512_permutexvar_epi32(                                                   \
      _mm512_set_epi32(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7), v)
#define PB_REVERSE_16(v)                                                      \
  _mm512_permutexvar_epi32(                                                   \
      _mm512_set_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), v)
#define PB_SWAP_1 PB_REVERSE_2
#define PB_SWAP_2(v) _mm512_shuffle_epi32(v, (_MM_PERM_ENUM)0x4E)
#define PB_SWAP_4(v) _mm512_permutex_epi64(v, 0x4E)
#define PB_MIX(a, b, MASK) _mm512_mask_mov_epi32(a, (__mmask16)(MASK), b)
#define PB_PACK __m256i
#define PB_PACKED 8
#define PB_PACK_GET(p) _mm256_loadu_si256((const __m256i *)(p))
#define PB_PACK_PUT(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define PB_PACK_ALL(x) _mm256_set1_epi32((int32_t)(x))
#define PB_NOT_LESS _mm256_cmpge_epu32_mask
#define PB_GREATER _mm256_cmpgt_epu32_mask
#define PB_ORDER(v, bits) _mm256_permutevar8x32_epi32(v, pb_order_of_8(&pb_orders[bits]))
#define PB_INDICES pb_put_8_indices_v4
#define PB_SPLIT_BY pb_narrow_splitters
#define PB_PRESS(v, bits) _mm512_maskz_compress_epi32((__mmask16)(bits), v)
#define PB_NOT_LESS_OF _mm512_cmpge_epu32_mask
#include "pyblitz/kernels/simd/quicksort.h"

/* ---- v4, words of 8 bytes ---------------------------------------------------------------- */

#define PB_NAME(x) pb_wide_v4_##x
#define PB_ATTR PB_CODE_V4
#define PB_WORD uint64_t
#define PB_VECTOR __m512i
#define PB_LANES 8
#define PB_GET(p) _mm512_loadu_si512(p)
#define PB_PUT(p, v) _mm512_storeu_si512(p, v)
#define PB_ALL(x) _mm512_set1_epi64((int64_t)(x))
#define PB_LAST UINT64_MAX
#define PB_MIN _mm512_min_epu64
#define PB_MAX _mm512_max_epu64
#define PB_REVERSE_2(v) _mm512_shuffle_epi32(v, (_MM_PERM_ENUM)0x4E)
#define PB_REVERSE_4(v) _mm512_permutex_epi64(v, 0x1B)
#define PB_REVERSE_8(v) _mm512_permutexvar_epi64(_mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7), v)
#define PB_SWAP_1 PB_REVERSE_2
#define PB_SWAP_2(v) _mm512_permutex_epi64(v, 0x4E)
#define PB_MIX(a, b, MASK) _mm512_mask_mov_epi64(a, (__mmask8)(MASK), b)
#define PB_NOT_LESS _mm512_cmpge_epu64_mask
#define PB_GREATER _mm512_cmpgt_epu64_mask
/* A table and a permutation, not compress, which is slower on Zen 4. */
#define PB_ORDER(v, bits)                                                     \
  _mm512_permutexvar_epi64(                                                   \
      _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)&pb_orders[bits])), v)
#define PB_INDICES pb_put_8_indices_v4
#define PB_SPLIT_BY pb_wide_splitters
#define PB_PRESS(v, bits) _mm512_maskz_compress_epi64((__mmask8)(bits), v)
#define PB_NOT_LESS_OF _mm512_cmpge_epu64_mask
#include "pyblitz/kernels/simd/quicksort.h"

/* ---- v4, doubles that are no NaNs: Intel's processors take two steps, one after the other, for the
 * lesser of two words.  (Floats are no faster than their words.) --------------------------------- */

#define PB_NAME(x) pb_double_v4_##x
#define PB_ATTR PB_CODE_V4
#define PB_WORD double
#define PB_VECTOR __m512d
#define PB_LANES 8
#define PB_GET _mm512_loadu_pd
#define PB_PUT _mm512_storeu_pd
#define PB_ALL _mm512_set1_pd
#define PB_LAST __builtin_inf()
#define PB_MIN _mm512_min_pd
#define PB_MAX _mm512_max_pd
#define PB_REVERSE_2(v) _mm512_permute_pd(v, 0x55)
#define PB_REVERSE_4(v) _mm512_permutex_pd(v, 0x1B)
#define PB_REVERSE_8(v) _mm512_permutexvar_pd(_mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7), v)
#define PB_SWAP_1 PB_REVERSE_2
#define PB_SWAP_2(v) _mm512_permutex_pd(v, 0x4E)
#define PB_MIX(a, b, MASK) _mm512_mask_mov_pd(a, (__mmask8)(MASK), b)
#define PB_NOT_LESS(v, pivots) _mm512_cmp_pd_mask(v, pivots, _CMP_GE_OQ)
#define PB_GREATER(v, pivots) _mm512_cmp_pd_mask(v, pivots, _CMP_GT_OQ)
#define PB_ORDER(v, bits)                                                     \
  _mm512_permutexvar_pd(                                                      \
      _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)&pb_orders[bits])), v)
#include "pyblitz/kernels/simd/quicksort.h"

#else
static inline void pb_prepare_orders(void) {}
#endif
#endif
