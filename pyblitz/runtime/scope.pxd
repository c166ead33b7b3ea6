"""Tasks that outlive their statement: any number, spawned from anywhere below
their scope, all done when the scope ends.

A task lives on the heap and goes onto the tasks deque of the worker that
spawned it, with its scope as tag; idle workers take the oldest, its own worker
the newest.  Whoever ends a scope helps with tasks of *that* scope only.  A task
of an outer scope that lies on top of them is put away where its own scope's
owner finds it.
"""
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.join cimport fork_fn
from pyblitz.runtime.latch cimport CountLatch
from pyblitz.runtime.pool cimport Group, Worker

cdef struct Scope:
    Group group             # first: a task's tag is its scope
    CountLatch latch        # one for each task, and one for the owner
    # The first failure in time; later tasks are then dropped.
    atomic_u32 failed
    int rc
    void* error

cdef void scope_begin(Worker* w, Scope* s) noexcept nogil
cdef int scope_end(Worker* w, Scope* s) noexcept nogil
cdef void scope_fail(Scope* s, int rc) noexcept nogil
cdef int spawn(Worker* w, Scope* s, fork_fn fn, void* ctx) noexcept nogil
cdef int broadcast(Worker* w, fork_fn fn, void* ctx) noexcept nogil
