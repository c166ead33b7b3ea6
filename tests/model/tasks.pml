/* Tasks of a Python scope: a task is run by the worker that takes it from a deque, or by whoever
 * asks for its result first; pyblitz/host/tasks.pyx (Spawned.run_task, run_claim, run, help_with,
 * wait_for, scope._end, _drop_rest, spawn) on pyblitz/runtime/scope.pyx (run_task, scope_end).
 * Checked with Spin: see run.py.
 *
 * What it proves, within the bounds, by visiting every state:
 *
 * - Each task runs at most once; exactly once, unless it was cancelled, or dropped for a failure or
 *   a stop; and its future always ends.
 * - The end of a scope waits for all that has begun: nothing of the scope (its shares, its part,
 *   the call it belongs to) is touched after it.
 * - Every share is given back once.
 * - Who asks for a result never waits for ever, in pools of one either: what has not begun it runs
 *   itself, and what has begun waits only for what it asks for.
 *
 * The block spawns task 1, which spawns task 3 and asks for it; then task 2, which asks for task 1;
 * and then it asks for task 2 or ends.  BACKGROUND workers besides; by define:
 *
 *   ASKERS=n  so many threads that are no workers ask for task 1, or 2
 *   FAIL      any task may fail: later ones are dropped
 *   STOP      the end of the scope may be told to stop: tasks are dropped unseen
 *   CANCEL    somebody may cancel task 1's future
 *   SELF      task 3 asks for task 1, which is further out in this thread, or waits for it
 *
 * A thread's stack is one of frames, each a place in a function.  Memory is sequentially
 * consistent, and a step is one access to it, or one call of a future.  An operation on a deque is
 * one step, and so is giving a share back, with the latch that it may set: deque.pml, waits.pml.
 *
 * What it does not cover: parks and tokens, mail, and what is put away (waits.pml); batches, and
 * the tasks that run_task runs before it gives its share back; the immediate run in pools of one
 * (run_own); time limits of result(); signals; forks; a future's callbacks but for when they run.
 *
 * A mutation, -DMUTATION=name, is what must not be left out or turned round: Spin finds each of
 * them. */

#define claim_torn 1          /* who asks reads WAITS, and then stores CLAIMED */
#define take_torn 2           /* the task reads WAITS, and then stores TAKEN */
#define no_hand_over 3        /* the share is given back though who claimed it is at work */
#define hand_first 4          /* HANDED before the share that goes with it */
#define hand_store 5          /* HANDED, though the claim is done */
#define claim_done_torn 6     /* who claimed it looks for HANDED, and then stores CLAIM_DONE */
#define hand_no_give 7        /* the share that was got in vain is kept */
#define popped_forgotten 8    /* who pops the task that it asks for runs it as a claim only */
#define result_waits 9        /* who asks waits for a thread */
#define waits_for_self 10     /* who asks for what is further out in its own thread waits */
#define helps 11              /* who waits for a task runs others on top */
#define no_drop_rest 12       /* what was dropped unseen stays as it is */
#define drop_no_wait 13       /* who claimed what was dropped is not waited for */
#define drop_waits_for_future 14 /* ... but for its future, whose callbacks are yet to run */
#define drop_ends_nothing 15  /* what was dropped for a failure does not end its future */
#define cancelled_runs 16     /* the cancelled task runs */
#define spawn_uncounted 17    /* a task's share is counted after it is pushed */
#define end_no_wait 18        /* the end waits for tasks to be taken only */

#ifdef MUTATION
#if MUTATION == 0
#error "no such mutation"
#endif
#else
#define MUTATION 0
#endif
#define without(x) (MUTATION != x)
#define is(x) (MUTATION == x)

#ifndef BACKGROUND
#define BACKGROUND 1
#endif
#ifndef ASKERS
#define ASKERS 0
#endif
#if FAIL
#define may_fail 1
#else
#define may_fail 0
#endif
#if STOP
#define may_stop 1
#else
#define may_stop 0
#endif
#if SELF
#define self_asked 1
#else
#define self_asked 0
#endif

#define TASKS 3
#define ROOT 4          /* the block, or who asks from outside: frames without a task */
#define T (TASKS + 1)
#define DEPTH 5
#define OWNER 1         /* threads: the owner, workers, who asks from outside */
#define OUTSIDE (OWNER + BACKGROUND + 1)

