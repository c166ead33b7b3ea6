"""What a map with filters gives, gathered: nobody knows how much it is beforehand.

Each block's elements go into a buffer of its own; when all are known, so are their
places in the whole, and the buffers are copied there, in parallel, without locks.
No Python, no NumPy.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.map cimport Map
from pyblitz.runtime.pool cimport Worker

cdef enum:
    COLLECTED = 6           # arrays at once

cdef struct Collect:
    Map* map
    int values
    int slots[COLLECTED]
    intptr_t sizes[COLLECTED]
    char* out[COLLECTED]        # set between the two runs
    int64_t grain
    int64_t blocks
    char** buffers              # one for each block
    int64_t* counts             # its elements; after collect_place, where they go

# Fills the buffers; then the caller knows from collect_place how many there are in all,
# and gives `out`; then collect_write copies.  collect_free, always.
cdef int collect_begin(Collect* c) noexcept nogil
cdef int collect_run(Worker* w, Collect* c) noexcept nogil
cdef int64_t collect_place(Collect* c) noexcept nogil
cdef int collect_write(Worker* w, Collect* c) noexcept nogil
cdef void collect_free(Collect* c) noexcept nogil
