"""Scans; see scan.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from pyblitz.kernels.blocks cimport gather_flags
from pyblitz.runtime.atomic cimport (
    i64_fetch_add_relaxed, i64_store_relaxed, spin_hint, u32_load_acquire, u32_store_relaxed,
    u32_store_release)
from pyblitz.kernels.map cimport run_fold, run_unary
from pyblitz.kernels.numbers cimport Word
from pyblitz.kernels.simd.levels cimport simd
from pyblitz.runtime.bridge cimport Bridge, bridge_init, bridge_limit, bridge_run
from pyblitz.runtime.os cimport fe_clear, yield_thread

cdef enum:
    # A running sum or product of floats waits for each step; eight at a time hide that.
    CHAINS = 8
    # Bytes of one chain's part of a block.  Eight of them fit into L2 with their
    # results; an odd number of 128s keeps them off each other's sets in L1.
    APART_BYTES = 128
    CHAIN_BYTES = 8192 + APART_BYTES
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

cdef struct ScanRun:
    Scan* scan
    Bridge bridge


# ---- sums and products ------------------------------------------------------

cdef inline Item joined(Item a, Item b, bint product) noexcept nogil:
    return a * b if product else a + b


cdef inline Item all_of(const Item* a, int64_t n, bint product) noexcept nogil:
    """In eight interleaved parts: what vector registers do fastest."""
    cdef Item s[8]
    # Which changes nothing, not even the sign of a zero.
    cdef Item neutral = <Item>1 if product else <Item>-0.0
    cdef Item rest = neutral
    cdef int64_t i
    cdef int k
    for k in range(8):
        s[k] = neutral
    for i in range(0, n - 7, 8):
        for k in range(8):
            s[k] = joined(s[k], a[i + k], product)
    for i in range(n & ~<int64_t>7, n):
        rest = joined(rest, a[i], product)
    for k in range(4):
        s[k] = joined(s[k], s[k + 4], product)
    s[0] = joined(joined(s[0], s[2], product), joined(s[1], s[3], product), product)
    return joined(s[0], rest, product)


cdef inline int64_t chain_items(int64_t n, int64_t itemsize) noexcept nogil:
    """How many each chain of so many items has: an odd number of APART_BYTES."""
    cdef int64_t apart = APART_BYTES // itemsize
    return ((n // CHAINS // apart - 1) | 1) * apart if n >= CHAINS * apart else 0


cdef inline void chains_total(const Item* a, int64_t n, Item* parts, Item* total,
                              bint product) noexcept nogil:
    """Those of a block's parts, and of the block."""
    cdef int64_t part = chain_items(n, sizeof(Item))
    cdef int k
    for k in range(CHAINS):
        parts[k] = all_of(a + k * part, part, product)
    total[0] = parts[0]
    for k in range(1, CHAINS):
        total[0] = joined(total[0], parts[k], product)
    for k in range(CHAINS * part, n):
        total[0] = joined(total[0], a[k], product)


cdef inline void chains_scan(const Item* a, Item* out, int64_t n, const Item* parts,
                             const Item* before, bint product) noexcept nogil:
    """before: NULL for the first block."""
    cdef Item c[CHAINS]
    cdef int64_t part = chain_items(n, sizeof(Item)), i = 1
    cdef int k
    # The first element is not added to a zero, which would lose its sign.
    cdef Item last = a[0] if before == NULL else joined(before[0], a[0], product)
    if part > 0:
        c[1] = parts[0] if before == NULL else joined(before[0], parts[0], product)
        for k in range(2, CHAINS):
            c[k] = joined(c[k - 1], parts[k - 1], product)
        out[0] = c[0] = last
        for k in range(1, CHAINS):
            c[k] = joined(c[k], a[k * part], product)
            out[k * part] = c[k]
        for i in range(1, part):
            for k in range(CHAINS):
                c[k] = joined(c[k], a[k * part + i], product)
                out[k * part + i] = c[k]
        last = c[CHAINS - 1]
        i = CHAINS * part
    else:
        out[0] = last
    for i in range(i, n):
        last = joined(last, a[i], product)
        out[i] = last


# ---- blocks -----------------------------------------------------------------

cdef inline void combine(Scan* s, char* left, const char* right) noexcept nogil:
    """left = left op right."""
    run_fold(s.loop, s.data, left, right, 0, left, 0, 1)


cdef inline void some_total(ScanKind kind, const char* a, int64_t n, char* parts, char* total,
                            bint product) noexcept nogil:
    if kind == SCAN_U32:
        chains_total(<const uint32_t*>a, n, <uint32_t*>parts, <uint32_t*>total, product)
    elif kind == SCAN_U64:
        chains_total(<const uint64_t*>a, n, <uint64_t*>parts, <uint64_t*>total, product)
    elif kind == SCAN_F32:
        chains_total(<const float*>a, n, <float*>parts, <float*>total, product)
    else:
        chains_total(<const double*>a, n, <double*>parts, <double*>total, product)


