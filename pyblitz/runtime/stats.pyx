"""Recording what workers do; see stats.pxd."""
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, malloc
from pyblitz.runtime.atomic cimport (
    atomic_i64, i64_load_acquire, i64_load_relaxed, i64_store_relaxed, i64_store_release,
    u32_load_acquire, u32_load_relaxed, u32_store_relaxed, u32_store_release)
from pyblitz.runtime.chaos cimport chaos
from pyblitz.runtime.os cimport now_ns


cdef void stats_record(WorkerTally* s, uint32_t recording, int64_t now) noexcept nogil:
    """Recorder: begins a recording, or ends it (0)."""
    i64_store_relaxed(&s.began, now)
    # release: partner is the acquire load in note_slowly
    u32_store_release(&s.recording, recording)


cdef void stats_destroy(WorkerTally* s) noexcept nogil:
    free(s.spans)


cdef bint stats_read(WorkerTally* s, Noted* noted) noexcept nogil:
    """Recorder: a copy of what is noted.  False: the worker wrote meanwhile."""
    cdef int64_t since
    cdef int i
    # acquire: partner is the last release in note_slowly
    cdef uint32_t version = u32_load_acquire(&s.version)
    # acquire, all of these: partners are the releases in note_slowly, by which who reads what a
    # worker has begun to write sees below that it has
    noted.recording = u32_load_acquire(&s.noted)
    for i in range(<int>ACTIVITIES):
        noted.times[i] = i64_load_acquire(&s.times[i])
    since = i64_load_acquire(&s.since)
    noted.since, noted.what = since >> 3, <Activity>(since & 7)
    noted.n_spans = i64_load_acquire(&s.n_spans)
    return not version & 1 and u32_load_relaxed(&s.version) == version


cdef void note_slowly(WorkerTally* s, Activity was, Activity will_be) noexcept nogil:
    # acquire: partner is the release in stats_record
    cdef uint32_t recording = u32_load_acquire(&s.recording)
    cdef int64_t now = now_ns()     # not before that recording began
    # relaxed, here and below: this worker wrote it
    cdef uint32_t version = u32_load_relaxed(&s.version)
    cdef bint first = u32_load_relaxed(&s.noted) != recording
    cdef int64_t begin, spent, n
    cdef atomic_i64* total = &s.times[<int>was]
    cdef Span* span
    cdef int i
    if recording == 0:
        return
    if first:
        begin, spent, n = i64_load_relaxed(&s.began), 0, 0
        if s.spans == NULL and not recording & 1:
            s.spans = <Span*>malloc(MAX_SPANS * sizeof(Span))
    else:
        begin, spent = i64_load_relaxed(&s.since) >> 3, i64_load_relaxed(total)
        n = i64_load_relaxed(&s.n_spans)
    if not recording & 1 and s.spans != NULL and n < MAX_SPANS:
        # Nobody reads it before n_spans says so, nor what a recording before it left there.
        span = &s.spans[n]
        span.begin = begin
        span.end = now
        span.what = was
        n += 1
    u32_store_relaxed(&s.version, version + 1)
    # release, all of these: partners are the acquires in stats_read
    if first:
        for i in range(<int>ACTIVITIES):
            i64_store_release(&s.times[i], 0)
        u32_store_release(&s.noted, recording)
    i64_store_release(total, spent + now - begin)
    chaos(b"note")
    i64_store_release(&s.since, now << 3 | will_be)
    i64_store_release(&s.n_spans, n)
    u32_store_release(&s.version, version + 2)
