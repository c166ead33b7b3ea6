"""The interpreter as the runtime needs it: see interpreter.pxd."""
import concurrent.futures
import os
import sys
import threading

from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from pyblitz.runtime.atomic cimport unlikely
from pyblitz.runtime.call cimport STOP_FORKED, STOP_NOT_WANTED, STOP_TIME_IS_UP, Stop
from pyblitz.runtime.pool cimport current_worker, set_hooks

cdef extern from *:
    """
    #include <pthread.h>

    /* One thread state for each worker's life.  PyThreadState_New needs no GIL,
     * so that a starting worker never waits for a caller that holds it; from
     * then on PyGILState_Ensure in this thread finds the state. */
    static PyInterpreterState *pb_interp;
    static unsigned long pb_main_ident;

    /* Python links states into a list under a lock.  Up to 3.11.7 a forked child takes that
     * lock before it makes it anew (gh-112275), and waits for ever if a thread had it at the
     * fork.  Python's own threads have the GIL then, as who forks has; ours do not. */
    #if PY_VERSION_HEX < 0x030C0000
    static pthread_mutex_t pb_states = PTHREAD_MUTEX_INITIALIZER;
    static void pb_lock_states(void) { pthread_mutex_lock(&pb_states); }
    static void pb_unlock_states(void) { pthread_mutex_unlock(&pb_states); }
    static int pb_guard_states(void) {
      return pthread_atfork(pb_lock_states, pb_unlock_states, pb_unlock_states);
    }
    #else
    static void pb_lock_states(void) {}
    static void pb_unlock_states(void) {}
    static int pb_guard_states(void) { return 0; }
    #endif

    /* Python 3.11's PyThreadState_New writes to the state that it had no memory for: these
     * are its two halves. */
    #if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
    PyAPI_FUNC(void) _PyThreadState_SetCurrent(PyThreadState *);
    static PyThreadState *pb_try_new_state(void) {
      PyThreadState *t = _PyThreadState_Prealloc(pb_interp);
      if (t != NULL)
        _PyThreadState_SetCurrent(t);
      return t;
    }
    #else
    static PyThreadState *pb_try_new_state(void) { return PyThreadState_New(pb_interp); }
    #endif

    /* NULL: no memory. */
    static PyThreadState *pb_new_state(void) {
      PyThreadState *t;
      pb_lock_states();
      t = pb_try_new_state();
      pb_unlock_states();
      return t;
    }

    static int pb_thread_begin(void) { return pb_new_state() != NULL; }

    /* A thread that Python did not know (a C library's) gets a state when it first
     * calls in, and keeps it: an exception that is set in a state that ends with the
     * `with gil` block around it goes with that. */
    static _Thread_local PyThreadState *pb_stranger;
    /* Whether one of its exceptions is set that nobody was told of. */
    static _Thread_local int pb_mistaken;
    static pthread_key_t pb_stranger_key;
    static int pb_ending;

    /* Whether it never ran any Python, and so refers to nothing. */
    static int pb_is_blank(const PyThreadState *t) {
    #if PY_VERSION_HEX >= 0x030B0000
      if (t->datastack_chunk != NULL)
        return 0;
    #endif
      return t->dict == NULL && t->context == NULL && !pb_mistaken;
    }

    static void pb_tell_nobody(void) {
      pb_mistaken = 0;
      if (PyErr_Occurred())
        PyErr_WriteUnraisable(NULL);
    }

    /* At the thread's end.  What did not need the GIL does not need it now: who waits
     * for the thread may hold it. */
    static void pb_stranger_ends(void *state) {
      PyThreadState *t = state;
      /* acquire: partner is pb_end; from then on Python frees it */
      if (__atomic_load_n(&pb_ending, __ATOMIC_ACQUIRE))
        return;
    #ifndef Py_GIL_DISABLED
      if (pb_is_blank(t)) {
        PyThreadState_Clear(t);
        pb_lock_states();
        PyThreadState_Delete(t);
        pb_unlock_states();
        return;
      }
    #endif
      PyEval_RestoreThread(t);
      pb_tell_nobody();
      PyThreadState_Clear(t);
      PyThreadState_DeleteCurrent();
    }

    static void pb_end(void) { __atomic_store_n(&pb_ending, 1, __ATOMIC_RELEASE); }

    /* Whether nobody above this call hears of an exception.  The GIL is not held. */
    static int pb_is_stranger(void) {
      PyThreadState *t = PyGILState_GetThisThreadState();
      if (t == NULL && !__atomic_load_n(&pb_ending, __ATOMIC_ACQUIRE)) {
        t = pb_stranger = pb_new_state();
        if (t != NULL)
          pthread_setspecific(pb_stranger_key, t);
      }
      /* More: it is in a `with gil` block of its own. */
      return t != NULL && t == pb_stranger && t->gilstate_counter == 1;
    }

    /* Gives up the GIL, and on a free-threaded build what it is there, if this thread
     * has it; what to take it back with, or NULL. */
    static void *pb_let_go(void) {
    #if PY_VERSION_HEX >= 0x030D0000
      PyThreadState *t = PyThreadState_GetUnchecked();
    #else
      PyThreadState *t = _PyThreadState_UncheckedGet();
      /* Up to 3.11 it is that of whichever thread holds the GIL. */
      if (t != NULL && t != PyGILState_GetThisThreadState())
        t = NULL;
    #endif
      return t != NULL ? PyEval_SaveThread() : NULL;
    }

    static void pb_take_back(void *t) {
      if (t != NULL)
        PyEval_RestoreThread(t);
    }

    static void pb_thread_end(void) {
      PyThreadState *t;
      /* acquire: partner is pb_end; of a pool that nobody could close, after Python's end */
      if (__atomic_load_n(&pb_ending, __ATOMIC_ACQUIRE))
        return;
      if (PyGILState_GetThisThreadState() == NULL)
        return; /* there was no memory for one */
      PyGILState_Ensure();
      t = PyThreadState_Get();
      PyThreadState_Clear(t);
      PyThreadState_DeleteCurrent();
    }

    static int pb_is_main_thread(void) {
      return PyThread_get_thread_ident() == pb_main_ident;
    }

    static int pb_make_key(void) {
      return pthread_key_create(&pb_stranger_key, pb_stranger_ends);
    }

    static void pb_remember(unsigned long main_ident) {
      pb_interp = PyInterpreterState_Get();
      pb_main_ident = main_ident;
    }

    /* A new reference to the exception that is set, with its traceback; it is
     * set no more.  NULL: none is. */
    static PyObject *pb_take_exception(void) {
    #if PY_VERSION_HEX >= 0x030C0000
      return PyErr_GetRaisedException();
    #else
      PyObject *type, *value, *traceback;
      PyErr_Fetch(&type, &value, &traceback);
      if (type == NULL)
        return NULL;
      PyErr_NormalizeException(&type, &value, &traceback);
      if (traceback != NULL) {
        PyException_SetTraceback(value, traceback);
        Py_DECREF(traceback);
      }
      Py_DECREF(type);
      return value;
    #endif
    }

    /* Raises it, and takes the reference. */
    static void pb_set_exception(PyObject *value) {
    #if PY_VERSION_HEX >= 0x030C0000
      PyErr_SetRaisedException(value);
    #else
      Py_INCREF(Py_TYPE(value));
      PyErr_Restore((PyObject *)Py_TYPE(value), value,
                    PyException_GetTraceback(value));
    #endif
    }
    """
    bint py_thread_start "pb_thread_begin"() noexcept nogil
    void py_thread_stop "pb_thread_end"() noexcept nogil
    bint py_is_main_thread "pb_is_main_thread"() noexcept nogil
    void remember "pb_remember"(unsigned long)
    int make_key "pb_make_key"()
    int guard_states "pb_guard_states"()
    void end "pb_end"()
    bint is_stranger "pb_is_stranger"() noexcept nogil
    bint pb_mistaken
    void tell_nobody "pb_tell_nobody"()
    void* py_let_go "pb_let_go"() noexcept nogil
    void py_take_back "pb_take_back"(void*) noexcept nogil
    PyObject* take_exception "pb_take_exception"()
    void set_exception "pb_set_exception"(PyObject*)
    PyObject* PyErr_Occurred()


