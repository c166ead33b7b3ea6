/* The sleep protocol: when an idle worker sleeps, and whom a poster wakes; pyblitz/runtime/
 * sleep.pyx, counters.pxd, latch.pxd, the inbox of injector.pxd, and of pool.pyx worker_main,
 * find_work, work_found, pool_post and users_gone.  Checked with Spin: see run.py.
 *
 * Threads outside post jobs while workers, whose threads start at their first wake, search, run
 * jobs, get sleepy and sleep.  A job ends at once or waits until all jobs have begun; at most
 * THREADS - 1 jobs wait, so one thread is left for the others.
 *
 * What it proves, within the bounds, by visiting every state:
 *
 * - Every job and every mail begins, exactly once (README 7.2 to 7.4), even while all workers but
 *   one are in jobs that wait for it: no job stays in the inbox while any worker sleeps and nobody
 *   searches.  A lost wake-up is a deadlock here, and Spin finds all deadlocks.
 * - The same for internal work that its pusher waits for and does not take back, if the push is
 *   seen before what follows it (7.1; it has no fence: see late_push).
 * - A worker blocks only if no Event came between its Announce and its last look at the JEC (7.1).
 * - sleeping <= inactive <= WORKERS; no worker counts twice, or is uncounted twice (7.15).
 * - Who was claimed counts as a searcher before it is up, so that posters wake one at a time.
 * - With END: then every thread ends, and is joined (7.10).
 * - With PLACES: a waker narrows the CPUs (`Sleeper.place`) of a thread that is there and blocked, and
 *   of no other; owner and waker are never at a place together; no job begins before its worker has
 *   its CPUs back (7.18).
 * - With ROLLOVER the JEC has that many values, and all this holds but for what a worker knows of
 *   Events when it blocks (7.5).  Not even internal work is missed: for a JEC to come back somebody
 *   announces after the Event, and then searches once more.
 *
 * Bounds: WORKERS, POSTERS that inject JOBS each, a guest that pushes FORKS on its deque, TASKS
 * that the first injected jobs push on their worker's deque, MAIL for worker 0 from one thread.
 * REFUSED: the threads of the first so many workers do not start.  REVIVES: how often, in all, a
 * thread outside may try such a thread again (the program's clock lets it once a second); whether
 * a thread starts is then open each time.  RETIRE: a worker that sleeps may retire, at any time.
 * The idle rounds are 1.
 *
 * One step is one access to shared memory, as in the program.  Joined with it are registers, what
 * only one thread can access at that time, and a look that only saves the compare-and-swap after
 * it.  A read-modify-write is one step: those of the word succeed, or do nothing, in the end.
 *
 * The memory is sequentially consistent but for what the fences are for.  A push onto the inbox or
 * the mailbox, the store of ASLEEP and a SET for those who only load it go into a buffer of their
 * thread and reach memory at any time (memory, below); nothing but the named fence of README 6 and
 * the thread's own accesses to the same variable wait for that.  In particular the store of ASLEEP
 * may be late for the load of the word, and pushes for the read-modify-write of it, which neither
 * C11 nor x86 allow: so the model asks more of the fences.  Where a fence stands between a
 * read-modify-write and a load, its mutation exchanges them.
 *
 * What it does not cover: any other weak memory, such as loads that see old values; deques and
 * parkers inside, and lanes (post_bound is post_mail without the token); in what order find_work
 * looks (mail comes first or last, the inbox after the deques; others: all), and tasks that it
 * puts away; how a worker waits in a job, but for its mail; users and closing (END comes when all
 * is done); timing, so that whoever can go on does in the end; more than the bounds.
 *
 * A mutation, -DMUTATION=name, is what must not be left out or turned round: Spin finds each of
 * them, but those of NOT NEEDED. */

