/* Running sums and products of integers, which wrap: any order of the steps gives the same bits. */
#ifndef PYBLITZ_RUNNING_H
#define PYBLITZ_RUNNING_H

#include <stdint.h>

/* out[i] = before OP a[0] OP ... OP a[i]; out may be a.  Only one step of four waits for the four
 * before them. */
#define PB_RUNNING(NAME, T, OP)                                               \
  static void NAME(const T *a, intptr_t n, T before, T *out) {                \
    T one, two, three, four;                                                  \
    intptr_t i;                                                               \
    for (i = 0; i + 4 <= n; i += 4) {                                         \
      one = a[i];                                                             \
      two = one OP a[i + 1];                                                  \
      three = two OP a[i + 2];                                                \
      four = three OP a[i + 3];                                               \
      out[i] = before OP one;                                                 \
      out[i + 1] = before OP two;                                             \
      out[i + 2] = before OP three;                                           \
      out[i + 3] = before = before OP four;                                   \
    }                                                                         \
    for (; i < n; i++)                                                        \
      out[i] = before = before OP a[i];                                       \
  }

#define PB_RUNNING_BASE                                                       \
  PB_RUNNING(pb_run_narrow_base, uint32_t, +)                                 \
  PB_RUNNING(pb_run_wide_base, uint64_t, +)                                   \
  PB_RUNNING(pb_products_narrow, uint32_t, *)                                 \
  PB_RUNNING(pb_products_wide, uint64_t, *)

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* Each vector is summed up within its halves, then the lower half's sum is added to the upper one. */
#define PB_RUNNING_V3                                                         \
  static PB_CODE_V3 void pb_run_narrow_v3(const uint32_t *a, intptr_t n,      \
                                          uint32_t before, uint32_t *out) {   \
    __m256i sums, low, sum = _mm256_set1_epi32((int)before);                  \
    const __m256i last = _mm256_set1_epi32(7);                                \
    intptr_t i;                                                               \
    for (i = 0; i + 8 <= n; i += 8) {                                         \
      sums = _mm256_loadu_si256((const __m256i *)(a + i));                    \
      sums = _mm256_add_epi32(sums, _mm256_slli_si256(sums, 4));              \
      sums = _mm256_add_epi32(sums, _mm256_slli_si256(sums, 8));              \
      low = _mm256_permute2x128_si256(sums, sums, 0x08);                      \
      sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(low, 0xff));         \
      _mm256_storeu_si256((__m256i *)(out + i), _mm256_add_epi32(sums, sum)); \
      sum = _mm256_add_epi32(sum, _mm256_permutevar8x32_epi32(sums, last));   \
    }                                                                         \
    before = (uint32_t)_mm_cvtsi128_si32(_mm256_castsi256_si128(sum));        \
    for (; i < n; i++)                                                        \
      out[i] = before += a[i];                                                \
  }                                                                           \
  static PB_CODE_V3 void pb_run_wide_v3(const uint64_t *a, intptr_t n,        \
                                        uint64_t before, uint64_t *out) {     \
    __m256i sums, low, sum = _mm256_set1_epi64x((long long)before);           \
    intptr_t i;                                                               \
    for (i = 0; i + 4 <= n; i += 4) {                                         \
      sums = _mm256_loadu_si256((const __m256i *)(a + i));                    \
      sums = _mm256_add_epi64(sums, _mm256_slli_si256(sums, 8));              \
      low = _mm256_permute2x128_si256(sums, sums, 0x08);                      \
      sums = _mm256_add_epi64(sums, _mm256_unpackhi_epi64(low, low));         \
      _mm256_storeu_si256((__m256i *)(out + i), _mm256_add_epi64(sums, sum)); \
      sum = _mm256_add_epi64(sum, _mm256_permute4x64_epi64(sums, 0xff));      \
    }                                                                         \
    before = (uint64_t)_mm_cvtsi128_si64(_mm256_castsi256_si128(sum));        \
    for (; i < n; i++)                                                        \
      out[i] = before += a[i];                                                \
  }
#endif

#endif
