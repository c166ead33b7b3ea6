"""Gathering: each item of the result is the one that an index says.

Indices are checked, and made int64 within the length, before or while they are used.  Where an item
goes is known from the arguments alone, so all workers write, without locks.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.pool cimport Worker

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
# Checks the indices, and writes those that are INDEX_READY to `ready`, if that is not NULL.
cdef int index_run(Worker* w, Take* t, int64_t* ready) noexcept nogil

# Whether all indices are within the length; for few of them, for it runs in this thread alone.
cdef bint index_is_ready(Take* t) noexcept nogil
