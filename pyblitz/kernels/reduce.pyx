"""Block reduction; see reduce.pxd."""
from libc.errno cimport ENOMEM
from libc.math cimport NAN
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from pyblitz.kernels.blocks cimport gather_flags
from pyblitz.kernels.map cimport Block, map_blocks, map_walk, most_items
from pyblitz.kernels.numbers cimport Real
from pyblitz.kernels.simd.levels cimport simd
from pyblitz.runtime.atomic cimport u32_store_relaxed
from pyblitz.runtime.bridge cimport bridge_middle
from pyblitz.runtime.os cimport fe_clear

cdef extern from "pyblitz/kernels/simd/lanes.h" nogil:
    enum:
        ROW_ITEMS "PB_ROW"
        ROWS_AT_ONCE "PB_ROWS_AT_ONCE"
    float pairs_of_floats "pb_pairs_float"(float* rows, intptr_t count)
    double pairs_of_doubles "pb_pairs_double"(double* rows, intptr_t count)

cdef enum:
    BLOCK_BYTES = 262144
    SMALL_BLOCK_BYTES = 131072  # half of that at least: a block costs 0.15 us beside its items
    ALONE_ITEMS = 32768
    DEAR_ITEMS = 2048
    STEP_ITEMS = 64     # where blocks of dear items end


# ---- pairwise sums ----------------------------------------------------------
# After Higham, "The accuracy of floating point summation" (1993), as NumPy's are.  Rows
# are summed in lanes side by side (simd/lanes.h), so few additions come one after another: the
# error bound is no greater than NumPy's.

cdef inline Real pairwise_sum(const Real* a, intptr_t n) noexcept nogil:
    if Real is float:
        return simd.sum_floats(a, n)
    else:
        return simd.sum_doubles(a, n)


cdef inline Real pairwise_dot(const Real* a, const Real* b, intptr_t n) noexcept nogil:
    if Real is float:
        return simd.dot_floats(a, b, n)
    else:
        return simd.dot_doubles(a, b, n)


cdef inline Real add_rows(Real* rows, intptr_t count) noexcept nogil:
    if Real is float:
        return pairs_of_floats(rows, count)
    else:
        return pairs_of_doubles(rows, count)


# Both apart from what calls itself: each call of it would have their arrays on the stack.
cdef Real row_sum(const Real* a, intptr_t step, intptr_t n) noexcept nogil:
    cdef Real row[ROW_ITEMS]
    cdef intptr_t i
    for i in range(n):
        row[i] = (<const Real*>(<const char*>a + i * step))[0]
    return pairwise_sum(row, n)


cdef Real row_dot(const Real* a, intptr_t astep, const Real* b, intptr_t bstep,
                  intptr_t n) noexcept nogil:
    cdef Real row[ROW_ITEMS]
    cdef Real col[ROW_ITEMS]
    cdef intptr_t i
    for i in range(n):
        row[i] = (<const Real*>(<const char*>a + i * astep))[0]
        col[i] = (<const Real*>(<const char*>b + i * bstep))[0]
    return pairwise_dot(row, col, n)


