/* Words to 4 or 8 parts, for one kind of vector; quicksort.h includes it, with what that was given and
 *
 *   PB_SPLIT_BY                   splitters of such words
 *   PB_PRESS(v, bits)             lanes with a bit first; without it, by PB_ORDER
 *   PB_NOT_LESS_OF(v, splitters)  PB_NOT_LESS of a vector that is pressed
 *
 * count adds how many words each part has.  move stores those of part p from mid + to[p] on, and moves
 * to[p]; 0: there are more than fit before ends[p], and some were stored. */

#if !defined(PB_PRESS)
#define PB_PRESS(v, bits) PB_ORDER(v, ((1u << PB_LANES) - 1) ^ (bits))
#define PB_NOT_LESS_OF PB_NOT_LESS
#endif

static inline int PB_NAME(part)(PB_WORD word, const PB_SPLIT_BY *s, int parts) {
  int k, part = 0;
  for (k = 1; k < parts; k++)
    part += word >= s->in_order[k - 1];
  return part;
}

static inline __attribute__((always_inline)) PB_ATTR void
PB_NAME(count_of)(const PB_WORD *words, intptr_t n, const PB_SPLIT_BY *s, int64_t *counts,
                  const int parts) {
  PB_VECTOR splitters[8];
  int64_t above[9] = {n & ~(intptr_t)(PB_LANES - 1)};
  intptr_t i;
  int k;
  for (k = 1; k < parts; k++)
    splitters[k] = PB_ALL(s->in_order[k - 1]);
  for (i = 0; i + PB_LANES <= n; i += PB_LANES) {
    const PB_VECTOR v = PB_GET(words + i);
    _Pragma("GCC unroll 8") for (k = 1; k < parts; k++)
      above[k] += __builtin_popcount(PB_NOT_LESS_OF(v, splitters[k]));
  }
  for (k = 0; k < parts; k++)
    counts[k] += above[k] - above[k + 1];
  for (; i < n; i++)
    counts[PB_NAME(part)(words[i], s, parts)]++;
}

/* roomy: all of them fit, whatever part they are of. */
static inline __attribute__((always_inline)) PB_ATTR int
PB_NAME(move_some)(const PB_WORD *words, intptr_t n, const PB_SPLIT_BY *s, int64_t *to,
                   const int64_t *ends, PB_WORD *mid, const int parts, const int roomy) {
  const unsigned each = (1u << PB_LANES) - 1;
  PB_VECTOR splitters[8];
  PB_WORD *at[8], *end[8], some[PB_LANES];
  intptr_t i = 0;
  int k;
  for (k = 0; k < parts; k++) {
    at[k] = mid + to[k];
    end[k] = mid + ends[k];
  }
  for (k = 1; k < parts; k++)
    splitters[k] = PB_ALL(s->in_order[k - 1]);
  for (; i + PB_LANES <= n; i += PB_LANES) {
    const PB_VECTOR v = PB_GET(words + i);
    unsigned rest = each;
    _Pragma("GCC unroll 8") for (k = 0; k < parts; k++) {
      const unsigned more = k + 1 < parts ? PB_NOT_LESS_OF(v, splitters[k + 1]) : 0;
      const unsigned mine = rest & ~more;
      const int count = __builtin_popcount(mine);
      if (roomy || at[k] + PB_LANES <= end[k]) {
        PB_PUT(at[k], PB_PRESS(v, mine));
      } else if (at[k] + count <= end[k]) {
        PB_PUT(some, PB_PRESS(v, mine));
        memcpy(at[k], some, count * sizeof(PB_WORD));
      } else {
        return 0;
      }
      at[k] += count;
      rest = more;
    }
  }
  for (; i < n; i++) {
    k = PB_NAME(part)(words[i], s, parts);
    if (at[k] >= end[k])
      return 0;
    *at[k]++ = words[i];
  }
  for (k = 0; k < parts; k++)
    to[k] = at[k] - mid;
  return 1;
}

static inline __attribute__((always_inline)) PB_ATTR int
PB_NAME(move_of)(const PB_WORD *words, intptr_t n, const PB_SPLIT_BY *s, int64_t *to,
                 const int64_t *ends, PB_WORD *mid, const int parts) {
  int k, roomy = 1;
  /* Before a vector that is read at i, no part has got more than i words. */
  for (k = 0; k < parts; k++)
    roomy &= to[k] + n <= ends[k];
  if (roomy)
    return PB_NAME(move_some)(words, n, s, to, ends, mid, parts, 1);
  return PB_NAME(move_some)(words, n, s, to, ends, mid, parts, 0);
}

static PB_ATTR void PB_NAME(count)(const PB_WORD *words, intptr_t n, const PB_SPLIT_BY *s,
                                   int64_t *counts) {
  if (s->levels == 2)
    PB_NAME(count_of)(words, n, s, counts, 4);
  else
    PB_NAME(count_of)(words, n, s, counts, 8);
}

static PB_ATTR int PB_NAME(move)(const PB_WORD *words, intptr_t n, const PB_SPLIT_BY *s, int64_t *to,
                                 const int64_t *ends, PB_WORD *mid) {
  if (s->levels == 2)
    return PB_NAME(move_of)(words, n, s, to, ends, mid, 4);
  return PB_NAME(move_of)(words, n, s, to, ends, mid, 8);
}
