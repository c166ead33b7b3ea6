"""Counting; see count.pxd."""
from libc.errno cimport ENOMEM
from libc.float cimport DBL_EPSILON, FLT_EPSILON
from libc.math cimport fabs
from libc.stdint cimport (
    int8_t, int16_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t)
from libc.stdlib cimport calloc, free
from pyblitz.kernels.blocks cimport run_blocks
from pyblitz.kernels.numbers cimport (
    NUMBER_F64, NUMBER_I16, NUMBER_I32, NUMBER_I64, NUMBER_I8, NUMBER_U16, NUMBER_U32, NUMBER_U64,
    NUMBER_U8, Number, Real)
from pyblitz.kernels.prefetch cimport prefetch
from pyblitz.kernels.search cimport search_block, search_prepare
from pyblitz.kernels.simd.levels cimport simd
from pyblitz.runtime.atomic cimport u32_load_relaxed, u32_store_relaxed
from pyblitz.runtime.bridge cimport Bridge, bridge_init, bridge_limit, bridge_run

cdef enum:
    MAX_BLOCKS = 64
    MIN_BLOCK_ITEMS = 16384
    # Items that are binned, then counted: they stay in L1.
    CHUNK = 1024
    # Items that follow each other go to different tables while four of these
    # fit into L1: of equal ones, each would wait for the one before.
    LANES = 4
    LANE_BYTES = 4096
    # With more bins for each item, most of the time goes to the bins.
    DIRECT_BINS = 4
    # Entries that keep the lanes off each other's sets.
    PAD = 16
    LEAF_BINS = 2048
    # Bytes that are asked for before they are read: while items are counted, the processor does not
    # do so by itself.
    AHEAD_BYTES = 2048

cdef struct CountRun:
    Count* count
    Bridge bridge


# ---- an item's bin ----------------------------------------------------------
# With edges, bin 0 counts what comes before the first edge, and the bin after the last one what does
# not come before the last edge; NaNs fall into one of these two.

ctypedef fused Counter:
    uint32_t
    int64_t


cdef inline uint64_t bits_of(Number x) noexcept nogil:
    return <uint64_t><int64_t>x


cdef uint64_t take_items(const Number* a, int64_t n, int64_t step, int64_t bins, int32_t* bin, Counter* table,
                         int64_t lanes, int64_t stride) noexcept nogil:
    """Counts items in a table or, if there is a ``bin``, writes their bins there.  Returns all their bits,
    or-ed.  Each gets a valid bin in any case, as the number of bins is a power of two: another thread may
    change an item between a check and its use.  Without either, only looks at each step-th item."""
    cdef uint64_t all_bits = 0, bits, second, third, fourth, last = bins - 1
    cdef int64_t i = 0
    if bin != NULL:
        for i in range(n):
            bits = bits_of(a[i])
            all_bits |= bits
            bin[i] = <int32_t>(bits & last)
        return all_bits
    if table == NULL:
        while i < n:
            all_bits |= bits_of(a[i])
            i += step
        return all_bits
    if lanes == LANES:
        while i + LANES <= n:
            prefetch(<const char*>(a + i) + AHEAD_BYTES)
            bits, second, third, fourth = (
                bits_of(a[i]), bits_of(a[i + 1]), bits_of(a[i + 2]), bits_of(a[i + 3]))
            all_bits |= bits | second | third | fourth
            table[bits & last] += 1
            table[stride + <int64_t>(second & last)] += 1
            table[2 * stride + <int64_t>(third & last)] += 1
            table[3 * stride + <int64_t>(fourth & last)] += 1
            i += LANES
    for i in range(i, n):
        bits = bits_of(a[i])
        all_bits |= bits
        table[bits & last] += 1
    return all_bits


