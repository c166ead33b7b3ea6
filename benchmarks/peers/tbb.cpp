/* The rows of peers.py with oneTBB.
 *
 *     g++ -O3 -std=c++17 tbb.cpp -o tbb-peer -ltbb
 *     ./tbb-peer <what> [rounds]
 *
 * A pool of n threads is an arena of n with one worker less: the thread outside
 * works in it while it waits.  Every sum of treesum_small and every loop of
 * parallel_for enters the arena anew.  The job of latency and warm is enqueued,
 * since execute would run it on the caller; _blocked sleeps on a semaphore.
 */
#include <atomic>
#include <cerrno>
#include <optional>
#include <string>

#include <sched.h>
#include <semaphore.h>

#include <oneapi/tbb.h>
#include <oneapi/tbb/version.h>

#include "peer.h"

namespace {

/* A pool, and the context of all its forks: parallel_invoke is quicker with one
 * that is there than with one of its own for each fork. */
struct pool {
    explicit pool(int threads)
        : limit(tbb::global_control::max_allowed_parallelism, std::size_t(threads)),
          arena(threads)
    {
    }

    tbb::global_control limit;
    tbb::task_arena arena;
    tbb::task_group_context context;
};

std::optional<pool> current;

template <typename First, typename Second>
void fork(First first, Second second)
{
    tbb::parallel_invoke(first, second, current->context);
}

void empty(unsigned depth)
{
    hide(depth);
    if (depth > 0)
        fork([=] { empty(depth - 1); }, [=] { empty(depth - 1); });
}

void run_empty()
{
    current->arena.execute([] { empty(DEPTH); });
}

void join(int rounds)
{
    static times t;
    t.rounds = rounds;
    for (int threads = 1; threads <= 2; threads++) {
        current.emplace(threads);
        in_turn(&t, run_empty, run_plain_empty, 1, JOINS);
        print_join(threads, &t);
    }
}

std::int64_t fib_of(int n)
{
    std::int64_t first, second;
    if (n < 2)
        return n;
    fork([&first, n] { first = fib_of(n - 1); }, [&second, n] { second = fib_of(n - 2); });
    return first + second;
}

void run_fib()
{
    expect(current->arena.execute([] { return fib_of(FIB_OF); }), FIB_VALUE, "fib");
}

void fib(int rounds)
{
    static times t;
    t.rounds = rounds;
    current.emplace(2);
    in_turn(&t, run_fib, run_plain_fib, 1, 1);
    print_times("fib", 2, &t, (", \"value\": " + std::to_string(FIB_VALUE)).c_str());
}

std::int64_t sum_of(const node *at)
{
    std::int64_t left = 0, right = 0;
    if (at->left != nullptr && at->right != nullptr)
        fork([&left, at] { left = sum_of(at->left); }, [&right, at] { right = sum_of(at->right); });
    else if (at->left != nullptr)
        left = sum_of(at->left);
    else if (at->right != nullptr)
        right = sum_of(at->right);
    return at->value + left + right;
}

void run_sum()
{
    expect_sum(current->arena.execute([] { return sum_of(tree); }));
}

void treesum(int rounds)
{
    static times t;
    t.rounds = rounds;
    plant(NODES);
    for (int threads = 1; threads <= 2; threads++) {
        current.emplace(threads);
        in_turn(&t, run_sum, run_plain_sum, 1, NODES);
        print_times("treesum", threads, &t, "");
    }
    fell();
}

void treesum_small(int rounds)
{
    static times t;
    t.rounds = rounds;
    plant(SMALL_NODES);
    current.emplace(SMALL_THREADS);
    in_turn(&t, run_sum, run_plain_sum, SMALL_SUMS, 1);
    print_times("treesum_small", SMALL_THREADS, &t, "");
    fell();
}

std::atomic<bool> flag;
sem_t done;

/* Gives its CPU away now and then: the worker may have been woken on it. */
void enqueue_and_poll()
{
    unsigned polls = 0;
    flag.store(false, std::memory_order_relaxed);
    current->arena.enqueue([] { flag.store(true, std::memory_order_release); });
    while (!flag.load(std::memory_order_acquire)) {
        if (++polls % 64 == 0)
            sched_yield();
        else
            tbb::detail::machine_pause(1);
    }
}

void enqueue_and_block()
{
    current->arena.enqueue([] { sem_post(&done); });
    while (sem_wait(&done) != 0 && errno == EINTR) {
    }
}

double job(action act, bool idle)
{
    static double ns[JOBS];
    const timespec pause = {0, IDLE_NS};
    for (double &took : ns) {
        if (idle)
            nanosleep(&pause, nullptr);
        took = time_of(act, 1);
    }
    return median(ns, JOBS);
}

void jobs(const char *what, bool idle, int rounds)
{
    static double polled[MAX_ROUNDS], blocked[MAX_ROUNDS];
    current.emplace(2);
    sem_init(&done, 0, 0);
    enqueue_and_block(); // starts the thread
    for (int round = 0; round < rounds; round++) {
        polled[round] = job(enqueue_and_poll, idle);
        blocked[round] = job(enqueue_and_block, idle);
    }
    sem_destroy(&done);
    print_row(what, 2, least(polled, rounds), polled, rounds, "%s", "");
    print_row((what + std::string("_blocked")).c_str(), 2, least(blocked, rounds), blocked,
              rounds, "%s", "");
}

void latency(int rounds)
{
    jobs("latency", true, rounds);
}

void warm(int rounds)
{
    jobs("warm", false, rounds);
}

void run_loop()
{
    current->arena.execute([] { tbb::parallel_for(0, ITERATIONS, iteration); });
}

void parallel_for(int rounds)
{
    static times t;
    t.rounds = rounds;
    calibrate();
    current.emplace(2);
    in_turn(&t, run_loop, run_plain_loop, LOOPS, 1);
    print_loop(2, &t);
}

void run_spawn()
{
    current->arena.execute([] {
        tbb::task_group group;
        for (int i = 0; i < TASKS; i++)
            group.run([] {});
        group.wait();
    });
}

void spawn(int rounds)
{
    static times t;
    t.rounds = rounds;
    current.emplace(2);
    in_turn(&t, run_spawn, nullptr, 1, TASKS);
    print_row("spawn", 2, least(t.forked, rounds), t.forked, rounds, "%s", "");
}

void version(int)
{
    std::printf("{\"what\": \"version\", \"version\": \"oneTBB %s\"}\n", TBB_runtime_version());
}

} // namespace

int main(int argc, char **argv)
{
    static const measurement all[] = {
        {"join", join, 5},
        {"fib", fib, 5},
        {"treesum", treesum, 5},
        {"treesum_small", treesum_small, 5},
        {"latency", latency, 1},
        {"warm", warm, 5},
        {"parallel_for", parallel_for, 5},
        {"spawn", spawn, 5},
        {"version", version, 1},
        {nullptr, nullptr, 0},
    };
    return peer_main("tbb-peer", all, argc, argv);
}
