/* A sort of words in a cache, for one kind of vector; quicksorts.h includes it once for each.
 * Before that it defines
 *
 *   PB_NAME(x)                    a name of this kind's
 *   PB_ATTR                       for which processor its functions are compiled
 *   PB_WORD, PB_VECTOR, PB_LANES  a word, a vector of them, and how many it holds
 *   PB_GET(p), PB_PUT(p, v)       at any address
 *   PB_ALL(x)                     x in each lane
 *   PB_LAST                       a word that none comes after
 *   PB_MIN(a, b), PB_MAX(b, a)    lane by lane; of equal ones the second, where bits can tell
 *   PB_REVERSE_2(v), _4, _8, _16  each group of so many lanes, backwards
 *   PB_SWAP_1(v), _2, _4          each group of so many lanes in the place of its neighbour
 *   PB_MIX(a, b, MASK)            b's lanes where the mask has ones, else a's
 *   PB_PACK, PB_PACKED            the vector with which words are parted, and its lanes, with
 *   PB_PACK_GET(p), PB_PACK_PUT(p, v), PB_PACK_ALL(x); without them, the vector above
 *   PB_NOT_LESS(v, pivots)        a bit for each lane: whether it is not less than the pivot
 *   PB_GREATER(v, pivots)         the same: whether it is greater
 *   PB_ORDER(v, bits)             lanes without a bit first, then those with one
 *   PB_AROUND                     whether this kind's `around` is used (thirds.h)
 *   PB_INDICES(to, first, bits)   first + lane to `to`, in that order; without it, a sort is all,
 *                                 and with it, what move.h asks for, too
 *   PB_AGAIN                      whether the next kind has the same vectors and lanes: it defines what
 *                                 names, loads, stores and compares words, and the rest stays
 *
 * Quicksort: vectors are read from either end and stored at both, after Bramas, "A novel hybrid
 * quicksort algorithm vectorized using AVX-512 on Intel Skylake" (2017).  What fits into
 * PB_ROWS vectors is sorted in registers: each column by Green's network (Knuth, volume 3,
 * 5.3.4), then columns are merged two by two by bitonic merges (Batcher, 1968), as in Blacher,
 * Giesen, Sanders and Wassenberg, "Vectorized and performance-portable Quicksort" (2022).
 *
 * No address depends on more than how many lanes were counted, and these are stored as they were
 * counted: what another thread writes meanwhile makes the result wrong, and nothing worse. */

#if !defined(PB_PACK)
#define PB_PACK PB_VECTOR
#define PB_PACKED PB_LANES
#define PB_PACK_GET PB_GET
#define PB_PACK_PUT PB_PUT
#define PB_PACK_ALL PB_ALL
#endif

/* What is sorted in registers, and what is read from one end at once.  most >= 2 * ahead. */
enum { PB_NAME(most) = PB_ROWS * PB_LANES, PB_NAME(ahead) = 8 * PB_PACKED };

/* ---- in registers ------------------------------------------------------------------------ */

/* Of a network for 16 rows, as if those from `rows` on held what comes last of all: that stays
 * there, as i < j throughout.  The operands stand so that of any two lanes, also those that are
 * neither less nor greater, one comes out of each. */
#define PB_IN_ORDER(i, j)                                                     \
  if (j < rows) {                                                             \
    const PB_VECTOR less = PB_MIN(v[i], v[j]);                                \
    v[j] = PB_MAX(v[j], v[i]);                                                \
    v[i] = less;                                                              \
  }

