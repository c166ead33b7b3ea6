/* A model checker for C11 atomics: it runs the threads of a scenario one access
 * at a time, and visits every state that some order of the accesses, and some
 * choice of what each load reads, leads to.
 *
 * Memory is the operational form of RC11 (Lahav, Vafeiadis, Kang, Hur and
 * Dreyer, "Repairing sequential consistency in C/C++11", PLDI 2017), with views
 * as in Kang and others, "A promising semantics" (POPL 2017), without promises:
 * - Each location holds all messages (values written) that some thread may still
 *   read, in modification order.  A new one may go before others, unless the
 *   thread knows of these.
 * - Each thread has a view: of each location the oldest message that it may read,
 *   and of each thread the accesses that happen before its next.  Reading moves it
 *   on; an acquire takes over what the release left in the message.
 * - A fence that is sequentially consistent exchanges views with all others.
 * - A sequentially consistent access reads and writes no older message than the
 *   last such write and the last fences know of: so the order S of such accesses
 *   is the order of the run.  That forbids a few results that C11 allows, hence
 *   scenarios are run with such accesses taken for acquire and release, too.
 * What is not there: values that depend on themselves and loads that take place
 * after later stores (load buffering).
 *
 * All that a run consists of, stacks included, is in `w`: states are saved and
 * restored as bytes, and a hash of them says which were visited. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdio.h>
#include <ucontext.h>

#include "model.h"
#undef malloc
#undef free
#undef syscall

enum { LOCATIONS = 48, MESSAGES = 255, STACK = 16384, ARENA = 8192, SEGMENT = 1024, MUTEXES = 4 };
enum { GRANULES = ARENA / 4, SOLO = MAX_THREADS, CLOCKS = MAX_THREADS + 1, NOTES = 1 << 14 };

typedef struct {
  uint8_t at[LOCATIONS]; /* message, by its index; 0: the oldest there is */
  uint16_t clock[CLOCKS];
} View;

typedef struct {
  uint64_t value;
  View view;
  View own; /* what its writer released here, or earlier in a row of its own messages */
  uint8_t next, rank, used, writer;
  uint8_t taken; /* a read-modify-write read it and follows at once */
} Message;

typedef struct {
  volatile void *address;
  uint64_t id; /* of the address, for hashes */
  uint8_t oldest;
} Location;

typedef struct {
  Site *site;
  volatile void *address;
  uint64_t a, b;
  int64_t deadline;
  int kind, size, rmw, call, timed;
} Request;

/* What OP_SYSTEM asks for, in Request.call. */
enum { SYS_WAIT = 1, SYS_WAKE, SYS_FENCE_ALL, SYS_FENCED_ALL, SYS_LOCK, SYS_UNLOCK, SYS_COND_WAIT, SYS_COND_WAKE };
enum { READY, BLOCKED_FUTEX, BLOCKED_COND, ENDED };

typedef struct {
  ucontext_t context;
  View now, acquired, released;
  Request request, late;
  uint64_t result, cas_read;
  uint8_t status, fences, late_state; /* fences: bits of the callers that wait for one */
  int error;
} Thread;

typedef struct {
  volatile void *address;
  uint8_t held;
  View view;
} Mutex;

typedef struct {
  uint16_t wrote, read[CLOCKS];
  uint8_t writer, freed;
} Shadow;

typedef struct {
  Thread threads[MAX_THREADS];
  View solo, fences, sc;
  Location locations[LOCATIONS];
  Mutex mutexes[MUTEXES];
  int n_locations, n_messages, n_mutexes;
  int turn, preemptions; /* whose turn it is, and how many others lost theirs */
  int64_t clock; /* in ns: waits that end early or by a time-out move it on */
  uint32_t used[CLOCKS]; /* of each thread's part of the arena */
  Message messages[MESSAGES];
  Shadow shadow[GRANULES];
} World;

static World w;
static char arena[ARENA] __attribute__((aligned(128)));
static char stacks[MAX_THREADS][STACK] __attribute__((aligned(128)));
static ucontext_t scheduler;
static const Scenario *scenario;
static int running = -1; /* a thread, or SOLO, or nobody */
static int forgot;    /* messages that some thread might have read */
static int exhausted; /* some table is full: the search ends incomplete */
static const char *broken;
static char broken_text[512];

int model_capacity = 2, model_bias_after = 0;

/* ---- sites and mutations ------------------------------------------------- */

static Site *sites;
static struct { const char *file; int line; const char *op; int part, order; } changes[8];
static int n_changes;

static void set_orders(Site *s) {
  s->order = s->written;
  s->fail = s->written_fail;
  s->late = 0;
  for (int i = 0; i < n_changes; i++)
    if (changes[i].line == s->line && !strcmp(changes[i].op, s->op) && !strcmp(changes[i].file, s->file)) {
      if (changes[i].part == 0) s->order = changes[i].order;
      if (changes[i].part == 1) s->fail = changes[i].order;
      if (changes[i].part == 2) s->late = 1;
    }
}

void model_mutate(const char *file, int line, const char *op, int part, int order) {
  if (line == 0)
    n_changes = 0;
  else if (n_changes < 8) {
    changes[n_changes].file = strdup(file);
    changes[n_changes].line = line;
    changes[n_changes].op = strdup(op);
    changes[n_changes].part = part;
    changes[n_changes++].order = order;
  }
  for (Site *s = sites; s; s = s->next)
    set_orders(s);
}

Site *model_sites(void) { return sites; }

static void reach(Site *s) {
  if (!s->listed) {
    const char *within = strstr(s->file, "pyblitz/runtime/");
    s->file = within ? within : s->file;
    s->listed = 1;
    s->next = sites;
    sites = s;
    set_orders(s);
  }
  s->hits++;
}

/* ---- views --------------------------------------------------------------- */

static Message *msg(int i) { return &w.messages[i]; }
static int rank_of(const View *v, int l) { return v->at[l] ? msg(v->at[l])->rank : 0; }

static void join_locations(View *v, const View *other) {
  for (int l = 0; l < w.n_locations; l++)
    if (rank_of(other, l) > rank_of(v, l))
      v->at[l] = other->at[l];
}

static void join(View *v, const View *other) {
  join_locations(v, other);
  for (int t = 0; t < CLOCKS; t++)
    if (other->clock[t] > v->clock[t])
      v->clock[t] = other->clock[t];
}

