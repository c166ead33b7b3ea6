"""Orders of any keys, for what builds on them."""
from numpy cimport ndarray

# The permutation (int64 or intp) that stably sorts by keys[0], then by keys[1] ..., 1-D arrays of one
# length; downs: of each, whether from the greatest down.  Keys that NumPy alone can compare
# are left to it (see front.pxd), unless this is `alone`.
cdef object order_by_columns(list keys, list downs, bint alone)
# The key itself, or a copy that kernels can read: native, aligned, in C order.
cdef ndarray plain_column(ndarray key)
cdef bint is_sortable(ndarray key)
