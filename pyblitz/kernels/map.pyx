"""Elementwise loops; see map.pxd."""
from pyblitz.runtime.atomic cimport u32_fetch_or_relaxed, u32_store_relaxed
from pyblitz.runtime.bridge cimport Bridge, bridge_init, bridge_run
from pyblitz.runtime.os cimport fe_clear, fe_test


# ---- shape ------------------------------------------------------------------

cdef void map_normalize(Map* m, int out) noexcept nogil:
    """Orders the axes so that operand ``out`` walks memory forwards, and joins
    neighbours that are one axis for every operand."""
    cdef int i, j, k, kept
    cdef int64_t n
    cdef intptr_t s
    cdef bint joins
    # Axes of one element decide nothing.
    kept = 0
    for i in range(m.dims):
        if m.shape[i] != 1:
            m.shape[kept] = m.shape[i]
            for k in range(m.operands):
                m.strides[kept][k] = m.strides[i][k]
            kept += 1
    m.dims = kept
    for i in range(m.dims):
        if m.strides[i][out] < 0:
            for k in range(m.operands):
                m.base[k] += (m.shape[i] - 1) * m.strides[i][k]
                m.strides[i][k] = -m.strides[i][k]
    # Insertion sort, largest step of `out` first; stable.
    for i in range(1, m.dims):
        j = i
        while j > 0 and m.strides[j][out] > m.strides[j - 1][out]:
            n = m.shape[j]
            m.shape[j] = m.shape[j - 1]
            m.shape[j - 1] = n
            for k in range(m.operands):
                s = m.strides[j][k]
                m.strides[j][k] = m.strides[j - 1][k]
                m.strides[j - 1][k] = s
            j -= 1
    kept = 0
    for i in range(1, m.dims):
        joins = True
        for k in range(m.operands):
            joins &= m.strides[kept][k] == m.strides[i][k] * m.shape[i]
        if joins:
            m.shape[kept] *= m.shape[i]
        else:
            kept += 1
            m.shape[kept] = m.shape[i]
        for k in range(m.operands):
            m.strides[kept][k] = m.strides[i][k]
    if m.dims > 0:
        m.dims = kept + 1
    else:
        m.dims = 1
        m.shape[0] = 1
        for k in range(m.operands):
            m.strides[0][k] = 0


cdef int64_t map_grain(int64_t bytes_per_item) noexcept nogil:
    """Items of a leaf: a multiple of 64, so that only the last leaf ends inside
    a SIMD step and results do not depend on where leaves are cut."""
    cdef int64_t grain = LEAF_BYTES // (bytes_per_item if bytes_per_item > 0 else 1)
    return grain & ~63 if grain >= 64 else 64


# ---- the leaf ---------------------------------------------------------------

cdef int map_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Map* m = <Map*>ctx
    cdef int last = m.dims - 1
    cdef int64_t index[MAP_DIMS]
    cdef char* args[MAP_OPERANDS]
    cdef char* row[MAP_OPERANDS]
    cdef int64_t rest = lo
    cdef intptr_t n
    cdef int d, k, flags
    fe_clear()
    for k in range(m.operands):
        row[k] = m.base[k]
    for d in range(last, -1, -1):
        index[d] = rest % m.shape[d]
        rest = rest // m.shape[d]
        for k in range(m.operands):
            row[k] += index[d] * m.strides[d][k]
    while True:
        # `row` is at `index`; one run along the last axis.
        n = min(m.shape[last] - index[last], hi - lo)
        for k in range(m.operands):
            args[k] = row[k]        # a loop may change its arguments
        m.loop(args, &n, m.strides[last], m.data)
        lo += n
        if lo >= hi:
            break
        # The start of the next run: carry.
        for k in range(m.operands):
            row[k] -= index[last] * m.strides[last][k]
        index[last] = 0
        d = last - 1
        while True:
            index[d] += 1
            for k in range(m.operands):
                row[k] += m.strides[d][k]
            if index[d] < m.shape[d]:
                break
            for k in range(m.operands):
                row[k] -= m.shape[d] * m.strides[d][k]
            index[d] = 0
            d -= 1
    flags = fe_test()
    if flags:
        # relaxed: read after the join
        u32_fetch_or_relaxed(&m.flags, flags)
    return 0


cdef int map_run(Worker* w, Map* m, int64_t grain) noexcept nogil:
    cdef Bridge b
    u32_store_relaxed(&m.flags, 0)
    bridge_init(&b, map_leaf, NULL, m, grain)
    return bridge_run(w, &b, m.size)