/* Fences. */
#define no_fence_1 1       /* post_injected: the push may be seen after the posting */
#define no_fence_mail 2    /* post_mail: the push may be seen after the look at `asleep` */
#define no_fence_moved 3   /* post_moved posts before the jobs are in `rest` */
#define no_fence_2 4       /* fall_asleep: ASLEEP may be seen after the last look */
#define no_fence_retire 5  /* retire: the same */
#define no_fence_found 6   /* work_found looks before `inactive - 1` */
#define no_fence_end 7     /* users_gone: SET may be seen after the look at `asleep` */
#define no_fence_refused 8 /* who was refused a thread looks before `inactive - 1` */
#define no_fence_return 9  /* return_mail takes the mail before DEAD is stored */
/* The JEC. */
#define announce_odd 10     /* announce_sleepy makes an even JEC odd, not an odd one even */
#define last_without_jec 11 /* the last look does not compare the JEC */
#define never_jec 12        /* neither the last look nor add_sleeping does */
/* Falling asleep. */
#define last_without_inbox 20 /* the last look leaves out the inbox */
#define last_without_mail 21  /* ... the mailbox */
#define last_without_end 22   /* ... `terminate` */
#define no_wait_claimed 23    /* after its last look the owner goes on while it is CLAIMED */
#define retire_no_look 24     /* retire has no last look */
#define retire_unjoinable 25  /* ... and does not look whether its creator wrote `Worker.thread` */
#define joinable_stays 26     /* who joins a retired thread leaves `joinable`, and starts the next */
/* Waking. */
#define sleeper_uncounts 30 /* `sleeping - 1` is left to the sleeper: costs wakes, loses none */
#define no_pass_on 31       /* work_found does not pass the wake on */
#define no_last_searcher 32 /* ... only if there is more where the job came from */
#define no_post_moved 33    /* who moved jobs inside the inbox does not post */
#define mail_no_claim 34    /* post_mail leaves a token, but claims nobody */
#define mail_no_token 35    /* post_mail leaves no token */
#define end_no_duty 36      /* users_gone ignores that `terminate` was SLEEPING */
/* A thread that is refused. */
#define refused_no_look 40   /* its claimer does not look at the inbox */
#define refused_no_return 41 /* its claimer does not return the mail */
#define mail_no_return 42    /* post_mail does not return it */
#define no_orphans 43        /* who injects a job and finds all dead does not run it */
#define refused_ends 44      /* wake_any does not go on with the next one */
#define refused_once 45      /* wake_any does not look at the inbox after a sweep with a refusal */
/* revive. */
#define revive_uncounted 46   /* who is tried again is not counted as inactive */
#define revive_stays_dead 47  /* ... and stays counted as dead */
#define revive_no_orphans 48  /* whose thread is refused again does not look for orphans */
#define revive_by_store 49    /* no compare-and-swap claims it */
/* Where it wakes. */
#define place_late 51      /* the waker narrows it after it has stored AWAKE */
#define place_unlooked 52  /* ... also where there is no thread any more */
#define place_kept 53      /* who was woken does not take back its CPUs */
#define place_note_late 54 /* the owner notes where it is when it can be claimed already */
/* NOT GUARANTEED: an internal push has no fence, and a sleeper that misses it costs speed. */
#define late_push 50 /* an internal push may be seen late */
/* NOT NEEDED for what is proved above: the last look compares again.  It saves that a worker which
 * is to search once more counts as asleep and claims itself. */
#define add_without_jec 60 /* add_sleeping does not compare the JEC */

#ifdef MUTATION
#if MUTATION == 0
#error "no such mutation"
#endif
#else
#define MUTATION 0
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef POSTERS
#define POSTERS 1
#endif
#ifndef JOBS
#define JOBS 1
#endif
#ifndef FORKS
#define FORKS 0
#endif
#ifndef TASKS
#define TASKS 0
#endif
#ifndef MAIL
#define MAIL 0
#endif
#ifndef REFUSED
#define REFUSED 0
#endif
#ifndef REVIVES
#define REVIVES 0
#endif
#ifndef RETIRE
#define RETIRE 0
#endif
#ifndef PLACES
#define PLACES 0
#endif
#ifndef END
#define END 0
#endif
#ifndef ROLLOVER
#define ROLLOVER 0
#endif

#if WORKERS > 3 || POSTERS > 3 || REFUSED > WORKERS
#error "more than the model has"
#endif

#define THREADS (WORKERS - REFUSED) /* that are sure to start */
#define MAY_WAIT (THREADS > 1 -> THREADS - 1 : 0)
#define GUEST WORKERS /* the index of its deque */
/* Deques that may hold something. */
#define FIRST_DEQUE (TASKS > 0 -> 0 : GUEST)
#define DEQUES (FORKS > 0 -> GUEST + 1 : GUEST)
#define me _pid /* of a worker: workers come first */

mtype = { AWAKE, ASLEEP, CLAIMED, DEAD };       /* Sleeper.asleep */
mtype = { UNSET, SLEEPY, SLEEPING, SET };       /* Sleeper.terminate, a four-state latch */
mtype = { NONE, RUNS, RETIRED };                /* Sleeper.thread */
mtype = { NOTHING, INJECTED, INTERNAL, BOUND }; /* what find_work found */

