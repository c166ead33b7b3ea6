"""Nodes: expressions of arrays that are not computed yet.

A *node* says what NumPy would give for an operation on other nodes: shape, dtype and how.
Whoever builds an expression (iter, evaluate) may rely on this: making a node computes
nothing but numbers and refuses what cannot be combined; and what a node is made of never
changes, so that expressions may share it.
"""
from libc.stdint cimport int64_t
from numpy cimport ufunc
from pyblitz.arrays.common cimport Resolved

cdef enum NodeKind:
    NODE_INPUT      # what: an array
    NODE_CONSTANT   # what: a Python number, or an array of no dimension
    NODE_CALL       # what: a ufunc
    NODE_WHERE      # what: np.where
    NODE_KERNEL     # what: a CompiledKernel
    NODE_BLOCKS     # what: a Python function of blocks
    NODE_LOOK       # what: a Python function that is shown the blocks
    NODE_CAST       # to its dtype
    NODE_COPY       # in memory of the program, side by side
    NODE_INDEX      # the element's position
    NODE_KEPT       # the elements that its domain keeps

cdef class Filter:
    cdef Node mask          # a node of the domain around
    cdef int depth          # of filters

cdef class Node:
    cdef NodeKind kind
    cdef tuple shape        # None: only running it tells
    cdef object dtype
    cdef object what
    cdef tuple args
    cdef Resolved resolved
    cdef int output         # of several
    cdef int depth          # of the expression
    cdef Filter domain      # whose elements it is of; None: of all

cdef Node node_of(object x)
cdef tuple common_shape(tuple nodes)
cdef list depends(Node node)
# Adds what depends(node) gives and is not yet in seen.
cdef int visit(Node node, set seen, list order) except -1
cdef object call_ufunc(ufunc u, list nodes, dict options)
# np.where, of numbers and times; TypeError and OverflowError: what NumPy alone does, or refuses.
cdef Node call_where(Node mask, Node x, Node y)
cdef Node call_kernel(object kernel, tuple args)
cdef Node call_blocks(NodeKind kind, object fn, tuple args, object dtype)
cdef Node cast(Node node, object dtype)
cdef Node side_by_side(Node node)
cdef Node index_node(int64_t n)
cdef Filter keep(Node mask)
cdef Node kept(Node node, Filter domain)
cdef Node again(Node node, tuple args, Filter domain)
cdef Node sliced(Node node, object how, dict memo)
