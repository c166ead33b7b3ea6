"""Kernels that run until they are told to stop."""
from libc.stdint cimport int64_t
from pyblitz cimport (
    Fork, Scope, Worker, fork, join, join_lazy, parallel_for, poll, run, scope, spawn, try_join)
from pyblitz.runtime.atomic cimport (
    atomic_i64, i64_fetch_add_relaxed, i64_load_acquire, i64_load_relaxed, i64_store_relaxed)
from pyblitz.runtime.os cimport yield_thread


cdef struct Spin:
    atomic_i64 running      # kernels that have begun
    atomic_i64 stopped      # kernels that were told to stop
    int64_t fails_at        # the item that fails when `others` run; -1: none does
    int64_t others


cdef class Spinner:
    cdef Spin s

    def __init__(self):
        i64_store_relaxed(&self.s.running, 0)
        i64_store_relaxed(&self.s.stopped, 0)
        self.s.fails_at = -1

    @property
    def running(self):
        return i64_load_acquire(&self.s.running)

    @property
    def stopped(self):
        return i64_load_acquire(&self.s.stopped)

    def wait(self, int64_t n):
        """Until n kernels run."""
        with nogil:
            while i64_load_acquire(&self.s.running) < n:
                yield_thread()

    def spin(self, str how, int64_t fails_at=-1, int64_t others=0):
        """Never returns; `fails_at`, of a loop or of a scope's tasks, raises KeyError
        when so many others run."""
        self.s.fails_at = fails_at
        self.s.others = others
        with nogil:
            if how_is(how, "run"):
                run(forever, &self.s)
            elif how_is(how, "join"):
                join(NULL, forever, &self.s, forever, &self.s)
            elif how_is(how, "lazy"):
                run(lazy, &self.s)
            elif how_is(how, "fork"):
                run(forked, &self.s)
            elif how_is(how, "for"):
                parallel_for(NULL, 8, each, &self.s, 1)
            elif how_is(how, "loops"):
                run(loop_of_loops, &self.s)
            elif how_is(how, "nested"):
                join(NULL, loop_of_loops, &self.s, loop_of_loops, &self.s)
            elif how_is(how, "scope"):
                scope(NULL, tasks, &self.s)


cdef bint how_is(str how, str name) noexcept nogil:
    with gil:
        return how == name


cdef int forever(Worker* w, void* ctx) except? -1 nogil:
    cdef Spin* s = <Spin*>ctx
    i64_fetch_add_relaxed(&s.running, 1)
    try:
        while True:
            poll(w)
    finally:
        i64_fetch_add_relaxed(&s.stopped, 1)
    return 0


cdef int lazy(Worker* w, void* ctx) except? -1 nogil:
    return join_lazy(w, forever, ctx, forever, ctx)


cdef int forked(Worker* w, void* ctx) except? -1 nogil:
    cdef Fork f
    cdef int rc = 0
    fork(w, &f, forever, ctx)
    try:
        forever(w, ctx)
    finally:
        if not try_join(w, &f, &rc):
            forever(w, ctx)
    return 0


cdef int each(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil:
    cdef Spin* s = <Spin*>ctx
    if lo != s.fails_at:
        return forever(w, ctx)
    while i64_load_relaxed(&s.running) < s.others:
        poll(w)
    with gil:
        raise KeyError(lo)


cdef int outer(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil:
    cdef Spin* s = <Spin*>ctx
    if lo == s.fails_at:
        return each(w, ctx, lo, hi)
    return parallel_for(w, 2, inner, ctx, 1)


cdef int inner(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil:
    return forever(w, ctx)


cdef int loop_of_loops(Worker* w, void* ctx) except? -1 nogil:
    return parallel_for(w, 2, outer, ctx, 1)


cdef int tasks(Worker* w, Scope* sc, void* ctx) except? -1 nogil:
    cdef Spin* s = <Spin*>ctx
    cdef int i
    for i in range(3):
        spawn(w, sc, forever, ctx)
    if s.fails_at >= 0:
        each(w, ctx, s.fails_at, 0)
    return 0