cdef inline void some_scan(ScanKind kind, const char* a, char* out, int64_t n, const char* parts,
                           const char* before, bint product) noexcept nogil:
    if kind == SCAN_F32:
        chains_scan(<const float*>a, <float*>out, n, <const float*>parts, <const float*>before,
                    product)
    else:
        chains_scan(<const double*>a, <double*>out, n, <const double*>parts,
                    <const double*>before, product)


cdef inline void integers_scan(const Word* a, Word* out, int64_t n, const Word* before,
                               bint product) noexcept nogil:
    cdef Word first = product if before == NULL else before[0]
    if Word is uint32_t:
        (simd.products_narrow if product else simd.run_narrow)(a, n, first, out)
    else:
        (simd.products_wide if product else simd.run_wide)(a, n, first, out)


cdef void block_total(Scan* s, const char* a, int64_t n, char* parts, char* total) noexcept nogil:
    if s.kind == SCAN_LOOP:
        memcpy(total, a, s.itemsize)
        if n > 1:
            run_fold(s.loop, s.data, total, a + s.stride, s.stride, total, 0, n - 1)
    elif s.product:
        some_total(s.kind, a, n, parts, total, True)
    else:
        some_total(s.kind, a, n, parts, total, False)


cdef void block_scan(Scan* s, const char* a, char* out, int64_t n, const char* parts,
                     const char* before) noexcept nogil:
    if s.kind == SCAN_LOOP:
        if before == NULL:
            memcpy(out, a, s.itemsize)
        else:
            run_fold(s.loop, s.data, before, a, 0, out, 0, 1)
        if n > 1:
            run_fold(s.loop, s.data, out, a + s.stride, s.stride, out + s.dst_stride, s.dst_stride, n - 1)
    elif s.kind == SCAN_U32:
        integers_scan(<const uint32_t*>a, <uint32_t*>out, n, <const uint32_t*>before, s.product)
    elif s.kind == SCAN_U64:
        integers_scan(<const uint64_t*>a, <uint64_t*>out, n, <const uint64_t*>before, s.product)
    elif s.product:
        some_scan(s.kind, a, out, n, parts, before, True)
    else:
        some_scan(s.kind, a, out, n, parts, before, False)


cdef uint32_t await_state(const Scan* s, const ScanCell* cell) noexcept nogil:
    """What a cell holds, after a wait for its total.  Who took the block is busy with
    that and waits for nobody; but it may be preempted, so this gives up, unless
    items are cast or overwritten and nobody else can know their total."""
    cdef int spins = 0
    # acquire: partner of the stores in scan_leaf
    cdef uint32_t state = u32_load_acquire(&cell.state)
    while state == NOTHING:
        spins += 1
        if spins < SPINS:
            spin_hint()
        elif s.cast == NULL and s.src != s.dst:
            break
        else:
            yield_thread()
        state = u32_load_acquire(&cell.state)
    return state


cdef void look_back(Scan* s, int64_t block, char* before) noexcept nogil:
    """The result of all blocks before this one, combined from left to right."""
    cdef int64_t i = block - 1
    cdef double total[4]
    cdef double parts[CHAINS]
    cdef uint32_t state
    # acquire: partner of the stores in scan_leaf
    while i > 0 and u32_load_acquire(&s.cells[i].state) != LAST:
        i -= 1
    for i in range(i, block):
        state = await_state(s, &s.cells[i])
        if state == LAST:
            memcpy(before, s.cells[i].last, s.itemsize)
            continue
        if state == TOTAL:
            memcpy(total, s.cells[i].total, s.itemsize)
        else:
            block_total(s, s.src + i * s.block * s.src_stride, s.block, <char*>parts,
                        <char*>total)
        if i == 0:
            memcpy(before, total, s.itemsize)
        else:
            combine(s, before, <char*>total)


cdef int scan_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef ScanRun* leaf = <ScanRun*>ctx
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
    lo = block * s.block
    hi = min(lo + s.block, s.n)
    a = s.src + lo * s.src_stride
    out = s.dst + lo * s.dst_stride
    if s.cast != NULL:
        run_unary(s.cast, a, s.src_stride, out, s.dst_stride, hi - lo)
        a = out
    # acquire: partner of the stores below
    if s.exact and not w.sharing and (
            block == 0 or u32_load_acquire(&s.cells[block - 1].state) == LAST):
        # Nobody else is at work and waits for a total: one pass gives the same bits.
        block_scan(s, a, out, hi - lo, NULL, NULL if block == 0 else <char*>(cell - 1).last)
        memcpy(cell.last, out + (hi - lo - 1) * s.dst_stride, s.itemsize)
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
    if gather_flags(&s.flags):
        bridge_limit(&leaf.bridge, 0)
    return 0


cdef int scan_run(Worker* w, Scan* s) noexcept nogil:
    cdef ScanRun leaf
    cdef int64_t blocks, i
    cdef int rc
    if s.kind == SCAN_LOOP:
        s.block = LOOP_BYTES // s.itemsize
    else:
        s.block = CHAINS * (CHAIN_BYTES // s.itemsize)
    blocks = (s.n + s.block - 1) // s.block
    s.stride = s.src_stride if s.cast == NULL else s.dst_stride
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
