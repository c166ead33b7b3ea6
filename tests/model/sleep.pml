/* The sleep protocol: when an idle worker sleeps, and whom a poster wakes; pyblitz/runtime/
 * sleep.pyx, counters.pxd, latch.pxd, injector.pxd (the inbox), and of pool.pyx worker_main,
 * find_work, work_found and users_gone.  Checked with Spin: see run.py.
 */

#define no_fence_1 1         /* posters of jobs and mail: no fence 1 */
#define no_fence_2 2         /* fall_asleep, retire: no fence 2 */
#define no_fence_found 3     /* work_found: no fence, so that it looks before `inactive - 1` */
#define no_fence_end 4       /* users_gone: no fence */
#define announce_odd 5       /* announce_sleepy makes an even JEC odd, in place of odd even */
#define add_without_jec 6    /* add_sleeping does not compare the JEC */
#define last_without_jec 7   /* the last look does not compare the JEC */
#define never_jec 8          /* neither does */
#define last_without_inbox 9 /* the last look leaves the inbox out */
#define last_without_mail 10 /* the last look leaves the mailbox out */
#define last_without_end 11  /* the last look leaves `terminate` out */
#define sleeper_uncounts 12  /* `sleeping - 1` is left to the sleeper, when it is up */
#define no_pass_on 13        /* work_found does not pass the wake on */
#define no_last_searcher 14  /* work_found passes it on only with `more` */
#define no_post_moved 15     /* a searcher that moved jobs inside the inbox tells nobody */
#define mail_no_claim 16     /* post_mail leaves a token, but does not claim */
#define mail_no_token 17     /* post_mail claims, but leaves no token */
#define end_ignores_duty 18  /* users_gone ignores that `terminate` was SLEEPING */
#define no_wait_claimed 19   /* the owner goes on while it is CLAIMED */
#define no_look_refused 20   /* the claimer whose thread is refused does not look at the inbox */
#define no_return_mail 21    /* ... does not return the mail */
#define poster_no_return 22  /* post_mail does not return the mail of a dead worker */
#define no_orphans 23        /* a poster that finds all dead does not run the job */
#define retire_no_look 24    /* retire: no last look */
/* NOT GUARANTEED */
#define late_push 40 /* an internal push is seen late */

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
#ifndef RETIRE
#define RETIRE 0
#endif
#ifndef END
#define END 1
#endif
#ifndef ROLLOVER
#define ROLLOVER 0
#endif

#define ALL_JOBS (POSTERS * JOBS + FORKS + TASKS)
#define THREADS (WORKERS - REFUSED)
#if ALL_JOBS < THREADS
#define PARALLEL ALL_JOBS
#else
#define PARALLEL THREADS
#endif
#define DEQUES (FORKS + TASKS > 0)
#define GUEST WORKERS /* the index of its deque */

mtype = { AWAKE, ASLEEP, CLAIMED, DEAD };       /* Sleeper.asleep */
mtype = { UNSET, SLEEPY, SLEEPING, SET };       /* Sleeper.terminate, a CoreLatch */
mtype = { NONE, RUNS, RETIRED };                /* Sleeper.thread */
mtype = { NOTHING, INJECTED, INTERNAL, BOUND }; /* what find_work found */

/* ---- shared memory ---- */

/* The counters' word.  The JEC is its parity, and how often it changed since each worker's
 * Announce: more than that nobody asks. */
byte sleeping = WORKERS, inactive = WORKERS;
bit odd;
#if ROLLOVER
#define NEVER 4 /* it has announced nothing, or is past the last look at its JEC */
#define ONE_MORE(n) (n == NEVER -> NEVER : (n + 1) % 4)
#else
#define NEVER 1
#define ONE_MORE(n) NEVER
#endif
byte since[WORKERS] = NEVER;

mtype asleep[WORKERS] = ASLEEP, thread[WORKERS] = NONE, terminate[WORKERS] = UNSET;
bit token[WORKERS]; /* the parkers */
bit alive[WORKERS]; /* there is a thread, as the operating system knows it */
byte dead;

byte arrivals, rest; /* the inbox */
bit taking;
byte mailbox; /* worker 0's */
byte deque[WORKERS + 1];

/* Store buffers. */
bit late_asleep[WORKERS], late_end[WORKERS], late_job[POSTERS], late_mail, late_fork;

/* ---- not in the program ---- */

