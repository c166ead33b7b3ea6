"""What kernels have in common; see blocks.pxd."""
from pyblitz.runtime.bridge cimport Bridge, bridge_init, bridge_run

cdef enum:
    RUN_BYTES = 4194304


cdef int run_blocks(Worker* w, leaf_fn leaf, void* ctx, int64_t grain, int64_t n) noexcept nogil:
    cdef int64_t lo = 0
    cdef int rc = 0
    if w != NULL:
        return combine_blocks(w, leaf, NULL, ctx, grain, n)
    while lo < n and rc == 0:
        rc = leaf(NULL, ctx, lo, min(n, lo + grain))
        lo += grain
    return rc


cdef int combine_blocks(Worker* w, leaf_fn leaf, combine_halves_fn combine, void* ctx, int64_t grain,
                        int64_t n) noexcept nogil:
    cdef Bridge b
    bridge_init(&b, leaf, combine, ctx, grain)
    return bridge_run(w, &b, n)


cdef int64_t sum_counts(int64_t* counts, int64_t blocks, int64_t buckets) noexcept nogil:
    cdef int64_t b, k, own, sum = 0
    for b in range(buckets):
        for k in range(blocks):
            own = counts[k * buckets + b]
            counts[k * buckets + b] = sum
            sum += own
        counts[blocks * buckets + b] = sum
    return sum


cdef struct Copying:
    char* to
    const char* source


cdef int copy_bytes_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Copying* c = <Copying*>ctx
    copy_bytes(c.to + lo, c.source + lo, hi - lo)
    return 0


cdef int copy_shared(Worker* w, void* to, const void* source, int64_t bytes) noexcept nogil:
    cdef Copying c
    c.to = <char*>to
    c.source = <const char*>source
    return run_blocks(w, copy_bytes_leaf, &c, LEAF_BYTES, bytes)


cdef int64_t leaf_items(int64_t bytes_per_item) noexcept nogil:
    cdef int64_t n = LEAF_BYTES // bytes_per_item if bytes_per_item > 0 else LEAF_BYTES
    return n if n > 0 else 1


cdef int64_t run_bytes(int64_t bytes) noexcept nogil:
    return min(max(bytes >> 5, <int64_t>LEAF_BYTES), <int64_t>RUN_BYTES)


cdef int64_t part_at(const int64_t* ends, int64_t parts, int64_t at) noexcept nogil:
    cdef int64_t low = 0, high = parts, mid
    while low < high:
        mid = (low + high) >> 1
        if ends[mid] > at:
            high = mid
        else:
            low = mid + 1
    return low
