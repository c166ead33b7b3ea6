"""Sums: of a tree of C nodes by ``join``, of an array by ``parallel_reduce``;
and what happens when a kernel raises.

The tree's kernels are plain ``cdef int f(...) nogil``.  Cython then looks for
an exception after each call, but only when -1 came back, so it costs nothing.
"""
from libc.math cimport isnan
from libc.stdlib cimport free, malloc
from pyblitz cimport Worker, join, parallel_reduce, run

cdef struct Node:
    double value
    Node* left
    Node* right

cdef struct TreeSum:
    Node* node
    int forks               # levels that still fork; below them, plain calls
    double result

cdef enum:
    FORKING_LEVELS = 10


cdef int build(Node** at, const double* values, Py_ssize_t n) except -1 nogil:
    """A balanced tree with the values in order.  When it fails, what was built
    hangs at ``at`` all the same."""
    cdef Py_ssize_t mid = n // 2
    cdef Node* node
    at[0] = NULL
    if n == 0:
        return 0
    node = <Node*>malloc(sizeof(Node))
    if node == NULL:
        with gil:
            raise MemoryError()
    node.value = values[mid]
    node.left = node.right = NULL
    at[0] = node
    build(&node.left, values, mid)
    build(&node.right, values + mid + 1, n - mid - 1)
    return 0


cdef void destroy(Node* node) noexcept nogil:
    if node != NULL:
        destroy(node.left)
        destroy(node.right)
        free(node)


cdef int check(double value) except -1 nogil:
    if isnan(value):
        with gil:
            raise ValueError("a node holds no number")
    return 0


cdef double sum_of(Node* node) except? -1 nogil:
    if node == NULL:
        return 0
    check(node.value)
    return node.value + (sum_of(node.left) + sum_of(node.right))


cdef int sum_task(Worker* w, void* ctx) nogil:
    cdef TreeSum* t = <TreeSum*>ctx
    cdef TreeSum left, right
    if t.node == NULL or t.forks == 0:
        t.result = sum_of(t.node)
        return 0
    check(t.node.value)
    left.node, right.node = t.node.left, t.node.right
    left.forks = right.forks = t.forks - 1
    # Raises what one of them raised; the other is done by then, too.
    join(w, sum_task, &left, sum_task, &right)
    t.result = t.node.value + (left.result + right.result)
    return 0


cdef class Tree:
    """A binary tree of the given values, owned by this object."""
    cdef Node* root

    def __init__(self, const double[::1] values):
        if self.root != NULL:
            raise RuntimeError("Tree.__init__ was called twice")
        with nogil:
            if values.shape[0] > 0:
                build(&self.root, &values[0], values.shape[0])

    def __dealloc__(self):
        destroy(self.root)

    def sum(self):
        """The sum of the nodes, on all threads; ValueError for a NaN."""
        cdef TreeSum t
        t.node = self.root
        t.forks = FORKING_LEVELS
        with nogil:
            run(sum_task, &t)
        return t.result

    def sum_serial(self):
        """The same, in the same order, in this thread alone."""
        cdef double result
        with nogil:
            result = sum_of(self.root)
        return result


cdef int add_items(Worker* w, void* ctx, Py_ssize_t lo, Py_ssize_t hi,
                   void* acc) noexcept nogil:
    cdef const double* values = <const double*>ctx
    cdef double total = 0
    cdef Py_ssize_t i
    for i in range(lo, hi):
        total += values[i]
    (<double*>acc)[0] += total
    return 0


cdef int add_sums(Worker* w, void* ctx, void* left, const void* right) noexcept nogil:
    (<double*>left)[0] += (<const double*>right)[0]
    return 0


def array_sum(const double[::1] values):
    """The sum of the items, on all threads: the same bits with any number of
    them, for the tree in which ranges are added depends on the length alone."""
    cdef double total = 0
    with nogil:
        if values.shape[0] > 0:
            parallel_reduce(NULL, values.shape[0], add_items, add_sums,
                            <void*>&values[0], &total, sizeof(double), 0)
    return total


def array_sum_serial(const double[::1] values):
    """Item by item in this thread; its last digits differ, as the order does."""
    cdef double total = 0
    cdef Py_ssize_t i
    with nogil:
        for i in range(values.shape[0]):
            total += values[i]
    return total
