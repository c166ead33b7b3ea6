/* The growable deque with the biased owner fence: pyblitz/runtime/deque.pxd and deque.pyx, on
 * x86-TSO.  Checked with Spin: see run.py.
 *
 * While `bias` is OWNER, pops have no fence.  The first thief *revokes*: it makes `bias`
 * REVOKING, calls membarrier and makes it FENCED.  Nobody steals before that, and from then on
 * pops have their fence, until the owner makes `bias` OWNER again.  A thief that membarrier fails
 * makes it REFUSED instead, and the owner's next pop fences and makes it FENCED.  The jobs lie in
 * a ring whose cells are used again; a push that finds it full copies them into one of twice the
 * size.
 *
 * What it proves, within the bounds, by visiting every state:
 *
 * - No job is taken twice, by thieves or the owner.
 * - A thief whose compare-and-swap succeeds holds the job that was put at that index, and the
 *   cell that it read, of whichever ring, still holds it then.
 * - When all are done and all stores are in memory, each pushed job was taken once or lies in the
 *   ring, at `top <= i < bottom`.  (The owner may end between any two operations, so this is
 *   about every moment at which all are between operations.)
 * - `bottom >= top`, `bottom - top <= mask + 1` and `full - mask - 1 <= top` whenever the owner is
 *   between operations.
 * - A fork that is not taken back was stolen: so whoever waits for it waits for somebody.
 * - Nobody gets stuck: all wait for nothing but their own store buffer and membarrier.
 * - No pop that begins after a refusal leaves `bias` REFUSED.
 *
 * That is whatever the policies are: the owner may rebias whenever it has the choice (the program
 * does not after a refusal), and each membarrier may fail.
 *
 * There are two ways to pop.  deque_pop takes whatever is at `bottom - 1`.  With JOINS the owner
 * takes back the newest fork that it has not joined, by the index that it remembers, as `join`
 * does, or by `bottom - 1`, as for lazy forks.  The two differ when newer forks were stolen.
 *
 * Bounds: JOBS at first, and PUSHES that follow; THIEVES; the first ring's capacity CAP, and RINGS
 * in all, each twice as large as the one before (there is no memory for more, and that push
 * fails); at most BUFFER stores wait in the owner's store buffer, and a store waits for room in
 * it.  At first `bias` is OWNER, and FENCED for ever with NO_MEMBARRIER.  The owner mixes its
 * operations in every order; it pops, and the thieves try, any number of times.
 *
 * The memory is that of Owens, Sarkar and Sewell, "A better x86 memory model: x86-TSO" (TPHOLs
 * 2009).  A store goes into its thread's FIFO buffer, and from there to memory at any time (init);
 * a load sees the youngest store in its thread's own buffer, else memory; a locked instruction and
 * a fence wait until the buffer is empty.  membarrier is a fence of every other thread at some
 * moment between its begin and its end.  One step is one access to shared memory.  Joined with it
 * are what only the same thread writes and what happens in registers; a fence is joined with the
 * next load, and the begin of membarrier with the compare-and-swap before it (nothing of the same
 * thread lies between, so nobody can tell).
 *
 * What it does not cover: memory weaker than x86-TSO and compilers (Promela knows no relaxed or
 * acquire loads); tags (each word of a cell is stored before bottom and loaded after it, as the
 * job is, so what holds for one holds for each); deque_looks and deque_offers (hints); rings that
 * are freed with the deque; the sleep protocol; an owner that hands its deque to another thread;
 * whether a thief ever succeeds; more than the bounds.
 *
 * A mutation, -DMUTATION=name, is what must not be left out or turned round: Spin finds each of
 * them, but the two that are HARMLESS. */

/* The pop. */
#define no_fence_when_fenced 1   /* it skips its fence when it sees FENCED */
#define no_fence_when_revoking 2 /* it skips its fence when it sees REVOKING */
#define bias_before_bottom 3     /* it loads bias before it stores bottom */
#define rebias_without_fence 4   /* it makes bias OWNER without a fence after that */
#define rebias_when_revoking 5   /* it makes bias OWNER although it sees REVOKING */
#define last_without_cas 6       /* it takes the last job without a compare-and-swap */
#define bottom_below_top 7       /* finding top > b it stores bottom = b + 1 (JOINS only) */
#define refused_stays 8          /* it leaves REFUSED as it is */
/* As it was first drawn, without REFUSED: the owner does not know whether the thief's membarrier
 * failed.  It may be biased again before that thief stores FENCED. */
