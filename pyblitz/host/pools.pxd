"""The global pool, who enters it, and pools that end.

Every entry from outside goes through ``enter`` and ``leave``.
"""
from pyblitz.runtime.lane cimport Lane
from pyblitz.runtime.pool cimport Pool, Worker

cdef struct Entry:
    Worker* worker      # the worker that this thread is
    bint outermost      # this entry made the thread a worker

# With an exception on failure, or when what this thread does is to stop; no GIL
# needed.
cdef int enter(Entry* e) except -1 nogil
# With the result of the operation, -1 if it raised; returns what it is now.
cdef int leave(Entry* e, int rc) noexcept nogil
# The pool of an operation that is called here, made if need be; the caller is its user until
# job_done.
cdef Pool* borrow() except NULL nogil
# Whether what is called here has one thread, and nobody who may stop it or wants to know how far
# it is.
cdef bint is_alone() noexcept nogil

# Runs fn(w, ctx) in this thread as a worker of its pool, whether it holds the GIL or not, and
# returns what that returns.  For what must not be left half done: nothing stops it, neither
# a signal nor a CancelScope.  ``ran``: False if there was no memory for it.
ctypedef int (*job_to_end)(Worker* w, void* ctx) noexcept nogil
cdef int run_to_end(job_to_end fn, void* ctx, bint* ran) noexcept nogil

# For pools of one's own.  Their Python objects, by id, until they are closed: the interpreter's
# end closes the rest.
cdef object open_pools
cdef Lane* new_lanes() except NULL
cdef Pool* new_pool(int num_threads, Lane* lanes) except NULL

# What a ThreadPool leaves behind.
cdef struct Dropped:
    Pool* pool              # one that was told to end
    Lane* lanes             # its lanes, freed with it
    Dropped* next           # the one that was dropped before

# Of a pool that was told to end, or will be at once: whoever comes by when it has ended frees it.
cdef void add_dropped(Dropped* d) noexcept nogil
cdef void reap_dropped() noexcept

# Guards what is replaced: the global pool, and what belongs to all threads above.  Reentrant: the
# garbage collector may run destructors that ask for the number of threads.
cdef object lock

# Whose workers are being recorded, or NULL: nobody's.  ``end`` is called before that pool is
# freed.  With the lock.
ctypedef int (*end_fn)() except -1
cdef void set_recorded(Pool* p, end_fn end) noexcept
