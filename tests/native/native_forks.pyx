"""Lazy forks, futures on the stack, ticks, batches, bound and keyed tasks, over the public
cimport API."""
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free
from pyblitz cimport (
    Fork, Scope, Task, Worker, fork, join, join_lazy, parallel_for, run, scope,
    scope_map, spawn, spawn_many, spawn_on, submit_keyed, task_init, tick, try_join, worker_index)
from pyblitz.runtime.atomic cimport (
    atomic_i64, i64_fetch_add_relaxed, i64_fetch_sub_acq_rel, i64_load_acquire,
    i64_load_relaxed, i64_store_relaxed, i64_store_release)
from pyblitz.runtime cimport scope as rs
from pyblitz.runtime.os cimport Parker, now_ns, yield_thread

import pyblitz as pb

cdef extern from *:
    """
    #if defined(__linux__) && !defined(PYBLITZ_NO_FUTEX)
    static int is_parked(pb_parker *p) { return pb_u32_load_relaxed(&p->state) == PB_PARKED; }
    #else
    static int is_parked(pb_parker *p) { (void)p; return 1; }
    #endif
    """
    bint is_parked(Parker*) noexcept nogil

cdef enum:
    WORK = 40       # of a leaf: some 20 ns


cdef int64_t work(int64_t x, int64_t steps) noexcept nogil:
    cdef int64_t i
    for i in range(steps):
        x ^= x << 13
        x ^= x >> 7
        x ^= x << 17
    return x


# ---- trees of lazy forks ----------------------------------------------------

cdef struct Tree:
    int depth
    int64_t steps       # of work in a leaf
    int64_t leaves      # out
    int kind            # 0 lazy, 1 eager, 2 alternating, 3 fork and try_join, 4 with loops
    int64_t fail_at     # leaf that fails; negative: none
    int64_t index       # of the first leaf below
    bint python


cdef int tree(Worker* w, void* ctx) except? -1 nogil:
    cdef Tree* t = <Tree*>ctx
    cdef Tree a, b
    cdef int kind = t.kind
    cdef int rc = 0
    cdef Fork f
    cdef bint theirs
    if t.depth == 0:
        t.leaves = 1
        if kind == 4:
            parallel_for(w, 3, loop_leaf, t, 1)
        work(t.index + 1, t.steps)
        if t.index == t.fail_at:
            if t.python:
                with gil:
                    raise ValueError(t.index)
            return 7
        return 0
    a = t[0]
    a.depth -= 1
    b = a
    b.index += <int64_t>1 << a.depth
    if kind == 2:
        kind = t.depth & 1
    if kind == 1:
        rc = join(w, tree, &a, tree, &b)
    elif kind == 3:
        fork(w, &f, tree, &b)
        try:
            rc = tree(w, &a)
        finally:
            theirs = try_join(w, &f, &b.kind)
        if rc != 0:
            return rc
        if theirs:
            rc = b.kind
        else:
            rc = tree(w, &b)
    else:
        rc = join_lazy(w, tree, &a, tree, &b)
    t.leaves = a.leaves + b.leaves
    return rc


cdef int loop_leaf(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) noexcept nogil:
    work(lo + 1, (<Tree*>ctx).steps)
    return 0


def grow(int depth, int kind, int64_t steps=WORK, int64_t fail_at=-1, bint python=False):
    """(leaves counted, return code) of a tree of forks."""
    cdef Tree t
    cdef int rc
    t.depth, t.kind, t.steps, t.fail_at, t.python = depth, kind, steps, fail_at, python
    t.leaves = t.index = 0
    with nogil:
        rc = run(tree, &t)
    return t.leaves, rc


# ---- misuse -----------------------------------------------------------------

cdef int nothing(Worker* w, void* ctx) noexcept nogil:
    return 0


def lazy_without_worker():
    with nogil:
        join_lazy(NULL, nothing, NULL, nothing, NULL)


def fork_without_worker():
    cdef Fork f
    with nogil:
        fork(NULL, &f, nothing, NULL)


cdef int join_what_is_no_fork(Worker* w, void* ctx) except? -1 nogil:
    cdef Fork* f = <Fork*>calloc(1, sizeof(Fork))
    cdef int rc = 0
    try:
        try_join(w, f, &rc)
    finally:
        free(f)
    return 0


