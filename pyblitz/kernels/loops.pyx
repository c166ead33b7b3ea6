"""Others' inner loops, shared; see loops.pxd."""
from libc.stdint cimport INT64_MAX, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from pyblitz.kernels.blocks cimport gather_flags, run_blocks
from pyblitz.kernels.map cimport Map, map_grain
from pyblitz.kernels.numbers cimport FloatBits, infinity, sign_bit
from pyblitz.kernels.reduce cimport ACC_DOUBLES, Reduce, block_items, reduce_run
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_u32, i64_fetch_add_relaxed, i64_load_relaxed, i64_store_relaxed, u32_fetch_or_relaxed,
    u32_load_relaxed, u32_store_relaxed, unlikely)
from pyblitz.runtime.os cimport fe_clear, fe_raise, fe_test, now_ns
from pyblitz.runtime.pool cimport current_worker, hooks

cdef extern from "pyblitz/kernels/stand_ins.h" nogil:
    SharedLoop* pb_loops
    const loop_fn* pb_loop_fns
    void (*pb_share)(SharedLoop*, char**, const intptr_t*, const intptr_t*, void*) noexcept nogil

cdef enum:
    # What a call must take to be looked at: the entry costs some hundredths of it.
    WORTH_NS = 12000
    # Where items are slow, a part takes so many nanoseconds at most.
    PART_NS = 20000
    # A loop that was never timed is looked at from so many items on; a generalised one from
    # FIRST_CORE_ITEMS on.
    FIRST_ITEMS = 4096
    FIRST_CORE_ITEMS = 64
    # Calls of fewer are never looked at, whatever they take.
    FEWEST_ITEMS = 64
    MOST_ITEMS = 1 << 20
    # A reduction of fewer bytes is over before anybody comes.
    REDUCE_BYTES = 1 << 20
    # A search for what ends a reduction of bools goes so far before others help.
    SEARCH_ITEMS = 1 << 18

cdef loop_enter_fn enter_to_end = NULL
# As loop_share says; of all loops.
cdef atomic_i64 forced_from
i64_store_relaxed(&forced_from, 0)


cdef struct LoopCall:
    SharedLoop* loop        # what is called
    char** args             # the call's arguments: this and the next three
    const intptr_t* dims
    const intptr_t* steps
    void* data
    Worker* caller          # the worker that began it
    int64_t grain           # items of a part
    bint timed              # whether the first part is timed
    atomic_u32 flags        # floating-point flags seen
    atomic_u32 helped       # whether another thread took part


cdef SharedLoop* loop_at(int k) noexcept nogil:
    return &pb_loops[k]


cdef loop_fn loop_stand_in(int k) noexcept nogil:
    return pb_loop_fns[k]


cdef void loops_init(loop_enter_fn enter) noexcept nogil:
    global enter_to_end, pb_share
    enter_to_end = enter
    pb_share = share


cdef void loop_init(SharedLoop* l, loop_fn fn, LoopKind* kind) noexcept nogil:
    l.fn = fn
    l.kind = kind
    i64_store_relaxed(&l.calls, 0)
    i64_store_relaxed(&l.shared, 0)
    i64_store_relaxed(&l.learnt, FIRST_ITEMS if kind.core_dims == 0 else FIRST_CORE_ITEMS)
    i64_store_relaxed(&l.share_from, INT64_MAX)


cdef void loop_pass(SharedLoop* l) noexcept nogil:
    if i64_load_relaxed(&forced_from) == 0 and i64_load_relaxed(&l.share_from) < INT64_MAX:
        i64_store_relaxed(&l.learnt, i64_load_relaxed(&l.share_from))
    i64_store_relaxed(&l.share_from, INT64_MAX)


cdef void loop_share(SharedLoop* l, int64_t always_from) noexcept nogil:
    i64_store_relaxed(&forced_from, always_from)
    if always_from != 0:
        i64_store_relaxed(&l.share_from, always_from)
    elif i64_load_relaxed(&l.share_from) == INT64_MAX:
        i64_store_relaxed(&l.share_from, i64_load_relaxed(&l.learnt))


# ---- what may be shared ------------------------------------------------------

