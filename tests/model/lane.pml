/* Lanes: keyed jobs, one at a time and in order; pyblitz/runtime/lane.pyx, and of sleep.pyx
 * post_bound, return_mail and revive.  Checked with Spin: see run.py.
 *
 * SUBMITTERS submit JOBS each, all of one key, hence to one lane.  A pool has two background
 * workers: the lane's own one, and another one that takes what is in the inbox.
 *
 * What it proves, within the bounds, by visiting every state (README 7.13):
 *
 * - Jobs of the lane run one at a time, each once, and those of one submitter in their order.
 * - None is lost, whether the lane's worker has a thread, is refused one, or gets it later.
 * - The lane has one holder at most: it lies in one box, or in one worker's hands.
 * - `rest` and `pool` are the holder's alone.
 * - Whoever runs the lane finds its pool there, and no user of a pool remains.
 *
 * TURN: how many jobs a worker runs before the lane goes behind its other lanes.  REFUSED: the
 * lane's worker may be refused its thread (1), or is, and with it the other one (2: its submitters
 * run the lane).  REVIVE: that thread is tried again, at any time, and starts.  REPLACED: the
 * global pool is replaced at any time; the old one ends with its last user.
 *
 * Memory is sequentially consistent, and a step is one access to it.  A push is one step: its
 * compare-and-swap succeeds in the end, and `head` is only compared.  `head` is here whether the
 * lane is BUSY when nothing was pushed, and what was pushed, oldest first.  Workers sleep and wake
 * as sleep.pml says: here they wait for what is in their boxes.
 *
 * What it does not cover: memory orders; more lanes; pools of one thread (life.pml); keyed jobs
 * that wait for each other; fork of the process.
 *
 * A mutation, -DMUTATION=name, is what must not be left out or turned round: Spin finds each. */

#define push_torn 1       /* a push stores what it linked to what it had loaded */
#define take_torn 2       /* a turn loads `head` and then stores BUSY */
#define idle_by_store 3   /* whoever found nothing stores NULL, without compare-and-swap */
#define newest_first 4    /* what was taken is not turned around */
#define rest_last 5       /* `head` is taken although there is a rest */
#define always_schedules 6 /* each push schedules the lane */
#define turn_ends 7       /* after its turn a lane is not put back */
#define pool_after 8      /* `pool` is read when the lane is idle already */
#define pool_late 9       /* `pool` is written when the lane is scheduled already */
#define no_share 10       /* a lane that is not idle holds no user of its pool */
#define refused_keeps 11  /* REFUSED: who is refused the thread returns nothing */
#define poster_keeps 12   /* REFUSED: ... nor who posts, and finds it dead */
#define returns_twice 13  /* REFUSED: what is returned is not taken by an exchange */
#define no_orphans 14     /* REFUSED=2: nobody runs what no thread will */

#ifdef MUTATION
#if MUTATION == 0
#error "no such mutation"
#endif
#else
#define MUTATION 0
#endif
#define without(x) (MUTATION != x)
#define is(x) (MUTATION == x)

#ifndef SUBMITTERS
#define SUBMITTERS 2
#endif
#ifndef JOBS
#define JOBS 2
#endif
#ifndef TURN
#define TURN 1
#endif
#ifndef REFUSED
#define REFUSED 0
#endif
#ifndef REVIVE
#define REVIVE 0
#endif
#ifndef REPLACED
#define REPLACED 0
#endif

#define POOLS (REPLACED + 1)
#define ALL (SUBMITTERS * JOBS)

mtype = { AWAKE, ASLEEP, CLAIMED, DEAD };

/* Lane: `head`, `rest`, `pool`. */
bit busy;
byte pushed[ALL], n_pushed, rest[ALL], n_rest;
byte lane_pool;
/* Pools: their users; the lane's worker; the boxes that may hold the lane. */
byte current, users[POOLS];
bit closed[POOLS], freed[POOLS];
mtype asleep[POOLS] = ASLEEP;
bit alive[POOLS];
bit bound[2 * POOLS], inbox[POOLS];
/* For the properties. */
bit running, held;
byte next_of[SUBMITTERS], ran, done;
hidden byte x;

inline job_done(q) {
    atomic {
        assert(users[q] > 0 && !freed[q]);
        users[q]--;
        if
        :: users[q] == 0 && closed[q] -> freed[q] = 1
        :: else
        fi
    }
}

inline put(box) {
    atomic { assert(!box); box = 1 }
}

/* return_mail, and run_lane without a worker. */
inline return_bound(q) {
    atomic {
        got = bound[2 * q];
        if
        :: without(returns_twice) -> bound[2 * q] = 0
        :: else
        fi
    };
    if
    :: is(returns_twice) -> bound[2 * q] = 0
    :: else
    fi;
    if
    :: got -> got = 0; put(inbox[q])
    :: else
    fi
}

inline clear_pushed() {
    x = 0;
    do
    :: x < n_pushed -> pushed[x] = 0; x++
    :: else -> break
    od;
    x = 0; n_pushed = 0; busy = 1
}

/* lane_take: into j, a job's number + 1. */
inline lane_take() {
    if
    :: (n_rest == 0 || is(rest_last)) && (n_pushed || !busy) ->
        atomic {
            seen = n_pushed;
            x = 0;
            do
            :: x < seen && without(newest_first) -> rest[n_rest + x] = pushed[x]; x++
            :: x < seen && is(newest_first) -> rest[n_rest + x] = pushed[seen - 1 - x]; x++
            :: x == seen && is(rest_last) && n_rest && seen -> /* in front */
                j = rest[n_rest]; rest[n_rest] = rest[0]; rest[0] = j; j = 0; break
            :: else -> break
            od;
            n_rest = n_rest + seen;
            if
            :: without(take_torn) -> clear_pushed()
            :: else
            fi;
            seen = 0
        };
        if
        :: is(take_torn) -> atomic { clear_pushed() }
        :: else
        fi
    :: else
    fi;
    atomic {
        if
        :: n_rest ->
            j = rest[0];
            x = 1;
            do
            :: x < n_rest -> rest[x - 1] = rest[x]; x++
            :: else -> break
            od;
            x = 0; n_rest--; rest[n_rest] = 0
        :: else
        fi
    }
}

