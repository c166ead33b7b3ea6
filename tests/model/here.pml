/* Pools of one thread, and guests: pyblitz/runtime/pool.pyx (take_guest, add_guests, pool_run_here,
 * run_queued, pool_help_here, pool_leave, users).  Checked with Spin: see run.py.
 *
 * A pool without threads runs a job in the thread that submits it.  What such a job submits is
 * queued, and run after it; one that waits for another's future runs what is queued first.  Each
 * loop that runs jobs is a guest.
 *
 * What it proves, within the bounds, by visiting every state:
 *
 * - Every accepted job runs, once, and before the pool is quiet.
 * - Jobs run in the order in which their thread submitted them, and a lane's one at a time.
 * - No job runs on top of another one, but of one that waits.
 * - Each guest is one thread's; and lies in a block that thieves find.
 * - Nobody gets stuck.
 *
 * THREADS submit one job each, to a pool that is closed at any time.  Jobs, by define (TREE by
 * default; those of several threads are alike):
 *
 *   TREE   1 submits 2 and 3; 2 submits 4
 *   WAIT   1 submits 2 and 3 and waits for 3; 2 submits 4
 *   LANE   1 submits 2 and 3, which are of one lane for all threads, as are no others
 *
 * Blocks of SLOTS guests each; block 0 is made with the pool.
 *
 * Memory is sequentially consistent, and a step is one access to it.
 *
 * What it does not cover: memory orders; threads that are refused (sleep.pml); jobs that wait for
 * anything but futures; jobs that wait for jobs of other threads.
 *
 * A mutation, -DMUTATION=name, is what must not be left out or turned round: Spin finds each. */

#define nests 1            /* TREE: a job is run at once, on top of the one that submits it */
#define innermost_only 2   /* WAIT: ... by one that a waiting job runs: its own guest has no queue */
#define newest_first 3     /* TREE: the queue is a stack */
#define queue_left 4       /* TREE: the first job's end ends the loop */
#define runs_for_ever 5    /* TREE: `runs_here` stays */
#define waits_only 6       /* WAIT: a job that waits runs nothing */
#define block_by_store 7   /* WAIT, 2 threads: a block is published without compare-and-swap */
#define block_not_found 8 /* WAIT, 2 threads: ... and who was slower uses its own */
#define slot_torn 9       /* TREE, 2 threads: a guest is taken by a load and a store */
#define slot_stays 10      /* TREE: who leaves does not give it back */
#define lane_torn 11       /* LANE, 2 threads: who pushes onto a lane holds it */

#ifdef MUTATION
#if MUTATION == 0
#error "no such mutation"
#endif
#else
#define MUTATION 0
#endif
#define without(x) (MUTATION != x)
#define is(x) (MUTATION == x)

#ifndef THREADS
#define THREADS 2
#endif
#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef LANE
#define LANE 0
#endif
#if !(WAIT || LANE)
#define TREE 1
#endif

#if LANE
#define JOBS 3
#else
#define JOBS 4
#endif
#define A_LANE (JOBS + 1) /* in a queue: the lane */
#define BLOCKS 4
#define FULL ((1 << SLOTS) - 1)
#define CLOSED 64

/* What a job does. */
#define NOTHING 0
#define SUBMIT 8 /* added to a job's number */
#define WAIT_FOR 16
#define END 32
hidden byte program[(JOBS + 1) * 4];

/* Pool. */
byte users;
bit quiet;
byte block[BLOCKS];                    /* whose: its maker + 1; 0: none */
byte taken[BLOCKS * (THREADS + 1)];    /* of block b of maker m */
/* The lane. */
bit lane_held, lane_runs;
byte lane[THREADS * JOBS], n_lane;
/* For the properties. */
byte accepted, ran, finished;
hidden byte x;

#define DEPTH 7
/* Frames. */
#define LOOP 1 /* run_queued; a guest */
#define JOB 2
#define RUN_LANE 3

