"""Programs over the public cimport API, as an author would write them."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from posix.unistd cimport usleep
from pyblitz cimport (
    Scope, Task, Worker, broadcast, current_worker, join, num_workers, parallel_for,
    parallel_reduce, parallel_reduce_commutative, poll, run, scope, scope_map, sort, sort_f32, sort_f64,
    sort_i32, sort_i64, sort_u32, sort_u64, spawn, spawn_many, spawn_on, submit, submit_keyed,
    task_init, worker_index)
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_ptr, i64_fetch_add_relaxed, i64_fetch_sub_acq_rel, i64_load_acquire,
    i64_load_relaxed, i64_store_relaxed, i64_store_release, ptr_cas_acq_rel, ptr_load_acquire,
    ptr_load_relaxed, ptr_store_relaxed, spin_hint)
from pyblitz.runtime.bridge cimport Failure
from pyblitz.runtime.os cimport yield_thread

cdef extern from *:
    """
    /* Where this thread is in a tree of work (see `Trees`); 0 is nowhere. */
    static _Thread_local int64_t t_root = 0, t_node = 0;
    static int64_t get_root(void) { return t_root; }
    static int64_t get_node(void) { return t_node; }
    static void set_place(int64_t root, int64_t node) { t_root = root; t_node = node; }
    """
    int64_t get_root() nogil
    int64_t get_node() nogil
    void set_place(int64_t, int64_t) nogil


# ---- counting ---------------------------------------------------------------

cdef struct Pending:
    atomic_i64 jobs     # submitted by flood, not yet done
    atomic_i64* n

cdef class Tally:
    """A number that kernels add to.  It must outlive what was submitted with it."""
    cdef atomic_i64 n
    cdef Pending pending

    def __cinit__(self):
        i64_store_relaxed(&self.n, 0)
        i64_store_relaxed(&self.pending.jobs, 0)
        self.pending.n = &self.n

    @property
    def value(self):
        return i64_load_acquire(&self.n)

    def reach(self, int64_t n):
        """Waits until it is n."""
        with nogil:
            while i64_load_acquire(&self.n) < n:
                yield_thread()


cdef int add_one(Worker* w, void* ctx) except? -1 nogil:
    # acq_rel: whoever reads the last one may free it
    i64_fetch_sub_acq_rel(<atomic_i64*>ctx, -1)
    return 0


def submit_many(Tally tally, int64_t n):
    cdef int64_t i
    with nogil:
        for i in range(n):
            submit(add_one, &tally.n)


cdef int submit_again(Worker* w, void* ctx) except? -1 nogil:
    # acq_rel: whoever reads the last one may free it
    if i64_fetch_sub_acq_rel(<atomic_i64*>ctx, 1) > 0:
        submit(submit_again, ctx)
    return 0


def submit_chain(int64_t links):
    """Each job submits the next: done when the tally's negative reaches -1."""
    cdef Tally t = Tally()
    i64_store_relaxed(&t.n, links)
    submit(submit_again, &t.n)
    return t


cdef int fail_detached(Worker* w, void* ctx) except? -1 nogil:
    with gil:
        raise ValueError("nobody waits for this")


def submit_failing():
    submit(fail_detached, NULL)


# ---- run, who am I ----------------------------------------------------------

cdef int look_around(Worker* w, void* ctx) except? -1 nogil:
    cdef int64_t* out = <int64_t*>ctx
    out[0] = num_workers(w)
    out[1] = worker_index(w)
    out[2] = current_worker() == w
    return 0


def inside():
    """(num_workers, worker_index, whether current_worker is right)"""
    cdef int64_t out[3]
    run(look_around, out)
    return out[0], out[1], bool(out[2])


def is_worker():
    return current_worker() != NULL


cdef int call_object(Worker* w, void* ctx) except? -1 nogil:
    with gil:
        result = (<object>ctx)()
        return 0 if result is None else result


def call(f):
    """run(f): what it returned, as an int."""
    cdef int rc
    with nogil:
        rc = run(call_object, <void*>f)
    return rc


def call_join(a, b, bint outside=True):
    cdef int rc
    with nogil:
        rc = join(NULL if outside else current_worker(),
                  call_object, <void*>a, call_object, <void*>b)
    return rc


# ---- join -------------------------------------------------------------------

cdef struct Fib:
    int64_t n
    int64_t value

cdef int fib_kernel(Worker* w, void* ctx) except? -1 nogil:
    cdef Fib* f = <Fib*>ctx
    cdef Fib a, b
    if f.n < 2:
        f.value = f.n
        return 0
    a.n = f.n - 1
    b.n = f.n - 2
    join(w, fib_kernel, &a, fib_kernel, &b)
    f.value = a.value + b.value
    return 0


def fib(int64_t n):
    cdef Fib f
    f.n = n
    with nogil:
        run(fib_kernel, &f)
    return f.value


cdef struct Deep:
    int64_t left
    bint mirrored
    atomic_i64* n

