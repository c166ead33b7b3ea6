"""What functions that run as forks and as tasks share: which failure counts, and what it stops."""
from libc.stdint cimport int64_t

cdef int check_callable(object fn, str name) except -1
# From where on nothing is wanted when i has failed: all stops that can when it was
# Ctrl-C, or an exit, which only one thread hears of.
cdef int64_t failed_from(int64_t i, object error) noexcept
