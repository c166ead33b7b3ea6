"""Queues that any thread adds to: jobs bound to one worker (its mailbox, an
Injector that a consumer takes whole), and jobs from threads that are no workers
(the pool's Inbox, from which consumers take one at a time, first come, first
served).

A Treiber stack (IBM RJ 5118, 1986) of intrusive links.  Nobody pops a single
node: a consumer takes all with one exchange and turns the chain into arrival
order.  So no node is read that another consumer may have freed, and no
compare-and-swap can meet the same address twice in a different role (ABA): a
push only needs that *its* ``next`` is the head that it replaces.
"""
from pyblitz.runtime.atomic cimport (
    atomic_ptr, atomic_u32, ptr_cas_release, ptr_exchange_acquire,
    ptr_load_acquire, ptr_load_relaxed, ptr_store_relaxed, u32_exchange_acquire,
    u32_load_relaxed, u32_store_relaxed, u32_store_release)
from pyblitz.runtime.chaos cimport chaos, chaos_fails
from pyblitz.runtime.job cimport Job

cdef struct Injector:
    atomic_ptr head     # newest job, linked through Job.next
    char _pad[128 - 8]  # keeps what others write off these cache lines

cdef inline void injector_init(Injector* q) noexcept nogil:
    ptr_store_relaxed(&q.head, NULL)

cdef inline bint injector_push(Injector* q, Job* job) noexcept nogil:
    """Adds a job, which afterwards belongs to whoever takes it.  Whether it is the
    first: otherwise whoever pushed the first tells of this one, too."""
    cdef void* head
    while True:
        # relaxed: the value is only compared and linked, never followed here
        head = ptr_load_relaxed(&q.head)
        job.next = <Job*>head
        # release: partner is the exchange in injector_take
        chaos(b"inject: linked")
        if not chaos_fails(b"inject") and ptr_cas_release(&q.head, head, job):
            return head == NULL

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
    # acquire: partner is the compare-and-swap in injector_push
    job = <Job*>ptr_exchange_acquire(&q.head, NULL)
    chaos(b"inbox: taken")
    while job != NULL:
        younger = older
        older = job
        job = job.next
        older.next = younger
    return older


cdef struct Inbox:
    Injector arrivals       # jobs that were pushed, and that nobody has taken from here yet
    # What was taken from there and not yet handed out, oldest first.  Only
    # whoever holds `taking` writes it or follows it; it is tried, never waited
    # for, since a worker has other places to look at.
    atomic_ptr rest
    atomic_u32 taking       # 1 while a consumer takes a job

cdef inline void inbox_init(Inbox* q) noexcept nogil:
    injector_init(&q.arrivals)
    ptr_store_relaxed(&q.rest, NULL)
    u32_store_relaxed(&q.taking, 0)

cdef inline void inbox_push(Inbox* q, Job* job) noexcept nogil:
    injector_push(&q.arrivals, job)

cdef inline bint inbox_has_jobs(const Inbox* q) noexcept nogil:
    # acquire: partner is the push, as above; `rest` is only compared
    return injector_has_jobs(&q.arrivals) or ptr_load_relaxed(&q.rest) != NULL

cdef inline Job* inbox_take(Inbox* q, bint* more, bint* moved) noexcept nogil:
    """The oldest job; NULL when there is none, or another thread is taking one.
    ``more``: there are others.  ``moved``: they went from one place to another,
    where a thread that looked at both may have seen neither."""
    cdef Job* job
    if not inbox_has_jobs(q) or u32_load_relaxed(&q.taking):
        return NULL
    # acquire: partner is the release below
    if u32_exchange_acquire(&q.taking, 1):
        return NULL
    job = <Job*>ptr_load_relaxed(&q.rest)
    moved[0] = job == NULL
    if job == NULL:
        job = injector_take(&q.arrivals)
    if job != NULL:
        ptr_store_relaxed(&q.rest, job.next)
        more[0] = job.next != NULL
    moved[0] = moved[0] and job != NULL and job.next != NULL
    chaos(b"inbox: taking")
    # release: partner is the exchange above
    u32_store_release(&q.taking, 0)
    return job
