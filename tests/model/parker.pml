/* The parker's token, with a futex: pyblitz/runtime/os.h (pb_park, pb_unpark).  Checked with Spin:
 * see run.py.
 *
 * SENDERS threads leave MESSAGES each, and unpark the owner after each; the owner parks, with a
 * timeout or without, for as long as messages are missing, and goes on at any time without.
 *
 * What it proves, within the bounds, by visiting every state:
 *
 * - The token is one unit: park returns true exactly if an unpark came since it last did, and
 *   takes it; false only if none came.
 * - So none is lost: not one that comes before the park, between the compare-and-swap and the
 *   futex, with the timeout or with a signal; and the owner never waits for one that came.
 *
 * Memory is sequentially consistent (all accesses are to one variable), and a step is one access
 * to it.  FUTEX_WAIT compares and goes to sleep in one step, and comes back when it is woken, with
 * a timeout at any time, and for one of SIGNALS signals at any time.
 *
 * What it does not cover: how long a timeout takes; the parker of a mutex and a condition.
 *
 * A mutation, -DMUTATION=name, is what must not be left out or turned round: Spin finds each. */

#define park_by_store 1    /* park stores PARKED, without compare-and-swap */
#define wait_unchecked 2   /* FUTEX_WAIT does not compare */
#define timeout_store 3    /* after a timeout park stores EMPTY, and returns false */
#define timeout_parked 4   /* ... leaves PARKED, and returns false */
#define token_stays 5      /* park does not take the token that was there before */
#define no_wake 6          /* unpark wakes nobody */
#define only_parked 7      /* unpark leaves a token only to one who is PARKED */
#define unpark_torn 8      /* unpark loads, and then stores */
#define signal_ends 9      /* a park without timeout ends with a signal */

#ifdef MUTATION
#if MUTATION == 0
#error "no such mutation"
#endif
#else
#define MUTATION 0
#endif
#define without(x) (MUTATION != x)
#define is(x) (MUTATION == x)

#ifndef SENDERS
#define SENDERS 2
#endif
#ifndef SIGNALS
#define SIGNALS 1
#endif
#ifndef MESSAGES
#define MESSAGES 2
#endif

mtype = { EMPTY, TOKEN, PARKED };

mtype state = EMPTY;
bit sleeps;     /* in the kernel */
byte messages, signals = SIGNALS;
bit sent;       /* an unpark came since park last returned true */

/* park returns; its last step. */
inline returns(true_) {
    assert(sent == true_);
    sent = 0
}

active proctype Owner() {
    bit timed, over;

    do
    :: atomic { messages == SENDERS * MESSAGES -> break }
    :: atomic { messages < SENDERS * MESSAGES }
        if
        :: timed = 0
        :: timed = 1
        fi;
        if
        :: atomic { state == EMPTY || is(park_by_store) -> state = PARKED }
        :: atomic { state == TOKEN && without(park_by_store) -> skip }
            atomic {
                if
                :: without(token_stays) -> state = EMPTY
                :: else
                fi;
                returns(1);
                goto returned
            }
        :: atomic { state == PARKED && without(park_by_store) -> skip } /* a mutation's */
            atomic { state = EMPTY; returns(1); goto returned }
        fi;
wait:
        atomic { sleeps = (state == PARKED || is(wait_unchecked)) };
        if
        :: atomic { !sleeps }
        :: atomic { sleeps && timed -> sleeps = 0; over = 1 } /* ETIMEDOUT */
        :: atomic { sleeps && signals -> sleeps = 0; signals-- } /* EINTR */
            if
            :: is(signal_ends) -> atomic { state = EMPTY; returns(0); goto returned }
            :: else
            fi
        fi;
        if
        :: atomic { state != TOKEN && !over -> goto wait }
        :: atomic { state == TOKEN || over -> skip }
        fi;
        atomic {
            if
            :: over && is(timeout_store) -> state = EMPTY; returns(0)
            :: over && is(timeout_parked) -> returns(0)
            :: else ->
                if
                :: state == TOKEN -> returns(1)
                :: else -> returns(0)
                fi;
                state = EMPTY
            fi
        };
returned:
        atomic { over = 0; timed = 0 }
    od
}

active [SENDERS] proctype Sender() {
    byte i;
    mtype was;

    do
    :: i < MESSAGES ->
        messages++;
        if
        :: is(unpark_torn) ->
            atomic { was = state };
            atomic { state = TOKEN; sent = 1 }
        :: else ->
            atomic { /* exchange */
                was = state;
                if
                :: was == PARKED || without(only_parked) -> state = TOKEN
                :: else
                fi;
                sent = 1
            }
        fi;
        if
        :: was == PARKED && without(no_wake) -> sleeps = 0
        :: else
        fi;
        was = 0;
        i++
    :: else -> break
    od
}