cdef void operand_extent(const LoopCall* c, int k, intptr_t* first, intptr_t* last) noexcept nogil:
    """The addresses of operand k's first byte and of the one past its last."""
    cdef const LoopKind* kind = c.loop.kind
    cdef intptr_t low = <intptr_t>c.args[k]
    cdef intptr_t high = low, reach
    cdef int i, before = 0
    reach = (c.dims[0] - 1) * c.steps[k]
    low += min(reach, 0)
    high += max(reach, 0)
    if kind.core_dims > 0:
        for i in range(k):
            before += kind.core_counts[i]
        for i in range(before, before + kind.core_counts[k]):
            reach = (c.dims[1 + kind.core_which[i]] - 1) * c.steps[kind.args + i]
            low += min(reach, 0)
            high += max(reach, 0)
    first[0] = low
    last[0] = high + kind.sizes[k]


cdef bint never_meet(const LoopCall* c, int a, int b) noexcept nogil:
    """Whether no item of operand a is in the memory of another item of operand b."""
    cdef const LoopKind* kind = c.loop.kind
    cdef intptr_t first_a = 0, last_a = 0, first_b = 0, last_b = 0, between
    cdef intptr_t step = max(c.steps[a], -c.steps[a])
    operand_extent(c, a, &first_a, &last_a)
    operand_extent(c, b, &first_b, &last_b)
    if last_a <= first_b or last_b <= first_a:
        return True
    if kind.core_dims > 0 or c.steps[a] != c.steps[b]:
        return False
    if c.args[a] == c.args[b]:
        return kind.sizes[a] <= step and kind.sizes[b] <= step
    # Fields of one record, as the parts of complex numbers are.
    between = (c.args[b] - c.args[a]) % step
    if between < 0:
        between += step
    return kind.sizes[a] <= between and kind.sizes[b] <= step - between


cdef bint independent(const LoopCall* c) noexcept nogil:
    """Whether the items can be computed in any order."""
    cdef const LoopKind* kind = c.loop.kind
    cdef int k, i
    for k in range(kind.inputs, kind.args):
        # Each result has a place of its own.
        if max(c.steps[k], -c.steps[k]) < kind.sizes[k] or c.steps[k] == 0:
            return False
        for i in range(kind.args):
            if i != k and (i < kind.inputs or i > k) and not never_meet(c, k, i):
                return False
    return True


cdef bint reduces(const LoopCall* c) noexcept nogil:
    """Whether it is acc = acc op items[0] op items[1] ..., in an order that does not show."""
    cdef const LoopKind* kind = c.loop.kind
    cdef intptr_t first = 0, last = 0
    if (kind.reduces == REDUCES_NOT or c.steps[0] != 0 or c.steps[2] != 0 or c.args[0] != c.args[2]
            or kind.sizes[0] > ACC_DOUBLES * <intptr_t>sizeof(double)):
        return False
    operand_extent(c, 1, &first, &last)
    return <intptr_t>c.args[0] >= last or <intptr_t>c.args[0] + kind.sizes[0] <= first


# ---- elementwise -------------------------------------------------------------

cdef int loop_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef LoopCall* c = <LoopCall*>ctx
    cdef const LoopKind* kind = c.loop.kind
    cdef char* args[LOOP_ARGS]      # a loop may change its arguments
    cdef intptr_t dims[LOOP_ARGS]
    cdef int64_t began = 0
    cdef int k
    for k in range(kind.args):
        args[k] = c.args[k] + lo * c.steps[k]
    dims[0] = hi - lo
    for k in range(kind.core_dims):
        dims[1 + k] = c.dims[1 + k]
    if w != c.caller:
        # relaxed: a statistic, read after the join
        u32_store_relaxed(&c.helped, 1)
    if lo == 0 and c.timed:
        began = now_ns()
    fe_clear()
    c.loop.fn(args, dims, c.steps, c.data)
    if gather_flags(&c.flags):
        fe_clear()
    if lo == 0 and c.timed:
        note_loop_pace(c.loop, now_ns() - began, hi - lo)
    return -1 if unlikely(kind.raises) and hooks().is_raised() else 0


cdef void note_loop_pace(SharedLoop* l, int64_t took, int64_t items) noexcept nogil:
    """From how many items on the next calls are looked at."""
    cdef double worth = <double>WORTH_NS * items / max(took, 1)
    # relaxed: any recent number is as good as another
    i64_store_relaxed(&l.share_from, min(max(<int64_t>worth, FEWEST_ITEMS), MOST_ITEMS))