byte posting = POSTERS + (FORKS > 0) + (MAIL > 0); /* threads outside that are not done */
byte jobs_left = ALL_JOBS, mail_left = MAIL, tasks_left = TASKS;
bit counted[WORKERS] = true; /* among `sleeping` */
bit told[WORKERS] = true;    /* an Event came after its Announce */
hidden byte x;

#define COUNTERS_HOLD assert(sleeping <= inactive && inactive <= WORKERS)
#define me _pid /* of a worker: they come first */
#define FOR_ALL for (x : 0 .. WORKERS - 1)

/* ---- counters.pxd ---- */

/* s and n are locals of whoever looks at the word: sleeping and inactive. */
inline read_word() {
  s = sleeping;
  n = inactive
}

inline change_jec() {
  odd = !odd;
  FOR_ALL { since[x] = ONE_MORE(since[x]) }
}

inline announce_sleepy() {
  d_step {
    if
    :: odd == (MUTATION != announce_odd) -> change_jec()
    :: else
    fi;
    since[me] = 0;
    told[me] = false
  }
}

inline post_event() {
  d_step {
    if
    :: !odd -> change_jec()
    :: else
    fi;
    FOR_ALL { told[x] = true };
    read_word()
  }
}

inline forget_jec() {
  since[me] = NEVER;
  told[me] = true
}

inline add_sleeping() {
  d_step {
    ok = since[me] == 0 || MUTATION == add_without_jec || MUTATION == never_jec;
    if
    :: ok ->
      assert(!counted[me]);
      counted[me] = true;
      sleeping++;
      COUNTERS_HOLD
    :: else -> forget_jec()
    fi
  }
}

inline sub_sleeping(w) {
  d_step {
    assert(counted[w] && sleeping > 0);
    counted[w] = false;
    sleeping--
  }
}

/* The word before. */
inline sub_inactive() {
  d_step {
    read_word();
    assert(sleeping < inactive);
    inactive--
  }
}

/* ---- injector.pxd ---- */

inline inbox_has_jobs() {
  if
  :: arrivals > 0 -> seen = true
  :: else -> seen = rest > 0
  fi
}

inline inbox_take() {
  inbox_has_jobs();
  if
  :: seen ->
    d_step { /* exchange taking */
      seen = !taking;
      taking = true
    };
    if
    :: seen ->
      d_step { /* exchange arrivals, if rest is empty; nobody else writes rest */
        moved = rest == 0;
        if
        :: moved ->
          count = arrivals;
          arrivals = 0
        :: else -> count = rest
        fi
      };
      if
      :: count > 0 ->
        d_step {
          rest = count - 1;
          job = INJECTED;
          more = count > 1;
          moved = moved && more;
          count = 0
        }
      :: else -> moved = false
      fi;
      taking = false
    :: else
    fi
  :: else
  fi;
  seen = false
}

/* ---- sleep.pyx: waking ---- */

/* The look before the compare-and-swap is joined with it: it only saves that. */
inline claim(w) {
  d_step {
    claimed = asleep[w] == ASLEEP;
    if
    :: claimed -> asleep[w] = CLAIMED
    :: else
    fi
  };
  if
  :: claimed ->
#if MUTATION != sleeper_uncounts
    sub_sleeping(w);
#endif
    d_step {
      runs = thread[w] == RUNS;
      asleep[w] = AWAKE
    }
  :: else
  fi
}

inline wake_claimed(w) {
  if
  :: runs -> token[w] = true /* unpark */
  :: else ->
    d_step { /* thread_join of one that retired; thread_create */
      !alive[w];
      thread[w] = RUNS;
      alive[w] = true
    }
  fi;
  runs = false
}

inline return_mail() {
  d_step {
    assert(mail_left >= mailbox);
    mail_left = mail_left - mailbox;
    mailbox = 0
  }
}

/* Worker 0's thread is refused: it is the only one. */
inline refused() {
#if MUTATION == sleeper_uncounts
  sub_sleeping(0);
#endif
  sub_inactive();
  asleep[0] = DEAD;
  dead++;
#if MAIL && MUTATION != no_return_mail
  return_mail();
#endif
#if MUTATION != no_look_refused
  inbox_has_jobs();
  if
  :: seen -> /* wake_any: nobody else is refused */
    seen = false;
    again = 1;
    do
    :: again < WORKERS ->
      claim(again);
      if
      :: claimed ->
        wake_claimed(again);
        break
      :: else -> again++
      fi
    :: else -> break
    od;
    again = 0
  :: else
  fi;
#endif
  claimed = false
}