#define acknowledges_revoking 9  /* it makes REVOKING FENCED, by compare-and-swap */
/* The thief. */
#define no_membarrier 10       /* it revokes without membarrier */
#define revoke_by_store 11     /* it revokes with a store in place of the compare-and-swap */
#define go_on_when_revoking 12 /* seeing REVOKING it goes on as if FENCED */
#define bias_before_top 13     /* it loads bias before top */
#define bottom_before_top 14   /* it loads bottom before top */
#define bottom_before_bias 15  /* it loads bottom before bias */
#define ring_before_bottom 16  /* it loads the ring before bottom */
#define cell_after_cas 17      /* it reads the cell after its compare-and-swap of top */
#define refused_is_fenced 18   /* membarrier failed, and it stores FENCED */
/* Push and growth. */
#define bottom_before_cell 20 /* the push stores bottom before the cell */
#define full_from_bottom 21   /* full counts from bottom, not from top */
#define one_too_many 22       /* there is room for one when there is none */
#define copies_too_few 23     /* the job at top is not copied */
#define ring_before_copies 24 /* the new ring is published before the copies */
#define old_ring_reused 25    /* the old ring is given back at once, and written by others */
/* HARMLESS here: Spin finds nothing.  x86-TSO never reorders loads, and a thief's only plain store,
 * of FENCED, may be late without harm: until then others see REVOKING.  So on x86 the thief's fence
 * orders nothing; for the compiler and ARM it is needed all the same.  And a top that was loaded
 * before an OWNER is as good as a later one: a thief that takes b has seen top = b and then FENCED,
 * before that OWNER was stored, or after a membarrier, whose end sees bottom = b. */
#define thief_without_fence 30 /* the thief has no fence between its loads of top and bias */
#define top_before_bias 31     /* the pop loads top before bias (its second compiler barrier) */
/* Whoever sees the owner's FENCED sees the bottom that it stored before, so nobody takes its job.
 * The fence keeps the rule simple: a pop that sees anything but OWNER fences. */
#define refused_no_fence 32    /* the pop that sees REFUSED has no fence */

#ifdef MUTATION
#if MUTATION == 0
#error "no such mutation"
#endif
#else
#define MUTATION 0
#endif
#ifndef JOBS
#define JOBS 2
#endif
#ifndef PUSHES
#define PUSHES 0
#endif
#ifndef THIEVES
#define THIEVES 2
#endif
#ifndef CAP
#define CAP 2
#endif
#ifndef RINGS
#define RINGS 2
#endif
#ifndef BUFFER
#define BUFFER 8
#endif
#ifndef JOINS
#define JOINS 0
#endif
#ifndef NO_MEMBARRIER
#define NO_MEMBARRIER 0
#endif
#define ALL (JOBS + PUSHES)

/* Bias */
#define FENCED 0
#define OWNER 1
#define REVOKING 2
#define REFUSED 3
#define NO_JOB 0 /* jobs are 1 .. ALL, and so are indices */

/* Addresses: what is shared, and index i's cell in the ring r of SIZE(r) cells. */
#define TOP 0
#define BOTTOM 1
#define BIAS 2
#define RING 3
#define SIZE(r) (CAP << (r))
#define CELL(r, i) (4 + CAP * ((1 << (r)) - 1) + ((i) & (SIZE(r) - 1)))
#if RINGS == 1
#define CELLS CAP
#elif RINGS == 2
#define CELLS (3 * CAP)
#else
#define CELLS (7 * CAP)
#endif
#if 4 + CELLS > 16 || ALL + 1 > 15
#error "a store, address and value, is a byte"
#endif
#if JOBS <= CAP
#define RING0 0
#elif JOBS <= 2 * CAP
#define RING0 1
#else
#define RING0 2
#endif
#if RING0 >= RINGS
#error "the first jobs have no ring"
#endif

