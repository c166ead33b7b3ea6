"""``CancelScope``, and how far an operation is."""
import inspect
import threading

cimport cython
from libc.stdint cimport INT64_MAX, int64_t
from pyblitz.host.blocks cimport Block, block_begins, block_ends, called_alone, end_later, graver
from pyblitz.runtime.atomic cimport i64_load_relaxed
from pyblitz.runtime.call cimport (
    GO_ON, STOP_CANCELLED, Call, Part, call_begin, call_init, call_stop, call_stopped,
    progress_init, progress_made, progress_told, tell_fn)
from pyblitz.runtime.join cimport promote_all
from pyblitz.runtime.os cimport now_ns
from pyblitz.runtime.pool cimport (
    Worker, change_call, current_call, current_worker, pool_is_stale, set_thread_call, thread_call)

from pyblitz.host.config import check_seconds


cdef class CancelScope(Block):
    """What the operations inside a ``with`` block may take, and a way to stop them.

    Parameters
    ----------
    timeout : float, optional
        Seconds from the beginning of the block, 0 or more.  By default they may
        take for ever.

    Raises
    ------
    TypeError, ValueError
        When ``timeout`` is no number, or NaN, or negative, or more than 1e9.

    See Also
    --------
    ThreadPool.submit : jobs are not a part of the block that submits them.

    Notes
    -----
    Inside the block every operation of pyblitz that this thread calls, and whatever
    such an operation leads to in other threads, raises `TimeoutError` when the time
    is up, or `concurrent.futures.CancelledError` after `cancel`.  It looks between
    its leaves, some 10 to 100 microseconds apart, in sorts up to 100 milliseconds; a
    Python function that runs at that moment runs to its end, and a compiled one until it
    polls.  What NumPy does by itself (small arrays, objects) is not stopped.  What an operation has written
    to ``out`` by then stays.

    Blocks may be nested: an inner one ends no later than the outer one.  A block
    belongs to the thread that entered it, and must be left there before any that it
    is nested in; in a coroutine it must not contain an ``await``.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> with pb.CancelScope(timeout=60):
    ...     pb.par_reduce(np.add, np.arange(1_000_000))
    np.int64(499999500000)
    >>> scope = pb.CancelScope()
    >>> scope.cancel()                      # from any thread
    >>> with scope:
    ...     pb.par_sort(np.arange(1_000_000)[::-1])
    Traceback (most recent call last):
        ...
    concurrent.futures._base.CancelledError: the operation was cancelled
    """

    cdef Call _call
    cdef Call* _before      # the thread's, outside the block
    cdef Worker* _worker    # that the thread is, or NULL
    cdef Part* _part        # what that is in the middle of
    cdef object _timeout
    cdef object _thread     # that is in the block, or None

    __signature__ = inspect.signature(lambda timeout=None: None)

    def __init__(self, timeout=None):
        if self._thread is not None:
            raise RuntimeError("this CancelScope is in use")
        self._timeout = check_seconds(timeout, "timeout")
        call_init(&self._call, INT64_MAX, NULL)

    def cancel(self):
        """Stops what runs in the block, now and later.  From any thread, also before
        the block begins; again is harmless.

        Examples
        --------
        >>> import threading, numpy as np, pyblitz as pb
        >>> with pb.CancelScope() as scope:
        ...     threading.Timer(0.1, scope.cancel).start()
        ...     while True:
        ...         _ = pb.par_map(np.sin, np.ones(1_000_000))
        Traceback (most recent call last):
            ...
        concurrent.futures._base.CancelledError: the operation was cancelled
        """
        call_stop(&self._call, STOP_CANCELLED)

    def cancelled(self):
        """Whether it was cancelled, or its time is up.

        Returns
        -------
        bool

        Examples
        --------
        >>> import pyblitz as pb
        >>> with pb.CancelScope(timeout=0) as scope:
        ...     scope.cancelled()
        True
        """
        return call_stopped(&self._call) != GO_ON or now_ns() >= self._call.deadline

    def __enter__(self):
        cdef Worker* w = current_worker()
        cdef int64_t deadline = INT64_MAX
        ident = threading.get_ident()
        with cython.critical_section(self):
            if self._thread is not None:
                raise RuntimeError("this CancelScope is in use")
            self._check_left()
            self._thread = ident
        # A worker's call changes only where it has no lazy fork: see README.md, 5.15.
        if w != NULL and not promote_all(w):
            self._thread = None
            raise MemoryError("no memory for one more CancelScope")
        self._before = thread_call()
        self._worker = w
        self._part = w.part if w != NULL else NULL
        if self._timeout is not None:
            deadline = now_ns() + <int64_t>self._timeout
        call_begin(&self._call, deadline, self._before)
        if w != NULL:
            change_call(w, &self._call)
        else:
            set_thread_call(&self._call)
        block_begins(self)
        return self

    def __exit__(self, type, exc, traceback):
        cdef Worker* w = self._worker
        if self._ended:
            self._too_late(exc)
            return
        if self._thread != threading.get_ident():
            raise RuntimeError("a CancelScope must be left in the thread that entered it")
        # A block of tasks in it keeps the call that it belongs to, and tells by the part.
        if w != current_worker() and not (w != NULL and pool_is_stale(w.pool)) or (
                thread_call() if w == NULL else current_call(w)) != &self._call or (
                w != NULL and w.part != self._part):
            raise RuntimeError("CancelScopes must be left in the reverse order")
        self._end_left_open()
        block_ends(self)

    cdef int _end_left_open(self) except -1:
        if self._worker != NULL:
            change_call(self._worker, self._before)
        else:
            set_thread_call(self._before)
        self._thread = None
        self._worker = NULL
        self._call.outer = NULL
        self._call.progress = NULL
        return 0


cdef class Listener:
    """Whoever asked how far something is: see progress.py.  The context is its own; one thread at
    a time enters it."""

    def __init__(self, callback, context):
        self.callback = callback
        self.context = context
        progress_init(&self.progress, <tell_fn>tell_listener, <void*>self, NULL)

    cpdef int tell(self, bint finished) except -1:
        """finished: nothing runs any more, and nothing is left."""
        # `done` first: `total` was never less.  But these are two variables.
        cdef int64_t done = i64_load_relaxed(&self.progress.done)
        cdef int64_t total = i64_load_relaxed(&self.progress.total)
        self.total = max(self.total, total)
        self.done = self.total if finished else max(self.done, min(done, self.total))
        called_alone(self.context.run, (self.callback, self.done, self.total))
        return 0

    cdef int count(self, int64_t items) except -1:
        if progress_made(&self.progress, items):
            # If it raises, `telling` stays taken: it is not called again.
            self.tell(False)
            progress_told(&self.progress, True)
        return 0


cdef int tell_listener(void* listener) except -1 nogil:
    with gil:
        (<Listener>listener).tell(False)
    return 0


cdef class ProgressScope(CancelScope):
    """A block whose operations tell a listener how far they are."""
    cdef Listener _listener

    def __init__(self, Listener listener):
        CancelScope.__init__(self)
        self._listener = listener

    def __enter__(self):
        cdef Worker* w = current_worker()
        CancelScope.__enter__(self)
        self._listener.progress.part = w.part if w != NULL else NULL
        self._call.progress = &self._listener.progress
        return self

    def __exit__(self, type, exc, traceback):
        # Of functions that the operation has called in this thread.
        late = end_later(self._number)
        CancelScope.__exit__(self, type, exc, traceback)
        if late is not None and graver(exc, late) is late:
            raise late
