/* Guests' places: who calls in takes a worker in the first block that has one left, and makes the
 * next block where all are full; thieves look at the places that are taken;
 * pyblitz/runtime/pool.pyx (guest_block, add_guests, take_guest, next_guest, pool_leave).  Checked
 * with Spin: see run.py.
 *
 * What it proves, within the bounds, by visiting every state:
 *
 * - No two guests have the same worker at the same time.
 * - A thief's sweep looks at every guest that was inside before it and is so after it.
 * - A guest that leaves takes nobody else's place away, and one that comes later finds it free: so
 *   there are no more blocks than as many guests need as are inside at once.
 *
 * GUESTS threads enter and leave once each, and one thief sweeps once; a block has SLOTS places.
 * Memory is sequentially consistent, and a step is one access to it.
 *
 * What it does not cover: memory orders, threads without memory for a block, all blocks full.
 *
 * A mutation, -DMUTATION=name, is what must not be left out or turned round: Spin finds each of
 * them. */

#define take_torn 1      /* who takes a place reads `taken`, and then stores it */
#define leave_torn 2     /* who leaves reads `taken`, and then stores it */
#define block_by_store 3 /* a new block is stored, though one who was faster has made it */
#define keeps_own 4      /* who was slower goes on in its own block, which nobody knows */
#define ends_at_empty 5  /* a sweep ends at a block with no guest in it */
#define stays_taken 6    /* who leaves keeps the place */

#ifdef MUTATION
#if MUTATION == 0
#error "no such mutation"
#endif
#else
#define MUTATION 0
#endif
#define without(x) (MUTATION != x)
#define is(x) (MUTATION == x)

#ifndef GUESTS
#define GUESTS 2
#endif
#ifndef SLOTS
#define SLOTS 1
#endif
#define BLOCKS 4
#define FULL ((1 << SLOTS) - 1)

/* Pool.guests: each a block's number, or 0.  The number says which guest has made it, and as which
 * of the blocks. */
byte blocks[BLOCKS];
#define MADE (1 + GUESTS * BLOCKS)
byte taken[MADE], guest_in[MADE * SLOTS]; /* GuestBlock.taken; the guest, + 1 */
byte inside;                             /* how many guests are between enter and leave */
byte most;                               /* ... at once, so far */
bit here[GUESTS], seen[GUESTS];

proctype Guest(byte me) {
    byte k, block, bits, i, made;

    atomic { inside++; most = (inside > most -> inside : most) };
next_block:
    atomic { assert(k < BLOCKS); block = blocks[k] };
    if
    :: block -> skip
    :: else -> /* add_guests */
        made = 1 + me * BLOCKS + k;
        if
        :: atomic { !blocks[k] || is(block_by_store) -> blocks[k] = made }
        :: atomic { blocks[k] && without(block_by_store) -> skip }
        fi;
        atomic { block = (is(keeps_own) -> made : blocks[k]) }
    fi;
take:
    atomic { bits = taken[block] };
    if
    :: bits == FULL -> atomic { k++; bits = 0; block = 0; made = 0; goto next_block }
    :: else -> skip
    fi;
    atomic {
        if
        :: taken[block] != bits && without(take_torn) -> bits = 0; goto take
        :: else
        fi;
        do
        :: bits & 1 << i -> i++
        :: else -> break
        od;
        taken[block] = bits | 1 << i;
        bits = 0;
        assert(!guest_in[block * SLOTS + i]);
        guest_in[block * SLOTS + i] = me + 1;
        here[me] = 1
    };
    /* Its call; the thief may look. */
    atomic { here[me] = 0; guest_in[block * SLOTS + i] = 0 };
    if
    :: is(leave_torn) -> bits = taken[block]; taken[block] = bits & ~(1 << i)
    :: is(stays_taken) -> skip
    :: without(leave_torn) && without(stays_taken) ->
        atomic { taken[block] = taken[block] & ~(1 << i); inside-- }
    fi
}

/* next_guest, until it says NULL. */
proctype Thief() {
    byte k, block, bits, i, g;
    byte before; /* a set: who was inside */

    atomic {
        do
        :: g < GUESTS -> before = before | here[g] << g; g++
        :: else -> g = 0; break
        od
    };
    do
    :: atomic { k < BLOCKS -> block = blocks[k] };
        if
        :: !block -> break
        :: else
        fi;
        atomic { bits = taken[block] };
        if
        :: !bits && is(ends_at_empty) -> break
        :: else
        fi;
        i = 0;
        do
        :: i < SLOTS && bits & 1 << i ->
            atomic {
                if
                :: guest_in[block * SLOTS + i] -> seen[guest_in[block * SLOTS + i] - 1] = 1
                :: else
                fi;
                i++
            }
        :: i < SLOTS && !(bits & 1 << i) -> i++
        :: i == SLOTS -> break
        od;
        k++
    :: k == BLOCKS -> break
    od;
    atomic {
        do
        :: g < GUESTS -> assert(!(before & 1 << g) || !here[g] || seen[g]); g++
        :: else -> g = 0; break
        od
    }
}

init {
    byte n;
    atomic {
        do
        :: n < GUESTS -> run Guest(n); n++
        :: else -> n = 0; break
        od;
        run Thief()
    };
    atomic {
        _nr_pr == 1;
        /* Nobody is inside, and as many blocks were made as were needed at once. */
        do
        :: n < BLOCKS && blocks[n] -> assert(!taken[blocks[n]] && n * SLOTS < most); n++
        :: else -> break
        od
    }
}
