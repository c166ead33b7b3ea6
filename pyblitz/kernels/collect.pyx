"""Gathering of filtered elements; see collect.pxd."""
from libc.errno cimport ENOMEM
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memmove
from pyblitz.kernels.blocks cimport copy_bytes, run_blocks, sum_counts
from pyblitz.kernels.map cimport Block, map_blocks, map_walk

cdef struct Buffer:
    Collect* collect
    char* buffer            # this block's elements
    int64_t room            # how many fit
    int64_t count           # how many it holds


cdef intptr_t size_of_all(const Collect* c) noexcept nogil:
    cdef intptr_t size = 0
    cdef int k
    for k in range(c.values):
        size += c.sizes[k]
    return size


cdef int append(void* state, const Block* b) noexcept nogil:
    """A buffer holds `room` elements of the first value, then of the second ..."""
    cdef Buffer* p = <Buffer*>state
    cdef Collect* c = p.collect
    cdef char* at = p.buffer
    cdef int k
    for k in range(c.values):
        copy_bytes(at + p.count * c.sizes[k], b.at[c.slots[k]], b.n * c.sizes[k])
        at += p.room * c.sizes[k]
    p.count += b.n
    return 0


cdef int collect_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Collect* c = <Collect*>ctx
    cdef Buffer p
    cdef char* less
    cdef char* at
    cdef char* to
    cdef int rc, k
    p.collect = c
    p.room = hi - lo
    p.count = 0
    p.buffer = <char*>malloc(p.room * size_of_all(c) + 1)
    if p.buffer == NULL:
        return ENOMEM
    rc = map_walk(w, c.map, lo, hi, append, &p)
    # Close the gaps, and give back what was not needed.
    at = to = p.buffer
    for k in range(c.values):
        if to != at:
            memmove(to, at, p.count * c.sizes[k])
        at += p.room * c.sizes[k]
        to += p.count * c.sizes[k]
    less = <char*>realloc(p.buffer, to - p.buffer + 1)
    c.buffers[lo // c.grain] = less if less != NULL else p.buffer
    c.counts[lo // c.grain] = p.count
    return rc


cdef int collect_begin(Collect* c) noexcept nogil:
    c.blocks = (c.map.size + c.grain - 1) // c.grain
    c.buffers = <char**>calloc(c.blocks + 1, sizeof(char*))
    c.counts = <int64_t*>calloc(c.blocks + 1, sizeof(int64_t))
    return 0 if c.buffers != NULL and c.counts != NULL else ENOMEM


cdef int collect_run(Worker* w, Collect* c) noexcept nogil:
    return map_blocks(w, c.map, collect_leaf, NULL, c, c.grain, c.grain)


cdef int64_t collect_place(Collect* c) noexcept nogil:
    return sum_counts(c.counts, c.blocks, 1)


cdef int collect_write_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Collect* c = <Collect*>ctx
    cdef int64_t i, count
    cdef char* at
    cdef int k
    for i in range(lo, hi):
        at = c.buffers[i]
        count = c.counts[i + 1] - c.counts[i]
        for k in range(c.values):
            copy_bytes(c.out[k] + c.counts[i] * c.sizes[k], at, count * c.sizes[k])
            at += count * c.sizes[k]
        free(c.buffers[i])
        c.buffers[i] = NULL
    return 0


cdef int collect_write(Worker* w, Collect* c) noexcept nogil:
    return run_blocks(w, collect_write_leaf, c, 1, c.blocks)


cdef void collect_free(Collect* c) noexcept nogil:
    cdef int64_t i
    if c.buffers != NULL:
        for i in range(c.blocks):
            free(c.buffers[i])
    free(c.buffers)
    free(c.counts)
