"""Scans; see scan.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from pyblitz.runtime.atomic cimport (
    i64_fetch_add_relaxed, i64_store_relaxed, spin_hint, u32_fetch_or_relaxed,
    u32_load_acquire, u32_store_relaxed, u32_store_release)
from pyblitz.runtime.bridge cimport Bridge, bridge_init, bridge_limit, bridge_run
from pyblitz.runtime.os cimport fe_clear, fe_test, yield_thread

cdef enum:
    # A running sum of floats waits for each addition; eight at a time hide that.
    CHAINS = 8
    # Bytes of one chain's part of a block.  Eight of them fit into L2 with their
    # results; the odd 128 keep them off each other's sets in L1.
    CHAIN_BYTES = 8192 + 128
    LOOP_BYTES = 65536
    # How often to look for a total: about as long as it takes to compute.
    SPINS = 500

# What a cell holds.
cdef enum:
    NOTHING
    TOTAL
    LAST        # and the total

ctypedef fused Item:
    uint32_t
    uint64_t
    float
    double

cdef struct Leaf:
    Scan* scan
    Bridge bridge


# ---- sums -------------------------------------------------------------------

cdef inline Item sum_of(const Item* a, int64_t n) noexcept nogil:
    """In eight interleaved parts: what vector registers do fastest."""
    cdef Item s[8]
    cdef Item rest = <Item>-0.0     # which changes nothing, not even the sign of a zero
    cdef int64_t i
    cdef int k
    for k in range(8):
        s[k] = <Item>-0.0
    for i in range(0, n - 7, 8):
        for k in range(8):
            s[k] += a[i + k]
    for i in range(n & ~<int64_t>7, n):
        rest += a[i]
    return (((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))) + rest


cdef inline void chains_total(const Item* a, int64_t n, Item* parts, Item* total) noexcept nogil:
    """The sums of a full block's parts, and of the block."""
    cdef int64_t part = n // CHAINS
    cdef int k
    for k in range(CHAINS):
        parts[k] = sum_of(a + k * part, part)
    total[0] = parts[0]
    for k in range(1, CHAINS):
        total[0] += parts[k]
    for k in range(CHAINS * part, n):
        total[0] += a[k]


cdef inline void chains_scan(const Item* a, Item* out, int64_t n, Item* parts,
                             const Item* before) noexcept nogil:
    """before: NULL for the first block."""
    cdef Item c[CHAINS]
    cdef int64_t part = n // CHAINS, i = 1
    cdef int k
    # The first element is not added to a zero, which would lose its sign.
    cdef Item last = a[0] if before == NULL else before[0] + a[0]
    if Item is float or Item is double:
        if part > 0:
            c[1] = parts[0] if before == NULL else before[0] + parts[0]
            for k in range(2, CHAINS):
                c[k] = c[k - 1] + parts[k - 1]
            out[0] = c[0] = last
            for k in range(1, CHAINS):
                c[k] += a[k * part]
                out[k * part] = c[k]
            for i in range(1, part):
                for k in range(CHAINS):
                    c[k] += a[k * part + i]
                    out[k * part + i] = c[k]
            last = c[CHAINS - 1]
            i = CHAINS * part
    # Of integers, all: an addition takes one cycle, so there is nothing to hide.
    if i == 1:
        out[0] = last
    for i in range(i, n):
        last += a[i]
        out[i] = last


# ---- blocks -----------------------------------------------------------------

cdef inline void fold(Scan* s, const char* left, const char* items, char* into, intptr_t n,
                      intptr_t stride, intptr_t into_stride) noexcept nogil:
    """into[i] = (left, or into[i - 1]) op items[i]."""
    cdef char* args[3]
    cdef intptr_t steps[3]
    args[0] = <char*>left
    args[1] = <char*>items
    args[2] = into
    steps[0] = into_stride
    steps[1] = stride
    steps[2] = into_stride
    s.loop(args, &n, steps, s.data)


