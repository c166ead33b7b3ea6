"""Orders of any keys, for what builds on them."""
from numpy cimport ndarray

# The permutation (int64) that stably sorts by keys[0], then by keys[1] ...; whatever NumPy
# sorts.  1-D arrays of one length.
cdef ndarray order_of(list keys, bint descending)
# The key itself, or a copy that kernels can read: native, aligned, in C order.
cdef ndarray plain_column(ndarray key)
