"""Copies: pieces one after the other, and from one order of axes to another."""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.map cimport Map, loop_fn
from pyblitz.runtime.pool cimport Worker

cdef struct Join:
    char* dst               # [outer] rows
    int64_t outer
    int64_t parts
    const char** src        # [parts]: each [outer] pieces
    const int64_t* ends     # [parts]: bytes; where a part's piece ends in a row

cdef int join_run(Worker* w, Join* j) noexcept nogil

# (from, to), for map_run; `data` is the itemsize.
cdef loop_fn copy_loop(intptr_t itemsize, intptr_t bits) noexcept nogil
# Operand 0 to operand 1, both in tiles if their orders differ.
cdef int copy_run(Worker* w, Map* m, intptr_t itemsize) noexcept nogil
