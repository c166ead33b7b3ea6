"""Elementwise work over strided operands: a short program of loops, run on one
cache-sized block of elements after another.

A loop has NumPy's inner-loop signature, so that a ufunc's own SIMD loop and a
user's compiled function are the same to the bridge.  What one step writes for the
next to read is a *register*: room for one block in the leaf's scratch memory, so
nothing of array size is stored between steps.  What the last step gave is stored by
itself, or handed to a *sink* (a reduction, a search) block by block.
No Python, no NumPy.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.pool cimport Worker

# n = dims[0] elements; operand k's are at args[k], steps[k] bytes apart.
ctypedef void (*loop_fn)(char** args, const intptr_t* dims, const intptr_t* steps,
                         void* data) noexcept nogil

cdef enum:
    MAP_OPERANDS = 16
    MAP_SLOTS = 64          # operands, registers and constants
    MAP_DIMS = 8
    STEP_ARGS = 8
    # What the registers of one block take together: fits into L1 or a little more.
    SCRATCH_BYTES = 32768
    NEAR_DOUBLES = 1024     # of it, on the stack

cdef enum StepKind:
    STEP_LOOP
    STEP_INDEX      # writes each element's position, an int64
    STEP_COMPRESS   # (mask, from, to, from, to ...): keeps what the mask is true for
    STEP_CALL       # `call` instead of `loop`: it may fail

cdef struct Step

# 0, or an error.  The slots' pointers and steps, elements lo .. lo + n.
ctypedef int (*call_fn)(Worker* w, Step* s, char** args, const intptr_t* steps, int64_t lo,
                        intptr_t n) noexcept nogil

cdef struct Step:
    StepKind kind
    loop_fn loop
    call_fn call
    void* data
    int args
    int slots[STEP_ARGS]
    bint last           # STEP_COMPRESS: the last one of its mask
    int64_t start       # STEP_INDEX: the first position, and from one to the next
    int64_t stride
    atomic_u32 flags    # floating-point flags seen

cdef struct Map:
    int operands
    int dims
    int64_t size                            # elements
    int64_t shape[MAP_DIMS]                 # outermost first
    intptr_t strides[MAP_DIMS][MAP_OPERANDS]    # bytes
    char* base[MAP_OPERANDS]
    # The slots after the operands: registers, then constants.
    int registers
    int constants
    intptr_t sizes[MAP_SLOTS]               # bytes of an element, of any slot
    char* constant[MAP_SLOTS]
    int n_steps
    Step* steps
    Step one                                # where `steps` points for most maps
    int64_t block                           # elements that the steps take at a time

# What a sink sees: where each slot's elements of this block are.
cdef struct Block:
    char* at[MAP_SLOTS]
    intptr_t step[MAP_SLOTS]
    int64_t lo              # the first element's position in the whole
    intptr_t n              # elements; fewer than were read after STEP_COMPRESS

# Nonzero ends the leaf.
ctypedef int (*sink_fn)(void* state, const Block* b) noexcept nogil

# A map of one loop over all operands.
cdef void map_of_loop(Map* m, loop_fn loop, void* data) noexcept nogil
# Once everything else is set.  out: the operand that decides the order of axes; -1: as
# they are.
cdef void map_normalize(Map* m, int out) noexcept nogil
cdef int64_t map_grain(int64_t bytes_per_item) noexcept nogil
cdef int map_run(Worker* w, Map* m, int64_t grain) noexcept nogil
# Before a run: no step has met anything yet.
cdef void map_begin(Map* m) noexcept nogil
# Elements lo .. hi of the whole, for leaves that have a sink.
cdef int map_walk(Worker* w, Map* m, int64_t lo, int64_t hi, sink_fn sink, void* state) noexcept nogil
cdef int64_t compress(char* to, const char* items, intptr_t step, intptr_t itemsize,
                      const char* mask, int64_t n) noexcept nogil

cdef inline void run_unary(loop_fn loop, const char* a, intptr_t stride, char* out, intptr_t out_stride,
                           intptr_t n) noexcept nogil:
    cdef char* args[2]
    cdef intptr_t steps[2]
    args[0] = <char*>a
    args[1] = out
    steps[0] = stride
    steps[1] = out_stride
    loop(args, &n, steps, NULL)

cdef inline void run_fold(loop_fn loop, void* data, const char* left, const char* items, intptr_t stride,
                          char* into, intptr_t into_stride, intptr_t n) noexcept nogil:
    """into[i] = (left, or into[i - 1]) op items[i]; into_stride 0: into = left op all items."""
    cdef char* args[3]
    cdef intptr_t steps[3]
    args[0] = <char*>left
    args[1] = <char*>items
    args[2] = into
    steps[0] = into_stride
    steps[1] = stride
    steps[2] = into_stride
    loop(args, &n, steps, data)

# Addresses and strides from operand `first` on, or-ed: their alignment.
cdef intptr_t map_bits(const Map* m, int first) noexcept nogil
