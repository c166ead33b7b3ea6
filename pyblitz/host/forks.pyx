"""Python functions as forks: ``join`` and ``broadcast``.

Each function runs in a copy of the context of whoever asked for it, and what it
raises reaches that one with its traceback.  Of several failures the one with the
lowest index is raised; all that comes before it has run, and of what comes after it
only what had begun: the bridge's principle, with a limit that only sinks.
"""
import contextvars

from libc.stdint cimport INT64_MAX, int64_t
from pyblitz.host.blocks cimport end_left_open, graver
from pyblitz.host.interpreter cimport raised
from pyblitz.host.pools cimport Entry, enter, leave
from pyblitz.runtime.atomic cimport (
    atomic_i64, i64_load_relaxed, i64_store_relaxed)
from pyblitz.runtime.call cimport Part, lower_limit
from pyblitz.runtime.join cimport join as join_forks
from pyblitz.runtime.pool cimport Worker, must_stop
from pyblitz.runtime.scope cimport broadcast as broadcast_tasks

cdef enum:
    # What run_side returns when this function or an earlier one failed.  The Side keeps the exception;
    # later functions do not begin.
    FAILED = 1


cdef int check_callable(object fn, str name) except -1:
    if not callable(fn):
        raise TypeError(f"{name} must be callable, and {type(fn).__name__} is not")
    return 0


cdef class Side:
    """One call, and what came of it.  One thread at a time uses it."""
    cdef object fn          # the function
    cdef object context     # the copy that fn runs in
    cdef object result      # what it returned
    cdef object error       # what it raised, or None
    cdef bint ran           # whether it returned

    def __init__(self, fn):
        self.fn = fn
        self.context = contextvars.copy_context()

    cdef void run(self, bint stop) noexcept:
        """``stop``: an exception is set already."""
        try:
            if stop:
                raised()
            self.result = self.context.run(self.fn)
            self.ran = True
        except BaseException as error:
            self.error = error

    cdef int add(self, object error) except -1:
        """Of what the call has left open; None: nothing."""
        if error is not None and graver(self.error, error) is error:
            self.error = error
            self.ran = False
        return 0


cdef struct Sides:
    void* sides         # list of Side
    atomic_i64 limit    # sides from this index on are not wanted
    Part* outer         # what the caller is in the middle of

cdef struct SideRange:
    Sides* join
    int64_t lo
    int64_t hi


cdef int64_t failed_from(int64_t i, object error) noexcept:
    return i if isinstance(error, Exception) else -1


cdef int run_side(Worker* w, Sides* j, int64_t i) noexcept nogil:
    cdef Part part
    cdef Part* before = w.part
    cdef void* mark = w.mark_of_call
    cdef bint stop
    cdef int64_t limit
    # relaxed: a hint; something before it failed, or an exit
    if i >= i64_load_relaxed(&j.limit):
        return FAILED
    part.limit = &j.limit
    part.at = i
    part.outer = j.outer
    w.part = &part
    stop = must_stop(w, 0)
    with gil:
        side = <Side>(<list>j.sides)[i]
        side.run(stop)
        side.add(end_left_open(w, &part, mark))
        limit = INT64_MAX if side.error is None else failed_from(i, side.error)
        side = None
    w.part = before
    lower_limit(&j.limit, limit)
    return 0 if limit == INT64_MAX else FAILED


cdef int finish(Entry* e, int rc, list sides) except -1:
    """The end of the operation: raises what the caller is to see.  rc is -1 if an exception is set that
    says why the caller was told to stop; other values are ignored."""
    cdef bint interrupted = e.worker.interrupt != NULL
    cdef Side side
    rc = leave(e, rc)
    failure = stopped = None
    try:
        if rc == -1:
            raised()
    except BaseException as error:
        stopped = error
    for side in sides:
        error, side.error = side.error, None
        failure = graver(failure, error)
    if failure is not None and not interrupted:
        raise failure
    if stopped is not None:
        raise stopped
    return 0


cdef int run_sides(Worker* w, void* ctx) noexcept nogil:
    cdef SideRange* r = <SideRange*>ctx
    cdef SideRange left, right
    if r.hi - r.lo == 1:
        return run_side(w, r.join, r.lo)
    left.join = right.join = r.join
    left.lo, right.hi = r.lo, r.hi
    left.hi = right.lo = r.lo + ((r.hi - r.lo + 1) >> 1)
    return join_forks(w, run_sides, &left, run_sides, &right)


