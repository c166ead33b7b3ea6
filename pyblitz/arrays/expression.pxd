"""Expressions of arrays that are not computed yet, and the programs that compute them.

A *node* says what NumPy would give for an operation on other nodes: shape, dtype and
how.  A *program* is a map (kernels/map.pxd) made of nodes: each distinct
subexpression is one step, what is constant was computed when the node was made, and a
register is used again as soon as nobody needs what it holds (linear scan, after
Poletto and Sarkar, 1999).
"""
from libc.stdint cimport int64_t
from pyblitz.arrays.common cimport Resolved, Slices
from pyblitz.arrays.compiled cimport CompiledKernel
from pyblitz.kernels.collect cimport COLLECTED
from pyblitz.kernels.map cimport STEP_ARGS, Map, Step
from pyblitz.kernels.reduce cimport Fold, Reduce

cdef enum NodeKind:
    NODE_INPUT      # what: an array
    NODE_CONSTANT   # what: a Python number, or an array of no dimension
    NODE_CALL       # what: a ufunc
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

# A step before registers are chosen.  Operand k is k, constant k is CONSTANT + k, and
# register k REGISTER + k.
cdef enum:
    CONSTANT = 1000
    REGISTER = 2000
    MAX_STEPS = 128
    MAX_REGISTERS = 256

cdef struct Line:
    NodeKind kind
    int ins
    int outs
    int args[STEP_ARGS]     # inputs, then outputs
    bint last               # NODE_KEPT: the last line of its filter

cdef class Program:
    cdef Map m
    cdef Line* lines
    cdef int n_lines
    cdef int dims           # of what is read
    cdef Step* steps
    cdef list whats         # what each line does: a ufunc, a kernel, a function, dtypes
    cdef list resolved      # of NODE_CALL
    cdef list operands
    cdef list constants
    cdef list types         # of the registers, before they are chosen
    cdef dict seen          # what was computed already -> where
    cdef int values[COLLECTED]  # where the results are, in the lines
    cdef int slots[COLLECTED]   # and in the map
    cdef Slices calls       # what functions that need the GIL run in; None: there are none
    cdef str call_name      # of the only ufunc among them
    cdef list owners
    cdef int operand(self, object array) except -1
    cdef int constant(self, object value) except -1
    cdef int register(self, object dtype) except -1
    cdef object type_at(self, int where)
    cdef Line* line(self, NodeKind kind, object what, Resolved resolved) except NULL
    cdef int converted(self, int where, object dtype) except -1
    cdef int emit(self, Node node) except -1
    cdef bint is_row(self, int where)
    cdef int emit_input(self, Node node) except -1
    cdef int emit_filters(self, list nodes) except -1
    cdef int in_register(self, int where) except -1
    cdef int finish(self, int n_values, tuple shape, list outs, bint in_order) except -1
    cdef bint may_write(self, int where, object out, int* place)
    cdef int copied(self, int where, object dtype) except -1
    cdef int fill_step(self, int i, int* place, int registers) except -1
    cdef bint call(self, Step* s, NodeKind kind, object what, object dtypes, int inputs) except -1
    cdef int64_t grain(self)
    cdef object report(self)

cdef Node node_of(object x)
cdef object apply(object fn, tuple args, dict options)
cdef Node cast(Node node, object dtype)
cdef Node side_by_side(Node node)
cdef Node index_node(int64_t n)
cdef Node call_kernel(object kernel, tuple args)
cdef Node call_blocks(NodeKind kind, object fn, tuple args, object dtype)
cdef Filter keep(Node mask)
cdef Node kept(Node node, Filter domain)
cdef Node sliced(Node node, object how, dict memo)
cdef list depends(Node node)

cdef Program program_of(list nodes, list outs, bint in_order)
cdef list collect(list nodes, object out)
cdef bint set_fold(Fold* f, object op, Resolved r, int slot) except -1
cdef int run_reduce(Reduce* red) except -1
cdef tuple fold_node(object op, Node node, Resolved r)
cdef object fold_kernel(CompiledKernel k, CompiledKernel combine, list nodes, object initial)
cdef object at_once(object fn, list nodes, dict options)
cdef object reduce_node(object op, Node node, object initial)
cdef tuple reduce_two(object op1, Node one, object op2, Node two)
cdef object find_node(Node mask, int which)
cdef object count_node(Node mask)
cdef int run_node(Node node) except -1
cdef str plan_of(list nodes)
