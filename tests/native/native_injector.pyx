"""One injector, numbered items, producers and consumers without the GIL."""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from pyblitz.runtime.atomic cimport (
    atomic_i64, i64_fetch_add_relaxed, i64_load_acquire, i64_load_relaxed,
    i64_store_relaxed)
from pyblitz.runtime.injector cimport (
    Injector, injector_has_jobs, injector_init, injector_push,
    injector_take)
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.os cimport alloc_aligned, yield_thread


cdef class Queue:
    """Items 0 .. n; producer p of `producers` pushes those of the p-th share, in order."""
    cdef Injector* q
    cdef Job* jobs
    cdef atomic_i64* taken
    cdef atomic_i64 total
    cdef readonly int64_t n
    cdef int64_t share

    def __cinit__(self, int64_t n, int64_t producers=1):
        self.n = n
        self.share = n / producers
        self.q = <Injector*>alloc_aligned(sizeof(Injector))
        self.jobs = <Job*>calloc(n, sizeof(Job))
        self.taken = <atomic_i64*>calloc(n, sizeof(atomic_i64))
        i64_store_relaxed(&self.total, 0)
        injector_init(self.q)

    def __dealloc__(self):
        free(self.q)
        free(self.jobs)
        free(self.taken)

    def push(self, int64_t item):
        return injector_push(self.q, &self.jobs[item])

    def has_jobs(self):
        return injector_has_jobs(self.q)

    def take(self):
        cdef Job* job = injector_take(self.q)
        items = []
        while job != NULL:
            items.append(job - self.jobs)
            job = job.next
        return items

    def taken_once(self):
        """How many items were."""
        cdef int64_t i, once = 0
        for i in range(self.n):
            once += i64_load_relaxed(&self.taken[i]) == 1
        return once

    def produce(self, int64_t producer):
        """How many of them were pushed onto the empty queue."""
        cdef int64_t first = 0
        cdef int64_t i = producer * self.share
        cdef int64_t end = i + self.share
        with nogil:
            while i < end:
                first += injector_push(self.q, &self.jobs[i])
                i += 1
        return first

    def consume(self):
        """Until all items were taken by somebody: (how many here, how many of them after a
        younger one of the same producer)."""
        cdef int64_t mine = 0, disorder = 0, item, producer
        cdef Job* job
        cdef Job* next
        cdef int64_t* last = <int64_t*>calloc(self.n / self.share, sizeof(int64_t))
        with nogil:
            while i64_load_acquire(&self.total) < self.n:
                job = injector_take(self.q)
                if job == NULL:
                    yield_thread()
                while job != NULL:
                    next = job.next
                    job.next = NULL     # as if its memory went
                    item = job - self.jobs
                    producer = item / self.share
                    disorder += item + 1 <= last[producer]
                    last[producer] = item + 1
                    i64_fetch_add_relaxed(&self.taken[item], 1)
                    i64_fetch_add_relaxed(&self.total, 1)
                    mine += 1
                    job = next
        free(last)
        return mine, disorder
