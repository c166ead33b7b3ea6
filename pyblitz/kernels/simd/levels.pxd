"""Functions that are compiled for each level of a processor, and the one that is used.

All levels give the same bits.  The best one is chosen at import; PYBLITZ_CPU holds it down.
No Python, no NumPy in what kernels use of it.
"""
from libc.stdint cimport int32_t, int64_t, intptr_t, uint8_t, uint32_t, uint64_t

cdef extern from "pyblitz/kernels/simd/kernels.h" nogil:
    enum:
        MAX_PARTS "PB_PARTS"
        TURNED "PB_TURNED"
        PAIR_FIRSTS "PB_FIRSTS"
        PAIR_SECONDS "PB_SECONDS"
    # The word of infinity; those of NaNs are greater.
    const uint32_t NARROW_INFINITY "PB_NARROW_INFINITY"
    const uint64_t WIDE_INFINITY "PB_WIDE_INFINITY"
    # (x first y) second z, by the operations' numbers: + * - /, and TURNED more for a second one of z and
    # what is between.  As loop_fn, of x, y, z and the result.  NULL: there is none.
    ctypedef void (*pair_fn "pb_pair_loop")(char** args, const intptr_t* dims, const intptr_t* steps,
                                            void* unused) noexcept nogil
    ctypedef struct Pairs "pb_pairs":
        pair_fn floats[PAIR_FIRSTS][PAIR_SECONDS]
        pair_fn doubles[PAIR_FIRSTS][PAIR_SECONDS]
        pair_fn narrow[PAIR_FIRSTS][PAIR_SECONDS]
        pair_fn wide[PAIR_FIRSTS][PAIR_SECONDS]
    # 2^levels - 1 of them, in order and as a search tree.
    ctypedef struct NarrowSplitters "pb_narrow_splitters":
        int levels
        uint32_t* in_order
        uint32_t* tree
    ctypedef struct WideSplitters "pb_wide_splitters":
        int levels
        uint64_t* in_order
        uint64_t* tree
    # What a sort asks before it parts many words.
    ctypedef struct SortCheck "pb_sort_check":
        int (*must_stop)(void* ctx) noexcept nogil
        void* ctx
    ctypedef struct Kernels "pb_kernels":
        const char* name
        # Pairwise.
        float (*sum_floats)(const float* a, intptr_t n) noexcept nogil
        double (*sum_doubles)(const double* a, intptr_t n) noexcept nogil
        float (*dot_floats)(const float* a, const float* b, intptr_t n) noexcept nogil
        double (*dot_doubles)(const double* a, const double* b, intptr_t n) noexcept nogil
        # Of integers, which wrap; of a product of narrow ones the low 32 bits count.
        uint64_t (*sum_signed)(const int32_t* a, intptr_t n) noexcept nogil
        uint64_t (*sum_unsigned)(const uint32_t* a, intptr_t n) noexcept nogil
        uint64_t (*sum_wide)(const uint64_t* a, intptr_t n) noexcept nogil
        uint64_t (*dot_narrow)(const uint32_t* a, const uint32_t* b, intptr_t n) noexcept nogil
        uint64_t (*dot_wide)(const uint64_t* a, const uint64_t* b, intptr_t n) noexcept nogil
        # How many splitters are not greater than each word; n <= 256.
        void (*split_narrow)(const uint32_t* words, intptr_t n, const NarrowSplitters* s,
                             uint8_t* parts) noexcept nogil
        void (*split_wide)(const uint64_t* words, intptr_t n, const WideSplitters* s,
                           uint8_t* parts) noexcept nogil
        # Floats, by their bits, as words whose unsigned order is theirs; and back.
        void (*encode_narrow)(const uint32_t* bits, intptr_t n, uint32_t* keys) noexcept nogil
        void (*decode_narrow)(const uint32_t* keys, intptr_t n, uint32_t* bits) noexcept nogil
        void (*encode_wide)(const uint64_t* bits, intptr_t n, uint64_t* keys) noexcept nogil
        void (*decode_wide)(const uint64_t* keys, intptr_t n, uint64_t* bits) noexcept nogil
        # Adds how many floats are NaN, and how many are zeros with a sign.
        void (*look_narrow)(const uint32_t* bits, intptr_t n, int64_t* nans, int64_t* negative) noexcept nogil
        void (*look_wide)(const uint64_t* bits, intptr_t n, int64_t* nans, int64_t* negative) noexcept nogil
        # How many are not zero without their first `shift` bits.
        int64_t (*nonzero_narrow)(const uint32_t* words, intptr_t n, int shift) noexcept nogil
        int64_t (*nonzero_wide)(const uint64_t* words, intptr_t n, int shift) noexcept nogil
        # Whether some byte is not 0, whether none is, and how many are not.
        int (*any_byte)(const uint8_t* bytes, intptr_t n) noexcept nogil
        int (*all_bytes)(const uint8_t* bytes, intptr_t n) noexcept nogil
        int64_t (*nonzero_bytes)(const uint8_t* bytes, intptr_t n) noexcept nogil
        # The least and the greatest of n > 0.
        void (*range_narrow)(const uint32_t* words, intptr_t n, uint64_t* low, uint64_t* high) noexcept nogil
        void (*range_wide)(const uint64_t* words, intptr_t n, uint64_t* low, uint64_t* high) noexcept nogil
        # Whether for some i y[i] does not belong behind x[i]; a NaN does not.
        int (*doubtful_floats)(const float* x, const float* y, intptr_t n, int descending,
                               int strict) noexcept nogil
        int (*doubtful_doubles)(const double* x, const double* y, intptr_t n, int descending,
                                int strict) noexcept nogil
        int (*doubtful_signed)(const int64_t* x, const int64_t* y, intptr_t n, int descending,
                               int strict) noexcept nogil
        int (*doubtful_unsigned)(const uint64_t* x, const uint64_t* y, intptr_t n, int descending,
                                 int strict) noexcept nogil
        # The least and the greatest, with n items more.  Not 0: there was a NaN, and they say nothing.
        int (*extremes_floats)(const float* a, intptr_t n, float* low, float* high) noexcept nogil
        int (*extremes_doubles)(const double* a, intptr_t n, double* low, double* high) noexcept nogil
        # Bins of one width, and whether some item is more than `apart` widths from the middle of its
        # bin: it may belong to the next one.
        int (*bins_floats)(const float* x, intptr_t n, float first, float scale, float bins,
                           float apart, int32_t* bin) noexcept nogil
        int (*bins_doubles)(const double* x, intptr_t n, double first, double scale, double bins,
                            double apart, int32_t* bin) noexcept nogil
        # Running sums and products of integers, on top of what was before; out may be a.
        void (*run_narrow)(const uint32_t* a, intptr_t n, uint32_t before, uint32_t* out) noexcept nogil
        void (*run_wide)(const uint64_t* a, intptr_t n, uint64_t before, uint64_t* out) noexcept nogil
        void (*products_narrow)(const uint32_t* a, intptr_t n, uint32_t before, uint32_t* out) noexcept nogil
        void (*products_wide)(const uint64_t* a, intptr_t n, uint64_t before, uint64_t* out) noexcept nogil
        # Keys less than `low`, from there to `high`, and greater: the words, but, where there is one, for the
        # bits of `flip`.  thirds_: adds how many the first two are.  places_: the indices of all three, from
        # `first` on, to places with room for n each.
        void (*thirds_narrow)(const uint32_t* words, intptr_t n, uint32_t flip, uint32_t low, uint32_t high,
                              int64_t* counts) noexcept nogil
        void (*thirds_wide)(const uint64_t* words, intptr_t n, uint64_t flip, uint64_t low, uint64_t high,
                            int64_t* counts) noexcept nogil
        void (*places_narrow)(const uint32_t* words, intptr_t n, uint32_t low, uint32_t high, int64_t** to,
                              int64_t* sizes, int64_t first) noexcept nogil
        void (*places_wide)(const uint64_t* words, intptr_t n, uint64_t low, uint64_t high, int64_t** to,
                            int64_t* sizes, int64_t first) noexcept nogil
        const Pairs* pairs
        # So many parts cost little more than two.
        int few_narrow
        int few_wide
        # In place, in this thread; NULL: no vectors for it.  check: a SortCheck, or NULL.  Returns 0; or 1, if it
        # was to stop: then the words are in some order.
        int (*sort_narrow)(void* words, intptr_t n, void* check) noexcept nogil
        int (*sort_wide)(void* words, intptr_t n, void* check) noexcept nogil
        # No NaNs; of equal zeros any one may come out with a sign.
        int (*sort_doubles)(void* numbers, intptr_t n, void* check) noexcept nogil
        # NULL: no vectors, or no faster than their words are sorted (v4).
        int (*sort_int32)(void* numbers, intptr_t n, void* check) noexcept nogil
        int (*sort_int64)(void* numbers, intptr_t n, void* check) noexcept nogil
        # Copies the words from `low` to `high`, returns how many they are, and adds how many are less; some may
        # be words.
        int64_t (*within_narrow)(const uint32_t* words, intptr_t n, uint32_t low, uint32_t high,
                                 uint32_t* some, int64_t* less) noexcept nogil
        int64_t (*within_wide)(const uint64_t* words, intptr_t n, uint64_t low, uint64_t high,
                               uint64_t* some, int64_t* less) noexcept nogil
        # Items by the words at `keys`: those less than `low` behind out[at[0]], the greater ones before
        # out[at[2]], from the last one down, and the rest behind some[at[1]]; they move.  0: they end beyond
        # out[ends[0]], out[ends[2]] or some[ends[1]], and some were stored.  Of the first `wide` ones each
        # vector keeps its order, wherever the ends are; what is greater among the others turns it.  NULL: no
        # vectors for it.
        int (*around_narrow)(const uint32_t* keys, const uint32_t* items, intptr_t n, intptr_t wide,
                             uint32_t flip, uint32_t low, uint32_t high, uint32_t* out, uint32_t* some,
                             int64_t* at, const int64_t* ends) noexcept nogil
        int (*around_wide)(const uint64_t* keys, const uint64_t* items, intptr_t n, intptr_t wide,
                           uint64_t flip, uint64_t low, uint64_t high, uint64_t* out, uint64_t* some,
                           int64_t* at, const int64_t* ends) noexcept nogil
        # Words to 4 or 8 parts, by the splitters' levels, which are 2 or 3: how many each has
        # more; and those of part p to mid + to[p] and on.  0: there are more than fit before
        # ends[p].  NULL: no vectors for it.
        void (*count_narrow)(const uint32_t* words, intptr_t n, const NarrowSplitters* s,
                             int64_t* counts) noexcept nogil
        int (*move_narrow)(const uint32_t* words, intptr_t n, const NarrowSplitters* s, int64_t* to,
                           const int64_t* ends, uint32_t* mid) noexcept nogil
        void (*count_wide)(const uint64_t* words, intptr_t n, const WideSplitters* s,
                           int64_t* counts) noexcept nogil
        int (*move_wide)(const uint64_t* words, intptr_t n, const WideSplitters* s, int64_t* to,
                         const int64_t* ends, uint64_t* mid) noexcept nogil
        # Whether some item is equal to a value.  All four are NULL where there are no vectors for it.
        int (*equal_narrow)(const uint32_t* items, intptr_t n, uint32_t value) noexcept nogil
        int (*equal_wide)(const uint64_t* items, intptr_t n, uint64_t value) noexcept nogil
        int (*equal_floats)(const float* items, intptr_t n, float value) noexcept nogil
        int (*equal_doubles)(const double* items, intptr_t n, double value) noexcept nogil
        # As those of floats; never a NaN.  Both are NULL where there are no vectors for it.
        int (*extremes_narrow)(const int32_t* a, intptr_t n, int32_t* low, int32_t* high) noexcept nogil
        int (*extremes_wide)(const int64_t* a, intptr_t n, int64_t* low, int64_t* high) noexcept nogil
        # The words, or indices from `first` on, that a mask of bytes selects, and for `both` the others:
        # eight at a time while there is room for eight.  They return how many words they looked at; kept:
        # how many of these are selected.  All five are NULL where there are no vectors for it.
        intptr_t (*keep_narrow)(const uint32_t* words, const uint8_t* mask, intptr_t n, uint32_t* to,
                                intptr_t room, intptr_t* kept) noexcept nogil
        intptr_t (*keep_wide)(const uint64_t* words, const uint8_t* mask, intptr_t n, uint64_t* to,
                              intptr_t room, intptr_t* kept) noexcept nogil
        intptr_t (*keep_both_narrow)(const uint32_t* words, const uint8_t* mask, intptr_t n, uint32_t* yes,
                                     intptr_t yes_room, uint32_t* no, intptr_t no_room,
                                     intptr_t* kept) noexcept nogil
        intptr_t (*keep_both_wide)(const uint64_t* words, const uint8_t* mask, intptr_t n, uint64_t* yes,
                                   intptr_t yes_room, uint64_t* no, intptr_t no_room,
                                   intptr_t* kept) noexcept nogil
        intptr_t (*keep_indices)(const uint8_t* mask, intptr_t n, int64_t first, int64_t* to, intptr_t room,
                                 intptr_t* kept) noexcept nogil

    # Whether AVX-512's stores of selected lanes are slow here; ours have none of them.
    bint slow_compress "pb_slow_compress"() noexcept nogil

cdef Kernels simd