byte mem[4 + CELLS];
byte buffer[BUFFER], n;   /* the owner's stores, 16 * address + value, oldest first */
byte late[THIEVES];       /* 1 + a thief's store to bias: it has no other, nor two at once */
byte unfenced[THIEVES];   /* whom its membarrier waits for: bit 0 the owner, bit i + 1 thief i */
bit over;                 /* no operation begins any more */
/* For the properties. */
short taken;              /* bit j: job j was */
byte put[ALL + 2];        /* the job at each index: not yet taken; with JOINS, not yet joined */
byte k;                   /* counts; 0 between steps */

/* ---- memory: all of these are part of one step ---------------------------------------------- */

#define STORE (n < BUFFER) /* whether the owner can */

inline store(address, value)
{
    buffer[n] = 16 * (address) + (value);
    n++
}

inline load(value, address)
{
    value = mem[address];
    for (k : 0 .. n - 1) {
        if
        :: buffer[k] / 16 == address -> value = buffer[k] % 16
        :: else
        fi
    }
    k = 0
}

/* Whoever has an empty buffer is fenced at once: later is no different for anybody. */
inline fenced(thread)
{
    for (k : 0 .. THIEVES - 1) {
        unfenced[k] = unfenced[k] & ~(1 << (thread))
    }
    k = 0
}

inline membarrier_begins()
{
    unfenced[me] = (n > 0 -> 1 : 0);
    for (k : 0 .. THIEVES - 1) {
        unfenced[me] = unfenced[me] | (late[k] > 0 -> 2 << k : 0)
    }
    k = 0
}

inline flush_owner()
{
    mem[buffer[0] / 16] = buffer[0] % 16;
    n--;
    for (k : 1 .. n) {
        buffer[k - 1] = buffer[k]
    }
    buffer[n] = 0;
    if
    :: n == 0 -> fenced(0)
    :: else
    fi;
    k = 0
}

inline flush_thief(i)
{
    mem[BIAS] = late[i] - 1;
    late[i] = 0;
    fenced(i + 1)
}

/* ---- properties ----------------------------------------------------------------------------- */

inline take(job)
{
    assert(job != NO_JOB);
    assert(!(taken & (1 << (job)))); /* no job is taken twice */
    taken = taken | (1 << (job))
}

inline between_operations()
{
    assert(bottom >= mem[TOP]);
    assert(bottom - mem[TOP] <= SIZE(ring));
    assert(full_at - SIZE(ring) <= mem[TOP])
}

inline check_the_end()
{
    assert(n == 0 && mem[BOTTOM] == bottom && mem[RING] == ring);
    for (k : mem[TOP] .. mem[BOTTOM] - 1) {
        j = mem[CELL(ring, k)];
        take(j)
    }
    k = 0;
    assert(taken == (2 << pushed) - 2) /* no job is lost */
}

/* ---- the owner ------------------------------------------------------------------------------ */

#if MUTATION == full_from_bottom
#define FULL (bottom + SIZE(ring))
#else
#define FULL (mem[TOP] + SIZE(ring)) /* i64_load_acquire(&d.top) + d.mask + 1 */
#endif
#if MUTATION == one_too_many
#define ROOM(limit) (bottom <= limit)
#else
#define ROOM(limit) (bottom < limit)
#endif
#define CAN_GROW (ring + 1 < RINGS) /* r != NULL */
#if MUTATION == no_fence_when_fenced
#define FENCE (bias == OWNER || bias == FENCED || n == 0)
#elif MUTATION == no_fence_when_revoking
#define FENCE (bias == OWNER || bias == REVOKING || n == 0)
#elif MUTATION == rebias_without_fence
#define FENCE (bias == OWNER || bias == REBIASED || n == 0)
#else
#define FENCE (bias == OWNER || bias == ACKNOWLEDGED || n == 0) /* fence_seq_cst(), unless biased */
#endif
#if MUTATION == top_before_bias
#define FAST_TOP t
#else
#define FAST_TOP mem[TOP]
#endif
/* What its pop saw who made bias OWNER, and FENCED. */
#define REBIASED 4
#define ACKNOWLEDGED 5
#if NO_MEMBARRIER
#define MAY_REBIAS false
#elif MUTATION == rebias_when_revoking
#define MAY_REBIAS (bias == FENCED || bias == REVOKING)
#else
#define MAY_REBIAS (bias == FENCED) /* and d.until_biased < 0 */
#endif

