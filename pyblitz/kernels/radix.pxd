"""Parallel sorts of unsigned words, and so of everything that can be made into words and back.

A sort has three parts that know nothing of each other: ``load`` gives the
items as words whose unsigned order is the order wanted (a float's bits, turned; the
leading bits of several keys with an index below them), this module sorts the words,
and ``store`` makes each into what the result holds.

``sort_words`` sorts words of 4 or 8 bytes by whichever of three ways is fastest on this machine:

alone      A leaf sort sorts all of them: ours (``simd.sort_wide``, where the processor has vectors
           for it) or one of NumPy's (``use_leaves``), whichever is faster here.
buckets    A parallel pass moves the words to buckets, which are equal steps of the words' range or
           lie between splitters.  The leaf sort sorts each, as a whole or, if it fits into a cache, cut
           once more into pieces of some hundred words.
parts      With AVX2 or AVX-512 and a few threads, the words are moved to 4 parts, or to 8 for more than
           two threads, which the leaf sort sorts: that of floats, where it is the faster one and there is no
           spare.

The leaf sort, the pieces and the moves are timed once.  How the words are distributed, a sample says.

What each gives depends on the data alone, never on the number of threads.
"""
from libc.stdint cimport int64_t, intptr_t, uint16_t, uint32_t, uint64_t
from pyblitz.kernels.blocks cimport sort_fn
from pyblitz.runtime.pool cimport Worker

cdef enum:
    # The caller alone sorts fewer words than these.
    SHARED_WORDS = 32768
    # load is called for so many items at most.
    RADIX_CHUNK = 256
    # A leaf of a pass over all words takes so many.
    BLOCK_WORDS = 65536
    # So many words are one piece for a leaf sort: SIMD sorts need little more for it than a network.
    LEAF_WORDS = 256

# Writes items lo .. hi as words; hi - lo <= RADIX_CHUNK.
ctypedef void (*load_fn)(void* ctx, int64_t lo, int64_t hi, void* words) noexcept nogil
# Stores the words that come at .. at + n in sorted order; they may lie where they are to be stored.
ctypedef void (*store_fn)(void* ctx, const void* words, int64_t n, int64_t at) noexcept nogil

cdef struct Words:
    load_fn load
    store_fn store
    void* ctx
    bint wide           # whether words have 8 bytes; else they have 4
    bint slow           # whether load is slow: then it is called once, for n more words of memory
    int64_t n           # the number of items
    char* dst           # where the result goes; it has room for n words
    char* spare         # room for n words, if load reads from dst; else NULL
    # Where the items are (which may be dst), for sorts of the items themselves; each is used only
    # where its result has the same bits.
    const char* src
    sort_fn whole       # leaf_of_integers, or NULL
    bint floats         # whether a leaf sort of floats may sort them

# There may be no worker for fewer than SHARED_WORDS.  Returns 0, ENOMEM, or -1 with an exception set.
# After a failure, dst holds what it held before, in any order, if there is a spare.
cdef int sort_words(Worker* w, Words* s) noexcept nogil
# NumPy's sorts of 4 or of 8 bytes, or NULL.
cdef struct Leaves:
    sort_fn words       # of unsigned integers
    sort_fn signed      # of signed integers
    sort_fn floats      # of floats

cdef void use_leaves(Leaves narrow, Leaves wide) noexcept nogil
# Sorts integers as they are, in one thread, in the way that is fastest here; NULL: that is to sort their
# words.
cdef sort_fn leaf_of_integers(bint wide, bint signed) noexcept nogil
# For tests: how many picoseconds a word takes our leaf sort, NumPy's, the pieces, and the leaf sort
# of floats.  With 0, it is timed when somebody asks for it next.
cdef void set_paces(int64_t ours, int64_t leaf, int64_t pieces, int64_t floats) noexcept nogil

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

# Sorts in this thread; room has n words.
cdef void sort_plain(uint64_t* a, uint64_t* room, int64_t n) noexcept nogil