cdef inline void combine(Scan* s, char* left, const char* right) noexcept nogil:
    """left = left op right."""
    if s.kind == SCAN_LOOP:
        fold(s, left, right, left, 1, 0, 0)
    elif s.kind == SCAN_ADD_U32:
        (<uint32_t*>left)[0] += (<const uint32_t*>right)[0]
    elif s.kind == SCAN_ADD_U64:
        (<uint64_t*>left)[0] += (<const uint64_t*>right)[0]
    elif s.kind == SCAN_ADD_F32:
        (<float*>left)[0] += (<const float*>right)[0]
    else:
        (<double*>left)[0] += (<const double*>right)[0]


cdef inline void subtract(Scan* s, char* left, const char* right) noexcept nogil:
    """left -= right, of integers."""
    if s.kind == SCAN_ADD_U32:
        (<uint32_t*>left)[0] -= (<const uint32_t*>right)[0]
    else:
        (<uint64_t*>left)[0] -= (<const uint64_t*>right)[0]


cdef void block_total(Scan* s, const char* a, int64_t n, char* parts, char* total) noexcept nogil:
    if s.kind == SCAN_LOOP:
        memcpy(total, a, s.itemsize)
        if n > 1:
            fold(s, total, a + s.src_stride, total, n - 1, s.src_stride, 0)
    elif s.kind == SCAN_ADD_U32:
        chains_total(<const uint32_t*>a, n, <uint32_t*>parts, <uint32_t*>total)
    elif s.kind == SCAN_ADD_U64:
        chains_total(<const uint64_t*>a, n, <uint64_t*>parts, <uint64_t*>total)
    elif s.kind == SCAN_ADD_F32:
        chains_total(<const float*>a, n, <float*>parts, <float*>total)
    else:
        chains_total(<const double*>a, n, <double*>parts, <double*>total)


cdef void block_scan(Scan* s, const char* a, char* out, int64_t n, char* parts,
                     const char* before) noexcept nogil:
    if s.kind == SCAN_LOOP:
        if before == NULL:
            memcpy(out, a, s.itemsize)
        else:
            fold(s, before, a, out, 1, 0, 0)
        if n > 1:
            fold(s, out, a + s.src_stride, out + s.dst_stride, n - 1, s.src_stride, s.dst_stride)
    elif s.kind == SCAN_ADD_U32:
        chains_scan(<const uint32_t*>a, <uint32_t*>out, n, <uint32_t*>parts,
                    <const uint32_t*>before)
    elif s.kind == SCAN_ADD_U64:
        chains_scan(<const uint64_t*>a, <uint64_t*>out, n, <uint64_t*>parts,
                    <const uint64_t*>before)
    elif s.kind == SCAN_ADD_F32:
        chains_scan(<const float*>a, <float*>out, n, <float*>parts, <const float*>before)
    else:
        chains_scan(<const double*>a, <double*>out, n, <double*>parts, <const double*>before)


cdef uint32_t await_state(const Scan* s, const ScanCell* cell) noexcept nogil:
    """What a cell holds, after a wait for its total.  Who took the block is busy with
    that and waits for nobody; but it may be preempted, so this gives up, unless
    items are overwritten and nobody else can know their total."""
    cdef int spins = 0
    # acquire: partner of the stores in scan_leaf
    cdef uint32_t state = u32_load_acquire(&cell.state)
    while state == NOTHING:
        spins += 1
        if spins < SPINS:
            spin_hint()
        elif s.src != s.dst:
            break
        else:
            yield_thread()
        state = u32_load_acquire(&cell.state)
    return state


cdef void total_of(Scan* s, int64_t block, char* total) noexcept nogil:
    """The total of a block, of this thread's own making if there is none."""
    cdef double parts[CHAINS]
    if await_state(s, &s.cells[block]) != NOTHING:
        memcpy(total, s.cells[block].total, s.itemsize)
    else:
        block_total(s, s.src + block * s.block * s.src_stride, s.block, <char*>parts, total)


