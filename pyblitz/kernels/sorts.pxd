"""Others' sorts, shared: functions that take the place of those in a table which its library
reads at each call.

Which way is faster depends on the processor, on the number of items and on what they are, and
both give the same bits; so each is tried, and from then on the faster one is taken.
No Python, no NumPy.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.loops cimport loop_enter_fn
from pyblitz.runtime.atomic cimport atomic_i64

ctypedef int (*table_sort_fn)(void* items, intptr_t n, void* arr) noexcept nogil
ctypedef int (*table_argsort_fn)(void* items, intptr_t* order, intptr_t n, void* arr) noexcept nogil

cdef extern from "pyblitz/kernels/sorts.h" nogil:
    int SORTS "PB_SORTS"
    ctypedef struct Pace "pb_pace":
        atomic_i64 theirs
        atomic_i64 ours
        atomic_i64 calls
    ctypedef struct SharedSort "pb_sort":
        table_sort_fn sort
        table_argsort_fn argsort
        int number
        int size
        bint stable
        bint simd
        Pace* sorts
        Pace* argsorts
        atomic_i64 calls
        atomic_i64 shared

cdef void sorts_init(loop_enter_fn enter) noexcept nogil
cdef SharedSort* sort_at(int k) noexcept nogil
cdef table_sort_fn sort_stand_in(int k) noexcept nogil
cdef table_argsort_fn argsort_stand_in(int k) noexcept nogil
# Always, of any size that is looked at; else as measured.
cdef void sorts_force(bint always) noexcept nogil
