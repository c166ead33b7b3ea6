"""What Python needs of the runtime, and the runtime of Python: thread states,
exceptions, signals, the global pool, and ``ThreadPool``.

Every entry from outside goes through ``enter`` and ``leave``.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from pyblitz.runtime.call cimport Call, Part, Progress
from pyblitz.runtime.lane cimport Lane
from pyblitz.runtime.pool cimport Pool, Worker

cdef struct Entry:
    Worker* worker
    bint outermost      # this entry made the thread a worker

cdef struct Caller:
    void* gil           # what it let go of, or NULL
    bint unheard        # Python does not know this thread: nobody hears of an exception

# Around what is called from anywhere.  With ``lets_go``, a caller that holds the GIL does
# without it meanwhile.  caller_end takes the result, and returns it; the exception of a
# caller that Python does not know goes to sys.unraisablehook.
cdef void caller_begin(Caller* c, bint lets_go) noexcept nogil
cdef int caller_end(Caller* c, int rc) noexcept nogil
# Of such a caller's mistake, before it is raised: the exception stays set until then.
cdef void caller_mistaken() noexcept nogil
cdef void* let_go() noexcept nogil
cdef void take_back(void* gil) noexcept nogil

# With an exception on failure, or when what this thread does is to stop; no GIL
# needed.
cdef int enter(Entry* e) except -1 nogil
# With the result of the operation, -1 if it raised; returns what it is now.
cdef int leave(Entry* e, int rc) noexcept nogil
cdef Pool* borrow() except NULL nogil
# Whether what is called here has one thread, and nobody who may stop it or wants to know how far
# it is.
cdef bint is_alone() noexcept nogil

# Runs fn(w, ctx) in this thread as a worker of its pool, whether it holds the GIL or not, and
# returns what that returns.  For what must not be left half done: nothing stops it, neither
# a signal nor a CancelScope.  ``ran``: False if there was no memory for it.
ctypedef int (*job_to_end)(Worker* w, void* ctx) noexcept nogil
cdef int run_to_end(job_to_end fn, void* ctx, bint* ran) noexcept nogil

# The exception that is set, with its traceback, which then is set no more; NULL: none.
# And back.
cdef void* capture() noexcept nogil
cdef void restore(void* error) noexcept nogil
cdef object submit_call(Pool* p, set pending, object fn, tuple args, dict kwargs, bint keyed, uint64_t key)

cdef class Recording:
    cdef Pool* _pool            # NULL: it ended
    cdef object _owner          # the ThreadPool that it is, or None
    cdef int _n
    cdef uint64_t* _before      # [worker][counter]
    cdef int64_t _began
    cdef uint32_t _number       # of Stats.recording
    cdef object _last
    cdef object _end(self)
    cdef object _read(self)

cdef class CancelScope:
    cdef Call _call
    cdef Call* _before      # the thread's, outside the block
    cdef Worker* _worker    # that the thread is, or NULL
    cdef Part* _part        # what that is in the middle of
    cdef object _timeout
    cdef object _thread     # that is in the block, or None

cdef class ProgressScope(CancelScope):
    cdef Progress _progress
    cdef object _callback
    cdef object _context
    cdef int64_t _done      # as last told; monotonic, whatever is read
    cdef int64_t _total

# What a ThreadPool leaves behind.
cdef struct Dropped:
    Pool* pool
    Lane* lanes
    Dropped* next

cdef class NativePool:
    cdef Pool* _pool
    cdef Dropped* _left         # made with the pool: its lanes, and its place in a list
    cdef readonly int num_threads
    cdef bint _closed
    cdef object _joining    # a lock: whoever holds it ends the threads
    cdef set _pending       # the futures of jobs that have not begun
    cdef tuple _cpus
    cdef int64_t _idle_ns
    cdef int _keep
    cdef int _make(self) except -1
    cdef object __weakref__
    cdef Pool* _native(self) except NULL
    cdef int64_t _blocks        # of `threads`, that are open: so many of the pool's users
    cdef Worker* _enter(self) except NULL
    cdef object _count_blocks(self, int64_t more)

cdef class threads:
    cdef NativePool _pool
    cdef Worker* _worker    # that the thread is in the block
    cdef void* _mark        # its call, and what it is in the middle of, when the block began
    cdef Part* _part
    cdef object _thread     # that is in the block, or None
