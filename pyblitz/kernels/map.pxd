"""Elementwise loops over strided operands.

A loop has NumPy's inner-loop signature, so that a ufunc's own SIMD loop and a
user's compiled function are the same to the bridge.  No Python, no NumPy.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.pool cimport Worker

# n = dims[0] elements; operand k's are at args[k], steps[k] bytes apart.
ctypedef void (*loop_fn)(char** args, const intptr_t* dims, const intptr_t* steps,
                         void* data) noexcept nogil

cdef enum:
    MAP_OPERANDS = 8
    MAP_DIMS = 8
    # What the operands of one leaf take together: fits into L2 beside others,
    # and is some thousand times what a leaf costs around it.
    LEAF_BYTES = 131072

cdef struct Map:
    loop_fn loop
    void* data
    int operands
    int dims
    int64_t size                            # elements
    int64_t shape[MAP_DIMS]                 # outermost first
    intptr_t strides[MAP_DIMS][MAP_OPERANDS]    # bytes
    char* base[MAP_OPERANDS]
    atomic_u32 flags                        # floating-point flags seen

cdef void map_normalize(Map* m, int out) noexcept nogil
cdef int64_t map_grain(int64_t bytes_per_item) noexcept nogil
cdef int map_run(Worker* w, Map* m, int64_t grain) noexcept nogil
