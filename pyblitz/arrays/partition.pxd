"""Partitions."""

# Whether NumPy has vectors for its partition that are fast here.  Tests set it.
cdef bint numpys_are_fast