#if MUTATION == acknowledges_revoking
#define MUST_GO_ON (bias != REVOKING)
#elif MUTATION == refused_stays
#define MUST_GO_ON true
#else
#define MUST_GO_ON (bias != REFUSED)
#endif

inline leaves_bias()
{
    assert(bias != REFUSED)
}

/* Begins to take back job j, which was put at `at`, by index i. */
inline pop_at(i)
{
    b = i;
#if MUTATION != bias_before_bottom
    store(BOTTOM, b); /* i64_store_relaxed(&d.bottom, b) */
    bottom = b
#endif
}

inline newest_fork()
{
    at = ALL;
    do
    :: put[at] == NO_JOB -> at--
    :: else -> break
    od;
    j = put[at];
    forks--;
    /* As fork_back asserts. */
    assert(at < bottom);
    load(t, CELL(ring, bottom - 1));
    assert(bottom <= mem[TOP] || t == j);
    t = 0
}

inline got_it()
{
    take(j);
    assert(put[at] == j);
    put[at] = NO_JOB
}

inline lost_it()
{
    skip;
#if JOINS
    assert(taken & (1 << j)); /* the fork was stolen */
    put[at] = NO_JOB
#endif
}

inline popped()
{
    b = 0; t = 0; j = NO_JOB; at = 0; bias = 0
}

