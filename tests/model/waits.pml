/* Waits: a worker that joins, ends a scope or broadcasts helps with what it waits for, serves its
 * mail, and else sleeps; pyblitz/runtime/join.pyx (run_stolen_fork, wait_for_fork,
 * sleep_on_latch), scope.pyx (spawn, run_task, scope_end, spawn_on, broadcast), pool.pyx
 * (worker_main, find_work, execute_waiting, put_away, serve_mailbox).  Checked with Spin: see
 * run.py.
 *
 * What it proves, within the bounds, by visiting every state:
 *
 * - Nobody gets stuck, though guests hold locks around their calls that jobs of others take, and
 *   though idle workers sleep at any time and then miss every push that has no fence.
 * - Every job runs exactly once.
 * - On top of a wait for a fork run only jobs below that fork, on top of the end of a scope only
 *   tasks of that scope; and mail of a deeper level than that of the job that waits.
 * - On one stack levels never sink, and rise with each mail.  A level is how many scopes deep the
 *   program is whose tasks are mail; so no stack is deeper than the program, however much mail
 *   lies there.
 * - Forks are last in, first out, and whoever waits for one has no others in its deque.
 * - A guest leaves nothing behind.
 *
 * A worker interprets a program: its stack is one of frames, each a place in a function.  The
 * programs, by define (JOINS by default):
 *
 *   JOINS     two guests, each with a tree of joins; the first holds a lock that the leaves of the
 *             second one's tree take
 *   MAIL      a guest joins two jobs that broadcast
 *   NESTED    a guest spawns two tasks on one worker, each of which joins two jobs, and one of
 *             these broadcasts
 *   CROWD     a guest spawns three tasks on one worker, each of which joins two jobs
 *   TAIL      a guest spawns two tasks on one worker, each of which spawns one more into their
 *             scope, and that one joins two jobs
 *   SINKS     a guest spawns on a worker a task with a scope, whose task spawns into that scope
 *             and then into two outer ones; the last of these three joins, and half of it
 *             broadcasts
 *   TASKS     as JOINS, with scopes
 *   PUT_AWAY  a task opens an inner scope, and spawns into the outer one as well
 *   ON_TOP    a job that runs on top of a wait spawns into a scope that this wait waits for,
 *             above an older task of another scope, and waits itself
 *   TWICE     a job that runs on top of a wait ends a scope of its own, which takes older tasks
 *             from below, and then spawns as in ON_TOP
 *   UNDER     a guest holds a lock and ends a scope; an injected job takes that lock
 *
 * BACKGROUND workers beside the guests.
 *
 * Memory is sequentially consistent, and a step is one access to it.  An operation on a deque is
 * one step (deque.pml), and so is taking one job from a mailbox or of what was put away, and a
 * look at all the places where a waiter looks: it moves the mailbox to what was `taken`, by levels,
 * the deepest first.  It sleeps after a look that found nothing, and
 * may miss what comes after it.  A worker with nothing on its stack takes any kind of work that
 * find_work may take next, from anyone; or it misses what others have in their deques, and from
 * then on hears of mail and of injected jobs only (sleep.pml).  Parks end with a token.
 *
 * What it does not cover: memory orders; lazy forks, and the hint of tell_waiter (both only add
 * chances to go on); batches;
 * failures, signals, and the main thread's timeout; lanes; dead workers; a deque without memory;
 * guests of two pools; user code that waits for user code, but for those locks.
 *
 * A mutation, -DMUTATION=name, is what must not be left out or turned round: Spin finds each of
 * them, in the scenario that is named behind it, but those under HARMLESS. */

#define wait_anything 1      /* JOINS: a waiter takes any fork (Rayon's rule) */
#define wait_no_tag 2        /* JOINS: a waiter takes its thief's oldest fork, whatever the tag */
#define set_ignores_duty 3   /* JOINS: who sets a latch that is SLEEPING leaves no token */
#define sleep_unannounced 4  /* JOINS: a waiter parks without making the latch SLEEPING */
#define wait_no_mail 5       /* MAIL: waiters do not serve their mailboxes */
#define mail_no_token 6      /* MAIL: post_mail leaves no token */
#define mail_no_claim 7      /* MAIL: post_mail leaves a token, and wakes no idle worker */
#define scope_any 8          /* PUT_AWAY: scope_end runs whatever task is on top */
#define put_away_no_token 9  /* PUT_AWAY: put_away does not wake the owner */
#define end_no_put_away 10   /* PUT_AWAY: scope_end does not look at what was put away */
#define keeps_tasks 11       /* ON_TOP: execute_waiting puts nothing away */
#define kept_not_restored 12 /* ON_TOP: execute_waiting leaves its own `tasks_kept` behind */
#define kept_stays 13        /* TWICE: `tasks_kept` does not sink with pops below it */
#define any_level 14         /* CROWD: waits serve mail of whatever level */
#define same_level 15        /* CROWD: ... of the waiter's level and deeper */
#define level_of_root 16     /* NESTED: a fork that was stolen has level 0 */
#define scopes_flat 17       /* NESTED: each scope's mail has level 1 */
#define shallow_stays 18     /* NESTED: who waits leaves what it may not serve in the mailbox */
#define tail_sinks 19        /* TAIL: run_task goes on at its scope's level, not at the mail's */
/* As the code was at 34e86d4: nobody but thieves reaches those tasks until that job is done, and
 * their scope's owner may sleep.  Here they are put away first. */