/* Spawned.state */
#define WAITS 0
#define TAKEN 1
#define CLAIMED 2
#define HANDED 3
#define CLAIM_DONE 4
byte state[T];
byte thread[T];         /* that runs it */
bit spawned[T];
bit ran[T];
/* The future. */
#define PENDING 0
#define RUNNING 1
#define FINISHED 2
#define CANCELLED 3
byte future[T];
#define ended(t) (future[t] >= FINISHED)

byte queued[T];         /* the thread in whose deque it is */
byte open;              /* scope._open, a set */
byte limit = T;         /* scope._limit */
bit told;               /* Scope.limit is 0 */
byte count = 1;         /* Scope.latch */
bit latch, over;
byte finished;

#define touch assert(!over)
#define BIT(t) (1 << (t))

/* What a frame does next. */
#define TASK 1          /* run_task: the compare-and-swap */
#define TAKE 2
#define UP 3
#define HAND 4
#define HAND_UP 5
#define DOWN 6
#define CLOSE 7         /* _open.pop */
#define GIVE 8
#define BEGIN 9         /* run */
#define SPAWN 10
#define COUNT 11
#define ASK 12
#define CLAIM 13
#define WAIT 14
#define BODY_ENDS 15
#define SET 16
#define CALLBACKS 17
#define DONE 18         /* run_claim: the exchange */
#define DONE_STORE 19
#define GIVE_HANDED 20
#define CLAIM_ENDS 21
#define END 22          /* of the block */
#define HELP 23
#define REST 24
#define REST_WAIT 25

#define PC pc[sp - 1]
#define F task[sp - 1]
#define HOW how[sp - 1] /* 1: run_claim; 2: and the task was popped */
/* Whom a frame asks for. */
#define ASKS_OF(t) (t == 1 -> 3 : (t == 2 -> 1 : (t == 3 -> (self_asked -> 1 : 0) : target)))

inline push(t, where, kind) {
    assert(sp < DEPTH);
    task[sp] = t; pc[sp] = where; how[sp] = kind; sp++
}
inline drop_frame() {
    sp--; task[sp] = 0; pc[sp] = 0; how[sp] = 0
}
inline give_back() {
    touch; assert(count > 0);
    count--;
    if
    :: count == 0 -> latch = 1
    :: else
    fi
}
/* A task is taken: run_part of scope.pyx. */
inline take_task(t) {
    queued[t] = 0; touch;
    if
    :: told -> push(t, GIVE, 0)
    :: else -> push(t, TASK, 0)
    fi
}
/* _drop_rest: nobody is at it. */
#define REST_ENDED(t) (ended(t) && (state[t] != CLAIMED || is(drop_waits_for_future)))
/* Some task, if there is one. */
#define ANY_QUEUED (queued[1] || queued[2] || queued[3])
#define TAKE_ONE(t) :: queued[t] -> take_task(t)

