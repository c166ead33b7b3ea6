"""Choice: each item is one of two, as a mask says."""
from libc.stdint cimport intptr_t
from pyblitz.kernels.map cimport loop_fn

# The loop (mask, x, y, to) for map_run, whose `data` is the itemsize; bits: see unit_of.
cdef loop_fn where_loop(intptr_t itemsize, intptr_t bits) noexcept nogil
