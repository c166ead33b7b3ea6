"""A queue that any thread adds to and a consumer takes whole: jobs from
threads that are no workers (one per pool) and jobs bound to one worker (its
mailbox).

A Treiber stack (IBM RJ 5118, 1986) of intrusive links.  Nobody pops a single
node: a consumer takes all with one exchange and turns the chain into arrival
order.  So no node is read that another consumer may have freed, and no
compare-and-swap can meet the same address twice in a different role (ABA): a
push only needs that *its* ``next`` is the head that it replaces.
"""
from pyblitz.runtime.atomic cimport (
    atomic_ptr, ptr_cas_release, ptr_exchange_acquire, ptr_load_acquire,
    ptr_load_relaxed, ptr_store_relaxed)
from pyblitz.runtime.job cimport Job

cdef struct Injector:
    atomic_ptr head     # newest job, linked through Job.next
    char _pad[128 - 8]

cdef inline void injector_init(Injector* q) noexcept nogil:
    ptr_store_relaxed(&q.head, NULL)

cdef inline void injector_push_chain(Injector* q, Job* newest, Job* oldest) noexcept nogil:
    """Adds a chain with one operation.  ``newest`` leads to ``oldest`` through
    ``next``; afterwards they belong to whoever takes them."""
    cdef void* head
    while True:
        # relaxed: the value is only compared and linked, never followed here
        head = ptr_load_relaxed(&q.head)
        oldest.next = <Job*>head
        # release: partner is the exchange in injector_take
        if ptr_cas_release(&q.head, head, newest):
            return

cdef inline void injector_push(Injector* q, Job* job) noexcept nogil:
    injector_push_chain(q, job, job)

cdef inline bint injector_has_jobs(const Injector* q) noexcept nogil:
    # acquire: partner is the push; the caller's fence makes it a promise
    return ptr_load_acquire(&q.head) != NULL

cdef inline Job* injector_take(Injector* q) noexcept nogil:
    """Takes all jobs: the oldest, linked to younger ones, or NULL."""
    cdef Job* job
    cdef Job* older = NULL
    cdef Job* younger
    # relaxed look first, so that an empty queue's line stays shared
    if ptr_load_relaxed(&q.head) == NULL:
        return NULL
    # acquire: partner is the compare-and-swap in injector_push_chain
    job = <Job*>ptr_exchange_acquire(&q.head, NULL)
    while job != NULL:
        younger = older
        older = job
        job = job.next
        older.next = younger
    return older
