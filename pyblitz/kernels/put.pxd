"""Scattering by indices.  Where several indices are equal, the last one wins."""
from libc.stdint cimport int64_t, intptr_t, uint64_t
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.pool cimport Worker

cdef enum:
    # A target that a cache holds is written in the order of the indices, by one thread.
    PUT_CACHED_BYTES = 16777216

cdef struct Record:
    int64_t index
    uint64_t value          # the item, or where its value is, if it is no word

cdef struct Put:
    char* dst               # [length] items
    int64_t length
    # [count], checked signed integers of 4 or 8 bytes, of which negative ones count from the end:
    # `bad` if another thread has written to them since.
    const void* raw
    int index_size
    int64_t count
    const char* values      # [period] items: item i gets value i % period
    int64_t period
    intptr_t itemsize
    const int64_t* index    # [count], ready; for a target of more than PUT_CACHED_BYTES
    Record* records         # [count], to be filled; the same
    atomic_u32 bad          # whether an index was out of bounds
    # -- the rest is its own
    int shift               # of an index to its bucket
    int64_t buckets
    int64_t block           # items
    int64_t* offsets        # [block][bucket]: counts, then where to write
    int64_t* ends           # [bucket]

# Puts the items if the indices rise, and says in done whether they do.
cdef int put_ascending(Worker* w, Put* p, bint* done) noexcept nogil
# Puts the items, whatever the indices are.  Returns 0, ENOMEM, or -1.
cdef int put_run(Worker* w, Put* p) noexcept nogil
# The same of few, in this thread alone.
cdef void put_few(Put* p) noexcept nogil