def join(*functions):
    """Calls functions in parallel, and returns when all are done.

    Parameters
    ----------
    *functions : callable
        One or more, called without arguments, each in a copy of the caller's context
        (so ``np.errstate`` holds in it too).  The first one runs here; the others
        run in other threads of the pool if these are free, and else here.

    Returns
    -------
    tuple
        What they returned, in their order.

    Raises
    ------
    TypeError
        When there is no argument, or one is not callable; then none is called.
    Exception
        What a function raised, with its traceback; if several failed, the first of
        them in their order.

    See Also
    --------
    scope : tasks that outlive their statement, and come from anywhere.

    Notes
    -----
    The list is halved until one function is left, and the second half is offered to
    other threads each time (fork and join).  Functions after one that failed do not
    begin any more, and operations of pyblitz in those that had begun stop; all that
    has begun is waited for.  (Ctrl-C and exits stop them all, and come out.)  While it waits
    this thread runs nothing else of Python's.  Of pure Python code one thread runs at a time,
    except in free-threaded Python.

    Examples
    --------
    >>> import numpy as np, pyblitz as pb
    >>> a = np.arange(6.0)
    >>> pb.join(lambda: a.sum(), lambda: np.sort(-a)[0])
    (np.float64(15.0), np.float64(-5.0))
    >>> def sort(x):                        # quicksort, for the idea
    ...     if len(x) < 2:
    ...         return x
    ...     low, high = [y for y in x[1:] if y < x[0]], [y for y in x[1:] if y >= x[0]]
    ...     low, high = pb.join(lambda: sort(low), lambda: sort(high))
    ...     return [*low, x[0], *high]
    >>> sort([3, 1, 4, 1, 5, 9, 2, 6])
    [1, 1, 2, 3, 4, 5, 6, 9]
    """
    cdef Sides j
    cdef SideRange all_of_them
    cdef Entry e
    cdef int rc
    if not functions:
        raise TypeError("join: expected one callable at least")
    for i, fn in enumerate(functions, 1):
        check_callable(fn, f"join: argument {i}")
    cdef list sides = [Side(fn) for fn in functions]
    j.sides = <void*>sides
    i64_store_relaxed(&j.limit, INT64_MAX)
    all_of_them.join = &j
    all_of_them.lo = 0
    all_of_them.hi = len(sides)
    with nogil:
        enter(&e)
        j.outer = e.worker.part
        rc = run_sides(e.worker, &all_of_them)
    finish(&e, rc, sides)
    return tuple([(<Side>side).result for side in sides])


cdef struct Broadcast:
    Sides join           # sides: the caller, then the pool's own threads
    Worker* caller


cdef int run_everywhere(Worker* w, void* ctx) noexcept nogil:
    cdef Broadcast* b = <Broadcast*>ctx
    run_side(w, &b.join, 0 if w == b.caller else w.index + 1)
    return 0


def broadcast(f):
    """Calls a function once in each thread of the pool, and returns when all are done.

    Parameters
    ----------
    f : callable
        Called without arguments, each time in a copy of the caller's context.

    Returns
    -------
    list
        What the calls returned: the caller's own first, then those of the pool's
        threads.  As many as `num_threads` says; one less when the caller is itself a
        thread of the pool, and fewer when the system refuses to start a thread.

    Raises
    ------
    TypeError
        When ``f`` is not callable.
    Exception
        What a call raised, with its traceback; if several did, the first of them in
        the order of the list.  Calls after it do not begin any more.

    Notes
    -----
    A thread that is in the middle of something makes its call when it has finished
    that, or waits within it for something else.  So whatever the caller holds, a lock
    for instance, must not keep the others from finishing.

    Examples
    --------
    >>> import threading, pyblitz as pb
    >>> with pb.ThreadPool(3) as pool:
    ...     names = pool.install(pb.broadcast, threading.get_ident)
    >>> len(set(names))
    3
    """
    cdef Broadcast b
    cdef Entry e
    cdef int rc
    cdef list sides
    check_callable(f, "f")
    enter(&e)
    b.caller = e.worker
    try:
        sides = [Side(f) for _ in range(e.worker.pool.n_background + 1)]
    except BaseException:
        leave(&e, 0)
        raise
    b.join.sides = <void*>sides
    b.join.outer = e.worker.part
    i64_store_relaxed(&b.join.limit, INT64_MAX)
    with nogil:
        rc = broadcast_tasks(e.worker, run_everywhere, &b)
    finish(&e, rc, sides)
    if rc > 0:
        raise MemoryError("no memory for the broadcast")
    return [(<Side>s).result for s in sides if (<Side>s).ran]