/* ---- shared memory ----------------------------------------------------------------------- */

/* The word.  Nobody looks at more of the JEC than whether it is odd, and whether it is another
 * one than at an Announce: here, how often it changed `since` then. */
byte sleeping = WORKERS, inactive = WORKERS;
bit odd;
#if ROLLOVER
#define NEVER ROLLOVER /* no Announce whose JEC will be looked at */
#define ONE_MORE(changes) (changes == NEVER -> NEVER : (changes + 1) % ROLLOVER)
#else
#define NEVER 1
#define ONE_MORE(changes) 1
#endif
byte since[WORKERS] = NEVER;

mtype asleep[WORKERS] = ASLEEP, terminate[WORKERS] = UNSET, thread[WORKERS] = NONE;
bit token[WORKERS]; /* Sleeper.parker */
bit alive[WORKERS]; /* there is a thread, as far as the system knows */
short dead; /* -1 for a moment, if one is revived between its DEAD and the count of that */
#if RETIRE
bit joinable[WORKERS], written[WORKERS]; /* and Worker.thread is */
#endif
#if REVIVES
byte revives_left = REVIVES;
#endif

byte arrivals, rest; /* the inbox */
bit taking;
byte mailbox; /* of worker 0 */
byte deque[WORKERS + 1];

/* What is in store buffers: see memory, below. */
bit late_asleep[WORKERS], late_end[WORKERS], late_job[POSTERS + 1], late_mail, late_fork;

/* ---- what the program does not have ------------------------------------------------------- */

byte posting = POSTERS + (FORKS > 0) + (MAIL > 0); /* threads outside that are not done */
byte jobs_left = POSTERS * JOBS + FORKS + TASKS;   /* jobs that have not begun */
byte mail_left = MAIL, tasks_left = TASKS;
byte waiting;                /* jobs that wait for all others */
bit counted[WORKERS] = true; /* it is one of `sleeping` */
bit told[WORKERS] = true;    /* an Event came after its Announce */
hidden byte x;

#define ALL_BEGAN (jobs_left == 0 && mail_left == 0)
#define FOR_ALL for (x : 0 .. WORKERS - 1)

/* ---- store buffers ------------------------------------------------------------------------ */

#define FLUSH_ASLEEP(w) late_asleep[w] -> late_asleep[w] = false; asleep[w] = ASLEEP
#define FLUSH_END(w) late_end[w] -> late_end[w] = false
#define FLUSH_JOB(p) late_job[p] -> late_job[p] = false; arrivals++
#define FLUSH_MAIL late_mail -> late_mail = false; mailbox++
#define FLUSH_FORK late_fork -> late_fork = false; deque[GUEST]++
#define FLUSHED(flush) if :: flush :: else fi
#define FENCE(flush) d_step { FLUSHED(flush) }

/* ---- counters.pxd: parts of d_steps ------------------------------------------------------- */

/* For a caller with s and n: sleeping and inactive. */
inline read_word() {
  s = sleeping;
  n = inactive
}

inline change_jec() {
  odd = !odd;
  FOR_ALL { since[x] = ONE_MORE(since[x]) }
}

inline announce_sleepy() {
  if
  :: odd == (MUTATION != announce_odd) -> change_jec()
  :: else
  fi;
  since[me] = 0;
  told[me] = false
}

inline forget_jec() {
  since[me] = NEVER;
  told[me] = true
}

inline post_event() {
  if
  :: !odd -> change_jec()
  :: else
  fi;
  FOR_ALL { told[x] = true };
  read_word()
}

inline add_sleeping() {
  assert(!counted[me]);
  counted[me] = true;
  sleeping++;
  assert(sleeping <= inactive)
}

inline sub_sleeping(w) {
  assert(counted[w]);
  counted[w] = false;
  sleeping--
}

inline add_inactive() {
  inactive++;
  assert(inactive <= WORKERS)
}

inline sub_inactive() {
  read_word();
  assert(sleeping < inactive);
  inactive--
}

/* ---- injector.pxd ------------------------------------------------------------------------- */

inline inbox_has_jobs() {
  if
  :: arrivals > 0 -> has = true
  :: else -> has = rest > 0
  fi
}

