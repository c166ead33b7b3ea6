"""Elementwise loops; see map.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport INT64_MAX, uint8_t, uintptr_t
from libc.stdlib cimport free, malloc
from pyblitz.kernels.blocks cimport LEAF_BYTES, gather_flags, run_blocks
from pyblitz.kernels.filter cimport compress
from pyblitz.runtime.atomic cimport u32_store_relaxed
from pyblitz.runtime.bridge cimport Bridge, bridge_init, bridge_run
from pyblitz.runtime.os cimport fe_clear, fe_test, now_ns

cdef enum:
    # How many bytes one thread reads and writes in a ns at most: two cache lines a cycle are one or two
    # times as much, but no loop does nothing else.
    BYTES_IN_NS = 64
    # How long a leaf should take, where that is known: some hundred times what a theft costs.
    LEAF_NS = 8000
    # Of leaves of several grains: how many of them they have at most, how long they should take, and how
    # many each thread is to have.
    MOST_GRAINS = 8
    MOST_NS = 64000
    LEAVES = 16


# ---- shape ------------------------------------------------------------------

cdef void map_of_loop(Map* m, loop_fn loop, void* data) noexcept nogil:
    cdef int k
    m.one.kind = STEP_LOOP
    m.one.loop = loop
    m.one.data = data
    m.one.args = m.operands
    for k in range(m.operands):
        m.one.slots[k] = k
    m.n_steps = 1
    m.pace = 0
    m.dear = False
    m.steps = &m.one
    m.registers = m.constants = 0
    m.block = INT64_MAX


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
    for i in range(m.dims if out >= 0 else 0):
        if m.strides[i][out] < 0:
            for k in range(m.operands):
                m.base[k] += (m.shape[i] - 1) * m.strides[i][k]
                m.strides[i][k] = -m.strides[i][k]
    # Insertion sort, largest step of `out` first; stable.
    for i in range(1, m.dims if out >= 0 else 0):
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


cdef int64_t map_grain(int64_t bytes_per_item, double pace) noexcept nogil:
    """Items of a leaf: a multiple of 64, so that only the last leaf ends inside
    a SIMD step and results do not depend on where leaves are cut."""
    cdef int64_t grain = LEAF_BYTES // (bytes_per_item if bytes_per_item > 0 else 1)
    if grain * pace > LEAF_NS:
        grain = <int64_t>(LEAF_NS / pace)
    return grain & ~63 if grain >= 64 else 64


# ---- the leaf ---------------------------------------------------------------

cdef void run_loops(Step* s, char** args, const intptr_t* steps, intptr_t n) noexcept nogil:
    """What a pair does, by the loops that it stands for, which says who met which floating-point
    errors.  What is between them lies where the result will."""
    cdef PairLoops* pair = <PairLoops*>s.data
    cdef char* at[3]
    cdef intptr_t by[3]
    cdef intptr_t items
    cdef int k
    while n > 0:
        items = min(n, <intptr_t>ALONE_ITEMS)
        at[0] = args[0]
        at[1] = args[1]
        by[0] = steps[0]
        by[1] = steps[1]
        at[pair.inputs] = args[3]
        by[pair.inputs] = steps[3]
        pair.loops[0](at, &items, by, pair.data[0])
        if gather_flags(&pair.flags):
            fe_clear()
        at[pair.turned] = at[2] = args[3]
        by[pair.turned] = by[2] = steps[3]
        at[1 - pair.turned] = args[2]
        by[1 - pair.turned] = steps[2]
        pair.loops[1](at, &items, by, pair.data[1])
        if gather_flags(&s.flags):
            fe_clear()
        n -= items
        for k in range(4):
            args[k] += items * steps[k]


cdef inline void run_pair(Step* s, char** args, const intptr_t* steps, intptr_t n) noexcept nogil:
    cdef intptr_t items
    cdef int k
    while n > 0:
        items = min(n, <intptr_t>PAIR_ITEMS)
        s.loop(args, &items, steps, NULL)
        if fe_test():
            # Once more, and the rest of the block.
            fe_clear()
            run_loops(s, args, steps, n)
            return
        n -= items
        for k in range(4):
            args[k] += items * steps[k]


cdef int run_steps(Worker* w, Map* m, Block* b) noexcept nogil:
    """All steps on one block."""
    cdef char* args[STEP_ARGS]
    cdef intptr_t steps[STEP_ARGS]
    cdef Step* s
    cdef int i, k, rc
    cdef intptr_t j, kept = b.n
    for i in range(m.n_steps):
        s = &m.steps[i]
        for k in range(s.args):
            args[k] = b.at[s.slots[k]]      # a loop may change its arguments
            steps[k] = b.step[s.slots[k]]
        if s.kind == STEP_LOOP:
            s.loop(args, &b.n, steps, s.data)
            if gather_flags(&s.flags):
                fe_clear()
        elif s.kind == STEP_PAIR:
            run_pair(s, args, steps, b.n)
        elif s.kind == STEP_INDEX:
            for j in range(b.n):
                (<int64_t*>args[0])[j] = s.start + (b.lo + j) * s.stride
        elif s.kind == STEP_CALL:
            rc = s.call(w, s, args, steps, b.lo, b.n)
            fe_clear()      # the callee has reported its own
            if rc != 0:
                return rc
        else:
            # A mask that another thread writes may be another for each array: what all have.
            for k in range(1, s.args, 2):
                kept = min(kept, compress(args[k + 1], args[k], steps[k], m.sizes[s.slots[k]],
                                          <const uint8_t*>args[0], b.n))
            if s.last:
                b.n = kept
                if kept == 0:
                    break
    return 0


cdef inline void place_registers(Map* m, Block* b, char* scratch) noexcept nogil:
    """Each from the beginning of a cache line on; and the constants, where they are."""
    cdef int k
    scratch = <char*>((<uintptr_t>scratch + 63) & ~<uintptr_t>63)
    for k in range(m.operands, m.operands + m.registers):
        b.at[k] = scratch
        b.step[k] = m.sizes[k]
        scratch += (m.sizes[k] * (m.block + 1) + 63) & ~<intptr_t>63    # compress: one past
    for k in range(m.operands + m.registers, m.operands + m.registers + m.constants):
        b.at[k] = m.constant[k]
        b.step[k] = 0


cdef int walk_runs(Worker* w, Map* m, int64_t lo, int64_t hi, char* scratch, sink_fn sink,
                   void* state) noexcept nogil:
    cdef Block b
    cdef int last = m.dims - 1
    cdef int64_t index[MAP_DIMS]
    cdef char* row[MAP_OPERANDS]
    cdef int64_t rest = lo, run, left
    cdef int d, k, rc
    fe_clear()
    for k in range(m.operands):
        row[k] = m.base[k]
    place_registers(m, &b, scratch)
    for d in range(last, -1, -1):
        index[d] = rest % m.shape[d]
        rest = rest // m.shape[d]
        for k in range(m.operands):
            row[k] += index[d] * m.strides[d][k]
    while True:
        # `row` is at `index`; one run along the last axis, in blocks.
        run = min(m.shape[last] - index[last], hi - lo)
        for k in range(m.operands):
            b.at[k] = row[k]
            b.step[k] = m.strides[last][k]
        left = run
        while True:
            b.n = min(left, m.block)
            b.lo = lo + run - left
            left -= b.n
            rest = b.n
            rc = run_steps(w, m, &b)
            if rc == 0 and sink != NULL:
                rc = sink(state, &b)
            if rc != 0:
                return rc
            if left == 0:
                break
            for k in range(m.operands):
                b.at[k] += rest * b.step[k]
        lo += run
        if lo >= hi:
            return 0
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


cdef int walk_near(Worker* w, Map* m, int64_t lo, int64_t hi, sink_fn sink, void* state) noexcept nogil:
    """With scratch memory on the stack, which may be small."""
    cdef double scratch[NEAR_DOUBLES + 8]
    return walk_runs(w, m, lo, hi, <char*>scratch, sink, state)


cdef int map_walk(Worker* w, Map* m, int64_t lo, int64_t hi, sink_fn sink, void* state) noexcept nogil:
    cdef intptr_t bytes = 0
    cdef char* scratch
    cdef int k, rc
    if m.registers == 0:
        return walk_runs(w, m, lo, hi, NULL, sink, state)
    for k in range(m.operands, m.operands + m.registers):
        bytes += (m.sizes[k] * (m.block + 1) + 63) & ~<intptr_t>63
    if bytes <= <intptr_t>(NEAR_DOUBLES * sizeof(double)):
        return walk_near(w, m, lo, hi, sink, state)
    scratch = <char*>malloc(bytes + 63)
    if scratch == NULL:
        return ENOMEM
    rc = walk_runs(w, m, lo, hi, scratch, sink, state)
    free(scratch)
    return rc


cdef void map_begin(Map* m) noexcept nogil:
    cdef int i
    for i in range(m.n_steps):
        u32_store_relaxed(&m.steps[i].flags, 0)
        if m.steps[i].kind == STEP_PAIR:
            u32_store_relaxed(&(<PairLoops*>m.steps[i].data).flags, 0)


cdef double least_ns(const Map* m) noexcept nogil:
    """What all elements take at least on one thread."""
    cdef intptr_t bytes = 0
    cdef int k
    for k in range(m.operands):
        bytes += min(max(m.strides[m.dims - 1][k], -m.strides[m.dims - 1][k]), <intptr_t>64)
    return m.size * max(m.pace, <double>bytes / BYTES_IN_NS)


cdef int64_t most_items(Worker* w, const Map* m, int64_t grain) noexcept nogil:
    """Of a leaf of several grains: none of what takes long, or nobody knows how long, for it is stopped between
    leaves."""
    cdef int64_t most = MOST_GRAINS * grain
    if m.pace <= 0 or m.dear:
        return grain
    if w != NULL and w.pool.n_background > 0:
        most = min(most, m.size // (LEAVES * (w.pool.n_background + 1)))
    if m.pace * most > MOST_NS:
        most = <int64_t>(MOST_NS / m.pace)
    return max(most, grain)


cdef int map_blocks(Worker* w, Map* m, leaf_fn leaf, combine_halves_fn combine, void* ctx,
                    int64_t grain, int64_t most) noexcept nogil:
    cdef Bridge b
    cdef int rc
    map_begin(m)
    if w == NULL:
        return run_blocks(NULL, leaf, ctx, grain, m.size)
    bridge_init(&b, leaf, combine, ctx, grain)
    b.most = most
    b.least_ns = least_ns(m)
    rc = bridge_run(w, &b, m.size)
    if m.size > 0:
        # b.done lacks the last leaf.
        m.pace = pace_after(m.pace, <double>(now_ns() - b.start) / m.size,
                            1 if b.done + most >= m.size else w.pool.n_background + 1)
    return rc


cdef int map_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    return map_walk(w, <Map*>ctx, lo, hi, NULL, NULL)


cdef int map_run(Worker* w, Map* m, int64_t grain) noexcept nogil:
    return map_blocks(w, m, map_leaf, NULL, m, grain, most_items(w, m, grain))


cdef intptr_t map_bits(const Map* m, int first) noexcept nogil:
    cdef intptr_t bits = 0
    cdef int k, d
    for k in range(first, m.operands):
        bits |= <intptr_t>m.base[k]
        for d in range(m.dims):
            bits |= m.strides[d][k]
    return bits