static int acquires(int order) { return order == ACQUIRE || order == ACQ_REL || order == SEQ_CST; }
static int releases(int order) { return order == RELEASE || order == ACQ_REL || order == SEQ_CST; }
static int is_sc(int order) { return order == SEQ_CST && !(scenario->weaker & NO_SC_ACCESSES); }

static void fence(int t) {
  Thread *me = &w.threads[t];
  join(&me->now, &me->acquired);
  join_locations(&me->now, &w.fences);
  join_locations(&me->now, &w.sc);
  join_locations(&w.fences, &me->now);
  me->acquired = me->released = me->now;
  me->now.clock[t]++;
  me->acquired.clock[t]++;
}

/* ---- what breaks --------------------------------------------------------- */

static void breaks(const char *what) {
  if (!broken) {
    snprintf(broken_text, sizeof broken_text, "%s", what);
    broken = broken_text;
  }
  if (running >= 0 && running < SOLO)
    swapcontext(&w.threads[running].context, &scheduler); /* never to return */
}

void model_check(int holds, const char *what) {
  if (!holds)
    breaks(what);
}

static int in_arena(volatile const void *p) {
  return (const char *)p >= arena && (const char *)p < arena + ARENA;
}

static View *my_view(void) { return running == SOLO ? &w.solo : &w.threads[running].now; }

static void touch(volatile const void *p, int size, int writes, int atomic, const char *what) {
  char text[160];
  if (running < 0)
    return;
  if ((uintptr_t)p < 65536) {
    snprintf(text, sizeof text, "%s at NULL", what);
    breaks(text);
    return;
  }
  if (!in_arena(p)) {
    if (atomic) {
      snprintf(text, sizeof text, "%s at no atomic", what);
      breaks(text);
    }
    return;
  }
  const View *v = my_view();
  size_t first = ((const char *)p - arena) / 4, last = ((const char *)p + size - 1 - arena) / 4;
  for (size_t g = first; g <= last && g < GRANULES; g++) {
    Shadow *s = &w.shadow[g];
    const char *how = NULL;
    if (s->freed)
      how = "after free";
    else if (s->wrote > v->clock[s->writer])
      how = "races with a write";
    if (writes && !how)
      for (int t = 0; t < CLOCKS; t++)
        if (s->read[t] > v->clock[t])
          how = "races with a read";
    if (how) {
      snprintf(text, sizeof text, "%s %s", what, how);
      breaks(text);
      return;
    }
    if (writes) {
      s->writer = running;
      s->wrote = v->clock[running];
    } else {
      s->read[running] = v->clock[running];
    }
  }
}

/* gcc -fsanitize=thread calls these before each access that is not atomic. */
#define TSAN(N)                                                                \
  void __tsan_read##N(void *p) { touch(p, N, 0, 0, "a read"); }                \
  void __tsan_write##N(void *p) { touch(p, N, 1, 0, "a write"); }              \
  void __tsan_unaligned_read##N(void *p) { touch(p, N, 0, 0, "a read"); }      \
  void __tsan_unaligned_write##N(void *p) { touch(p, N, 1, 0, "a write"); }    \
  void __tsan_volatile_read##N(void *p) { (void)p; }                           \
  void __tsan_volatile_write##N(void *p) { (void)p; }
TSAN(1) TSAN(2) TSAN(4) TSAN(8) TSAN(16)
void __tsan_init(void) {}
void __tsan_func_entry(void *p) { (void)p; }
void __tsan_func_exit(void) {}
void __tsan_read_range(void *p, long n) { touch(p, (int)n, 0, 0, "a read"); }
void __tsan_write_range(void *p, long n) { touch(p, (int)n, 1, 0, "a write"); }

/* Each thread allocates from its own part, so that addresses do not depend on
 * the order of the threads; nothing is handed out twice. */
void *model_malloc(size_t size) {
  if (running < 0)
    return malloc(size);
  size_t begin = running == SOLO ? 0 : ARENA - SEGMENT * (running + 1);
  size_t limit = running == SOLO ? ARENA - SEGMENT * MAX_THREADS : SEGMENT;
  size = (size + 15) & ~(size_t)15;
  if (w.used[running] + size > limit) {
    breaks("the arena is full");
    return NULL;
  }
  char *p = arena + begin + w.used[running];
  w.used[running] += size;
  return p;
}

int model_memalign(void **p, size_t alignment, size_t size) {
  if (running >= 0)
    w.used[running] = (w.used[running] + alignment - 1) & ~(uint32_t)(alignment - 1);
  *p = model_malloc(size);
  return *p ? 0 : ENOMEM;
}

void model_free(void *p) {
  if (!in_arena(p)) {
    free(p);
    return;
  }
  /* Only its first words: every object that is freed is reached through it. */
  touch(p, 8, 1, 0, "a free");
  w.shadow[((char *)p - arena) / 4].freed = w.shadow[((char *)p - arena) / 4 + 1].freed = 1;
}

/* ---- who uses what ------------------------------------------------------- */

/* The threads that ever read and write an address, as bits.  They are learnt: a
 * search that meets one more begins again, so that the last one knew them all. */
static uint8_t readers[GRANULES], writers[GRANULES];
static int fences_all; /* membarrier is called */
static int learnt;

static size_t granule(volatile const void *p) { return ((const char *)p - arena) / 4; }

static void learn(int t, const Request *r) {
  uint8_t *who = r->kind == OP_LOAD || r->kind == OP_SYSTEM ? readers : writers;
  if (!(who[granule(r->address)] & 1 << t)) {
    who[granule(r->address)] |= 1 << t;
    learnt = 1;
  }
}

/* ---- locations ----------------------------------------------------------- */

static uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  return x ^ x >> 32;
}

static uint8_t new_message(uint64_t value) {
  for (int i = 1; i < MESSAGES; i++)
    if (!msg(i)->used) {
      memset(msg(i), 0, sizeof *msg(i));
      msg(i)->used = 1;
      msg(i)->writer = SOLO;
      msg(i)->value = value;
      if (i >= w.n_messages)
        w.n_messages = i + 1;
      return i;
    }
  exhausted = 1;
  return 1; /* whatever it is: this search tells nothing more */
}