static inline __attribute__((always_inline)) PB_ATTR void
PB_NAME(sort_columns)(PB_VECTOR *v, const int rows) {
  PB_IN_ORDER(0, 1) PB_IN_ORDER(2, 3) PB_IN_ORDER(4, 5) PB_IN_ORDER(6, 7)
  PB_IN_ORDER(8, 9) PB_IN_ORDER(10, 11) PB_IN_ORDER(12, 13) PB_IN_ORDER(14, 15)
  PB_IN_ORDER(0, 2) PB_IN_ORDER(1, 3) PB_IN_ORDER(4, 6) PB_IN_ORDER(5, 7)
  PB_IN_ORDER(8, 10) PB_IN_ORDER(9, 11) PB_IN_ORDER(12, 14) PB_IN_ORDER(13, 15)
  PB_IN_ORDER(0, 4) PB_IN_ORDER(1, 5) PB_IN_ORDER(2, 6) PB_IN_ORDER(3, 7)
  PB_IN_ORDER(8, 12) PB_IN_ORDER(9, 13) PB_IN_ORDER(10, 14) PB_IN_ORDER(11, 15)
  PB_IN_ORDER(0, 8) PB_IN_ORDER(1, 9) PB_IN_ORDER(2, 10) PB_IN_ORDER(3, 11)
  PB_IN_ORDER(4, 12) PB_IN_ORDER(5, 13) PB_IN_ORDER(6, 14) PB_IN_ORDER(7, 15)
  PB_IN_ORDER(5, 10) PB_IN_ORDER(6, 9) PB_IN_ORDER(3, 12) PB_IN_ORDER(13, 14)
  PB_IN_ORDER(4, 8) PB_IN_ORDER(7, 11) PB_IN_ORDER(1, 2)
  PB_IN_ORDER(1, 4) PB_IN_ORDER(7, 13) PB_IN_ORDER(2, 8) PB_IN_ORDER(11, 14)
  PB_IN_ORDER(2, 4) PB_IN_ORDER(5, 6) PB_IN_ORDER(9, 10) PB_IN_ORDER(11, 13)
  PB_IN_ORDER(3, 8) PB_IN_ORDER(7, 12)
  PB_IN_ORDER(6, 8) PB_IN_ORDER(10, 12) PB_IN_ORDER(3, 5) PB_IN_ORDER(7, 9)
  PB_IN_ORDER(3, 4) PB_IN_ORDER(5, 6) PB_IN_ORDER(7, 8) PB_IN_ORDER(9, 10) PB_IN_ORDER(11, 12)
  PB_IN_ORDER(6, 7) PB_IN_ORDER(8, 9)
}

#undef PB_IN_ORDER

/* Within each row: lanes against others, which OTHERS has in their places. */
#define PB_WITHIN(OTHERS, MASK)                                               \
  _Pragma("GCC unroll 16") for (i = 0; i < rows; i++) {                       \
    const PB_VECTOR other = OTHERS(v[i]);                                     \
    v[i] = PB_MIX(PB_MIN(v[i], other), PB_MAX(v[i], other), MASK);            \
  }

/* Groups of lanes, each sorted row by row, become groups of twice as many.  Two sorted groups, the
 * second one backwards, are a bitonic sequence; each stage compares its halves.  Partners mirror
 * each other in row and lane throughout, so that one is found by reversing the other's row. */
#define PB_MERGE(REVERSE, MASK)                                               \
  _Pragma("GCC unroll 16") for (half = PB_ROWS / 2; half > 0; half /= 2)      \
    _Pragma("GCC unroll 16") for (i = 0; i < PB_ROWS / 2; i++) {              \
      const int low = i / half * 2 * half + i % half;                         \
      const int high = i / half * 2 * half + 2 * half - 1 - i % half;         \
      if (high < rows) {                                                      \
        const PB_VECTOR other = REVERSE(v[high]);                             \
        v[high] = PB_MAX(other, v[low]);                                      \
        v[low] = PB_MIN(v[low], other);                                       \
      }                                                                       \
    }                                                                         \
  PB_WITHIN(REVERSE, MASK)

/* n words in `rows` vectors: at least all but the last two of them are full. */
static inline __attribute__((always_inline)) PB_ATTR void
PB_NAME(sort_rows)(PB_WORD *words, intptr_t n, const int rows) {
  PB_WORD end[2 * PB_LANES];
  PB_VECTOR v[PB_ROWS];
  const int full = rows - 2;
  int i, half;
  n -= full * PB_LANES;
  PB_PUT(end, PB_ALL(PB_LAST));
  PB_PUT(end + PB_LANES, PB_ALL(PB_LAST));
  memcpy(end, words + full * PB_LANES, n * sizeof(PB_WORD));
  _Pragma("GCC unroll 16") for (i = 0; i < full; i++)
    v[i] = PB_GET(words + i * PB_LANES);
  v[full] = PB_GET(end);
  v[full + 1] = PB_GET(end + PB_LANES);
  PB_NAME(sort_columns)(v, rows);
  PB_MERGE(PB_REVERSE_2, 0xAAAA)
#if PB_LANES >= 4
  PB_MERGE(PB_REVERSE_4, 0xCCCC)
  PB_WITHIN(PB_SWAP_1, 0xAAAA)
#endif
#if PB_LANES >= 8
  PB_MERGE(PB_REVERSE_8, 0xF0F0)
  PB_WITHIN(PB_SWAP_2, 0xCCCC)
  PB_WITHIN(PB_SWAP_1, 0xAAAA)
#endif
#if PB_LANES >= 16
  PB_MERGE(PB_REVERSE_16, 0xFF00)
  PB_WITHIN(PB_SWAP_4, 0xF0F0)
  PB_WITHIN(PB_SWAP_2, 0xCCCC)
  PB_WITHIN(PB_SWAP_1, 0xAAAA)
#endif
  _Pragma("GCC unroll 16") for (i = 0; i < full; i++)
    PB_PUT(words + i * PB_LANES, v[i]);
  PB_PUT(end, v[full]);
  PB_PUT(end + PB_LANES, v[full + 1]);
  memcpy(words + full * PB_LANES, end, n * sizeof(PB_WORD));
}

