"""Programs: nodes as the steps of one pass.

A *program* is a map (kernels/map.pxd) that computes some nodes in one pass over their
elements, a block at a time.  Each distinct subexpression is one step, and writes a register:
a buffer of one block, which is used again as soon as no later step reads it (linear scan, after
Poletto and Sarkar, 1999).  The program keeps alive what its steps use.  To make a program runs
nothing.  Whoever has run one calls `end`: then the next expression of the same operations and dtypes
gets this program, bound to its own arrays and numbers.
"""
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, intptr_t, uint64_t
from numpy cimport ndarray, ufunc
from pyblitz.arrays.common cimport Resolved, Slices
from pyblitz.arrays.nodes cimport Node, NodeKind
from pyblitz.kernels.collect cimport COLLECTED
from pyblitz.kernels.map cimport MAP_SLOTS, STEP_ARGS, Map, PairLoops, Step
from pyblitz.kernels.simd.levels cimport pair_fn

# Before registers are chosen, each step is a line, and a number says where a value is: k for
# operand k, CONSTANT + k for constant k, REGISTER + k for register k.
cdef enum:
    CONSTANT = 1000
    REGISTER = 2000
    MAX_STEPS = 128
    MAX_REGISTERS = 256
    FORM_NODES = 24         # an expression of more nodes is lowered each time

cdef struct Line:
    NodeKind kind
    int ins
    int outs
    int args[STEP_ARGS]     # where its inputs are, then where its outputs are
    bint last               # of NODE_KEPT: whether the filter has no line after this one

# How the lines' many registers become the map's few.  The slots of a map are its operands, then
# its registers, then its constants.
cdef struct Places:
    int place[MAX_REGISTERS]    # the slot that holds the lines' register k, once that is known
    int end[MAX_REGISTERS]      # the last line that reads the lines' register k
    int ops                     # the number of operands
    int room                    # the number of registers that the map can have
    int registers               # the number of registers that the map has so far
    intptr_t sizes[MAP_SLOTS]   # the itemsize of each of the map's registers
    int idle[MAP_SLOTS]         # the slots of the map's registers that hold nothing now
    int n_idle                  # the number of those

# An expression but for the arrays and numbers in it: three words for each node, a word for each
# value, and one that says whether it overwrites what it reads.  Expressions of equal words have the same
# lines, registers and steps.
cdef struct Form:
    int nodes       # the number of nodes
    int n_words     # 0: the program is not used again
    uint64_t words[3 * FORM_NODES + COLLECTED + 1]
    uint64_t hash

# The nodes of a form, in the order in which `emit` meets them.  It holds no reference.
cdef struct FormNodes:
    PyObject* node[FORM_NODES]
    void* same[FORM_NODES]      # of each: the array of an input, or else the node itself

# The two ufuncs of a line that does both: what is in `whats` for it.
cdef class PairStep:
    cdef ufunc first
    cdef ufunc second
    cdef pair_fn loop
    cdef PairLoops loops
    cdef bint floats        # there may be floating-point errors

cdef class Program:
    cdef Map m
    cdef Line* lines
    cdef int n_lines
    cdef tuple shape        # of what is read
    cdef Step* steps
    cdef list whats         # what each line does: a ufunc, a PairStep, a kernel, a function, dtypes
    cdef list resolved      # each line's Resolved, if it is a NODE_CALL
    cdef list operands
    cdef list constants
    cdef list types         # the dtypes of the lines' registers
    cdef dict seen          # a key of each step that has a line -> where its first output is
    cdef int values[COLLECTED]  # where the lines leave the results
    cdef int slots[COLLECTED]   # the map's slots that hold the results
    cdef Slices calls       # what runs functions that need the GIL; None: no line has one
    cdef str call_name      # what warnings call it: the ufunc's name, if there is a single one
    cdef list owners        # what must live as long as the program
    cdef Form form          # of the expression
    cdef int operand(self, object array) except -1
    cdef int constant(self, object value) except -1
    cdef int register(self, object dtype) except -1
    cdef object type_at(self, int where)
    cdef Line* line(self, NodeKind kind, object what, Resolved resolved) except NULL
    cdef int converted(self, int where, object dtype) except -1
    cdef int emit(self, Node node) except -1
    cdef int emit_step(self, Node node) except -1
    cdef bint is_row(self, int where)
    cdef int emit_input(self, ndarray a) except -1
    cdef int emit_filters(self, list nodes) except -1
    cdef int in_register(self, int where) except -1
    cdef int finish(self, int n_values, list outs, bint in_order) except -1
    cdef int join_lines(self, int n_values, list outs) except -1
    cdef PairStep pair_of(self, int i, const int* readers)
    cdef int place_outs(self, Places* p, list outs) except -1
    cdef int find_ends(self, Places* p, int n_values) except -1
    cdef int choose_registers(self, Places* p) except -1
    cdef int fill_steps(self, Places* p) except -1
    cdef int bind(self, tuple shape, list outs, bint in_order) except -1
    cdef int64_t block_items(self)
    cdef bint may_write(self, int where, object out, Places* p)
    cdef int copied(self, int where, object dtype) except -1
    cdef int fill_step(self, int i, Places* p) except -1
    cdef bint call(self, Step* s, NodeKind kind, object what, object dtypes, int inputs) except -1
    # Elements of a leaf.  timed: by what an element took the last time, too.  made: bytes that are made of an
    # element and are no operand.
    cdef int64_t grain(self, bint timed=*, int64_t made=*)
    cdef object end(self)

# The program of these nodes, or None where they are too large for one.  outs: the arrays that the
# values are written to, or None.  in_order: elements are visited in C order; so they are anyhow where a
# node is of positions.
cdef Program one_program(list nodes, list outs, bint in_order)
# Keeps the program for the next expression of its form.  `end` does this, too: who calls it alone does
# not tell what the steps met.
cdef int give_back(Program p) except -1
cdef str plan_of(list nodes)