# ---- hooks ------------------------------------------------------------------

cdef void* capture() noexcept nogil:
    with gil:
        return take_exception()


cdef void restore(void* error) noexcept nogil:
    # NULL: a kernel returned -1 without an exception
    if error != NULL:
        with gil:
            set_exception(<PyObject*>error)


cdef void drop(void* error) noexcept nogil:
    with gil:
        Py_DECREF(<object><PyObject*>error)


cdef int raised() except -1:
    return -1


cdef int check(int rc, str what) except -1:
    if rc == -1:
        raised()
    if rc != 0:
        raise MemoryError(f"no memory for {what}")
    return 0


cdef bint is_raised() noexcept nogil:
    with gil:
        return PyErr_Occurred() != NULL


cdef void stop(Stop why) noexcept nogil:
    with gil:
        try:
            if why == STOP_TIME_IS_UP:
                raise TimeoutError("the operation took longer than its CancelScope allows")
            if why == STOP_FORKED:
                raise RuntimeError("this process was forked in the middle of the operation: the "
                                   "threads that have parts of it are not here")
            if why == STOP_NOT_WANTED:
                raise concurrent.futures.CancelledError("another part of the operation failed")
            # Of an interrupted one this is seen only inside: see leave.
            raise concurrent.futures.CancelledError("the operation was cancelled")
        except BaseException as e:
            Py_INCREF(e)
            error = <PyObject*>e
        set_exception(error)


