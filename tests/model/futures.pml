/* Waits for the futures of a scope's tasks, with broadcasts: whoever waits for a task that has
 * begun elsewhere runs parts of broadcasts of any level on top; pyblitz/runtime/pool.pyx
 * (serve_mailbox, serve_broadcasts), scope.pyx (go_deeper, run_task, scope_end, spawn_on,
 * broadcast), pyblitz/host/tasks.pyx (help_with, run_claim, run_at, wait_for).  Checked with
 * Spin: see run.py.
 *
 * What it proves, within the bounds, by visiting every state:
 *
 * - Nobody waits for ever, in these programs; there are others in which somebody does, see below.
 * - Every fork, task and letter runs once.
 * - Levels never sink on a stack, and rise with each piece of mail, but for parts of broadcasts
 *   that a wait for a future serves.  Of these a stack has one at most of each broadcast that
 *   somebody waits for.  No stack is deeper than DEPTH functions, the least number with which the
 *   program works: so letters are not on top of each other, however many there are.
 *
 * A program has no loop, and each step takes somebody on in it: a run that never ends is one that
 * gets stuck, and that Spin finds.
 *
 * The programs, by define (HELD by default).  A letter is a task of spawn_on.
 *
 *   HELD     a part of a broadcast in a broadcast joins, and one half asks for a future whose task
 *            runs in no thread of the pool; a part of another caller's broadcast broadcasts, too
 *   NESTED   parts of two callers' broadcasts broadcast, and all these ask for such a future
 *   PARTS    a scope has a task that broadcasts, and one that asks for it; so do all parts of
 *            another caller's broadcast
 *   CLAIMS   a scope has a task that joins; of two letters to one worker one asks for it, and
 *            the other joins
 *   CALLERS  parts of two callers' broadcasts join
 *   SPAWNS   a part of a broadcast joins; one half spawns a task that broadcasts, into the scope
 *            around it all, and asks for it (it takes 3 workers)
 *   LETTERS  a part of a broadcast sends two letters to one worker, which ask for such a future; a
 *            part of another caller's broadcast joins there, and one half asks for it, too
 *
 * BACKGROUND workers beside the guests, who run the roots.
 *
 * Memory is sequentially consistent.  A wait is one step that can be taken once there is something
 * to go on with: how a worker that waits sleeps, and is woken, is in waits.pml; a wait for a future
 * looks every 20 ms.  A claim is one step, and so is the end of a task: tasks.pml.  Mail of one
 * level is taken in any order, and so are tasks.
 *
 * What it does not cover: leapfrogging, which only adds chances to go on; tasks that are put away;
 * batches; failures, stops, and who asks with a time limit; guests of two pools.
 *
 * A mutation, -DMUTATION=name, is what must not be left out or turned round: Spin finds each of
 * them, in the scenarios that are named behind it, but those under HARMLESS. */

/* As the code was before b94eb08: a part on top of a wait has its own level, and hangs (HELD). */
#define no_least_level 1     /* HELD, LETTERS: serve_broadcasts leaves a part its own level */
#define no_broadcasts 2      /* PARTS: waits for futures serve mail of deeper levels only */
#define future_no_mail 3     /* PARTS: ... and none at all */
#define wait_no_mail 4       /* HELD: waits for forks and scopes serve no mail */
#define same_level 5         /* LETTERS: all waits serve mail of their own level, too */
#define letters_too 6        /* LETTERS: waits for futures serve letters of any level, too */
#define broadcasts_always 7  /* CALLERS: waits for forks and scopes serve broadcasts of any level */
#define claim_sinks 8        /* CLAIMS: who claims a task runs it at its scope's level */
#define spawn_sinks 13       /* SPAWNS: a task has its scope's level, not that of who spawned it */
#define level_of_root 9      /* HELD: a fork that was stolen has level 0 */
#define scopes_flat 10       /* HELD: each scope's mail has level 1 */
#define waits_for_self 11    /* PARTS: who asks for what is further out in its thread waits */
#define result_waits 12      /* PARTS: who asks for a task that has not begun waits for a thread */
/* Programs about which README.md, section 9, promises nothing: each of them gets stuck. */
#define fork_asks 20         /* PARTS: a part joins, and one half asks for a task that broadcasts */
#define inner_asks 22        /* PARTS: a part of a broadcast in a broadcast asks for such a task */
#define crossed 23           /* PARTS: two parts ask for such a task each, on top of the other */
/* HARMLESS: a level may be too high; such a job only serves less in its waits. */
#define least_stays 30       /* go_deeper leaves the least level for later mail */