static int location(volatile void *address, int size) {
  for (int l = 0; l < w.n_locations; l++)
    if (w.locations[l].address == address)
      return l;
  if (w.n_locations == LOCATIONS) {
    fprintf(stderr, "too many locations\n");
    abort();
  }
  Location *one = &w.locations[w.n_locations];
  one->address = address;
  one->id = mix((uint64_t)((volatile char *)address - arena) + 1);
  one->oldest = new_message(size == 4 ? *(volatile uint32_t *)address : *(volatile uint64_t *)address);
  return w.n_locations++;
}

static void renumber(int l) {
  int rank = 0;
  for (int m = w.locations[l].oldest; m; m = msg(m)->next)
    msg(m)->rank = rank++;
}

static uint64_t changed(const Request *r, uint64_t old) {
  uint64_t v = r->a;
  switch (r->rmw) {
  case RMW_fetch_add: v = old + r->a; break;
  case RMW_fetch_sub: v = old - r->a; break;
  case RMW_fetch_or: v = old | r->a; break;
  case RMW_fetch_and: v = old & r->a; break;
  }
  return r->size == 4 ? (uint32_t)v : v;
}

/* ---- one access ---------------------------------------------------------- */

/* The oldest message that an access of this order may read or follow. */
static int bound(int t, int l, int order) {
  int r = rank_of(&w.threads[t].now, l), s;
  if (is_sc(order)) {
    if ((s = rank_of(&w.fences, l)) > r) r = s;
    if ((s = rank_of(&w.sc, l)) > r) r = s;
  }
  return r;
}

static void read_from(int t, int l, int m, int order) {
  Thread *me = &w.threads[t];
  if (msg(m)->rank > rank_of(&me->now, l))
    me->now.at[l] = m;
  if (msg(m)->rank > rank_of(&me->acquired, l))
    me->acquired.at[l] = m;
  if (acquires(order))
    join(&me->now, &msg(m)->view);
  join(&me->acquired, &msg(m)->view);
}

static void write_after(int t, int l, int before, uint64_t value, int order, int is_rmw) {
  Thread *me = &w.threads[t];
  int m = new_message(value);
  msg(m)->next = msg(before)->next;
  msg(before)->next = m;
  renumber(l);
  if (is_rmw) {
    /* A release sequence goes on through read-modify-writes. */
    msg(m)->taken = 0;
    msg(before)->taken = 1;
    msg(m)->view = msg(before)->view;
  }
  me->now.at[l] = m;
  me->acquired.at[l] = m;
  View *release = releases(order) ? &me->now : &me->released;
  msg(m)->writer = t;
  msg(m)->own = *release;
  /* C11: through stores of the same thread, too. */
  if (!(scenario->weaker & CXX20_SEQUENCES) && msg(before)->writer == t)
    join(&msg(m)->own, &msg(before)->own);
  join(&msg(m)->view, &msg(m)->own);
  msg(m)->view.at[l] = m;
  msg(m)->own.at[l] = m;
  if (is_sc(order))
    w.sc.at[l] = m;
  if (releases(order)) {
    me->now.clock[t]++;
    me->acquired.clock[t]++;
  }
}

/* Alone, before and after all threads: everything is read and written last. */
static uint64_t solo(Request *r) {
  if (r->kind >= OP_FENCE)
    return 0;
  touch(r->address, r->size, 0, 1, "an access");
  int l = location(r->address, r->size), m = w.locations[l].oldest;
  while (msg(m)->next)
    m = msg(m)->next;
  uint64_t old = msg(m)->value;
  if (r->kind == OP_CAS && old != r->a)
    return 0;
  if (r->kind != OP_LOAD) {
    int n = new_message(r->kind == OP_CAS ? r->b : r->kind == OP_RMW ? changed(r, old) : r->size == 4 ? (uint32_t)r->a : r->a);
    msg(m)->next = n;
    renumber(l);
    w.solo.at[l] = n;
  }
  return r->kind == OP_CAS ? 1 : old;
}

typedef struct {
  uint8_t thread, what, message;
  uint8_t turn; /* whose turn it is then: TURN_KEPT, or a thread's, at the price of a preemption or not */
} Choice;
enum { TURN_KEPT, TURN_FREE, TURN_PREEMPTS };
enum { READ, WRITE, UPDATE, FAIL, STEP, FUTEX_STALE, FUTEX_SLEEP, TIME_OUT, INTERRUPT, ASYNC_FENCE, LATE_WRITE, WOKEN, REFUSED };

static Mutex *mutex_at(volatile void *p) {
  for (int i = 0; i < w.n_mutexes; i++)
    if (w.mutexes[i].address == p)
      return &w.mutexes[i];
  if (w.n_mutexes == MUTEXES)
    abort();
  w.mutexes[w.n_mutexes].address = p;
  return &w.mutexes[w.n_mutexes++];
}

static int choose_write(Choice *out, int n, int t, const Request *r, int what) {
  int l = location(r->address, r->size);
  int least = bound(t, l, r->site->order);
  for (int m = w.locations[l].oldest; m; m = msg(m)->next)
    if (msg(m)->rank >= least && !msg(m)->taken)
      out[n++] = (Choice){t, what, m, 0};
  return n;
}