#define tasks_under 20       /* UNDER: find_work takes an injected job on top of its own tasks */
/* As it was first drawn: a deeper scope's task may lie below a shallower one, whose job then waits
 * for mail that the deeper scope's owner does not serve.  Here spawn puts it away first. */
#define deeper_under 21      /* SINKS: spawn leaves tasks of deeper scopes below */
/* HARMLESS: who pushes leaves a token, afterwards. */
#define look_no_mail 30      /* sleep_on_latch does not look at the mailbox */
#define look_no_put_away 31  /* ... nor at what was put away */

#ifdef MUTATION
#if MUTATION == 0
#error "no such mutation"
#endif
#else
#define MUTATION 0
#endif
#define without(x) (MUTATION != x)
#define is(x) (MUTATION == x)

#if !(MAIL || NESTED || CROWD || TAIL || SINKS || TASKS || PUT_AWAY || ON_TOP || TWICE || UNDER)
#define JOINS 1
#endif
#ifndef BACKGROUND
#define BACKGROUND 2
#endif

/* ---- instructions: of a function's number, or a scope's ---- */

#define END 0       /* of a function */
#define TAKE_LOCK 1
#define DROP_LOCK 2
#define FORK 3      /* push_fork */
#define CALL 4      /* the first half of a join */
#define JOIN 5      /* fork_back; or on to WAIT, which follows */
#define WAIT 6      /* wait_for_fork */
#define OPEN 7      /* scope_begin */
#define SPAWN 8
#define SPAWN_ON 9  /* on a background worker other than this */
#define CAST 10     /* broadcast: to the mailboxes of all others */
#define CLOSE 11    /* scope_end: the owner's share */
#define SWAIT 12    /* the rest of scope_end */

/* ---- programs: which functions there are, and how deep their tree is ---- */

#define PLACES 48
#define MAX_FUNCTIONS 16
hidden byte op[PLACES], arg[PLACES], places;
hidden byte entry[MAX_FUNCTIONS]; /* where a function begins; 0: it does nothing */
hidden byte part_of[MAX_FUNCTIONS], scope_of[MAX_FUNCTIONS];
hidden byte function;
hidden short everything; /* the functions that run once */

#define DEFINE(f) function = f; entry[f] = places; everything = everything | 1 << f
#define DO(what, x) op[places] = what; arg[places] = x; places++
#define PART(what, f) part_of[f] = function; everything = everything | 1 << f; DO(what, f)
#define PART_OF_SCOPE(what, f, s) scope_of[f] = s; PART(what, f)
#define JOIN_OF(f, g) PART(FORK, g); PART(CALL, f); DO(JOIN, g); DO(WAIT, g)
#define END_SCOPE(s) DO(CLOSE, s); DO(SWAIT, s)

