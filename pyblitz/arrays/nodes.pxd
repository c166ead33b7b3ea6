"""Nodes: expressions of arrays that are not computed yet.

A *node* says what NumPy would give for an operation on other nodes: shape, dtype and how.
Whoever builds an expression (iter, evaluate) may rely on this: making a node computes
nothing but numbers and refuses what cannot be combined; and what a node is made of never
changes, so that expressions may share it.
"""
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int64_t
from numpy cimport ndarray, ufunc
cimport numpy as cnp
from pyblitz.arrays.common cimport Resolved

cdef enum NodeKind:
    NODE_INPUT      # an array; `what` is the array
    NODE_CONSTANT   # the same value for all elements; `what` is a Python number or a 0-d array
    NODE_CALL       # a ufunc of other nodes; `what` is the ufunc
    NODE_WHERE      # np.where of three other nodes; `what` is np.where
    NODE_KERNEL     # a compiled kernel of other nodes; `what` is the CompiledKernel
    NODE_BLOCKS     # a Python function that gets blocks and returns blocks; `what` is the function
    NODE_LOOK       # the same values, which a Python function has been shown; `what` is the function
    NODE_CAST       # another node in this node's dtype
    NODE_COPY       # another node, in a register, where its items lie side by side
    NODE_INDEX      # the position of each element
    NODE_KEPT       # those elements of another node that the domain's filter keeps
    NODE_PAIR       # of no node, but of a program's line: two ufuncs; `what` is a PairStep

cdef class Domain:
    cdef Node mask          # the node that says which elements to keep; its domain is the one around
    cdef int depth          # how many filters are around each other, this one included

cdef class Node:
    cdef NodeKind kind
    cdef tuple shape        # None: nobody knows before it is run, for a filter is in it
    cdef object dtype       # None: a Python number, which takes the dtype of what it meets
    cdef object what        # see NodeKind
    cdef tuple args         # the nodes that it is an operation on
    cdef Resolved resolved  # of NODE_CALL: the ufunc's loop
    cdef int output         # of a ufunc with several outputs: which of them
    cdef int depth          # the longest way from here to an input, in nodes
    cdef Domain domain      # the filter whose kept elements these are; None: they are all elements

cdef inline void set_new(tuple t, int i, object x) noexcept:
    """``t[i] = x`` of a tuple that nobody else has seen."""
    Py_INCREF(x)            # which PyTuple_SET_ITEM takes
    PyTuple_SET_ITEM(t, i, x)

cdef Node node_of(object x)
cdef tuple common_shape(tuple nodes)
# Compares lengths as numbers, not as objects: most shapes are equal, and are compared at each step.
cdef bint same_shape(tuple a, tuple b) except -1
cdef list depends(Node node)
# Appends to order what depends(node) gives, without what is in seen, and adds it there.
cdef int visit(Node node, set seen, list order) except -1
# An operation on nodes of one domain, whose shapes are broadcast.
cdef Node operation_node(NodeKind kind, object what, tuple args, object dtype)
cdef object ufunc_node(ufunc u, list nodes, dict options)
# ``u(a, b)``, or ``u(a)`` of a ufunc of one input, in less time, for what is most common: nodes and
# arrays of one shape, or one of them and a number of Python's; one is a node.  None: it is something
# else, or was not asked for lately.
cdef Node simple_node(ufunc u, object a, object b)
# np.where of numbers and times.  Raises TypeError or OverflowError for what has to be left to
# NumPy, which may do it or refuse it.
cdef Node call_where(Node mask, Node x, Node y)
# Of a number of Python's, or of NumPy's of this dtype, for a loop of it; None: it is too large for that.
cdef Node number_node(object x, cnp.dtype want)
cdef Node call_kernel(object kernel, tuple args)
cdef Node cast(Node node, object dtype)
cdef Node side_by_side(Node node)
# The positions start, start + step, and so on, n of them.
cdef Node index_node(object start, object step, int64_t n)
# The array of an input; of an index, its positions as an array.
cdef ndarray items_at(Node node)
cdef object other_filter()
cdef Domain keep(Node mask)
cdef Node kept_node(Node node, Domain domain)
cdef Node again(Node node, tuple args, Domain domain)
cdef Node sliced(Node node, object how)

# What a function stands for that only applies operators to one argument and to numbers.
cdef class Expression:
    cdef object code        # of the function
    cdef object dtype       # of the argument
    cdef list numbers       # what the function's cells hold, and its global names mean
    cdef Py_ssize_t operations      # how many operators it applies
    cdef list steps         # nodes, each after those that it is made of; None: nobody has asked yet
    cdef list places        # for each, where its arguments are among its leaves and the steps before it
    # The leaves: the argument and, unless it is for these very numbers only (exact), constants, each of which
    # is one of the numbers in a dtype.
    cdef list sources       # which number
    cdef list dtypes
    cdef bint exact

# Of a function of Python's, for an argument like x; None: it may do something else, or is seen for the
# first time.
cdef Expression expression_of(object fn, Node x)
# The function, with these very numbers: those of the other may be changed meanwhile, by another thread.
cdef object function_of(Expression e)
# Keeps what function_of(e) gave for x.
cdef int remember(Expression e, Node x, Node result) except -1
# None: one of the numbers does not fit.
cdef Node result_of(Expression e, Node x)
