/* The words that a mask of bytes selects, and those that it does not, for one kind of vector;
 * quicksort.h includes it, with what that was given.  Eight words at a time, while there is room for
 * eight: past the end is what another worker writes.  Returns how many words were looked at.
 *
 * Whether 32 words have none is asked by a branch; of fewer it would be taken as often as not. */

static inline __attribute__((always_inline)) PB_ATTR intptr_t
PB_NAME(keep_some)(const PB_WORD *words, const uint8_t *mask, intptr_t n, PB_WORD *yes,
                   intptr_t yes_room, PB_WORD *no, intptr_t no_room, intptr_t *kept,
                   const int both) {
  intptr_t i = 0, to = 0;
  int k;
  while (i + 8 <= n && yes_room - to >= 8 && (!both || no_room - (i - to) >= 8)) {
    unsigned out;
    if (!both && i % 32 == 0 && i + 32 <= n && pb_none_of_32(mask + i)) {
      i += 32;
      continue;
    }
    out = pb_zeros_of_8(mask + i);
    for (k = 0; k < 8; k += PB_PACKED) {
      const PB_PACK v = PB_PACK_GET(words + i + k);
      const unsigned bits = out >> k & ((1u << PB_PACKED) - 1);
      PB_PACK_PUT(yes + to, PB_ORDER(v, bits));
      if (both)
        PB_PACK_PUT(no + (i + k - to), PB_ORDER(v, bits ^ ((1u << PB_PACKED) - 1)));
      to += PB_PACKED - __builtin_popcount(bits);
    }
    i += 8;
  }
  *kept = to;
  return i;
}

static PB_ATTR intptr_t PB_NAME(keep)(const PB_WORD *words, const uint8_t *mask, intptr_t n,
                                      PB_WORD *to, intptr_t room, intptr_t *kept) {
  return PB_NAME(keep_some)(words, mask, n, to, room, 0, 0, kept, 0);
}

static PB_ATTR intptr_t PB_NAME(keep_both)(const PB_WORD *words, const uint8_t *mask, intptr_t n,
                                           PB_WORD *yes, intptr_t yes_room, PB_WORD *no,
                                           intptr_t no_room, intptr_t *kept) {
  return PB_NAME(keep_some)(words, mask, n, yes, yes_room, no, no_room, kept, 1);
}
