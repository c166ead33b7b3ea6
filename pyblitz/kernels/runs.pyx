"""Runs; see runs.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy
from pyblitz.kernels.blocks cimport copy_bytes, run_blocks, sum_counts
from pyblitz.kernels.numbers cimport (
    NUMBER_C128, NUMBER_C64, NUMBER_F16, NUMBER_F32, NUMBER_F64, Raw, Real)

cdef enum:
    BLOCK = 16384
    # Items whose flags stay in L1.
    CHUNK = 2048

ctypedef fused Flagged:
    Raw
    Real


# ---- where runs begin -------------------------------------------------------

cdef void flag_words(const Flagged* x, int64_t n, uint8_t* flags) noexcept nogil:
    """x[-1] is there, too."""
    cdef int64_t i
    for i in range(n):
        flags[i] = x[i] != x[i - 1]


cdef void flag_halves(const uint16_t* x, int64_t n, uint8_t* flags) noexcept nogil:
    """Without NaNs: zeros are equal, too."""
    cdef int64_t i
    for i in range(n):
        flags[i] = (x[i] != x[i - 1]) & (((x[i] | x[i - 1]) & 0x7FFF) != 0)


cdef void flag_pairs(const Flagged* x, int64_t n, uint8_t* flags) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        flags[i] = (x[2 * i] != x[2 * i - 2]) | (x[2 * i + 1] != x[2 * i - 1])


cdef void flag_items(const Runs* r, int64_t lo, int64_t hi, uint8_t* flags) noexcept nogil:
    """Whether a run begins at each of items lo .. hi."""
    cdef int64_t i, n, from_ = max(lo, <int64_t>1)
    cdef uint8_t* to = flags + (from_ - lo)
    cdef intptr_t size = r.itemsize
    if lo == 0 and hi > 0:
        flags[0] = 1
    n = min(hi, r.numbers) - from_
    if n > 0:
        if r.kind == NUMBER_F64:
            flag_words(<const double*>r.items + from_, n, to)
        elif r.kind == NUMBER_F32:
            flag_words(<const float*>r.items + from_, n, to)
        elif r.kind == NUMBER_F16:
            flag_halves(<const uint16_t*>r.items + from_, n, to)
        elif r.kind == NUMBER_C128:
            flag_pairs(<const double*>r.items + 2 * from_, n, to)
        elif r.kind == NUMBER_C64:
            flag_pairs(<const float*>r.items + 2 * from_, n, to)
        elif size == 8:
            flag_words(<const uint64_t*>r.items + from_, n, to)
        elif size == 4:
            flag_words(<const uint32_t*>r.items + from_, n, to)
        elif size == 2:
            flag_words(<const uint16_t*>r.items + from_, n, to)
        elif size == 1:
            flag_words(<const uint8_t*>r.items + from_, n, to)
        else:
            for i in range(n):
                to[i] = memcmp(r.items + (from_ + i) * size, r.items + (from_ + i - 1) * size,
                               size) != 0
    for i in range(max(from_, r.numbers), hi):
        flags[i - lo] = i == r.numbers or not r.equal_nan


# ---- the passes -------------------------------------------------------------

cdef int64_t runs_blocks(const Runs* r) noexcept nogil:
    return (r.n + BLOCK - 1) // BLOCK


cdef int runs_count_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Runs* r = <Runs*>ctx
    cdef int64_t b, at, end, i, total
    cdef uint32_t some
    cdef uint8_t flags[CHUNK]
    for b in range(lo, hi):
        at = b * BLOCK
        end = min(at + BLOCK, r.n)
        total = 0
        while at < end:
            flag_items(r, at, min(at + CHUNK, end), flags)
            some = 0
            for i in range(min(<int64_t>CHUNK, end - at)):
                some += flags[i]
            total += some
            at += CHUNK
        r.before[b] = total
    return 0


cdef void write_values(const Raw* x, const uint8_t* flags, int64_t n, Raw* to,
                       int64_t count) noexcept nogil:
    """Every item is stored, and the next over it if no run began; not more than count
    runs: what comes after them is another worker's."""
    cdef int64_t i = 0, k = 0
    while k < count:
        to[k] = x[i]
        k += flags[i]
        i += 1


cdef void write_bytes(const Runs* r, int64_t lo, const uint8_t* flags, int64_t n,
                      int64_t k) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if flags[i]:
            memcpy(r.values + k * r.itemsize, r.items + (lo + i) * r.itemsize, r.itemsize)
            k += 1


cdef void write_chunk(Runs* r, int64_t lo, int64_t n, const uint8_t* flags, int64_t before,
                      int64_t count) noexcept nogil:
    """Of items lo .. lo + n, where `count` runs begin, after `before`."""
    cdef int64_t i, k
    cdef intptr_t size = r.itemsize
    if r.values != NULL:
        if count == n:
            copy_bytes(r.values + before * size, r.items + lo * size, n * size)
        elif size == 8:
            write_values(<const uint64_t*>r.items + lo, flags, n, <uint64_t*>r.values + before, count)
        elif size == 4:
            write_values(<const uint32_t*>r.items + lo, flags, n, <uint32_t*>r.values + before, count)
        elif size == 2:
            write_values(<const uint16_t*>r.items + lo, flags, n, <uint16_t*>r.values + before, count)
        elif size == 1:
            write_values(<const uint8_t*>r.items + lo, flags, n, <uint8_t*>r.values + before, count)
        else:
            write_bytes(r, lo, flags, n, before)
    if r.starts != NULL:
        i = k = 0
        while k < count:
            r.starts[before + k] = lo + i
            k += flags[i]
            i += 1
    if r.index != NULL:
        write_values(<const uint64_t*>r.order + lo, flags, n, <uint64_t*>r.index + before, count)
    if r.inverse != NULL:
        k = before - 1
        for i in range(n):
            k += flags[i]
            r.inverse[r.order[lo + i]] = k


cdef int runs_write_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Runs* r = <Runs*>ctx
    cdef int64_t b, at, end, n, i, before
    cdef uint32_t count
    cdef uint8_t flags[CHUNK]
    for b in range(lo, hi):
        at = b * BLOCK
        end = min(at + BLOCK, r.n)
        before = r.before[b]
        while at < end:
            n = min(<int64_t>CHUNK, end - at)
            flag_items(r, at, at + n, flags)
            count = 0
            for i in range(n):
                count += flags[i]
            write_chunk(r, at, n, flags, before, count)
            before += count
            at += n
    return 0


cdef int runs_count(Worker* w, Runs* r) noexcept nogil:
    cdef int64_t blocks = runs_blocks(r)
    cdef int rc = run_blocks(w, runs_count_leaf, r, 1, blocks)
    sum_counts(r.before, blocks, 1)
    return rc


cdef int runs_write(Worker* w, Runs* r) noexcept nogil:
    return run_blocks(w, runs_write_leaf, r, 1, runs_blocks(r))
