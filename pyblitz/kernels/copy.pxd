"""Copies: pieces one after the other, and from one order of axes to another."""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.kernels.map cimport Map, loop_fn
from pyblitz.runtime.pool cimport Worker

cdef struct Join:
    char* dst               # the rows of the result, one behind the other
    int64_t outer           # the number of rows
    int64_t parts           # the number of arrays that are joined
    const char** src        # [parts]: each array, which gives one piece to each row
    const int64_t* ends     # [parts]: where its piece ends in a row, in bytes

cdef int join_run(Worker* w, Join* j) noexcept nogil

# The loop (from, to) for map_run, whose `data` is the itemsize; bits: see unit_of.
cdef loop_fn copy_loop(intptr_t itemsize, intptr_t bits) noexcept nogil
# Copies operand 0 to operand 1; where the orders of their axes differ, in tiles.
cdef int copy_run(Worker* w, Map* m, intptr_t itemsize) noexcept nogil
