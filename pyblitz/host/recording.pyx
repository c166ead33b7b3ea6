"""What the workers of a pool do meanwhile: for ``stats`` and ``trace``."""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from pyblitz.host.pools cimport borrow, lock, open_pools, set_recorded
from pyblitz.host.threadpool cimport NativePool
from pyblitz.runtime.atomic cimport atomic_u64, u32_load_relaxed, u64_load_relaxed
from pyblitz.runtime.os cimport now_ns, yield_thread
from pyblitz.runtime.pool cimport (
    Pool, Worker, job_done, pool_is_stale, pool_places, pool_worker)
from pyblitz.runtime.sleep cimport SLEEPER_AWAKE
from pyblitz.runtime.stats cimport (
    ACTIVITIES, BUSY, ELSEWHERE, SLEEPING, Noted, Span, WorkerTally, stats_read, stats_record)

cdef enum:
    COUNTERS = 6        # words at the beginning of WorkerTally

cdef uint32_t recordings = 0
cdef Recording the_recording = None     # there is one at a time


cdef int end_the_recording() except -1:
    the_recording._end()
    return 0


cdef class Recording:
    """What the workers of one pool do, from now until `finish`; see _stats.py."""
    cdef Pool* _pool            # NULL: it ended
    cdef object _owner          # the ThreadPool that it is, or None
    cdef int _n                 # the number of workers it records
    cdef uint64_t* _before      # [worker][counter]: the counters when it began
    cdef int64_t _began         # when, by now_ns
    cdef uint32_t _number       # of WorkerTally.recording
    cdef object _last           # what read() gives after the end

    def __cinit__(self, bint spans):
        global recordings, the_recording
        cdef uint64_t* count
        cdef WorkerTally* stats
        cdef int i, k
        with lock:
            if the_recording is not None and not pool_is_stale(the_recording._pool):
                raise RuntimeError("another stats() or trace() is at work")
            with nogil:
                self._pool = borrow()
            # Referred to until the lock is free: a pool that goes takes its time.
            pools = [reference() for reference in open_pools.valuerefs()]
            for pool in pools:
                # It is not freed as long as we refer to it.
                if pool is not None and (<NativePool>pool)._pool == self._pool:
                    self._owner = pool
            job_done(self._pool)
            self._n = pool_places(self._pool)
            self._before = <uint64_t*>malloc(self._n * COUNTERS * sizeof(uint64_t))
            if self._before == NULL:
                raise MemoryError("no memory for a recording")
            self._began = now_ns()
            recordings += 2
            self._number = recordings | (not spans)
            for i in range(self._n):
                stats = &pool_worker(self._pool, i).sleeper.stats
                count = <uint64_t*>stats
                for k in range(COUNTERS):
                    self._before[i * COUNTERS + k] = u64_load_relaxed(<atomic_u64*>(count + k))
                stats_record(stats, self._number, self._began)
            the_recording = self
            set_recorded(self._pool, end_the_recording)

    def __dealloc__(self):
        free(self._before)

    def finish(self):
        """Ends it, and gives what `read` would have given."""
        global the_recording
        with lock:
            if the_recording is self:
                self._end()
            # Dropped after the lock, for it may be the last reference.
            _owner, self._owner = self._owner, None
        return self._last

    cdef object _end(self):
        """With the lock."""
        global the_recording
        cdef int i
        self._last = self._read()
        for i in range(self._n):
            stats_record(&pool_worker(self._pool, i).sleeper.stats, 0, 0)
        self._pool = NULL
        the_recording = None
        set_recorded(NULL, NULL)

    def read(self):
        """(seconds since it began, [(background, index, counters, ns of each activity,
        spans), ...]); a span is (begin, end, activity), in ns since it began."""
        with lock:
            return self._read() if self._pool != NULL else self._last

    cdef object _read(self):
        cdef int64_t now, k
        cdef int i
        cdef Worker* w
        cdef WorkerTally* s
        cdef Span* span
        cdef Noted* noted
        cdef Noted* all_noted = <Noted*>malloc(self._n * sizeof(Noted))
        if all_noted == NULL:
            raise MemoryError("no memory for what a recording has noted")
        try:
            for i in range(self._n):
                # A worker that was in the middle of it when its process forked does not go on.
                while (not stats_read(&pool_worker(self._pool, i).sleeper.stats, &all_noted[i])
                       and not pool_is_stale(self._pool)):
                    yield_thread()
            now = now_ns()      # not before any of them
            workers = []
            for i in range(self._n):
                w = pool_worker(self._pool, i)
                s = &w.sleeper.stats
                noted = &all_noted[i]
                counters = tuple([
                    u64_load_relaxed(<atomic_u64*>(<uint64_t*>s + k))
                    - self._before[i * COUNTERS + k] for k in range(COUNTERS)])
                background = i < self._pool.n_background
                if noted.recording != self._number:
                    # It has done one thing all the time.
                    memset(noted, 0, sizeof(Noted))
                    noted.since, noted.what = self._began, ELSEWHERE
                    if background:
                        noted.what = SLEEPING if u32_load_relaxed(
                            &w.sleeper.asleep) != SLEEPER_AWAKE else BUSY
                noted.times[<int>noted.what] += now - noted.since
                spans = []
                for k in range(noted.n_spans):
                    span = &s.spans[k]
                    spans.append((span.begin - self._began, span.end - self._began,
                                  <int>span.what))
                spans.append((noted.since - self._began, now - self._began, <int>noted.what))
                workers.append((
                    background, i if background else i - self._pool.n_background, counters,
                    tuple([noted.times[k] for k in range(ACTIVITIES)]), spans))
            return (now - self._began) * 1e-9, workers
        finally:
            free(all_noted)