#ifdef MUTATION
#if MUTATION == 0
#error "no such mutation"
#endif
#else
#define MUTATION 0
#endif
#define without(x) (MUTATION != x)
#define is(x) (MUTATION == x)

#if !(NESTED || PARTS || CLAIMS || CALLERS || SPAWNS || LETTERS)
#define HELD 1
#endif
#ifndef BACKGROUND
#define BACKGROUND 2
#endif

/* ---- instructions: of a function's number, or a scope's ---- */

#define END 0       /* of a function */
#define FORK 1      /* push_fork */
#define CALL 2      /* the first half of a join */
#define JOIN 3      /* fork_back; or on to WAIT, which follows */
#define WAIT 4      /* wait_for_fork */
#define OPEN 5      /* scope_begin */
#define SPAWN 6     /* a task with a future */
#define SPAWN_ON 7  /* a letter, to the first worker, or the second if this is the first */
#define CAST 8      /* broadcast: to the mailboxes of all others, and then its own part */
#define SWAIT 9     /* scope_end */
#define ASK 10      /* a future's result */
#define ONLY 11     /* another worker than this goes on at the function's end */

/* ---- programs ---- */

#define PLACES 40
#define FUNCTIONS 13
#define SCOPES 6
hidden byte op[PLACES], arg[PLACES], places;
hidden byte entry[FUNCTIONS]; /* where a function begins; 0: it does nothing */
hidden byte scope_of[FUNCTIONS];
hidden byte function;
hidden short everything; /* the functions that run once */
hidden short letters, parts, tasks, tasks_of[SCOPES];

#define DEFINE(f) function = f; entry[f] = places
#define DO(what, x) op[places] = what; arg[places] = x; places++
#define ONCE(f) everything = everything | 1 << f
#define JOIN_OF(f, g) DO(FORK, g); DO(CALL, f); DO(JOIN, g); DO(WAIT, g); ONCE(f); ONCE(g)
#define TASK_OF(f, s) \
    scope_of[f] = s; tasks = tasks | 1 << f; tasks_of[s] = tasks_of[s] | 1 << f; ONCE(f); \
    DO(SPAWN, f)
#define LETTER_OF(f, s) scope_of[f] = s; letters = letters | 1 << f; ONCE(f); DO(SPAWN_ON, f)
#define BROADCAST_OF(f, s) \
    scope_of[f] = s; parts = parts | 1 << f; DO(OPEN, s); DO(CAST, f); DO(SWAIT, s)