cdef int deep_kernel(Worker* w, void* ctx) except? -1 nogil:
    cdef Deep* d = <Deep*>ctx
    cdef Deep below
    i64_fetch_add_relaxed(d.n, 1)
    if d.left == 0:
        return 0
    below.left, below.mirrored, below.n = d.left - 1, d.mirrored, d.n
    if d.mirrored:
        return join(w, add_one, d.n, deep_kernel, &below)
    return join(w, deep_kernel, &below, add_one, d.n)


def deep(int64_t depth, bint mirrored=False):
    """A join in a join in a join ...: how many kernels ran."""
    cdef Tally t = Tally()
    cdef Deep d
    d.left, d.mirrored, d.n = depth, mirrored, &t.n
    with nogil:
        run(deep_kernel, &d)
    return t.value


cdef struct Side:
    int rc              # what it returns
    bint python         # ... by raising ValueError(rc)
    bint meet           # waits until the other side has begun
    atomic_i64* begun
    int bit

cdef int side_kernel(Worker* w, void* ctx) except? -1 nogil:
    cdef Side* s = <Side*>ctx
    i64_fetch_add_relaxed(s.begun, s.bit)
    while s.meet and i64_load_acquire(s.begun) != 3:
        yield_thread()
    if s.python:
        with gil:
            raise ValueError(s.rc)
    return s.rc


def join_failing(int a, int b, bint python, bint meet):
    """join of two sides that return a and b, or raise those that are not 0: (what join
    returned, or -1 and what was raised; a bit for each side that ran)."""
    cdef atomic_i64 begun
    cdef Side sides[2]
    cdef int rc = -1
    i64_store_relaxed(&begun, 0)
    for i in range(2):
        sides[i].rc = b if i else a
        sides[i].python = python and sides[i].rc != 0
        sides[i].meet = meet
        sides[i].begun = &begun
        sides[i].bit = 1 << i
    try:
        with nogil:
            rc = join(NULL, side_kernel, &sides[0], side_kernel, &sides[1])
    except ValueError as e:
        rc = -e.args[0]
    return rc, i64_load_acquire(&begun)


# ---- nothing unrelated ------------------------------------------------------

# A binary tree of work, its nodes numbered as in a heap (children 2v and 2v + 1).  While a
# thread waits in node v of one tree, it may only begin nodes below v: anything else would
# run under a lock that v's caller holds.

cdef enum:
    BY_JOIN, BY_FOR, BY_SCOPE

cdef struct Tree:
    int64_t root
    int64_t depth
    int how
    atomic_i64 nodes
    atomic_i64 intruders
    atomic_i64 moved        # nodes that began in a thread that was nowhere

cdef struct Node:
    Tree* tree
    int64_t v
    int64_t level

cdef int tree_kernel(Worker* w, void* ctx) except? -1 nogil:
    cdef Node node = (<Node*>ctx)[0]
    cdef Node below[2]
    cdef Tree* t = node.tree
    cdef int64_t root = get_root(), above = get_node(), up = node.v
    cdef int i, rc = 0
    if root:
        while up > above:
            up >>= 1
        if root != t.root or up != above:
            i64_fetch_add_relaxed(&t.intruders, 1)
    elif node.v != 1:
        i64_fetch_add_relaxed(&t.moved, 1)
    i64_fetch_add_relaxed(&t.nodes, 1)
    if node.level == t.depth:
        for i in range(60):
            spin_hint()
        return 0
    set_place(t.root, node.v)
    for i in range(2):
        below[i].tree, below[i].v, below[i].level = t, 2 * node.v + i, node.level + 1
    try:
        if t.how == BY_JOIN:
            rc = join(w, tree_kernel, &below[0], tree_kernel, &below[1])
        elif t.how == BY_FOR:
            rc = parallel_for(w, 2, tree_range, below, 1)
        else:
            rc = scope(w, tree_tasks, below)
    finally:
        set_place(root, above)      # also where a signal's handler has raised
    return rc