inline program() {
    DO(END, 0); /* what entry 0 is */
#if JOINS
#define GUESTS 2
#define DEPTH 3
    /* 1: lock (((5, 6), (7, 8)));  2: (10, (11, 12)), whose leaves lock */
    DEFINE(1); DO(TAKE_LOCK, 0); JOIN_OF(3, 4); DO(DROP_LOCK, 0); DO(END, 0);
    DEFINE(3); JOIN_OF(5, 6); DO(END, 0);
    DEFINE(4); JOIN_OF(7, 8); DO(END, 0);
    DEFINE(2); JOIN_OF(10, 9); DO(END, 0);
    DEFINE(9); JOIN_OF(11, 12); DO(END, 0);
    DEFINE(10); DO(TAKE_LOCK, 0); DO(DROP_LOCK, 0); DO(END, 0);
    entry[11] = entry[10]; entry[12] = entry[10]
#elif MAIL
#define GUESTS 1
#define DEPTH 3
    DEFINE(1); JOIN_OF(2, 3); DO(END, 0);
    DEFINE(3); JOIN_OF(4, 5); DO(END, 0);
    DEFINE(4); DO(OPEN, 1); PART_OF_SCOPE(CAST, 6, 1); END_SCOPE(1); DO(END, 0);
    DEFINE(5); DO(OPEN, 2); PART_OF_SCOPE(CAST, 7, 2); END_SCOPE(2); DO(END, 0);
    everything = everything & ~(1 << 6 | 1 << 7)
#elif NESTED
#define GUESTS 1
#define DEPTH 6
    DEFINE(1);
        DO(OPEN, 1); PART_OF_SCOPE(SPAWN_ON, 2, 1); PART_OF_SCOPE(SPAWN_ON, 3, 1);
        END_SCOPE(1); DO(END, 0);
    DEFINE(2); JOIN_OF(4, 5); DO(END, 0);
    DEFINE(5); DO(OPEN, 2); PART_OF_SCOPE(CAST, 8, 2); END_SCOPE(2); DO(END, 0);
    DEFINE(3); JOIN_OF(6, 7); DO(END, 0);
    DEFINE(7); DO(OPEN, 3); PART_OF_SCOPE(CAST, 9, 3); END_SCOPE(3); DO(END, 0);
    everything = everything & ~(1 << 8 | 1 << 9)
#elif CROWD
#define GUESTS 1
#define DEPTH 3
    DEFINE(1);
        DO(OPEN, 1); PART_OF_SCOPE(SPAWN_ON, 2, 1); PART_OF_SCOPE(SPAWN_ON, 3, 1);
        PART_OF_SCOPE(SPAWN_ON, 4, 1); END_SCOPE(1); DO(END, 0);
    DEFINE(2); JOIN_OF(5, 6); DO(END, 0);
    DEFINE(3); JOIN_OF(7, 8); DO(END, 0);
    DEFINE(4); JOIN_OF(9, 10); DO(END, 0)
#elif TAIL
#define GUESTS 1
#define DEPTH 3
    DEFINE(1);
        DO(OPEN, 1); PART_OF_SCOPE(SPAWN_ON, 2, 1); PART_OF_SCOPE(SPAWN_ON, 3, 1);
        END_SCOPE(1); DO(END, 0);
    DEFINE(2); PART_OF_SCOPE(SPAWN, 4, 1); DO(END, 0);
    DEFINE(4); JOIN_OF(5, 6); DO(END, 0);
    DEFINE(3); PART_OF_SCOPE(SPAWN, 7, 1); DO(END, 0);
    DEFINE(7); JOIN_OF(8, 9); DO(END, 0)
#elif SINKS
#define GUESTS 1
#define DEPTH 5
    DEFINE(1);
        DO(OPEN, 1); DO(OPEN, 2); PART_OF_SCOPE(SPAWN_ON, 2, 2); END_SCOPE(2); END_SCOPE(1);
        DO(END, 0);
    DEFINE(2); DO(OPEN, 3); PART_OF_SCOPE(SPAWN, 3, 3); END_SCOPE(3); DO(END, 0);
    DEFINE(3);
        PART_OF_SCOPE(SPAWN, 4, 1); PART_OF_SCOPE(SPAWN, 5, 3); PART_OF_SCOPE(SPAWN, 6, 2);
        DO(END, 0);
    DEFINE(6); JOIN_OF(7, 8); DO(END, 0);
    DEFINE(8); DO(OPEN, 4); PART_OF_SCOPE(SPAWN_ON, 9, 4); END_SCOPE(4); DO(END, 0)
#elif TASKS
#define GUESTS 2
#define DEPTH 3
    DEFINE(1);
        DO(TAKE_LOCK, 0); DO(OPEN, 1); PART_OF_SCOPE(SPAWN, 3, 1); END_SCOPE(1); DO(DROP_LOCK, 0);
        DO(END, 0);
    DEFINE(3); PART_OF_SCOPE(SPAWN, 4, 1); JOIN_OF(5, 6); PART_OF_SCOPE(SPAWN, 7, 1); DO(END, 0);
    DEFINE(2);
        DO(OPEN, 2); PART_OF_SCOPE(SPAWN, 8, 2); PART_OF_SCOPE(SPAWN, 9, 2); END_SCOPE(2);
        DO(END, 0);
    DEFINE(8); PART_OF_SCOPE(SPAWN, 10, 2); DO(END, 0);
    DEFINE(9); DO(TAKE_LOCK, 0); DO(DROP_LOCK, 0); DO(END, 0);
    entry[10] = entry[9]
#elif PUT_AWAY
#define GUESTS 1
#define DEPTH 3
    DEFINE(1); DO(OPEN, 1); PART_OF_SCOPE(SPAWN, 2, 1); END_SCOPE(1); DO(END, 0);
    DEFINE(2);
        DO(OPEN, 2);
        PART_OF_SCOPE(SPAWN, 3, 2); PART_OF_SCOPE(SPAWN, 4, 1); PART_OF_SCOPE(SPAWN, 5, 2);
        END_SCOPE(2); DO(END, 0)
#elif ON_TOP
#define GUESTS 1
#define DEPTH 6
    DEFINE(1); DO(OPEN, 1); PART_OF_SCOPE(SPAWN, 2, 1); END_SCOPE(1); DO(END, 0);
    DEFINE(2); PART_OF_SCOPE(SPAWN, 3, 1); JOIN_OF(4, 5); DO(END, 0);
    DEFINE(5); DO(OPEN, 2); JOIN_OF(6, 7); END_SCOPE(2); DO(END, 0);
    DEFINE(7); PART_OF_SCOPE(SPAWN, 8, 2); JOIN_OF(9, 10); DO(END, 0);
    DEFINE(10); JOIN_OF(11, 12); DO(END, 0)
#elif TWICE
#define GUESTS 1
#define DEPTH 5
    DEFINE(1); DO(OPEN, 1); PART_OF_SCOPE(SPAWN, 2, 1); END_SCOPE(1); DO(END, 0);
    DEFINE(2);
        PART_OF_SCOPE(SPAWN, 3, 1); PART_OF_SCOPE(SPAWN, 4, 1);
        JOIN_OF(5, 6); DO(END, 0);
    DEFINE(6); DO(OPEN, 2); PART_OF_SCOPE(SPAWN_ON, 7, 2); END_SCOPE(2); DO(END, 0);
    DEFINE(7);
        DO(OPEN, 3); PART_OF_SCOPE(SPAWN_ON, 8, 3); END_SCOPE(3);
        PART_OF_SCOPE(SPAWN, 9, 2); DO(END, 0)
#else
#define GUESTS 1
#define DEPTH 3
    DEFINE(1);
        DO(TAKE_LOCK, 0); DO(OPEN, 1); PART_OF_SCOPE(SPAWN, 2, 1); END_SCOPE(1); DO(DROP_LOCK, 0);
        DO(END, 0);
    DEFINE(2); PART_OF_SCOPE(SPAWN, 3, 1); DO(END, 0);
#define INJECTED 4
    DEFINE(INJECTED); DO(TAKE_LOCK, 0); DO(DROP_LOCK, 0); DO(END, 0)
#endif
}