cdef inline void share_at_once(Worker* w) noexcept nogil:
    """Whether it pays or not, where that is forced."""
    if i64_load_relaxed(&forced_from) != 0:
        w.sharing = w.pool.n_background > 0


cdef int run_items(Worker* w, void* ctx) noexcept nogil:
    cdef LoopCall* c = <LoopCall*>ctx
    cdef bint sharing = w.sharing
    cdef int rc
    c.caller = w
    share_at_once(w)
    rc = run_blocks(w, loop_leaf, c, c.grain, c.dims[0])
    w.sharing = sharing
    return rc


cdef int64_t grain_of(const LoopCall* c, int64_t share_from) noexcept nogil:
    cdef const LoopKind* kind = c.loop.kind
    cdef int64_t grain, dear
    cdef intptr_t bytes = 0
    cdef int k
    if i64_load_relaxed(&forced_from) != 0:
        grain = (c.dims[0] + 3) // 4
        return grain if grain < 64 else (grain + 63) & ~<int64_t>63
    # What PART_NS allows, going by when a call was found to be worth a look.
    dear = share_from * PART_NS // WORTH_NS
    if kind.core_dims > 0:
        return max(dear // 4, 1)
    for k in range(kind.args):
        if c.steps[k] != 0:
            bytes += kind.sizes[k]
    grain = map_grain(bytes, 0)
    # A multiple of 64, as there.
    return max(min(grain, dear & ~<int64_t>63), 64)


# ---- reductions --------------------------------------------------------------

cdef struct LoopReduction:
    LoopCall* call
    const LoopKind* kind
    Map map
    Reduce reduce


cdef void counted_loop(char** args, const intptr_t* dims, const intptr_t* steps, void* data) noexcept nogil:
    cdef LoopCall* c = <LoopCall*>data
    if current_worker() != c.caller:
        u32_store_relaxed(&c.helped, 1)
    c.loop.fn(args, dims, steps, c.data)


cdef int run_loop_reduction(Worker* w, void* ctx) noexcept nogil:
    cdef LoopReduction* c = <LoopReduction*>ctx
    cdef bint sharing = w.sharing
    cdef int rc
    c.call.caller = w
    share_at_once(w)
    rc = reduce_run(w, &c.reduce)
    w.sharing = sharing
    return rc or (c.kind.reduces == REDUCES_EXTREME and order_shows(w, c))


cdef bint reduce_items(LoopCall* c) noexcept nogil:
    """Whether it was done; else the accumulator is as it was."""
    cdef const LoopKind* kind = c.loop.kind
    cdef LoopReduction r
    cdef char* args[3]
    cdef intptr_t steps[3]
    cdef intptr_t one = 1, n = c.dims[0], done = 0
    cdef bint ran = True
    if n * kind.sizes[1] < REDUCE_BYTES and i64_load_relaxed(&forced_from) == 0:
        return False
    r.call = c
    r.kind = kind
    r.map.operands = 1
    r.map.dims = 1
    r.map.registers = r.map.constants = r.map.n_steps = 0
    r.map.block = INT64_MAX
    r.map.pace = 0
    r.map.strides[0][0] = c.steps[1]
    r.reduce.map = &r.map
    r.reduce.folds = 1
    r.reduce.arg = NULL
    r.reduce.fold[0].loop = counted_loop
    r.reduce.fold[0].data = c
    r.reduce.fold[0].join = NULL
    r.reduce.fold[0].inputs = 1
    r.reduce.fold[0].slots[0] = 0
    r.reduce.fold[0].itemsize = kind.sizes[0]
    r.reduce.fold[0].has_start = False
    r.reduce.partials = NULL
    args[0] = args[2] = c.args[0]
    args[1] = <char*>r.reduce.result.acc[0]
    steps[0] = steps[1] = steps[2] = 0
    while done < n:
        r.map.size = n - done
        if kind.absorbing >= 0:
            # Each round after the first reads no more items than all rounds before it, so little is read
            # behind the item that ends the search.
            r.map.size = min(r.map.size, max(done, <intptr_t>SEARCH_ITEMS))
        r.map.shape[0] = r.map.size
        r.map.base[0] = c.args[1] + done * c.steps[1]
        r.reduce.grain = c.grain
        if i64_load_relaxed(&forced_from) == 0:
            r.reduce.grain = block_items(r.map.size, kind.sizes[0], False)
        if enter_to_end(run_loop_reduction, &r, &ran) != 0 or not ran:
            return False        # the first time: later ones are of bools
        # relaxed: read after the join
        u32_fetch_or_relaxed(&c.flags, u32_load_relaxed(&r.reduce.flags))
        c.loop.fn(args, &one, steps, c.data)
        done += r.map.size
        if kind.absorbing >= 0 and c.args[0][0] == kind.absorbing:
            break
    return True


cdef struct Zeros:
    LoopReduction* call
    atomic_u32 signs        # bit 0: there is +0, bit 1: there is -0


cdef inline uint32_t signs_of_zeros(const char* items, intptr_t step, int64_t n,
                                    FloatBits like) noexcept nogil:
    cdef FloatBits x, minus = sign_bit(like)
    cdef bint plus_seen = False, minus_seen = False
    cdef int64_t i
    for i in range(n):
        x = (<const FloatBits*>(items + i * step))[0]
        plus_seen |= x == 0
        minus_seen |= x == minus
    return plus_seen | minus_seen << 1


cdef int zeros_leaf(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil:
    cdef Zeros* z = <Zeros*>ctx
    cdef intptr_t step = z.call.map.strides[0][0]
    cdef const char* items = z.call.map.base[0] + lo * step
    cdef uint32_t signs
    if z.call.kind.sizes[0] == 8:
        signs = signs_of_zeros[uint64_t](items, step, hi - lo, 0)
    elif z.call.kind.sizes[0] == 4:
        signs = signs_of_zeros[uint32_t](items, step, hi - lo, 0)
    else:
        signs = signs_of_zeros[uint16_t](items, step, hi - lo, 0)
    # relaxed: read after the join
    u32_fetch_or_relaxed(&z.signs, signs)
    return 0


cdef bint order_shows(Worker* w, LoopReduction* c) noexcept nogil:
    """Whether the result is a NaN, or a zero where there are zeros of both signs: then only the loop
    itself decides which bits it gives."""
    cdef Zeros z
    cdef const char* found = <const char*>c.reduce.result.acc[0]
    cdef uint64_t bits = 0
    cdef intptr_t size = c.kind.sizes[0]
    memcpy(&bits, found, size)      # little-endian, as are all that NumPy has loops for here
    bits &= ~(<uint64_t>1 << (8 * size - 1))
    if bits != 0:
        if size == 8:
            return bits > infinity[uint64_t](0)
        return bits > (infinity[uint32_t](0) if size == 4 else infinity[uint16_t](0))
    z.call = c
    u32_store_relaxed(&z.signs, 0)
    run_blocks(w, zeros_leaf, &z, SEARCH_ITEMS // size, c.map.size)
    return u32_load_relaxed(&z.signs) == 3


# ---- a call ------------------------------------------------------------------

cdef void share(SharedLoop* l, char** args, const intptr_t* dims, const intptr_t* steps,
                void* data) noexcept nogil:
    cdef LoopCall c
    cdef int64_t share_from = i64_load_relaxed(&l.share_from)
    cdef int before
    cdef bint ran = False
    # relaxed: a statistic
    i64_fetch_add_relaxed(&l.calls, 1)
    c.loop = l
    c.args = args
    c.dims = dims
    c.steps = steps
    c.data = data
    c.timed = i64_load_relaxed(&forced_from) == 0
    u32_store_relaxed(&c.flags, 0)
    u32_store_relaxed(&c.helped, 0)
    # The caller reads what has gathered since it last looked.
    before = fe_test()
    c.grain = grain_of(&c, share_from)
    if independent(&c):
        enter_to_end(run_items, &c, &ran)
    elif l.kind.args == 3 and reduces(&c):
        ran = reduce_items(&c)
    if not ran:
        l.fn(args, dims, steps, data)
        return
    fe_clear()
    fe_raise(before | <int>u32_load_relaxed(&c.flags))
    if u32_load_relaxed(&c.helped):
        i64_fetch_add_relaxed(&l.shared, 1)