inline inbox_take() {
  inbox_has_jobs();
  if
  :: has ->
    d_step { /* exchange taking */
      has = !taking;
      taking = true
    };
    if
    :: has ->
      d_step { /* rest, which nobody else writes; if that is empty, exchange arrivals */
        moved = rest == 0;
        if
        :: moved ->
          count = arrivals;
          arrivals = 0
        :: else -> count = rest
        fi;
        job = (count > 0 -> INJECTED : NOTHING);
        more = count > 1;
        moved = moved && more
      };
#if MUTATION == no_fence_moved
      if
      :: moved
      :: else ->
        store_rest()
      fi
#else
      store_rest()
#endif
    :: else
    fi
  :: else
  fi;
  has = false
}

inline store_rest() {
  if
  :: count > 0 -> rest = count - 1
  :: else
  fi;
  count = 0;
  taking = false
}

/* ---- sleep.pyx: waking -------------------------------------------------------------------- */

#define LOCALS_OF_WAKERS \
  byte s, n, k, tried; \
  bit claimed, runs, has, turned_down
#define LOCALS_OF_USERS \
  LOCALS_OF_WAKERS; \
  byte count; \
  bit more, moved, ok; \
  mtype job = NOTHING

#if PLACES
bit narrowed[WORKERS], at_place[WORKERS];

/* place_elsewhere, by the claimer; it may find that there is nothing to do, or be refused. */
inline place_elsewhere(w) {
  if
  :: runs || MUTATION == place_unlooked ->
    d_step {
      assert(!at_place[w] && alive[w] && thread[w] == RUNS);
      at_place[w] = true
    };
    d_step {
      at_place[w] = false;
      narrowed[w] = true
    }
  :: true
  fi
}

/* place_note, which has no other effect here. */
#define place_note() d_step { assert(!at_place[me] && !narrowed[me]) }

inline place_take_back() {
  d_step {
    assert(!at_place[me]);
    if
    :: MUTATION != place_kept -> narrowed[me] = false
    :: else
    fi
  }
}
#endif

/* wake_sleeper, until what differs. */
inline claim(w) {
  d_step { /* the load of asleep, and the compare-and-swap */
    claimed = asleep[w] == ASLEEP;
    if
    :: claimed -> asleep[w] = CLAIMED
    :: else
    fi
  };
  if
  :: claimed ->
#if MUTATION != sleeper_uncounts
    d_step { sub_sleeping(w) };
#endif
    d_step {
      runs = thread[w] == RUNS; /* joined: nobody else accesses it now */
      assert(!counted[w]);
#if !PLACES
      asleep[w] = AWAKE
#endif
    }
#if PLACES
#if MUTATION != place_late
    place_elsewhere(w);
#endif
    asleep[w] = AWAKE;
#if MUTATION == place_late
    place_elsewhere(w)
#endif
#endif
  :: else
  fi
}

inline unpark(w) {
  token[w] = true
}

/* start_thread: joins the one that retired, and creates another. */
inline wake_claimed(w) {
  if
  :: runs -> unpark(w)
  :: else ->
    d_step {
      !alive[w];
#if RETIRE
      assert(thread[w] != RETIRED || joinable[w] && written[w]);
#if MUTATION != joinable_stays
      joinable[w] = false;
#endif
      written[w] = false;
#endif
      thread[w] = RUNS;
      alive[w] = true
    };
#if RETIRE
    d_step { /* pthread_create returns */
      written[w] = true;
      joinable[w] = true
    }
#endif
  fi;
  runs = false
}

inline return_mail(w) {
#if MAIL
  if
  :: w == 0 ->
    d_step {
      assert(mailbox <= mail_left);
      mail_left = mail_left - mailbox;
      mailbox = 0
    }
  :: else
  fi
#else
  skip
#endif
}

/* start: its thread is refused. */
inline refused(w) {
#if MUTATION == no_fence_refused
  inbox_has_jobs();
#endif
  d_step {
    sub_inactive();
    thread[w] = NONE
  };
#if MUTATION == no_fence_return
  return_mail(w);
#endif
  asleep[w] = DEAD;
  dead++;
#if MUTATION != refused_no_return && MUTATION != no_fence_return
  return_mail(w);
#endif
  claimed = false;
  turned_down = true
}

/* start: of a sleeper that the caller has claimed.  Whether it came up is then in `claimed`,
 * whether it was refused in `turned_down`. */
inline start(w) {
#if REFUSED
  if
  :: w >= REFUSED || runs -> wake_claimed(w)
#if REVIVES
  :: w < REFUSED && !runs -> wake_claimed(w)
#endif
  :: w < REFUSED && !runs ->
    !alive[w]; /* thread_join, if it retired */
    refused(w)
  fi
#else
  wake_claimed(w)
#endif
}

