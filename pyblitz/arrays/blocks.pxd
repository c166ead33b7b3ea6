"""Python functions called on blocks of arrays, or on their elements.

A function of arrays is called with slices along the first axis, from any thread, and holds the
GIL except where NumPy lets go of it.  That it is element by element cannot be known: a few
rows are computed once more in other company, and where they differ beyond rounding it raises.
"""
cdef enum:
    CHECKED_ITEMS = 64

cdef object map_blocks(object fn, tuple arrays, object out, object dtype, object casting, bint checked)
# Raises ValueError, if fn gives for some of these items something else by themselves than among all:
# CHECKED_ITEMS items of each argument.
cdef int check_items(object fn, list ins) except -1
cdef int refuse_known(object fn) except -1
cdef object map_elements(object fn, tuple arrays, object out, object dtype, object casting)
