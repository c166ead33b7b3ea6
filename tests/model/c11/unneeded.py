"""Weaker orders that no scenario notices, and why.

Where the reason is load buffering, the order is needed: the checker runs the accesses of a thread
in order, and a processor may do a load after a later store of its thread.
"""

ONE_WORD = (
    "one word, whose order decides; fences order it with all else, and nothing plain hangs on it"
)
FENCED = "fence 1 and fence 2 order it: with every such access acquire or release, all holds"
BUFFERING = "load buffering only: what was read before must not be read after"
PARTNER_ACQUIRES = "what it would acquire is acquired by what follows"

# ruff: noqa: E501
UNNEEDED = {
    "counters.pxd counters_load u64_load_seq_cst: relaxed": ONE_WORD,
    "counters.pxd announce_sleepy u64_load_seq_cst: relaxed": ONE_WORD,
    "counters.pxd announce_sleepy u64_cas_seq_cst: relaxed": ONE_WORD,
    "counters.pxd post_event u64_load_seq_cst: relaxed": ONE_WORD,
    "counters.pxd post_event u64_cas_seq_cst: relaxed": ONE_WORD,
    "counters.pxd add_sleeping u64_load_seq_cst: relaxed": ONE_WORD,
    "counters.pxd add_sleeping u64_cas_seq_cst: relaxed": ONE_WORD,
    "counters.pxd sub_sleeping u64_fetch_sub_seq_cst: relaxed": ONE_WORD,
    "counters.pxd add_inactive u64_fetch_add_seq_cst: relaxed": ONE_WORD,
    "counters.pxd sub_inactive u64_fetch_sub_seq_cst: relaxed": ONE_WORD,
    "deque.pxd deque_offers i64_load_acquire: relaxed": "a hint: a cell that was not written yet has another tag, or is refused by deque_steal",
    "deque.pxd deque_steal i64_load_acquire #1: relaxed": "the fence that follows acquires what it read",
    "deque.pxd deque_steal u32_load_acquire: relaxed": "an owner's pop without a fence is known to who revoked the bias, and from it to all who see the top that it moved",
    "deque.pxd deque_steal i64_cas_seq_cst: relaxed": f"{BUFFERING}, here the cell, which make_room's owner may then write",
    "deque.pyx deque_make_room i64_load_acquire: relaxed": f"{BUFFERING}, by the thief: the partner of its compare-and-swap",
    "deque.pyx deque_take_back_slow i64_cas_seq_cst: release": "it acquires nothing: the owner runs its own job",
    "deque.pyx deque_take_back_slow u32_store_release: relaxed": "the fence above it releases the pops before",
    "deque.pyx deque_revoke u32_cas_seq_cst: relaxed": "the membarrier that follows is a fence in this thread, too",
    "deque.pyx deque_revoke u32_store_release: relaxed": "as deque_steal's load: who relies on it has seen a top that was moved after the membarrier",
    "injector.pxd injector_has_jobs ptr_load_acquire: relaxed": "only compared; the exchange that takes the jobs acquires",
    "latch.pxd latch_get_sleepy u32_cas_seq_cst: relaxed": "one word, which decides; latch_is_set acquires",
    "latch.pxd latch_fall_asleep u32_cas_seq_cst: relaxed": "one word, which decides; latch_is_set acquires",
    "latch.pxd latch_wake_up u32_cas_seq_cst #1: relaxed": "one word, which decides; latch_is_set acquires",
    "latch.pxd latch_wake_up u32_cas_seq_cst #2: relaxed": "one word, which decides; latch_is_set acquires",
    "latch.pxd latch_set u32_exchange_acq_rel: release": "the setter uses nothing that the waiter wrote since the latch was made",
    "latch.pxd count_try_up i64_cas_acquire: relaxed": f"{BUFFERING}: nothing below moves above it",
    "os.h pb_park compare_exchange: relaxed": "where it succeeds no token was taken yet; the exchange that takes it acquires",
    "os.h pb_park compare_exchange: on failure relaxed": PARTNER_ACQUIRES,
    "os.h pb_unpark u32_exchange_acq_rel: release": "who unparks uses nothing that another thread wrote; tokens go on through it as it is a read-modify-write",
    "sleep.pyx post_bound u32_load_seq_cst: relaxed": "after fence 1; where it misses DEAD, the fence in return_mail of who stores that comes later, and finds the job",
    "sleep.pyx try_to_wake u32_load_seq_cst: relaxed": "a look before the claim; fence 1 is before it",
    "sleep.pyx try_to_wake u32_cas_seq_cst: acquire": "the store that follows the claim releases",
    "sleep.pyx try_to_wake u32_store_seq_cst: release": FENCED,
    "sleep.pyx start u32_store_seq_cst: relaxed": "sub_inactive releases what is the claimer's, and the next one acquires it by the add_inactive of revive",
    "sleep.pyx start u32_fetch_add_seq_cst: relaxed": "one word; fence 1 and the fences in return_mail and run_orphans order it with the inbox",
    "sleep.pyx revive u32_load_seq_cst: relaxed": "a look before the claim",
    "sleep.pyx revive u32_cas_seq_cst: relaxed": "one word, which decides; add_inactive, which follows, acquires",
    "sleep.pyx revive u32_fetch_add_seq_cst: relaxed": "one word; whoever is refused adds again, and has fences after it",
    "sleep.pyx revive u32_store_seq_cst: relaxed": "nothing waits for it: the thread that sees it is created later, or DEAD follows",
    "sleep.pyx fall_asleep u32_store_seq_cst: relaxed": FENCED,
    "sleep.pyx fall_asleep u32_cas_seq_cst #1: relaxed": "one word, which decides who uncounts",
    "sleep.pyx fall_asleep u32_load_seq_cst #1: relaxed": "an old value makes it look again, after a token",
    "sleep.pyx fall_asleep u32_load_seq_cst #2: relaxed": "an old value makes it look again, after a token",
    "sleep.pyx fall_asleep u32_cas_seq_cst #2: relaxed": "one word, which decides who retires",
    "sleep.pyx retire u32_store_seq_cst: release": FENCED,
    "sleep.pyx retire u32_cas_seq_cst: relaxed": "one word, which decides who uncounts",
}
