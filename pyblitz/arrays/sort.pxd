"""Sorting, for other operations."""
from numpy cimport ndarray

# np.sort of at least one item, or what is left to it: see front.pxd.
cdef object sort(ndarray x, object axis, object order, bint stable, bint descending, object out)
