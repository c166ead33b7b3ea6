"""Scopes, tasks and broadcast; see scope.pxd."""
from libc.errno cimport ENOMEM
from libc.stdlib cimport free, malloc
from libc.stdint cimport INT64_MAX, int64_t
from pyblitz.runtime.atomic cimport (
    CHECKED, i64_cas_seq_cst, i64_load_acquire, i64_store_relaxed, invariant, likely,
    unlikely)
from pyblitz.runtime.deque cimport (
    deque_bottom, deque_bottom_tag, deque_looks, deque_push)
from pyblitz.runtime.injector cimport (
    injector_init, injector_push, injector_take)
from pyblitz.runtime.call cimport STOP_FORKED, Call, Part, call_init
from pyblitz.runtime.chaos cimport chaos
from pyblitz.runtime.job cimport Job
from pyblitz.runtime.join cimport promote_all, sleep_on_latch, waited
from pyblitz.runtime.latch cimport (
    count_down, count_latch_init, count_up, latch_fall_asleep,
    latch_get_sleepy, latch_is_set)
from pyblitz.runtime.os cimport wait_a_little
from pyblitz.runtime.pool cimport (
    MAIL_OR_ANYBODY, MAIL_OR_NOBODY, NO_MAIL, SPIN_ROUNDS, Group, Mail, call_of, change_call,
    current_call, execute, has_mail, hooks, mail_level, must_stop_waiting, pool_is_stale, pop_task, put_away,
    put_tasks_away, serve_mailbox, steal_task, tasks_end, wake_worker)
from pyblitz.runtime.sleep cimport post_internal, post_mail
from pyblitz.runtime.stats cimport BUSY, WAITING, note

cdef void scope_begin(Worker* w, Scope* s) noexcept nogil:
    count_latch_init(&s.latch, w)
    injector_init(&s.group.put_away)
    s.group.owner = w
    s.group.level = mail_level(w) + 1
    i64_store_relaxed(&s.limit, 1)
    s.mark_of_call = w.mark_of_call
    s.part.limit = &s.limit
    s.part.at = 0
    s.part.outer = w.part
    s.rc = 0
    s.error = NULL


cdef void scope_fail(Scope* s, int rc) noexcept nogil:
    """Records a failure; for -1, takes the exception that is set."""
    cdef void* error = hooks().capture() if rc == -1 else NULL
    # seq_cst: one wins; its writes reach the owner through the count latch
    if i64_cas_seq_cst(&s.limit, 1, 0):
        s.rc = rc
        s.error = error
    elif error != NULL:
        hooks().drop(error)


cdef Task* task_new(Worker* w, Scope* s, fork_fn fn, void* ctx) noexcept nogil:
    """A task of one part; NULL without memory."""
    cdef Task* task = <Task*>w.free_tasks
    if task != NULL:
        w.free_tasks = task.job.next
        w.n_free_tasks -= 1
    else:
        task = <Task*>malloc(sizeof(Task))
        if task == NULL:
            return NULL
    task.job.run = run_task
    task.fn = fn
    task.ctx = ctx
    task.memory = TASK_OURS
    task.mail = NO_MAIL
    task.group = &s.group
    task.parts = 1
    return task


cdef void task_free(Worker* w, Task* task) noexcept nogil:
    if w != NULL and w.n_free_tasks < FREE_TASKS:
        task.job.next = w.free_tasks
        w.free_tasks = &task.job
        w.n_free_tasks += 1
    else:
        free(task)


cdef Task* task_split(Worker* w, Task* task) noexcept nogil:
    """Cuts off the second half of the parts, as a task; NULL without memory."""
    cdef int64_t half = task.parts >> 1
    cdef int64_t rest = task.parts - half
    cdef Task* right
    if task.memory == TASK_OURS:
        right = task_new(w, <Scope*>task.group, task.fn, <char*>task.ctx + rest * task.stride)
        if right == NULL:
            return NULL
        right.stride = task.stride
    else:
        right = task + rest
        right.job.run = run_task
        right.memory = task.memory
        right.group = task.group
        right.mail = NO_MAIL
    right.parts = half
    task.parts = rest
    return right


cdef void go_deeper(Worker* w, Scope* s, Call* call) noexcept nogil:
    """From here on the worker runs a part of the scope's mail: whatever is made below
    carries this call, hence the level."""
    call_init(call, INT64_MAX, call_of(s.mark_of_call))
    call.level = max(s.group.level, w.least_level)
    w.least_level = 0
    change_call(w, call)