inline wake_sleeper(w) {
  claim(w);
  if
#if REFUSED
  :: claimed && w == 0 -> refused()
  :: claimed && w != 0 -> wake_claimed(w)
#else
  :: claimed -> wake_claimed(w)
#endif
  :: else
  fi
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
  tried = 0;
  do
  :: tried < WORKERS ->
    wake_sleeper(k);
    if
    :: claimed -> break
    :: else ->
      k = (k + 1) % WORKERS;
      tried++
    fi
  :: else -> break
  od;
  k = 0;
  tried = 0;
  claimed = false
}

#define LOCALS_OF_WAKER \
  byte s, n, k, tried, again; \
  bit claimed, runs, seen

/* ---- sleep.pyx: posting ---- */

inline post_internal_slow(queue_was_empty) {
  post_event();
  if
  :: s != 0 && (n == s || !(queue_was_empty)) -> wake_any()
  :: else
  fi;
  s = 0;
  n = 0
}

inline post_internal(q) {
  d_step {
    read_word();
    must_post = !odd || s != 0
  };
  if
  :: must_post ->
    was_empty = deque[q] <= 1;
    post_internal_slow(was_empty)
  :: else
  fi;
  must_post = false;
  was_empty = false
}

/* Without a fence: the owner's access to what lies in its own buffer. */
#define FLUSH_JOB(p) late_job[p] -> late_job[p] = false; arrivals++
#define FLUSH_MAIL late_mail -> late_mail = false; mailbox++
#define FLUSH_ASLEEP(w) late_asleep[w] -> late_asleep[w] = false; asleep[w] = ASLEEP
#define FLUSH_FORK late_fork -> late_fork = false; deque[GUEST]++
#define FLUSH_END(w) late_end[w] -> late_end[w] = false
#define FENCE(flush) d_step { if :: flush :: else fi }

/* ---- workers ---- */

#define TOLD_TO_END (terminate[me] == SET && !late_end[me])
#define KNOWS_AWAKE (asleep[me] == AWAKE && !late_asleep[me])
/* All is done that a job may wait for. */
#define MAY_END (jobs_left <= ALL_JOBS - PARALLEL && mail_left == 0)

inline take_mail() {
  d_step {
    me == 0 && mailbox > 0;
    mails = mailbox;
    mailbox = 0;
    job = BOUND
  }
}

inline run_mail() {
  d_step {
    assert(mail_left >= mails);
    mail_left = mail_left - mails;
    mails = 0
  }
}

inline last_look() {
  d_step {
    ok = !(since[me] == 0 || MUTATION == last_without_jec || MUTATION == never_jec);
    assert(ROLLOVER || ok || !told[me]);
#if !RETIRE
    forget_jec()
#endif
  };
#if MUTATION != last_without_inbox
  if
  :: ok
  :: else ->
    inbox_has_jobs();
    ok = seen;
    seen = false
  fi;
#endif
#if MAIL && MUTATION != last_without_mail
  if
  :: ok || me != 0
  :: else -> ok = mailbox > 0
  fi;
#endif
#if MUTATION != last_without_end
  if
  :: ok
  :: else -> ok = TOLD_TO_END
  fi
#endif
}

inline claim_myself() {
  d_step {
    if
    :: FLUSH_ASLEEP(me)
    :: else
    fi;
    ok = asleep[me] == ASLEEP;
    if
    :: ok -> asleep[me] = AWAKE
    :: else
    fi
  }
}

inline park() {
  d_step {
    token[me];
    token[me] = false
  }
}