cdef uint64_t take_any(const Count* c, int64_t lo, int64_t n, int64_t step, int32_t* bin, Counter* table,
                       int64_t lanes, int64_t stride) noexcept nogil:
    """Of items lo .. lo + n."""
    if c.kind == NUMBER_I8:
        return take_items(<const int8_t*>c.items + lo, n, step, c.bins, bin, table, lanes, stride)
    if c.kind == NUMBER_U8:
        return take_items(<const uint8_t*>c.items + lo, n, step, c.bins, bin, table, lanes, stride)
    if c.kind == NUMBER_I16:
        return take_items(<const int16_t*>c.items + lo, n, step, c.bins, bin, table, lanes, stride)
    if c.kind == NUMBER_U16:
        return take_items(<const uint16_t*>c.items + lo, n, step, c.bins, bin, table, lanes, stride)
    if c.kind == NUMBER_I32:
        return take_items(<const int32_t*>c.items + lo, n, step, c.bins, bin, table, lanes, stride)
    if c.kind == NUMBER_U32:
        return take_items(<const uint32_t*>c.items + lo, n, step, c.bins, bin, table, lanes, stride)
    return take_items(<const int64_t*>c.items + lo, n, step, c.bins, bin, table, lanes, stride)


cdef uint64_t count_bits(const Count* c, int64_t step) noexcept nogil:
    return take_any(c, 0, c.n, step, NULL, <uint32_t*>NULL, 0, 0)


cdef inline bint are_bins(const Count* c, uint64_t all_bits) noexcept nogil:
    return all_bits < <uint64_t>c.bins


cdef double apart_of(const Real* edges, int64_t bins, Real scale) noexcept nogil:
    """How far from the middle of a computed bin an item may be and is in it surely.  What is computed
    of an item grows with it: an item between what is computed of two edges is between them."""
    cdef Real first = edges[1], place
    cdef double off = 0
    cdef int64_t k
    for k in range(1, bins + 2):
        place = (edges[k] - first) * scale + <Real>0.5
        off = max(off, fabs(place - (k - 0.5)))
    # What this may round to.
    return 0.5 - off - (DBL_EPSILON if Real is double else FLT_EPSILON)


cdef inline void bin_width(const Real* x, int64_t n, int64_t bins, const Real* edges, Real scale,
                           double apart, int32_t* bin) noexcept nogil:
    cdef int32_t k
    cdef int64_t i
    cdef bint near
    if Real is double:
        near = simd.bins_doubles(x, n, edges[1], scale, <double>bins, apart, bin)
    else:
        near = simd.bins_floats(x, n, edges[1], scale, <float>bins, <float>apart, bin)
    for i in range(n if near else 0):
        k = bin[i]
        bin[i] = k + (x[i] >= edges[k + 1]) - (x[i] < edges[k])


cdef void bin_search(const SortedSearch* edges, const double* x, int64_t n, int32_t* bin) noexcept nogil:
    cdef SortedSearch s = edges[0]
    cdef int64_t found[CHUNK]
    cdef int64_t i
    s.keys = <const char*>x
    search_block(&s, 0, n, found)
    for i in range(n):
        bin[i] = <int32_t>found[i]


cdef void to_doubles(const Number* a, int64_t n, double* x) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        x[i] = <double>a[i]


cdef const double* load(const Count* c, int64_t lo, int64_t n, double* x) noexcept nogil:
    """Items lo .. lo + n as doubles; in x, if they are not."""
    if c.kind == NUMBER_F64:
        return <const double*>c.items + lo
    if c.kind == NUMBER_I8:
        to_doubles(<const int8_t*>c.items + lo, n, x)
    elif c.kind == NUMBER_U8:
        to_doubles(<const uint8_t*>c.items + lo, n, x)
    elif c.kind == NUMBER_I16:
        to_doubles(<const int16_t*>c.items + lo, n, x)
    elif c.kind == NUMBER_U16:
        to_doubles(<const uint16_t*>c.items + lo, n, x)
    elif c.kind == NUMBER_I32:
        to_doubles(<const int32_t*>c.items + lo, n, x)
    elif c.kind == NUMBER_U32:
        to_doubles(<const uint32_t*>c.items + lo, n, x)
    elif c.kind == NUMBER_I64:
        to_doubles(<const int64_t*>c.items + lo, n, x)
    elif c.kind == NUMBER_U64:
        to_doubles(<const uint64_t*>c.items + lo, n, x)
    else:
        to_doubles(<const float*>c.items + lo, n, x)
    return x


