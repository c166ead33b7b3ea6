"""One of two items, by a mask."""
from libc.stdint cimport intptr_t
from pyblitz.kernels.map cimport loop_fn

# (mask, x, y, to), for map_run; `data` is the itemsize.
cdef loop_fn where_loop(intptr_t itemsize, intptr_t bits) noexcept nogil
