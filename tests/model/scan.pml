/* Scans: one pass over a row, in blocks that are taken by ticket; each looks back for the result of
 * all blocks before it; pyblitz/kernels/scan.pyx (await_state, look_back, scan_leaf, scan_run).  Checked with Spin: see run.py.
 *
 * What it proves, within the bounds, by visiting every state:
 *
 * - The result of every block is the fold of all blocks before it, from left to right, whoever did
 *   what, and however late: each combination is of neighbours, in their order.
 * - Nobody reads a total, or a last result, that is not written.
 * - Nobody reads items that are overwritten, by their own scan, in place.
 * - Blocks begin in their order, each once; who waits for a total waits for a block that has begun,
 *   so there is no deadlock, in place either, also when the scan is stopped.
 * - Unless it is stopped all blocks are done, and nobody is in a cell when these are freed.
 *
 * WORKERS take BLOCKS leaves, in any interleaving: so some begin late, or never.  By define:
 *
 *   IN_PLACE  the results are written over the items, or these are cast to where results go: who
 *             misses a total cannot compute it
 *   INTEGERS  any leaf may try the shortcut, which computes no total, also while others share:
 *             `sharing` is no more than a hint, for a beat may share what a worker that does not
 *             share has begun
 *   FLAGS     any leaf may find floating-point flags, and stop the scan
 *
 * A value is how many blocks it is the fold of, from the first; a total is that of its block and no
 * other.  Memory is sequentially consistent, and a step is one access to it; what release and
 * acquire must order is in this order here, and the mutations turn it round.  A total and a last
 * result are one step each to write: only a state says that they are there.
 *
 * What it does not cover: the arithmetic of one block; the bridge that gives out the leaves, and
 * waits for them; how long a waiter waits before it gives up.
 *
 * A mutation, -DMUTATION=name, is what must not be left out or turned round: Spin finds each of
 * them, but those under HARMLESS. */

#define total_after_state 1   /* TOTAL is published before the total is written */
#define last_after_state 2    /* LAST is published before the last result is written */
#define total_at_once 3       /* who misses a total reads it all the same */
#define by_position 4         /* a leaf does the block at its own position */
#define ticket_torn 5         /* the ticket is read, and then written */
#define recompute_in_place 6  /* who misses a total computes it, though items are overwritten */
#define scan_before_total 7   /* the block is scanned, in place, before its total is computed */
#define total_of_last 8       /* who sees LAST takes the total, which the shortcut does not write */
#define shortcut_state_first 9 /* the shortcut publishes LAST before the last result */
#define shortcut_unchecked 10 /* the shortcut does not look whether the block before has a result */
#define stop_with_ticket 11   /* who has a ticket looks once more whether the scan was stopped */
#define last_twice 12         /* the total of a block is added to its last result */
#define no_wait 13            /* the cells are freed when the scan is stopped */
/* HARMLESS */
#define wait_for_last 20      /* in place, a waiter waits for the last result: only longer */
#define never_last 21         /* looking back goes to the first block: only slower */

#ifdef MUTATION
#if MUTATION == 0
#error "no such mutation"
#endif
#else
#define MUTATION 0
#endif
#define without(x) (MUTATION != x)
#define is(x) (MUTATION == x)

#ifndef BLOCKS
#define BLOCKS 4
#endif
#ifndef WORKERS
#define WORKERS 3
#endif
#if IN_PLACE
#define in_place 1
#else
#define in_place 0
#endif
#if INTEGERS
#define integers 1
#else
#define integers 0
#endif
#if FLAGS
#define may_stop 1
#else
#define may_stop 0
#endif

#define NOTHING 0
#define TOTAL 1
#define LAST 2
#define BIT(i) (1 << (i))

byte leaves = BLOCKS;   /* that nobody has begun */
byte ticket;
byte begun, overwritten, done; /* blocks, as sets */
byte running;           /* leaves */
bit stopped;            /* the bridge's limit is 0 */
bit freed;

/* ScanCell.  0: not written. */
byte state[BLOCKS], total[BLOCKS], last[BLOCKS];

#define touch assert(!freed)
/* Of block b, of its items. */
#define compute(b) assert(!(overwritten & BIT(b)))
#define overwrite(b) overwritten = overwritten | (in_place -> BIT(b) : 0)

