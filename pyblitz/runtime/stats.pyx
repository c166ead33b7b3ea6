"""Recording what workers do; see stats.pxd."""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from pyblitz.runtime.atomic cimport (
    atomic_u64, i64_load_relaxed, i64_store_relaxed, i64_store_release, u32_load_acquire,
    u32_load_relaxed, u32_store_release, u64_load_relaxed, u64_store_relaxed)
from pyblitz.runtime.os cimport now_ns


cdef void stats_record(Stats* s, uint32_t recording, int64_t now) noexcept nogil:
    """Recorder: begins a recording, or ends it (0)."""
    i64_store_relaxed(&s.began, now)
    # release: partner is the acquire load in note_slowly
    u32_store_release(&s.recording, recording)


cdef void stats_destroy(Stats* s) noexcept nogil:
    free(s.spans)


cdef void note_slowly(Stats* s, Activity was, Activity will_be) noexcept nogil:
    cdef int64_t now = now_ns()
    # acquire: partner is the release in stats_record
    cdef uint32_t recording = u32_load_acquire(&s.recording)
    cdef int64_t begin, n
    cdef atomic_u64* total
    cdef Span* span
    cdef int i
    if recording == 0:
        return
    # relaxed: this worker wrote it
    if u32_load_relaxed(&s.noted) != recording:
        for i in range(<int>ACTIVITIES):
            u64_store_relaxed(&s.times[i], 0)
        i64_store_relaxed(&s.n_spans, 0)
        u64_store_relaxed(&s.since, (<uint64_t>i64_load_relaxed(&s.began) << 3) | was)
        if s.spans == NULL and not recording & 1:
            s.spans = <Span*>malloc(MAX_SPANS * sizeof(Span))
        # release: partner is the acquire load of the recorder
        u32_store_release(&s.noted, recording)
    begin = <int64_t>(u64_load_relaxed(&s.since) >> 3)
    total = &s.times[<int>was]
    u64_store_relaxed(total, u64_load_relaxed(total) + <uint64_t>(now - begin))
    n = i64_load_relaxed(&s.n_spans)
    if not recording & 1 and s.spans != NULL and n < MAX_SPANS:
        span = &s.spans[n]
        span.begin = begin
        span.end = now
        span.what = was
        # release: partner is the acquire load of the recorder
        i64_store_release(&s.n_spans, n + 1)
    u64_store_relaxed(&s.since, (<uint64_t>now << 3) | will_be)