cdef void exit_child() noexcept nogil:
    """As multiprocessing ends a forked child.  Python is not finalized: from 3.13 on that goes by the
    state of the main thread, which was the parent's, and is gone."""
    with gil:
        for file in (sys.stdout, sys.stderr):
            try:
                file.flush()
            except BaseException:
                pass        # None, closed, or nobody reads it
        os._exit(0)


the_hooks.stop = stop
the_hooks.capture = capture
the_hooks.restore = restore
the_hooks.drop = drop
the_hooks.is_raised = is_raised
the_hooks.thread_start = py_thread_start
the_hooks.thread_stop = py_thread_stop
the_hooks.is_main_thread = py_is_main_thread
the_hooks.exit_child = exit_child
the_hooks.let_go = py_let_go
the_hooks.take_back = py_take_back
if make_key() != 0 or guard_states() != 0:
    raise MemoryError("pthread_key_create")
set_hooks(&the_hooks)


def _remember():
    remember(threading.main_thread().ident)


_remember()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_remember)


cdef void interpreter_ends() noexcept:
    end()


# ---- whoever calls ----------------------------------------------------------

cdef void* let_go() noexcept nogil:
    return py_let_go()


cdef void take_back(void* gil) noexcept nogil:
    py_take_back(gil)


cdef void caller_begin(Caller* c, bint lets_go) noexcept nogil:
    c.gil = py_let_go() if lets_go else NULL
    c.unheard = c.gil == NULL and is_stranger() and current_worker() == NULL
    if unlikely(c.unheard and pb_mistaken):
        with gil:
            tell_nobody()


cdef int caller_end(Caller* c, int rc) noexcept nogil:
    if unlikely(c.unheard and rc == -1):
        with gil:
            tell_nobody()
    py_take_back(c.gil)
    return rc


cdef void caller_mistaken() noexcept nogil:
    global pb_mistaken
    cdef Caller c
    caller_begin(&c, False)
    if c.unheard:
        pb_mistaken = True