#define WORKERS (BACKGROUND + GUESTS)
#define FUNCTIONS 13
#define MAX_FORKS 3
#define MAX_TASKS 4
#define MAX_SCOPES 5
#define LEVELS 3 /* of mail: 1 and 2 */

mtype = { UNSET, SLEEPING, SET }; /* CoreLatch.state; SLEEPY is in sleep.pml */

bit lock;
bit injected; /* the inbox */
byte finished;
short begun; /* functions */

/* Deques.  Of forks: the oldest first. */
byte n_forks[WORKERS], fork_job[WORKERS * MAX_FORKS], fork_tag[WORKERS * MAX_FORKS];
/* Of tasks: at `top` <= i < `bottom`. */
byte top[WORKERS], bottom[WORKERS], task[WORKERS * MAX_TASKS];

/* Sleeper: the parker, the mailbox (a set), and whether it waits for a claim. */
bit token[WORKERS], asleep[WORKERS];
short mailbox[WORKERS];
short taken[WORKERS * LEVELS]; /* Worker.mail, by level */

/* Fork: latch, thief; the latch's owner. */
mtype latch[FUNCTIONS] = UNSET;
byte thief[FUNCTIONS], forker[FUNCTIONS]; /* worker + 1 */
byte carried[FUNCTIONS];                  /* the level of the call that it belongs to */

/* Scope. */
mtype scope_latch[MAX_SCOPES] = UNSET;
byte count[MAX_SCOPES], owner[MAX_SCOPES], level_of[MAX_SCOPES];
short put_away[MAX_SCOPES]; /* a set */

/* ---- what the worker does next: `next` ---- */

#define GO 0        /* the instruction; for WAIT and SWAIT: is the latch set? */
#define LOOK 1      /* it was not: look for what may run on top */
#define SLEEP 2     /* nothing: make the latch SLEEPING */
#define LAST_LOOK 3 /* sleep_on_latch */
#define PARK 4
#define WAKE_UP 5   /* latch_wake_up */
#define SET_SCOPE 6 /* the last share was given back */
#define TELL 7      /* a job is done: the duty to wake x */
#define DONE 8      /* a job is done: execute, execute_waiting go on */
#define PUSH_AWAY 9 /* put_away task x: the push */
#define TELL_OWNER 10
#define PUSH_MAIL 11 /* to worker x */
#define POST_MAIL 12

