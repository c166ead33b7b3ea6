/* The rows of peers.py with the tasks and loops of OpenMP.
 *
 *     gcc -O3 -fopenmp openmp.c -o openmp-peer
 *     ./openmp-peer <what> [rounds]
 *
 * A fork is one task; the other half runs inline, then taskwait.  Every sum of
 * treesum_small and every loop of parallel_for is a parallel region of its own.
 * latency and warm print nothing: OpenMP has no jobs from outside.
 */
#include <omp.h>

#include "peer.h"

static int threads; /* of the regions to come */

static void empty(unsigned depth)
{
    hide(depth);
    if (depth > 0) {
#pragma omp task
        empty(depth - 1);
        empty(depth - 1);
#pragma omp taskwait
    }
}

static void run_empty(void)
{
#pragma omp parallel num_threads(threads)
#pragma omp single
    empty(DEPTH);
}

static void join(int rounds)
{
    static times t;
    t.rounds = rounds;
    for (threads = 1; threads <= 2; threads++) {
        in_turn(&t, run_empty, run_plain_empty, 1, JOINS);
        print_join(threads, &t);
    }
}

static int64_t fib_of(int n)
{
    int64_t first, second;
    if (n < 2)
        return n;
#pragma omp task shared(first)
    first = fib_of(n - 1);
    second = fib_of(n - 2);
#pragma omp taskwait
    return first + second;
}

static void run_fib(void)
{
    int64_t value = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
    value = fib_of(FIB_OF);
    expect(value, FIB_VALUE, "fib");
}

static void fib(int rounds)
{
    static times t;
    char more[64];
    t.rounds = rounds;
    threads = 2;
    in_turn(&t, run_fib, run_plain_fib, 1, 1);
    snprintf(more, sizeof more, ", \"value\": %d", FIB_VALUE);
    print_times("fib", threads, &t, more);
}

static int64_t sum_of(const node *at)
{
    int64_t left = 0, right = 0;
    if (at->left != NULL && at->right != NULL) {
#pragma omp task shared(left)
        left = sum_of(at->left);
        right = sum_of(at->right);
#pragma omp taskwait
    } else if (at->left != NULL) {
        left = sum_of(at->left);
    } else if (at->right != NULL) {
        right = sum_of(at->right);
    }
    return at->value + left + right;
}

static void run_sum(void)
{
    int64_t sum = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
    sum = sum_of(tree);
    expect_sum(sum);
}

static void treesum(int rounds)
{
    static times t;
    t.rounds = rounds;
    plant(NODES);
    for (threads = 1; threads <= 2; threads++) {
        in_turn(&t, run_sum, run_plain_sum, 1, NODES);
        print_times("treesum", threads, &t, "");
    }
    fell();
}

static void treesum_small(int rounds)
{
    static times t;
    t.rounds = rounds;
    threads = SMALL_THREADS;
    plant(SMALL_NODES);
    in_turn(&t, run_sum, run_plain_sum, SMALL_SUMS, 1);
    print_times("treesum_small", threads, &t, "");
    fell();
}

static void run_loop(void)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int i = 0; i < ITERATIONS; i++)
        iteration(i);
}

static void parallel_for(int rounds)
{
    static times t;
    t.rounds = rounds;
    threads = 2;
    calibrate();
    in_turn(&t, run_loop, run_plain_loop, LOOPS, 1);
    print_loop(threads, &t);
}

static void run_spawn(void)
{
#pragma omp parallel num_threads(threads)
#pragma omp single
    {
        for (int i = 0; i < TASKS; i++) {
#pragma omp task
            __asm__ volatile("");
        }
#pragma omp taskwait
    }
}

static void spawn(int rounds)
{
    static times t;
    t.rounds = rounds;
    threads = 2;
    in_turn(&t, run_spawn, NULL, 1, TASKS);
    print_row("spawn", threads, least(t.forked, rounds), t.forked, rounds, "%s", "");
}

static void version(int rounds)
{
    (void)rounds;
    printf("{\"what\": \"version\", \"version\": \"OpenMP %d, %s %s\"}\n", _OPENMP,
#ifdef __clang__
           "Clang",
#else
           "GCC",
#endif
           __VERSION__);
}

int main(int argc, char **argv)
{
    static const measurement all[] = {
        {"join", join, 5},
        {"fib", fib, 2},
        {"treesum", treesum, 5},
        {"treesum_small", treesum_small, 5},
        {"latency", NULL, 1},
        {"warm", NULL, 5},
        {"parallel_for", parallel_for, 5},
        {"spawn", spawn, 5},
        {"version", version, 1},
        {NULL, NULL, 0},
    };
    return peer_main("openmp-peer", all, argc, argv);
}