proctype Worker() {
    byte block, i, before, seen;

next: /* a leaf of the bridge, or none is left, or wanted */
    atomic {
        block = 0; i = 0; before = 0; seen = 0;
        if
        :: leaves == 0 || stopped -> goto over
        :: else -> leaves--; running++
        fi
    };
    /* scan_leaf */
    if
    :: is(by_position) ->
        atomic {
            if
            :: !(begun & BIT(0)) -> block = 0
            :: !(begun & BIT(1)) -> block = 1
            :: BLOCKS > 2 && !(begun & BIT(2)) -> block = 2
            :: BLOCKS > 3 && !(begun & BIT(3)) -> block = 3
            fi;
            begun = begun | BIT(block)
        }
    :: is(ticket_torn) ->
        block = ticket;
        atomic { ticket = block + 1; assert(!(begun & BIT(block))); begun = begun | BIT(block) }
    :: else ->
        atomic {
            block = ticket; ticket++;
            assert(begun == BIT(block) - 1);
            begun = begun | BIT(block)
        }
    fi;
    if
    :: is(stop_with_ticket) && stopped -> goto ended
    :: else
    fi;
    if
    :: integers -> /* not sharing */
        atomic {
            touch;
            if
            :: block == 0 || is(shortcut_unchecked) -> skip
            :: block > 0 && without(shortcut_unchecked) && state[block - 1] == LAST -> skip
            :: else -> goto slowly
            fi
        };
        atomic {
            touch; compute(block);
            if
            :: block > 0 -> before = last[block - 1]
            :: else
            fi;
            assert(before == block); /* written, and right */
            overwrite(block)
        };
        if
        :: is(shortcut_state_first) -> atomic { touch; state[block] = LAST }
        :: else
        fi;
        atomic { touch; last[block] = before + 1 };
        atomic { touch; state[block] = LAST; done = done | BIT(block) };
        goto ended /* integers raise no flags */
    :: true
    fi;

slowly: /* block_total */
    if
    :: is(scan_before_total) -> overwrite(block)
    :: else
    fi;
    if
    :: is(total_after_state) -> atomic { touch; state[block] = (block -> TOTAL : LAST) }
    :: else
    fi;
    atomic { touch; compute(block); total[block] = block + 1 };
    if
    :: block == 0 -> goto publish
    :: else
    fi;
    atomic { touch; state[block] = TOTAL; i = block - 1 };

    /* look_back */
back:
    atomic {
        if
        :: i > 0 && (state[i] != LAST || is(never_last)) -> touch; i--; goto back
        :: else
        fi
    };
before_block: /* i: the next block whose result, or total, is missing */
    if
    :: i == block -> goto publish
    :: else
    fi;
    atomic { /* await_state */
        touch; assert(begun & BIT(i));
        if
        :: state[i] != NOTHING && (without(wait_for_last) || !in_place) -> seen = state[i]; goto read
        :: state[i] == NOTHING && is(total_at_once) -> seen = TOTAL; goto read
        :: state[i] == NOTHING && (!in_place || is(recompute_in_place)) -> goto recompute
        :: in_place && without(recompute_in_place) &&
           state[i] >= (is(wait_for_last) -> LAST : TOTAL) -> /* else it waits */
            seen = state[i]; goto read
        fi
    };
recompute:
    atomic { compute(i); assert(before == i); before++; i++; goto before_block };
read: /* what await_state saw: the state may be another one now */
    atomic {
        touch;
        if
        :: seen == LAST && without(total_of_last) ->
            assert(last[i] == i + 1); before = last[i];
            if
            :: is(last_twice) -> before++
            :: else
            fi
        :: else -> assert(total[i] == i + 1 && before == i); before++
        fi;
        i++; goto before_block
    };

publish: /* before: the result of all blocks before */
    assert(before == block);
    if
    :: is(last_after_state) -> atomic { touch; state[block] = LAST }
    :: else
    fi;
    atomic { touch; last[block] = before + 1 };
    atomic { touch; state[block] = LAST };
    /* block_scan */
    atomic {
        if
        :: without(scan_before_total) -> compute(block)
        :: else
        fi;
        overwrite(block); done = done | BIT(block)
    };
    if
    :: may_stop -> stopped = 1
    :: true
    fi;
ended:
    atomic { running--; goto next };
over:
    skip
}

init {
    byte i;
    atomic {
        do
        :: i < WORKERS -> run Worker(); i++
        :: else -> i = 0; break
        od
    };
    atomic { /* the end of bridge_run */
        (running == 0 && (leaves == 0 || stopped)) || (is(no_wait) && stopped);
        freed = 1;
        if
        :: without(no_wait) ->
            assert(done == begun);
            assert(stopped || done == BIT(BLOCKS) - 1);
            do
            :: i < BLOCKS -> assert(!(done & BIT(i)) || last[i] == i + 1); i++
            :: else -> i = 0; break
            od
        :: else
        fi
    }
}
