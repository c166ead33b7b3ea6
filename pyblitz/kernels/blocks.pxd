"""What kernels have in common: blocks that workers share, where each of them writes, and the words
that items are moved as.  No Python, no NumPy.
"""
from libc.stdint cimport int32_t, int64_t, intptr_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy
from pyblitz.runtime.atomic cimport atomic_u32, u32_fetch_or_relaxed
from pyblitz.runtime.bridge cimport combine_halves_fn, leaf_fn
from pyblitz.runtime.os cimport fe_test
from pyblitz.runtime.pool cimport Worker

cdef enum:
    # What the operands of one leaf take together: fits into L2 beside others,
    # and is some thousand times what a leaf costs around it.
    LEAF_BYTES = 131072

# Calls leaf(w, ctx, lo, hi) for parts of [0, n) of at most `grain` items; without a worker, one part
# after the other.  Returns 0, or what the lowest part that failed has returned.
cdef int run_blocks(Worker* w, leaf_fn leaf, void* ctx, int64_t grain, int64_t n) noexcept nogil
# Needs a worker.  Also calls combine(w, ctx, lo, mid, hi) for neighbours when both are done.
cdef int combine_blocks(Worker* w, leaf_fn leaf, combine_halves_fn combine, void* ctx, int64_t grain,
                        int64_t n) noexcept nogil

# On entry, counts[block][bucket] is how many items a block will write to a bucket.  The buckets lie one
# behind the other, and in each of them the blocks.  On return, it is where the block begins there.
# counts[blocks], a row more, is filled with where the buckets end.  Returns the sum of all.
cdef int64_t sum_counts(int64_t* counts, int64_t blocks, int64_t buckets) noexcept nogil

cdef inline void copy_bytes(void* to, const void* source, int64_t n) noexcept nogil:
    """memcpy.  But where a byte is written up to 63 bytes behind where one is read, by the offsets in their
    pages, glibc's `rep movsb` takes twenty times as long on a Zen 3: then in pieces, from the end."""
    if n >= 2048 and ((<uintptr_t>to - <uintptr_t>source) & 4095) - 1 < 63:
        while n >= 256:
            n -= 256
            memcpy(<char*>to + n, <const char*>source + n, 256)
    memcpy(to, source, n)

# memcpy by all workers; without one, by this thread.  0, or what stopped it.
cdef int copy_shared(Worker* w, void* to, const void* source, int64_t bytes) noexcept nogil

# A sort of NumPy's, or ours.  It returns 0, or a negative number if it had no memory.  Some types of
# NumPy's need arr.
ctypedef int (*sort_fn)(void* start, intptr_t n, void* arr) noexcept nogil

# How many items a leaf takes if it reads and writes so many bytes for each: at least one.
cdef int64_t leaf_items(int64_t bytes_per_item) noexcept nogil
# How many bytes a leaf copies if it is one memcpy of some of so many: long runs are faster.
cdef int64_t run_bytes(int64_t bytes) noexcept nogil

# Of parts that lie one behind the other and end at ends[k]: the first that ends past `at`.
cdef int64_t part_at(const int64_t* ends, int64_t parts, int64_t at) noexcept nogil

# Where a sample takes its item k, if it takes one from each stretch of so many items: anywhere in the
# k-th, so that no period of the data matters.  A sample that begins with SAMPLE_SEED is always the
# same.  (The generator is Knuth's for MMIX: "The Art of Computer Programming", volume 2, 3.3.4.)
cdef enum:
    SAMPLE_SEED = 0x9E3779B97F4A7C15u

cdef inline uint64_t next_random(uint64_t* state) noexcept nogil:
    state[0] = state[0] * 6364136223846793005u + 1442695040888963407u
    return state[0] >> 33

cdef inline int64_t sample_place(uint64_t* state, int64_t k, int64_t stretch) noexcept nogil:
    return k * stretch + <int64_t>(next_random(state) % <uint64_t>stretch)

cdef inline uint32_t gather_flags(atomic_u32* into) noexcept nogil:
    """Adds the floating-point errors that this thread met since fe_clear, as bits; returns them."""
    cdef uint32_t flags = fe_test()
    if flags:
        # relaxed: read after the join
        u32_fetch_or_relaxed(into, flags)
    return flags

ctypedef struct Pair:
    uint64_t a
    uint64_t b

# Of what says where items go to, or come from.
ctypedef fused Index:
    int32_t
    int64_t

# The type as which an item is moved.
ctypedef fused Unit:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    Pair

cdef inline int unit_of(intptr_t itemsize, intptr_t bits) noexcept nogil:
    """The size of the Unit that an item is; 0: it is none, or not aligned as one.
    bits: addresses and strides, or-ed."""
    if itemsize == 1:
        return 1
    if itemsize == 2 or itemsize == 4 or itemsize == 8:
        return 0 if bits & (itemsize - 1) else itemsize
    if itemsize == 16:
        return 0 if bits & 7 else 16
    return 0
