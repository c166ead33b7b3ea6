# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""What join.py times: compiled by it, against the pyblitz that is installed,
like any author's module.
"""
from libc.stdlib cimport calloc, free
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, nanosleep, timespec
from pyblitz cimport Worker, join, run, submit

cdef extern from *:
    """
    #include <sched.h>
    #include <semaphore.h>
    #if defined(__x86_64__) || defined(__i386__)
    #define pause_a_moment() __builtin_ia32_pause()
    #else
    #define pause_a_moment() ((void)0)
    #endif
    #define raise_flag(p) __atomic_store_n((p), 1, __ATOMIC_RELEASE)
    #define flag_is_up(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
    """
    void pause_a_moment() noexcept nogil
    void raise_flag(int*) noexcept nogil
    int flag_is_up(int*) noexcept nogil
    int sched_yield() noexcept nogil
    ctypedef struct sem_t:
        pass
    int sem_init(sem_t*, int, unsigned int) noexcept nogil
    int sem_post(sem_t*) noexcept nogil
    int sem_wait(sem_t*) noexcept nogil
    int sem_destroy(sem_t*) noexcept nogil

ctypedef int (*node_fn)(Worker*, void*) noexcept nogil

# One level of the tree.  All nodes of a level share it, and the function to call
# is read from it, so that the compiler inlines neither kind of tree.
cdef struct Level:
    node_fn fn
    Level* below            # NULL: a leaf


cdef int plain(Worker* w, void* ctx) noexcept nogil:
    cdef Level* below = (<Level*>ctx).below
    cdef node_fn fn
    if below == NULL:
        return 0
    fn = below.fn
    return fn(w, below) or fn(w, below)


cdef int forked(Worker* w, void* ctx) nogil:
    cdef Level* below = (<Level*>ctx).below
    if below == NULL:
        return 0
    return join(w, forked, below, forked, below)


cdef class EmptyTree:
    """A full binary tree of empty leaves, ``depth`` levels of forks."""
    cdef Level* levels
    cdef readonly int depth
    cdef readonly long long joins

    def __cinit__(self, int depth):
        cdef int i
        if not 0 <= depth <= 40:
            raise ValueError(f"depth must be from 0 to 40, not {depth}")
        self.depth = depth
        self.joins = (<long long>1 << depth) - 1
        self.levels = <Level*>calloc(depth + 1, sizeof(Level))
        if self.levels == NULL:
            raise MemoryError()
        for i in range(depth + 1):
            self.levels[i].fn = plain
            self.levels[i].below = &self.levels[i - 1] if i else NULL

    def __dealloc__(self):
        free(self.levels)

    def plain(self):
        """Calls through a function pointer."""
        with nogil:
            self.levels[self.depth].fn(NULL, &self.levels[self.depth])

    def forked(self):
        """Joins, in the pool that is installed."""
        with nogil:
            run(forked, &self.levels[self.depth])


cdef int raise_it(Worker* w, void* ctx) noexcept nogil:
    raise_flag(<int*>ctx)
    return 0


cdef int post_it(Worker* w, void* ctx) noexcept nogil:
    sem_post(<sem_t*>ctx)
    return 0


cdef void submit_and_poll() noexcept nogil:
    """Polls, and gives its CPU away now and then: on two CPUs Linux often wakes
    the worker on the very CPU that polls, although the other is free, and the
    worker then waits there for the end of a time slice."""
    cdef int flag = 0
    cdef int polls = 0
    submit(raise_it, &flag)
    while not flag_is_up(&flag):
        polls += 1
        if polls & 63:
            pause_a_moment()
        else:
            sched_yield()


cdef void submit_and_block(sem_t* done) noexcept nogil:
    submit(post_it, done)
    while sem_wait(done) != 0:
        pass                    # interrupted


cdef double now_ns() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return t.tv_sec * 1e9 + t.tv_nsec


def submit_ns(int jobs, double idle_seconds=0, bint blocking=False):
    """Nanoseconds from ``submit`` until the caller knows that the job is done,
    for each of ``jobs``, one after the other, with a pause before each.  The
    caller polls a flag or, ``blocking``, sleeps on a semaphore; without the GIL.
    In a pool of one thread the job runs in ``submit``."""
    cdef list times = []
    cdef int i
    cdef double start, end
    cdef timespec idle
    cdef sem_t done
    idle.tv_sec = <long>idle_seconds
    idle.tv_nsec = <long>((idle_seconds - idle.tv_sec) * 1e9)
    sem_init(&done, 0, 0)
    for i in range(jobs):
        with nogil:
            if idle_seconds > 0:
                nanosleep(&idle, NULL)
            start = now_ns()
            if blocking:
                submit_and_block(&done)
            else:
                submit_and_poll()
            end = now_ns()
        times.append(end - start)
    sem_destroy(&done)
    return times