#undef PB_WITHIN
#undef PB_MERGE

static PB_ATTR void PB_NAME(sort_in_registers)(PB_WORD *a, intptr_t n) {
  switch ((n - 1) / (2 * PB_LANES)) {
  case 0: PB_NAME(sort_rows)(a, n, 2); break;
  case 1: PB_NAME(sort_rows)(a, n, 4); break;
  case 2: PB_NAME(sort_rows)(a, n, 6); break;
  case 3: PB_NAME(sort_rows)(a, n, 8); break;
  case 4: PB_NAME(sort_rows)(a, n, 10); break;
  case 5: PB_NAME(sort_rows)(a, n, 12); break;
  case 6: PB_NAME(sort_rows)(a, n, 14); break;
  default: PB_NAME(sort_rows)(a, n, 16);
  }
}

/* ---- parts ------------------------------------------------------------------------------- */

/* Stores a vector at both ends of the gap: what is less than the pivot stays at its low end, the
 * rest at its high end. */
#define PB_PUT_BOTH(v)                                                        \
  do {                                                                        \
    const PB_PACK some = (v);                                                 \
    const unsigned bits =                                                     \
        greater ? PB_GREATER(some, pivots) : PB_NOT_LESS(some, pivots);       \
    const PB_PACK ordered = PB_ORDER(some, bits);                             \
    const intptr_t above = __builtin_popcount(bits);                          \
    PB_PACK_PUT(low, ordered);                                                \
    PB_PACK_PUT(high - PB_PACKED, ordered);                                   \
    low += PB_PACKED - above;                                                 \
    high -= above;                                                            \
  } while (0)

/* Puts words less than the pivot, or, for `greater`, not greater, before the others, and returns
 * how many they are.  n >= 2 * ahead. */
static inline __attribute__((always_inline)) PB_ATTR intptr_t
PB_NAME(partition)(PB_WORD *a, intptr_t n, PB_WORD pivot, const int greater) {
  enum { AHEAD = PB_NAME(ahead) };
  const PB_PACK pivots = PB_PACK_ALL(pivot);
  PB_PACK v[8];
  PB_WORD first[AHEAD], last[AHEAD], rest[AHEAD];
  PB_WORD *low = a, *high = a + n; /* stored before, and from */
  const PB_WORD *left = a + AHEAD, *right = a + n - AHEAD; /* read before, and from */
  intptr_t i, over;
  memcpy(first, a, sizeof first);
  memcpy(last, right, sizeof last);
  while (right - left >= AHEAD) {
    /* From the end with less room: then both have enough for what is read. */
    const PB_WORD *from = left;
    if (left - low > high - right)
      from = right -= AHEAD;
    else
      left += AHEAD;
    _Pragma("GCC unroll 8") for (i = 0; i < 8; i++)
      v[i] = PB_PACK_GET(from + i * PB_PACKED);
    _Pragma("GCC unroll 8") for (i = 0; i < 8; i++)
      PB_PUT_BOTH(v[i]);
  }
  over = right - left;
  memcpy(rest, left, over * sizeof(PB_WORD));
  for (i = 0; i + PB_PACKED <= over; i += PB_PACKED)
    PB_PUT_BOTH(PB_PACK_GET(rest + i));
  for (; i < over; i++) {
    const int above = greater ? rest[i] > pivot : rest[i] >= pivot;
    *low = rest[i];
    high[-1] = rest[i];
    low += !above;
    high -= above;
  }
  for (i = 0; i < AHEAD; i += PB_PACKED)
    PB_PUT_BOTH(PB_PACK_GET(first + i));
  for (i = 0; i < AHEAD; i += PB_PACKED)
    PB_PUT_BOTH(PB_PACK_GET(last + i));
  return low - a;
}

