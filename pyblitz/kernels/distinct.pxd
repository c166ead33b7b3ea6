"""The distinct items of a row that has few of them, with how often each occurs and
where first, and then for every item which of them it is.

The row is cut into blocks, a function of its length alone, each with a hash table of
its own (open addressing, linear probing, multiplicative hashing: Knuth, "The Art of
Computer Programming", volume 3, 6.4), small enough for a core's own caches.  They are
merged in the order of the blocks.  Who meets more than ``limit`` distinct items ends the
search: it is for rows that a sample says have few.  Items of one and two bytes are
places in tables instead.  No Python, no NumPy.

If the caller asks for numbers, a second pass needs no table: an item's number says which key of
its block it has, in the order in which the block met them.

Items are distinct if their bits are, or, as floats, if they are not equal: zeros are
equal, and so are NaNs.
"""
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from pyblitz.kernels.numbers cimport Word, canonical
from pyblitz.runtime.pool cimport Worker

cdef enum:
    # The most that `limit` may be.  Two bytes have up to 65,536, whatever it is.
    DISTINCT_LIMIT = 16384

cdef struct Slot:
    uint64_t key
    # In a block's table: how often the key occurs.  There are two counts, used in turn, so
    # that equal items in a row need not wait for each other.  Where items are numbered, and in
    # the table of the result: the number of the key, and nothing.  distinct_inverse writes the rank in
    # the place of the number.
    uint32_t value[2]

# In an empty slot the key is 0.  The key 0 itself has slots[0], which holds 1 until it is
# met; slots[1] always holds 1, a key whose hash leads elsewhere.  So whoever compares a key
# with its own slot and the next one never takes an empty slot for the key.
cdef struct Table:
    Slot* slots             # [(1 << 64 - shift) + room for what runs over the end]
    int shift               # the hash of a key is its product's bits from here on
    int64_t limit           # the most keys that it may hold
    int64_t used            # the keys that it holds
    uint64_t* keys          # [used], in the order in which they were met
    int64_t* first          # [used]: the index of each key's first item

cdef struct Distinct:
    const char* items
    int64_t n               # at least 1
    int size                # bytes of an item: 1, 2, 4, 8
    bint floats             # IEEE 754 of that size
    bint counting           # whether counts are wanted
    int64_t limit           # the most distinct items of 4 or 8 bytes that are looked for
    # [n], for the numbers of items of 4 or 8 bytes; then `counting` is False.  NULL: not wanted
    uint16_t* numbers
    # -- the result
    bint many               # there are more than `limit`; the rest of the result is not set
    int64_t count           # how many distinct items there are, in no particular order
    # [count]: their bits, in the lowest bytes.  0.0 stands for both zeros, one NaN for all.
    uint64_t* keys
    int64_t* first          # [count], the index where each occurs first
    int64_t* counts         # [count], how often each occurs; if counting
    # -- the rest is its own
    Table merged
    int64_t blocks
    int64_t block           # items, in all blocks but the last
    Table* tables           # [blocks]
    # Of items of 1 and 2 bytes: [blocks][lanes][1 << bits] counts, and as many first places.
    uint32_t* places
    uint32_t* ranks         # of the same items: [1 << bits]

# Whether a sample (of the same places for the same n) says that it is worth a try.
cdef bint distinct_may_be_few(const Distinct* d) noexcept nogil
# 0, ENOMEM, or -1 with an exception set.  distinct_free is to follow in any case.
cdef int distinct_run(Worker* w, Distinct* d) noexcept nogil
cdef void distinct_free(Distinct* d) noexcept nogil
# Writes for every item the rank of its key: ranks[i] is that of keys[i].
cdef int distinct_inverse(Worker* w, Distinct* d, const int64_t* ranks, int64_t* out) noexcept nogil
# What the numbers of a block are as ranks, as many as it has keys.
cdef void distinct_ranks(const Distinct* d, int64_t block, const int64_t* ranks, uint16_t* out) noexcept nogil

cdef inline uint64_t hash_key(uint64_t key) noexcept nogil:
    """Its high bits are the hash.  Of 0 it is 0; of 1 the high ones are not."""
    return (key ^ (key >> 32)) * <uint64_t>0x9E3779B97F4A7C15u

cdef inline Word distinct_key(Word item, bint floats) noexcept nogil:
    """What items that are not distinct have in common."""
    return canonical(item) if floats else item
