"""Copies; see copy.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from pyblitz.kernels.blocks cimport (
    Pair, Unit, copy_bytes, leaf_items, part_at, run_blocks, run_bytes, unit_of)
from pyblitz.kernels.map cimport map_bits, map_grain, map_of_loop, map_run


# ---- pieces one after the other ---------------------------------------------

cdef int join_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    """Bytes lo .. hi of the result."""
    cdef Join* j = <Join*>ctx
    cdef int64_t total = j.ends[j.parts - 1]
    cdef int64_t row = lo // total, at = lo % total, n, begin, size
    cdef int64_t part = part_at(j.ends, j.parts, at)
    while lo < hi:
        begin = j.ends[part - 1] if part > 0 else 0
        size = j.ends[part] - begin
        n = min(j.ends[part] - at, hi - lo)
        copy_bytes(j.dst + lo, j.src[part] + row * size + (at - begin), n)
        lo += n
        at += n
        part += 1
        if part == j.parts:
            part = at = 0
            row += 1
    return 0


cdef int join_run(Worker* w, Join* j) noexcept nogil:
    cdef int64_t bytes = j.outer * j.ends[j.parts - 1]
    return run_blocks(w, join_leaf, j, run_bytes(bytes), bytes)


# ---- loops ------------------------------------------------------------------

cdef void copy_units(char** args, const intptr_t* dims, const intptr_t* steps,
                     Unit* data) noexcept nogil:
    """`data` only names the type."""
    cdef intptr_t i, n = dims[0], s = steps[0], d = steps[1]
    cdef const char* src = args[0]
    cdef char* dst = args[1]
    cdef Unit x
    if d == <intptr_t>sizeof(Unit) and s == d:
        copy_bytes(dst, src, n * s)
    elif d == <intptr_t>sizeof(Unit) and s == 0:
        x = (<const Unit*>src)[0]
        for i in range(n):
            (<Unit*>dst)[i] = x
    elif d == <intptr_t>sizeof(Unit):
        for i in range(n):
            (<Unit*>dst)[i] = (<const Unit*>(src + i * s))[0]
    else:
        for i in range(n):
            (<Unit*>(dst + i * d))[0] = (<const Unit*>(src + i * s))[0]


cdef void copy_items(char** args, const intptr_t* dims, const intptr_t* steps,
                     void* data) noexcept nogil:
    cdef intptr_t i, n = dims[0], s = steps[0], d = steps[1], size = <intptr_t>data
    if s == size and d == size:
        copy_bytes(args[1], args[0], n * size)
        return
    for i in range(n):
        memcpy(args[1] + i * d, args[0] + i * s, size)


cdef loop_fn copy_loop(intptr_t itemsize, intptr_t bits) noexcept nogil:
    cdef int unit = unit_of(itemsize, bits)
    if unit == 8:
        return <loop_fn>(copy_units[uint64_t])
    if unit == 4:
        return <loop_fn>(copy_units[uint32_t])
    if unit == 1:
        return <loop_fn>(copy_units[uint8_t])
    if unit == 2:
        return <loop_fn>(copy_units[uint16_t])
    if unit == 16:
        return <loop_fn>(copy_units[Pair])
    return copy_items


# ---- between orders of axes -------------------------------------------------
# In tiles, each read along the source's order into a contiguous buffer and written
# along the target's: every cache line of both is used at once, and none is fetched
# twice, also where strides are powers of two and lines of a tile exclude each other.

cdef enum:
    TILE_WORDS = 2048       # of 8 bytes

cdef struct Tiles:
    Map* map
    int unit
    int along           # the axis in which the source is densest; the target: the last
    int64_t high        # items of a tile along the last axis
    int64_t wide        # and along the other
    int64_t across      # tiles along the last axis
    int64_t down        # and along the other


cdef void tile_units(const Tiles* t, const char* src, char* dst, int64_t rows, int64_t items,
                     Unit* buffer) noexcept nogil:
    """Transposes: row r of the source is item r of every row of the target."""
    cdef const Map* m = t.map
    cdef int last = m.dims - 1
    cdef intptr_t src_row = m.strides[last][0], src_item = m.strides[t.along][0]
    cdef intptr_t dst_row = m.strides[t.along][1], dst_item = m.strides[last][1]
    cdef int64_t r, i
    for r in range(rows):
        if src_item == <intptr_t>sizeof(Unit):
            memcpy(buffer + r * items, src + r * src_row, items * sizeof(Unit))
        else:
            for i in range(items):
                buffer[r * items + i] = (<const Unit*>(src + r * src_row + i * src_item))[0]
    for i in range(items):
        if dst_item == <intptr_t>sizeof(Unit):
            for r in range(rows):
                (<Unit*>(dst + i * dst_row))[r] = buffer[r * items + i]
        else:
            for r in range(rows):
                (<Unit*>(dst + i * dst_row + r * dst_item))[0] = buffer[r * items + i]


cdef int tile_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Tiles* t = <Tiles*>ctx
    cdef Map* m = t.map
    cdef uint64_t buffer[TILE_WORDS]
    cdef int last = m.dims - 1, d
    cdef int64_t i, rest, r, c, rows, items, k
    cdef const char* src
    cdef char* dst
    for i in range(lo, hi):
        c = (i % t.across) * t.high
        rest = i // t.across
        r = (rest % t.down) * t.wide
        rest = rest // t.down
        rows = min(t.high, m.shape[last] - c)
        items = min(t.wide, m.shape[t.along] - r)
        src = m.base[0] + c * m.strides[last][0] + r * m.strides[t.along][0]
        dst = m.base[1] + c * m.strides[last][1] + r * m.strides[t.along][1]
        for d in range(last - 1, -1, -1):
            if d != t.along:
                k = rest % m.shape[d]
                rest = rest // m.shape[d]
                src += k * m.strides[d][0]
                dst += k * m.strides[d][1]
        if t.unit == 8:
            tile_units(t, src, dst, rows, items, <uint64_t*>buffer)
        elif t.unit == 4:
            tile_units(t, src, dst, rows, items, <uint32_t*>buffer)
        elif t.unit == 2:
            tile_units(t, src, dst, rows, items, <uint16_t*>buffer)
        elif t.unit == 1:
            tile_units(t, src, dst, rows, items, <uint8_t*>buffer)
        else:
            tile_units(t, src, dst, rows, items, <Pair*>buffer)
    return 0


cdef inline int64_t size_of(int64_t stride) noexcept nogil:
    return stride if stride >= 0 else -stride


cdef int copy_run(Worker* w, Map* m, intptr_t itemsize) noexcept nogil:
    cdef Tiles t
    cdef int last = m.dims - 1, d
    cdef int64_t tiles, edge
    cdef intptr_t bits = map_bits(m, 0)
    map_of_loop(m, copy_loop(itemsize, bits), <void*>itemsize)
    if m.dims == 1 and m.strides[0][0] == itemsize and m.strides[0][1] == itemsize:
        return map_run(w, m, run_bytes(m.size * itemsize) // itemsize + 1)
    t.unit = unit_of(itemsize, bits)
    t.along = last
    for d in range(last):
        if m.strides[d][0] != 0 and size_of(m.strides[d][0]) < size_of(m.strides[t.along][0]):
            t.along = d
    # Where neighbours in the target are within a cache line of the source, or there
    # are few of them to lose lines for, a loop is faster.
    if (t.unit == 0 or t.along == last or size_of(m.strides[last][0]) < 64
            or m.shape[t.along] < 4):
        return map_run(w, m, map_grain(2 * itemsize, 0))
    t.map = m
    edge = 32 if itemsize >= 8 else 64
    t.high = min(edge, m.shape[last])
    t.wide = min(edge * edge // t.high, m.shape[t.along])
    t.high = min(edge * edge // t.wide, m.shape[last])
    t.across = (m.shape[last] + t.high - 1) // t.high
    t.down = (m.shape[t.along] + t.wide - 1) // t.wide
    tiles = t.across * t.down
    for d in range(last):
        if d != t.along:
            tiles *= m.shape[d]
    return run_blocks(w, tile_leaf, &t, leaf_items(2 * itemsize * t.high * t.wide), tiles)