cdef void run_task(void* worker, Job* job) noexcept nogil:
    cdef Worker* w = <Worker*>worker
    cdef Task* task = <Task*>job
    cdef Scope* s = <Scope*>task.group
    cdef void* waiter
    cdef Job* base
    cdef int64_t done = 0
    cdef int64_t mark
    cdef Call call
    if w == NULL:
        # It is mail for a worker without a thread.
        if task.mail == MAIL_OR_ANYBODY:
            put_away(job, &s.group)
            return
        task_free(NULL, task)
        done = 1
    else:
        base = w.base
        w.mark_of_call = s.mark_of_call
        if task.mail != NO_MAIL:
            go_deeper(w, s, &call)
        w.part = &s.part
        mark = tasks_end(w)
        run_parts(w, task, &done)
        # What it left on top of the deque, as long as no thief has it.
        while (tasks_end(w) > mark and done < BATCH_TURN and not pool_is_stale(w.pool)
               and deque_bottom_tag(&w.tasks) == s):
            job = pop_task(w)
            if job == NULL:
                break
            w.base = job
            run_parts(w, <Task*>job, &done)
        w.base = base
    chaos(b"task: done")
    # The scope may be gone after this.
    waiter = count_down(&s.latch, done)
    if waiter != NULL:
        wake_worker(<Worker*>waiter)


cdef inline void run_parts(Worker* w, Task* task, int64_t* done) noexcept nogil:
    """Runs the first part, and leaves the others on the deque; without memory for
    that it runs them all."""
    cdef Scope* s = <Scope*>task.group
    cdef Task* right
    cdef fork_fn fn
    cdef void* ctx
    while task.parts > 1:
        right = task_split(w, task)
        if right == NULL:
            break
        if not deque_push(&w.tasks, deque_bottom(&w.tasks), &right.job, s):
            task.parts += right.parts
            if right.memory == TASK_OURS:
                task_free(w, right)
            break
        # Once for a batch: thieves wake each other as they find more.
        if deque_looks(&w.tasks) <= 1:
            post_internal(&w.pool.sleep, &w.tasks)
    while True:
        task.parts -= 1
        fn = task.fn
        ctx = task.ctx
        right = NULL
        if task.memory == TASK_OURS:
            if task.parts == 0:
                task_free(w, task)
            else:
                task.ctx = <char*>ctx + task.stride     # which a task of one part has not
                right = task
        else:
            task.memory = TASK_CALLERS
            if task.parts > 0:
                right = task + 1
                right.memory = TASK_PUBLISHED
                right.parts = task.parts
        # From here on a caller may publish its task again.
        run_part(w, s, fn, ctx)
        done[0] += 1
        if right == NULL:
            return
        task = right


cdef inline void run_part(Worker* w, Scope* s, fork_fn fn, void* ctx) noexcept nogil:
    cdef int rc
    # acquire: partner is scope_fail; a hint, so that siblings stop early
    if i64_load_acquire(&s.limit):
        rc = fn(w, ctx)
        if rc != 0:
            scope_fail(s, rc)


cdef inline void publish(Worker* w, Scope* s, Task* task) noexcept nogil:
    cdef void* mark
    cdef Part* part
    invariant(w.pool == s.group.owner.pool, "a scope's tasks stay in its pool")
    if unlikely(current_call(w) != NULL) and s.group.level <= mail_level(w):
        # Of a scope further out than the mail that spawns it: no deeper scope's task
        # may lie below it, see README.md 7.9.
        if (tasks_end(w) > w.tasks_kept and deque_looks(&w.tasks) > 0
                and deque_bottom_tag(&w.tasks) != s):
            put_tasks_away(w, w.tasks_kept)
    # One share for each part, before anybody can give one back.
    count_up(&s.latch, task.parts)
    if likely(deque_push(&w.tasks, deque_bottom(&w.tasks), &task.job, s)):
        post_internal(&w.pool.sleep, &w.tasks)
    else:
        mark, part = w.mark_of_call, w.part
        run_task(w, &task.job)
        w.mark_of_call, w.part = mark, part


cdef void spawn(Worker* w, Scope* s, fork_fn fn, void* ctx, size_t stride,
                int64_t n) noexcept nogil:
    """Adds fn(w', ctx + i * stride) for i in 0 .. n to the scope.  Each runs at
    any time until the scope ends, and not at all if another task failed before.
    Without memory for them, they run here and now."""
    cdef Task* task
    cdef int64_t i
    if n <= 0:
        return
    task = task_new(w, s, fn, ctx)
    if likely(task != NULL):
        task.stride = stride
        task.parts = n
        publish(w, s, task)
        return
    for i in range(n):
        run_part(w, s, fn, <char*>ctx + i * stride)