inline program() {
    DO(END, 0); /* what entry 0 is, and where ONLY goes on */
    ONCE(1);
#if HELD
#define GUESTS 2
#define DEPTH 3
#define ELSEWHERE 10
    ONCE(2);
    DEFINE(1); BROADCAST_OF(3, 1); DO(END, 0);
    DEFINE(3); DO(ONLY, BACKGROUND); BROADCAST_OF(4, 2); DO(END, 0);
    DEFINE(4); DO(ONLY, 0); JOIN_OF(5, 6); DO(END, 0);
    DEFINE(6); DO(ASK, ELSEWHERE); DO(END, 0);
    DEFINE(2); BROADCAST_OF(7, 3); DO(END, 0);
    DEFINE(7); DO(ONLY, 1); BROADCAST_OF(8, 4); DO(END, 0)
#elif NESTED
#define GUESTS 2
#define DEPTH 4
#define ELSEWHERE 10
    ONCE(2);
    DEFINE(1); BROADCAST_OF(3, 1); DO(END, 0);
    DEFINE(3); DO(ONLY, 1); BROADCAST_OF(4, 2); DO(END, 0);
    DEFINE(4); DO(ASK, ELSEWHERE); DO(END, 0);
    DEFINE(2); BROADCAST_OF(5, 3); DO(END, 0);
    DEFINE(5); DO(ONLY, 0); BROADCAST_OF(6, 4); DO(END, 0);
    DEFINE(6); DO(ASK, ELSEWHERE); DO(END, 0)
#elif PARTS
#define GUESTS 2
#if MUTATION < fork_asks
#define DEPTH 4
#else
#define DEPTH 6
#endif
    ONCE(2);
    DEFINE(1); DO(OPEN, 1); TASK_OF(3, 1); TASK_OF(9, 1); DO(SWAIT, 1); DO(END, 0);
    DEFINE(3); BROADCAST_OF(4, 2); DO(END, 0);
    DEFINE(2); BROADCAST_OF(5, 3); DO(END, 0);
#if MUTATION == crossed
    DEFINE(9); BROADCAST_OF(8, 4); DO(END, 0);
    DEFINE(5); DO(CALL, 6); DO(CALL, 7); DO(END, 0);
    DEFINE(6); DO(ONLY, 0); DO(ASK, 3); DO(END, 0);
    DEFINE(7); DO(ONLY, 1); DO(ASK, 9); DO(END, 0)
#else
    DEFINE(9); DO(ASK, 3); DO(END, 0);
#if MUTATION == fork_asks
    DEFINE(5); DO(ONLY, 0); JOIN_OF(6, 7); DO(END, 0);
    DEFINE(7); DO(ASK, 3); DO(END, 0)
#elif MUTATION == inner_asks
    DEFINE(5); DO(ONLY, 0); BROADCAST_OF(7, 4); DO(END, 0);
    DEFINE(7); DO(ASK, 3); DO(END, 0)
#else
    DEFINE(5); DO(ASK, 3); DO(END, 0)
#endif
#endif
#elif CLAIMS
#define GUESTS 1
#define DEPTH 3
    DEFINE(1);
        DO(OPEN, 1); TASK_OF(3, 1); LETTER_OF(4, 1); LETTER_OF(5, 1); DO(SWAIT, 1); DO(END, 0);
    DEFINE(3); JOIN_OF(6, 7); DO(END, 0);
    DEFINE(4); DO(ASK, 3); DO(END, 0);
    DEFINE(5); JOIN_OF(8, 9); DO(END, 0)
#elif CALLERS
#define GUESTS 2
#define DEPTH 2
    ONCE(2);
    DEFINE(1); BROADCAST_OF(3, 1); DO(END, 0);
    DEFINE(3); DO(ONLY, 0); JOIN_OF(5, 6); DO(END, 0);
    DEFINE(2); BROADCAST_OF(4, 2); DO(END, 0);
    DEFINE(4); DO(ONLY, 0); JOIN_OF(7, 8); DO(END, 0)
#elif SPAWNS
#define GUESTS 1
#define DEPTH 4
    DEFINE(1); DO(OPEN, 5); BROADCAST_OF(3, 1); DO(SWAIT, 5); DO(END, 0);
    DEFINE(3); DO(ONLY, 0); JOIN_OF(4, 5); DO(END, 0);
    DEFINE(5); TASK_OF(6, 5); DO(ASK, 6); DO(END, 0);
    DEFINE(6); BROADCAST_OF(7, 2); DO(END, 0)
#else
#define GUESTS 2
#define DEPTH 4
#define ELSEWHERE 10
    ONCE(2);
    DEFINE(1); BROADCAST_OF(3, 1); DO(END, 0);
    DEFINE(3);
        DO(ONLY, BACKGROUND); DO(OPEN, 2); LETTER_OF(4, 2); LETTER_OF(5, 2); DO(SWAIT, 2);
        DO(END, 0);
    DEFINE(4); DO(ASK, ELSEWHERE); DO(END, 0);
    DEFINE(5); DO(ASK, ELSEWHERE); DO(END, 0);
    DEFINE(2); BROADCAST_OF(6, 3); DO(END, 0);
    DEFINE(6); DO(ONLY, 0); JOIN_OF(7, 8); DO(END, 0);
    DEFINE(8); DO(ASK, ELSEWHERE); DO(END, 0)
#endif
}

