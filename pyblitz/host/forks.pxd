"""What functions that run as forks and as tasks share: which failure counts, and what it stops."""
from libc.stdint cimport int64_t
from pyblitz.runtime.atomic cimport atomic_i64, i64_cas_relaxed, i64_load_relaxed

cdef int check_callable(object fn, str name) except -1
# From where on nothing is wanted when i has failed: all stops that can when it was
# Ctrl-C, or an exit, which only one thread hears of.
cdef int64_t failed_from(int64_t i, object error) noexcept

cdef inline void lower_limit(atomic_i64* limit, int64_t at) noexcept nogil:
    """Nothing at or past ``at`` is wanted any more."""
    # relaxed: a hint that saves work; results are read after the wait
    cdef int64_t seen = i64_load_relaxed(limit)
    while at < seen and not i64_cas_relaxed(limit, seen, at):
        seen = i64_load_relaxed(limit)
