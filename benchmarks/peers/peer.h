/* What tbb.cpp and openmp.c share: clock, statistics, trees, the plain versions
 * and the output.  C11 and C++17.  peers.py says what the rows mean.
 */
#ifndef PEER_H
#define PEER_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_ROUNDS 1000
#define MAX_RUNS 2000

#define DEPTH 20
#define JOINS ((1 << DEPTH) - 1)
#define FIB_OF 35
#define FIB_VALUE 9227465
#define NODES 10000000
#define SMALL_NODES 1000
#define SMALL_SUMS 2000
#define SMALL_THREADS 8
#define JOBS 200
#define IDLE_NS 20000000
#define ITERATIONS 1000
#define ITERATION_NS 700.0
#define LOOPS 200
#define TASKS 1000000

/* The compiler no longer knows what is in x. */
#define hide(x) __asm__ volatile("" : "+r"(x))

typedef void (*action)(void);

/* Exits: a result that is wrong is not worth its time. */
static inline void expect(int64_t got, int64_t wanted, const char *what)
{
    if (got != wanted) {
        fprintf(stderr, "%s gave %lld, not %lld\n", what, (long long)got, (long long)wanted);
        exit(1);
    }
}

/* ---- times ---- */

static inline double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static inline int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double least(const double *values, int n)
{
    double found = values[0];
    for (int i = 1; i < n; i++)
        if (values[i] < found)
            found = values[i];
    return found;
}