static int choose(Choice *out, int n, int t) {
  Thread *me = &w.threads[t];
  Request *r = &me->request;
  for (int u = 0; u < MAX_THREADS; u++)
    if (me->fences & 1 << u)
      out[n++] = (Choice){t, ASYNC_FENCE, u, 0};
  if (me->late_state)
    n = choose_write(out, n, t, &me->late, LATE_WRITE);
  if (me->status == BLOCKED_FUTEX || me->status == BLOCKED_COND) {
    if (r->timed)
      out[n++] = (Choice){t, TIME_OUT, 0, 0};
    if (scenario->spurious)
      out[n++] = (Choice){t, INTERRUPT, 0, 0};
    return n;
  }
  if (me->status == ENDED)
    return n;
  /* A late store sinks below one access, and not below one of the same place. */
  if (me->late_state == 2 || (me->late_state == 1 && r->address == me->late.address))
    return n;
  int l, least;
  switch (r->kind) {
  case OP_LOAD:
    l = location(r->address, r->size);
    least = bound(t, l, r->site->order);
    for (int m = w.locations[l].oldest; m; m = msg(m)->next)
      if (msg(m)->rank >= least)
        out[n++] = (Choice){t, READ, m, 0};
    break;
  case OP_STORE:
    n = choose_write(out, n, t, r, WRITE);
    break;
  case OP_RMW:
    n = choose_write(out, n, t, r, UPDATE);
    break;
  case OP_CAS:
    l = location(r->address, r->size);
    least = bound(t, l, r->site->order);
    for (int m = w.locations[l].oldest; m; m = msg(m)->next)
      if (msg(m)->value == r->a && msg(m)->rank >= least && !msg(m)->taken)
        out[n++] = (Choice){t, UPDATE, m, 0};
    least = bound(t, l, r->site->fail);
    for (int m = w.locations[l].oldest; m; m = msg(m)->next)
      if (msg(m)->value != r->a && msg(m)->rank >= least)
        out[n++] = (Choice){t, FAIL, m, 0};
    break;
  case OP_FENCE:
  case OP_BARRIER:
    out[n++] = (Choice){t, STEP, 0, 0};
    break;
  case OP_SYSTEM:
    switch (r->call) {
    case SYS_WAIT:
      /* The kernel fences, compares and puts to sleep in one step: it holds the
       * lock of the queue, which a waker takes after its own fence. */
      l = location(r->address, 4);
      least = bound(t, l, RELAXED);
      if (rank_of(&me->acquired, l) > least) least = rank_of(&me->acquired, l);
      if (rank_of(&w.fences, l) > least) least = rank_of(&w.fences, l);
      if (rank_of(&w.sc, l) > least) least = rank_of(&w.sc, l);
      for (int m = w.locations[l].oldest; m; m = msg(m)->next)
        if (msg(m)->rank >= least)
          out[n++] = (Choice){t, msg(m)->value == r->a ? FUTEX_SLEEP : FUTEX_STALE, m, 0};
      break;
    case SYS_FENCE_ALL:
      out[n++] = (Choice){t, STEP, 0, 0};
      if (scenario->refuses)
        out[n++] = (Choice){t, REFUSED, 0, 0};
      break;
    case SYS_FENCED_ALL:
      for (int u = 0; u < scenario->n_threads; u++)
        if (w.threads[u].fences & 1 << t)
          return n;
      out[n++] = (Choice){t, STEP, 0, 0};
      break;
    case SYS_LOCK:
      if (!mutex_at(r->address)->held)
        out[n++] = (Choice){t, STEP, 0, 0};
      break;
    case SYS_WAKE:
    case SYS_COND_WAKE: {
      int any = 0;
      for (int u = 0; u < scenario->n_threads && !r->b; u++)
        if (w.threads[u].status == (r->call == SYS_WAKE ? BLOCKED_FUTEX : BLOCKED_COND) && w.threads[u].request.address == r->address) {
          out[n++] = (Choice){t, WOKEN, u, 0};
          any = 1;
        }
      if (!any)
        out[n++] = (Choice){t, STEP, 0, 0};
      break;
    }
    default:
      out[n++] = (Choice){t, STEP, 0, 0};
    }
  }
  return n;
}

/* Whether it is enough to go on with this thread, for what it does next commutes
 * with all that others may do meanwhile:
 * - it reads what no other thread writes: always its own last message;
 * - it writes what no other thread writes: whoever would have read before may
 *   still read the older message.  Not where membarrier is called: of a write
 *   and a fence from elsewhere, both orders matter. */
static int goes_first(int t) {
  const Thread *me = &w.threads[t];
  const Request *r = &me->request;
  if (me->status != READY || me->late_state || r->kind > OP_STORE)
    return 0;
  size_t g = granule(r->address);
  if ((writers[g] | (r->kind == OP_STORE ? 1 << t : 0)) & ~(1 << t))
    return 0;
  return r->kind == OP_LOAD || !(readers[g] & ~(1 << t)) || (!is_sc(r->site->order) && !fences_all);
}

static int of_system(const Choice *c) {
  return c->what == ASYNC_FENCE || c->what == LATE_WRITE || c->what == TIME_OUT || c->what == INTERRUPT;
}

static int choose_all(Choice *out) {
  int n = 0, goes_on = 0, kept = 0;
  for (int t = 0; t < scenario->n_threads; t++)
    if (goes_first(t) && !w.threads[t].fences)
      return choose(out, 0, t);
  for (int t = 0; t < scenario->n_threads; t++)
    n = choose(out, n, t);
  if (scenario->preemptions < 0)
    return n;
  for (int i = 0; i < n; i++)
    goes_on |= !of_system(&out[i]) && out[i].thread == w.turn;
  for (int i = 0; i < n; i++) {
    Choice c = out[i];
    c.turn = of_system(&c) || c.thread == w.turn ? TURN_KEPT : goes_on ? TURN_PREEMPTS : TURN_FREE;
    if (c.turn != TURN_PREEMPTS || w.preemptions < scenario->preemptions)
      out[kept++] = c;
  }
  return kept;
}

static void run_thread(int t) {
  running = t;
  swapcontext(&scheduler, &w.threads[t].context);
  running = -1;
}

static void wake_waiter(int u, uint64_t result, int error) {
  Thread *one = &w.threads[u];
  if (one->status == BLOCKED_COND) {
    /* Takes the mutex again; result is what the wait returns. */
    one->request.call = SYS_LOCK;
    one->request.address = (volatile void *)one->request.a;
    one->request.b = result;
  } else {
    one->request.call = SYS_WAKE; /* a step that does nothing more */
    one->request.address = NULL;
    one->request.a = result;
    one->request.rmw = error;
    one->request.b = 1;
  }
  one->request.timed = 0;
  one->status = READY;
}

/* Makes the choice; the thread then runs to its next access.  False when it is
 * still where it was. */
