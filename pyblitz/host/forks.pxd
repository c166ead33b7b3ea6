"""What functions that run as forks and as tasks share: which failure counts, and what it stops."""
from libc.stdint cimport int64_t
from pyblitz.runtime.atomic cimport atomic_i64, i64_cas_relaxed, i64_load_relaxed
from pyblitz.runtime.call cimport Part
from pyblitz.runtime.pool cimport Worker

cdef int check_callable(object fn, str name) except -1
# From where on nothing is wanted when i has failed: all stops that can when it was
# Ctrl-C, or an exit, which only one thread hears of.
cdef int64_t failed_from(int64_t i, object error) noexcept
# Of two failures the one of the lower rank is raised, before the index counts.  That
# something was cancelled follows from another failure, when there is one.
cdef int rank_of_error(object error) noexcept

# After a function of Python's: ends the blocks that it has entered and not left, in a generator that
# hangs, say, for they refer to this Part and to calls that end with it.  mark: the worker's
# mark_of_call before.
cdef void end_left_open(Worker* w, Part* part, void* mark) noexcept
# Who knows the blocks says how the innermost one of a worker ends; False: there is none.
ctypedef bint (*end_block_fn)(Worker* w) noexcept
cdef void set_end_block(end_block_fn fn) noexcept


cdef inline void lower_limit(atomic_i64* limit, int64_t at) noexcept nogil:
    """Nothing at or past ``at`` is wanted any more."""
    # relaxed: a hint that saves work; results are read after the wait
    cdef int64_t seen = i64_load_relaxed(limit)
    while at < seen and not i64_cas_relaxed(limit, seen, at):
        seen = i64_load_relaxed(limit)