#define OP op[at[sp - 1]]
#define ARG arg[at[sp - 1]]
#define JOB job[sp - 1]
#define LEVEL level[sp - 1]
/* Group.level: its mail's. */
#define MAIL_OF(s) (is(scopes_flat) -> 1 : level_of[s] + 1)
#define OLDEST(v) task[v * MAX_TASKS + top[v]]
#define HAS_TASKS(v) (top[v] < bottom[v])
/* Of a level deeper than l. */
#define HAS_TAKEN(l) (taken[w * LEVELS + 2] && l < 2 || taken[w * LEVELS + 1] && l < 1)
#if MUTATION == any_level
#define SERVES HAS_TAKEN(0)
#elif MUTATION == same_level
#define SERVES (LEVEL && HAS_TAKEN((LEVEL - 1)) || !LEVEL && HAS_TAKEN(0))
#elif MUTATION == tail_sinks
#define SERVES HAS_TAKEN((done[sp - 1] > 1 -> level_of[scope_of[JOB]] : LEVEL))
#else
#define SERVES HAS_TAKEN(LEVEL)
#endif
/* publish: into a scope of a lower level than the job's, with other tasks on top of the deque. */
#define SINKING (LEVEL > level_of[scope_of[ARG]] && HAS_TASKS(w) && bottom[w] > tasks_kept && \
                 scope_of[task[w * MAX_TASKS + bottom[w] - 1]] != scope_of[ARG] && \
                 without(deeper_under))
#define ON_TOP_OF_WAIT 1 /* in `kept`, added to twice the old tasks_kept */

inline begin(f) {
    assert(sp < DEPTH);
    at[sp] = entry[f];
    sp++;
    if
    :: everything & 1 << f -> assert(!(begun & 1 << f)); begun = begun | 1 << f
    :: else
    fi
}

/* execute(w, f): f, of level l, is taken from a queue. */
inline execute_at(f, l) {
    assert(!sp || l >= LEVEL);
    job[sp] = f; base = f; level[sp] = l;
#if TAIL
    mark[sp] = bottom[w]; done[sp] = 1;
#endif
    begin(f);
    next = GO
}

inline execute_fork(f) {
    execute_at(f, carried[f])
}

inline execute_task(f) {
    execute_at(f, level_of[scope_of[f]])
}

inline execute_mail(f) {
    assert(!sp || MAIL_OF(scope_of[f]) > LEVEL);
    execute_at(f, MAIL_OF(scope_of[f]))
}

/* execute_waiting(w, f). */
inline on_top_of_wait() {
    kept[sp] = 2 * tasks_kept + ON_TOP_OF_WAIT;
    tasks_kept = bottom[w]
}

/* What is in the mailbox, to what is taken. */
inline take_mailbox() {
    i = 1;
    do
    :: mailbox[w] & 1 << i ->
        x = MAIL_OF(scope_of[i]);
        mailbox[w] = mailbox[w] & ~(1 << i);
        taken[w * LEVELS + x] = taken[w * LEVELS + x] | 1 << i
    :: !(mailbox[w] & 1 << i) && mailbox[w] -> i++
    :: !mailbox[w] -> x = 0; i = 0; break
    od
}

/* While it waits. */
inline look_at_mail() {
    if
    :: mailbox[w] && without(wait_no_mail) ->
        if
        :: is(shallow_stays) ->
            i = 1;
            do
            :: mailbox[w] & 1 << i && MAIL_OF(scope_of[i]) > LEVEL -> take_mailbox(); break
            :: i < FUNCTIONS && !(mailbox[w] & 1 << i && MAIL_OF(scope_of[i]) > LEVEL) -> i++
            :: i == FUNCTIONS -> i = 0; break
            od
        :: else -> take_mailbox()
        fi
    :: else
    fi
}

/* The deepest mail. */
inline take_mail() {
    if
    :: taken[w * LEVELS + 2] -> take(taken[w * LEVELS + 2])
    :: else -> take(taken[w * LEVELS + 1])
    fi
}

/* deque_steal of victim v's forks: into f. */
inline steal_fork(v) {
    f = fork_job[v * MAX_FORKS];
    i = 1;
    do
    :: i < n_forks[v] ->
        fork_job[v * MAX_FORKS + i - 1] = fork_job[v * MAX_FORKS + i];
        fork_tag[v * MAX_FORKS + i - 1] = fork_tag[v * MAX_FORKS + i];
        i++
    :: else -> break
    od;
    i = 0;
    n_forks[v]--;
    fork_job[v * MAX_FORKS + n_forks[v]] = 0;
    fork_tag[v * MAX_FORKS + n_forks[v]] = 0;
    thief[f] = w + 1 /* run_stolen_fork */
}

/* deque_steal of victim v's tasks: into f. */
inline steal_task(v) {
    f = OLDEST(v);
    task[v * MAX_TASKS + top[v]] = 0;
    top[v]++
}

/* pop_task: into f. */
inline pop_task() {
    f = task[w * MAX_TASKS + bottom[w] - 1];
    task[w * MAX_TASKS + bottom[w] - 1] = 0;
    if
    :: top[w] == bottom[w] - 1 -> top[w]++ /* the last one: as a thief */
    :: else ->
        bottom[w]--;
        if
        :: bottom[w] < tasks_kept && without(kept_stays) -> tasks_kept = bottom[w]
        :: else
        fi
    fi
}