static void apply(Choice c) {
  int t = c.thread, l;
  Thread *me = &w.threads[t];
  Request *r = &me->request;
  Site *s = r->site;
  Mutex *m;
  if (c.turn != TURN_KEPT) {
    w.turn = t;
    w.preemptions += c.turn == TURN_PREEMPTS;
  }
  switch (c.what) {
  case ASYNC_FENCE:
    fence(t);
    me->fences &= ~(1 << c.message);
    return;
  case LATE_WRITE:
    l = location(me->late.address, me->late.size);
    write_after(t, l, c.message, me->late.a, RELAXED, 0);
    memset(&me->late, 0, sizeof me->late);
    me->late_state = 0;
    return;
  case TIME_OUT:
    if (scenario->spurious && w.clock < r->deadline)
      w.clock = r->deadline;
    wake_waiter(t, me->status == BLOCKED_FUTEX ? (uint64_t)-1 : ETIMEDOUT, ETIMEDOUT);
    return;
  case INTERRUPT:
    /* In no time, once there were some: the search is to end. */
    if (r->timed && w.clock + 1 < r->deadline && w.clock < 8)
      w.clock++;
    wake_waiter(t, me->status == BLOCKED_FUTEX ? (uint64_t)-1 : 0, EINTR);
    return;
  }
  if (r->kind <= OP_CAS || r->call == SYS_WAIT)
    learn(t, r);
  if (r->kind == OP_SYSTEM && r->call == SYS_FENCE_ALL && !fences_all)
    fences_all = learnt = 1;
  if (r->kind <= OP_CAS) {
    running = t;
    touch(r->address, r->size, 0, 1, "an access");
    running = -1;
    if (broken)
      return;
  }
  me->result = 0;
  me->error = 0;
  switch (c.what) {
  case READ:
    l = location(r->address, r->size);
    read_from(t, l, c.message, s->order);
    me->result = msg(c.message)->value;
    break;
  case WRITE:
    l = location(r->address, r->size);
    write_after(t, l, c.message, r->size == 4 ? (uint32_t)r->a : r->a, s->order, 0);
    break;
  case UPDATE:
    l = location(r->address, r->size);
    read_from(t, l, c.message, s->order);
    me->result = r->kind == OP_CAS ? 1 : msg(c.message)->value;
    write_after(t, l, c.message, r->kind == OP_CAS ? r->b : changed(r, msg(c.message)->value), s->order, 1);
    break;
  case FAIL:
    l = location(r->address, r->size);
    read_from(t, l, c.message, s->fail);
    me->cas_read = msg(c.message)->value;
    break;
  case FUTEX_STALE:
  case FUTEX_SLEEP:
    fence(t);
    read_from(t, location(r->address, 4), c.message, RELAXED);
    me->result = (uint64_t)-1;
    me->error = EAGAIN;
    if (c.what == FUTEX_SLEEP) {
      me->status = BLOCKED_FUTEX;
      return;
    }
    break;
  case REFUSED:
    me->result = (uint64_t)-1;
    me->error = EPERM;
    break;
  case WOKEN:
    if (r->call == SYS_WAKE)
      fence(t);
    wake_waiter(c.message, 0, 0);
    break;
  case STEP:
    if (r->kind == OP_FENCE && s->order != NONE)
      fence(t);
    if (r->kind != OP_SYSTEM)
      break;
    switch (r->call) {
    case SYS_WAKE:
      if (r->b) { /* woken */
        me->result = r->a;
        me->error = (int)r->rmw;
        break;
      }
      fence(t);
      break;
    case SYS_FENCE_ALL:
      fence(t);
      for (int u = 0; u < scenario->n_threads; u++)
        if (u != t && w.threads[u].status != ENDED)
          w.threads[u].fences |= 1 << t;
      r->call = SYS_FENCED_ALL;
      return;
    case SYS_FENCED_ALL:
      fence(t);
      break;
    case SYS_LOCK:
      m = mutex_at(r->address);
      m->held = 1;
      join(&me->now, &m->view);
      join(&me->acquired, &m->view);
      me->result = r->b;
      break;
    case SYS_UNLOCK:
    case SYS_COND_WAIT:
      m = mutex_at(r->call == SYS_UNLOCK ? r->address : (volatile void *)r->a);
      m->held = 0;
      m->view = me->now;
      me->now.clock[t]++;
      me->acquired.clock[t]++;
      if (r->call == SYS_COND_WAIT) {
        me->status = BLOCKED_COND;
        return;
      }
      break;
    case SYS_COND_WAKE:
      if (r->b)
        for (int u = 0; u < scenario->n_threads; u++)
          if (w.threads[u].status == BLOCKED_COND && w.threads[u].request.address == r->address)
            wake_waiter(u, 0, 0);
      break;
    }
  }
  if (me->late_state == 1)
    me->late_state = 2;
  run_thread(t);
}

/* ---- what the threads call ------------------------------------------------- */

static uint64_t ask(Request r) {
  if (running == SOLO)
    return solo(&r);
  Thread *me = &w.threads[running];
  me->request = r;
  swapcontext(&me->context, &scheduler);
  return me->result;
}

uint64_t model_access(Site *site, volatile void *at, int size, int rmw, uint64_t a, uint64_t b) {
  if (running < 0)
    return 0;
  reach(site);
  Request r = {.site = site, .address = at, .size = size, .rmw = rmw, .kind = site->kind,
               .a = size == 4 ? (uint32_t)a : a, .b = size == 4 ? (uint32_t)b : b};
  if (site->kind == OP_BARRIER || (site->kind == OP_FENCE && site->order == NONE))
    return 0;
  if (site->kind <= OP_CAS && (uintptr_t)at < 65536) {
    touch(at, size, 0, 1, "an access");
    return 0;
  }
  if (site->kind <= OP_CAS && !in_arena(at)) {
    touch(at, size, 0, 1, "an access");
    return 0;
  }
  if (site->late && site->kind == OP_STORE && running != SOLO && !w.threads[running].late_state) {
    w.threads[running].late = r;
    w.threads[running].late_state = 1;
    return 0;
  }
  return ask(r);
}

uint64_t model_cas_read(void) {
  return running >= 0 && running < SOLO ? w.threads[running].cas_read : 0;
}