cdef void spawn_tasks(Worker* w, Scope* s, Task* tasks, int64_t n) noexcept nogil:
    """The same for n tasks that the caller prepared, each with its own function;
    their memory stays the caller's, and in use until each has begun to run."""
    cdef int64_t i
    if n <= 0:
        return
    if CHECKED:
        for i in range(n):
            invariant(tasks[i].memory == TASK_CALLERS, "a task is published once at a time")
            tasks[i].memory = TASK_PUBLISHED
    tasks.job.run = run_task
    tasks.memory = TASK_PUBLISHED
    tasks.group = &s.group
    tasks.mail = NO_MAIL
    tasks.parts = n
    publish(w, s, tasks)


cdef bint send(Worker* w, Scope* s, int i, fork_fn fn, void* ctx, Mail mail) noexcept nogil:
    """Adds a task that background worker i runs, even while it waits (see Group in
    pool.pxd).  False without memory: the scope has failed then."""
    cdef Task* task = task_new(w, s, fn, ctx)
    if task == NULL:
        scope_fail(s, ENOMEM)
        return False
    task.mail = mail
    count_up(&s.latch, 1)
    if injector_push(&w.pool.sleepers[i].mailbox, &task.job):
        post_mail(&w.pool.sleep, i)
    return True


cdef void spawn_on(Worker* w, Scope* s, int i, fork_fn fn, void* ctx) noexcept nogil:
    """Adds a task that background worker i runs, or whoever ends the scope, if that
    worker has no thread."""
    send(w, s, i, fn, ctx, MAIL_OR_ANYBODY)


cdef int scope_end(Worker* w, Scope* s) noexcept nogil:
    """Waits for all tasks, helping.  0, or the first failure (for -1 its
    exception is set)."""
    cdef Job* job
    cdef Job* next
    cdef void* tag
    cdef bint told = False
    cdef int rounds = 0
    # Taken jobs expect that no lazy fork is older than they.
    promote_all(w)
    count_down(&s.latch, 1)
    # Not one loop with wait_for_fork: what each looks for, and once more before it sleeps, is its own.
    while not latch_is_set(&s.latch.latch.core):
        if deque_looks(&w.tasks) > 0:
            waited(w, &rounds)
            tag = deque_bottom_tag(&w.tasks)
            job = pop_task(w)
            if job != NULL:
                if tag == s:
                    execute(w, job)
                else:
                    put_away(job, <Group*>tag)
            continue
        job = injector_take(&s.group.put_away)
        if job != NULL:
            waited(w, &rounds)
            while job != NULL:
                next = job.next     # read before the run that may free it
                execute(w, job)
                job = next
            continue
        job = steal_task(w, &s.group)
        if job != NULL:
            waited(w, &rounds)
            execute(w, job)
            continue
        if has_mail(w):
            waited(w, &rounds)
            serve_mailbox(w)
            continue
        if unlikely(pool_is_stale(w.pool)):
            hooks().stop(STOP_FORKED)
            scope_fail(s, -1)
            break
        if rounds == 0:
            note(&w.sleeper.stats, BUSY, WAITING)
        rounds += 1
        if rounds < SPIN_ROUNDS:
            wait_a_little(rounds, 1)
        elif must_stop_waiting(w, told):
            told = True
            scope_fail(s, -1)
        elif latch_get_sleepy(&s.latch.latch.core) and latch_fall_asleep(&s.latch.latch.core):
            sleep_on_latch(w, &s.latch.latch, False, &s.group.put_away)
    waited(w, &rounds)
    if s.error != NULL:
        hooks().restore(s.error)
    return s.rc


cdef int broadcast(Worker* w, fork_fn fn, void* ctx) noexcept nogil:
    """Runs fn once on every background worker of the pool whose thread runs or
    can be started, and once here; waits for all.  ENOMEM when there was none."""
    cdef Scope s
    cdef Call call
    cdef int i, rc
    # Our own part has a call of its own: see README.md, 5.15.
    if not promote_all(w):
        return ENOMEM
    scope_begin(w, &s)
    for i in range(w.pool.n_background):
        if not (w.background and i == w.index) and not send(w, &s, i, fn, ctx, MAIL_OR_NOBODY):
            break
    # Its own part is one like the others.
    go_deeper(w, &s, &call)
    rc = fn(w, ctx)
    change_call(w, call_of(s.mark_of_call))
    if rc != 0:
        scope_fail(&s, rc)
    return scope_end(w, &s)
