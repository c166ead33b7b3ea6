"""Sorting by a user's comparison, for other operations."""
from numpy cimport ndarray

# np.sort(a, axis, kind='stable'), or with indices np.argsort, in the order of a compiled
# function `less`; checks axis, less and out.
cdef object sort_by_kernel(ndarray a, object axis, object less, bint descending, object out,
                           bint indices)