cdef bint bins_of(const Count* c, int64_t lo, int64_t n, int32_t* bin) noexcept nogil:
    """The entries of a table for items lo .. lo + n.  False: one has none."""
    cdef double x[CHUNK]
    if c.binning == BIN_ITEM:
        return are_bins(c, take_any(c, lo, n, 1, bin, <uint32_t*>NULL, 0, 0))
    if c.binning == BIN_WIDTH_F32:
        bin_width(<const float*>c.items + lo, n, c.bins, <const float*>c.edges, <float>c.scale, c.apart, bin)
    elif c.binning == BIN_WIDTH_F64:
        bin_width(load(c, lo, n, x), n, c.bins, <const double*>c.edges, c.scale, c.apart, bin)
    else:
        bin_search(&c.search, load(c, lo, n, x), n, bin)
    return True


# ---- counting ---------------------------------------------------------------

cdef inline void add_counts(uint32_t* table, int64_t lanes, int64_t stride, const int32_t* bin,
                            int64_t n) noexcept nogil:
    cdef int64_t i = 0
    if lanes == LANES:
        while i + LANES <= n:
            table[bin[i]] += 1
            table[stride + bin[i + 1]] += 1
            table[2 * stride + bin[i + 2]] += 1
            table[3 * stride + bin[i + 3]] += 1
            i += LANES
    for i in range(i, n):
        table[bin[i]] += 1


cdef inline void add_weights(double* table, int64_t lanes, int64_t stride, const int32_t* bin,
                             const double* weights, int64_t n) noexcept nogil:
    cdef int64_t i = 0
    if lanes == LANES:
        while i + LANES <= n:
            table[bin[i]] += weights[i]
            table[stride + bin[i + 1]] += weights[i + 1]
            table[2 * stride + bin[i + 2]] += weights[i + 2]
            table[3 * stride + bin[i + 3]] += weights[i + 3]
            i += LANES
    for i in range(i, n):
        table[bin[i]] += weights[i]


cdef int32_t greatest(const int32_t* bin, int64_t n) noexcept nogil:
    cdef int32_t top = bin[0]
    cdef int64_t i
    for i in range(n):
        top = bin[i] if bin[i] > top else top
    return top


cdef int bins_count_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef CountRun* leaf = <CountRun*>ctx
    cdef Count* c = leaf.count
    cdef int64_t block = lo, at, n, top = -1
    cdef int64_t first = block * c.lanes * c.stride
    cdef double* sums = c.sums if c.direct else <double*>c.tables + first
    cdef uint32_t* counts = <uint32_t*>c.tables + first
    cdef int32_t bin[CHUNK]
    cdef bint inside
    lo = block * c.block
    hi = min(lo + c.block, c.n)
    at = lo
    while at < hi:
        n = min(<int64_t>CHUNK, hi - at)
        if c.binning != BIN_ITEM or c.weights != NULL:
            inside = bins_of(c, at, n, bin)
        elif c.direct:
            inside = are_bins(c, take_any(c, at, n, 1, NULL, c.counts, 1, 0))
        else:
            inside = are_bins(c, take_any(c, at, n, 1, NULL, counts, c.lanes, c.stride))
        if not inside:
            # relaxed: read after the join
            u32_store_relaxed(&c.outside, 1)
            bridge_limit(&leaf.bridge, 0)
            return 0
        if c.weights != NULL:
            add_weights(sums, c.lanes, c.stride, bin, c.weights + at, n)
            if c.binning == BIN_ITEM:
                top = max(top, <int64_t>greatest(bin, n))
        elif c.binning != BIN_ITEM:
            add_counts(counts, c.lanes, c.stride, bin, n)
        at += n
    c.tops[block] = top
    return 0


