/* Which of up to 256 parts each word belongs to, by splitters: how many of them are not
 * greater than the word.
 *
 * Few splitters are all compared with a vector of words at once; where they are many, or
 * vectors too short for it, each word goes down a search tree that stands in an array
 * (children of node i at 2i and 2i + 1), without a branch: Sanders and Winkel, "Super
 * scalar sample sort" (2004). */
#ifndef PYBLITZ_SPLIT_H
#define PYBLITZ_SPLIT_H

#include <stdint.h>
#include <string.h>

enum { PB_PARTS = 256 };

#define PB_SPLITTERS(NAME, T)                                                 \
  typedef struct {                                                            \
    int levels;               /* of the tree */                               \
    T in_order[PB_PARTS];     /* 2^levels - 1 splitters */                    \
    T tree[PB_PARTS];         /* the same, from node 1 on */                  \
  } NAME;

PB_SPLITTERS(pb_narrow_splitters, uint32_t)
PB_SPLITTERS(pb_wide_splitters, uint64_t)

/* Eight words side by side: each waits for one load after the other. */
#define PB_SPLIT_BY_TREE(NAME, T, S, ATTR)                                    \
  static ATTR void NAME(const T *words, intptr_t n, const S *s,               \
                        uint8_t *parts) {                                     \
    const uint32_t leaves = (uint32_t)1 << s->levels;                         \
    intptr_t i = 0;                                                           \
    for (; i + 8 <= n; i += 8) {                                              \
      uint32_t at[8];                                                         \
      int k, level;                                                           \
      _Pragma("GCC unroll 8") for (k = 0; k < 8; k++) at[k] = 1;              \
      for (level = 0; level < s->levels; level++)                             \
        _Pragma("GCC unroll 8") for (k = 0; k < 8; k++)                       \
          at[k] = 2 * at[k] + (words[i + k] >= s->tree[at[k]]);               \
      _Pragma("GCC unroll 8") for (k = 0; k < 8; k++)                         \
        parts[i + k] = (uint8_t)(at[k] - leaves);                             \
    }                                                                         \
    for (; i < n; i++) {                                                      \
      uint32_t at = 1;                                                        \
      while (at < leaves)                                                     \
        at = 2 * at + (words[i] >= s->tree[at]);                              \
      parts[i] = (uint8_t)(at - leaves);                                      \
    }                                                                         \
  }

#if defined(__clang__)
#define PB_PUT_IN_ORDER(TO, BYTES, ORDER, COUNT)                              \
  _Pragma("unroll") for (k = 0; k < COUNT; k++) (TO)[k] = BYTES[ORDER[k]]
#else
#define PB_PUT_IN_ORDER(TO, BYTES, ORDER, COUNT)                              \
  BYTES = __builtin_shuffle(BYTES, ORDER);                                    \
  memcpy(TO, &BYTES, COUNT)
#endif

/* Fewer than MOST splitters are compared with four vectors of words at a time.  Vectors have signed
 * comparisons only: the greatest bit is turned over in both.  The four counts of a lane become four
 * bytes of it, and then lie as the words did. */
#define PB_SPLIT(NAME, T, SIGNED, S, ATTR, MOST, WIDTH)                       \
  static ATTR void NAME(const T *words, intptr_t n, const S *s,               \
                        uint8_t *parts) {                                     \
    typedef T some __attribute__((vector_size(WIDTH), aligned(sizeof(T))));   \
    typedef SIGNED v __attribute__((vector_size(WIDTH)));                     \
    typedef uint8_t bytes __attribute__((vector_size(WIDTH)));                \
    enum { LANES = WIDTH / sizeof(T), STEP = 4 * LANES };                     \
    const int many = (1 << s->levels) - 1;                                    \
    const T top = (T)1 << (8 * sizeof(T) - 1);                                \
    SIGNED splitters[MOST + 1];                                               \
    bytes order = {0};                                                        \
    intptr_t i = 0;                                                           \
    int k;                                                                    \
    if (many < MOST) {                                                        \
      for (k = 0; k < many; k++)                                              \
        splitters[k] = (SIGNED)(s->in_order[k] ^ top);                        \
      for (k = 0; k < STEP; k++)                                              \
        order[k] = (uint8_t)(k % LANES * sizeof(T) + k / LANES);              \
      for (; i + STEP <= n; i += STEP) {                                      \
        const some *from = (const some *)(words + i);                         \
        const v a = (v)(from[0] ^ top), b = (v)(from[1] ^ top);               \
        const v c = (v)(from[2] ^ top), d = (v)(from[3] ^ top);               \
        v in_a = a - a + many, in_b = in_a, in_c = in_a, in_d = in_a;         \
        bytes counts;                                                         \
        for (k = 0; k < many; k++) {                                          \
          const v splitter = a - a + splitters[k];                            \
          in_a += splitter > a;                                               \
          in_b += splitter > b;                                               \
          in_c += splitter > c;                                               \
          in_d += splitter > d;                                               \
        }                                                                     \
        counts = (bytes)(in_a | in_b << 8 | in_c << 16 | in_d << 24);         \
        PB_PUT_IN_ORDER(parts + i, counts, order, STEP);                      \
      }                                                                       \
    }                                                                         \
    NAME##_by_tree(words + i, n - i, s, parts + i);                           \
  }

