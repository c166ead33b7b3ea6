"""Parallel sorts of unsigned words, of what can be made into them and back.

A sort has three parts that know nothing of each other: ``load`` gives the
items as words whose unsigned order is the order wanted (a float's bits, turned; the
leading bits of several keys with an index below them), this module sorts the words,
and ``store`` makes each into what the result holds.

sort_words     words of 4 or 8 bytes, by whichever way is faster here: all at once by a leaf sort
               (NumPy's SIMD kernels, which the caller hands in); or in a parallel pass that
               moves them to buckets, in equal steps or between splitters, each of which fits
               into a cache and is sorted by the leaf sort, all at once or cut once more into
               pieces of some hundred words; or, with AVX-512, to two parts for each of a few
               threads, for the leaf sort.  Leaf sort, pieces and moves are timed once; a sample says
               how the words lie

What each gives depends on the data alone, never on the number of threads.
"""
from libc.stdint cimport int64_t, intptr_t, uint16_t, uint32_t, uint64_t
from pyblitz.runtime.pool cimport Worker

cdef enum:
    # Words of fewer items are sorted by the caller alone.
    SHARED_WORDS = 32768
    # Items that load and store see at once.
    CHUNK = 256
    # Of a leaf of a pass over all of them.
    BLOCK_WORDS = 65536
    # What a leaf sort takes at once: SIMD sorts of so many are networks in registers.
    LEAF_WORDS = 256

# Items lo .. hi as words, hi - lo <= CHUNK.
ctypedef void (*load_fn)(void* ctx, int64_t lo, int64_t hi, void* words) noexcept nogil
# Words at .. at + n of the sorted ones, to their place, which may be where they are.
ctypedef void (*store_fn)(void* ctx, const void* words, int64_t n, int64_t at) noexcept nogil
# NumPy's: 0, or negative without memory.  The last argument is for types that need it.
ctypedef int (*sort_fn)(void* start, intptr_t n, void* arr) noexcept nogil

cdef struct Words:
    load_fn load
    store_fn store
    void* ctx
    bint wide           # 8 bytes, or 4
    bint slow           # to load: each is loaded once, into n words more
    int64_t n
    char* dst           # room for n words: the result's own
    char* spare         # the same again when what load reads is dst, else NULL
    # The items, which may be dst, for those who sort them themselves and not their words:
    const char* src
    sort_fn whole       # to the same bits; or NULL
    bint floats         # leaves.floats may

# Without a worker for fewer than SHARED_WORDS.  0, ENOMEM, or -1 with an exception set; the
# result then holds what it held if there is a spare, in any order.
cdef int sort_words(Worker* w, Words* s) noexcept nogil
# SIMD sorts of 4 or of 8 bytes, or NULL.
cdef struct Leaves:
    sort_fn words
    sort_fn signed
    sort_fn floats

cdef void use_leaves(Leaves narrow, Leaves wide) noexcept nogil
cdef Leaves* leaves_of(bint wide) noexcept nogil
# Nanoseconds that a word takes the first of them, for each halving of what is to be sorted.
cdef double level_ns(bint wide) noexcept nogil
# What a word takes these, in pieces and as floats, in picoseconds; 0: to be timed when it is
# first asked for.
cdef void set_paces(int64_t leaf, int64_t pieces, int64_t floats) noexcept nogil

cdef extern from *:
    """
    #define pb_log2(x) (63 - __builtin_clzll(x))    /* not of 0 */
    """
    int log2_of "pb_log2"(uint64_t x) noexcept nogil

cdef inline uint64_t bent_step(uint64_t d, int bits) noexcept nogil:
    """Increases with d; each octave from the `bits`-th on has 2^bits values."""
    cdef int octave = log2_of(d | 1) - bits
    if octave < 0:
        octave = 0
    return (<uint64_t>octave << bits) + (d >> octave)

# In the caller, with room for as many.
cdef void sort_plain(uint64_t* a, uint64_t* room, int64_t n) noexcept nogil
