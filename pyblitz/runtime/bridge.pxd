"""The one recursion: every data-parallel operation is a table of two functions
that this splits, runs, combines and stops.

The items ``0 .. n`` are cut into a binary tree whose shape depends on ``n`` and
``grain`` alone, so that a combining operation gives the same bits on every
machine.  What is decided at run time is only which half of a node somebody else
runs:

- A worker walks the tree depth first and keeps the right halves that it has
  yet to do in a list that nobody else sees (Spice's lazy forks): an operation
  begins alone, at the price of a loop.  But one that is known to take long, while
  another worker is awake, is open to others from its first half on.
- After a leaf, when the time that its leaves took says that what is left is
  worth a wake, it promotes them all into its deque, the largest first, and from
  then on every further one at once.  Thieves take the largest.
- What was stolen is split the same way before its first leaf, so a stolen half
  is in turn open to others at once, and a worker that is preempted keeps no more
  than one leaf to itself.

Early exit and failure are one mechanism: a *limit* that only sinks.  Items at
or past it are not wanted any more; items before it still run, so the first hit,
or the failure with the lowest index, is the same however the work was shared.
"""
from libc.stdint cimport int64_t
from pyblitz.runtime.atomic cimport (
    atomic_i64, atomic_ptr, atomic_u32, i64_load_relaxed)
from pyblitz.runtime.call cimport Part, Progress, lower_limit
from pyblitz.runtime.pool cimport Worker

# Runs items lo .. hi.  0; -1 with an exception set; or a code of its own.
ctypedef int (*leaf_fn)(Worker* w, void* ctx, int64_t lo, int64_t hi) noexcept nogil
# Joins the results of items lo .. mid and mid .. hi.  As above.
ctypedef int (*combine_halves_fn)(Worker* w, void* ctx, int64_t lo, int64_t mid,
                                  int64_t hi) noexcept nogil

cdef struct Failure:
    int64_t at                  # the item that failed
    int rc
    void* error                 # the exception, when rc is -1
    Failure* older              # the one before it in time

cdef struct Bridge:
    leaf_fn leaf                # what runs the items of a leaf
    combine_halves_fn combine   # NULL: there is nothing to combine
    void* ctx                   # what leaf and combine get as ctx
    # The tree is cut into parts of so many items.  0: leaves have as many as take leaf_ns, found while
    # running; only without combine, whose tree must not depend on time.
    int64_t grain
    # A node with no more items than these is one leaf, though it may have several grains: what a worker does
    # between two leaves takes it 0.1 us, but 0.8 once they have emptied its caches (Zen 3).  The grain, unless
    # another is set after bridge_init; the tree stays the same, and such a leaf combines its part itself.
    int64_t most
    # Of grain 0, unless another is set after bridge_init: a few microseconds, and
    # one item at first.
    int64_t leaf_ns
    # What all items take at least on one thread, as far as is known; 0 unless it is set
    # after bridge_init.
    double least_ns
    atomic_i64 span             # the present size of a leaf
    int64_t n                   # the number of items
    # Items at or past it are not wanted.
    atomic_i64 limit
    # -- the rest is the bridge's own
    Part* outer                 # what the worker that runs it is in the middle of
    Progress* progress          # who wants to know how far it is, or NULL
    # Whether forks are promoted that have waited for a beat: its callers left some, or somebody was
    # wished for just before it, too.
    bint beats
    int64_t start               # when the root began
    int64_t done                # items done, counted until it shares
    atomic_ptr failures         # Failure*: the newest
    # A place for one failure for whose node there was no memory, and whether it is taken.
    atomic_u32 spare_taken
    Failure spare
    # The lowest item whose failure had no place at all; INT64_MAX: none.
    atomic_i64 lost

cdef void bridge_init(Bridge* b, leaf_fn leaf, combine_halves_fn combine, void* ctx,
                      int64_t grain) noexcept nogil
cdef int bridge_run(Worker* w, Bridge* b, int64_t n) noexcept nogil
cdef void bridge_fail(Bridge* b, int64_t at, int rc) noexcept nogil

cdef inline int64_t bridge_middle(int64_t lo, int64_t hi, int64_t grain) noexcept nogil:
    """Where a node of several grains is cut."""
    return lo + grain * (((hi - lo + grain - 1) // grain + 1) >> 1)

cdef inline void bridge_limit(Bridge* b, int64_t at) noexcept nogil:
    """Nothing at or past ``at`` is wanted any more."""
    lower_limit(&b.limit, at)

cdef inline bint bridge_wants(const Bridge* b, int64_t at) noexcept nogil:
    """Whether item ``at`` is still wanted; long leaves poll it."""
    return at < i64_load_relaxed(&b.limit)
