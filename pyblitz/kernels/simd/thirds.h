/* Words less than `low`, from there to `high`, and greater ones, for one kind of vector; quicksort.h
 * includes it, with what that was given.  PB_APART_LEVEL is the same without vectors.
 *
 * A vector is stored at the end of what is kept so far, so it ends no later than what was read. */

/* A bit for each lane that is not in a third. */
#define PB_EACH ((1u << PB_PACKED) - 1)
#define PB_NOT_BELOW(v) PB_NOT_LESS(v, lows)
#define PB_OUTSIDE(v) ((PB_EACH & ~PB_NOT_LESS(v, lows)) | PB_GREATER(v, highs))
#define PB_NOT_ABOVE(v) (PB_EACH & ~PB_GREATER(v, highs))

static PB_ATTR int64_t PB_NAME(within)(const PB_WORD *words, intptr_t n, PB_WORD low, PB_WORD high,
                                       PB_WORD *some, int64_t *less) {
  const PB_PACK lows = PB_PACK_ALL(low), highs = PB_PACK_ALL(high);
  int64_t kept = 0, not_less = 0;
  intptr_t i;
  for (i = 0; i + PB_PACKED <= n; i += PB_PACKED) {
    const PB_PACK v = PB_PACK_GET(words + i);
    const unsigned outside = PB_OUTSIDE(v);
    PB_PACK_PUT(some + kept, PB_ORDER(v, outside));
    kept += PB_PACKED - __builtin_popcount(outside);
    not_less += __builtin_popcount(PB_NOT_BELOW(v));
  }
  *less += i - not_less;
  for (; i < n; i++) {
    const PB_WORD word = words[i];
    some[kept] = word;
    kept += word >= low && word <= high;
    *less += word < low;
  }
  return kept;
}

/* All three, each to its place: ONE of each word, which PUT stores for a vector of them. */
#define PB_APART(WHAT, T, PUT, ONE, ...)                                      \
  static PB_ATTR void PB_NAME(WHAT)(const PB_WORD *words, intptr_t n,         \
                                    PB_WORD low, PB_WORD high, T *const *to,  \
                                    int64_t *sizes __VA_ARGS__) {             \
    const PB_PACK lows = PB_PACK_ALL(low), highs = PB_PACK_ALL(high);         \
    T *below = to[0], *within = to[1], *above = to[2];                        \
    intptr_t i;                                                               \
    for (i = 0; i + PB_PACKED <= n; i += PB_PACKED) {                         \
      const PB_PACK v = PB_PACK_GET(words + i);                               \
      const unsigned not_below = PB_NOT_BELOW(v), outside = PB_OUTSIDE(v),    \
                     not_above = PB_NOT_ABOVE(v);                             \
      PUT(below, not_below);                                                  \
      PUT(within, outside);                                                   \
      PUT(above, not_above);                                                  \
      below += PB_PACKED - __builtin_popcount(not_below);                     \
      within += PB_PACKED - __builtin_popcount(outside);                      \
      above += PB_PACKED - __builtin_popcount(not_above);                     \
    }                                                                         \
    for (; i < n; i++) {                                                      \
      const PB_WORD word = words[i];                                          \
      *below = *within = *above = ONE;                                        \
      below += word < low;                                                    \
      within += word >= low && word <= high;                                  \
      above += word > high;                                                   \
    }                                                                         \
    sizes[0] = below - to[0];                                                 \
    sizes[1] = within - to[1];                                                \
    sizes[2] = above - to[2];                                                 \
  }

#define PB_PUT_WORDS(at, bits) PB_PACK_PUT(at, PB_ORDER(v, bits))
#define PB_PUT_PLACES(at, bits) PB_INDICES(at, first + i, bits)
PB_APART(apart, PB_WORD, PB_PUT_WORDS, word, )
PB_APART(places, int64_t, PB_PUT_PLACES, first + i, , int64_t first)

#undef PB_APART
#undef PB_PUT_WORDS
#undef PB_PUT_PLACES
#undef PB_EACH
#undef PB_NOT_BELOW
#undef PB_OUTSIDE
#undef PB_NOT_ABOVE
