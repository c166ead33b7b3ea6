"""See blocks.pxd."""
import concurrent.futures

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libc.stdint cimport int64_t
from pyblitz.host.interpreter cimport capture, restore, the_hooks
from pyblitz.runtime.call cimport Part
from pyblitz.runtime.pool cimport Worker, has_left_open, pool_is_stale

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef extern from *:
    """
    /* What this thread entered last and has not left, or NULL. */
    static _Thread_local PyObject *pb_innermost = NULL;
    /* How many it has entered. */
    static _Thread_local int64_t pb_entered = 0;
    """
    PyObject* innermost "pb_innermost"
    int64_t entered "pb_entered"


cdef class Block:
    cdef int _end_left_open(self) except -1:
        raise NotImplementedError

    cdef int _check_left(self) except -1:
        if self._ended:
            raise RuntimeError(f"this {type(self).__name__} ended when the function returned that had entered it, "
                               "which has not left it yet")
        return 0

    cdef int _too_late(self, object exc) except -1:
        self._ended = False
        # Nobody asked for it: the generator is closed, or collected.
        if not isinstance(exc, GeneratorExit):
            raise RuntimeError(f"this {type(self).__name__} ended when the function returned that had entered it")
        return 0


cdef void block_begins(Block b) noexcept:
    global innermost, entered
    entered += 1
    b._number = entered
    if innermost != NULL:
        b._outside = <Block>innermost
        Py_DECREF(b._outside)
    Py_INCREF(b)
    innermost = <PyObject*>b


cdef void block_ends(Block b) noexcept:
    global innermost
    cdef Block inside = None, at = None
    if innermost != NULL:
        at = <Block>innermost
    # Not always the innermost: in a forked child some are forgotten.
    while at is not None and at is not b:
        inside, at = at, at._outside
    if at is None:
        return      # another thread's, at the interpreter's end
    if inside is not None:
        inside._outside = b._outside
    else:
        innermost = NULL
        if b._outside is not None:
            Py_INCREF(b._outside)
            innermost = <PyObject*>b._outside
        Py_DECREF(b)
    b._outside = None


cdef object end_innermost(object gravest):
    """That failure, or a graver one."""
    cdef Block b = <Block>innermost
    failure = None
    try:
        b._end_left_open()
    except BaseException as error:
        failure = error
    b._ended = True
    block_ends(b)
    return graver(gravest, failure)


cdef object end_left_open(Worker* w, Part* part, void* mark):
    gravest = None
    # In a forked child they are of use to nobody.
    while has_left_open(w, part, mark) and innermost != NULL and not pool_is_stale(w.pool):
        gravest = end_innermost(gravest)
    w.part = part
    w.mark_of_call = mark
    return gravest


cdef int64_t last_entered() noexcept:
    return entered


cdef object end_later(int64_t number):
    gravest = None
    while innermost != NULL and (<Block>innermost)._number > number:
        gravest = end_innermost(gravest)
    return gravest


cdef object called_alone(object fn, tuple args):
    cdef int64_t before = entered
    try:
        result = fn(*args)
    except BaseException as error:
        late = end_later(before)
        if graver(error, late) is late:
            raise late
        raise
    late = end_later(before)
    if late is not None:
        raise late
    return result


cdef object graver(object error, object other):
    if error is None or (other is not None and rank_of_error(other) < rank_of_error(error)):
        return other
    return error


cdef int rank_of_error(object error) noexcept:
    if not isinstance(error, Exception):
        return 0
    return 2 if isinstance(error, concurrent.futures.CancelledError) else 1


cdef int give(object failure) noexcept:
    """To the runtime: 0 for None."""
    if failure is None:
        return 0
    Py_INCREF(failure)
    restore(<PyObject*>failure)
    return -1


cdef int end_for_runtime(Worker* w, Part* part, void* mark) noexcept nogil:
    cdef PyObject* kept = <PyObject*>capture()      # what the function has raised, or NULL
    with gil:
        failure = end_left_open(w, part, mark)
        error = None if kept == NULL else <object>kept
        Py_XDECREF(kept)
        return give(graver(error, failure))


cdef int poll() noexcept nogil:
    """Runs handlers of signals, on top of whatever this thread is in the middle of; -1: one raised."""
    cdef int64_t before
    with gil:
        before = entered
        failure = None
        try:
            PyErr_CheckSignals()
        except BaseException as error:
            failure = error
        return give(graver(failure, end_later(before)))


the_hooks.end_left_open = end_for_runtime
the_hooks.poll = poll