cdef int total_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    """The tables' sums for bins lo .. hi."""
    cdef Count* c = <Count*>ctx
    cdef int64_t table, i
    cdef const uint32_t* counts
    cdef const double* sums
    for i in range(lo, hi):
        if c.weights == NULL:
            c.counts[i] = 0
        else:
            c.sums[i] = 0
    for table in range(c.blocks * c.lanes):
        if c.weights == NULL:
            counts = <uint32_t*>c.tables + table * c.stride + c.before
            for i in range(lo, hi):
                c.counts[i] += counts[i]
        else:
            sums = <double*>c.tables + table * c.stride + c.before
            for i in range(lo, hi):
                c.sums[i] += sums[i]
    return 0


cdef int64_t count_blocks(Count* c) noexcept nogil:
    cdef int64_t size = sizeof(uint32_t) if c.weights == NULL else sizeof(double)
    cdef int64_t entries = c.bins + 2, least
    c.before = 0 if c.binning == BIN_ITEM else 1
    c.lanes = LANES if c.bins * size <= LANE_BYTES else 1
    c.stride = (entries + PAD - 1) // PAD * PAD + PAD
    c.blocks = min(<int64_t>MAX_BLOCKS, max(<int64_t>1, c.n // MIN_BLOCK_ITEMS))
    # What clearing and adding up the tables costs is some of the counting.
    least = c.lanes * c.stride
    c.blocks = min(c.blocks, max(c.n // (4 * least), <int64_t>(c.weights == NULL and c.n >= least)))
    c.direct = c.blocks < 1 and c.binning == BIN_ITEM and c.bins <= DIRECT_BINS * c.n
    if c.direct:
        c.blocks = c.lanes = 1
    if c.bins >= <int64_t>1 << 30:
        c.blocks = 0
    if c.blocks > 0:
        c.block = (c.n + c.blocks - 1) // c.blocks
        # Places and counts of a block are 32 bits.
        if c.block >= <int64_t>1 << 31:
            c.blocks = 0
    return c.blocks


cdef int count_run(Worker* w, Count* c) noexcept nogil:
    cdef CountRun leaf
    cdef int64_t i
    cdef int64_t size = sizeof(uint32_t) if c.weights == NULL else sizeof(double)
    cdef int rc
    leaf.count = c
    u32_store_relaxed(&c.outside, 0)
    c.tables = calloc(1 if c.direct else c.blocks * c.lanes * c.stride, size)
    c.tops = <int64_t*>calloc(c.blocks, sizeof(int64_t))
    if c.tables == NULL or c.tops == NULL:
        free(c.tables)
        free(c.tops)
        return ENOMEM
    if c.binning == BIN_SEARCH:
        search_prepare(&c.search)
    elif c.binning == BIN_WIDTH_F32:
        c.apart = apart_of(<const float*>c.edges, c.bins, <float>c.scale)
    elif c.binning == BIN_WIDTH_F64:
        c.apart = apart_of(<const double*>c.edges, c.bins, c.scale)
    bridge_init(&leaf.bridge, bins_count_leaf, NULL, &leaf, 1)
    rc = bridge_run(w, &leaf.bridge, c.blocks)
    if rc == 0 and u32_load_relaxed(&c.outside) == 0:
        if not c.direct:
            rc = run_blocks(w, total_leaf, c, LEAF_BINS, c.bins)
        c.top = -1
        for i in range(c.blocks):
            c.top = max(c.top, c.tops[i])
        if rc == 0 and c.weights == NULL and c.binning == BIN_ITEM:
            c.top = c.bins - 1
            while c.top >= 0 and c.counts[c.top] == 0:
                c.top -= 1
    free(c.tables)
    free(c.tops)
    return rc
