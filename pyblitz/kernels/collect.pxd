"""Gathers the elements that a map with filters keeps.  How many those are is known at the end only.

Each block writes its elements to a buffer of its own.  When all blocks are done, the counts say
where each buffer belongs in the whole, and the buffers are copied there, in parallel, without
locks.
No Python, no NumPy.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.map cimport Map
from pyblitz.runtime.pool cimport Worker

cdef enum:
    COLLECTED = 6           # how many arrays one pass can write

cdef struct Collect:
    Map* map
    int values                  # the number of arrays
    int slots[COLLECTED]        # the map's slots whose elements they get
    intptr_t sizes[COLLECTED]   # how many bytes an element has
    char* out[COLLECTED]        # where they are; the caller sets it between the two runs
    int64_t grain               # how many elements a block reads
    int64_t blocks
    char** buffers              # one for each block
    int64_t* counts             # how many elements it holds; after collect_place, where they go

# In this order: collect_run fills the buffers; collect_place returns how many elements there are;
# the caller sets `out`; collect_write copies.  Whatever happens, collect_free is to follow.
cdef int collect_begin(Collect* c) noexcept nogil
cdef int collect_run(Worker* w, Collect* c) noexcept nogil
cdef int64_t collect_place(Collect* c) noexcept nogil
cdef int collect_write(Worker* w, Collect* c) noexcept nogil
cdef void collect_free(Collect* c) noexcept nogil
