"""Scopes, tasks and broadcast; see scope.pxd."""
from libc.errno cimport ENOMEM
from libc.stdlib cimport free, malloc
from pyblitz.runtime.atomic cimport (
    invariant, likely, u32_cas_seq_cst, u32_load_acquire,
    u32_store_relaxed)
from pyblitz.runtime.deque cimport (
    deque_bottom_tag, deque_looks, deque_pop, deque_push)
from pyblitz.runtime.injector cimport (
    injector_init, injector_push, injector_take)
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.join cimport (
    lazy_promote, sleep_on_latch, wait_a_little)
from pyblitz.runtime.latch cimport (
    count_down, count_latch_init, count_up, latch_fall_asleep,
    latch_get_sleepy, latch_is_set)
from pyblitz.runtime.os cimport now_ns
from pyblitz.runtime.pool cimport (
    Group, SPIN_ROUNDS, execute, hooks, poll_signals, put_away, serve_mailbox,
    steal_task, wake_worker)
from pyblitz.runtime.sleep cimport post_internal, post_mail

cdef struct Task:
    Job job             # first: a Job* of this task is its Task*
    Scope* scope
    fork_fn fn
    void* ctx


cdef void scope_begin(Worker* w, Scope* s) noexcept nogil:
    count_latch_init(&s.latch, w)
    injector_init(&s.group.put_away)
    s.group.owner = w
    u32_store_relaxed(&s.failed, 0)
    s.rc = 0
    s.error = NULL


cdef void scope_fail(Scope* s, int rc) noexcept nogil:
    """Records a failure; for -1, takes the exception that is set."""
    cdef void* error = hooks().capture() if rc == -1 else NULL
    # seq_cst: one wins; its writes reach the owner through the count latch
    if u32_cas_seq_cst(&s.failed, 0, 1):
        s.rc = rc
        s.error = error
    elif error != NULL:
        hooks().drop(error)


cdef void run_task(void* worker, Job* job) noexcept nogil:
    """Without a worker: the task was bound to one that does not exist."""
    cdef Task task = (<Task*>job)[0]
    cdef void* waiter
    cdef int rc
    free(job)
    # acquire: partner is scope_fail; a hint, so that siblings stop early
    if worker != NULL and not u32_load_acquire(&task.scope.failed):
        rc = task.fn(<Worker*>worker, task.ctx)
        if rc != 0:
            scope_fail(task.scope, rc)
    # The scope may be gone after this.
    waiter = count_down(&task.scope.latch)
    if waiter != NULL:
        wake_worker(<Worker*>waiter)


cdef Task* task_new(Scope* s, fork_fn fn, void* ctx) noexcept nogil:
    cdef Task* task = <Task*>malloc(sizeof(Task))
    if task != NULL:
        task.job.run = run_task
        task.scope = s
        task.fn = fn
        task.ctx = ctx
        count_up(&s.latch)
    return task


cdef int spawn(Worker* w, Scope* s, fork_fn fn, void* ctx) noexcept nogil:
    """Adds a task to the scope.  It runs at any time until the scope ends, and
    not at all if another task failed before.  Without memory for it, it runs
    here and now."""
    cdef Task* task = task_new(s, fn, ctx)
    cdef bint was_empty = deque_looks(&w.tasks) <= 0
    cdef int rc
    invariant(w.pool == s.group.owner.pool, "a scope's tasks stay in its pool")
    if likely(task != NULL):
        if deque_push(&w.tasks, &task.job, s):
            post_internal(&w.pool.sleep, was_empty)
        else:
            run_task(w, &task.job)
        return 0
    rc = fn(w, ctx)
    if rc != 0:
        scope_fail(s, rc)
    return 0


cdef int scope_end(Worker* w, Scope* s) noexcept nogil:
    """Waits for all tasks, helping.  0, or the first failure (for -1 its
    exception is set)."""
    cdef Job* job
    cdef Job* next
    cdef void* tag
    cdef int rounds = 0
    # Taken jobs expect that no lazy fork is older than they.
    while w.lazy_oldest != NULL and lazy_promote(w):
        pass
    count_down(&s.latch)
    while not latch_is_set(&s.latch.latch.core):
        if deque_looks(&w.tasks) > 0:
            tag = deque_bottom_tag(&w.tasks)
            job = deque_pop(&w.tasks)
            if job != NULL:
                if tag == s:
                    execute(w, job)
                else:
                    put_away(job, <Group*>tag)
            rounds = 0
            continue
        job = injector_take(&s.group.put_away)
        if job != NULL:
            while job != NULL:
                next = job.next     # read before the run that may free it
                execute(w, job)
                job = next
            rounds = 0
            continue
        job = steal_task(w, &s.group)
        if job != NULL:
            execute(w, job)
            rounds = 0
            continue
        if serve_mailbox(w):
            rounds = 0
            continue
        rounds += 1
        if rounds < SPIN_ROUNDS:
            wait_a_little(rounds)
        elif poll_signals(w, now_ns()):
            scope_fail(s, -1)
        elif latch_get_sleepy(&s.latch.latch.core) and latch_fall_asleep(&s.latch.latch.core):
            sleep_on_latch(w, &s.latch.latch, False, &s.group.put_away)
    if s.error != NULL:
        hooks().restore(s.error)
    return s.rc


cdef int broadcast(Worker* w, fork_fn fn, void* ctx) noexcept nogil:
    """Runs fn once on every background worker of the pool whose thread runs or
    can be started, and once here; waits for all.  ENOMEM when there was none."""
    cdef Scope s
    cdef Task* task
    cdef int i, rc
    scope_begin(w, &s)
    for i in range(w.pool.n_background):
        if w.background and i == w.index:
            continue
        task = task_new(&s, fn, ctx)
        if task == NULL:
            scope_fail(&s, ENOMEM)
            break
        injector_push(&w.pool.sleepers[i].mailbox, &task.job)
        post_mail(&w.pool.sleep, i)
    rc = fn(w, ctx)
    if rc != 0:
        scope_fail(&s, rc)
    return scope_end(w, &s)
