"""Moving items: selection by a mask, gathering, repetition, joining, scattering,
copying.  No Python, no NumPy.

Where an item goes is known before it is moved: a count for each block of fixed
size and their prefix sums, or the arguments alone.  So blocks are written in
parallel, without locks, and the result depends on the data alone.

Items are moved as machine words where their size and alignment allow it.
"""
from libc.stdint cimport int64_t, intptr_t, uint8_t, uint64_t
from pyblitz.kernels.map cimport Map, loop_fn
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.pool cimport Worker

# ---- selection by a mask

cdef struct Select:
    const char* src         # items; NULL: their indices (int64) are selected
    const uint8_t* mask     # a byte for each; any but 0 selects
    char* yes               # where the selected go
    char* no                # where the others go; NULL: nowhere
    int64_t n
    intptr_t itemsize       # 8 for indices
    int64_t block           # items
    int64_t* before         # selected before each block; of all, in the last
    # After select_write: the mask is not the one that was counted, because another thread
    # writes it.  Nothing was written out of bounds, but not everything was.
    atomic_u32 changed

cdef int64_t select_block(int64_t n, intptr_t itemsize) noexcept nogil
cdef int64_t select_blocks(const Select* s) noexcept nogil
# Fills `before`, which has one more than there are blocks.
cdef int64_t count_true(const uint8_t* mask, int64_t n) noexcept nogil
cdef int select_count(Worker* w, Select* s) noexcept nogil
cdef int select_write(Worker* w, Select* s) noexcept nogil

# The coordinates of sorted flat indices, one column for each axis.
cdef struct Unravel:
    const int64_t* flat
    int64_t* columns        # those of the first axis first
    int64_t n
    int dims
    const int64_t* shape

cdef int unravel_run(Worker* w, Unravel* u) noexcept nogil

# ---- gathering and scattering

cdef enum IndexMode:
    INDEX_RAISE     # negative ones count from the end; others are bad
    INDEX_WRAP
    INDEX_CLIP
    INDEX_READY     # int64, within the length

cdef struct Take:
    const char* src         # [outer][length] items
    char* dst               # [outer][count] items
    const void* index       # [count]
    int index_size          # 4 or 8: signed integers
    IndexMode mode
    int64_t outer           # 1, unless the indices are ready
    int64_t length
    int64_t count
    intptr_t itemsize
    atomic_u32 bad          # whether an index was out of bounds

cdef int take_run(Worker* w, Take* t) noexcept nogil
# Writes indices that are ready to `ready`, or, when it is NULL, only checks them.
cdef int index_run(Worker* w, Take* t, int64_t* ready) noexcept nogil

# For few, in the caller: whether all are within the length.
cdef bint index_is_ready(Take* t) noexcept nogil

cdef enum:
    # A target that a cache holds is written in the order of the indices, by one thread.
    PUT_CACHED_BYTES = 16777216

cdef struct Record:
    int64_t index
    uint64_t value          # the item, or where its value is, if it is no word

cdef struct Put:
    char* dst               # [length] items
    int64_t length
    const int64_t* index    # [count], ready
    int64_t count
    const char* values      # [period] items: item i gets value i % period
    int64_t period
    intptr_t itemsize
    Record* records         # [count], to be filled; for a target of more than PUT_CACHED_BYTES
    # -- the rest is its own
    int shift               # of an index to its bucket
    int64_t buckets
    int64_t block           # items
    int64_t* offsets        # [block][bucket]: counts, then where to write
    int64_t* starts         # [bucket + 1]

# Puts them, if the indices rise.
cdef int put_ascending(Worker* w, Put* p, bint* done) noexcept nogil
# Of equal indices the last one wins.  0, ENOMEM, or -1.
cdef int put_run(Worker* w, Put* p) noexcept nogil

# ---- repetition and joining

cdef struct Repeat:
    const char* src         # [outer][length] items
    char* dst               # [outer][total] items
    int64_t outer
    int64_t length
    int64_t total
    int64_t each            # how often every item is repeated, if ends is NULL
    const int64_t* ends     # [length]: where the repetitions of an item end
    intptr_t itemsize

# The sums of the counts up to and with each; all counts or-ed: whether one is negative
# or large enough for a sum to wrap; and whether another thread has changed the counts
# meanwhile: then the sums may fall.  0, ENOMEM, or -1.
cdef int ends_run(Worker* w, const int64_t* counts, int64_t n, int64_t* ends,
                  int64_t* bits, bint* changed) noexcept nogil
cdef int repeat_run(Worker* w, Repeat* r) noexcept nogil

cdef struct Join:
    char* dst               # [outer] rows
    int64_t outer
    int64_t parts
    const char** src        # [parts]: each [outer] pieces
    const int64_t* ends     # [parts]: bytes; where a part's piece ends in a row

cdef int join_run(Worker* w, Join* j) noexcept nogil

# ---- elementwise

# (from, to) and (mask, x, y, to), for map_run; `data` is the itemsize.
cdef loop_fn copy_loop(intptr_t itemsize, intptr_t bits) noexcept nogil
cdef loop_fn where_loop(intptr_t itemsize, intptr_t bits) noexcept nogil
# Addresses and strides of a map from operand `first` on, or-ed: their alignment.
cdef intptr_t map_bits(const Map* m, int first) noexcept nogil
# Operand 0 to operand 1, both in tiles if their orders differ.
cdef int copy_run(Worker* w, Map* m, intptr_t itemsize) noexcept nogil