#define KIND kind[sp - 1]
#define STEP program[what[sp - 1] * 4 + pc[sp - 1]]
#define touch assert(!quiet)
/* Who helps looks after each job whether its own future is done. */
#define enough (pc[sp - 1] && (is(queue_left) || !what[sp - 1]))

inline push(k, j) {
    assert(sp < DEPTH);
    kind[sp] = k; what[sp] = j; pc[sp] = 0; sp++
}

inline pop() {
    sp--; kind[sp] = 0; what[sp] = 0; pc[sp] = 0; at[sp] = 0
}

/* No job runs on top of one that does not wait. */
inline check_below() {
    x = 0;
    do
    :: x < sp ->
        assert(kind[x] != JOB || program[what[x] * 4 + pc[x]] / WAIT_FOR == 1);
        x++
    :: else -> break
    od
}

inline job_done() {
    assert((users & ~CLOSED) > 0 && !quiet);
    users--;
    if
    :: users == CLOSED -> quiet = 1; assert(ran == accepted) /* users_gone */
    :: else
    fi
}

/* Onto the queue of this thread. */
inline enqueue(j) {
    if
    :: is(newest_first) ->
        x = n_queue;
        do
        :: x > 0 -> queue[x] = queue[x - 1]; x--
        :: else -> break
        od;
        queue[0] = j
    :: else -> queue[n_queue] = j
    fi;
    n_queue++
}

