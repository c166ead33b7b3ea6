"""Reductions of what a map gives, in fixed blocks.

The blocks and the tree that joins their results depend on the length and on the
operations alone, so the bits of a floating-point sum do not depend on the number of
threads.  Sums of floats are pairwise inside a block and in the tree above, so the error bound is
that of one pairwise sum.  No Python, no NumPy.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.map cimport Map, loop_fn
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.pool cimport Worker

cdef enum:
    FOLDS = 2               # how many reductions one pass can do
    ACC_DOUBLES = 4         # room for an item of any type that has a loop here

# One reduction.  Its loop gets (accumulator, items, accumulator), or with two inputs
# (accumulator, items, items, accumulator).
cdef struct Fold:
    loop_fn loop
    void* data              # the loop's last argument
    loop_fn join            # makes one accumulator of two; NULL: `loop` does
    void* join_data
    int inputs              # 1 or 2
    int slots[2]            # the map's slots that are the inputs
    intptr_t itemsize       # how many bytes the accumulator has
    # Whether each block starts from `start`, an identity; if not, it starts from its first item.
    bint has_start
    double start[ACC_DOUBLES]

# NumPy's own function for a row: writes the position of its least or greatest item to at.
ctypedef int (*arg_fn)(void* items, intptr_t n, intptr_t* at, void* arr) noexcept nogil

cdef struct Partial:
    int64_t items           # how many were reduced; if none, acc says nothing
    int64_t at              # with `arg`: the position of the best item
    double acc[FOLDS][ACC_DOUBLES]

cdef struct Reduce:
    Map* map
    int folds
    Fold fold[FOLDS]
    # NULL, or what is done in the place of folds: then folds is 0, and fold[0] has slot and size.
    arg_fn arg
    void* arr               # arg's last argument
    int64_t grain           # how many items a block has
    Partial* partials       # one for each block; NULL while it does not run
    Partial result
    atomic_u32 flags        # the floating-point errors that were met, as bits

# How many items a block should have.  dear: to compute or to fold one takes several times as long as to
# read it.
cdef int64_t block_items(int64_t n, intptr_t itemsize, bint dear) noexcept nogil
# 0, ENOMEM, or what a step failed with.
cdef int reduce_run(Worker* w, Reduce* r) noexcept nogil
# Pairwise sums and sums of products of float and double, as loops for a Fold.
cdef void sum_float(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void sum_double(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void dot_float(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void dot_double(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
# Products, in quarters: of float and double, and of integers into 8 bytes, as the sums below.
cdef void product_float(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void product_double(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void product_signed(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void product_unsigned(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void product_wide(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
# Sums of integers, which wrap, into 8 bytes: of 4 bytes with and without a sign, and of 8.
cdef void sum_signed(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void sum_unsigned(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void sum_wide(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
# Sums of their products.  Of 4 bytes only the low ones count.
cdef void dot_narrow(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void dot_wide(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
# The least and the greatest of numbers side by side: the accumulator is the pair of them, which is
# NaNs if there is one.
cdef void extremes_float(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void extremes_double(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void extremes_narrow(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef void extremes_wide(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
# NaNs become zero: block kernels (user.pxd).
cdef void zero_nans_float(const float* items, float* to, intptr_t n, void* user) noexcept nogil
cdef void zero_nans_double(const double* items, double* to, intptr_t n, void* user) noexcept nogil