inline try_to_wake(w) {
  claim(w);
  if
  :: claimed -> start(w)
  :: else
  fi
}

inline look_after_refusal() {
  turned_down = false;
#if MUTATION != no_fence_refused
  inbox_has_jobs()
#else
  skip
#endif
}

inline wake_any() {
  if /* the hint: any start is right */
  :: k = 0
#if WORKERS > 1
  :: k = 1
#endif
#if WORKERS > 2
  :: k = 2
#endif
  fi;
  do
  :: tried < WORKERS ->
    try_to_wake(k);
    if
    :: claimed -> break
#if MUTATION == refused_ends
    :: turned_down -> break
#endif
    :: else ->
      k = (k + 1) % WORKERS;
      tried++
    fi
#if REFUSED && MUTATION != refused_once && MUTATION != refused_no_look
  :: tried == WORKERS && turned_down ->
    look_after_refusal();
    if
    :: has ->
      has = false;
      tried = 0
    :: else -> break
    fi
  :: tried == WORKERS && !turned_down -> break
#else
  :: else -> break
#endif
  od;
  k = 0;
  tried = 0;
  has = false;
  turned_down = false;
  claimed = false
}

/* After a refusal outside wake_any. */
inline wake_for_returned() {
#if MUTATION != refused_no_look
  look_after_refusal();
  if
  :: has ->
    has = false;
    wake_any()
  :: else
  fi
#else
  turned_down = false
#endif
}

/* Whether it woke w is then in `claimed`. */
inline wake_sleeper(w) {
  try_to_wake(w);
#if REFUSED
  if
  :: turned_down -> wake_for_returned()
  :: else
  fi
#endif
}

#if REVIVES
/* By a user who saw that some are dead. */
inline revive() {
  d_step {
    ok = revives_left > 0;
    if
    :: ok -> revives_left--
    :: else
    fi
  };
  do
  :: ok && tried < WORKERS ->
#if MUTATION == revive_by_store
    if
    :: asleep[tried] == DEAD ->
      asleep[tried] = CLAIMED;
      claimed = true
    :: else
    fi;
#else
    d_step { /* the load of asleep, and the compare-and-swap */
      claimed = asleep[tried] == DEAD;
      if
      :: claimed -> asleep[tried] = CLAIMED
      :: else
      fi
    };
#endif
    if
    :: claimed ->
#if MUTATION != revive_uncounted
      d_step { add_inactive() };
#endif
#if MUTATION != revive_stays_dead
      dead--;
#endif
      asleep[tried] = AWAKE;
      start(tried);
      claimed = false;
      if
      :: turned_down ->
        tried = 0;
        ok = false; /* enough for now */
        wake_for_returned()
      :: else -> tried++
      fi
    :: else -> tried++
    fi
  :: else -> break
  od;
  tried = 0;
  claimed = false;
  ok = false
}
#endif

/* look_after_orphans, and run_orphans as a guest leaves. */
inline look_after_orphans() {
#if REFUSED && MUTATION != no_orphans
#if REVIVES
  if
  :: dead != 0 ->
#if MUTATION == revive_no_orphans
    has = dead == WORKERS;
    revive();
    if
    :: !has -> goto looked
    :: else -> has = false
    fi
#else
    revive()
#endif
  :: true
  fi;
#endif
  if
  :: dead == WORKERS ->
    do
    :: true ->
      inbox_has_jobs();
      if
      :: has ->
        inbox_take();
        if
        :: job != NOTHING ->
          d_step {
            assert(jobs_left > 0);
            jobs_left--
          };
          job = NOTHING
        :: else
        fi;
        more = false;
        moved = false
      :: else -> break
      fi
    od
  :: else
  fi
#else
  skip
#endif
}

/* ---- sleep.pyx: posting ------------------------------------------------------------------- */

inline post_internal_slow(queue_was_empty) {
  d_step { post_event() };
  if
  :: s != 0 && (n == s || !(queue_was_empty)) -> wake_any()
  :: else
  fi;
  s = 0;
  n = 0
}

inline post_internal(pushed) {
  d_step { /* must_post */
    read_word();
    has = !(odd && s == 0)
  };
  if
  :: has ->
    has = deque[pushed] <= 1; /* deque_looks */
    post_internal_slow(has)
  :: else
  fi;
  has = false
}