#if defined(PB_X86)
/* A row of the tree stands in as many registers as it needs, and a word finds its node there
 * without a load: two registers for each 2^ROW nodes, and the right pair of them. */
#include <immintrin.h>

enum { PB_NARROW_ROW = 5, PB_NARROW_MOST = 8, PB_WIDE_ROW = 4, PB_WIDE_MOST = 7 };

#define PB_SPLIT_BY_REGISTERS(NAME, T, S, BITS, LANES, ROW, MOST, STORE)      \
  static PB_CODE_V4 void NAME(const T *words, intptr_t n, const S *s,         \
                              uint8_t *parts) {                               \
    __m512i rows[(2 << MOST) / LANES];                                        \
    const __m512i one = _mm512_set1_epi##BITS(1);                             \
    intptr_t i, k;                                                            \
    int level;                                                                \
    if (s->levels > MOST || n % LANES != 0) {                                 \
      NAME##_by_tree(words, n, s, parts);                                     \
      return;                                                                 \
    }                                                                         \
    for (k = 0; k < (1 << s->levels) || k < (1 << ROW); k += LANES)           \
      rows[k / LANES] = _mm512_loadu_si512(s->tree + k);                      \
    for (i = 0; i < n; i += LANES) {                                          \
      const __m512i word = _mm512_loadu_si512(words + i);                     \
      __m512i at = one;                                                       \
      for (level = 0; level < s->levels; level++) {                           \
        const int first = level < ROW ? 0 : (1 << level) / LANES;             \
        const int pairs = level <= ROW ? 1 : 1 << (level - ROW);              \
        __m512i node = _mm512_permutex2var_epi##BITS(rows[first], at,         \
                                                     rows[first + 1]);        \
        int pair;                                                             \
        for (pair = 1; pair < pairs; pair++)                                  \
          node = _mm512_mask_mov_epi##BITS(                                   \
              node,                                                           \
              _mm512_cmpge_epu##BITS##_mask(                                  \
                  at, _mm512_set1_epi##BITS((1 << level) + (pair << ROW))),   \
              _mm512_permutex2var_epi##BITS(rows[first + 2 * pair], at,       \
                                            rows[first + 2 * pair + 1]));     \
        at = _mm512_add_epi##BITS(at, at);                                    \
        at = _mm512_mask_add_epi##BITS(                                       \
            at, _mm512_cmpge_epu##BITS##_mask(word, node), at, one);          \
      }                                                                       \
      at = _mm512_sub_epi##BITS(at, _mm512_set1_epi##BITS(1 << s->levels));   \
      STORE;                                                                  \
    }                                                                         \
  }
#endif

#define PB_SPLIT_LEVEL(LEVEL, ATTR, NARROW, WIDE, WIDTH)                      \
  PB_SPLIT_BY_TREE(pb_split_narrow_##LEVEL##_by_tree, uint32_t,               \
                   pb_narrow_splitters, ATTR)                                 \
  PB_SPLIT_BY_TREE(pb_split_wide_##LEVEL##_by_tree, uint64_t,                 \
                   pb_wide_splitters, ATTR)                                   \
  PB_SPLIT(pb_split_narrow_##LEVEL, uint32_t, int32_t, pb_narrow_splitters,   \
           ATTR, NARROW, WIDTH)                                               \
  PB_SPLIT(pb_split_wide_##LEVEL, uint64_t, int64_t, pb_wide_splitters, ATTR, \
           WIDE, WIDTH)

#endif
