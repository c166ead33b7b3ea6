"""Elementwise work over strided operands: a short program of loops, run on one
cache-sized block of elements after another.

A loop has NumPy's inner-loop signature, so that a map may call a ufunc's own SIMD loop or a
user's compiled function.  What one step writes and a later one reads is in a *register*: room
for one block in the leaf's scratch memory.  So nothing of the size of an array is stored between
steps.  The last step writes to an operand, or its block is handed to a *sink* (a reduction, a
search) before the next block begins.
No Python, no NumPy.
"""
from libc.stdint cimport int64_t, intptr_t
from pyblitz.runtime.atomic cimport atomic_u32
from pyblitz.runtime.bridge cimport combine_halves_fn, leaf_fn
from pyblitz.runtime.pool cimport Worker

# n = dims[0] elements; operand k's are at args[k], steps[k] bytes apart.
ctypedef void (*loop_fn)(char** args, const intptr_t* dims, const intptr_t* steps,
                         void* data) noexcept nogil

cdef enum:
    MAP_OPERANDS = 16
    MAP_SLOTS = 64          # operands, registers and constants
    MAP_DIMS = 8
    STEP_ARGS = 8
    # The registers of one block have so many bytes at most, to fit into L1 or nearly.
    SCRATCH_BYTES = 32768
    PAIR_ITEMS = 512        # that a pair's loop takes at a time
    ALONE_ITEMS = 2048      # that the loops take for which it stands
    NEAR_DOUBLES = 1024     # scratch memory of up to so many doubles is on the stack

cdef enum StepKind:
    STEP_LOOP
    STEP_INDEX      # writes each element's position, an int64
    STEP_COMPRESS   # (mask, from, to, from, to ...): keeps what the mask is true for
    STEP_CALL       # `call` instead of `loop`: it may fail
    STEP_PAIR       # (x, y, z, to): `loop` does what the two loops of `data`, PairLoops, do one after the other

cdef struct Step

# Does a step for elements lo .. lo + n, whose slots are at args, steps bytes apart.  Returns 0, or
# an error, which ends the map.
ctypedef int (*call_fn)(Worker* w, Step* s, char** args, const intptr_t* steps, int64_t lo,
                        intptr_t n) noexcept nogil

# What a loop of two operations stands for: a first loop of x and y, or of x alone where y is the same,
# and a second one of what that writes and z.  Where they may meet floating-point errors, the result is
# none of the three: both may be run once more.
cdef struct PairLoops:
    loop_fn loops[2]
    void* data[2]       # each loop's last argument
    int inputs          # how many the first loop has
    bint turned         # z is the second one's first operand
    atomic_u32 flags    # the floating-point errors of the first loop so far; the step's are the second's

cdef struct Step:
    StepKind kind
    loop_fn loop
    call_fn call        # of STEP_CALL, in the place of the loop
    void* data          # the loop's last argument
    int args            # the number of slots that it reads and writes
    int slots[STEP_ARGS]    # which those are
    bint last           # of STEP_COMPRESS: no later step uses its mask
    int64_t start       # of STEP_INDEX: the first position
    int64_t stride      # of STEP_INDEX: how far the next one is
    atomic_u32 flags    # the floating-point errors that were met so far, as bits

cdef struct Map:
    int operands                            # the number of arrays that it reads or writes
    int dims                                # the number of axes
    int64_t size                            # the number of elements
    int64_t shape[MAP_DIMS]                 # outermost axis first
    intptr_t strides[MAP_DIMS][MAP_OPERANDS]    # in bytes
    char* base[MAP_OPERANDS]                # where each operand's first element is
    # The slots after the operands are the registers, and after these the constants.
    int registers
    int constants
    intptr_t sizes[MAP_SLOTS]               # how many bytes an element of each slot has
    char* constant[MAP_SLOTS]               # where each constant's value is
    int n_steps
    Step* steps
    Step one                                # the only step of most maps: `steps` points here
    int64_t block                           # how many elements a step takes at a time
    # How many ns an element takes one thread, as far as is known from the last time; 0: not known.
    double pace
    bint dear                               # whether a step takes several times as long as to read an element

# A block as a sink sees it.
cdef struct Block:
    char* at[MAP_SLOTS]         # where each slot's first element is
    intptr_t step[MAP_SLOTS]    # how many bytes further its next one is
    int64_t lo                  # the position of the block's first element in the whole
    intptr_t n                  # the number of elements; after STEP_COMPRESS, of those kept

# What is called after the last step of each block.  A result other than 0 ends the leaf.
ctypedef int (*sink_fn)(void* state, const Block* b) noexcept nogil

# A map of one loop over all operands.
cdef void map_of_loop(Map* m, loop_fn loop, void* data) noexcept nogil
# Orders the axes for speed and joins those that can be one; called when all else is set.  out is the
# operand whose strides decide the order; with -1, the axes keep their order.
cdef void map_normalize(Map* m, int out) noexcept nogil
cdef inline double pace_after(double known, double took, int threads) noexcept nogil:
    """What an element takes one thread, after a run in which one took so long, on so many threads.  What was
    shared would have taken one thread longer: as long as was known, but at most as many times as long as there
    were threads (or eight times, for a guess that is too high makes the next leaves too small); and a little
    less each time, so that what was known is found out anew."""
    return took if threads == 1 else max(took, 0.97 * min(known, min(threads, 8) * took))

cdef int64_t map_grain(int64_t bytes_per_item, double pace) noexcept nogil
cdef int map_run(Worker* w, Map* m, int64_t grain) noexcept nogil
# Clears the steps' flags, before leaves that call map_walk.
cdef void map_begin(Map* m) noexcept nogil
# Runs leaves, each of which calls map_walk, and then combine for neighbours, if it is not NULL.  Without
# a worker: one after the other, and nothing is combined.  most: see Bridge; the grain, or what most_items gives.
cdef int map_blocks(Worker* w, Map* m, leaf_fn leaf, combine_halves_fn combine, void* ctx,
                    int64_t grain, int64_t most) noexcept nogil
cdef int64_t most_items(Worker* w, const Map* m, int64_t grain) noexcept nogil
# Does elements lo .. hi of the whole, for leaves that have a sink.
cdef int map_walk(Worker* w, Map* m, int64_t lo, int64_t hi, sink_fn sink, void* state) noexcept nogil

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

# The addresses and strides of the operands from `first` on, or-ed: its low bits are 0 where all of
# them are aligned.
cdef intptr_t map_bits(const Map* m, int first) noexcept nogil