#define WORKERS (BACKGROUND + GUESTS)
#define MAX_FORKS 2
#define LEVELS 4 /* of mail: 1 to 3 */

byte finished;
short begun; /* functions */

/* Worker.mail and the mailbox, as one, by level: sets. */
short mail[WORKERS * LEVELS];
/* Deques.  Of forks: the oldest first.  Of tasks, all together: a set. */
byte n_forks[WORKERS], fork_job[WORKERS * MAX_FORKS];
short queued;

/* Fork. */
bit latch[FUNCTIONS];
byte carried[FUNCTIONS]; /* the level of the call that it belongs to */

/* Scope: without the owner's share, which nobody but the owner counts on. */
byte count[SCOPES], level_of[SCOPES];

/* Spawned.state, and the thread that runs it. */
#define UNKNOWN 0   /* not yet spawned: nobody asks */
#define WAITS 1
#define RUNS 2
#define DONE 3
byte future[FUNCTIONS], thread[FUNCTIONS]; /* worker + 1 */
byte spawned_at[FUNCTIONS]; /* the level */

#define OP op[at[sp - 1]]
#define ARG arg[at[sp - 1]]
#define LEVEL level[sp - 1]
/* Group.level: its mail's. */
#define MAIL_OF(s) (is(scopes_flat) -> 1 : level_of[s] + 1)
#define OF_LEVEL(l) mail[w * LEVELS + l]
/* Mail of a level deeper than l. */
#define DEEPER(l) (OF_LEVEL(3) && l < 3 || OF_LEVEL(2) && l < 2 || OF_LEVEL(1) && l < 1)
#if MUTATION == same_level
#define SERVES (LEVEL && DEEPER((LEVEL - 1)) || DEEPER(LEVEL))
#else
#define SERVES DEEPER(LEVEL)
#endif
/* Mail that a wait for a future serves whatever its level. */
#define ANY_LEVEL (is(letters_too) -> letters | parts : parts)
#define BROADCASTS ((OF_LEVEL(3) | OF_LEVEL(2) | OF_LEVEL(1)) & ANY_LEVEL)
#define SINKS_BY_MUTATION (is(no_least_level) || is(claim_sinks))

/* Function f begins, at level l; as job j, or 0. */
inline begin(j, l) {
    assert(sp < DEPTH);
    job[sp] = j; level[sp] = l;
    at[sp] = entry[f];
    sp++;
    if
    :: everything & 1 << f -> assert(!(begun & 1 << f)); begun = begun | 1 << f
    :: else
    fi;
    f = 0
}

/* execute(w, f): f, of level l, is taken from a queue. */
inline execute_at(l) {
    assert(!sp || l >= LEVEL || SINKS_BY_MUTATION);
    begin(f, l)
}

/* One of `set`, any: into f. */
inline any_of_set() {
    f = 1;
    do
    :: set & 1 << f -> break
    :: set >> (f + 1) -> f++
    od;
    set = 0
}

/* The deepest mail that is among `set`: into f, and its level into x. */
inline take_mail() {
    x = 3;
    do
    :: OF_LEVEL(x) & set -> break
    :: else -> x--
    od;
    set = OF_LEVEL(x) & set;
    any_of_set();
    OF_LEVEL(x) = OF_LEVEL(x) & ~(1 << f)
}

/* go_deeper: at its level, or the least level if that is deeper; x is its level. */
inline execute_mail() {
    x = (x > least -> x : least);
    if
    :: without(least_stays) -> least = 0
    :: else
    fi;
    execute_at(x);
    x = 0
}

/* serve_mailbox */
inline serve_mailbox() {
    set = letters | parts; take_mail();
    assert(x > LEVEL || is(same_level));
    execute_mail()
}