long model_syscall(Site *site, long number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d) {
  if (running < 0)
    return 0;
#ifdef SYS_membarrier
  if (number == SYS_membarrier)
    site->op = "membarrier";
#endif
  reach(site);
  Request r = {.site = site, .kind = OP_SYSTEM};
#ifdef SYS_membarrier
  if (number == SYS_membarrier) {
    if (a != 1 << 3 || site->order == NONE)
      return 0;
    r.call = SYS_FENCE_ALL;
  }
#endif
#ifdef SYS_futex
  if (number == SYS_futex) {
    r.address = (volatile void *)a;
    const struct timespec *limit = (const struct timespec *)d;
    switch (b) {
    case FUTEX_WAKE_PRIVATE:
      r.call = SYS_WAKE;
      break;
    case FUTEX_WAIT_PRIVATE: /* a span */
    case FUTEX_WAIT_BITSET_PRIVATE: /* a moment of CLOCK_MONOTONIC */
      r.call = SYS_WAIT;
      r.timed = limit != NULL;
      if (limit)
        r.deadline = limit->tv_sec * 1000000000 + limit->tv_nsec + (b == FUTEX_WAIT_PRIVATE ? w.clock : 0);
    }
    r.a = c;
  }
#endif
  if (!r.call)
    breaks("a system call that the checker does not know");
  if (running == SOLO)
    return 0;
  Thread *me = &w.threads[running];
  ask(r);
  errno = me->error;
  return (long)me->result;
}

int model_clock_gettime(int which, struct timespec *t) {
  t->tv_sec = which == CLOCK_MONOTONIC ? 0 : 1000000; /* no other clock is near it */
  t->tv_nsec = w.clock;
  return 0;
}

static Site system_site = {.file = "pthread", .op = "mutex", .kind = OP_SYSTEM};

static int system_call(int call, void *p, uint64_t a, uint64_t b, int timed) {
  if (running < 0 || running == SOLO)
    return 0;
  return (int)ask((Request){.site = &system_site, .kind = OP_SYSTEM, .call = call, .address = p, .a = a, .b = b, .timed = timed});
}
int model_mutex_lock(model_mutex *m) { return system_call(SYS_LOCK, m, 0, 0, 0); }
int model_mutex_unlock(model_mutex *m) { return system_call(SYS_UNLOCK, m, 0, 0, 0); }
int model_cond_wait(model_mutex *c, model_mutex *m, int timed) {
  return system_call(SYS_COND_WAIT, c, (uintptr_t)m, 0, timed);
}
int model_cond_wake(model_mutex *c, int all) { return system_call(SYS_COND_WAKE, c, 0, all, 0); }

/* ---- states -------------------------------------------------------------- */

static uintptr_t stack_pointer(const ucontext_t *c) {
#if defined(__x86_64__)
  return (uintptr_t)c->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
  return (uintptr_t)c->uc_mcontext.sp;
#else
#error "where is the stack pointer?"
#endif
}

static uint64_t hash_bytes(const void *p, size_t n) {
  const char *c = p;
  uint64_t h = n * 0x9e3779b97f4a7c15u, x;
  for (; n >= 8; n -= 8, c += 8) {
    memcpy(&x, c, 8);
    h = (h ^ x) * 0xd6e8feb86659fd93u;
    h ^= h >> 29;
  }
  x = 0;
  memcpy(&x, c, n);
  return mix(h ^ x);
}

static uint8_t live[LOCATIONS]; /* with more than one message */
static int n_live;

static uint64_t hash_view(const View *v) {
  uint64_t h = hash_bytes(v->clock, sizeof v->clock);
  for (int i = 0; i < n_live; i++)
    if (v->at[live[i]])
      h += (w.locations[live[i]].id ^ rank_of(v, live[i])) * 0xd6e8feb86659fd93u;
  return mix(h);
}

