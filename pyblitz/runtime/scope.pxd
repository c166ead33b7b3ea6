"""Tasks that outlive their statement: any number, spawned from anywhere below
their scope, all done when the scope ends.

A task goes onto the tasks deque of the worker that spawned it, with its scope as
tag; idle workers take the oldest, its own worker the newest.  Whoever ends a
scope helps with tasks of *that* scope only.  A task of an outer scope that lies on
top of them is put away where its own scope's owner finds it.

Many tasks at once are one task of many *parts*, pushed once: whoever takes it
leaves the second half on its own deque, and the second half of the first half,
and so on, until it has one part to run.  So a thief always takes half of what is
left, and parts cost no atomic operation but those of the deque.
"""
from libc.stdint cimport int64_t
from pyblitz.runtime.atomic cimport atomic_i64
from pyblitz.runtime.call cimport Part
from pyblitz.runtime.latch cimport CountLatch
from pyblitz.runtime.pool cimport Group, Task, Worker, fork_fn

cdef enum TaskMemory:
    TASK_OURS = 0       # from a worker's free list
    TASK_CALLERS        # the caller's; parts that follow are the tasks behind it
    TASK_PUBLISHED      # the caller's, between its publication and its run

cdef struct Scope:
    Group group             # first: a task's group, and its tag, is its scope
    CountLatch latch        # one for each part of a task, and one for the owner
    # 1; 0 after the first failure in time: later tasks are then dropped.
    atomic_i64 limit
    int rc                  # what the first task that failed has returned
    void* error             # if that is -1, its exception
    void* mark_of_call      # the call that the tasks belong to
    Part part               # the part that the tasks are

cdef enum:
    FREE_TASKS = 256        # that a worker keeps
    BATCH_TURN = 64         # parts that a worker runs between two looks at other work

cdef void scope_begin(Worker* w, Scope* s) noexcept nogil
cdef int scope_end(Worker* w, Scope* s) noexcept nogil
cdef void scope_fail(Scope* s, int rc) noexcept nogil
cdef void spawn(Worker* w, Scope* s, fork_fn fn, void* ctx, size_t stride,
                int64_t n) noexcept nogil
cdef void spawn_tasks(Worker* w, Scope* s, Task* tasks, int64_t n) noexcept nogil
cdef void spawn_on(Worker* w, Scope* s, int i, fork_fn fn, void* ctx) noexcept nogil
cdef int broadcast(Worker* w, fork_fn fn, void* ctx) noexcept nogil