/* serve_broadcasts */
inline serve_broadcasts() {
    set = ANY_LEVEL; take_mail();
    if
    :: without(no_least_level) -> least = LEVEL
    :: else
    fi;
    execute_mail()
}

/* deque_steal of victim v's forks: into f. */
inline steal_fork(v) {
    f = fork_job[v * MAX_FORKS];
    fork_job[v * MAX_FORKS] = fork_job[v * MAX_FORKS + 1];
    fork_job[v * MAX_FORKS + 1] = 0;
    n_forks[v]--
}

inline run_task() {
    queued = queued & ~(1 << f);
    future[f] = RUNS; thread[f] = w + 1
}

/* steal_any, by a worker with nothing to do. */
#define ROB(v) \
    :: atomic { v != w && n_forks[v] -> steal_fork(v); execute_at(carried[f]); goto work }

proctype Worker(byte w) {
    byte at[DEPTH], job[DEPTH], level[DEPTH], sp;
    byte x, f, least;
    short set;

    if
    :: w >= BACKGROUND -> /* a guest's root */
        atomic { f = w - BACKGROUND + 1; begin(0, 0); goto work }
    :: w < BACKGROUND -> goto end_idle
    fi;

end_idle: /* worker_main, find_work; a valid end */
    if
    :: atomic { DEEPER(0) -> set = letters | parts; take_mail(); execute_mail(); goto work }
    :: atomic {
            queued ->
            set = queued; any_of_set(); run_task(); execute_at(spawned_at[f]); goto work
        }
    ROB(0)
    ROB(1)
    ROB(2)
#if BACKGROUND + GUESTS > 3
    ROB(3)
#endif
#if BACKGROUND + GUESTS > 4
    ROB(4)
#endif
    fi;

work:
    do
    /* ---- what needs no waiting ---- */
    :: atomic { OP == CALL -> f = ARG; at[sp - 1]++; begin(0, LEVEL) }
    :: atomic { OP == ONLY -> at[sp - 1] = (ARG == w -> at[sp - 1] + 1 : 0) }
    :: atomic {
            OP == FORK ->
            carried[ARG] = (is(level_of_root) -> 0 : LEVEL);
            assert(n_forks[w] < MAX_FORKS);
            fork_job[w * MAX_FORKS + n_forks[w]] = ARG;
            n_forks[w]++;
            at[sp - 1]++
        }
    :: atomic {
            OP == JOIN ->
            if
            :: n_forks[w] ->
                n_forks[w]--;
                f = fork_job[w * MAX_FORKS + n_forks[w]];
                assert(f == ARG);
                fork_job[w * MAX_FORKS + n_forks[w]] = 0;
                at[sp - 1] = at[sp - 1] + 2;
                begin(0, LEVEL)
            :: else -> at[sp - 1]++
            fi
        }
    :: atomic { OP == OPEN -> level_of[ARG] = LEVEL; at[sp - 1]++ }
    :: atomic {
            OP == SPAWN ->
            count[scope_of[ARG]]++;
            queued = queued | 1 << ARG; future[ARG] = WAITS;
            spawned_at[ARG] = (is(spawn_sinks) -> level_of[scope_of[ARG]] : LEVEL);
            at[sp - 1]++
        }
    :: atomic {
            OP == SPAWN_ON || OP == CAST && x < BACKGROUND ->
            if
            :: OP == CAST && x == w -> skip
            :: else ->
                if
                :: OP == SPAWN_ON -> x = (w == 0 -> 1 : 0)
                :: else
                fi;
                f = MAIL_OF(scope_of[ARG]);
                assert(f < LEVELS);
                count[scope_of[ARG]]++;
                mail[x * LEVELS + f] = mail[x * LEVELS + f] | 1 << ARG;
                f = 0
            fi;
            if
            :: OP == CAST -> x++
            :: else -> x = 0; at[sp - 1]++
            fi
        }
    :: atomic { /* its own part */
            OP == CAST && x == BACKGROUND ->
            f = ARG; x = MAIL_OF(scope_of[f]);
            at[sp - 1]++;
            begin(0, x);
            x = 0
        }

    /* ---- wait_for_fork ---- */
    :: atomic { OP == WAIT && latch[ARG] -> assert(!n_forks[w]); at[sp - 1]++ }
    :: atomic {
            OP == WAIT && !latch[ARG] && w < BACKGROUND && SERVES && without(wait_no_mail) ->
            serve_mailbox()
        }
    :: atomic {
            OP == WAIT && !latch[ARG] && w < BACKGROUND && BROADCASTS && is(broadcasts_always) ->
            serve_broadcasts()
        }

    /* ---- scope_end ---- */
    :: atomic { OP == SWAIT && !count[ARG] -> at[sp - 1]++ }
    :: atomic {
            OP == SWAIT && count[ARG] && queued & tasks_of[ARG] ->
            set = queued & tasks_of[ARG]; any_of_set(); run_task(); execute_at(spawned_at[f])
        }
    :: atomic {
            OP == SWAIT && count[ARG] && SERVES && without(wait_no_mail) -> serve_mailbox()
        }
    :: atomic {
            OP == SWAIT && count[ARG] && BROADCASTS && is(broadcasts_always) -> serve_broadcasts()
        }

    /* ---- a future's result: help_with, wait_for ---- */
    :: atomic { OP == ASK && (future[ARG] == UNKNOWN || future[ARG] == DONE) -> at[sp - 1]++ }
    :: atomic { /* it would wait for itself: it is told so */
            OP == ASK && future[ARG] == RUNS && thread[ARG] == w + 1 && without(waits_for_self) ->
            at[sp - 1]++
        }
    :: atomic { /* run_claim */
            OP == ASK && future[ARG] == WAITS && without(result_waits) ->
            f = ARG;
            run_task();
            x = (spawned_at[f] > LEVEL || is(claim_sinks) -> spawned_at[f] : LEVEL);
            execute_at(x);
            x = 0
        }
#define BEGUN_ELSEWHERE \
    (future[ARG] == RUNS && (thread[ARG] != w + 1 || is(waits_for_self)) || \
     future[ARG] == WAITS && is(result_waits))
    :: atomic {
            OP == ASK && BEGUN_ELSEWHERE && SERVES && without(future_no_mail) -> serve_mailbox()
        }
    :: atomic {
            OP == ASK && BEGUN_ELSEWHERE && BROADCASTS && without(future_no_mail) &&
            without(no_broadcasts) -> serve_broadcasts()
        }

    /* ---- the end of a function: run_stolen_fork, run_task ---- */
    :: atomic {
            OP == END ->
            sp--;
            f = job[sp];
            at[sp] = 0; job[sp] = 0; level[sp] = 0;
            if
            :: f && scope_of[f] ->
                count[scope_of[f]]--;
                if
                :: tasks & 1 << f -> future[f] = DONE; thread[f] = 0
                :: else
                fi
            :: f && !scope_of[f] ->
                if
                :: tasks & 1 << f -> future[f] = DONE; thread[f] = 0 /* of another pool */
                :: else -> latch[f] = 1
                fi
            :: !f
            fi;
            f = 0;
            if
            :: sp -> skip
            :: !sp && w < BACKGROUND -> goto end_idle
            :: !sp && w >= BACKGROUND -> break
            fi
        }
    od;
    assert(!n_forks[w]);
    finished++
}

#ifdef ELSEWHERE
/* A thread of another pool, which has this task. */
active proctype Other() {
    if
    :: atomic { future[ELSEWHERE] == WAITS -> future[ELSEWHERE] = RUNS };
       atomic { future[ELSEWHERE] = DONE; begun = begun | 1 << ELSEWHERE }
    :: future[ELSEWHERE] > WAITS
    fi
}
#endif

init {
    byte n;
    atomic {
        program();
#ifdef ELSEWHERE
        tasks = tasks | 1 << ELSEWHERE; ONCE(ELSEWHERE); future[ELSEWHERE] = WAITS;
#endif
        do
        :: n < WORKERS -> run Worker(n); n++
        :: else -> n = 0; break
        od
    };
    atomic {
        finished == GUESTS && !queued;
        assert(begun == everything)
    }
}