proctype owner()
{
    byte bottom = 1 + JOBS, ring = RING0, full_at = 1 + SIZE(RING0), pushed = JOBS;
    byte b, t, j, at, bias;
#if JOINS
    byte forks = JOBS;
#endif

idle:
    if
    :: d_step {
        pushed < ALL && ROOM(full_at) && STORE -> /* deque_has_room */
        between_operations();
        pushed++;
        put[bottom] = pushed;
#if MUTATION == bottom_before_cell
        store(BOTTOM, bottom + 1)
#else
        store(CELL(ring, bottom), pushed) /* deque_put: ptr_store_relaxed(&cell.job, job) */
#endif
       }
    :: d_step { /* deque_make_room */
        pushed < ALL && !ROOM(full_at) && (ROOM(FULL) || !CAN_GROW) ->
        between_operations();
        full_at = FULL
       }
       goto idle
    :: d_step {
        pushed < ALL && !ROOM(full_at) && !ROOM(FULL) && CAN_GROW ->
        between_operations();
        t = mem[TOP];
#if MUTATION == copies_too_few
        at = t + 1
#else
        at = t
#endif
       }
       goto grow
#if JOINS
    :: d_step { forks > 0 && STORE -> between_operations(); newest_fork(); pop_at(at) }
       goto take_back
    :: d_step {
        forks > 0 && STORE && put[bottom - 1] == NO_JOB ->
        between_operations(); newest_fork(); pop_at(bottom - 1)
       }
       goto take_back
#else
    :: d_step {
        STORE ->
        between_operations();
        at = bottom - 1;
        load(j, CELL(ring, at)); /* deque_newest */
        pop_at(at)
       }
       goto take_back
#endif
    :: d_step { between_operations(); over = 1 } goto finish
    fi;
    atomic {
        STORE ->
#if MUTATION == bottom_before_cell
        store(CELL(ring, bottom), pushed);
#else
        store(BOTTOM, bottom + 1); /* i64_store_release(&d.bottom, b + 1) */
#endif
        bottom++;
#if JOINS
        forks++
#endif
    }
    goto idle;

grow:
#if MUTATION == ring_before_copies
    atomic { STORE -> store(RING, ring + 1) }
#endif
    do
    :: d_step {
        at < bottom && STORE -> /* for i in range(t, b) */
        load(j, CELL(ring, at));
        store(CELL(ring + 1, at), j); /* ptr_store_relaxed(&to.job, ...) */
        j = NO_JOB;
        at++
       }
    :: d_step {
        at == bottom && STORE -> /* deque_use */
        ring++;
        full_at = t + SIZE(ring);
#if MUTATION != ring_before_copies
        store(RING, ring); /* ptr_store_release(&d.ring, r) */
#endif
#if MUTATION != old_ring_reused
        t = 0;
#endif
        at = 0
       }
       break
    od;
#if MUTATION == old_ring_reused
    atomic { STORE -> store(CELL(ring - 1, t), NO_JOB); t = 0 }
#endif
    goto idle;

take_back:
#if MUTATION == top_before_bias
    t = mem[TOP];
#endif
    atomic { load(bias, BIAS) } /* u32_load_relaxed(&d.bias) == BIAS_OWNER */
#if MUTATION == bias_before_bottom
    d_step { STORE -> store(BOTTOM, b); bottom = b }
#endif
    if /* i64_load_relaxed(&d.top) < b */
    :: d_step { bias == OWNER && FAST_TOP < b -> got_it(); popped() } goto idle
    :: d_step { bias != OWNER || FAST_TOP >= b -> bias = 0; t = 0 }
    fi;
    /* deque_take_back_slow */
    atomic { load(bias, BIAS) } /* bias = u32_load_relaxed(&d.bias) */
top:
    if
    :: d_step {
        MAY_REBIAS && STORE ->
        store(BIAS, OWNER); /* u32_store_relaxed(&d.bias, BIAS_OWNER) */
        bias = REBIASED
       }
       goto top
#if MUTATION == acknowledges_revoking
    :: d_step {
        bias == REVOKING && n == 0 ->
        if
        :: mem[BIAS] == REVOKING -> mem[BIAS] = FENCED
        :: else
        fi;
        bias = ACKNOWLEDGED
       }
       goto top
#elif MUTATION != refused_stays
    :: d_step {
        bias == REFUSED && (n == 0 || MUTATION == refused_no_fence && STORE) ->
        store(BIAS, FENCED); /* u32_store_release(&d.bias, BIAS_FENCED) */
        bias = ACKNOWLEDGED
       }
       goto top
#endif
    :: d_step { MUST_GO_ON && FENCE && mem[TOP] < b -> leaves_bias(); got_it(); popped() } goto idle
    :: d_step { MUST_GO_ON && FENCE && mem[TOP] == b -> leaves_bias(); t = b; bias = 0 }
    :: d_step {
        MUST_GO_ON && FENCE && mem[TOP] > b ->
        leaves_bias();
#if MUTATION == bottom_below_top
        t = b + 1;
#else
        t = mem[TOP];
#endif
        lost_it()
       }
       goto restore
    fi;
#if MUTATION == last_without_cas
    atomic { n == 0 -> mem[TOP] = t + 1; got_it(); t = b + 1 }
#else
    if /* i64_cas_seq_cst(&d.top, t, t + 1) */
    :: d_step { n == 0 && mem[TOP] == t -> mem[TOP] = t + 1; got_it(); t = b + 1 }
    :: d_step { n == 0 && mem[TOP] != t -> lost_it(); t = b + 1 }
    fi;
#endif
restore:
    atomic {
        STORE ->
        store(BOTTOM, t); /* i64_store_relaxed(&d.bottom, b + 1 if t == b else t) */
        bottom = t;
        popped()
    }
    goto idle;

finish:
    timeout; /* all others are done, and all is in memory */
    d_step { check_the_end() }
}

/* ---- a thief: deque_steal ------------------------------------------------------------------- */

#if MUTATION == thief_without_fence
#define THIEF_FENCE true
#else
#define THIEF_FENCE (late[me] == 0) /* fence_seq_cst() */
#endif
#define ITS_BIAS (late[me] -> late[me] - 1 : mem[BIAS]) /* u32_load_acquire(&d.bias) */
#if MUTATION == go_on_when_revoking
#define MAY_STEAL (ITS_BIAS != OWNER)
#else
#define MAY_STEAL (ITS_BIAS == FENCED)
#endif
#if MUTATION == bottom_before_top || MUTATION == bottom_before_bias
#define ITS_BOTTOM b
#else
#define ITS_BOTTOM mem[BOTTOM] /* i64_load_acquire(&d.bottom) */
#endif

inline look_at_bias()
{
    if
    :: d_step { THIEF_FENCE && MAY_STEAL -> skip }
    :: d_step { THIEF_FENCE && !MAY_STEAL -> t = 0 } goto revoke
    fi
}

inline stole_it()
{
    take(j);
    assert(j == put[t]); /* the job of that index */
    assert(j == mem[CELL(r, t)]); /* and still there */
#if !JOINS
    put[t] = NO_JOB
#endif
}