cdef Real strided_sum(const Real* a, intptr_t astep, const Real* b, intptr_t bstep, intptr_t n,
                      bint products) noexcept nogil:
    """Of the items at a; or of the products of these and the items at b."""
    cdef Real rows[ROWS_AT_ONCE]
    cdef const Real* x
    cdef const Real* y
    cdef intptr_t half, at, k, count = (n + ROW_ITEMS - 1) // ROW_ITEMS
    if n <= ROW_ITEMS:
        return row_dot(a, astep, b, bstep, n) if products else row_sum(a, astep, n)
    if count <= ROWS_AT_ONCE:
        for k in range(count):
            at = k * ROW_ITEMS
            x = <const Real*>(<const char*>a + at * astep)
            y = <const Real*>(<const char*>b + at * bstep)
            rows[k] = strided_sum(x, astep, y, bstep, min(n - at, <intptr_t>ROW_ITEMS), products)
        return add_rows(rows, count)
    half = (n // 2 + ROW_ITEMS - 1) & ~<intptr_t>(ROW_ITEMS - 1)
    x = <const Real*>(<const char*>a + half * astep)
    y = <const Real*>(<const char*>b + half * bstep)
    return (strided_sum(a, astep, b, bstep, half, products)
            + strided_sum(x, astep, y, bstep, n - half, products))


cdef inline void sum_loop(char** args, intptr_t n, const intptr_t* steps, Real* acc) noexcept nogil:
    if steps[1] == sizeof(Real):
        acc[0] += pairwise_sum(<const Real*>args[1], n)
    else:
        acc[0] += strided_sum(<const Real*>args[1], steps[1], <const Real*>args[1], steps[1], n,
                              False)


cdef inline void dot_loop(char** args, intptr_t n, const intptr_t* steps, Real* acc) noexcept nogil:
    if steps[1] == sizeof(Real) and steps[2] == sizeof(Real):
        acc[0] += pairwise_dot(<const Real*>args[1], <const Real*>args[2], n)
    else:
        acc[0] += strided_sum(<const Real*>args[1], steps[1], <const Real*>args[2], steps[2], n,
                              True)


cdef void sum_float(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    sum_loop(args, dims[0], steps, <float*>args[0])


cdef void sum_double(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    sum_loop(args, dims[0], steps, <double*>args[0])


cdef void dot_float(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    dot_loop(args, dims[0], steps, <float*>args[0])


cdef void dot_double(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    dot_loop(args, dims[0], steps, <double*>args[0])


# ---- sums of integers -------------------------------------------------------
# They wrap, so the order does not matter.

ctypedef fused Integer:
    int32_t
    uint32_t
    uint64_t


cdef inline uint64_t integer_at(const Integer* a, intptr_t step, intptr_t i) noexcept nogil:
    return <uint64_t>(<const Integer*>(<const char*>a + i * step))[0]


cdef inline void integer_sum(char** args, intptr_t n, const intptr_t* steps, const Integer* a) noexcept nogil:
    cdef uint64_t* acc = <uint64_t*>args[0]
    cdef intptr_t i
    if steps[1] != sizeof(Integer):
        for i in range(n):
            acc[0] += integer_at(a, steps[1], i)
    elif Integer is int32_t:
        acc[0] += simd.sum_signed(a, n)
    elif Integer is uint32_t:
        acc[0] += simd.sum_unsigned(a, n)
    else:
        acc[0] += simd.sum_wide(a, n)


cdef inline void integer_dot(char** args, intptr_t n, const intptr_t* steps, const Integer* a,
                             const Integer* b) noexcept nogil:
    cdef uint64_t* acc = <uint64_t*>args[0]
    cdef intptr_t i
    if steps[1] != sizeof(Integer) or steps[2] != sizeof(Integer):
        for i in range(n):
            acc[0] += integer_at(a, steps[1], i) * integer_at(b, steps[2], i)
    elif Integer is uint32_t:
        acc[0] += simd.dot_narrow(a, b, n)
    elif Integer is uint64_t:
        acc[0] += simd.dot_wide(a, b, n)


cdef void sum_signed(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    integer_sum(args, dims[0], steps, <const int32_t*>args[1])


cdef void sum_unsigned(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    integer_sum(args, dims[0], steps, <const uint32_t*>args[1])


cdef void sum_wide(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    integer_sum(args, dims[0], steps, <const uint64_t*>args[1])


cdef void dot_narrow(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    integer_dot(args, dims[0], steps, <const uint32_t*>args[1], <const uint32_t*>args[2])


cdef void dot_wide(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    integer_dot(args, dims[0], steps, <const uint64_t*>args[1], <const uint64_t*>args[2])


# ---- products ---------------------------------------------------------------
# Those of integers wrap, too.

ctypedef fused Factor:
    float
    double
    int32_t
    uint32_t
    uint64_t

ctypedef fused Product:
    float
    double
    uint64_t


cdef inline Product factor_at(const Factor* a, intptr_t step, intptr_t i, Product one) noexcept nogil:
    return <Product>(<const Factor*>(<const char*>a + i * step))[0]


cdef inline Product product(const Factor* a, intptr_t step, intptr_t n, Product one) noexcept nogil:
    """In four quarters side by side: each multiplication waits for the one before.  one: of the type that
    they are multiplied in."""
    cdef intptr_t part = n >> 2, i
    cdef Product p0 = one, p1 = one, p2 = one, p3 = one
    for i in range(part):
        p0 *= factor_at(a, step, i, one)
        p1 *= factor_at(a, step, part + i, one)
        p2 *= factor_at(a, step, 2 * part + i, one)
        p3 *= factor_at(a, step, 3 * part + i, one)
    for i in range(4 * part, n):
        p3 *= factor_at(a, step, i, one)
    return (p0 * p1) * (p2 * p3)


cdef inline void multiply_by(const intptr_t* dims, const intptr_t* steps, const Factor* a,
                             Product* acc) noexcept nogil:
    acc[0] *= product(a, steps[1], dims[0], <Product>1)


cdef void product_float(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    multiply_by(dims, steps, <const float*>args[1], <float*>args[0])


cdef void product_double(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    multiply_by(dims, steps, <const double*>args[1], <double*>args[0])


cdef void product_signed(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    multiply_by(dims, steps, <const int32_t*>args[1], <uint64_t*>args[0])


cdef void product_unsigned(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    multiply_by(dims, steps, <const uint32_t*>args[1], <uint64_t*>args[0])


cdef void product_wide(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    multiply_by(dims, steps, <const uint64_t*>args[1], <uint64_t*>args[0])


# ---- extremes ---------------------------------------------------------------

cdef inline void extremes_floating(const Real* a, intptr_t n, Real* pair) noexcept nogil:
    cdef bint lost
    if pair[0] != pair[0]:
        return
    if Real is float:
        lost = simd.extremes_floats(a, n, pair, pair + 1)
    else:
        lost = simd.extremes_doubles(a, n, pair, pair + 1)
    if lost:
        pair[0] = pair[1] = NAN
        # Comparisons with a NaN are invalid; NumPy does not say so.
        fe_clear()


cdef inline intptr_t items_of(const intptr_t* dims, const intptr_t* steps, intptr_t size) noexcept nogil:
    """Of a pair, which is joined, both are items."""
    return dims[0] * (steps[1] // size)


cdef void extremes_float(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    extremes_floating(<const float*>args[1], items_of(dims, steps, sizeof(float)), <float*>args[0])


cdef void extremes_double(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    extremes_floating(<const double*>args[1], items_of(dims, steps, sizeof(double)), <double*>args[0])


cdef void extremes_narrow(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    cdef int32_t* pair = <int32_t*>args[0]
    simd.extremes_narrow(<const int32_t*>args[1], items_of(dims, steps, sizeof(int32_t)), pair, pair + 1)


cdef void extremes_wide(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    cdef int64_t* pair = <int64_t*>args[0]
    simd.extremes_wide(<const int64_t*>args[1], items_of(dims, steps, sizeof(int64_t)), pair, pair + 1)


cdef inline void zero_nans(const Real* items, Real* to, intptr_t n) noexcept nogil:
    cdef intptr_t i
    for i in range(n):
        to[i] = items[i] if items[i] == items[i] else 0


cdef void zero_nans_float(const float* items, float* to, intptr_t n, void* user) noexcept nogil:
    zero_nans(items, to, n)


cdef void zero_nans_double(const double* items, double* to, intptr_t n, void* user) noexcept nogil:
    zero_nans(items, to, n)


# ---- folds ------------------------------------------------------------------

cdef inline void fold(const Fold* f, double* acc, char* first, intptr_t first_step, char* second,
                      intptr_t second_step, intptr_t n) noexcept nogil:
    """acc = acc op items[0] op items[1] ..."""
    cdef char* args[4]
    cdef intptr_t steps[4]
    args[0] = <char*>acc
    steps[0] = 0
    args[1] = first
    steps[1] = first_step
    args[2] = args[3] = <char*>acc
    steps[2] = steps[3] = 0
    if f.inputs == 2:
        args[2] = second
        steps[2] = second_step
    f.loop(args, &n, steps, f.data)


cdef struct BlockFold:
    Reduce* reduce
    Partial* partial


cdef int fold_block(void* state, const Block* b) noexcept nogil:
    cdef Reduce* r = (<BlockFold*>state).reduce
    cdef Partial* p = (<BlockFold*>state).partial
    cdef Fold* f
    cdef char* items
    cdef intptr_t n, step, k = 0
    cdef int i
    # The pair that an arg reduction compares.
    cdef double pair[2 * ACC_DOUBLES]
    if b.n == 0:
        return 0
    for i in range(r.folds):
        f = &r.fold[i]
        items = b.at[f.slots[0]]
        step = b.step[f.slots[0]]
        n = b.n
        if p.items == 0:
            if f.has_start:
                memcpy(p.acc[i], f.start, f.itemsize)
            else:
                memcpy(p.acc[i], items, f.itemsize)
                items += step
                n -= 1
        if n > 0:
            fold(f, p.acc[i], items, step, b.at[f.slots[1]] if f.inputs == 2 else NULL,
                 b.step[f.slots[1]] if f.inputs == 2 else 0, n)
    if r.arg != NULL:
        f = &r.fold[0]
        items = b.at[f.slots[0]]
        r.arg(items, b.n, &k, r.arr)
        n = 1
        if p.items != 0:
            memcpy(pair, p.acc[0], f.itemsize)
            memcpy(<char*>pair + f.itemsize, items + k * f.itemsize, f.itemsize)
            r.arg(pair, 2, &n, r.arr)
        if n == 1:
            memcpy(p.acc[0], items + k * f.itemsize, f.itemsize)
            p.at = b.lo + k
    p.items += b.n
    # Not left to the steps of the next block, which would take them for their own.
    if gather_flags(&r.flags):
        fe_clear()
    return 0


cdef int reduce_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Reduce* r = <Reduce*>ctx
    # Of its own, off the cache lines that its neighbours write.
    cdef Partial p
    cdef BlockFold leaf
    cdef int64_t mid
    cdef int rc
    if hi - lo > r.grain:
        # A leaf of several: the same tree.
        mid = bridge_middle(lo, hi, r.grain)
        rc = reduce_leaf(w, ctx, lo, mid)
        if rc == 0:
            rc = reduce_leaf(w, ctx, mid, hi)
        return rc if rc != 0 else reduce_combine(w, ctx, lo, mid, hi)
    p.items = 0
    p.at = 0
    leaf.reduce = r
    leaf.partial = &p
    rc = map_walk(w, r.map, lo, hi, fold_block, &leaf)
    r.partials[lo // r.grain] = p
    return rc


cdef int reduce_combine(Worker* w, void* ctx, int64_t lo, int64_t mid, int64_t hi) noexcept nogil:
    cdef Reduce* r = <Reduce*>ctx
    cdef Partial* left = &r.partials[lo // r.grain]
    cdef Partial* right = &r.partials[mid // r.grain]
    cdef Fold* f
    cdef Fold joined
    cdef double pair[2 * ACC_DOUBLES]
    cdef intptr_t k = 0
    cdef int i
    if right.items == 0:
        return 0
    if left.items == 0:
        left[0] = right[0]
        return 0
    fe_clear()
    for i in range(r.folds):
        f = &r.fold[i]
        joined = f[0]
        if f.join != NULL:
            joined.loop = f.join
            joined.data = f.join_data
            joined.inputs = 1
        fold(&joined, left.acc[i], <char*>right.acc[i], f.itemsize, NULL, 0, 1)
    if r.arg != NULL:
        f = &r.fold[0]
        memcpy(pair, left.acc[0], f.itemsize)
        memcpy(<char*>pair + f.itemsize, right.acc[0], f.itemsize)
        r.arg(pair, 2, &k, r.arr)
        if k == 1:
            memcpy(left.acc[0], right.acc[0], f.itemsize)
            left.at = right.at
    left.items += right.items
    gather_flags(&r.flags)
    return 0


cdef int64_t block_items(int64_t n, intptr_t itemsize, bint dear) noexcept nogil:
    """By these alone, for where the blocks end decides how sums are rounded.  Smaller ones where few
    of the largest would be: the first is done before others are called in, and the last while they
    wait.  About as many as a power of two, so that each half of the tree is half of the work."""
    # Of two bytes are also halves, each of which takes as long as several wider numbers.
    cdef intptr_t size = max(itemsize, <intptr_t>4)
    cdef int64_t items = SMALL_BLOCK_BYTES // size, blocks = 1
    cdef int64_t unit = STEP_ITEMS if dear else ROW_ITEMS
    if dear:
        items = DEAR_ITEMS
    while items * size < BLOCK_BYTES and (16 * items < n or (n <= ALONE_ITEMS and not dear)):
        items *= 2
    while blocks * items < n:
        blocks *= 2
    if blocks > 1:
        items = ((n + blocks - 1) // blocks + unit - 1) & ~(unit - 1)
    return items


cdef int reduce_run(Worker* w, Reduce* r) noexcept nogil:
    cdef int rc
    cdef int64_t n = r.map.size
    u32_store_relaxed(&r.flags, 0)
    r.result.items = 0
    if n == 0:
        return 0
    r.partials = <Partial*>malloc((n + r.grain - 1) // r.grain * sizeof(Partial))
    if r.partials == NULL:
        return ENOMEM
    rc = map_blocks(w, r.map, reduce_leaf, reduce_combine, r, r.grain, most_items(w, r.map, r.grain))
    r.result = r.partials[0]
    free(r.partials)
    r.partials = NULL
    return rc
