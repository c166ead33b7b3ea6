"""Selecting items by masks."""
from numpy cimport ndarray

# np.flatnonzero(mask), for booleans.
cdef object flatnonzero_of_mask(ndarray mask)
# Where a is not 0, as booleans in the layout of a; None: it cannot be told here.
cdef object mask_of(ndarray a)
# Booleans as a copy, for NumPy's nonzero, which counts them before it looks again; others as they are:
# of numbers it counts again, and raises RuntimeError.
cdef object booleans_apart(object a)
# np.nonzero(a), or what is left to it.
cdef object nonzero(ndarray a)
