/* What the sources under test call instead of the processor and the operating
 * system; see checker.c. */
#ifndef PB_MODEL_H
#define PB_MODEL_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#endif

/* Memory orders, in no order. */
enum { RELAXED, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST, NONE };
#define PB_ORDER_relaxed RELAXED
#define PB_ORDER_acquire ACQUIRE
#define PB_ORDER_release RELEASE
#define PB_ORDER_acq_rel ACQ_REL
#define PB_ORDER_seq_cst SEQ_CST
#define memory_order_relaxed RELAXED
#define memory_order_acquire ACQUIRE
#define memory_order_release RELEASE
#define memory_order_acq_rel ACQ_REL
#define memory_order_seq_cst SEQ_CST

enum { OP_LOAD, OP_STORE, OP_RMW, OP_CAS, OP_FENCE, OP_BARRIER, OP_SYSTEM };
enum { RMW_exchange, RMW_fetch_add, RMW_fetch_sub, RMW_fetch_or, RMW_fetch_and };

/* One atomic access in the source. */
typedef struct Site {
  const char *file;
  int line;
  const char *op;
  int kind;
  int written, written_fail; /* the orders that the source says */
  int order, fail;           /* those in force */
  int late;                  /* a store that may sink below what follows it */
  long hits;
  struct Site *next;         /* of those that were reached */
  int listed;
} Site;

/* Of a load or a read-modify-write: what was read; of a CAS: whether it succeeded. */
uint64_t model_access(Site *site, volatile void *at, int size, int rmw, uint64_t a, uint64_t b);

/* What the last CAS of this thread read. */
uint64_t model_cas_read(void);

#define PB_SITE(KIND, OP, OK, FAIL)                                            \
  ({                                                                           \
    static Site site_ = {.file = __FILE__, .line = __LINE__, .op = OP,         \
                         .kind = KIND, .written = OK, .written_fail = FAIL};   \
    &site_;                                                                    \
  })

/* The system. */
#define malloc model_malloc
#define free model_free
#define posix_memalign model_memalign
#define syscall(...) model_syscall_of(__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define model_syscall_of(n, a, b, c, d, ...)                                   \
  model_syscall(PB_SITE(OP_SYSTEM, "syscall", SEQ_CST, NONE), n, (uintptr_t)(a), (uintptr_t)(b), \
                (uintptr_t)(c), (uintptr_t)(d))
#define sched_yield() ((void)0)
#define clock_gettime model_clock_gettime

void *model_malloc(size_t);
void model_free(void *);
int model_memalign(void **, size_t, size_t);
int model_clock_gettime(int which, struct timespec *);
long model_syscall(Site *, long, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

typedef struct { int unused; } model_mutex;
int model_mutex_lock(model_mutex *);
int model_mutex_unlock(model_mutex *);
int model_cond_wait(model_mutex *cond, model_mutex *, int timed);
int model_cond_wake(model_mutex *cond, int all);
#define pthread_mutex_t model_mutex
#define pthread_cond_t model_mutex
#define pthread_mutex_init(m, a) ((void)(m), 0)
#define pthread_mutex_destroy(m) ((void)(m), 0)
#define pthread_cond_init(m, a) ((void)(m), 0)
#define pthread_cond_destroy(m) ((void)(m), 0)
#define pthread_mutex_lock model_mutex_lock
#define pthread_mutex_unlock model_mutex_unlock
#define pthread_cond_wait(c, m) model_cond_wait(c, m, 0)
#define pthread_cond_timedwait(c, m, t) model_cond_wait(c, m, 1)
#define pthread_cond_signal(c) model_cond_wake(c, 0)
#define pthread_cond_broadcast(c) model_cond_wake(c, 1)

/* The scenarios. */
enum { MAX_THREADS = 4 };

enum {
  NO_SC_ACCESSES = 1,  /* those that say seq_cst, fences aside, acquire and release */
  CXX20_SEQUENCES = 2, /* a release sequence does not go on through plain stores */
};

typedef struct {
  void (*setup)(void);
  int n_threads;
  void (*thread)(int);
  void (*final)(int finished); /* bits of the threads that ended */
  long max_states;
  int weaker; /* than C11: */
  int preemptions; /* at most; negative: as many as there are */
  int history;  /* messages of a location that are kept; 0: as many as it takes */
  int spurious; /* a futex wait may be interrupted, a condition wait may end; time passes */
  int refuses;  /* membarrier may be refused */
} Scenario;

typedef struct {
  long states, transitions, ends;
  int depth, complete, forgot;
  const char *broken; /* NULL: nothing */
  char *trace;
} Found;

void model_explore(const Scenario *, Found *);
void model_check(int holds, const char *what);
void model_note(int64_t outcome); /* of an end: collected, for litmus tests */
int64_t *model_notes(int *n);
int model_ended(void);
int model_thread(void); /* which one runs */
/* Puts another order at a site for all that follows; line 0 ends all changes.
 * `part`: 0 the order, 1 the order on failure, 2 a late store. */
void model_mutate(const char *file, int line, const char *op, int part, int order);
Site *model_sites(void);

extern int model_capacity, model_bias_after;

#endif
