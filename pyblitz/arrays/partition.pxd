"""Partitions."""

# For tests: whether NumPy's are to be taken for fast.
cdef void partitions_are(bint fast) noexcept