cdef int join_twice(Worker* w, void* ctx) except? -1 nogil:
    cdef Fork f
    cdef int rc = 0
    fork(w, &f, nothing, NULL)
    try_join(w, &f, &rc)
    try_join(w, &f, &rc)
    return 0


cdef int join_in_the_wrong_order(Worker* w, void* ctx) except? -1 nogil:
    cdef Fork f, g
    cdef int rc = 0
    fork(w, &f, nothing, NULL)
    fork(w, &g, nothing, NULL)
    try:
        try_join(w, &f, &rc)
    finally:
        try_join(w, &g, &rc)
        try_join(w, &f, &rc)
    return 0


def misuse(int how):
    with nogil:
        if how == 0:
            run(join_what_is_no_fork, NULL)
        elif how == 1:
            run(join_twice, NULL)
        else:
            run(join_in_the_wrong_order, NULL)


def tick_nobody():
    with nogil:
        tick(NULL)
    return True


# ---- how soon a sibling starts ----------------------------------------------

cdef struct Pair:
    int64_t start
    int64_t limit
    atomic_i64 sibling      # when it started, 0 before
    int how                 # 0 eager, 1 lazy with ticks, 2 fork with ticks


cdef int long_leaf(Worker* w, void* ctx) noexcept nogil:
    """Runs until its sibling has started, but not for ever."""
    cdef Pair* p = <Pair*>ctx
    while not i64_load_acquire(&p.sibling) and now_ns() - p.start < p.limit:
        work(1, 1000)
        if p.how:
            tick(w)
    return 0


cdef int sibling(Worker* w, void* ctx) noexcept nogil:
    i64_store_release(&(<Pair*>ctx).sibling, now_ns())
    return 0


cdef int pair(Worker* w, void* ctx) except? -1 nogil:
    cdef Pair* p = <Pair*>ctx
    cdef Fork f
    cdef int rc = 0
    if p.how == 0:
        return join(w, long_leaf, p, sibling, p)
    if p.how == 1:
        return join_lazy(w, long_leaf, p, sibling, p)
    fork(w, &f, sibling, p)
    long_leaf(w, p)
    if not try_join(w, &f, &rc):
        sibling(w, p)
        return 3
    return rc


def sibling_ns(int how, int64_t limit_ns):
    """When the sibling of a long leaf started, and the return code."""
    cdef Pair p
    cdef int rc
    p.how, p.limit = how, limit_ns
    i64_store_relaxed(&p.sibling, 0)
    p.start = now_ns()
    with nogil:
        rc = run(pair, &p)
    return i64_load_relaxed(&p.sibling) - p.start, rc


cdef struct Loop:
    int64_t n
    int64_t leaf_ns
    int64_t last_ns         # the same of the last ten
    bint beside             # whether it is half of a join


cdef int timed_leaf(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) noexcept nogil:
    cdef Loop* l = <Loop*>ctx
    cdef int64_t until = now_ns() + (l.last_ns if lo >= l.n - 10 else l.leaf_ns)
    while now_ns() < until:
        pass
    return 0


cdef int timed_leaves(Worker* w, void* ctx) except? -1 nogil:
    cdef Loop* l = <Loop*>ctx
    return parallel_for(w, l.n, timed_leaf, l, 1)


cdef int nothing_else(Worker* w, void* ctx) noexcept nogil:
    return 0


cdef int timed_loop(Worker* w, void* ctx) except? -1 nogil:
    if (<Loop*>ctx).beside:
        return join_lazy(w, timed_leaves, ctx, nothing_else, NULL)
    return timed_leaves(w, ctx)


def loop_of_leaves(int64_t n, int64_t leaf_ns, int64_t last_ns, bint beside):
    """n leaves that take so long each, the last ten another time; beside: as the first half of a join."""
    cdef Loop l
    l.n, l.leaf_ns, l.last_ns, l.beside = n, leaf_ns, last_ns, beside
    with nogil:
        run(timed_loop, &l)


# ---- batches ----------------------------------------------------------------

cdef struct Batch:
    Task* tasks
    atomic_i64* ran         # of each
    Py_ssize_t n
    int how
    int64_t steps
    int64_t fail_at
    atomic_i64 begun


cdef struct Item:
    Batch* batch
    int64_t i