/* run_lane: a turn, by a background worker whose box is `back`, or until the lane is idle. */
inline run_lane(background, back) {
    atomic { assert(!held); held = 1 };
    q = lane_pool;
    do
    :: turn < TURN || !background ->
        lane_take();
        if
        :: j ->
            atomic {
                assert(!running && !freed[q]);
                running = 1;
                assert(next_of[(j - 1) / JOBS] == (j - 1) % JOBS);
                next_of[(j - 1) / JOBS]++
            };
            atomic {
                running = 0; ran++; j = 0;
                if
                :: background -> turn++
                :: else
                fi
            }
        :: else ->
            atomic { /* the compare-and-swap to NULL */
                idle = n_pushed == 0 || is(idle_by_store);
                if
                :: idle -> held = 0; busy = 0; clear_pushed(); busy = 0
                :: else
                fi
            };
            if
            :: idle ->
                idle = 0;
                if
                :: is(pool_after) -> q = lane_pool
                :: else
                fi;
                if
                :: without(no_share) -> job_done(q)
                :: else
                fi;
                break
            :: else
            fi
        fi
    :: else ->
        atomic { held = 0 };
        if
        :: without(turn_ends) -> put(back)
        :: else
        fi;
        break
    od;
    q = 0; turn = 0
}

#define LOCALS byte p, q, j, turn, seen; bit idle, got

proctype Worker(byte w) {
    LOCALS;
    p = w / 2;
end:
    do
    :: atomic { bound[w] && (w % 2 || alive[p]) -> bound[w] = 0 }; run_lane(true, bound[w])
    :: atomic { inbox[p] && (w % 2 || alive[p]) -> inbox[p] = 0 }; run_lane(true, bound[w])
    od
}

inline link() {
    pushed[n_pushed] = me * JOBS + k + 1;
    n_pushed++
}

/* wake_sleeper; got: whether it was asleep.  Its thread may be refused. */
inline wake() {
    atomic {
        got = asleep[p] == ASLEEP;
        if
        :: got -> asleep[p] = CLAIMED
        :: else
        fi
    };
    if
    :: got ->
        asleep[p] = AWAKE;
        if
        :: REFUSED < 2 -> alive[p] = 1
        :: REFUSED ->
            asleep[p] = DEAD;
            if
            :: without(refused_keeps) -> return_bound(p)
            :: else
            fi
        fi;
        got = 1
    :: else
    fi
}

proctype Submitter(byte me) {
    LOCALS;
    byte k;

    do
    :: k < JOBS ->
        atomic { p = current; users[p]++ };
        atomic { /* lane_push */
            idle = n_pushed == 0 && !busy || is(always_schedules);
            seen = n_pushed;
            if
            :: without(push_torn) -> link()
            :: else
            fi
        };
        if
        :: is(push_torn) -> atomic { n_pushed = seen; link() }
        :: else
        fi;
        seen = 0;
        if
        :: idle ->
            idle = 0;
            if
            :: without(pool_late) -> lane_pool = p
            :: else
            fi;
            if
            :: without(no_share) -> users[p]++
            :: else
            fi;
            /* lane_schedule */
            if
            :: asleep[p] == DEAD -> put(inbox[p])
            :: else ->
                put(bound[2 * p]);
                wake();
                if
                :: got -> got = 0
                :: else ->
                    if
                    :: asleep[p] == DEAD && without(poster_keeps) -> return_bound(p)
                    :: else
                    fi
                fi
            fi;
            if
            :: is(pool_late) -> lane_pool = p
            :: else
            fi
        :: else
        fi;
#if REFUSED == 2
        if
        :: asleep[p] == DEAD && without(no_orphans) -> /* look_after_orphans */
            do
            :: atomic { inbox[p] -> inbox[p] = 0 }; run_lane(false, inbox[p])
            :: else -> break
            od
        :: else
        fi;
#endif
        job_done(p);
        atomic { p = 0; k++ }
    :: else -> break
    od;
    done++
}

#if REFUSED == 1
/* Whoever wakes the lane's worker for something else. */
active proctype Waker() {
    byte p;
    bit got;
    wake()
}
#endif

#if REVIVE
active proctype Reviver() {
end:
    atomic { asleep[0] == DEAD -> asleep[0] = CLAIMED };
    asleep[0] = AWAKE;
    alive[0] = 1
}
#endif

#if REPLACED
active proctype Replacer() {
    current = 1;
    atomic {
        closed[0] = 1;
        if
        :: users[0] == 0 -> freed[0] = 1
        :: else
        fi
    }
}
#endif

init {
    byte n;
    atomic {
        do
        :: n < 2 * POOLS ->
            if
            :: n % 2 == 0 || REFUSED < 2 -> run Worker(n)
            :: else
            fi;
            n++
        :: else -> n = 0; break
        od;
        do
        :: n < SUBMITTERS -> run Submitter(n); n++
        :: else -> n = 0; break
        od
    };
    atomic {
        done == SUBMITTERS && ran == ALL && users[0] == 0 && users[POOLS - 1] == 0;
        assert(!busy && !n_pushed && !n_rest && !held)
    }
}
