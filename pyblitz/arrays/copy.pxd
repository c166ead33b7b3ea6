"""Copying: arrays into arrays, of any layout and dtype, and what a mask selects, on all cores."""
from libc.stdint cimport int64_t, intptr_t, uint8_t
from numpy cimport dtype, ndarray
from pyblitz.arrays.front cimport MOVE_NS, STRAIGHT_NS, Left, alone, pays
from pyblitz.kernels.filter cimport Filter

cdef enum:
    # So many elements NumPy's own calls do without giving the GIL away.
    BRIEF_ITEMS = 500

cdef inline bint pays_to_move(int64_t bytes) noexcept nogil:
    return pays(bytes, MOVE_NS)


cdef inline bint pays_to_copy(int64_t bytes) noexcept nogil:
    """Those that lie side by side, to where they do so again."""
    return pays(bytes, STRAIGHT_NS) and not alone(bytes)


# Whether items are bytes alone: no references, nothing outside.
cdef bint movable(dtype d)
# Whether it is writeable, and each item a place of its own.
cdef bint takes_items(ndarray a)
cdef tuple shape_of(ndarray a)
# Whether slices can be cast each by itself: nothing but floating-point flags is reported.
cdef bint casts_quietly(dtype source, dtype target)
# The same dtype, shapes that broadcast, no overlap.
cdef int copy_items(ndarray out, ndarray a) except -1
# np.copyto(out, a, casting); and by all workers, or nothing but the reason why not.
cdef int copy_into(ndarray out, ndarray a, str casting) except -1
cdef Left share_copy(ndarray out, ndarray a, str casting)
# a itself if it is so already, or else a copy.
cdef ndarray contiguous(ndarray a)              # in C order
cdef ndarray native(ndarray a)                  # of the machine's byte order, aligned
cdef ndarray native_row(ndarray a)              # both
cdef ndarray cast_to(ndarray a, dtype d)        # of that dtype, by any cast

# ``a[mask]`` of one axis, whose items lie side by side, by this thread alone; a byte of the mask for each.
cdef ndarray few_selected(ndarray a, const uint8_t* mask)
# The items that a mask of the first axes selects, and the others if both, by all workers.
cdef tuple select_items(ndarray a, ndarray mask, bint both)
# Counts what a contiguous mask selects; returns what must live as long as the selection.
cdef object set_mask(Filter* s, ndarray mask, intptr_t itemsize)
