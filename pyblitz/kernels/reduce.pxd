"""Reductions of what a map gives, in fixed blocks.

The blocks and the tree that joins their results depend on the length alone, so
the bits of a floating-point sum do not depend on the number of threads.  Sums of
floats are pairwise inside a block and in the tree above, so the error bound is
that of one pairwise sum.  No Python, no NumPy.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.map cimport Map, loop_fn
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.pool cimport Worker

cdef enum:
    FOLDS = 2
    ACC_DOUBLES = 4         # room for an item of any type that has a loop here

# One accumulator: (acc, items, acc), or with two inputs (acc, items, items, acc).
cdef struct Fold:
    loop_fn loop
    void* data
    # How two accumulators become one; NULL: by `loop`.
    loop_fn join
    void* join_data
    int inputs
    int slots[2]
    intptr_t itemsize       # of the accumulator
    # Whether each block starts from `start`, an identity; else from its first item.
    bint has_start
    double start[ACC_DOUBLES]

# The place of the least or greatest item, by NumPy's own function for a row.
ctypedef int (*arg_fn)(void* items, intptr_t n, intptr_t* at, void* arr) noexcept nogil

cdef struct Partial:
    int64_t items           # 0: acc says nothing
    int64_t at              # an arg reduction's best
    double acc[FOLDS][ACC_DOUBLES]

cdef struct Reduce:
    Map* map
    int folds
    Fold fold[FOLDS]
    arg_fn arg              # NULL: none; else with folds = 0, and slot and size in fold[0]
    void* arr
    int64_t grain           # items of a block; 0: the usual
    Partial* partials       # one for each block; NULL while it does not run
    Partial result
    atomic_u32 flags

# 0, ENOMEM, or what a step failed with.
cdef int reduce_run(Worker* w, Reduce* r) noexcept nogil
# Pairwise sums and sums of products of float and double, as loops for a Fold.
cdef void sum_float(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void sum_double(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void dot_float(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void dot_double(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
# NaNs become zero: a block kernel (map.pxd).
cdef void zero_nans_float(const float* items, float* to, intptr_t n, void* user) noexcept nogil
cdef void zero_nans_double(const double* items, double* to, intptr_t n, void* user) noexcept nogil