inline post_moved() {
  d_step { post_event() };
  if
  :: s != 0 -> wake_any()
  :: else
  fi;
  s = 0;
  n = 0
}

/* ---- workers ------------------------------------------------------------------------------ */

/* latch_is_set, by the owner. */
#define TOLD_TO_END (terminate[me] == SET && !late_end[me])

/* Only the owner takes mail, and it runs all that it took. */
inline take_mail() {
  d_step {
    me == 0 && mailbox > 0;
    mails = mailbox;
    mailbox = 0
  }
}

inline run_mail() {
  d_step {
    assert(mails <= mail_left);
    mail_left = mail_left - mails;
    mails = 0
  }
}

inline park() {
  d_step {
    token[me];
    token[me] = false
  }
}

/* `asleep` is AWAKE, for its owner, who sees its own late store. */
#define UP (asleep[me] == AWAKE && !late_asleep[me])

inline wait_until_up() {
  do
  :: UP -> break
  :: else -> park()
  od
}

inline claim_myself() {
  d_step {
    FLUSHED(FLUSH_ASLEEP(me));
    ok = asleep[me] == ASLEEP;
    if
    :: ok -> asleep[me] = AWAKE
    :: else
    fi
  }
}

inline latch_get_sleepy() {
  d_step {
    ok = terminate[me] == UNSET;
    if
    :: ok -> terminate[me] = SLEEPY
    :: else -> FLUSHED(FLUSH_END(me))
    fi
  }
}

inline latch_fall_asleep() {
  d_step {
    ok = terminate[me] == SLEEPY;
    if
    :: ok -> terminate[me] = SLEEPING
    :: else -> FLUSHED(FLUSH_END(me))
    fi
  }
}

inline latch_wake_up() {
  if
  :: terminate[me] != SET -> terminate[me] = UNSET
  :: else -> FLUSHED(FLUSH_END(me))
  fi
}

#if RETIRE
#define MAY_RETIRE (joinable[me] || MUTATION == retire_unjoinable)
#endif

/* Claimable, fence 2, and must_look_again, whose result is in `ok`. */
inline last_look(no_fence) {
  late_asleep[me] = true;
  d_step {
    if
    :: MUTATION != no_fence && FLUSH_ASLEEP(me)
    :: else
    fi
  };
  d_step {
    ok = since[me] != 0 && MUTATION != last_without_jec && MUTATION != never_jec;
    assert(ok || !told[me] || ROLLOVER);
#if !RETIRE
    forget_jec()
#endif
  };
#if POSTERS && MUTATION != last_without_inbox
  if
  :: ok
  :: else ->
    inbox_has_jobs();
    ok = has;
    has = false
  fi;
#endif
#if MAIL && MUTATION != last_without_mail
  if
  :: ok || me != 0
  :: else -> ok = mailbox > 0
  fi;
#endif
#if END && MUTATION != last_without_end
  if
  :: ok
  :: else -> ok = TOLD_TO_END
  fi
#endif
}

