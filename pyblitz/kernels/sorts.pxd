"""Others' sorts, shared: functions that take the place of those in a table which its library
reads at each call.

Which way is faster depends on the processor, on the number of items and on what they are, and
both give the same bits; so each is tried, and from then on the faster one is taken.
No Python, no NumPy.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.blocks cimport sort_fn
from pyblitz.runtime.atomic cimport atomic_i64

ctypedef int (*table_argsort_fn)(void* items, intptr_t* order, intptr_t n, void* arr) noexcept nogil

cdef extern from "pyblitz/kernels/sorts.h" nogil:
    int SORTS "PB_SORTS"
    ctypedef struct Pace "pb_pace":
        atomic_i64 theirs       # what the function underneath took, in picoseconds an item; 0: not tried
        atomic_i64 ours         # what we took
        atomic_i64 calls        # how many calls there were: now and then the slower way is tried again
    ctypedef struct SharedSort "pb_sort":
        sort_fn sort            # the functions underneath
        table_argsort_fn argsort
        int kind                # a KeyKind
        int size                # bytes of an item
        bint stable             # whether equal items keep their order
        bint simd               # whether the sort underneath has vector instructions
        Pace* sorts             # [log2 of the number of items]
        Pace* argsorts
        atomic_i64 calls        # how many were looked at
        atomic_i64 shared       # how many of these other threads had a part in

# After loops_init.
cdef void sorts_init() noexcept nogil
cdef SharedSort* sort_at(int k) noexcept nogil
cdef sort_fn sort_stand_in(int k) noexcept nogil
cdef table_argsort_fn argsort_stand_in(int k) noexcept nogil
# Whether calls are always shared, of any size that is looked at; if not, where that was measured
# to be faster.
cdef void sorts_force(bint always) noexcept nogil