active [WORKERS] proctype worker() {
  LOCALS_OF_WAKER;
  byte count, mails, v;
  bit more, moved, ok, early, active_, announced, must_post, was_empty;
  mtype job = NOTHING;

end_without_thread:
  alive[me];
#if MUTATION == sleeper_uncounts
  sub_sleeping(me);
#endif

search: /* find_work; here begins the loop of worker_main */
  job = NOTHING;
  more = false;
#if MAIL
  if /* every other search begins with it */
  :: take_mail() -> goto found
  :: true
  fi;
#endif
#if DEQUES
  d_step {
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
  do /* steal_any */
  :: v <= GUEST ->
    d_step {
      if
      :: v != me && deque[v] > 0 ->
        deque[v]--;
        job = INTERNAL
      :: else
      fi
    };
    if
    :: job != NOTHING ->
      more = deque[v] > 0;
      v = 0;
      goto found
    :: else -> v++
    fi
  :: else ->
    v = 0;
    break
  od;
#endif
#if POSTERS
  inbox_take();
  if
  :: moved ->
    moved = false;
#if MUTATION != no_post_moved
    post_event();
    if
    :: s != 0 -> wake_any()
    :: else
    fi;
    s = 0;
    n = 0
#endif
  :: else
  fi;
  if
  :: job != NOTHING -> goto found
  :: else
  fi;
#endif
#if MAIL
  if
  :: take_mail() -> goto found
  :: else
  fi;
#endif

  /* nothing */
  if
  :: active_ ->
    d_step { /* start_looking: add_inactive */
      inactive++;
      COUNTERS_HOLD;
      active_ = false
    };
    goto search
  :: else
  fi;
  if
  :: TOLD_TO_END ->
    sub_inactive();
    d_step {
      s = 0;
      n = 0;
      announced = false;
      forget_jec();
      alive[me] = false
    };
    goto end_without_thread
  :: else
  fi;
  if /* no_work_found */
  :: !announced ->
    announce_sleepy();
    announced = true;
    goto search
  :: else -> announced = false
  fi;

  /* fall_asleep */
  d_step { /* latch_get_sleepy */
    ok = terminate[me] == UNSET;
    if
    :: ok -> terminate[me] = SLEEPY
    :: else -> late_end[me] = false
    fi
  };
  if
  :: ok ->
    d_step { /* latch_fall_asleep */
      ok = terminate[me] == SLEEPY;
      if
      :: ok -> terminate[me] = SLEEPING
      :: else -> late_end[me] = false
      fi
    }
  :: else
  fi;
  if
  :: ok
  :: else ->
    forget_jec();
    goto search
  fi;
  add_sleeping();
  if
  :: ok
  :: else -> goto wake_up
  fi;
claimable:
  late_asleep[me] = true;
#if MUTATION != no_fence_2
  FENCE(FLUSH_ASLEEP(me)); /* fence 2 */
#endif
  last_look();
  if
  :: ok ->
    claim_myself();
    if
    :: ok -> sub_sleeping(me)
    :: else
    fi;
#if MUTATION != no_wait_claimed
    do
    :: KNOWS_AWAKE -> break
    :: else -> park()
    od
#endif
#if MUTATION == sleeper_uncounts
    if
    :: !ok -> sub_sleeping(me)
    :: else
    fi
#endif
  :: else ->
    do
    :: KNOWS_AWAKE -> break
    :: else ->
#if !END
end_asleep:
#endif
      if
      :: park()
#if RETIRE
      :: !token[me] -> /* the time is over */
        claim_myself();
        if
        :: ok -> goto retire
        :: else
        fi
#endif
      fi
    od;
#if MUTATION == sleeper_uncounts
    sub_sleeping(me)
#endif
  fi;
wake_up:
  atomic { /* latch_wake_up, and end of fall_asleep */
    if
    :: terminate[me] != SET -> terminate[me] = UNSET
    :: else -> late_end[me] = false
    fi;
    ok = false;
    forget_jec()
  };
  goto search;

#if RETIRE
retire:
  atomic { /* latch_wake_up */
    if
    :: terminate[me] != SET -> terminate[me] = UNSET
    :: else -> late_end[me] = false
    fi
  };
  thread[me] = RETIRED;
  late_asleep[me] = true;
#if MUTATION != no_fence_2
  FENCE(FLUSH_ASLEEP(me));
#endif
#if MUTATION != retire_no_look
  last_look();
  if
  :: ok ->
    claim_myself();
    if
    :: ok ->
      thread[me] = RUNS;
      sub_sleeping(me);
      d_step {
        ok = false;
        forget_jec()
      };
      goto search
    :: else
    fi
  :: else
  fi;
#endif
  d_step {
    ok = false;
    forget_jec();
    alive[me] = false
  };
  goto end_without_thread;
#endif

found:
  if
  :: active_
  :: else -> /* work_found */
#if MUTATION == no_fence_found
    inbox_has_jobs();
    early = seen;
    seen = false;
#endif
    sub_inactive();
    active_ = true;
    announced = false;
    forget_jec();
    if
    :: s != 0 && !more && n - 1 == s && MUTATION != no_last_searcher ->
#if MUTATION == no_fence_found
      more = early;
#else
      inbox_has_jobs();
      more = seen;
      seen = false;
#endif
#if DEQUES
      do /* work_in_sight */
      :: !more && v <= GUEST ->
        more = deque[v] > 0;
        v++
      :: else -> break
      od;
      v = 0
#endif
    :: else
    fi;
    if
    :: s != 0 && more && MUTATION != no_pass_on -> wake_any()
    :: else
    fi;
    s = 0;
    n = 0;
    more = false
  fi;

  /* execute */
  if
  :: job == BOUND -> run_mail()
  :: else ->
#if TASKS
    if
    :: d_step {
        job == INJECTED && tasks_left > 0 ->
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
    :: true /* the job ends */
    :: true -> /* it waits for as many others as there are threads */
#if MAIL
      do /* and serves the mailbox: wait_for_fork, sleep_on_latch */
      :: take_mail() -> run_mail()
      :: else ->
        if
        :: MAY_END -> break
        :: park()
        fi
      od
#else
      MAY_END
#endif
    fi
  fi;
  goto search
}

/* ---- threads outside ---- */

#if POSTERS
#define my_job (_pid - WORKERS)

active [POSTERS] proctype poster() {
  LOCALS_OF_WAKER;
  byte count, i;
  bit more, moved;
  mtype job;

  do
  :: i < JOBS ->
    i++;
    FENCE(FLUSH_JOB(my_job)); /* it is one variable: this push follows the last one */
    late_job[my_job] = true;  /* PushJob */
#if MUTATION != no_fence_1
    FENCE(FLUSH_JOB(my_job)); /* fence 1 */
#endif
    post_internal_slow(true);
#if REFUSED == WORKERS && MUTATION != no_orphans
    if
    :: dead == WORKERS ->
      do /* run_orphans */
      :: true ->
        inbox_has_jobs();
        if
        :: seen ->
          job = NOTHING;
          inbox_take();
          if
          :: job != NOTHING ->
            d_step {
              assert(jobs_left > 0);
              jobs_left--
            }
          :: else
          fi
        :: else -> break
        fi
      od
    :: else
    fi
#endif
  :: else -> break
  od;
  posting--
}
#endif

#if FORKS
active proctype guest() {
  LOCALS_OF_WAKER;
  byte i;
  bit must_post, was_empty;

  do
  :: i < FORKS ->
    i++;
    FENCE(FLUSH_FORK);
#if MUTATION == late_push
    late_fork = true;
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
active proctype mailer() {
  LOCALS_OF_WAKER;
  byte i;

  do
  :: i < MAIL ->
    i++;
    d_step { /* PushMail */
      if
      :: FLUSH_MAIL
      :: else
      fi;
      seen = mailbox > 0;
      if
      :: seen -> mailbox++
      :: else -> late_mail = true
      fi
    };
    if
    :: seen -> seen = false
    :: else -> /* post_mail */
      post_event();
      s = 0;
      n = 0;
#if MUTATION != no_fence_1
      FENCE(FLUSH_MAIL); /* fence 1 */
#endif
#if MUTATION != mail_no_claim
      wake_sleeper(0);
#endif
      if
      :: claimed -> claimed = false
      :: else ->
        if
        :: asleep[0] == DEAD && MUTATION != poster_no_return -> return_mail()
        :: else
#if MUTATION != mail_no_token
          -> token[0] = true
#endif
        fi
      fi
    fi
  :: else -> break
  od;
  posting--
}
#endif

/* pool_retire, as the last user is gone: users_gone; then pool_join. */
active proctype closer() {
  LOCALS_OF_WAKER;
  byte i;

  posting == 0 && jobs_left == 0 && mail_left == 0;
#if END
  do
  :: i < WORKERS ->
    d_step { /* latch_set */
      seen = terminate[i] == SLEEPING;
      terminate[i] = SET;
      late_end[i] = true
    };
    if
    :: seen && MUTATION != end_ignores_duty ->
#if MUTATION != no_fence_end
      FENCE(FLUSH_END(i));
#endif
      wake_sleeper(i);
      claimed = false
    :: else
    fi;
    seen = false;
    i++
  :: else -> break
  od;
  i = 0;
  do
  :: i < WORKERS ->
    !alive[i]; /* thread_join */
    i++
  :: else -> break
  od;
  assert(sleeping == inactive && arrivals == 0 && rest == 0 && !taking && mailbox == 0)
#endif
}

/* Stores reach memory, at any time. */
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
#if POSTERS
  :: d_step { FLUSH_JOB(0) }
#endif
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