active [WORKERS] proctype worker() {
  LOCALS_OF_WAKERS;
  byte count, mails, v = FIRST_DEQUE;
  bit busy, announced, more, moved, ok;
  mtype job;

end_no_thread:
  alive[me];
#if MUTATION == sleeper_uncounts
  d_step { sub_sleeping(me) };
#endif

search: /* the loop of worker_main; find_work */
  job = NOTHING;
  more = false;
#if MAIL
  if
  :: take_mail() ->
    job = BOUND;
    goto found
  :: true
  fi;
#endif
#if TASKS
  d_step { /* pop_task */
    if
    :: deque[me] > 0 ->
      deque[me]--;
      job = INTERNAL
    :: else
    fi
  };
  if
  :: job != NOTHING ->
    more = deque[me] > 0;
    goto found
  :: else
  fi;
#endif
#if TASKS || FORKS
  do /* steal_any */
  :: v < DEQUES && v == me -> v++
  :: v < DEQUES && v != me ->
    d_step {
      if
      :: deque[v] > 0 ->
        deque[v]--;
        job = INTERNAL
      :: else
      fi
    };
    if
    :: job != NOTHING ->
      more = deque[v] > 0;
      v = FIRST_DEQUE;
      goto found
    :: else -> v++
    fi
  :: else -> break
  od;
  v = FIRST_DEQUE;
#endif
#if POSTERS
  inbox_take();
  if
  :: moved ->
#if MUTATION != no_post_moved
    post_moved();
#endif
#if MUTATION == no_fence_moved
    store_rest();
#endif
    moved = false
  :: else
  fi;
  if
  :: job != NOTHING -> goto found
  :: else
  fi;
#endif
#if MAIL
  if
  :: take_mail() ->
    job = BOUND;
    goto found
  :: else
  fi;
#endif

  if
  :: busy -> /* start_looking */
    d_step {
      add_inactive();
      busy = false
    };
    goto search
  :: else
  fi;
#if END
  if
  :: TOLD_TO_END ->
    d_step {
      sub_inactive();
      forget_jec()
    };
    s = 0;
    n = 0;
    announced = false;
    alive[me] = false;
    goto end_no_thread
  :: else
  fi;
#endif
  if /* no_work_found */
  :: !announced ->
    d_step {
      announce_sleepy();
      announced = true
    };
    goto search
  :: else -> announced = false
  fi;

  /* fall_asleep */
  latch_get_sleepy();
  if
  :: ok -> latch_fall_asleep()
  :: else
  fi;
  if
  :: ok ->
    d_step { /* add_sleeping, if the JEC is the same */
      ok = since[me] == 0 || MUTATION == never_jec || MUTATION == add_without_jec;
      if
      :: ok -> add_sleeping()
      :: else
      fi
    }
  :: else
  fi;
  if
  :: ok ->
#if PLACES && MUTATION != place_note_late
    place_note();
#endif
    last_look(no_fence_2);
#if PLACES && MUTATION == place_note_late
    place_note();
#endif
    if
    :: ok ->
      claim_myself();
      if
      :: ok -> d_step { sub_sleeping(me) }
      :: else
      fi;
#if MUTATION != no_wait_claimed
      wait_until_up();
#endif
#if MUTATION == sleeper_uncounts
      if
      :: !ok -> d_step { sub_sleeping(me) }
      :: else
      fi
#endif
    :: else ->
      do
      :: UP -> break
      :: else ->
#if !END
end_asleep:
#endif
        if
        :: park()
#if RETIRE
        :: !token[me] && MAY_RETIRE -> /* the time is over */
          claim_myself();
          if
          :: ok -> goto retire
          :: else
          fi
#endif
        fi
      od;
#if MUTATION == sleeper_uncounts
      atomic { sub_sleeping(me) }
#endif
    fi;
#if PLACES
    place_take_back()
#endif
  :: else
  fi;
  ok = false;
  d_step {
    latch_wake_up();
    forget_jec()
  };
  goto search;

#if RETIRE
retire:
  ok = false;
  d_step { latch_wake_up() };
  thread[me] = RETIRED;
#if MUTATION == retire_no_look
  asleep[me] = ASLEEP;
#else
  last_look(no_fence_retire);
  if
  :: ok ->
    claim_myself();
    if
    :: ok ->
      ok = false;
      thread[me] = RUNS;
      d_step {
        sub_sleeping(me);
        forget_jec()
      };
      goto search
    :: else
    fi
  :: else
  fi;
#endif
  d_step {
    forget_jec();
    alive[me] = false
  };
  goto end_no_thread;
#endif

found:
  if
  :: busy
  :: else -> /* work_found */
#if MUTATION == no_fence_found
    inbox_has_jobs();
#endif
    d_step {
      sub_inactive();
      forget_jec();
      announced = false;
      busy = true
    };
    if
    :: s != 0 && !more && n - 1 == s && MUTATION != no_last_searcher ->
#if POSTERS
#if MUTATION != no_fence_found
      inbox_has_jobs();
#endif
      more = has;
#endif
#if TASKS || FORKS
      do /* work_in_sight */
      :: !more && v < DEQUES ->
        more = deque[v] > 0;
        v++
      :: else -> break
      od;
      v = FIRST_DEQUE
#endif
    :: else
    fi;
    has = false;
    if
    :: s != 0 && more && MUTATION != no_pass_on -> wake_any()
    :: else
    fi;
    s = 0;
    n = 0
  fi;
  more = false;

  /* execute */
#if PLACES
  assert(!narrowed[me]);
#endif
  if
  :: job == BOUND -> run_mail()
  :: else ->
#if TASKS
    if
    :: d_step {
        job == INJECTED && tasks_left > 0;
        tasks_left--;
        deque[me]++
      } ->
      post_internal(me)
    :: else
    fi;
#endif
    d_step {
      assert(jobs_left > 0);
      jobs_left--
    };
    if
    :: true /* it ends */
    :: d_step {
        waiting < MAY_WAIT;
        waiting++
      };
#if MAIL
      do /* it waits, and serves the mailbox: wait_for_fork, sleep_on_latch */
      :: take_mail() -> run_mail()
      :: else ->
        if
        :: ALL_BEGAN -> break
        :: park()
        fi
      od
#else
      ALL_BEGAN
#endif
    fi
  fi;
  goto search
}