proctype Thread(byte me) {
    byte task[DEPTH], pc[DEPTH], how[DEPTH], sp;
    byte target, u;

    if
    :: me == OWNER ->
        atomic {
            if
            :: target = 2
            :: target = 0
            fi;
            push(ROOT, SPAWN, 0)
        }
    :: me >= OUTSIDE ->
        atomic {
            if
            :: target = 1
            :: target = 2
            fi;
            spawned[target]; push(ROOT, ASK, 0)
        }
    :: else -> goto end_idle
    fi;
work:
    do
    /* ---- run_task ---- */
    :: atomic {
            PC == TASK ->
            if
            :: state[F] == WAITS && is(take_torn) -> PC = TAKE
            :: state[F] == WAITS && without(take_torn) -> state[F] = TAKEN; PC = BEGIN
            :: else -> PC = (is(hand_first) -> HAND : (is(no_hand_over) -> CLOSE : UP))
            fi
        }
    :: atomic { PC == TAKE -> state[F] = TAKEN; PC = BEGIN }
    :: atomic { PC == UP -> touch; assert(count > 0); count++; PC = HAND }
    :: atomic {
            PC == HAND ->
            if
            :: state[F] == CLAIMED || is(hand_store) ->
                state[F] = HANDED; PC = (is(hand_first) -> HAND_UP : CLOSE)
            :: else -> PC = (is(hand_first) || is(hand_no_give) -> CLOSE : DOWN)
            fi
        }
    :: atomic { PC == HAND_UP -> touch; assert(count > 0); count++; PC = CLOSE }
    :: atomic { PC == DOWN -> give_back(); assert(!latch); PC = CLOSE }
    :: atomic { PC == CLOSE -> open = open & ~BIT(F); PC = GIVE }
    :: atomic { PC == GIVE -> give_back(); drop_frame(); goto returned }

    /* ---- run ---- */
    :: atomic {
            PC == BEGIN ->
            touch;
            thread[F] = me;
            if
            :: F >= limit ->
                if
                :: future[F] == PENDING && without(drop_ends_nothing) -> future[F] = CANCELLED
                :: else
                fi;
                PC = CALLBACKS
            :: F < limit && future[F] == CANCELLED && without(cancelled_runs) -> PC = CALLBACKS
            :: F < limit && (future[F] != CANCELLED || is(cancelled_runs)) ->
                if
                :: told -> PC = SET /* must_stop: an exception */
                :: true ->
                    assert(!ran[F] && future[F] == PENDING);
                    ran[F] = 1; future[F] = RUNNING;
                    PC = (F == 1 -> SPAWN : ASK)
                fi
            fi
        }
    :: atomic { /* scope.spawn */
            PC == SPAWN ->
            u = (F == ROOT -> (spawned[1] -> 2 : 1) : 3);
            if
            :: count == 0 -> PC = BODY_ENDS /* RuntimeError */
            :: else ->
                touch;
                if
                :: without(spawn_uncounted) -> count++
                :: else
                fi;
                spawned[u] = 1; open = open | BIT(u); queued[u] = me;
                PC = (is(spawn_uncounted) -> COUNT : (u == 1 -> SPAWN : ASK))
            fi;
            u = 0
        }
    :: atomic {
            PC == COUNT ->
            touch; count++;
            PC = (F == ROOT && !spawned[2] -> SPAWN : ASK)
        }

    /* ---- help_with ---- */
    :: atomic {
            PC == ASK ->
            u = ASKS_OF(F);
            if
            :: u == 0 || ended(u) || (u == 3 && !spawned[3]) -> PC = BODY_ENDS
            :: else ->
                if
                :: state[u] == WAITS && is(claim_torn) -> PC = CLAIM
                :: state[u] == WAITS && without(claim_torn) && without(result_waits) ->
                    state[u] = CLAIMED; PC = BODY_ENDS; push(u, BEGIN, 1)
                :: else ->
                    if
                    :: state[u] != WAITS && thread[u] == me && without(waits_for_self) ->
                        assert(self_asked); PC = BODY_ENDS /* RuntimeError */
                    :: else -> PC = WAIT
                    fi
                fi
            fi;
            u = 0
        }
    :: atomic {
            PC == CLAIM ->
            u = ASKS_OF(F); state[u] = CLAIMED; PC = BODY_ENDS; push(u, BEGIN, 1); u = 0
        }
    :: atomic { /* run_claim: it is the newest of its own deque; or not */
            PC == BEGIN && HOW == 1 && queued[F] == me && me < OUTSIDE ->
            queued[F] = 0; HOW = (is(popped_forgotten) -> 1 : 2)
        }
    :: atomic { PC == WAIT && ended(ASKS_OF(F)) -> PC = BODY_ENDS }
    :: atomic {
            is(helps) && PC == WAIT && ANY_QUEUED && me < OUTSIDE ->
            if
            TAKE_ONE(1)
            TAKE_ONE(2)
            TAKE_ONE(3)
            fi
        }

    /* ---- the rest of run ---- */
    :: atomic {
            PC == BODY_ENDS ->
            if
            :: F == ROOT && me == OWNER -> PC = END
            :: F == ROOT && me != OWNER -> assert(ended(target)); break
            :: F != ROOT && may_fail -> /* _fail */
                limit = (F < limit -> F : limit); PC = SET
            :: F != ROOT -> PC = SET
            fi
        }
    :: atomic {
            PC == SET ->
            if
            :: ended(F) && future[F] != CANCELLED -> assert(false)
            :: future[F] == CANCELLED -> skip
            :: else -> future[F] = FINISHED
            fi;
            PC = CALLBACKS
        }
    :: atomic { /* which may ask whether they must stop */
            PC == CALLBACKS ->
            touch;
            if
            :: HOW -> PC = (is(claim_done_torn) && state[F] != HANDED -> DONE_STORE : DONE)
            :: else -> PC = CLOSE
            fi
        }

    /* ---- the rest of run_claim ---- */
    :: atomic { PC == DONE_STORE -> state[F] = CLAIM_DONE; PC = CLAIM_ENDS }
    :: atomic {
            PC == DONE ->
            PC = (state[F] == HANDED -> GIVE_HANDED : CLAIM_ENDS);
            state[F] = CLAIM_DONE
        }
    :: atomic { PC == GIVE_HANDED -> give_back(); PC = CLAIM_ENDS }
    :: atomic {
            PC == CLAIM_ENDS ->
            if
            :: HOW == 2 -> u = F; drop_frame(); take_task(u); u = 0
            :: else -> drop_frame(); goto returned
            fi
        }

    /* ---- scope._end, scope_end ---- */
    :: atomic { PC == END -> give_back(); PC = HELP }
    :: atomic {
            PC == HELP && (latch || ANY_QUEUED || may_stop || is(end_no_wait)) ->
            if
            :: latch -> PC = (told && without(no_drop_rest) -> REST : 0)
            :: !latch && is(end_no_wait) && !ANY_QUEUED -> PC = 0
            :: may_stop && !told && !latch -> told = 1
            TAKE_ONE(1)
            TAKE_ONE(2)
            TAKE_ONE(3)
            fi
        }
    /* ---- _drop_rest ---- */
    :: atomic {
            PC == REST ->
            limit = 0;
            u = 1;
            do
            :: u <= TASKS && (open & BIT(u)) && state[u] == WAITS ->
                state[u] = TAKEN;
                if
                :: future[u] == PENDING -> future[u] = CANCELLED
                :: else
                fi;
                open = open & ~BIT(u); u++
            :: u <= TASKS && !((open & BIT(u)) && state[u] == WAITS) -> u++
            :: else -> u = 0; break
            od;
            PC = REST_WAIT
        }
    :: atomic { /* all at once: none of them needs another's wait */
            PC == REST_WAIT &&
            (is(drop_no_wait) ||
             ((!(open & BIT(1)) || REST_ENDED(1)) && (!(open & BIT(2)) || REST_ENDED(2)) &&
              (!(open & BIT(3)) || REST_ENDED(3)))) ->
            PC = 0
        }
    :: atomic { me == OWNER && sp && PC == 0 -> over = 1; break }
    od;
    goto left;
returned:
    if
    :: atomic { sp -> goto work }
    :: atomic { sp == 0 -> goto end_idle }
    fi;
end_idle: /* worker_main; a valid end */
    atomic {
        ANY_QUEUED ->
        if
        TAKE_ONE(1)
        TAKE_ONE(2)
        TAKE_ONE(3)
        fi;
        goto work
    };
left:
    atomic {
        finished++;
        sp = 0; task[0] = 0; pc[0] = 0; how[0] = 0; target = 0
    }
}

#if CANCEL
proctype Cancel() {
    atomic {
        spawned[1];
        if
        :: future[1] == PENDING -> future[1] = CANCELLED
        :: true
        fi
    }
}
#endif

init {
    byte i;
    atomic {
        i = 1;
        do
        :: i < OUTSIDE + ASKERS -> run Thread(i); i++
        :: else -> i = 1; break
        od;
#if CANCEL
        run Cancel()
#endif
    };
    atomic {
        finished == 1 + ASKERS;
        assert(over && count == 0);
        do
        :: i <= TASKS ->
            assert(!queued[i]);
            if
            :: spawned[i] -> assert(ended(i) && (ran[i] || future[i] != FINISHED || told))
            :: else
            fi;
            if
            :: !told && limit == T && future[i] != CANCELLED && spawned[i] -> assert(ran[i])
            :: else
            fi;
            i++
        :: else -> i = 0; break
        od
    }
}