cdef int tree_range(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil:
    cdef Py_ssize_t i
    for i in range(lo, hi):
        tree_kernel(w, &(<Node*>ctx)[i])
    return 0

cdef int tree_tasks(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    spawn(w, s, tree_kernel, &(<Node*>ctx)[0])
    spawn(w, s, tree_kernel, &(<Node*>ctx)[1])
    return 0


def tree(int64_t root, int64_t depth, how):
    """(nodes, intruders, nodes that were stolen by an idle thread)"""
    cdef Tree t
    cdef Node top
    t.root, t.depth, t.how = root, depth, {"join": BY_JOIN, "for": BY_FOR, "scope": BY_SCOPE}[how]
    i64_store_relaxed(&t.nodes, 0)
    i64_store_relaxed(&t.intruders, 0)
    i64_store_relaxed(&t.moved, 0)
    top.tree, top.v, top.level = &t, 1, 0
    with nogil:
        run(tree_kernel, &top)
    return (i64_load_relaxed(&t.nodes), i64_load_relaxed(&t.intruders),
            i64_load_relaxed(&t.moved))


cdef struct Held:
    atomic_i64 begun
    atomic_i64* flood
    int64_t until

cdef atomic_i64 intruders
i64_store_relaxed(&intruders, 0)

cdef int hold_a(Worker* w, void* ctx) except? -1 nogil:
    while not i64_load_acquire(&(<Held*>ctx).begun):
        yield_thread()
    return 0

cdef int hold_b(Worker* w, void* ctx) except? -1 nogil:
    cdef Held* h = <Held*>ctx
    i64_store_release(&h.begun, 1)
    while i64_load_acquire(h.flood) < h.until:
        yield_thread()
    return 0

cdef int hold_kernel(Worker* w, void* ctx) except? -1 nogil:
    set_place(-1, 1)
    join(w, hold_a, ctx, hold_b, ctx)
    set_place(0, 0)
    return 0


def hold(Tally flood, int64_t until):
    """Waits in a join, as if under a lock, until others have done `until` pieces of work;
    how many of those ran in here."""
    cdef Held h
    cdef int64_t before = i64_load_acquire(&intruders)
    h.flood, h.until = &flood.n, until
    i64_store_relaxed(&h.begun, 0)
    with nogil:
        run(hold_kernel, &h)
    return i64_load_acquire(&intruders) - before


cdef int flood_one(Worker* w, void* ctx) except? -1 nogil:
    if get_root() == -1:
        i64_fetch_add_relaxed(&intruders, 1)
    yield_thread()      # so that there is something to steal meanwhile
    i64_fetch_add_relaxed(<atomic_i64*>ctx, 1)
    return 0

cdef int flood_range(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil:
    return flood_one(w, ctx)

cdef int flood_tasks(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    cdef Py_ssize_t i
    for i in range(20):
        spawn(w, s, flood_one, ctx)
    return 0

cdef int flood_job(Worker* w, void* ctx) except? -1 nogil:
    cdef Pending* p = <Pending*>ctx
    flood_one(w, p.n)
    i64_fetch_sub_acq_rel(&p.jobs, 1)   # the tally may be gone after this
    return 0


def flood(Tally tally, int64_t until):
    """Work of every kind until the tally is `until`; returns when what was submitted is
    done."""
    with nogil:
        while i64_load_acquire(&tally.n) < until:
            parallel_for(NULL, 100, flood_range, &tally.n, 1)
            scope(NULL, flood_tasks, &tally.n)
            join(NULL, flood_one, &tally.n, flood_one, &tally.n)
            i64_fetch_add_relaxed(&tally.pending.jobs, 1)
            submit(flood_job, &tally.pending)
        while i64_load_acquire(&tally.pending.jobs):
            yield_thread()


# ---- parallel_for -----------------------------------------------------------

cdef struct Marks:
    atomic_i64* hits
    atomic_i64 ranges
    atomic_i64 longest
    const unsigned char* fails
    bint python

cdef int mark(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil:
    cdef Marks* m = <Marks*>ctx
    cdef Py_ssize_t i
    i64_fetch_add_relaxed(&m.ranges, 1)
    if hi - lo > i64_load_relaxed(&m.longest):
        i64_store_relaxed(&m.longest, hi - lo)
    for i in range(lo, hi):
        i64_fetch_add_relaxed(&m.hits[i], 1)
        if m.fails != NULL and m.fails[i]:
            if m.python:
                with gil:
                    raise ValueError(i)
            return 1000 + i
    return 0


def mark_all(Py_ssize_t n, Py_ssize_t grain, bytes fails=None, bint python=False):
    """parallel_for that counts at each item, and fails at those that `fails` has a 1 for:
    (what it returned, or raised; the counts; ranges; longest range)."""
    cdef Marks m
    cdef int rc = 0
    error = None
    m.hits = <atomic_i64*>calloc(max(n, 1), sizeof(atomic_i64))
    m.fails = <const unsigned char*>fails if fails is not None else NULL
    m.python = python
    i64_store_relaxed(&m.ranges, 0)
    i64_store_relaxed(&m.longest, 0)
    try:
        with nogil:
            rc = parallel_for(NULL, n, mark, &m, grain)
    except ValueError as e:
        if fails is None:
            raise
        error = e
    counts = [i64_load_relaxed(&m.hits[i]) for i in range(n)]
    free(m.hits)
    return error or rc, counts, i64_load_relaxed(&m.ranges), i64_load_relaxed(&m.longest)


cdef struct Nest:
    int64_t levels
    Py_ssize_t n
    atomic_i64* leaves

cdef int nest_range(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil:
    cdef Py_ssize_t i
    cdef Nest below = (<Nest*>ctx)[0]
    if below.levels == 0:
        i64_fetch_add_relaxed(below.leaves, hi - lo)
        return 0
    below.levels -= 1
    for i in range(lo, hi):
        parallel_for(w, below.n, nest_range, &below, i % 3)
    return 0


def nest(int64_t levels, Py_ssize_t n):
    """parallel_for in parallel_for ...: how many innermost items."""
    cdef Tally t = Tally()
    cdef Nest top
    top.levels, top.n, top.leaves = levels - 1, n, &t.n
    with nogil:
        parallel_for(NULL, n, nest_range, &top, 0)
    return t.value


# ---- parallel_reduce --------------------------------------------------------

cdef int sum_leaf(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi, void* acc) except? -1 nogil:
    cdef Py_ssize_t i
    for i in range(lo, hi):
        (<double*>acc)[0] += (<const double*>ctx)[i]
    return 0

cdef int sum_combine(Worker* w, void* ctx, void* left, const void* right) except? -1 nogil:
    (<double*>left)[0] += (<const double*>right)[0]
    return 0


def reduce_sum(bytes doubles, Py_ssize_t grain, double start=0.0):
    cdef const double* x = <const double*><const char*>doubles
    cdef Py_ssize_t n = len(doubles) // sizeof(double)
    with nogil:
        parallel_reduce(NULL, n, sum_leaf, sum_combine, <void*>x, &start, sizeof(double), grain)
    return start


cdef struct Span:
    Py_ssize_t lo       # -1: empty
    Py_ssize_t hi
    Py_ssize_t longest  # leaf
    bint broken

cdef struct SpanFault:
    Py_ssize_t leaf_at      # fails with 7 where this item is, -1: nowhere
    Py_ssize_t combine_at   # fails with 8 where the right half begins here

cdef int span_leaf(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi, void* acc) except? -1 nogil:
    cdef Span* s = <Span*>acc
    cdef SpanFault* fault = <SpanFault*>ctx
    s.broken = s.lo != -1
    s.lo, s.hi, s.longest = lo, hi, hi - lo
    return 7 if lo <= fault.leaf_at < hi else 0

cdef int span_combine(Worker* w, void* ctx, void* left, const void* right) except? -1 nogil:
    cdef Span* a = <Span*>left
    cdef const Span* b = <const Span*>right
    if b.lo == (<SpanFault*>ctx).combine_at:
        return 8
    a.broken |= b.broken | (a.hi != b.lo)
    a.hi = b.hi
    a.longest = max(a.longest, b.longest)
    return 0


def reduce_span(Py_ssize_t n, Py_ssize_t grain, leaf_at=-1, combine_at=-1):
    """Joins neighbours: (rc, lo, hi, longest leaf, broken)."""
    cdef Span acc
    cdef SpanFault fault
    cdef int rc
    acc.lo, acc.hi, acc.longest, acc.broken = -1, -1, 0, False
    fault.leaf_at, fault.combine_at = leaf_at, combine_at
    with nogil:
        rc = parallel_reduce(NULL, n, span_leaf, span_combine, &fault, &acc, sizeof(Span), grain)
    return rc, acc.lo, acc.hi, acc.longest, bool(acc.broken)


# ---- scope and broadcast ----------------------------------------------------

cdef struct Grow:
    Scope* outer
    int64_t level
    int64_t fan
    atomic_i64* n

cdef int grow_task(Worker* w, void* ctx) except? -1 nogil:
    """One task of a tree; the context is the task's own."""
    cdef Grow g = (<Grow*>ctx)[0]
    free(ctx)
    i64_fetch_add_relaxed(g.n, 1)
    if g.level > 0:
        g.level -= 1
        grow(w, &g)
    return 0

cdef int grow(Worker* w, Grow* g) except? -1 nogil:
    cdef Py_ssize_t i
    cdef Grow* below
    for i in range(g.fan):
        below = <Grow*>calloc(1, sizeof(Grow))
        if below == NULL:
            with gil:
                raise MemoryError
        below[0] = g[0]
        spawn(w, g.outer, grow_task, below)
    return 0

cdef int grow_body(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    (<Grow*>ctx).outer = s
    return grow(w, <Grow*>ctx)


def scope_tree(int64_t levels, int64_t fan):
    """Tasks that spawn tasks: how many ran before the scope ended."""
    cdef Tally t = Tally()
    cdef Grow g
    g.level, g.fan, g.n = levels - 1, fan, &t.n
    with nogil:
        scope(NULL, grow_body, &g)
    return t.value


cdef struct Inner:
    Scope* outer
    atomic_i64* n
    atomic_i64* early       # inner tasks that ran after their scope
    atomic_i64 open

cdef int inner_task(Worker* w, void* ctx) except? -1 nogil:
    cdef Inner* c = <Inner*>ctx
    if not i64_load_acquire(&c.open):
        i64_fetch_add_relaxed(c.early, 1)
    i64_fetch_add_relaxed(c.n, 1)
    return 0

cdef int inner_body(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    cdef Py_ssize_t i
    cdef Inner* c = <Inner*>ctx
    for i in range(10):
        spawn(w, s, inner_task, ctx)
        spawn(w, c.outer, add_one, c.n)
    return 0

cdef int open_inner(Worker* w, void* ctx) except? -1 nogil:
    """A scope whose body spawns into it and into the outer one, by turns."""
    cdef Inner c = (<Inner*>ctx)[0]
    i64_store_relaxed(&c.open, 1)
    scope(w, inner_body, &c)
    i64_store_relaxed(&c.open, 0)
    return 0

cdef int outer_body(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    cdef Py_ssize_t i
    (<Inner*>ctx).outer = s
    for i in range(100):
        spawn(w, s, open_inner, ctx)
    open_inner(w, ctx)
    return 0


def scope_nested():
    """101 scopes inside one, 20 tasks each: (tasks, inner tasks outside their scope)."""
    cdef Tally n = Tally(), early = Tally()
    cdef Inner c
    c.n, c.early = &n.n, &early.n
    with nogil:
        scope(NULL, outer_body, &c)
    return n.value, early.value


cdef struct Failing:
    int64_t n
    int64_t at          # the task that fails; n: the body
    bint python
    atomic_i64 next
    atomic_i64 begun
    atomic_i64 ended

cdef int failing_task(Worker* w, void* ctx) except? -1 nogil:
    cdef Failing* f = <Failing*>ctx
    i64_fetch_add_relaxed(&f.begun, 1)
    if i64_fetch_add_relaxed(&f.next, 1) == f.at:
        i64_fetch_add_relaxed(&f.ended, 1)
        if f.python:
            with gil:
                raise ValueError("task")
        return 9
    i64_fetch_add_relaxed(&f.ended, 1)
    return 0

cdef int failing_body(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    cdef Py_ssize_t i
    cdef Failing* f = <Failing*>ctx
    for i in range(f.n):
        spawn(w, s, failing_task, ctx)
    if f.at == f.n:
        if f.python:
            with gil:
                raise ValueError("body")
        return 9
    return 0


def scope_failing(int64_t n, int64_t at, bint python):
    """(rc or the exception, tasks that began, tasks that ended)"""
    cdef Failing f
    cdef int rc = 0
    error = None
    f.n, f.at, f.python = n, at, python
    i64_store_relaxed(&f.next, 0)
    i64_store_relaxed(&f.begun, 0)
    i64_store_relaxed(&f.ended, 0)
    try:
        with nogil:
            rc = scope(NULL, failing_body, &f)
    except ValueError as e:
        error = e
    return error or rc, i64_load_acquire(&f.begun), i64_load_acquire(&f.ended)


cdef struct Present:
    atomic_i64* at
    bint nested
    int most            # room for so many; callers without a slot have high indexes
    int failing         # the index that fails, -1: none

cdef int here(Worker* w, void* ctx) except? -1 nogil:
    cdef Present* p = <Present*>ctx
    if worker_index(w) >= p.most:
        with gil:
            raise OverflowError(worker_index(w))
    i64_fetch_add_relaxed(&p.at[worker_index(w)], 1)
    if worker_index(w) == p.failing:
        with gil:
            raise ValueError(worker_index(w))
    return 0

cdef int present(Worker* w, void* ctx) except? -1 nogil:
    return broadcast(w, here, ctx)

cdef int present_range(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil:
    cdef Py_ssize_t i
    for i in range(lo, hi):
        present(w, ctx)
    return 0


def call_roll(int times=1, int failing=-1):
    """Broadcasts, at once if there are several: how often each worker came."""
    cdef Present p
    cdef int most = inside()[0] + 1000
    p.at = <atomic_i64*>calloc(most, sizeof(atomic_i64))
    p.most = most
    p.failing = failing
    try:
        with nogil:
            if times == 1:
                broadcast(NULL, here, &p)
            else:
                parallel_for(NULL, times, present_range, &p, 1)
        return [i64_load_acquire(&p.at[i]) for i in range(most)]
    finally:
        free(p.at)


# ---- sorting ----------------------------------------------------------------

cdef struct Numbers:
    char kind
    int size
    void* a
    Py_ssize_t n
    bint nobody         # w is NULL

cdef int sort_them(Worker* w, void* ctx) except? -1 nogil:
    cdef Numbers* s = <Numbers*>ctx
    if s.nobody:
        w = NULL
    if s.kind == b"i":
        if s.size == 4:
            return sort_i32(w, <int32_t*>s.a, s.n)
        return sort_i64(w, <int64_t*>s.a, s.n)
    if s.kind == b"u":
        if s.size == 4:
            return sort_u32(w, <uint32_t*>s.a, s.n)
        return sort_u64(w, <uint64_t*>s.a, s.n)
    if s.size == 4:
        return sort_f32(w, <float*>s.a, s.n)
    return sort_f64(w, <double*>s.a, s.n)


def sort_numbers(unsigned char[::1] memory, str dtype, bint nobody=False, n=None):
    cdef Numbers s
    s.kind = ord(dtype[0])
    s.size = int(dtype[1])
    s.a = &memory[0]
    s.n = memory.shape[0] // s.size if n is None else n
    s.nobody = nobody
    with nogil:
        run(sort_them, &s)


cdef enum Less:
    KEYS            # the first 4 bytes as a number
    NOT_STRICT      # <=
    ALWAYS
    NEVER
    RANDOM
    RAISING         # by keys, until it has been called `until` times
    MINUS_ONE       # by keys; -1 for true

cdef struct Items:
    void* base
    Py_ssize_t n
    size_t size
    int how
    int64_t until
    atomic_i64 calls
    bint nobody

cdef int less(const void* a, const void* b, void* ctx) except? -1 nogil:
    cdef Items* s = <Items*>ctx
    cdef int64_t call = i64_fetch_add_relaxed(&s.calls, 1)
    cdef int x = (<const int32_t*>a)[0], y = (<const int32_t*>b)[0]
    if s.how == NOT_STRICT:
        return x <= y
    if s.how == ALWAYS:
        return 1
    if s.how == NEVER:
        return 0
    if s.how == RANDOM:
        return (<uint64_t>call * 0x9E3779B97F4A7C15u) >> 63
    if s.how == RAISING and call >= s.until:
        with gil:
            raise ZeroDivisionError(call)
    return -(x < y) if s.how == MINUS_ONE else x < y

cdef int sort_those(Worker* w, void* ctx) except? -1 nogil:
    cdef Items* s = <Items*>ctx
    return sort(NULL if s.nobody else w, s.base, s.n, s.size, less, ctx)


LESS = {"keys": KEYS, "not strict": NOT_STRICT, "always": ALWAYS, "never": NEVER,
        "random": RANDOM, "raising": RAISING, "minus one": MINUS_ONE}


def sort_items(unsigned char[::1] memory, size_t size, str how="keys", int64_t until=0,
               bint nobody=False, n=None):
    """Sorts in place; how often `less` was called."""
    cdef Items s
    s.base = &memory[0]
    s.n = memory.shape[0] // <Py_ssize_t>size if n is None else n
    s.size = size
    s.how = LESS[how]
    s.until = until
    s.nobody = nobody
    i64_store_relaxed(&s.calls, 0)
    with nogil:
        run(sort_those, &s)
    return i64_load_acquire(&s.calls)


# ---- whoever holds the GIL, and whoever Python does not know -------------------

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t:
        pass
    int pthread_create(pthread_t*, void*, void* (*)(void*) noexcept nogil, void*)
    int pthread_join(pthread_t, void**)


cdef struct Meeting:
    atomic_i64 begun        # a bit for each side
    bint raises             # the right one does

cdef int meet(Meeting* m, int64_t bit) noexcept nogil:
    # acq_rel: only that the other comes counts
    i64_fetch_sub_acq_rel(&m.begun, -bit)
    while i64_load_acquire(&m.begun) != 3:
        yield_thread()
    return 0

cdef int meet_left(Worker* w, void* ctx) except? -1 nogil:
    return meet(<Meeting*>ctx, 1)

cdef int meet_right(Worker* w, void* ctx) except? -1 nogil:
    meet(<Meeting*>ctx, 2)
    if (<Meeting*>ctx).raises:
        with gil:
            raise ValueError("on the right")
    return 0

cdef int meet_range(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil:
    """One of four items: the first takes so long that the others are shared."""
    cdef Meeting* m = <Meeting*>ctx
    if lo == 0:
        usleep(2000)
        return 0
    if worker_index(w) >= num_workers(w) - 1:
        while not i64_load_acquire(&m.begun):
            yield_thread()
        return 0
    i64_store_release(&m.begun, 1)
    if m.raises:
        with gil:
            raise ValueError("on the right")
    return 0

cdef int meet_tasks(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    spawn(w, s, meet_right, ctx)
    return meet_left(w, ctx)

cdef int meet_each(Worker* w, void* ctx) except? -1 nogil:
    if worker_index(w) == num_workers(w) - 1:
        return meet_left(w, ctx)
    return meet_right(w, ctx)

cdef struct Asked:
    Meeting meeting
    char what
    bint inner              # of the worker's own, not NULL
    bint locked             # with the GIL held

cdef int ask(Worker* w, void* ctx) except? -1 nogil:
    cdef Asked* a = <Asked*>ctx
    if a.what == b"j":
        return join(w, meet_left, &a.meeting, meet_right, &a.meeting)
    if a.what == b"f":
        return parallel_for(w, 4, meet_range, &a.meeting, 1)
    if a.what == b"s":
        return scope(w, meet_tasks, &a.meeting)
    return broadcast(w, meet_each, &a.meeting)

cdef int ask_locked(Worker* w, void* ctx) except? -1 nogil:
    cdef Asked* a = <Asked*>ctx
    with gil:
        return ask(w if a.inner else NULL, ctx)


def hold_the_gil(str what, bint inside, bint inner):
    """A join, a loop, a scope or a broadcast, called with the GIL held, whose two parts run
    in two threads; the other one raises.  inside: by a kernel; inner: with its worker."""
    cdef Asked a
    a.what = ord(what[0])
    a.inner = inner
    a.meeting.raises = True
    i64_store_relaxed(&a.meeting.begun, 0)
    if not inside:
        return ask(NULL, &a)
    with nogil:
        run(ask_locked, &a)


cdef extern from "Python.h":
    int PyGILState_Check() nogil

cdef int look_for_the_gil(Worker* w, void* ctx) except? -1 nogil:
    (<int*>ctx)[0] = PyGILState_Check()
    return 0


def holds_the_gil():
    """Whether a kernel has the GIL that is called by a holder of it."""
    cdef int held = -1
    run(look_for_the_gil, &held)
    assert PyGILState_Check()
    return held


def a_job_holds_the_gil(bint keyed):
    """Whether a job has it that runs before a holder of it has submitted it; -1: it ran later."""
    cdef int held = -1
    if keyed:
        submit_keyed(1, look_for_the_gil, &held)
    else:
        submit(look_for_the_gil, &held)
    return held


cdef struct Starving:
    atomic_i64 failed       # whether item 2 has
    atomic_ptr taken        # memory, each piece linked to the next

cdef void take_all_memory(Starving* f) noexcept nogil:
    """As far as this thread gets any in pieces of the size of a bridge's Failure."""
    cdef void** piece = <void**>malloc(sizeof(Failure))
    cdef void** first = piece
    cdef void** last = NULL
    while piece != NULL:
        piece[0] = NULL
        if last != NULL:
            last[0] = piece
        last = piece
        piece = <void**>malloc(sizeof(Failure))
    if last != NULL:
        last[0] = ptr_load_relaxed(&f.taken)
        while not ptr_cas_acq_rel(&f.taken, last[0], first):
            last[0] = ptr_load_relaxed(&f.taken)

cdef int fail_without_memory(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil:
    cdef Starving* f = <Starving*>ctx
    if lo == 0:
        usleep(1000)        # so long that the others are shared
        return 0
    take_all_memory(f)
    if lo == 2:
        i64_store_release(&f.failed, 1)
        return 7
    while i64_load_acquire(&f.failed) == 0:
        yield_thread()
    # Until the other one has also told of it.
    usleep(20000)
    return 5


def fails_twice_without_memory():
    """What a loop returns whose items 1 and 2 fail, the latter first, with no memory left."""
    cdef Starving f
    cdef void** piece
    cdef void* older
    cdef int rc
    i64_store_relaxed(&f.failed, 0)
    ptr_store_relaxed(&f.taken, NULL)
    with nogil:
        rc = parallel_for(NULL, 3, fail_without_memory, &f, 1)
        piece = <void**>ptr_load_acquire(&f.taken)
        while piece != NULL:
            older = piece[0]
            free(piece)
            piece = <void**>older
    return rc


# As C calls them: -1 is all that it hears of an exception.
ctypedef int (*raw_fn)(Worker*, void*) noexcept nogil
ctypedef int (*raw_run)(raw_fn, void*) noexcept nogil
ctypedef int (*raw_keyed)(uint64_t, raw_fn, void*) noexcept nogil
ctypedef int (*raw_poll)(Worker*) noexcept nogil
ctypedef int (*raw_for)(Worker*, Py_ssize_t, void*, void*, Py_ssize_t) noexcept nogil

cdef int code_of_its_own(Worker* w, void* ctx) noexcept nogil:
    return <int><Py_ssize_t>ctx

cdef int raise_here(Worker* w, void* ctx) except? -1 nogil:
    with gil:
        raise KeyError("here")

cdef int look_for_errors(Worker* w, void* ctx) except? -1 nogil:
    with gil:
        return 3 if PyErr_Occurred() else 0

cdef extern from "Python.h":
    void* PyErr_Occurred()

cdef struct Stranger:
    const char* steps
    int results[64]

cdef enum:
    DIGITS = 48         # '0'

cdef int step_of(char what, bint raises) noexcept nogil:
    cdef Asked a
    if DIGITS <= what < DIGITS + 10:
        return (<raw_run>run)(<raw_fn>code_of_its_own, <void*><Py_ssize_t>(what - DIGITS))
    if what == b"-":
        return (<raw_run>run)(<raw_fn>code_of_its_own, <void*><Py_ssize_t>-1)
    if what == b"h":
        return (<raw_run>run)(<raw_fn>raise_here, NULL)
    if what == b"e":
        return (<raw_run>run)(<raw_fn>look_for_errors, NULL)
    if what == b"n":
        return (<raw_poll>poll)(NULL)
    if what == b"g":
        return (<raw_for>parallel_for)(NULL, 3, NULL, NULL, -1)
    if what == b"u":
        return (<raw_run>submit)(<raw_fn>raise_here, NULL)
    if what == b"k":
        return (<raw_keyed>submit_keyed)(3, <raw_fn>raise_here, NULL)
    a.what = what
    a.meeting.raises = raises
    i64_store_relaxed(&a.meeting.begun, 0)
    return (<raw_fn>ask)(NULL, &a)

cdef void* stranger_main(void* arg) noexcept nogil:
    cdef Stranger* s = <Stranger*>arg
    cdef int i = 0
    while s.steps[2 * i]:
        s.results[i] = step_of(s.steps[2 * i], s.steps[2 * i + 1] == b"!")
        i += 1
    return NULL


def stranger(*steps):
    """What a thread that Python has never seen is given for each of its calls."""
    cdef Stranger s
    cdef pthread_t thread
    cdef bytes all_steps = "".join([step.ljust(2) for step in steps]).encode()
    s.steps = all_steps
    with nogil:
        pthread_create(&thread, NULL, stranger_main, &s)
        pthread_join(thread, NULL)
    return [s.results[i] for i in range(len(steps))]


def stranger_joined_under_the_gil(*steps):
    cdef Stranger s
    cdef pthread_t thread
    cdef bytes all_steps = "".join([step.ljust(2) for step in steps]).encode()
    s.steps = all_steps
    pthread_create(&thread, NULL, stranger_main, &s)
    pthread_join(thread, NULL)
    return [s.results[i] for i in range(len(steps))]


# ---- a scope of another pool -------------------------------------------------

cdef struct Foreign:
    Scope* scope
    atomic_i64 ran
    Task tasks[2]
    int spawned
    char how

cdef Foreign foreign

cdef int foreign_task(Worker* w, void* ctx) except? -1 nogil:
    i64_fetch_add_relaxed(&foreign.ran, 1)
    return 0

cdef int foreign_spawn(Worker* w, void* ctx) except? -1 nogil:
    if foreign.how == b"s":
        return spawn(w, foreign.scope, foreign_task, NULL)
    if foreign.how == b"a":
        # Each a task of its own: the first may not have begun when the second is refused.
        foreign.spawned += 1
        task_init(&foreign.tasks[foreign.spawned - 1], foreign_task, NULL)
        return spawn_many(w, foreign.scope, &foreign.tasks[foreign.spawned - 1], 1)
    if foreign.how == b"m":
        return scope_map(w, foreign.scope, foreign_task, NULL, 0, 3)
    return spawn_on(w, foreign.scope, 0, foreign_task, NULL)


def spawn_into(str how):
    """Into the scope of scope_around; by this thread's worker."""
    foreign.how = ord(how[0])
    run(foreign_spawn, NULL)


cdef int scope_body(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    foreign.scope = s
    return call_object(w, ctx)


def scope_around(f):
    """Calls f in a scope; how many tasks of spawn_into ran."""
    i64_store_relaxed(&foreign.ran, 0)
    foreign.spawned = 0
    with nogil:
        scope(NULL, scope_body, <void*>f)
    return i64_load_acquire(&foreign.ran)


# ---- large accumulators -------------------------------------------------------

cdef struct Histogram:
    Py_ssize_t bins
    const int32_t* items
    atomic_i64 copies       # that were begun
    bint fails

cdef int count_items(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi, void* acc) except? -1 nogil:
    cdef Histogram* h = <Histogram*>ctx
    cdef int64_t* counts = <int64_t*>acc
    cdef Py_ssize_t i
    # The last bin says whether this one is used for the first time.
    if counts[h.bins] == 0:
        counts[h.bins] = 1
        i64_fetch_add_relaxed(&h.copies, 1)
    for i in range(lo, hi):
        if h.fails and i == 1000:
            with gil:
                raise ValueError(i)
        counts[h.items[i]] += 1
    return 0

cdef int count_both(Worker* w, void* ctx, void* left, const void* right) except? -1 nogil:
    cdef Histogram* h = <Histogram*>ctx
    cdef int64_t* a = <int64_t*>left
    cdef const int64_t* b = <const int64_t*>right
    cdef Py_ssize_t i
    for i in range(h.bins):
        a[i] += b[i]
    return 0


def histogram(const int32_t[::1] items, int64_t[::1] counts, bint commutative=False,
              Py_ssize_t grain=0, bint fails=False):
    """Counts into all but the last of `counts`; how many accumulators there were."""
    cdef Histogram h
    cdef size_t size = counts.shape[0] * sizeof(int64_t)
    h.bins, h.items, h.fails = counts.shape[0] - 1, &items[0], fails
    i64_store_relaxed(&h.copies, 0)
    with nogil:
        if commutative:
            parallel_reduce_commutative(NULL, items.shape[0], count_items, count_both, &h,
                                        &counts[0], size, grain)
        else:
            parallel_reduce(NULL, items.shape[0], count_items, count_both, &h, &counts[0],
                            size, grain)
    return i64_load_relaxed(&h.copies)
