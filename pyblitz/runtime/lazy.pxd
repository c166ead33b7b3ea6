"""Forks that only their owner knows of: a list on the worker, and the fuse that
says when to look whether one should be shared.  No atomic operation but relaxed
loads and stores of the fuse.

After Spice (Judofyr 2024): a sentinel instead of branches, and the newest is
taken back by comparing two pointers.

This is the part of the runtime that is compiled into other authors' extensions
(join_lazy, fork, tick): its structs belong to the binary interface, whose number
capi.pxd carries, and it needs no header of ours.
"""
from pyblitz.runtime.job cimport Job

cdef extern from *:
    """
    #ifndef PYBLITZ_LAZY
    #define PYBLITZ_LAZY
    #define pyblitz_likely(x) __builtin_expect(!!(x), 1)
    #define pyblitz_unlikely(x) __builtin_expect(!!(x), 0)
    #define pyblitz_relaxed_load(p) __atomic_load_n((p), __ATOMIC_RELAXED)
    #define pyblitz_relaxed_store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
    #endif
    """
    bint lazy_likely "pyblitz_likely"(bint) noexcept nogil
    bint lazy_unlikely "pyblitz_unlikely"(bint) noexcept nogil
    unsigned int fuse_load "pyblitz_relaxed_load"(unsigned int*) noexcept nogil
    void fuse_store "pyblitz_relaxed_store"(unsigned int*, unsigned int) noexcept nogil

cdef struct Lazy:
    Job job         # first: a Job* of this fork is its Lazy*
    void* fn        # a fork_fn
    void* ctx
    Lazy* older
    Lazy* newer     # of all but the newest

cdef struct LazyList:
    Lazy* newest        # &root: the list is empty
    # Forks and ticks until the owner looks at the clock.  Others make it 0 when
    # they are hungry; if the owner overwrites that, it burns down as it would have.
    unsigned int fuse
    Lazy root           # its `newer` is the oldest, if there is one

cdef inline void lazy_init(LazyList* l) noexcept nogil:
    l.newest = &l.root
    l.fuse = 0

cdef inline bint lazy_any(LazyList* l) noexcept nogil:
    return l.newest != &l.root

cdef inline void lazy_push(LazyList* l, Lazy* f, void* fn, void* ctx) noexcept nogil:
    f.fn = fn
    f.ctx = ctx
    f.older = l.newest
    f.older.newer = f
    l.newest = f

cdef inline bint lazy_pop(LazyList* l, Lazy* f) noexcept nogil:
    """Takes back the newest; false when it is in the list no more."""
    if lazy_likely(l.newest == f):
        l.newest = f.older
        return True
    return False

cdef inline void lazy_drop_oldest(LazyList* l) noexcept nogil:
    """Takes out the oldest of one or more."""
    cdef Lazy* f = l.root.newer
    if l.newest == f:
        l.newest = &l.root
    else:
        l.root.newer = f.newer
        f.newer.older = &l.root

cdef inline bint fuse_burns(LazyList* l) noexcept nogil:
    """One step; whether the fuse has burnt down."""
    cdef unsigned int left = fuse_load(&l.fuse)
    if lazy_unlikely(left == 0):
        return True
    fuse_store(&l.fuse, left - 1)
    return False
