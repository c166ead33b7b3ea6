/* The life of threads and pools: pyblitz/runtime/pool.pyx (add_user to pool_post, users_gone,
 * pool_join, start_thread, worker_main, run_orphans), sleep.pyx (wake_sleeper, post_bound,
 * return_mail, retire), lane.pyx (lane_submit), host/pools.pyx (borrow, make_global, replace_global,
 * reap, set_num_threads, _end_pools, ThreadPool.close).  Checked with Spin: see run.py.
 *
 * What it proves, within the bounds, by visiting every state:
 *
 * - Every accepted job runs exactly once, and before its pool is `quiet`: so before close, or the
 *   end of Python, returns.
 * - Nobody is, or becomes, a user of a pool that is quiet.
 * - Nobody touches a pool that was freed.
 * - Every thread that was created is joined, once, before its pool is freed and before the exit
 *   returns, and before the next thread of its worker is created.
 * - Nobody gets stuck.  With all threads refused, injected jobs run in their callers.
 *
 * Two scenarios.  A ThreadPool: callers that hold a reference, and a thread that closes it at any
 * time, and frees it after the last of them.  With GLOBAL the global pool, NULL at first: callers
 * that borrow it; RESIZERS, each of which replaces it once, from outside or, INSIDE, as a user;
 * and the exit, at any time: the callers are daemon threads, and may come after it.
 *
 * Callers, of one operation each: INJECTORS (ThreadPool.submit; in GLOBAL submit_abi1), GUESTS (enter,
 * wake somebody, leave), KEYED (lane_submit, to an idle lane of its own that belongs to worker 0),
 * MAILERS (broadcast).  WORKERS background workers a pool.  The system may REFUSE a thread (1), or
 * refuses all (2).  With RETIRE an idle thread may retire at any time.  With LOCALS the end of a
 * thread calls num_threads, as a destructor of something thread-local may.
 *
 * Memory is sequentially consistent, and a step is one access to it.  The sleep protocol is
 * proved in sleep.pml: here an idle worker looks at its boxes, the inbox and `terminate` and
 * becomes claimable in one step, and waits until it is AWAKE; there are no tokens and no JEC.
 * Boxes and the inbox are sets, and taking one job is one step (injector.pxd).
 *
 * What it does not cover: memory orders; forks and tasks; lanes of more than one job; fork of the
 * process; lack of memory; guests' blocks, and pools of one thread (here.pml); threads that are
 * tried again (sleep.pml); signals; a ThreadPool that is dropped by its
 * own job; destructors that do more.
 *
 * A mutation, -DMUTATION=name, is what must not be left out or turned round: Spin finds each of
 * them, in the scenario that is named behind it (P: a ThreadPool, G: GLOBAL), but those under
 * HARMLESS. */

#define no_entering 1         /* G: reap does not look at `entering` */
#define borrow_uncounted 2    /* G: borrow does not count itself in `entering` */
#define borrow_uncounts 3     /* G: borrow takes its count back before add_user */
#define reap_frees_exit 4     /* G: the exit frees the pools, too */
#define reap_waits 5          /* G, INSIDE: reap does not look at `users`, and waits */
#define make_global_store 6   /* G: make_global stores, without compare-and-swap */
#define no_closed_check 7     /* P, G: add_user does not look at POOL_CLOSED */
#define no_share_inside 8     /* P, 2 workers: pool_post takes no second share */
#define lane_no_share 9       /* P, KEYED: a lane holds no user */
#define gone_early 10         /* P: users_gone is called although there are users */
#define gone_never 11         /* P: users_gone is never called */
#define gone_retire_only 12   /* P: the last user does not call users_gone */
#define gone_no_wake 13       /* P: users_gone wakes nobody */
#define quiet_first 14        /* G: users_gone sets `quiet` before `terminate` */
#define join_not_quiet 15     /* P: pool_join does not wait for `quiet` */
#define no_end 16             /* P: a worker does not look at `terminate` */
#define refused_inactive 17   /* P, REFUSE, 2 workers: a refused one stays counted as inactive */
#define refused_not_dead 18   /* P, REFUSE: `dead` is not counted */
#define refused_no_look 19    /* P, REFUSE, 2 workers: no look at the inbox after a refusal */
#define refused_no_mail 20    /* P, REFUSE, MAILERS: whoever is refused does not return the mail */
#define poster_no_mail 21     /* P, REFUSE, MAILERS: ... nor does the poster that sees DEAD */
#define no_orphans 22         /* P, REFUSE: run_orphans does nothing */
#define dead_before_push 23   /* P, REFUSE: pool_post loads `dead` before the push */
#define restart_no_join 24    /* P, RETIRE: start_thread does not join the retired thread */
#define retire_no_look 25     /* P, RETIRE: no last look */
#define retire_late 26        /* P, RETIRE: ASLEEP is stored before thread = RETIRED */
#define retire_uncounted 27   /* P, RETIRE: a worker that retires counts itself as awake */
#define retired_not_joined 28 /* P, RETIRE: pool_join passes over retired threads */
/* As the code was at 34e86d4; the exit was corrected since (but for exit_late without a GIL).  One
 * who counts itself and then finds the pool closed may be the last again, call users_gone a second
 * time and be done with it before the first is. */