cdef int item(Worker* w, void* ctx) noexcept nogil:
    cdef Item* it = <Item*>ctx
    i64_fetch_add_relaxed(&it.batch.ran[it.i], 1)
    work(it.i + 1, it.batch.steps)
    return 9 if it.i == it.batch.fail_at else 0


cdef int publish(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    cdef Item* items = <Item*>ctx
    cdef Batch* b = items.batch
    cdef Py_ssize_t i
    if b.how == 0:
        for i in range(b.n):
            spawn(w, s, item, &items[i])
    elif b.how == 1:
        for i in range(b.n):
            task_init(&b.tasks[i], item, &items[i])
        spawn_many(w, s, b.tasks, b.n)
    else:
        scope_map(w, s, item, items, sizeof(Item), b.n)
    return 0


def batch(Py_ssize_t n, int how, int64_t steps=0, int64_t fail_at=-1, int rounds=1):
    """(how many items ran once, how many ran at all, return code); `rounds` times over,
    with the same memory."""
    cdef Batch b
    cdef Item* items = <Item*>calloc(n + 1, sizeof(Item))
    cdef int rc = 0
    cdef Py_ssize_t i, once = 0, any = 0
    b.n, b.how, b.steps, b.fail_at = n, how, steps, fail_at
    b.tasks = <Task*>calloc(n + 1, sizeof(Task))
    b.ran = <atomic_i64*>calloc(n + 1, sizeof(atomic_i64))
    for i in range(n + 1):
        items[i].batch = &b
        items[i].i = i
    with nogil:
        for _ in range(rounds):
            rc = scope(NULL, publish, items)
    for i in range(n):
        once += i64_load_relaxed(&b.ran[i]) == rounds
        any += i64_load_relaxed(&b.ran[i]) > 0
    free(b.tasks)
    free(b.ran)
    free(items)
    return once, any, rc


cdef int publish_negative(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    if ctx == NULL:
        return spawn_many(w, s, NULL, -1)
    return scope_map(w, s, nothing, NULL, 0, -5)


def batch_of_less_than_none(bint mapped):
    cdef int x
    with nogil:
        scope(NULL, publish_negative, &x if mapped else NULL)


# ---- tasks of one worker ----------------------------------------------------

cdef struct Placed:
    int index           # wanted
    int n
    atomic_i64 right
    atomic_i64 wrong


cdef int placed(Worker* w, void* ctx) noexcept nogil:
    cdef Placed* p = <Placed*>ctx
    if worker_index(w) == p.index:
        i64_fetch_add_relaxed(&p.right, 1)
    else:
        i64_fetch_add_relaxed(&p.wrong, 1)
    return 0


cdef int place(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    cdef Placed* p = <Placed*>ctx
    cdef int i
    for i in range(p.n):
        spawn_on(w, s, p.index, placed, p)
    return 0


def on_worker(int index, int n):
    """How many of n tasks ran on the worker that they were for, and elsewhere."""
    cdef Placed p
    p.index, p.n = index, n
    i64_store_relaxed(&p.right, 0)
    i64_store_relaxed(&p.wrong, 0)
    with nogil:
        scope(NULL, place, &p)
    return i64_load_relaxed(&p.right), i64_load_relaxed(&p.wrong)


# Tasks that wait, and send on: mail that a worker takes while it waits in mail.

cdef struct Letter:
    Scope* scope
    int index           # the worker that it is for
    int workers
    int hops            # left
    atomic_i64* tally


cdef struct Post:
    Letter first
    int n


cdef int letter_leaf(Worker* w, void* ctx) noexcept nogil:
    work(1, 500)
    i64_fetch_add_relaxed(<atomic_i64*>ctx, 1)
    return 0


cdef int send(Worker* w, Letter* letter, int index) except? -1 nogil:
    cdef Letter* sent = <Letter*>calloc(1, sizeof(Letter))
    sent[0] = letter[0]
    sent.index = index % letter.workers
    return spawn_on(w, letter.scope, sent.index, deliver, sent)


cdef int deliver(Worker* w, void* ctx) except? -1 nogil:
    cdef Letter letter = (<Letter*>ctx)[0]
    free(ctx)
    join(w, letter_leaf, letter.tally, letter_leaf, letter.tally)
    if worker_index(w) == letter.index:
        i64_fetch_add_relaxed(letter.tally, 1)
    if letter.hops == 0:
        return 0
    letter.hops -= 1
    return send(w, &letter, letter.index + 1)


cdef int post(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    cdef Post* p = <Post*>ctx
    cdef int i
    p.first.scope = s
    for i in range(p.n):
        send(w, &p.first, i)
    return 0


def mail(int workers, int n, int hops):
    """n tasks, each sent on hops times, in a pool of so many threads of its own: three for each
    delivery, two of a join and one if it ran on the worker that it was for."""
    cdef Post p
    cdef atomic_i64 tally
    i64_store_relaxed(&tally, 0)
    p.first.workers, p.first.hops, p.first.tally, p.n = workers, hops, &tally, n
    with nogil:
        scope(NULL, post, &p)
    return i64_load_relaxed(&tally)


# ---- jobs with keys ---------------------------------------------------------

cdef struct Key:
    atomic_i64 inside       # jobs of this key that run now
    int64_t next            # plain: only jobs of this key touch it
    int64_t disorder
    int64_t overlap
    int64_t workers         # how many different ones, while `pool` was the same
    Worker* worker


cdef struct KeyedJob:
    Key* key
    int64_t number
    atomic_i64* left
    int64_t steps
    bint waits


cdef int keyed_leaf(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) noexcept nogil:
    work(lo + 1, 2000)
    return 0


cdef int keyed_job(Worker* w, void* ctx) noexcept nogil:
    cdef KeyedJob* j = <KeyedJob*>ctx
    cdef Key* k = j.key
    k.overlap += i64_fetch_add_relaxed(&k.inside, 1) != 0
    k.disorder += j.number != k.next
    k.next = j.number + 1
    if k.worker != w:
        k.workers += 1
        k.worker = w
    work(j.number + 1, j.steps)
    if j.waits:
        parallel_for(w, 64, keyed_leaf, NULL, 1)
    i64_fetch_add_relaxed(&k.inside, -1)
    i64_fetch_sub_acq_rel(j.left, 1)
    return 0


cdef class Keys:
    """Keys, each with a counter that no lock protects.  Job numbers of a key are given out
    by `submit`, whose callers use keys of their own."""
    cdef Key* keys
    cdef KeyedJob* jobs
    cdef atomic_i64 left
    cdef atomic_i64 used
    cdef readonly int n
    cdef int64_t capacity

    def __cinit__(self, int n, int64_t capacity):
        self.n = n
        self.capacity = capacity
        self.keys = <Key*>calloc(n, sizeof(Key))
        self.jobs = <KeyedJob*>calloc(capacity, sizeof(KeyedJob))
        i64_store_relaxed(&self.left, 0)
        i64_store_relaxed(&self.used, 0)

    def __dealloc__(self):
        self.wait()
        free(self.keys)
        free(self.jobs)

    def submit(self, int first, int last, int64_t rounds, int64_t start=0, int64_t steps=0,
               bint waits=False):
        """Jobs start .. start + rounds of each of the keys first .. last, in turn."""
        cdef int64_t r
        cdef int k
        cdef KeyedJob* j
        with nogil:
            for r in range(start, start + rounds):
                for k in range(first, last):
                    j = &self.jobs[i64_fetch_add_relaxed(&self.used, 1)]
                    j.key, j.number, j.left = &self.keys[k], r, &self.left
                    j.steps, j.waits = steps, waits
                    i64_fetch_add_relaxed(&self.left, 1)
                    submit_keyed(<uint64_t>k, keyed_job, j)

    def wait(self):
        with nogil:
            while i64_load_acquire(&self.left) > 0:
                yield_thread()

    def outcome(self):
        """(jobs that ran, out of order, while another of their key ran, most workers that
        one key met)."""
        cdef int64_t ran = 0, disorder = 0, overlap = 0, workers = 0
        for k in range(self.n):
            ran += self.keys[k].next
            disorder += self.keys[k].disorder
            overlap += self.keys[k].overlap
            workers = max(workers, self.keys[k].workers)
        return ran, disorder, overlap, workers


# ---- a task that is spawned on top of a wait, below which another was taken ---

cdef struct Below:
    Scope* outer            # f's
    atomic_i64 h_begun
    atomic_i64 f_begun
    atomic_i64 ran


cdef int count_one(Worker* w, void* ctx) noexcept nogil:
    i64_fetch_add_relaxed(&(<Below*>ctx).ran, 1)
    return 0


cdef int wait_for_h(Worker* w, void* ctx) noexcept nogil:
    while not i64_load_acquire(&(<Below*>ctx).h_begun):
        yield_thread()
    return 0


cdef int wait_for_f(Worker* w, void* ctx) noexcept nogil:
    while not i64_load_acquire(&(<Below*>ctx).f_begun):
        yield_thread()
    return 0


cdef int m2_scope(Worker* w, Scope* s, void* ctx) nogil:
    return spawn_on(w, s, 0, count_one, ctx)


cdef int m(Worker* w, void* ctx) nogil:
    """Its scope takes what lies on the deque below the wait that it runs on top of."""
    cdef rs.Scope* outer = <rs.Scope*>(<Below*>ctx).outer
    scope(w, m2_scope, ctx)
    # Until its owner is blocked: awake, it would steal what comes now.
    while not is_parked(&outer.group.owner.sleeper.parker):
        yield_thread()
    spawn(w, (<Below*>ctx).outer, count_one, ctx)
    return 0


cdef int f_scope(Worker* w, Scope* s, void* ctx) nogil:
    (<Below*>ctx).outer = s
    return spawn_on(w, s, 0, m, ctx)


cdef int f(Worker* w, void* ctx) nogil:
    i64_store_release(&(<Below*>ctx).f_begun, 1)
    return scope(w, f_scope, ctx)


cdef int h_scope(Worker* w, Scope* s, void* ctx) nogil:
    # Two: taking the last job of a deque does not lower its end.
    spawn(w, s, count_one, ctx)
    spawn(w, s, count_one, ctx)
    return join(w, wait_for_f, ctx, f, ctx)


cdef int h(Worker* w, void* ctx) nogil:
    i64_store_release(&(<Below*>ctx).h_begun, 1)
    return scope(w, h_scope, ctx)


cdef int below_root(Worker* w, void* ctx) nogil:
    return join(w, wait_for_h, ctx, h, ctx)


def below_a_wait():
    """How many of the four tasks ran; in a pool of two."""
    cdef Below b
    i64_store_relaxed(&b.h_begun, 0)
    i64_store_relaxed(&b.f_begun, 0)
    i64_store_relaxed(&b.ran, 0)
    with nogil:
        run(below_root, &b)
    return i64_load_relaxed(&b.ran)


# ---- forks joined in the wrong order, after they were promoted ---------------

cdef int promoted_in_the_wrong_order(Worker* w, void* ctx) except? -1 nogil:
    cdef Fork one, two
    cdef int rc = 0
    cdef bint refused = True
    fork(w, &one, nothing, NULL)
    fork(w, &two, nothing, NULL)
    join(w, nothing, NULL, nothing, NULL)       # promotes both
    try:
        try_join(w, &one, &rc)
        refused = False
    finally:
        try_join(w, &two, &rc)
        if refused:
            try_join(w, &one, &rc)
    return 5


def misuse_promoted():
    """5, unless it raises."""
    cdef int rc
    with nogil:
        rc = run(promoted_in_the_wrong_order, NULL)
    return rc


# ---- a task that is published twice -------------------------------------------

cdef int publish_it_twice(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    cdef Task* t = <Task*>ctx
    task_init(t, nothing, NULL)
    spawn_many(w, s, t, 1)
    return spawn_many(w, s, t, 1)


def publish_twice():
    """In a pool of one, where nobody runs it meanwhile."""
    cdef Task t
    pb.set_num_threads(1)
    with nogil:
        scope(NULL, publish_it_twice, &t)


# ---- functions that need a worker ---------------------------------------------

cdef int without_worker(Worker* w, Scope* s, void* ctx) except? -1 nogil:
    cdef int which = (<int*>ctx)[0]
    cdef Fork f
    cdef Task t
    cdef int rc = 0
    if which == 0:
        fork(w, &f, nothing, NULL)
        try:
            try_join(NULL, &f, &rc)
        finally:
            try_join(w, &f, &rc)
    elif which == 1:
        spawn(NULL, s, nothing, NULL)
    elif which == 2:
        task_init(&t, nothing, NULL)
        spawn_many(NULL, s, &t, 1)
    elif which == 3:
        scope_map(NULL, s, nothing, NULL, 0, 1)
    else:
        spawn_on(NULL, s, 0, nothing, NULL)
    return 0


def call_without_worker(int which):
    with nogil:
        scope(NULL, without_worker, &which)
