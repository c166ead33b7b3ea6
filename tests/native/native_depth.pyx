# cython: language_level=3, boundscheck=False, wraparound=False
"""How deep stacks get: mail on top of mail, jobs that submit jobs."""
from libc.stdint cimport int64_t, uint64_t
from posix.time cimport nanosleep, timespec
from pyblitz cimport (
    Scope, Worker, broadcast, join, num_workers, run, scope, spawn_on, submit, submit_keyed, worker_index)
from pyblitz.runtime.atomic cimport (
    atomic_i64, i64_cas_relaxed, i64_fetch_add_relaxed, i64_load_relaxed, i64_store_relaxed)

cdef extern from *:
    """
    static _Thread_local int depth = 0;
    static int go_down(void) { return ++depth; }
    static void come_up(void) { --depth; }
    """
    int go_down() nogil
    void come_up() nogil


cdef struct Count:
    atomic_i64 ran
    atomic_i64 asked        # how many should
    atomic_i64 deepest      # of what ran on top of each other in one thread
    int64_t left
    int64_t n
    int64_t ns

cdef void begin(Count* c) noexcept nogil:
    cdef int64_t depth = go_down()
    cdef int64_t seen = i64_load_relaxed(&c.deepest)
    i64_fetch_add_relaxed(&c.ran, 1)
    while depth > seen and not i64_cas_relaxed(&c.deepest, seen, depth):
        seen = i64_load_relaxed(&c.deepest)

cdef void reset(Count* c) noexcept nogil:
    i64_store_relaxed(&c.ran, 0)
    i64_store_relaxed(&c.asked, 0)
    i64_store_relaxed(&c.deepest, 0)

cdef result(Count* c):
    return i64_load_relaxed(&c.ran), i64_load_relaxed(&c.deepest)


# ---- mail -------------------------------------------------------------------

cdef int nap(Worker* w, void* ctx) except? -1 nogil:
    cdef timespec t
    t.tv_sec, t.tv_nsec = 0, (<Count*>ctx).ns
    nanosleep(&t, NULL)
    return 0

cdef int letter(Worker* w, void* ctx) except? -1 nogil:
    begin(<Count*>ctx)
    join(w, nap, ctx, nap, ctx)
    come_up()
    return 0

cdef int post_all(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    cdef int64_t i
    for i in range((<Count*>ctx).n):
        spawn_on(w, s, 0, letter, ctx)
    return 0


def crowd(int64_t n, int64_t ns):
    """n letters to one worker, each a join of two naps: (how many ran, how many on top of
    each other)."""
    cdef Count c
    reset(&c)
    c.n, c.ns = n, ns
    with nogil:
        scope(NULL, post_all, &c)
    return result(&c)


cdef struct Roll:
    Count* count
    int level

cdef int call(Worker* w, void* ctx) except? -1 nogil:
    cdef Roll* above = <Roll*>ctx
    cdef Roll here
    begin(above.count)
    if above.level > 1:
        here.count, here.level = above.count, above.level - 1
        # In a fork that others may take, so that the level has to travel with it.
        join(w, call_all, &here, nap, above.count)
    come_up()
    return 0

cdef int call_all(Worker* w, void* ctx) except? -1 nogil:
    cdef int others = num_workers(w) - 1
    # Each of the pool's threads, and a caller from outside.
    i64_fetch_add_relaxed(&(<Roll*>ctx).count.asked,
                          others if worker_index(w) < others else others + 1)
    return broadcast(w, call, ctx)


def calls_in_calls(int levels, int64_t ns):
    """A broadcast in each thread's part of a broadcast, and so on: (how many parts ran, how
    many should, how many on top of each other)."""
    cdef Count c
    cdef Roll r
    reset(&c)
    c.ns = ns
    r.count, r.level = &c, levels
    with nogil:
        run(call_all, &r)
    return i64_load_relaxed(&c.ran), i64_load_relaxed(&c.asked), i64_load_relaxed(&c.deepest)


# ---- calls of Python functions, which may wait for futures -------------------

cdef struct Called:
    Count* count
    void* f
    bint forks      # joins first
    int index       # the worker that letters are for
    int64_t n       # how many

cdef int call_python(Worker* w, void* ctx) except? -1 nogil:
    cdef Called* c = <Called*>ctx
    begin(c.count)
    try:
        if c.forks:
            # Another thread may take one half, so that this one waits for it.
            join(w, nap, c.count, nap, c.count)
        with gil:
            (<object>c.f)()
    finally:
        come_up()
    return 0

cdef int post_calls(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    cdef int64_t i
    for i in range((<Called*>ctx).n):
        spawn_on(w, s, (<Called*>ctx).index, call_python, ctx)
    return 0


cdef class Meter:
    """Counts the parts of broadcasts and the letters that are asked for through it."""
    cdef Count count

    def __cinit__(self, int64_t ns):
        reset(&self.count)
        self.count.ns = ns

    def outcome(self):
        """(How many ran, how many on top of each other in one thread.)"""
        return result(&self.count)

    def call_all(self, f, bint forks=True):
        """A broadcast, each of whose parts calls f(), after a join if it forks."""
        cdef Called c
        c.count, c.f, c.forks = &self.count, <void*>f, forks
        with nogil:
            broadcast(NULL, call_python, &c)

    def post(self, int index, int64_t n, f):
        """n letters to one worker, each of which calls f(); returns when they are done."""
        cdef Called c
        c.count, c.f, c.forks, c.index, c.n = &self.count, <void*>f, True, index, n
        with nogil:
            scope(NULL, post_calls, &c)


# ---- chains -----------------------------------------------------------------

cdef struct Link:
    Count* count
    bint keyed
    bint keys       # each job under another key

cdef int link(Worker* w, void* ctx) except? -1 nogil:
    cdef Link* l = <Link*>ctx
    begin(l.count)
    l.count.left -= 1
    if l.count.left > 0:
        send(l)
    come_up()
    return 0

cdef int send(Link* l) except? -1 nogil:
    if l.keyed:
        submit_keyed(<uint64_t>l.count.left if l.keys else 7, link, l)
    else:
        submit(link, l)
    return 0


def chain(int64_t n, bint keyed=False, bint keys=False):
    """In a pool without threads, a job that submits a job that submits a job ...: (how many
    ran before the first submit returned, how many on top of each other)."""
    cdef Count c
    cdef Link l
    reset(&c)
    c.left = n
    l.count, l.keyed, l.keys = &c, keyed, keys
    with nogil:
        send(&l)
    return result(&c)
