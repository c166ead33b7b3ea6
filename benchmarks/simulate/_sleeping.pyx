# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""What sleeping.py times: work that sleeps, and so needs no CPU of its own."""
from libc.stdint cimport uint64_t
from posix.time cimport nanosleep, timespec
from pyblitz cimport Worker, join, parallel_for, run

cdef struct Loop:
    long long n
    long long ns        # of an item

# Nodes lo .. lo + size of the tree that workloads.py also has.
cdef struct Subtree:
    long long lo
    long long size
    long long block
    long long ns        # of a node
    long long shape


cdef void work(long long ns) noexcept nogil:
    cdef timespec t
    t.tv_sec = ns // 1000000000
    t.tv_nsec = ns % 1000000000
    nanosleep(&t, NULL)


cdef int body(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi) except? -1 nogil:
    work((<Loop*>ctx).ns * (hi - lo))
    return 0


cdef int whole(Worker* w, void* ctx) except? -1 nogil:
    return parallel_for(w, (<Loop*>ctx).n, body, ctx, 1)


def loop(long long n, long long ns):
    """n items, each a leaf."""
    cdef Loop l
    l.n = n
    l.ns = ns
    with nogil:
        run(whole, &l)


cdef inline uint64_t mix(uint64_t x, uint64_t key) noexcept nogil:
    x = (x ^ key) + <uint64_t>0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <uint64_t>0x94D049BB133111EB
    return x ^ (x >> 31)


cdef inline double mixed(uint64_t a, uint64_t b, uint64_t c) noexcept nogil:
    return mix(mix(mix(<uint64_t>0x9E3779B97F4A7C15, a), b), c) / 18446744073709551616.0


cdef int subtree(Worker* w, void* ctx) except? -1 nogil:
    cdef Subtree* s = <Subtree*>ctx
    cdef Subtree a
    cdef Subtree b
    cdef long long forks = (s.size - 1) // 2
    cdef double u
    if s.size <= s.block:
        work(s.ns * s.size)
        return 0
    u = mixed(s.lo, s.size, s.shape)
    a = s[0]
    a.lo = s.lo + 1
    a.size = 1 + 2 * min(<long long>(u * u * forks), forks - 1)
    b = s[0]
    b.lo = a.lo + a.size
    b.size = s.size - 1 - a.size
    return join(w, subtree, &a, subtree, &b)


def tree(long long size, long long block, long long ns, long long shape):
    """An unbalanced tree, its blocks as long as they have nodes."""
    cdef Subtree s
    s.lo = 0
    s.size = size
    s.block = block
    s.ns = ns
    s.shape = shape
    with nogil:
        run(subtree, &s)