static inline double median(const double *values, int n)
{
    static double sorted[MAX_RUNS];
    memcpy(sorted, values, (size_t)n * sizeof(double));
    qsort(sorted, (size_t)n, sizeof(double), ascending);
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

/* Nanoseconds of one call: the median of so many, back to back. */
static inline double time_of(action act, int runs)
{
    static double ns[MAX_RUNS];
    for (int i = 0; i < runs; i++) {
        double start = now_ns();
        act();
        ns[i] = now_ns() - start;
    }
    return median(ns, runs);
}

/* One number for each round. */
typedef struct {
    int rounds;
    double forked[MAX_ROUNDS];
    double plain[MAX_ROUNDS];
} times;

/* Both in turn, divided by scale; the first round warms up and does not count.
 * plain may be NULL. */
static inline void in_turn(times *t, action forked, action plain, int runs, double scale)
{
    for (int round = -1; round < t->rounds; round++) {
        double f = time_of(forked, runs) / scale;
        double p = plain != NULL ? time_of(plain, runs) / scale : 0.0;
        if (round >= 0) {
            t->forked[round] = f;
            t->plain[round] = p;
        }
    }
}

/* ---- output ---- */

/* ns: what stands for all the rounds; format and the rest: more fields. */
static inline void print_row(const char *what, int threads, double ns, const double *all,
                             int rounds, const char *format, ...)
{
    va_list more;
    printf("{\"what\": \"%s\", \"threads\": %d, \"ns\": %.3f, \"ns_median\": %.3f", what,
           threads, ns, median(all, rounds));
    va_start(more, format);
    vprintf(format, more);
    va_end(more);
    printf(", \"ns_all\": [");
    for (int i = 0; i < rounds; i++)
        printf("%s%.3f", i > 0 ? ", " : "", all[i]);
    printf("]}\n");
    fflush(stdout);
}

/* The least of the forked times, with plain_ns and other fields. */
static inline void print_times(const char *what, int threads, const times *t, const char *more)
{
    print_row(what, threads, least(t->forked, t->rounds), t->forked, t->rounds,
              ", \"plain_ns\": %.3f%s", least(t->plain, t->rounds), more);
}

/* What a join costs over the plain calls. */
static inline void print_join(int threads, const times *t)
{
    static double over[MAX_ROUNDS];
    double total = least(t->forked, t->rounds), plain = least(t->plain, t->rounds);
    for (int i = 0; i < t->rounds; i++)
        over[i] = t->forked[i] - t->plain[i];
    print_row("join", threads, total - plain, over, t->rounds,
              ", \"total_ns\": %.3f, \"plain_ns\": %.3f", total, plain);
}

/* ---- join: the empty tree ---- */

static void plain_empty(unsigned depth);
static void (*volatile opaque_plain_empty)(unsigned depth) = plain_empty;

static void plain_empty(unsigned depth)
{
    if (depth > 0) {
        opaque_plain_empty(depth - 1);
        opaque_plain_empty(depth - 1);
    }
}

static inline void run_plain_empty(void)
{
    opaque_plain_empty(DEPTH);
}

/* ---- fib ---- */

static int64_t plain_fib(int n)
{
    return n < 2 ? n : plain_fib(n - 1) + plain_fib(n - 2);
}

static inline void run_plain_fib(void)
{
    int n = FIB_OF;
    hide(n);
    expect(plain_fib(n), FIB_VALUE, "the plain fib");
}

/* ---- treesum ---- */

typedef struct node {
    struct node *left;
    struct node *right;
    int64_t value;
} node;

static node *tree;
static int64_t tree_size;

/* Depth-first preorder in one array; n nodes, halved at each level, with the
 * values first, first + 1, ... */
static inline node *grow(node *at, int64_t n, int64_t first)
{
    int64_t left = (n - 1) / 2;
    if (n == 0)
        return NULL;
    at->value = first;
    at->left = grow(at + 1, left, first + 1);
    at->right = grow(at + 1 + left, n - 1 - left, first + 1 + left);
    return at;
}

static inline void plant(int64_t n)
{
    node *nodes = (node *)malloc((size_t)n * sizeof(node));
    if (nodes == NULL) {
        fprintf(stderr, "no memory for %lld nodes\n", (long long)n);
        exit(1);
    }
    tree_size = n;
    tree = grow(nodes, n, 0);
}

static inline void fell(void)
{
    free(tree);
    tree = NULL;
}

static inline void expect_sum(int64_t sum)
{
    expect(sum, tree_size * (tree_size - 1) / 2, "the sum of the tree");
}

static int64_t plain_sum(const node *at)
{
    int64_t sum = at->value;
    if (at->left != NULL)
        sum += plain_sum(at->left);
    if (at->right != NULL)
        sum += plain_sum(at->right);
    return sum;
}

static inline void run_plain_sum(void)
{
    node *root = tree;
    hide(root);
    expect_sum(plain_sum(root));
}

/* ---- parallel_for ---- */

static int steps; /* of one iteration */
static uint64_t output[ITERATIONS];

/* Each step needs the one before.  Never inlined: the loop around it must be the
 * same for all, and not be vectorised in one of them. */
static __attribute__((noinline)) uint64_t compute(uint64_t x, int n)
{
    for (int k = 0; k < n; k++)
        x = (x ^ (x >> 29)) * 0x9E3779B97F4A7C15u + (uint64_t)k;
    return x;
}

static inline void iteration(int i)
{
    output[i] = compute((uint64_t)i, steps);
}

static inline void run_plain_loop(void)
{
    for (int i = 0; i < ITERATIONS; i++)
        iteration(i);
}

/* How many steps take ITERATION_NS: a guess, corrected by the loop itself, in
 * which the processor overlaps neighbours. */
static inline void calibrate(void)
{
    steps = 300;
    for (int turn = 0; turn < 3; turn++) {
        double best = 1e18;
        for (int i = 0; i < 20; i++) {
            double took = time_of(run_plain_loop, 1);
            best = took < best ? took : best;
        }
        steps = (int)(steps * ITERATION_NS * ITERATIONS / best + 0.5);
    }
}

static inline void print_loop(int threads, const times *t)
{
    double serial = least(t->plain, t->rounds);
    for (int i = 0; i < ITERATIONS; i++)
        expect((int64_t)output[i], (int64_t)compute((uint64_t)i, steps), "an iteration");
    print_row("parallel_for", threads, least(t->forked, t->rounds), t->forked, t->rounds,
              ", \"ideal_ns\": %.3f, \"ideal_ns_median\": %.3f, \"iteration_ns\": %.1f"
              ", \"steps\": %d",
              serial / 2, median(t->plain, t->rounds) / 2, serial / ITERATIONS, steps);
}

/* ---- the command line ---- */

typedef struct {
    const char *what;
    void (*measure)(int rounds);
    int rounds; /* unless given */
} measurement;

static inline int peer_main(const char *name, const measurement *all, int argc, char **argv)
{
    if (argc == 2 || argc == 3) {
        for (const measurement *m = all; m->what != NULL; m++) {
            if (strcmp(argv[1], m->what) != 0)
                continue;
            int rounds = argc == 3 ? atoi(argv[2]) : m->rounds;
            if (rounds < 1 || rounds > MAX_ROUNDS) {
                fprintf(stderr, "%s: rounds must be from 1 to %d\n", name, MAX_ROUNDS);
                return 2;
            }
            if (m->measure != NULL)
                m->measure(rounds);
            return 0;
        }
    }
    fprintf(stderr, "usage: %s", name);
    for (const measurement *m = all; m->what != NULL; m++)
        fprintf(stderr, "%s%s", m == all ? " " : " | ", m->what);
    fprintf(stderr, " [rounds]\n");
    return 2;
}

#endif
