"""Selecting, for other operations."""
from numpy cimport ndarray

# a[mask], for booleans of the shape of a or of its first axes.
cdef object filter_by_mask(ndarray a, ndarray mask)
# (a[mask], a[~mask])
cdef tuple partition_by_mask(ndarray a, ndarray mask)
# np.flatnonzero(mask), for booleans.
cdef object flatnonzero_of_mask(ndarray mask)
# Where a is not 0, as booleans in the layout of a; None: it cannot be told here.
cdef object mask_of(ndarray a)
# np.copyto(out, a, casting); and a in C order, itself if it is.
cdef object copy_into(ndarray out, ndarray a, str casting)
cdef object contiguous(ndarray a)
