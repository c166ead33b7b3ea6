"""Selecting items by masks."""
from numpy cimport ndarray

# a[mask], for booleans of the shape of a or of its first axes; and (a[mask], a[~mask]).
cdef object filter_by_mask(ndarray a, ndarray mask)
cdef tuple partition_by_mask(ndarray a, ndarray mask)
# np.flatnonzero(mask), for booleans.
cdef object flatnonzero_of_mask(ndarray mask)
# Where a is not 0, as booleans in the layout of a; None: it cannot be told here.
cdef object mask_of(ndarray a)
# np.nonzero(a), or what is left to it.
cdef object nonzero(ndarray a)
