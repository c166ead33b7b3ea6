"""Ranks; see rank.pxd."""
from libc.stdint cimport uint64_t
from pyblitz.kernels.blocks cimport run_blocks
from pyblitz.kernels.prefetch cimport prefetch_write

cdef enum:
    LEAF_ITEMS = 16384
    # How many items ahead one is asked for; as in gather.pyx.
    AHEAD = 128


cdef inline void write_run(const Ranks* r, int64_t lo, int64_t hi, uint64_t bits) noexcept nogil:
    cdef uint64_t* out = <uint64_t*>r.out
    cdef int64_t i
    for i in range(lo, hi):
        if i + AHEAD < r.n:
            prefetch_write(out + r.order[i + AHEAD])
        out[r.order[i]] = bits


cdef union Rank:
    double average
    uint64_t bits


cdef int rank_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    """Those at lo .. hi of the order."""
    cdef Ranks* r = <Ranks*>ctx
    cdef int64_t first = 0, last = r.runs, mid, start, end
    cdef uint64_t* out = <uint64_t*>r.out
    cdef Rank rank
    if r.kind == RANK_ORDINAL:
        for start in range(lo, hi):
            if start + AHEAD < r.n:
                prefetch_write(out + r.order[start + AHEAD])
            out[r.order[start]] = start + 1
        return 0
    while last - first > 1:     # the run that lo is in
        mid = (first + last) >> 1
        if r.starts[mid] <= lo:
            first = mid
        else:
            last = mid
    while lo < hi:
        start = r.starts[first]
        end = r.starts[first + 1] if first + 1 < r.runs else r.n
        if r.kind == RANK_AVERAGE:
            rank.average = 0.5 * <double>(start + 1 + end)
        elif r.kind == RANK_LEAST:
            rank.bits = start + 1
        elif r.kind == RANK_GREATEST:
            rank.bits = end
        else:
            rank.bits = first + 1
        write_run(r, lo, min(hi, end), rank.bits)
        lo = end
        first += 1
    return 0


cdef int ranks_write(Worker* w, Ranks* r) noexcept nogil:
    return run_blocks(w, rank_leaf, r, LEAF_ITEMS, r.n)