#define refused_counts 30 /* P, RETIRE; G, 2 GUESTS: add_user counts, and then looks */
#define lane_forgets 31   /* P, REFUSE, MAILERS, KEYED: lane_submit runs no orphans */
#define exit_late 32      /* G: make_global looks at `exiting` and then lets others have the GIL */
#define exit_locked 33    /* G, INSIDE or LOCALS: the exit joins while it holds the lock */
#define reap_locked 34    /* G, LOCALS: set_num_threads joins while it holds the lock */
/* HARMLESS: without users there are no jobs; a retiring thread ends anyway; a closed pool gets no
 * users, and who may still try is counted as entering; borrow tries again. */
#define end_at_once 40      /* a worker that sees `terminate` looks for no work before */
#define retire_no_end 41    /* the last look of a worker that retires leaves `terminate` out */
#define reap_users_first 42 /* reap looks at `users` before `entering` */
#define retire_first 43     /* replace_global retires the old pool before the exchange */

#ifdef MUTATION
#if MUTATION == 0
#error "no such mutation"
#endif
#else
#define MUTATION 0
#endif
#define without(x) (MUTATION != x)

#ifndef GLOBAL
#define GLOBAL 0
#endif
#ifndef WORKERS
#define WORKERS 1
#endif
#ifndef INJECTORS
#define INJECTORS 0
#endif
#ifndef GUESTS
#define GUESTS 0
#endif
#ifndef KEYED
#define KEYED 0
#endif
#ifndef MAILERS
#define MAILERS 0
#endif
#ifndef REFUSE
#define REFUSE 0
#endif
#ifndef RETIRE
#define RETIRE 0
#endif
#ifndef RESIZERS
#define RESIZERS 0
#endif
#ifndef INSIDE
#define INSIDE 0
#endif
#ifndef LOCALS
#define LOCALS 0
#endif

#define CALLERS (INJECTORS + GUESTS + KEYED + MAILERS)
#define JOBS (INJECTORS + KEYED)
#if GLOBAL
/* The first, each resizer's, the one after the exit. */
#if MUTATION == make_global_store
#define POOLS (RESIZERS + 5)
#else
#define POOLS (RESIZERS + 2)
#endif
#define OTHERS (RESIZERS + 1)
#else
#define POOLS 1
#define OTHERS 0 /* it waits for the callers to have finished */
#endif

#define NULL 15
#define CLOSED 128
#define W (p * WORKERS + i)
#define BIT(x) (1 << (x))
#define MAIL 16 /* added to a mailer's number, in a worker's hand */

mtype = { AWAKE, ASLEEP, CLAIMED, DEAD };  /* Sleeper.asleep */
mtype = { NONE, RUNS, RETIRED };           /* Sleeper.thread */
mtype = { UNSET, SLEEPING, SET };          /* Sleeper.terminate; SLEEPY is in sleep.pml */

