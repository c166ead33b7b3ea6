/* Words less than `low`, from there to `high`, and greater ones, for one kind of vector; quicksort.h
 * includes it, with what that was given.  PB_PLACES_LEVEL has what there is without vectors.
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
/* Where each third goes to, and how far; the last one from its end on. */
struct PB_NAME(thirds_to) {
  PB_WORD *below, *within, *above, *below_end, *within_end, *above_end;
};

/* Lanes of a vector, where a whole one would go beyond an end: what is there may be another thread's. */
static __attribute__((noinline)) PB_ATTR int PB_NAME(put_lanes)(PB_WORD *to, ptrdiff_t room, PB_PACK ordered,
                                                                int first, int lanes) {
  if (lanes > room)
    return 0;
  memcpy(to, (const PB_WORD *)&ordered + first, lanes * sizeof(PB_WORD));
  return 1;
}

/* 0: there is no room; not asked for if `fits`. */
static inline __attribute__((always_inline)) PB_ATTR int
PB_NAME(put_around)(struct PB_NAME(thirds_to) *to, PB_PACK v, const PB_WORD *items, PB_PACK lows,
                    PB_PACK highs, int fits) {
  const unsigned not_below = PB_NOT_BELOW(v), greater = PB_GREATER(v, highs);
  const unsigned inside = not_below & ~greater;
  const int last = __builtin_popcount(greater), middle = __builtin_popcount(inside);
  const int first = PB_PACKED - __builtin_popcount(not_below);
  PB_PACK item, ordered;
  memcpy(&item, items, sizeof item);
  ordered = PB_ORDER(item, not_below);
  if (fits || to->below_end - to->below >= PB_PACKED)
    memcpy(to->below, &ordered, sizeof item);
  else if (!PB_NAME(put_lanes)(to->below, to->below_end - to->below, ordered, 0, first))
    return 0;
  ordered = PB_ORDER(item, PB_EACH ^ inside);
  if (fits || to->within_end - to->within >= PB_PACKED)
    memcpy(to->within, &ordered, sizeof item);
  else if (!PB_NAME(put_lanes)(to->within, to->within_end - to->within, ordered, 0, middle))
    return 0;
  ordered = PB_ORDER(item, greater);
  if (fits || to->above - to->above_end >= PB_PACKED)
    memcpy(to->above - PB_PACKED, &ordered, sizeof item);
  else if (!PB_NAME(put_lanes)(to->above - last, to->above - to->above_end, ordered, PB_PACKED - last, last))
    return 0;
  to->below += first;
  to->within += middle;
  to->above -= last;
  return 1;
}

/* The first third behind out[at[0]], the second one behind some[at[1]], and the last one before out[at[2]],
 * from its end on; they move.  0: one would go beyond out[ends[0]], some[ends[1]] or out[ends[2]].  The first
 * `wide` items go by vectors: as many at a time as fit in any case, or one. */
static PB_ATTR int PB_NAME(around)(const PB_WORD *keys, const PB_WORD *items, intptr_t n, intptr_t wide,
                                   PB_WORD flip, PB_WORD low, PB_WORD high, PB_WORD *out,
                                   PB_WORD *some, int64_t *at, const int64_t *ends) {
  const PB_PACK lows = PB_PACK_ALL(low), highs = PB_PACK_ALL(high), flips = PB_FLIPS;
  struct PB_NAME(thirds_to) to = {out + at[0], some + at[1], out + at[2],
                                  out + ends[0], some + ends[1], out + ends[2]};
  intptr_t i = 0;
  while (i + PB_PACKED <= wide) {
    intptr_t end = wide - i;
    end = to.below_end - to.below < end ? to.below_end - to.below : end;
    end = to.within_end - to.within < end ? to.within_end - to.within : end;
    end = to.above - to.above_end < end ? to.above - to.above_end : end;
    end = i + end / PB_PACKED * PB_PACKED;
    if (end == i) {
      if (!PB_NAME(put_around)(&to, PB_KEYS_AT(i), items + i, lows, highs, 0))
        return 0;
      i += PB_PACKED;
    }
    for (; i < end; i += PB_PACKED)
      PB_NAME(put_around)(&to, PB_KEYS_AT(i), items + i, lows, highs, 1);
  }
  for (; i < n; i++) {
    const PB_WORD key = keys[i] ^ flip;
    if (key < low && to.below < to.below_end)
      *to.below++ = items[i];
    else if (key > high && to.above > to.above_end)
      *--to.above = items[i];
    else if (key >= low && key <= high && to.within < to.within_end)
      *to.within++ = items[i];
    else
      return 0;
  }
  at[0] = to.below - out;
  at[1] = to.within - some;
  at[2] = to.above - out;
  return 1;
}
#endif

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
#undef PB_EACH
#undef PB_NOT_BELOW
#undef PB_OUTSIDE
#undef PB_NOT_ABOVE