/* One job of a set: into f. */
inline take(set) {
    f = 1;
    do
    :: !(set & 1 << f) -> f++
    :: else -> set = set & ~(1 << f); break
    od
}

/* f runs on top of a wait for `fork`. */
inline check_below(fork) {
    i = f;
    do
    :: i == fork -> break
    :: else -> assert(i); i = part_of[i]
    od;
    i = 0
}

/* Whether there is a fork, or a task of the scope, that a thief may take. */
#define FORK_OF(v) (v != w && n_forks[v])
#define TASK_OF(v, s) (v != w && HAS_TASKS(v) && (s == 0 || scope_of[OLDEST(v)] == s))

/* steal_any, by a worker with nothing to do. */
#define ROB(v) \
    :: atomic { !HAS_TASKS(w) && FORK_OF(v) -> steal_fork(v); execute_fork(f); f = 0; goto work } \
    :: atomic { !HAS_TASKS(w) && TASK_OF(v, 0) -> steal_task(v); execute_task(f); f = 0; goto work }
/* scope_end. */
#define HELP(v) \
    :: TASK_OF(v, ARG) -> steal_task(v); execute_task(f)
/* Rayon. */
#define HELP_ANY(v) \
    :: is(wait_anything) && FORK_OF(v) -> steal_fork(v); on_top_of_wait(); execute_fork(f)

