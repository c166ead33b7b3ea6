"""Fork and join: Fibonacci numbers the slow way.

A task gets one pointer.  It leads to a struct on the stack of whoever called
``join``, which holds the argument and takes the result; it is alive because
``join`` returns only when both tasks are done.
"""
from pyblitz cimport Worker, join, run

cdef struct Fib:
    int n
    long long result

cdef enum:
    # Below it a fork costs more than it could gain.
    CUTOFF = 16
    LARGEST = 92            # the last one that fits


cdef long long fib_of(int n) noexcept nogil:
    return n if n < 2 else fib_of(n - 1) + fib_of(n - 2)


cdef int fib_task(Worker* w, void* ctx) nogil:
    cdef Fib* f = <Fib*>ctx
    cdef Fib left, right
    if f.n < CUTOFF:
        f.result = fib_of(f.n)
        return 0
    left.n = f.n - 1
    right.n = f.n - 2
    # Not noexcept, so that an exception (Ctrl-C at least) passes through.
    join(w, fib_task, &left, fib_task, &right)
    f.result = left.result + right.result
    return 0


cdef int check(int n) except -1:
    if not 0 <= n <= LARGEST:
        raise ValueError(f"n must be from 0 to {LARGEST}, not {n}")
    return 0


def fib(int n):
    """The n-th Fibonacci number, on all threads of the pool."""
    cdef Fib f
    check(n)
    f.n = n
    with nogil:
        run(fib_task, &f)
    return f.result


def fib_serial(int n):
    """The same in this thread alone."""
    cdef long long result
    check(n)
    with nogil:
        result = fib_of(n)
    return result
