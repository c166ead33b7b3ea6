"""Loops over compiled functions that a user brought.

Nothing is known of their cost, which may differ from element to element as in
Mandelbrot's set: leaves are as many elements as take some microseconds.  What a
function is called with never depends on that: a scalar kernel sees one element, a
block kernel always the same blocks.  No Python, no NumPy.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.map cimport Map, loop_fn
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.pool cimport Worker

cdef enum:
    KERNEL_INPUTS = 4
    # Elements that a block kernel is called with: enough to vectorise over, and
    # few enough to share when each of them is slow.
    KERNEL_BLOCK = 1024

cdef struct Kernel:
    void* fn
    void* user
    int inputs
    bint takes_user     # whether `user` is a last argument
    intptr_t itemsize

# void f(const T*, ..., T*, intptr_t, void*) on contiguous operands.
cdef struct Blocks:
    Kernel kernel
    char* base[KERNEL_INPUTS + 1]
    int64_t n
    atomic_u32 flags    # floating-point flags seen

# void f(intptr_t, intptr_t) or int f(intptr_t, intptr_t), either with a void*.
cdef struct Ranges:
    Kernel kernel
    bint gives_int      # not 0: it failed

cdef enum:
    # What stands for a kernel's own -1, which means an exception in a leaf.
    MINUS_ONE = -2147483648

# The loop over a scalar kernel of this type, any number of inputs; its data is the
# Kernel.  NULL: there is none.
cdef loop_fn scalar_loop(char kind, int itemsize) noexcept nogil
# The same for a block kernel, on rows without gaps.
cdef void block_loop(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil
cdef int scalars_run(Worker* w, Map* m) noexcept nogil
cdef int blocks_run(Worker* w, Blocks* b) noexcept nogil
# grain 0: ranges that take some microseconds.
cdef int ranges_run(Worker* w, Ranges* r, int64_t n, int64_t grain) noexcept nogil
