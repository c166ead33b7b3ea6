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

/* Items by their keys, which differ from the words at `keys` by the bits of `flip`. */
#define PB_KEYS_AT(i) (PB_PACK_GET(keys + (i)) ^ flips)
#define PB_FLIPS (PB_PACK_ALL(flip) ^ PB_PACK_ALL(0)) /* as the words are, whatever a vector of them is */

#if defined(PB_AROUND)
/* The first third behind those that out[0 .. total) already begins with, the last one before those that it
 * ends with, each counted in `sizes`, and the second one to `some`.  Vectors while the gap has room for
 * two. */
static PB_ATTR void PB_NAME(around)(const PB_WORD *keys, const PB_WORD *items, intptr_t n, PB_WORD flip,
                                    PB_WORD low, PB_WORD high, PB_WORD *out, intptr_t total,
                                    PB_WORD *some, int64_t *sizes) {
  const PB_PACK lows = PB_PACK_ALL(low), highs = PB_PACK_ALL(high), flips = PB_FLIPS;
  PB_WORD *below = out + sizes[0], *above = out + total - sizes[2];
  intptr_t i, kept = sizes[1];
  for (i = 0; i + PB_PACKED <= n && above - below >= 2 * PB_PACKED; i += PB_PACKED) {
    const PB_PACK v = PB_KEYS_AT(i);
    const unsigned not_below = PB_NOT_BELOW(v), greater = PB_GREATER(v, highs);
    const unsigned within = not_below & ~greater;
    PB_PACK item, ordered;
    memcpy(&item, items + i, sizeof item);
    ordered = PB_ORDER(item, not_below);
    memcpy(below, &ordered, sizeof item);
    ordered = PB_ORDER(item, PB_EACH ^ within);
    memcpy(some + kept, &ordered, sizeof item);
    ordered = PB_ORDER(item, greater);
    memcpy(above - PB_PACKED, &ordered, sizeof item);
    below += PB_PACKED - __builtin_popcount(not_below);
    kept += __builtin_popcount(within);
    above -= __builtin_popcount(greater);
  }
  for (; i < n; i++) {
    const PB_WORD key = keys[i] ^ flip;
    if (key < low)
      *below++ = items[i];
    else if (key > high)
      *--above = items[i];
    else
      some[kept++] = items[i];
  }
  sizes[0] = below - out;
  sizes[1] = kept;
  sizes[2] = out + total - above;
}
#endif

/* Lanes without a bit to third k; past its end is what another thread writes. */
#define PB_PUT_THIRD(k, bits)                                                 \
  do {                                                                        \
    const PB_PACK ordered = PB_ORDER(item, bits);                             \
    const int count = PB_PACKED - __builtin_popcount(bits);                   \
    if (at[k] + PB_PACKED <= end[k])                                          \
      memcpy(at[k], &ordered, sizeof ordered);                                \
    else if (at[k] + count <= end[k])                                         \
      memcpy(at[k], &ordered, count * sizeof(PB_WORD));                       \
    else                                                                      \
      return 0;                                                               \
    at[k] += count;                                                           \
  } while (0)

/* Third k behind out[to[k]], which moves, up to out[ends[k]].  0: there are more, and some were stored. */
static PB_ATTR int PB_NAME(apart)(const PB_WORD *keys, const PB_WORD *items, intptr_t n, PB_WORD flip,
                                  PB_WORD low, PB_WORD high, PB_WORD *out, int64_t *to,
                                  const int64_t *ends) {
  const PB_PACK lows = PB_PACK_ALL(low), highs = PB_PACK_ALL(high), flips = PB_FLIPS;
  PB_WORD *at[3] = {out + to[0], out + to[1], out + to[2]};
  PB_WORD *const end[3] = {out + ends[0], out + ends[1], out + ends[2]};
  intptr_t i;
  int k;
  for (i = 0; i + PB_PACKED <= n; i += PB_PACKED) {
    const PB_PACK v = PB_KEYS_AT(i);
    const unsigned not_below = PB_NOT_BELOW(v), greater = PB_GREATER(v, highs);
    PB_PACK item;
    memcpy(&item, items + i, sizeof item);
    PB_PUT_THIRD(0, not_below);
    PB_PUT_THIRD(1, PB_EACH ^ (not_below & ~greater));
    PB_PUT_THIRD(2, PB_EACH ^ greater);
  }
  for (; i < n; i++) {
    const PB_WORD key = keys[i] ^ flip;
    k = (key >= low) + (key > high);
    if (at[k] >= end[k])
      return 0;
    *at[k]++ = items[i];
  }
  for (k = 0; k < 3; k++)
    to[k] = at[k] - out;
  return 1;
}

/* The indices of all three, from `first` on, to places with room for n each. */
static PB_ATTR void PB_NAME(places)(const PB_WORD *words, intptr_t n, PB_WORD low, PB_WORD high,
                                    int64_t *const *to, int64_t *sizes, int64_t first) {
  const PB_PACK lows = PB_PACK_ALL(low), highs = PB_PACK_ALL(high);
  int64_t *below = to[0], *within = to[1], *above = to[2];
  intptr_t i;
  for (i = 0; i + PB_PACKED <= n; i += PB_PACKED) {
    const PB_PACK v = PB_PACK_GET(words + i);
    const unsigned not_below = PB_NOT_BELOW(v), outside = PB_OUTSIDE(v), not_above = PB_NOT_ABOVE(v);
    PB_INDICES(below, first + i, not_below);
    PB_INDICES(within, first + i, outside);
    PB_INDICES(above, first + i, not_above);
    below += PB_PACKED - __builtin_popcount(not_below);
    within += PB_PACKED - __builtin_popcount(outside);
    above += PB_PACKED - __builtin_popcount(not_above);
  }
  for (; i < n; i++) {
    const PB_WORD word = words[i];
    *below = *within = *above = first + i;
    below += word < low;
    within += word >= low && word <= high;
    above += word > high;
  }
  sizes[0] = below - to[0];
  sizes[1] = within - to[1];
  sizes[2] = above - to[2];
}

#undef PB_KEYS_AT
#undef PB_FLIPS
#undef PB_PUT_THIRD
#undef PB_EACH
#undef PB_NOT_BELOW
#undef PB_OUTSIDE
#undef PB_NOT_ABOVE