proctype Thread(byte me) {
    byte kind[DEPTH], what[DEPTH], pc[DEPTH], at[DEPTH], sp;
    byte queue[JOBS + 1], n_queue, last, b, m, j;
    bit runs_here, ok, helps;
    bit done[JOBS + 1];

    atomic {
        ok = !(users & CLOSED);
        if
        :: ok -> users++
        :: else -> goto over
        fi
    };
    j = 1;
submit: /* job j: its share, then pool_run_here, or lane_submit */
    atomic {
        touch; accepted++;
        if
        :: LANE && j > 1 ->
            lane[n_lane] = me * JOBS + j; n_lane++;
            ok = !lane_held || is(lane_torn);
            if
            :: ok -> lane_held = 1; users++; j = A_LANE
            :: else -> j = 0
            fi
        :: else ->
            ok = 1;
            users++
        fi
    };
    atomic {
        if
        :: !ok -> goto next
        :: ok && runs_here && without(nests) &&
           !(is(innermost_only) && helps) -> enqueue(j); j = 0; goto next
        :: else -> touch
        fi
    };
    atomic { enqueue(j); j = 0; ok = !runs_here; runs_here = 1 };
enter: /* enter_as_user: share_inside, take_guest; ok: this is the outermost loop */
    atomic {
        touch; b = 0; users++
    };
find:
    atomic { assert(b < BLOCKS); m = block[b] };
    if
    :: m == 0 -> /* add_guests */
        if
        :: is(block_by_store) -> block[b] = me + 1; m = me + 1
        :: else ->
            atomic {
                if
                :: block[b] == 0 -> block[b] = me + 1
                :: else
                fi
            };
            if
            :: is(block_not_found) -> m = me + 1
            :: else -> m = block[b]
            fi
        fi
    :: else
    fi;
    atomic { /* the compare-and-swap of `taken` */
        m = b * (THREADS + 1) + m; /* its number */
        if
        :: taken[m] == FULL -> b++; m = 0; goto find
        :: else ->
            x = 0;
            do
            :: taken[m] & 1 << x -> x++
            :: else -> break
            od;
            push(LOOP, ok);
            at[sp - 1] = m * SLOTS + x;
            if
            :: without(slot_torn) -> taken[m] = taken[m] | 1 << x
            :: else
            fi
        fi
    };
    if
    :: is(slot_torn) ->
        atomic { taken[m] = taken[m] | 1 << (at[sp - 1] % SLOTS) }
    :: else
    fi;
    atomic {
        assert(block[b] == m - b * (THREADS + 1)); /* thieves find it */
        m = 0; b = 0; ok = 0; helps = !what[sp - 1];
        goto next
    };

next: /* of the topmost frame */
    if
    :: atomic { sp == 0 -> goto left }
    :: atomic {
            sp && KIND == LOOP && n_queue && !enough ->
            touch; pc[sp - 1] = 1;
            j = queue[0];
            x = 1;
            do
            :: x < n_queue -> queue[x - 1] = queue[x]; x++
            :: else -> break
            od;
            n_queue--; queue[n_queue] = 0;
            check_below();
            if
            :: j == A_LANE -> push(RUN_LANE, 0)
            :: else ->
                assert(j > last); last = j; /* they are numbered in the order of their submission */
                push(JOB, j)
            fi;
            j = 0;
            goto next
        }
    :: atomic {
            sp && KIND == LOOP && (!n_queue || enough) -> /* pool_leave */
            touch;
            if
            :: what[sp - 1] && without(runs_for_ever) -> runs_here = 0
            :: else
            fi
        };
        atomic {
            assert(taken[at[sp - 1] / SLOTS] & 1 << (at[sp - 1] % SLOTS));
            if
            :: without(slot_stays) ->
                taken[at[sp - 1] / SLOTS] =
                    taken[at[sp - 1] / SLOTS] & ~(1 << (at[sp - 1] % SLOTS))
            :: else
            fi
        };
        atomic {
            job_done(); pop(); helps = 0;
            goto next
        }
    :: atomic {
            sp && KIND == JOB && STEP / WAIT_FOR == 0 ->
            touch; j = STEP - SUBMIT; pc[sp - 1]++; goto submit
        }
    :: atomic {
            sp && KIND == JOB && STEP / WAIT_FOR == 1 && done[STEP - WAIT_FOR] ->
            pc[sp - 1]++; goto next
        }
    :: atomic {
            sp && KIND == JOB && STEP / WAIT_FOR == 1 && !done[STEP - WAIT_FOR] && n_queue &&
            without(waits_only) -> /* pool_help_here */
            ok = 0; goto enter
        }
    :: atomic {
            sp && KIND == JOB && STEP == END ->
            assert(!done[what[sp - 1]]);
            done[what[sp - 1]] = 1; ran++
        };
        atomic {
            job_done(); pop(); goto next
        }
    :: atomic {
            sp && KIND == RUN_LANE && n_lane ->
            touch; assert(!lane_runs); lane_runs = 1
        };
        atomic {
            lane_runs = 0; ran++;
            x = 1;
            do
            :: x < n_lane -> lane[x - 1] = lane[x]; x++
            :: else -> break
            od;
            n_lane--; lane[n_lane] = 0;
            goto next
        }
    :: atomic { sp && KIND == RUN_LANE && !n_lane -> lane_held = 0 };
        atomic { job_done(); pop(); goto next }
    fi;

left: /* the caller's own share */
    atomic { assert(!n_queue && !runs_here); job_done() };
over:
    finished++
}

active proctype Closer() {
    atomic {
        users = users | CLOSED;
        if
        :: users == CLOSED -> quiet = 1; assert(ran == accepted)
        :: else
        fi
    }
}

#define DO(job, a, b, c) \
    program[job * 4] = a; program[job * 4 + 1] = b; program[job * 4 + 2] = c; \
    program[job * 4 + 3] = END

init {
    byte n;
    atomic {
#if TREE
        DO(1, SUBMIT + 2, SUBMIT + 3, END); DO(2, SUBMIT + 4, END, END);
        DO(3, END, END, END); DO(4, END, END, END);
#elif WAIT
        DO(1, SUBMIT + 2, SUBMIT + 3, WAIT_FOR + 3); DO(2, SUBMIT + 4, END, END);
        DO(3, END, END, END); DO(4, END, END, END);
#else
        DO(1, SUBMIT + 2, SUBMIT + 3, END);
#endif
        block[0] = 1;
        do
        :: n < THREADS -> run Thread(n); n++
        :: else -> n = 0; break
        od
    };
    atomic {
        finished == THREADS && quiet;
        do
        :: n < BLOCKS * (THREADS + 1) -> assert(!taken[n]); n++
        :: else -> n = 0; break
        od
    }
}
