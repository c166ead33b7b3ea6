"""What sorts indices, for the operations that build on it."""
# The permutation (intp) that stably sorts 1-D arrays of one length by keys[0], then by
# keys[1] ...; None when NumPy is to do it.
cdef object sorting_order(list keys, bint descending)