#undef PB_PUT_BOTH

/* Functions of their own: within sort_some they are a tenth slower. */
static __attribute__((noinline)) PB_ATTR intptr_t
PB_NAME(less_first)(PB_WORD *a, intptr_t n, PB_WORD pivot) {
  return PB_NAME(partition)(a, n, pivot, 0);
}

static __attribute__((noinline)) PB_ATTR intptr_t
PB_NAME(greater_last)(PB_WORD *a, intptr_t n, PB_WORD pivot) {
  return PB_NAME(partition)(a, n, pivot, 1);
}

/* The middle of a sample. */
static PB_ATTR PB_WORD PB_NAME(pivot)(const PB_WORD *a, intptr_t n, uint64_t *state) {
  enum { SOME = 2 * PB_LANES };
  PB_WORD sample[SOME];
  const intptr_t stretch = n / SOME;
  int i;
  for (i = 0; i < SOME; i++) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    sample[i] = a[i * stretch + (intptr_t)(((*state >> 32) * (uint64_t)stretch) >> 32)];
  }
  PB_NAME(sort_rows)(sample, SOME, 2);
  return sample[SOME / 2];
}

/* Of any words in O(n log n): what so many pivots could not part. */
static void PB_NAME(sort_heap)(PB_WORD *a, intptr_t n) {
  intptr_t start = n / 2, end = n, i, child;
  while (end > 1) {
    PB_WORD x;
    if (start > 0) {
      x = a[--start];
    } else {
      x = a[--end];
      a[end] = a[0];
    }
    i = start;
    while ((child = 2 * i + 1) < end) {
      if (child + 1 < end && a[child + 1] > a[child])
        child++;
      if (a[child] <= x)
        break;
      a[i] = a[child];
      i = child;
    }
    a[i] = x;
  }
}

/* 0: it was asked to stop, and the words are in some order. */
static PB_ATTR int PB_NAME(sort_some)(PB_WORD *a, intptr_t n, int pivots_left, uint64_t *state,
                                      const pb_sort_check *check) {
  while (n > PB_NAME(most)) {
    PB_WORD pivot;
    intptr_t less;
    if (check != NULL && n > PB_UNASKED && check->must_stop(check->ctx))
      return 0;
    if (pivots_left-- == 0) {
      PB_NAME(sort_heap)(a, n);
      return 1;
    }
    pivot = PB_NAME(pivot)(a, n, state);
    less = PB_NAME(less_first)(a, n, pivot);
    if (less == 0) /* those equal to it are in their places then */
      less = PB_NAME(greater_last)(a, n, pivot);
    else if (!PB_NAME(sort_some)(a, less, pivots_left, state, check))
      return 0;
    a += less;
    n -= less;
  }
  if (n > 1)
    PB_NAME(sort_in_registers)(a, n);
  return 1;
}

/* 0; or 1, if it was asked to stop. */
static PB_ATTR int PB_NAME(sort)(void *words, intptr_t n, void *check) {
  uint64_t state = (uint64_t)n;
  return !PB_NAME(sort_some)((PB_WORD *)words, n, 2 * (63 - __builtin_clzll((uint64_t)n | 1)), &state,
                             (const pb_sort_check *)check);
}

#if defined(PB_INDICES)
#include "pyblitz/kernels/simd/keep.h"
#include "pyblitz/kernels/simd/move.h"
#include "pyblitz/kernels/simd/thirds.h"
#endif

#undef PB_NAME
#undef PB_WORD
#undef PB_GET
#undef PB_PUT
#undef PB_ALL
#undef PB_LAST
#undef PB_MIN
#undef PB_MAX
#undef PB_NOT_LESS
#undef PB_GREATER
#undef PB_INDICES
#undef PB_AROUND
#undef PB_SPLIT_BY
#undef PB_PRESS
#undef PB_NOT_LESS_OF
#if !defined(PB_AGAIN)
#undef PB_ATTR
#undef PB_VECTOR
#undef PB_LANES
#undef PB_REVERSE_2
#undef PB_REVERSE_4
#undef PB_REVERSE_8
#undef PB_REVERSE_16
#undef PB_SWAP_1
#undef PB_SWAP_2
#undef PB_SWAP_4
#undef PB_MIX
#undef PB_ORDER
#undef PB_PACK
#undef PB_PACKED
#undef PB_PACK_GET
#undef PB_PACK_PUT
#undef PB_PACK_ALL
#endif