/* ---- threads outside ---------------------------------------------------------------------- */

#if POSTERS
#define mine (_pid - WORKERS)

active [POSTERS] proctype poster() { /* pool_post */
  LOCALS_OF_USERS;
  byte posted;

  do
  :: posted < JOBS ->
    posted++;
    d_step { /* PushJob */
      FLUSHED(FLUSH_JOB(mine));
      late_job[mine] = true
    };
#if MUTATION != no_fence_1
    FENCE(FLUSH_JOB(mine));
#endif
    post_internal_slow(true);
    look_after_orphans();
looked:
    skip
  :: else -> break
  od;
  posting--
}
#endif

#if FORKS
active proctype guest() { /* push_fork */
  LOCALS_OF_WAKERS;
  byte pushed;

  do
  :: pushed < FORKS ->
    pushed++;
#if MUTATION == late_push
    d_step {
      FLUSHED(FLUSH_FORK);
      late_fork = true
    };
#else
    deque[GUEST]++;
#endif
    post_internal(GUEST)
  :: else -> break
  od;
  posting--
}
#endif

#if MAIL
active proctype mailer() { /* spawn_on */
  LOCALS_OF_USERS;
  byte posted;

  do
  :: posted < MAIL ->
    posted++;
    d_step { /* PushMail */
      FLUSHED(FLUSH_MAIL);
      has = mailbox > 0;
      if
      :: has -> mailbox++
      :: else -> late_mail = true
      fi
    };
    if
    :: has -> has = false
    :: else -> /* post_mail, post_bound */
      d_step { post_event() };
      s = 0;
      n = 0;
#if MUTATION != no_fence_mail
      FENCE(FLUSH_MAIL);
#endif
#if MUTATION != mail_no_claim
      wake_sleeper(0);
#endif
      if
      :: claimed -> claimed = false
      :: else ->
        if
        :: asleep[0] == DEAD ->
#if MUTATION != mail_no_return
          return_mail(0)
#endif
        :: else ->
#if MUTATION != mail_no_token
          unpark(0)
#endif
        fi
      fi
    fi
  :: else -> break
  od;
  look_after_orphans(); /* pool_leave */
looked:
  posting--
}
#endif

active proctype closer() {
  LOCALS_OF_WAKERS;
  byte w;

  posting == 0 && ALL_BEGAN;
  assert(arrivals == 0 && rest == 0 && mailbox == 0);
#if END
  do /* users_gone */
  :: w < WORKERS ->
    d_step { /* latch_set; what it returns is in `has` */
      has = terminate[w] == SLEEPING;
      terminate[w] = SET;
      late_end[w] = true
    };
    if
    :: has && MUTATION != end_no_duty ->
#if MUTATION != no_fence_end
      FENCE(FLUSH_END(w));
#endif
      claim(w); /* wake_sleeper; it had a thread, so another one is not refused here */
      if
      :: claimed ->
        wake_claimed(w);
        claimed = false
      :: else
      fi
    :: else
    fi;
    has = false;
    w++
  :: else -> break
  od;
  w = 0;
  do /* pool_join */
  :: w < WORKERS ->
    !alive[w];
    w++
  :: else -> break
  od;
  assert(sleeping == inactive)
#endif
}

/* A store leaves its buffer, at any time. */
active proctype memory() {
end_memory:
  do
  :: d_step { FLUSH_ASLEEP(0) }
  :: d_step { FLUSH_END(0) }
#if WORKERS > 1
  :: d_step { FLUSH_ASLEEP(1) }
  :: d_step { FLUSH_END(1) }
#endif
#if WORKERS > 2
  :: d_step { FLUSH_ASLEEP(2) }
  :: d_step { FLUSH_END(2) }
#endif
  :: d_step { FLUSH_JOB(0) }
#if POSTERS > 1
  :: d_step { FLUSH_JOB(1) }
#endif
#if POSTERS > 2
  :: d_step { FLUSH_JOB(2) }
#endif
  :: d_step { FLUSH_MAIL }
  :: d_step { FLUSH_FORK }
  od
}