inline forget()
{
    t = 0; r = 0; j = NO_JOB;
#if MUTATION == bottom_before_top || MUTATION == bottom_before_bias
    b = 0
#endif
}

proctype thief(byte me)
{
    byte t, r, j;
#if MUTATION == bottom_before_top || MUTATION == bottom_before_bias
    byte b;
#endif

end:
#if MUTATION == bias_before_top
    !over;
    look_at_bias();
    t = mem[TOP];
#elif MUTATION == bottom_before_top
    atomic { !over -> b = mem[BOTTOM] }
    t = mem[TOP];
    look_at_bias();
#else
    atomic { !over -> t = mem[TOP] } /* i64_load_acquire(&d.top) */
#if MUTATION == bottom_before_bias
    b = mem[BOTTOM];
#endif
    look_at_bias();
#endif
#if MUTATION == ring_before_bottom
    r = mem[RING];
#endif
    if
    :: t < ITS_BOTTOM
    :: d_step { t >= ITS_BOTTOM -> forget() } goto end
    fi;
#if MUTATION != ring_before_bottom
    r = mem[RING]; /* ptr_load_acquire(&d.ring) */
#endif
#if MUTATION == cell_after_cas
    if
    :: d_step { late[me] == 0 && mem[TOP] == t -> mem[TOP] = t + 1 }
    :: d_step { late[me] == 0 && mem[TOP] != t -> forget() } goto end
    fi;
    d_step { j = mem[CELL(r, t)]; stole_it(); forget() }
#else
    j = mem[CELL(r, t)]; /* ptr_load_relaxed(&cell.job) */
    if /* i64_cas_seq_cst(&d.top, t, t + 1) */
    :: d_step { late[me] == 0 && mem[TOP] == t -> mem[TOP] = t + 1; stole_it(); forget() }
    :: d_step { late[me] == 0 && mem[TOP] != t -> forget() }
    fi;
#endif
    goto end;

revoke: /* deque_revoke */
#if MUTATION == revoke_by_store
    late[me] = 1 + REVOKING;
    d_step { late[me] == 0 -> membarrier_begins() }
#else
    if /* u32_cas_seq_cst(&d.bias, BIAS_OWNER, BIAS_REVOKING) */
    :: d_step { late[me] == 0 && mem[BIAS] == OWNER -> mem[BIAS] = REVOKING; membarrier_begins() }
    :: late[me] == 0 && mem[BIAS] != OWNER -> goto end
    fi;
#endif
    if
    :: d_step {
#if MUTATION == no_membarrier
        unfenced[me] = 0;
#else
        unfenced[me] == 0 -> /* membarrier */
#endif
        late[me] = 1 + FENCED /* u32_store_release(&d.bias, BIAS_FENCED) */
       }
    :: d_step { /* it fails */
        unfenced[me] = 0;
#if MUTATION == acknowledges_revoking
        skip
#elif MUTATION == refused_is_fenced
        late[me] = 1 + FENCED
#else
        late[me] = 1 + REFUSED /* u32_store_relaxed(&d.bias, BIAS_REFUSED) */
#endif
       }
    fi;
    goto end
}

init {
    d_step {
        mem[TOP] = 1;
        mem[BOTTOM] = 1 + JOBS;
#if !NO_MEMBARRIER
        mem[BIAS] = OWNER;
#endif
        mem[RING] = RING0;
#if JOBS
        for (k : 1 .. JOBS) {
            mem[CELL(RING0, k)] = k;
            put[k] = k
        }
        k = 0
#endif
    }
    atomic {
        run owner();
        run thief(0);
#if THIEVES > 1
        run thief(1);
#endif
#if THIEVES > 2
        run thief(2);
#endif
#if THIEVES > 3
        run thief(3);
#endif
    }
end:
    do
    :: d_step { n > 0 -> flush_owner() }
    :: d_step { late[0] > 0 -> flush_thief(0) }
#if THIEVES > 1
    :: d_step { late[1] > 0 -> flush_thief(1) }
#endif
#if THIEVES > 2
    :: d_step { late[2] > 0 -> flush_thief(2) }
#endif
#if THIEVES > 3
    :: d_step { late[3] > 0 -> flush_thief(3) }
#endif
    od
}