static uint64_t hash_world(void) {
  uint64_t h = hash_view(&w.fences) + 3 * hash_view(&w.sc);
  h += (uint64_t)(w.turn << 8 | w.preemptions) * 0x9e3779b97f4a7c15u + mix((uint64_t)w.clock + 1);
  for (int t = 0; t < scenario->n_threads; t++) {
    Thread *one = &w.threads[t];
    uint64_t g = one->status | one->fences << 8 | one->late_state << 16;
    if (one->status != ENDED) {
      uintptr_t sp = stack_pointer(&one->context);
      g = mix(g ^ hash_bytes((void *)sp, (uintptr_t)(stacks[t] + STACK) - sp));
#if defined(__x86_64__)
      static const int saved[] = {REG_RBX, REG_RBP, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
      for (int i = 0; i < 7; i++)
        g = mix(g ^ (uint64_t)one->context.uc_mcontext.gregs[saved[i]]);
#else
      g = mix(g ^ hash_bytes(&one->context.uc_mcontext.regs[19], 12 * 8));
#endif
      g = mix(g + hash_view(&one->now));
      g = mix(g + hash_view(&one->acquired));
      g = mix(g + hash_view(&one->released));
      g = mix(g ^ hash_bytes(&one->request, sizeof one->request));
      g = mix(g ^ hash_bytes(&one->late, sizeof one->late));
      g = mix(g ^ one->result ^ mix(one->cas_read) ^ (uint64_t)one->error << 32);
    }
    h = mix(h + g + (uint64_t)t);
  }
  for (int l = 0; l < w.n_locations; l++) {
    uint64_t g = w.locations[l].id;
    for (int m = w.locations[l].oldest; m; m = msg(m)->next)
      g = mix(g + msg(m)->value * 5 + msg(m)->taken + 64 * msg(m)->writer + mix(hash_view(&msg(m)->view)) + 7 * hash_view(&msg(m)->own));
    h += g;
  }
  for (int i = 0; i < w.n_mutexes; i++)
    h += mix((uintptr_t)w.mutexes[i].address ^ mix(w.mutexes[i].held + 2 * hash_view(&w.mutexes[i].view)));
  h = mix(h);
  for (int t = 0; t < CLOCKS; t++) {
    size_t begin = t == SOLO ? 0 : ARENA - SEGMENT * (t + 1);
    h = mix(h + hash_bytes(arena + begin, w.used[t]));
    h = mix(h + hash_bytes(&w.shadow[begin / 4], w.used[t] / 4 * sizeof(Shadow)));
  }
  return h;
}

#define ALL_VIEWS(V, DO)                                                       \
  do {                                                                         \
    View *V;                                                                   \
    for (int t_ = 0; t_ < scenario->n_threads; t_++) {                         \
      V = &w.threads[t_].now; DO;                                              \
      V = &w.threads[t_].acquired; DO;                                         \
      V = &w.threads[t_].released; DO;                                         \
    }                                                                          \
    V = &w.fences; DO;                                                         \
    V = &w.sc; DO;                                                             \
    for (int i_ = 0; i_ < w.n_mutexes; i_++) { V = &w.mutexes[i_].view; DO; }  \
    for (int m_ = 1; m_ < w.n_messages; m_++)                                  \
      if (msg(m_)->used) { V = &msg(m_)->view; DO; V = &msg(m_)->own; DO; }                           \
  } while (0)

#define EACH_SHADOW(S, DO)                                                     \
  for (int c_ = 0; c_ < CLOCKS; c_++) {                                        \
    Shadow *S = &w.shadow[(c_ == SOLO ? 0 : ARENA - SEGMENT * (c_ + 1)) / 4];  \
    for (Shadow *end_ = S + w.used[c_] / 4; S < end_; S++)                     \
      DO                                                                       \
  }

/* Forgets what no thread can tell any more, so that equal states look equal. */
static void tidy(void) {
  for (int l = 0; l < w.n_locations; l++) {
    int least = 255, users = readers[granule(w.locations[l].address)] | writers[granule(w.locations[l].address)];
    for (int t = 0; t < scenario->n_threads; t++)
      if (w.threads[t].status != ENDED && (users & 1 << t) && rank_of(&w.threads[t].now, l) < least)
        least = rank_of(&w.threads[t].now, l);
    int last = w.locations[l].oldest, all = 1;
    while (msg(last)->next)
      last = msg(last)->next, all++;
    if (least == 255)
      least = all - 1;
    if (scenario->history && all - least > scenario->history)
      least = all - scenario->history, forgot = 1;
    if (least == 0)
      continue;
    int floor = w.locations[l].oldest;
    while (msg(floor)->rank < least)
      floor = msg(floor)->next;
    ALL_VIEWS(v, if (v->at[l] && msg(v->at[l])->rank <= least) v->at[l] = 0);
    for (int m = w.locations[l].oldest, next; m != floor; m = next) {
      next = msg(m)->next;
      msg(m)->used = 0;
    }
    w.locations[l].oldest = floor;
    renumber(l);
  }
  while (w.n_messages > 1 && !msg(w.n_messages - 1)->used)
    w.n_messages--;
  n_live = 0;
  for (int l = 0; l < w.n_locations; l++)
    if (msg(w.locations[l].oldest)->next)
      live[n_live++] = l;
  /* Clocks are only compared: each is renamed to its place among those in use. */
  for (int t = 0; t < scenario->n_threads; t++) {
    static uint16_t to[65536];
    int last = w.threads[t].now.clock[t];
    if (last < 8)
      continue;
    memset(to, 0, (last + 2) * sizeof *to);
    ALL_VIEWS(v, to[v->clock[t]] = 1);
    EACH_SHADOW(s, {
      if (s->writer == t) to[s->wrote] = 1;
      to[s->read[t]] = 1;
    });
    int n = 0;
    to[0] = 0;
    for (int i = 1; i <= last; i++)
      if (to[i])
        to[i] = ++n;
    ALL_VIEWS(v, v->clock[t] = to[v->clock[t]]);
    EACH_SHADOW(s, {
      if (s->writer == t) s->wrote = to[s->wrote];
      s->read[t] = to[s->read[t]];
    });
  }
}

typedef struct {
  char *bytes;
  size_t size;
} Saved;

static size_t solo_used;
static size_t world_head(void) { return offsetof(World, messages); }

/* The parts that are in use, one after the other. */
static void each_part(void (*part)(void *, size_t, void *), void *to) {
  part(&w, world_head(), to);
  part(w.messages, w.n_messages * sizeof(Message), to);
  for (int t = 0; t < CLOCKS; t++) {
    size_t begin = t == SOLO ? 0 : ARENA - SEGMENT * (t + 1);
    part(arena + begin, w.used[t], to);
    part(&w.shadow[begin / 4], w.used[t] / 4 * sizeof(Shadow), to);
  }
  for (int t = 0; t < scenario->n_threads; t++)
    if (w.threads[t].status != ENDED) {
      uintptr_t sp = stack_pointer(&w.threads[t].context) - 128;
      part((void *)sp, (uintptr_t)(stacks[t] + STACK) - sp, to);
    }
}
static void add_size(void *p, size_t n, void *to) { (void)p; *(size_t *)to += n; }
static void put(void *p, size_t n, void *to) { memcpy(*(char **)to, p, n); *(char **)to += n; }
static void get(void *p, size_t n, void *to) { memcpy(p, *(char **)to, n); *(char **)to += n; }

static void save(Saved *s) {
  size_t size = 0;
  each_part(add_size, &size);
  if (size > s->size) {
    s->bytes = realloc(s->bytes, size);
    s->size = size;
  }
  char *p = s->bytes;
  each_part(put, &p);
}

static void restore(const Saved *s) {
  for (int t = 0; t < CLOCKS; t++) { /* of the state that is left */
    size_t begin = t == SOLO ? 0 : ARENA - SEGMENT * (t + 1);
    if (t != SOLO) {
      memset(arena + begin, 0, w.used[t]);
      memset(&w.shadow[begin / 4], 0, w.used[t] / 4 * sizeof(Shadow));
    }
  }
  for (int m = 1; m < w.n_messages; m++)
    msg(m)->used = 0;
  char *p = s->bytes;
  each_part(get, &p);
}

static uint64_t *seen;
static size_t seen_size, seen_used;

static int visited(uint64_t h) {
  if (h == 0)
    h = 1;
  if (2 * seen_used >= seen_size) {
    size_t old_size = seen_size;
    uint64_t *old = seen;
    seen_size = old_size ? 2 * old_size : 1 << 16;
    seen = calloc(seen_size, 8);
    for (size_t i = 0; i < old_size; i++)
      if (old[i]) {
        size_t j = old[i] & (seen_size - 1);
        while (seen[j]) j = (j + 1) & (seen_size - 1);
        seen[j] = old[i];
      }
    free(old);
  }
  size_t j = h & (seen_size - 1);
  while (seen[j]) {
    if (seen[j] == h)
      return 1;
    j = (j + 1) & (seen_size - 1);
  }
  seen[j] = h;
  seen_used++;
  return 0;
}

/* ---- exploring ----------------------------------------------------------- */

enum { CHOICES = 48, DEPTH = 4000 };
typedef struct {
  Saved saved;
  Choice choices[CHOICES];
  int n, i;
} Frame;
static Frame *frames;

static int64_t notes[NOTES];
static int n_notes;
void model_note(int64_t outcome) {
  for (int i = 0; i < n_notes; i++)
    if (notes[i] == outcome)
      return;
  if (n_notes < NOTES)
    notes[n_notes++] = outcome;
}
int64_t *model_notes(int *n) { *n = n_notes; return notes; }

static int ended_bits(void) {
  int bits = 0;
  for (int t = 0; t < scenario->n_threads; t++)
    bits |= (w.threads[t].status == ENDED) << t;
  return bits;
}
int model_ended(void) { return ended_bits(); }
int model_thread(void) { return running; }

static void thread_main(int t) {
  scenario->thread(t);
  w.threads[t].status = ENDED;
  memset(&w.threads[t].request, 0, sizeof(Request));
  swapcontext(&w.threads[t].context, &scheduler);
}

static void describe(char **out, size_t *left, Choice c) {
  static const char *const names[] = {"reads", "writes", "updates", "fails", "", "does not sleep", "sleeps",
                                      "times out", "is interrupted", "fenced by membarrier", "late store", "wakes", "is refused"};
  static const char *const calls[] = {"", "futex wait", "futex wake", "membarrier", "membarrier ends", "lock", "unlock",
                                      "condition wait", "condition wake"};
  Thread *me = &w.threads[c.thread];
  Request *r = c.what == LATE_WRITE ? &me->late : &me->request;
  const char *file = r->site ? r->site->file : "";
  const char *base = strrchr(file, '/');
  int n = snprintf(*out, *left, "thread %d  %s:%d  %s %s", c.thread, base ? base + 1 : file,
                   r->site ? r->site->line : 0, r->kind == OP_SYSTEM ? calls[r->call] : r->site ? r->site->op : "",
                   names[c.what]);
  *out += n, *left -= n;
  if (c.what == READ || c.what == UPDATE || c.what == FAIL || c.what == FUTEX_SLEEP || c.what == FUTEX_STALE) {
    int behind = 0;
    for (int m = msg(c.message)->next; m; m = msg(m)->next)
      behind++;
    n = snprintf(*out, *left, " %#llx%s", (unsigned long long)msg(c.message)->value,
                 behind ? " (not the newest)" : "");
    *out += n, *left -= n;
  }
  if (c.what == WRITE || c.what == LATE_WRITE) {
    n = snprintf(*out, *left, " %#llx", (unsigned long long)r->a);
    *out += n, *left -= n;
  }
  if (c.what == WOKEN) {
    n = snprintf(*out, *left, " thread %d", c.message);
    *out += n, *left -= n;
  }
  n = snprintf(*out, *left, "\n");
  *out += n, *left -= n;
}

static char *tell(int depth) {
  size_t left = 1 << 18;
  char *text = malloc(left), *out = text;
  *text = 0;
  for (int d = 0; d < depth && left > 1024; d++) {
    restore(&frames[d].saved);
    describe(&out, &left, frames[d].choices[frames[d].i - 1]);
  }
  return text;
}

void model_explore(const Scenario *what, Found *found) {
  memset(found, 0, sizeof *found);
  scenario = what;
  memset(readers, 0, sizeof readers);
  memset(writers, 0, sizeof writers);
  fences_all = 0;
again:
  broken = NULL;
  exhausted = learnt = forgot = 0;
  n_notes = 0;
  found->ends = found->transitions = found->depth = 0;
  free(seen);
  seen = NULL;
  seen_size = seen_used = 0;
  memset(&w, 0, sizeof w);
  memset(arena, 0, sizeof arena);
  memset(stacks, 0, sizeof stacks);
  if (!frames)
    frames = calloc(DEPTH, sizeof *frames);
  w.n_messages = 1;
  w.turn = -1;
  running = SOLO;
  w.solo.clock[SOLO] = 1;
  what->setup();
  solo_used = w.used[SOLO];
  running = -1;
  for (int t = 0; t < what->n_threads; t++) {
    Thread *one = &w.threads[t];
    one->now = w.solo;
    one->now.clock[t] = 1;
    one->acquired = one->now;
    one->released = w.solo;
    getcontext(&one->context);
    one->context.uc_stack.ss_sp = stacks[t];
    one->context.uc_stack.ss_size = STACK;
    one->context.uc_link = &scheduler;
    makecontext(&one->context, (void (*)(void))thread_main, 1, t);
    run_thread(t);
  }
  int depth = 0;
  found->complete = 1;
  if (!broken) {
    tidy();
    visited(hash_world());
    save(&frames[0].saved);
    frames[0].i = 0;
    frames[0].n = choose_all(frames[0].choices);
    depth = 1;
  }
  while (depth > 0 && !broken) {
    Frame *f = &frames[depth - 1];
    if (f->i == f->n) {
      depth--;
      continue;
    }
    if (depth > found->depth)
      found->depth = depth;
    restore(&f->saved);
    found->transitions++;
    apply(f->choices[f->i++]);
    if (broken)
      break;
    if (learnt)
      goto again;
    tidy();
    if (visited(hash_world()))
      continue;
    if ((long)seen_used > what->max_states || depth == DEPTH || exhausted) {
      found->complete = 0;
      break;
    }
    Frame *next = &frames[depth];
    int left = 0; /* a state where nobody but a timer goes on is an end, too */
    next->i = 0;
    next->n = choose_all(next->choices);
    if (next->n > CHOICES - 8) {
      fprintf(stderr, "too many choices\n");
      abort();
    }
    for (int i = 0; i < next->n; i++)
      left |= next->choices[i].what != TIME_OUT && next->choices[i].what != INTERRUPT;
    save(&next->saved);
    if (!left) {
      int ended = ended_bits();
      found->ends++;
      running = SOLO;
      for (int t = 0; t < what->n_threads; t++)
        for (int u = 0; u < CLOCKS; u++)
          if (w.threads[t].now.clock[u] > w.solo.clock[u])
            w.solo.clock[u] = w.threads[t].now.clock[u];
      what->final(ended);
      running = -1;
      restore(&next->saved);
      if (broken)
        break;
    }
    depth++;
  }
  found->states = (long)seen_used;
  found->forgot = forgot;
  if (broken) {
    found->broken = broken;
    found->trace = tell(depth);
  }
}