cdef void look_back(Scan* s, int64_t block, char* before) noexcept nogil:
    """The result of all blocks before this one, combined from left to right."""
    cdef int64_t i = block - 1
    cdef double total[4]
    # acquire: partner of the stores in scan_leaf
    while i >= 0 and u32_load_acquire(&s.cells[i].state) != LAST:
        i -= 1
    if i >= 0:
        memcpy(before, s.cells[i].last, s.itemsize)
    else:
        i = 0
        total_of(s, 0, before)
    for i in range(i + 1, block):
        total_of(s, i, <char*>total)
        combine(s, before, <char*>total)


cdef int scan_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Leaf* leaf = <Leaf*>ctx
    cdef Scan* s = leaf.scan
    # There are as many leaves as blocks; which block a leaf does, the ticket says,
    # so that all before it have begun.
    # relaxed: the cells order what they publish
    cdef int64_t block = i64_fetch_add_relaxed(&s.ticket, 1)
    cdef ScanCell* cell = s.cells + block
    cdef double parts[CHAINS]
    cdef double before[4]
    cdef const char* a
    cdef char* out
    cdef int flags
    lo = block * s.block
    hi = min(lo + s.block, s.n)
    a = s.src + lo * s.src_stride
    out = s.dst + lo * s.dst_stride
    if (s.kind == SCAN_ADD_U32 or s.kind == SCAN_ADD_U64) and not w.sharing and block > 0:
        # Nobody else is at work and waits for a total; the sums are exact either way.
        if u32_load_acquire(&s.cells[block - 1].state) == LAST:
            block_scan(s, a, out, hi - lo, <char*>parts, <char*>s.cells[block - 1].last)
            memcpy(cell.last, s.dst + (hi - 1) * s.dst_stride, s.itemsize)
            # Somebody may have looked at the block before it had a result.
            memcpy(cell.total, cell.last, s.itemsize)
            subtract(s, <char*>cell.total, <const char*>s.cells[block - 1].last)
            u32_store_release(&cell.state, LAST)
            return 0
    fe_clear()
    block_total(s, a, hi - lo, <char*>parts, <char*>cell.total)
    if block == 0:
        memcpy(cell.last, cell.total, s.itemsize)
    else:
        # release: partner of await_state and look_back
        u32_store_release(&cell.state, TOTAL)
        look_back(s, block, <char*>before)
        memcpy(cell.last, before, s.itemsize)
        combine(s, <char*>cell.last, <const char*>cell.total)
    u32_store_release(&cell.state, LAST)
    block_scan(s, a, out, hi - lo, <char*>parts, NULL if block == 0 else <char*>before)
    flags = fe_test()
    if flags:
        # relaxed: read after the join
        u32_fetch_or_relaxed(&s.flags, flags)
        bridge_limit(&leaf.bridge, 0)
    return 0


cdef int scan_run(Worker* w, Scan* s) noexcept nogil:
    cdef Leaf leaf
    cdef int64_t blocks, i
    cdef int rc
    if s.kind == SCAN_LOOP:
        s.block = LOOP_BYTES // s.itemsize
    else:
        s.block = CHAINS * (CHAIN_BYTES // s.itemsize)
    blocks = (s.n + s.block - 1) // s.block
    s.cells = <ScanCell*>malloc(blocks * sizeof(ScanCell))
    if s.cells == NULL:
        return ENOMEM
    for i in range(blocks):
        u32_store_relaxed(&s.cells[i].state, NOTHING)
    i64_store_relaxed(&s.ticket, 0)
    u32_store_relaxed(&s.flags, 0)
    leaf.scan = s
    bridge_init(&leaf.bridge, scan_leaf, NULL, &leaf, 1)
    rc = bridge_run(w, &leaf.bridge, blocks)
    free(s.cells)
    return rc
