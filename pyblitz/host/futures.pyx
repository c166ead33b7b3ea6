"""Futures: see futures.pxd."""
import concurrent.futures
import functools
import threading
from concurrent.futures._base import LOGGER

from pyblitz.runtime.os cimport wait_for_memory


cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define PB_FREE_THREADED 1
    #else
    #define PB_FREE_THREADED 0
    #endif
    """
    const bint FREE_THREADED "PB_FREE_THREADED"

# A call of Python's own: the first one in a thread allocates its frames, which stay.
call_python = eval("lambda: None")


class Condition(threading.Condition):
    """One whose wait a signal's handler leaves with the lock as it was: compiled, so that
    handlers run only while it waits."""

    def wait(self, timeout=None):
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        state = self._release_save()
        notified = False
        try:
            if timeout is None:
                notified = waiter.acquire()
            else:
                notified = waiter.acquire(timeout > 0, max(timeout, 0) or -1)
        finally:
            self._acquire_restore(state)
            if not notified and waiter in self._waiters:
                self._waiters.remove(waiter)
        return notified


cdef object unlocked(object future, object fn, tuple args, dict kwargs):
    """fn(*args, **kwargs), which locks the future for a while.  A signal's handler that raises
    between two instructions of Python's, one of which has taken the lock, leaves it held
    for ever: whoever ended the future would hang."""
    lock = future._condition._lock
    cdef bint held = lock._is_owned()
    try:
        return fn(*args, **kwargs)
    except BaseException:
        while not held and lock._is_owned():
            lock.release()
        raise


def unlocking(method):
    @functools.wraps(method)
    def call(self, *args, **kwargs):
        return unlocked(self, method, (self, *args), kwargs)

    return call


class Future(concurrent.futures.Future):
    """The standard library's, which Ctrl-C cannot leave locked."""

    def __init__(self):
        super().__init__()
        self._condition = Condition()
        # Now, while there is memory.
        self._ending = Ending.__new__(Ending)


for method in ("cancel", "cancelled", "running", "done", "add_done_callback", "result", "exception",
               "set_running_or_notify_cancel", "set_result", "set_exception"):
    setattr(Future, method, unlocking(getattr(concurrent.futures.Future, method)))
del method


# ---- told without memory ----------------------------------------------------
#
# What `set_running_or_notify_cancel`, `set_result` and `set_exception` do, in steps of which each
# is done once.  A thread's first call of Python's allocates, so it may fail: then here
# whoever waits in `result` is woken all the same, for it may hold what memory there is.

cdef bint begin_future(object future) except -1:
    lock = future._condition._lock
    lock.acquire()
    try:
        if future._state == "PENDING":
            future._state = "RUNNING"
            return True
    finally:
        lock.release()
    return False


cdef object end_future(object future, object result, object error):
    cdef Ending ending = future._ending
    cdef object late = None
    cdef bint failed = True
    while failed:
        failed = False
        try:
            ending.tell(future, result, error)
        except MemoryError:
            failed = True
        except BaseException as e:      # of a signal's handler, in a wait for the lock
            late = e
            failed = True
        if failed:
            with nogil:
                wait_for_memory()
    if ending.late is not None:
        late, ending.late = ending.late, None
    if FREE_THREADED:
        # What other threads let go of is freed by the one that made it, when it next calls
        # Python; a job may be a function in C.
        try:
            call_python()
        except MemoryError:
            pass
        except BaseException as e:      # of a signal's handler
            late = e
    ending.waiters = None
    return late


cdef class Ending:
    """How far the end of a future was told."""
    cdef str how            # the method of those who wait; None: it has not ended
    cdef tuple waiters      # of `wait` and `as_completed`
    cdef Py_ssize_t told, called    # how many waiters, and callbacks, have been told
    cdef bint over          # whether all waiters have been told
    cdef object late        # the last exception of a signal's handler or callback meanwhile, or None

    cdef int tell(self, object future, object result, object error) except -1:
        condition = future._condition
        lock = condition._lock
        if not self.over:
            lock.acquire()
            try:
                self.settle(future, result, error)
                wake_all(condition)
                self.tell_waiters(future)
                self.over = True
            finally:
                lock.release()
        # Those of a cancelled one were called by `cancel`.
        if self.how == "add_result" or self.how == "add_exception":
            self.call_back(future)
        return 0

    cdef int settle(self, object future, object result, object error) except -1:
        if self.how is not None:
            return 0
        state = future._state
        cdef tuple waiters = tuple(future._waiters)
        self.waiters = waiters
        if state == "CANCELLED":
            future._state = "CANCELLED_AND_NOTIFIED"
            self.how = "add_cancelled"
        elif state == "PENDING" or state == "RUNNING":
            future._result = result
            future._exception = error
            future._state = "FINISHED"
            self.how = "add_result" if error is None else "add_exception"
        else:                   # by somebody else, who told it
            self.waiters = ()
            self.how = ""
        return 0

    cdef int tell_waiters(self, object future) except -1:
        while self.told < len(self.waiters):
            try:
                getattr(self.waiters[self.told], self.how)(future)
            except MemoryError:
                raise
            except BaseException as e:
                self.late = e
            self.told += 1
        return 0

    cdef int call_back(self, object future) except -1:
        """Each once; before, there is to be memory for the call."""
        cdef list callbacks = future._done_callbacks
        while self.called < len(callbacks):
            try:
                call_python()
            except MemoryError:
                raise
            except BaseException as e:      # of a signal's handler
                self.late = e
            self.called += 1
            try:
                callbacks[self.called - 1](future)
            except Exception:
                self.report(future)
            except BaseException as e:
                self.late = e
        return 0

    cdef int report(self, object future) except -1:
        try:
            LOGGER.exception("exception calling callback for %r", future)
        except BaseException as e:
            self.late = e
        return 0


cdef int wake_all(object condition) except -1:
    """As `notify_all`, of which a signal's handler may have stopped one half way."""
    waiting = condition._waiters
    while waiting:
        lock = waiting.popleft()
        if lock.locked():
            lock.release()
    return 0