proctype Worker(byte w) {
    byte at[DEPTH], job[DEPTH], kept[DEPTH], level[DEPTH], sp;
#if TAIL
    byte mark[DEPTH], done[DEPTH]; /* run_task: the end of its tasks, and shares to give back */
#endif
    byte next, x, f, i, base, tasks_kept;

    if
    :: w >= BACKGROUND -> atomic { begin(w - BACKGROUND + 1); goto work } /* a guest's root */
    :: w < BACKGROUND -> goto end_idle
    fi;

end_idle: /* worker_main, find_work; a valid end */
    if
    :: atomic {
            mailbox[w] || HAS_TAKEN(0) ->
            take_mailbox(); take_mail(); execute_mail(f); f = 0; goto work
        }
#ifdef INJECTED
    :: atomic {
            injected && (is(tasks_under) || !HAS_TASKS(w)) ->
            injected = 0; execute_at(INJECTED, 0); goto work
        }
    :: atomic {
            injected && HAS_TASKS(w) && without(tasks_under) ->
            pop_task(); x = f; f = 0; next = PUSH_AWAY; goto work
        }
#endif
    :: atomic { HAS_TASKS(w) -> pop_task(); execute_task(f); f = 0; goto work }
    ROB(0)
    ROB(1)
#if BACKGROUND + GUESTS > 2
    ROB(2)
#endif
#if BACKGROUND + GUESTS > 3
    ROB(3)
#endif
#if BACKGROUND + GUESTS > 4
    ROB(4)
#endif
    :: atomic { !mailbox[w] && !HAS_TAKEN(0) && !injected && !HAS_TASKS(w) -> asleep[w] = 1; goto end_asleep }
    fi;
end_asleep: /* fall_asleep; a valid end */
    atomic { !asleep[w] || injected -> asleep[w] = 0; goto end_idle };

work:
    do
    /* ---- what needs no waiting ---- */
    :: atomic { next == GO && OP == TAKE_LOCK && !lock -> lock = 1; at[sp - 1]++ }
    :: atomic { next == GO && OP == DROP_LOCK -> lock = 0; at[sp - 1]++ }
    :: atomic {
            next == GO && OP == FORK ->
            forker[ARG] = w + 1;
            carried[ARG] = (is(level_of_root) -> 0 : LEVEL);
            fork_job[w * MAX_FORKS + n_forks[w]] = ARG;
            fork_tag[w * MAX_FORKS + n_forks[w]] = base;
            n_forks[w]++;
            at[sp - 1]++
        }
    :: atomic { next == GO && OP == CALL -> f = ARG; at[sp - 1]++; level[sp] = LEVEL; begin(f); f = 0 }
    :: atomic {
            next == GO && OP == JOIN ->
            if
            :: n_forks[w] ->
                n_forks[w]--;
                f = fork_job[w * MAX_FORKS + n_forks[w]];
                assert(f == ARG);
                fork_job[w * MAX_FORKS + n_forks[w]] = 0;
                fork_tag[w * MAX_FORKS + n_forks[w]] = 0;
                at[sp - 1] = at[sp - 1] + 2;
                level[sp] = LEVEL;
                begin(f); f = 0
            :: else -> at[sp - 1]++
            fi
        }
    :: atomic {
            next == GO && OP == OPEN ->
            count[ARG] = 1; owner[ARG] = w + 1; level_of[ARG] = LEVEL; at[sp - 1]++
        }
    :: atomic {
            next == GO && OP == SPAWN && SINKING ->
            pop_task(); x = f; f = 0; next = PUSH_AWAY
        }
    :: atomic {
            next == GO && OP == SPAWN && !SINKING ->
            count[scope_of[ARG]]++;
            task[w * MAX_TASKS + bottom[w]] = ARG;
            bottom[w]++;
            at[sp - 1]++
        }
    :: atomic { next == GO && OP == SPAWN_ON -> x = (w == 0 -> 1 : 0); next = PUSH_MAIL }
    :: atomic { next == GO && OP == CAST -> x = 0; next = PUSH_MAIL }
    :: atomic {
            next == PUSH_MAIL ->
            if
            :: x == BACKGROUND -> x = 0; at[sp - 1]++; next = GO
            :: x == w && x < BACKGROUND -> x++
            :: else ->
                count[scope_of[ARG]]++;
                f = (mailbox[x] == 0);
                mailbox[x] = mailbox[x] | 1 << ARG;
                if
                :: f -> next = POST_MAIL; f = 0
                :: else -> x = (OP == CAST -> x + 1 : BACKGROUND)
                fi
            fi
        }
    :: atomic {
            next == POST_MAIL ->
            if
            :: asleep[x] && without(mail_no_claim) -> asleep[x] = 0
            :: !asleep[x] && without(mail_no_token) -> token[x] = 1
            :: else
            fi;
            x = (OP == CAST -> x + 1 : BACKGROUND);
            next = PUSH_MAIL
        }
    :: atomic {
            next == GO && OP == CLOSE ->
            count[ARG]--;
            if
            :: count[ARG] == 0 -> scope_latch[ARG] = SET
            :: else
            fi;
            at[sp - 1]++
        }

    /* ---- wait_for_fork ---- */
    :: atomic {
            next == GO && OP == WAIT ->
            assert(n_forks[w] == 0);
            if
            :: latch[ARG] == SET -> at[sp - 1]++
            :: else -> next = LOOK
            fi
        }
    :: atomic {
            next == LOOK && OP == WAIT ->
            look_at_mail();
            if
            :: thief[ARG] && FORK_OF((thief[ARG] - 1)) &&
               (fork_tag[(thief[ARG] - 1) * MAX_FORKS] == ARG || is(wait_no_tag)) ->
                steal_fork((thief[ARG] - 1)); /* leapfrogging */
                if
                :: without(wait_no_tag) -> check_below(ARG)
                :: else
                fi;
                on_top_of_wait(); execute_fork(f)
            HELP_ANY(0)
            HELP_ANY(1)
#if BACKGROUND + GUESTS > 2
            HELP_ANY(2)
#endif
#if BACKGROUND + GUESTS > 3
            HELP_ANY(3)
#endif
#if BACKGROUND + GUESTS > 4
            HELP_ANY(4)
#endif
            :: SERVES && without(wait_no_mail) -> take_mail(); on_top_of_wait(); execute_mail(f)
            :: else -> next = SLEEP
            fi;
            f = 0
        }
    :: atomic {
            next == SLEEP && OP == WAIT ->
            if
            :: latch[ARG] == SET -> next = GO
            :: else ->
                if
                :: without(sleep_unannounced) -> latch[ARG] = SLEEPING
                :: else
                fi;
                next = LAST_LOOK
            fi
        }

    /* ---- scope_end ---- */
    :: atomic {
            next == GO && OP == SWAIT ->
            if
            :: scope_latch[ARG] == SET -> at[sp - 1]++
            :: else -> next = LOOK
            fi
        }
    :: atomic {
            next == LOOK && OP == SWAIT && HAS_TASKS(w) ->
            pop_task();
            if
            :: scope_of[f] == ARG || is(scope_any) -> assert(scope_of[f] == ARG); execute_task(f)
            :: else -> x = f; next = PUSH_AWAY
            fi;
            f = 0
        }
    :: atomic {
            next == LOOK && OP == SWAIT && !HAS_TASKS(w) ->
            look_at_mail();
            if
            :: put_away[ARG] && without(end_no_put_away) -> take(put_away[ARG]); execute_task(f)
            HELP(0)
            HELP(1)
#if BACKGROUND + GUESTS > 2
            HELP(2)
#endif
#if BACKGROUND + GUESTS > 3
            HELP(3)
#endif
#if BACKGROUND + GUESTS > 4
            HELP(4)
#endif
            :: SERVES && without(wait_no_mail) -> take_mail(); on_top_of_wait(); execute_mail(f)
            :: else -> next = SLEEP
            fi;
            f = 0
        }
    :: atomic {
            next == SLEEP && OP == SWAIT ->
            if
            :: scope_latch[ARG] == SET -> next = GO
            :: else -> scope_latch[ARG] = SLEEPING; next = LAST_LOOK
            fi
        }

    /* ---- sleep_on_latch ---- */
    :: atomic {
            next == LAST_LOOK ->
            if
            :: (mailbox[w] && without(look_no_mail) && without(wait_no_mail) &&
                without(shallow_stays)) ||
               (OP == SWAIT && put_away[ARG] && without(look_no_put_away) &&
                without(end_no_put_away)) -> next = WAKE_UP
            :: else -> next = PARK
            fi
        }
    :: atomic { next == PARK && token[w] -> token[w] = 0; next = WAKE_UP }
    :: atomic {
            next == WAKE_UP ->
            if
            :: OP == WAIT && latch[ARG] == SLEEPING -> latch[ARG] = UNSET
            :: OP == SWAIT && scope_latch[ARG] == SLEEPING -> scope_latch[ARG] = UNSET
            :: else
            fi;
            next = GO
        }

    /* ---- the end of a function: run_stolen_fork, run_task ---- */
    :: atomic {
            next == GO && OP == END ->
            if
            :: JOB == 0 -> next = DONE
            :: JOB && scope_of[JOB] == 0 ->
                if
                :: latch[JOB] == SLEEPING && without(set_ignores_duty) ->
                    x = forker[JOB]; next = TELL
                :: else -> next = DONE
                fi;
                latch[JOB] = SET
#if TAIL
            :: JOB && scope_of[JOB] && bottom[w] > mark[sp - 1] && HAS_TASKS(w) &&
               scope_of[task[w * MAX_TASKS + bottom[w] - 1]] == scope_of[JOB] ->
                pop_task(); /* what is on top of its deque */
                sp--;
                job[sp] = f; base = f; done[sp]++;
                begin(f); f = 0
            :: JOB && scope_of[JOB] && !(bottom[w] > mark[sp - 1] && HAS_TASKS(w) &&
               scope_of[task[w * MAX_TASKS + bottom[w] - 1]] == scope_of[JOB]) ->
                count[scope_of[JOB]] = count[scope_of[JOB]] - done[sp - 1];
#else
            :: JOB && scope_of[JOB] ->
                count[scope_of[JOB]]--;
#endif
                next = (count[scope_of[JOB]] == 0 -> SET_SCOPE : DONE)
            fi
        }
    :: atomic {
            next == SET_SCOPE ->
            if
            :: scope_latch[scope_of[JOB]] == SLEEPING && without(set_ignores_duty) ->
                x = owner[scope_of[JOB]]; next = TELL
            :: else -> next = DONE
            fi;
            scope_latch[scope_of[JOB]] = SET
        }
    :: atomic { next == TELL -> token[x - 1] = 1; x = 0; next = DONE }
    :: atomic { /* execute, execute_waiting */
            next == DONE ->
            if
            :: kept[sp - 1] && bottom[w] > tasks_kept && HAS_TASKS(w) && without(keeps_tasks) ->
                pop_task(); x = f; f = 0; next = PUSH_AWAY
            :: else ->
                if
                :: kept[sp - 1] && kept[sp - 1] / 2 < tasks_kept && without(kept_not_restored) ->
                    tasks_kept = kept[sp - 1] / 2
                :: else
                fi;
                sp--;
                at[sp] = 0; job[sp] = 0; kept[sp] = 0; level[sp] = 0;
#if TAIL
                mark[sp] = 0; done[sp] = 0;
#endif
                i = sp; base = 0;
                do
                :: i && !base -> i--; base = job[i]
                :: else -> i = 0; break
                od;
                next = GO;
                if
                :: sp -> skip
                :: !sp && w < BACKGROUND -> tasks_kept = 0; goto end_idle
                :: !sp && w >= BACKGROUND -> break
                fi
            fi
        }
    :: atomic { /* put_away: the owner is read before the push */
            next == PUSH_AWAY ->
            put_away[scope_of[x]] = put_away[scope_of[x]] | 1 << x;
            x = owner[scope_of[x]];
            next = TELL_OWNER
        }
    :: atomic {
            next == TELL_OWNER ->
            if
            :: without(put_away_no_token) -> token[x - 1] = 1
            :: else
            fi;
            x = 0; next = GO;
            if
            :: sp == 0 -> goto end_idle
            :: sp && OP == END -> next = DONE
            :: else
            fi
        }
    od;
    assert(n_forks[w] == 0 && !HAS_TASKS(w));
    finished++
}

init {
    byte n;
    atomic {
        program();
#ifdef INJECTED
        injected = 1;
#endif
        do
        :: n < WORKERS -> run Worker(n); n++
        :: else -> n = 0; break
        od
    };
    atomic {
        finished == GUESTS && !injected;
        assert(begun == everything)
    }
}