/* Pool. */
byte users[POOLS];
bit quiet[POOLS], freed[POOLS], alone[POOLS]; /* alone: n_background is 0 */
byte sleeping[POOLS] = WORKERS, inactive[POOLS] = WORKERS, dead[POOLS];
byte inbox[POOLS];
/* Sleeper, Worker. */
mtype asleep[POOLS * WORKERS] = ASLEEP;
mtype thread[POOLS * WORKERS] = NONE;
mtype terminate[POOLS * WORKERS] = UNSET;
byte bound[POOLS * WORKERS], mailbox[POOLS * WORKERS];
bit joinable[POOLS * WORKERS];
bit alive[POOLS * WORKERS]; /* the thread has not ended */
/* host/pools.pyx. */
byte global_pool = NULL;
byte entering, made, retired;
bit lock, reaping, exiting;
/* What the properties speak of. */
byte ran, exited, finished;
byte accepted[POOLS];
byte mails[MAILERS + 1]; /* a broadcast's scope: jobs not yet done */

/* An access to pool p's memory. */
#define touch assert(!freed[p])
/* By one of its users. */
#define inside assert(!freed[p] && !quiet[p])

#define keeps_lock ((MUTATION == exit_locked && role == EXIT) || \
                    (MUTATION == reap_locked && role == RESIZER))
#define to_join (joinable[W] && !(MUTATION == retired_not_joined && thread[W] == RETIRED))
#define all_dead (dead[p] == WORKERS && !alone[p])

/* Subroutines: the return label and what the caller still needs go onto a stack. */
#define DEPTH 10
#define CALL(routine, label) \
    rs[sp] = label; ri[sp] = i; rm[sp] = m; m = 0; sp++; goto routine
#define RETURN goto back

inline execute_job(x) {
    assert(!(ran & BIT(x)) && !quiet[p] && (accepted[p] & BIT(x)));
    ran = ran | BIT(x)
}

/* The lowest job of a set, into j. */
inline take(set) {
    j = 0;
    do
    :: !(set & BIT(j)) -> j++
    :: else -> set = set & ~BIT(j); break
    od
}

mtype = { WORKER, INJECTOR, A_GUEST, A_KEYED, MAILER, CLOSER, RESIZER, EXIT };

