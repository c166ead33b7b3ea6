"""Partitions."""

# For tests: what NumPy's and ours are to take for an item, in nanoseconds; 0: as timed.
cdef void partitions_take(double numpys, double ours) noexcept
