/* A set of keys that all workers fill: each key goes to the first free slot from its own on, by
 * compare-and-swap, unless it is there; pyblitz/kernels/member.pyx (put_key, put_keys, ask_keys,
 * and put_bits).  Checked with Spin: see run.py.
 *
 * What it proves, within the bounds, by visiting every state:
 *
 * - After the join, each key that was put is found by whoever asks for it, and no other.
 * - Each is in the table once, so that no more slots are taken than there are keys.
 * - Where a key found no slot within its steps somebody says so, and nobody asks.
 * - The same of the table of bits.
 *
 * WORKERS put PUTS keys each, any of 1, 2 and 3, of which 1 and 3 have the same slot.  By define:
 *
 *   CROWDED   a key has one step only
 *
 * Memory is sequentially consistent, and a step is one access to it.  Nothing else is published by
 * a slot or a word of bits than its own value, so relaxed orders are enough: they are read again
 * after the join, which orders them.
 *
 * A mutation, -DMUTATION=name, is what must not be left out or turned round: Spin finds each of
 * them. */

#define put_torn 1            /* a slot that was free is written, whoever came between */
#define lost_is_put 2         /* who loses a slot to another takes its own key for put */
#define lost_goes_on 3        /* ... or goes on, though it may be the same key */
#define silent 4              /* who finds no slot does not say so */
#define bit_torn 5            /* the word of bits is read, and then written */
#define no_join 6             /* somebody asks before all have put */

#ifdef MUTATION
#if MUTATION == 0
#error "no such mutation"
#endif
#else
#define MUTATION 0
#endif
#define is(x) (MUTATION == x)

#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef PUTS
#define PUTS 2
#endif
#if CROWDED
#define STEPS 1
#else
#define STEPS 3
#endif
#define SLOTS 5
#define BIT(i) (1 << (i))
#define SLOT_OF(key) ((key) & 1)

byte slots[SLOTS];
byte bits;
byte meant;             /* keys that somebody puts, as a set */
byte working = WORKERS;
bit given_up;

proctype Worker() {
    byte puts, key, slot, end, seen;

    do
    :: puts < PUTS ->
        atomic {
            puts++;
            if
            :: key = 1
            :: key = 2
            :: key = 3
            fi;
            meant = meant | BIT(key);
            slot = SLOT_OF(key);
            end = slot + STEPS
        };
        /* put_bits */
        if
        :: is(bit_torn) ->
            seen = bits;
            bits = seen | BIT(key)
        :: else -> bits = bits | BIT(key)
        fi;
        /* put_key */
        do
        :: slot == end ->
            if
            :: is(silent)
            :: else -> given_up = 1
            fi;
            break
        :: else ->
            seen = slots[slot];
            if
            :: seen == key -> break
            :: seen != 0 && seen != key -> slot++
            :: seen == 0 ->
                if
                :: is(put_torn) -> slots[slot] = key; break
                :: else ->
                    atomic {
                        if
                        :: slots[slot] == 0 -> slots[slot] = key; goto put
                        :: else
                        fi
                    };
                    if
                    :: is(lost_is_put) -> break
                    :: is(lost_goes_on) -> slot++
                    :: else
                    fi
                fi
            fi
        od;
put:    skip
    :: else -> break
    od;
    working--
}

proctype Asker() {
    byte key, slot, times, i;

    (working == 0 || is(no_join));
    atomic {
        if
        :: given_up && !is(no_join) -> goto over
        :: else
        fi;
        for (key : 1 .. 3) {
            times = 0;
            for (i : 0 .. SLOTS - 1) {
                times = times + (slots[i] == key)
            };
            assert(times <= 1);
            /* ask_key */
            slot = SLOT_OF(key);
            do
            :: slots[slot] == key -> times = 2; break
            :: slots[slot] != key && (slots[slot] == 0 || slot == SLOT_OF(key) + STEPS - 1) ->
                times = 0;
                break
            :: else -> slot++
            od;
            assert((times == 2) == ((meant & BIT(key)) != 0));
            assert(((bits & BIT(key)) != 0) == ((meant & BIT(key)) != 0))
        }
    };
over:
    skip
}

init {
    byte i;
    atomic {
        for (i : 1 .. WORKERS) {
            run Worker()
        };
        run Asker()
    }
}