/* `me`: the worker's number, or the caller's, which is also its job's. */
proctype Thread(mtype role; byte me) {
    byte p, i, j, m, sp, mine;
    bit ok, no, more, missing, last, others; /* no: a thread was refused */
    byte old;
    byte rs[DEPTH], ri[DEPTH], rm[DEPTH];

    if
    :: role == WORKER -> p = me / WORKERS; i = me % WORKERS; goto end_place
    :: role == CLOSER -> goto close
    :: role == RESIZER -> goto resize
    :: role == EXIT -> goto at_exit
    :: else -> goto call
    fi;

    /* ---- a background worker: worker_main ---- */

end_place: /* a valid end: its thread was never started, or has ended */
    atomic { alive[me]; touch };
search: /* find_work */
    atomic {
        touch; more = 0; i = me % WORKERS;
        if
        :: without(end_at_once) || terminate[W] != SET ->
            if
            :: mailbox[W] -> take(mailbox[W]); mine = MAIL + j; goto found
            :: bound[W] -> take(bound[W]); mine = j; goto found
            :: inbox[p] -> take(inbox[p]); mine = j; more = inbox[p] != 0; goto found
            :: !mailbox[W] && !bound[W] && !inbox[p] -> j = 0
            fi
        :: else
        fi
    };
    atomic { /* latch_is_set(terminate) */
        touch;
        if
        :: terminate[W] == SET && without(no_end) -> inactive[p]--; goto stop
        :: else
        fi
    };
    atomic { /* no_work_found, fall_asleep */
        touch;
        if
        :: mailbox[W] || bound[W] || inbox[p] || (terminate[W] == SET && without(no_end)) ->
            goto search
        :: else ->
            if
            :: terminate[W] == UNSET -> terminate[W] = SLEEPING
            :: else
            fi;
            asleep[W] = ASLEEP; sleeping[p]++
        fi
    };
asleep_: /* park */
    atomic {
        if
        :: asleep[W] == AWAKE ->
            touch;
            if
            :: terminate[W] == SLEEPING -> terminate[W] = UNSET /* latch_wake_up */
            :: else
            fi;
            goto search
        :: RETIRE && asleep[W] == ASLEEP -> /* timed out; claims itself, stays counted */
            touch; asleep[W] = AWAKE
        fi
    };
    atomic {
        touch;
        if
        :: terminate[W] == SLEEPING -> terminate[W] = UNSET
        :: else
        fi;
        if
        :: MUTATION == retire_uncounted -> sleeping[p]--
        :: else
        fi
    };
    if
    :: MUTATION == retire_late -> atomic { touch; asleep[W] = ASLEEP }
    :: else
    fi;
    atomic { touch; thread[W] = RETIRED };
    if
    :: without(retire_late) -> atomic { touch; asleep[W] = ASLEEP }
    :: else
    fi;
    /* must_look_again */
    if
    :: without(retire_no_look) ->
        if
        :: atomic { inbox[p] -> touch; goto un_retire }
        :: atomic { !inbox[p] -> touch }
        fi;
        if
        :: atomic { mailbox[W] || bound[W] -> touch; goto un_retire }
        :: atomic { !mailbox[W] && !bound[W] -> touch }
        fi;
        if
        :: atomic { terminate[W] == SET && without(retire_no_end) -> touch; goto un_retire }
        :: atomic { terminate[W] != SET || !without(retire_no_end) -> touch }
        fi
    :: else
    fi;
    goto ended;
stop: /* stop_thread, where the destructor of a thread-local calls num_threads */
    atomic { lock == 0 || !LOCALS };
ended:
    atomic { alive[me] = 0; goto end_place };
un_retire:
    atomic {
        touch;
        if
        :: asleep[W] == ASLEEP -> asleep[W] = AWAKE
        :: else -> goto ended
        fi
    };
    atomic { touch; thread[W] = RUNS };
    atomic { touch; assert(sleeping[p] > 0); sleeping[p]--; goto search };

found: /* work_found */
    atomic {
        inside;
        last = inactive[p] - 1 == sleeping[p];
        others = sleeping[p] > 0;
        inactive[p]--;
        if
        :: others && more -> more = 0; last = 0; others = 0; CALL(wake_any, 1)
        :: others && last && !more -> last = 0; others = 0
        :: else -> more = 0; last = 0; others = 0; goto execute
        fi
    };
    atomic {
        inside;
        if
        :: inbox[p] -> CALL(wake_any, 1)
        :: else -> goto execute
        fi
    };
execute:
    atomic {
        inside;
        if
        :: mine < MAIL -> execute_job(mine); mine = 0; j = 0; CALL(job_done, 2)
        :: else -> mails[mine - MAIL]--; mine = 0; j = 0 /* its share of the broadcast's scope */
        fi
    };
again:
    atomic { /* find_work once more; else start_looking */
        touch; i = me % WORKERS;
        if
        :: mailbox[W] -> take(mailbox[W]); mine = MAIL + j; j = 0; goto execute
        :: bound[W] -> take(bound[W]); mine = j; j = 0; goto execute
        :: inbox[p] -> take(inbox[p]); mine = j; j = 0; goto execute
        :: !mailbox[W] && !bound[W] && !inbox[p] -> inactive[p]++; goto search
        fi
    };

    /* ---- callers ---- */

call:
#if GLOBAL
borrow:
    if
    :: without(borrow_uncounted) -> entering++
    :: else
    fi;
    atomic { p = global_pool; missing = p == NULL };
    if
    :: MUTATION == borrow_uncounts -> entering--
    :: else
    fi;
    if
    :: !missing -> CALL(add_user, 3)
    :: else -> ok = 0
    fi;
borrowed:
    if
    :: without(borrow_uncounted) && without(borrow_uncounts) -> entering--
    :: else
    fi;
    if
    :: ok -> goto admitted
    :: !ok && !missing -> goto borrow
    :: !ok && missing -> skip
    fi;
    /* make_global: the file that default_num_threads reads lets others have the GIL. */
    missing = exiting;
    atomic {
        if
        :: global_pool == NULL || MUTATION == make_global_store ->
            alone[made] = missing || (without(exit_late) && exiting);
            global_pool = made; made++
        :: else
        fi;
        missing = 0; p = 0;
        goto borrow
    };
#else
    CALL(add_user, 3);
borrowed:
    if
    :: ok -> goto admitted
    :: else -> goto done /* "this ThreadPool is closed" */
    fi;
#endif
admitted:
    atomic {
        inside;
        if
        :: role == A_GUEST -> goto guest
#if GLOBAL
        :: role == RESIZER -> old = p; goto resizing
#endif
        :: role == MAILER -> goto mailer
        :: role == A_KEYED -> accepted[p] = accepted[p] | BIT(me); goto keyed
        :: role == INJECTOR ->
#if GLOBAL
            goto submit
#else
            accepted[p] = accepted[p] | BIT(me); j = me; CALL(pool_post, 4)
#endif
        fi
    };
guest: /* it shares a fork: post_internal */
    atomic {
        inside;
        if
        :: sleeping[p] > 0 && inactive[p] == sleeping[p] -> CALL(wake_any, 5)
        :: else -> goto leave_
        fi
    };
leave_:
    CALL(leave, 4);
#if GLOBAL
submit: /* submit_abi1, as a guest: share_inside, and pool_post or pool_run_here */
    atomic {
        inside; accepted[p] = accepted[p] | BIT(me);
        if
        :: alone[p] -> execute_job(me); goto leave_
        :: else -> users[p]++; j = me; CALL(pool_post, 5)
        fi
    };
#endif
keyed: /* lane_submit: share_inside, lane_schedule */
    atomic {
        inside;
        if
        :: without(lane_no_share) -> users[p]++
        :: else
        fi;
        if
        :: alone[p] -> execute_job(me); users[p]--; CALL(job_done, 4) /* pool_run_here */
        :: else
        fi
    };
    atomic {
        inside; i = 0;
        if
        :: asleep[W] == DEAD -> j = me; CALL(pool_post, 7)
        :: else
        fi
    };
    atomic {
        inside;
        if
        :: bound[W] -> bound[W] = bound[W] | BIT(me); goto scheduled
        :: else -> bound[W] = BIT(me); CALL(post_bound, 7)
        fi
    };
scheduled: /* its owner may have been the last to be refused, and its lane be in the inbox */
    if
    :: without(lane_forgets) -> CALL(leave, 4) /* a guest at once, as in pool_post */
    :: else -> CALL(job_done, 4)
    fi;
mailer: /* broadcast */
    atomic {
        inside; i = 0;
        if
        :: alone[p] -> goto leave_
        :: else
        fi
    };
mail_next:
    atomic {
        inside; mails[me - JOBS]++;
        if
        :: mailbox[W] -> mailbox[W] = mailbox[W] | BIT(me - JOBS); goto mailed
        :: else -> mailbox[W] = BIT(me - JOBS); CALL(post_bound, 8)
        fi
    };
mailed:
    atomic {
        i++;
        if
        :: i < WORKERS -> goto mail_next
        :: else -> i = 0
        fi
    };
    atomic { mails[me - JOBS] == 0 -> inside; goto leave_ }; /* scope_end */

    /* ---- the end of a ThreadPool, replacing, the exit ---- */

close:
    atomic {
        touch;
        users[p] = users[p] | CLOSED;
        if
        :: (users[p] == CLOSED && without(gone_never)) || MUTATION == gone_early ->
            CALL(users_gone, 9)
        :: else
        fi
    };
closing:
    CALL(pool_join, 10);
closed_:
    atomic { assert(!(accepted[p] & ~ran)); finished == CALLERS }; /* the last reference */
    atomic { goto free_ };

#if GLOBAL
resize:
    if
    :: INSIDE -> goto call
    :: else
    fi;
resizing:
    atomic { lock == 0 -> lock = 1 };
    if
    :: exiting -> goto unlock /* RuntimeError */
    :: else
    fi;
    atomic { mine = made; made++ };
    if
    :: MUTATION == retire_first && global_pool != NULL ->
        atomic {
            p = global_pool; touch;
            users[p] = users[p] | CLOSED; others = users[p] == CLOSED
        };
        if
        :: others -> others = 0; CALL(users_gone, 11)
        :: else
        fi
    :: else
    fi;
replace:
    atomic { p = global_pool; global_pool = mine; mine = 0 };
    goto retire;
at_exit:
    exiting = 1;
    atomic { lock == 0 -> lock = 1 };
    atomic { p = global_pool; global_pool = NULL };
retire: /* replace_global: pool_retire */
    if
    :: p == NULL -> goto reap
    :: else -> atomic { retired = retired | BIT(p) }
    fi;
    atomic {
        touch;
        if
        :: users[p] == 0 -> users[p] = CLOSED; CALL(users_gone, 12)
        :: else -> users[p] = users[p] | CLOSED
        fi
    };
reap: /* by one at a time; the exit waits for its turn */
    atomic {
        p = 0;
        if
        :: keeps_lock -> goto reap_next
        :: else -> lock = 0
        fi
    };
    atomic {
        if
        :: !reaping -> reaping = 1
        :: reaping && role == RESIZER -> goto reaped_all
        fi
    };
reap_next:
    if
    :: p == POOLS -> goto reaped_some
    :: p < POOLS && !(retired & BIT(p)) -> p++; goto reap_next
    :: p < POOLS && (retired & BIT(p)) -> skip
    fi;
    if
    :: role == EXIT -> goto reap_it
    :: else
    fi;
    if
    :: MUTATION == reap_users_first -> goto reap_users
    :: else
    fi;
reap_entering:
    if
    :: entering != 0 && without(no_entering) -> p++; goto reap_next
    :: else
    fi;
    if
    :: MUTATION == reap_users_first -> goto reap_it
    :: else
    fi;
reap_users:
    atomic {
        touch;
        if
        :: users[p] != CLOSED && without(reap_waits) -> p++; goto reap_next
        :: else
        fi
    };
    if
    :: MUTATION == reap_users_first -> goto reap_entering
    :: else
    fi;
reap_it:
    atomic { retired = retired & ~BIT(p); CALL(pool_join, 13) };
reaped:
    atomic {
        assert(!(accepted[p] & ~ran));
        if
        :: role == EXIT && without(reap_frees_exit) -> p++; goto reap_next
        :: else -> goto free_
        fi
    };
reaped_some:
    atomic {
        reaping = 0; p = 0;
        if
        :: keeps_lock -> goto unlock
        :: else -> goto reaped_all
        fi
    };
unlock:
    lock = 0;
reaped_all:
    atomic {
        p = 0;
        if
        :: role == EXIT -> exited = 1; goto all_joined
        :: INSIDE && role == RESIZER -> p = old; old = 0; goto leave_
        :: else -> goto done
        fi
    };
all_joined:
    atomic {
        do
        :: i < POOLS * WORKERS -> assert(!alive[i] && !joinable[i]); i++
        :: else -> i = 0; break
        od;
        goto done
    };
#else
resize: at_exit:
    skip;
#endif

free_: /* pool_free */
    atomic {
        touch; freed[p] = 1; i = 0;
        do
        :: i < WORKERS -> assert(!alive[W] && !joinable[W]); i++
        :: else -> i = 0; break
        od;
#if GLOBAL
        p++; goto reap_next
#else
        goto over
#endif
    };

    /* ---- pool.pyx ---- */

add_user:
    atomic {
        touch;
        ok = !(users[p] & CLOSED) || MUTATION == no_closed_check;
        if
        :: ok -> assert(!quiet[p]); users[p]++; RETURN
        :: !ok && without(refused_counts) -> RETURN
        :: !ok && !without(refused_counts) -> users[p]++; goto job_done
        fi
    };
job_done: /* fetch_sub; keeps ok */
    atomic {
        touch;
        users[p]--;
        if
        :: (users[p] == CLOSED && without(gone_never) && without(gone_retire_only)) ||
           ((users[p] & CLOSED) && MUTATION == gone_early) -> goto users_gone
        :: else -> RETURN
        fi
    };
users_gone:
    atomic {
        touch; i = 0;
        if
        :: MUTATION == quiet_first -> quiet[p] = 1
        :: else
        fi
    };
users_gone_next:
    atomic {
        touch;
        if
        :: i == WORKERS || alone[p] -> i = 0; quiet[p] = 1; RETURN
        :: i < WORKERS && !alone[p] && terminate[W] == SLEEPING ->
            terminate[W] = SET;
            if
            :: without(gone_no_wake) -> m = ok; CALL(wake_sleeper, 14)
            :: else -> i++
            fi
        :: i < WORKERS && !alone[p] && terminate[W] != SLEEPING -> terminate[W] = SET; i++
        fi;
        goto users_gone_next
    };
users_gone_woken:
    atomic { no = 0; ok = m; m = 0; i++; goto users_gone_next }; /* nobody posted anything */

pool_join: /* quiet, then the threads */
    atomic { quiet[p] || MUTATION == join_not_quiet; touch; i = 0 };
pool_join_next:
    atomic {
        if
        :: i == WORKERS || alone[p] -> i = 0; RETURN
        :: i < WORKERS && !alone[p] && to_join && !alive[W] -> touch; joinable[W] = 0; i++
        :: i < WORKERS && !alone[p] && !to_join -> touch; i++
        fi;
        goto pool_join_next
    };

leave: /* pool_leave: run_orphans, job_done */
    atomic {
        inside;
        if
        :: all_dead && without(no_orphans) -> goto orphans
        :: else -> goto job_done
        fi
    };
orphans:
    atomic {
        inside;
        if
        :: inbox[p] -> take(inbox[p]); execute_job(j); j = 0; CALL(job_done, 15)
        :: else -> goto job_done
        fi
    };

pool_post: /* of job j */
    atomic {
        inside;
        if
        :: without(no_share_inside) -> users[p]++
        :: else
        fi
    };
    if
    :: MUTATION == dead_before_push -> atomic { touch; m = all_dead }
    :: else
    fi;
    atomic { touch; inbox[p] = inbox[p] | BIT(j); j = 0 };
    atomic { /* post_injected: the word */
        touch;
        if
        :: sleeping[p] > 0 && inactive[p] == sleeping[p] -> CALL(wake_any, 16)
        :: else
        fi
    };
pool_posted:
    atomic {
        touch;
        if
        :: (all_dead && without(dead_before_push)) || (MUTATION == dead_before_push && m) ->
            m = 0;
            if
            :: without(no_share_inside) -> goto leave
            :: else -> goto orphans
            fi
        :: else ->
            m = 0;
            if
            :: without(no_share_inside) -> goto job_done
            :: else -> RETURN
            fi
        fi
    };

    /* ---- sleep.pyx ---- */

wake_any: /* beginning with any: the hint */
    if
    :: i = 0
    :: WORKERS > 1 -> i = 1
    :: WORKERS > 2 -> i = 2
    fi;
wake_any_next: /* m: how many were tried */
    if
    :: alone[p] || m == WORKERS && !no -> ok = 0; RETURN
    :: atomic {
            !alone[p] && m == WORKERS && no ->
            touch; no = 0; m = 0;
            if
            :: inbox[p] && without(refused_no_look) -> goto wake_any_next
            :: else -> ok = 0; RETURN
            fi
        }
    :: !alone[p] && m < WORKERS -> CALL(wake_sleeper, 17)
    fi;
wake_any_tried:
    atomic {
        if
        :: ok -> no = 0; RETURN
        :: else -> m++; i = (i + 1) % WORKERS; goto wake_any_next
        fi
    };

wake_sleeper: /* sleeper i; ok: whether it woke */
    atomic {
        touch;
        if
        :: asleep[W] == ASLEEP -> asleep[W] = CLAIMED
        :: else -> ok = 0; RETURN
        fi
    };
    atomic { touch; assert(sleeping[p] > 0); sleeping[p]-- };
    atomic {
        touch;
        asleep[W] = AWAKE;
        if
        :: thread[W] == RUNS -> ok = 1; RETURN /* unpark */
        :: thread[W] == RETIRED && without(restart_no_join) ->
            assert(joinable[W]); goto join_retired
        :: else -> goto start
        fi
    };
join_retired: /* start_thread: "this does not wait for anything" */
    atomic { !alive[W] -> touch; joinable[W] = 0 };
start:
    atomic {
        touch;
        if
        :: REFUSE < 2 ->
            assert(!joinable[W] && !exited);
            thread[W] = RUNS; joinable[W] = 1; alive[W] = 1;
            ok = 1; RETURN
        :: REFUSE -> thread[W] = NONE
        fi
    };
    atomic {
        touch;
        if
        :: without(refused_inactive) -> inactive[p]--
        :: else
        fi
    };
    atomic { touch; asleep[W] = DEAD };
    atomic {
        touch;
        if
        :: without(refused_not_dead) -> dead[p]++
        :: else
        fi;
        if
        :: without(refused_no_mail) -> CALL(return_mail, 18)
        :: else
        fi
    };
refused:
    atomic { ok = 0; no = 1; RETURN };

wake_for_returned:
    atomic {
        touch; no = 0;
        if
        :: inbox[p] && without(refused_no_look) -> goto wake_any
        :: else -> ok = 0; RETURN
        fi
    };

post_bound: /* of sleeper i; with it post_mail, whose token nobody here waits for */
    CALL(wake_sleeper, 20);
post_bound_tried:
    atomic {
        touch;
        if
        :: no -> goto wake_for_returned
        :: !no && !ok && asleep[W] == DEAD && without(poster_no_mail) -> CALL(return_mail, 19)
        :: else -> RETURN
        fi
    };

return_mail: /* take both, run each without a worker */
    atomic {
        touch; m = mailbox[W]; mailbox[W] = 0;
        j = 0;
        do
        :: m & BIT(j) -> mails[j]--; m = m & ~BIT(j)
        :: !(m & BIT(j)) && m -> j++
        :: !m -> j = 0; break
        od
    };
    atomic { touch; m = bound[W]; bound[W] = 0 };
return_next: /* run_lane: into the inbox, where our caller looks afterwards */
    atomic {
        if
        :: m -> touch; take(m); inbox[p] = inbox[p] | BIT(j); j = 0; goto return_next
        :: else -> RETURN
        fi
    };

    /* ---- returning ---- */
back:
    atomic {
        sp--; i = ri[sp]; m = rm[sp]; ri[sp] = 0; rm[sp] = 0;
        j = rs[sp]; rs[sp] = 0;
        if
        :: j == 1 -> j = 0; goto execute
        :: j == 2 -> j = 0; goto again
        :: j == 3 -> j = 0; goto borrowed
        :: j == 4 -> j = 0; goto done
        :: j == 5 -> j = 0; goto leave_
#if GLOBAL
        :: j == 11 -> j = 0; goto replace
        :: j == 12 -> j = 0; goto reap
        :: j == 13 -> j = 0; goto reaped
#endif
        :: j == 7 -> j = 0; goto scheduled
        :: j == 8 -> j = 0; goto mailed
        :: j == 9 -> j = 0; goto closing
        :: j == 10 -> j = 0; goto closed_
        :: j == 14 -> j = 0; goto users_gone_woken
        :: j == 15 -> j = 0; goto orphans
        :: j == 16 -> j = 0; goto pool_posted
        :: j == 17 -> j = 0; goto wake_any_tried
        :: j == 18 -> j = 0; goto refused
        :: j == 19 -> j = 0; goto wake_for_returned
        :: j == 20 -> j = 0; goto post_bound_tried
        fi
    };
done:
    finished++;
over:
    skip
}

init {
    byte n, p, i;
    atomic {
        do
        :: n < POOLS * WORKERS -> run Thread(WORKER, n); n++
        :: else -> n = 0; break
        od;
        do
        :: n < INJECTORS -> run Thread(INJECTOR, n); n++
        :: n >= INJECTORS && n < JOBS -> run Thread(A_KEYED, n); n++
        :: n >= JOBS && n < JOBS + MAILERS -> run Thread(MAILER, n); n++
        :: n >= JOBS + MAILERS && n < CALLERS -> run Thread(A_GUEST, n); n++
        :: else -> n = 0; break
        od;
#if GLOBAL
        do
        :: n < RESIZERS -> run Thread(RESIZER, n); n++
        :: else -> n = 0; break
        od;
        run Thread(EXIT, 0)
#else
        run Thread(CLOSER, 0)
#endif
    };
    atomic {
        finished == CALLERS + OTHERS -> skip;
#if GLOBAL
        do
        :: p < POOLS -> 
            assert(!(accepted[p] & ~ran));
            do
            :: i < WORKERS -> assert(!alive[W] && !joinable[W]); i++
            :: else -> i = 0; break
            od;
            p++
        :: else -> p = 0; break
        od
#endif
    }
}
