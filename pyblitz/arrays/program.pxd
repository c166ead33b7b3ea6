"""Programs: nodes as the steps of one pass.

A *program* is a map (kernels/map.pxd) made of nodes, for evaluate and others that run maps
into a sink.  It gives the values of all nodes that it was made of; each distinct
subexpression is one step; and a register is used again as soon as nobody needs what it
holds (linear scan, after Poletto and Sarkar, 1999).  It keeps alive what its steps use.
Making one runs nothing.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.arrays.common cimport Resolved, Slices
from pyblitz.arrays.nodes cimport Node, NodeKind
from pyblitz.kernels.collect cimport COLLECTED
from pyblitz.kernels.map cimport MAP_SLOTS, STEP_ARGS, Map, Step

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

# The slots of a map are operands, then registers, then constants.
cdef struct Places:
    int place[MAX_REGISTERS]    # of a register of the lines: a slot, when it is known
    int end[MAX_REGISTERS]      # the last line that needs it
    int ops
    int room                    # for registers of the map
    int registers
    intptr_t sizes[MAP_SLOTS]   # of their items
    intptr_t bytes              # of one item of each
    int idle[MAP_SLOTS]         # which of them are free
    int n_idle

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
    cdef int emit_step(self, Node node) except -1
    cdef bint is_row(self, int where)
    cdef int emit_input(self, Node node) except -1
    cdef int emit_filters(self, list nodes) except -1
    cdef int in_register(self, int where) except -1
    cdef int finish(self, int n_values, tuple shape, list outs, bint in_order) except -1
    cdef int place_outs(self, Places* p, list outs) except -1
    cdef int find_ends(self, Places* p, int n_values) except -1
    cdef int choose_registers(self, Places* p) except -1
    cdef int fill(self, Places* p, tuple shape, int first_output) except -1
    cdef int64_t block_of(self, intptr_t bytes, int registers)
    cdef bint may_write(self, int where, object out, Places* p)
    cdef int copied(self, int where, object dtype) except -1
    cdef int fill_step(self, int i, Places* p) except -1
    cdef bint call(self, Step* s, NodeKind kind, object what, object dtypes, int inputs) except -1
    cdef int64_t grain(self)
    cdef object report(self)

# outs: arrays for the values, or None.  in_order: positions count, so the axes stay as they are.
# None: they are too large for one.
cdef Program one_program(list nodes, list outs, bint in_order)
cdef str plan_of(list nodes)
