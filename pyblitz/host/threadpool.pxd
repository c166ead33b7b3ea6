"""Pools of one's own, and Python functions as jobs of any pool."""
from libc.stdint cimport int64_t, uint64_t
from pyblitz.host.pools cimport Dropped
from pyblitz.runtime.pool cimport Pool, Worker

# Hands ``fn(*args, **kwargs)`` to a pool; the future, which is among ``pending``, unless that
# is None, until the call begins.  Takes over the caller's share of the pool's users.
cdef object submit_call(Pool* p, set pending, object fn, tuple args, dict kwargs, bint keyed, uint64_t key)

cdef class NativePool:
    cdef Pool* _pool            # the present native pool
    cdef Dropped* _left         # made with the pool: its lanes, and its place in a list
    cdef readonly int num_threads
    cdef bint _closed           # whether close was called
    cdef object _joining    # a lock: whoever holds it ends the threads
    cdef set _pending       # the futures of jobs that have not begun
    cdef tuple _cpus            # CPUs for its threads, in turn; empty: any
    cdef int64_t _idle_ns       # when an idle thread ends; -1: never
    cdef int _keep              # how many threads stay
    cdef int _make(self) except -1
    cdef object __weakref__
    cdef Pool* _native(self) except NULL
    cdef int64_t _blocks        # of `threads`, that are open: so many of the pool's users
    cdef Worker* _enter(self) except NULL
    cdef object _count_blocks(self, int64_t more)
