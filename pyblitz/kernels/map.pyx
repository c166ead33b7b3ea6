"""Elementwise loops; see map.pxd."""
from libc.stdint cimport (
    int8_t, int16_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t)
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


# ---- loops over users' kernels ----------------------------------------------

ctypedef fused Scalar:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    float
    double


# `data` is a Kernel*; its type here only names the scalar.
cdef void scalar_loop_1(char** args, const intptr_t* dims, const intptr_t* steps,
                        Scalar* data) noexcept nogil:
    cdef Kernel* k = <Kernel*>data
    cdef intptr_t i
    cdef char* a = args[0]
    cdef char* o = args[1]
    if k.takes_user:
        for i in range(dims[0]):
            (<Scalar*>o)[0] = (<Scalar (*)(Scalar, void*) noexcept nogil>k.fn)(
                (<Scalar*>a)[0], k.user)
            a += steps[0]
            o += steps[1]
    else:
        for i in range(dims[0]):
            (<Scalar*>o)[0] = (<Scalar (*)(Scalar) noexcept nogil>k.fn)((<Scalar*>a)[0])
            a += steps[0]
            o += steps[1]


cdef void scalar_loop_2(char** args, const intptr_t* dims, const intptr_t* steps,
                        Scalar* data) noexcept nogil:
    cdef Kernel* k = <Kernel*>data
    cdef intptr_t i
    cdef char* a = args[0]
    cdef char* b = args[1]
    cdef char* o = args[2]
    if k.takes_user:
        for i in range(dims[0]):
            (<Scalar*>o)[0] = (<Scalar (*)(Scalar, Scalar, void*) noexcept nogil>k.fn)(
                (<Scalar*>a)[0], (<Scalar*>b)[0], k.user)
            a += steps[0]
            b += steps[1]
            o += steps[2]
    else:
        for i in range(dims[0]):
            (<Scalar*>o)[0] = (<Scalar (*)(Scalar, Scalar) noexcept nogil>k.fn)(
                (<Scalar*>a)[0], (<Scalar*>b)[0])
            a += steps[0]
            b += steps[1]
            o += steps[2]


cdef void block_loop(char** args, const intptr_t* dims, const intptr_t* steps,
                     void* data) noexcept nogil:
    """A kernel ``void f(const T*, ..., T*, intptr_t, void*)`` on one run.  The
    operands must be contiguous."""
    cdef Kernel* k = <Kernel*>data
    if k.inputs == 1:
        (<void (*)(void*, void*, intptr_t, void*) noexcept nogil>k.fn)(
            args[0], args[1], dims[0], k.user)
    else:
        (<void (*)(void*, void*, void*, intptr_t, void*) noexcept nogil>k.fn)(
            args[0], args[1], args[2], dims[0], k.user)


cdef loop_fn scalar_loop(char kind, int itemsize, int inputs) noexcept nogil:
    if inputs == 1:
        return scalar_loop_of_1(kind, itemsize)
    if inputs == 2:
        return scalar_loop_of_2(kind, itemsize)
    return NULL


cdef loop_fn scalar_loop_of_1(char kind, int itemsize) noexcept nogil:
    if kind == b"f":
        return <loop_fn>(scalar_loop_1[double]) if itemsize == 8 else <loop_fn>(scalar_loop_1[float])
    if kind == b"i":
        if itemsize == 8:
            return <loop_fn>(scalar_loop_1[int64_t])
        if itemsize == 4:
            return <loop_fn>(scalar_loop_1[int32_t])
        if itemsize == 2:
            return <loop_fn>(scalar_loop_1[int16_t])
        return <loop_fn>(scalar_loop_1[int8_t])
    if itemsize == 8:
        return <loop_fn>(scalar_loop_1[uint64_t])
    if itemsize == 4:
        return <loop_fn>(scalar_loop_1[uint32_t])
    if itemsize == 2:
        return <loop_fn>(scalar_loop_1[uint16_t])
    return <loop_fn>(scalar_loop_1[uint8_t])


cdef loop_fn scalar_loop_of_2(char kind, int itemsize) noexcept nogil:
    if kind == b"f":
        return <loop_fn>(scalar_loop_2[double]) if itemsize == 8 else <loop_fn>(scalar_loop_2[float])
    if kind == b"i":
        if itemsize == 8:
            return <loop_fn>(scalar_loop_2[int64_t])
        if itemsize == 4:
            return <loop_fn>(scalar_loop_2[int32_t])
        if itemsize == 2:
            return <loop_fn>(scalar_loop_2[int16_t])
        return <loop_fn>(scalar_loop_2[int8_t])
    if itemsize == 8:
        return <loop_fn>(scalar_loop_2[uint64_t])
    if itemsize == 4:
        return <loop_fn>(scalar_loop_2[uint32_t])
    if itemsize == 2:
        return <loop_fn>(scalar_loop_2[uint16_t])
    return <loop_fn>(scalar_loop_2[uint8_t])
