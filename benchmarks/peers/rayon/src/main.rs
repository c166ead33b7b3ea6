//! The rows of peers.py with Rayon.
//!
//!     rayon-peer <what> [rounds]
//!
//! A pool of n threads has n of its own; the thread outside sleeps while it waits
//! for them.  Every sum of treesum_small and every loop of parallel_for is
//! installed anew.  The job of latency and warm is spawned; that of _blocked is
//! an install of an empty closure, which puts the caller to sleep.
//!
//! With the feature join-alone it has no other rows than join: the compiler then
//! inlines more of Rayon into its only caller, and a join takes a nanosecond less.
//! peers.py takes that row from there.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

const MAX_ROUNDS: usize = 1000;

const DEPTH: u32 = 20;
const JOINS: f64 = ((1u64 << DEPTH) - 1) as f64;
const FIB_OF: u32 = 35;
const FIB_VALUE: u64 = 9_227_465;
const NODES: usize = 10_000_000;
const SMALL_NODES: usize = 1000;
const SMALL_SUMS: usize = 2000;
const SMALL_THREADS: usize = 8;
const JOBS: usize = 200;
const IDLE: Duration = Duration::from_millis(20);
const ITERATIONS: usize = 1000;
const ITERATION_NS: f64 = 700.0;
const LOOPS: usize = 200;
const TASKS: usize = 1_000_000;

// ---- times ----

fn nanoseconds(act: impl FnOnce()) -> f64 {
    let start = Instant::now();
    act();
    start.elapsed().as_secs_f64() * 1e9
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
}

/// Nanoseconds of one call: the median of so many, back to back.
fn time_of(mut act: impl FnMut(), runs: usize) -> f64 {
    let times: Vec<f64> = (0..runs).map(|_| nanoseconds(&mut act)).collect();
    median(&times)
}

/// Both in turn, each `rounds` times, after one round that warms up.
fn in_turn(
    rounds: usize,
    runs: usize,
    mut forked: impl FnMut(),
    mut plain: impl FnMut(),
) -> (Vec<f64>, Vec<f64>) {
    (0..=rounds)
        .map(|_| (time_of(&mut forked, runs), time_of(&mut plain, runs)))
        .skip(1)
        .unzip()
}

fn divided(times: Vec<f64>, scale: f64) -> Vec<f64> {
    times.into_iter().map(|t| t / scale).collect()
}

// ---- output ----

/// `ns`: what stands for all the rounds; `more`: other fields, as JSON.
fn print_row(what: &str, threads: usize, ns: f64, all: &[f64], more: &str) {
    let list: Vec<String> = all.iter().map(|t| format!("{t:.3}")).collect();
    print!(r#"{{"what": "{what}", "threads": {threads}, "ns": {ns:.3}"#);
    println!(
        r#", "ns_median": {:.3}{more}, "ns_all": [{}]}}"#,
        median(all),
        list.join(", ")
    );
}

/// The least of the forked times, with `plain_ns` and other fields.
fn print_times(what: &str, threads: usize, forked: &[f64], plain: &[f64], more: &str) {
    let more = format!(r#", "plain_ns": {:.3}{more}"#, least(plain));
    print_row(what, threads, least(forked), forked, &more);
}

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap()
}

// ---- join ----

fn empty(depth: u32) {
    if black_box(depth) > 0 {
        rayon::join(|| empty(depth - 1), || empty(depth - 1));
    }
}

/// The same shape with calls through a pointer that the compiler cannot see
/// through, like a leaf of a library.
fn plain_empty(depth: u32) {
    if black_box(depth) > 0 {
        black_box(plain_empty as fn(u32))(depth - 1);
        black_box(plain_empty as fn(u32))(depth - 1);
    }
}

fn join(rounds: usize) {
    for threads in [1, 2] {
        let pool = pool(threads);
        let (forked, plain) = in_turn(
            rounds,
            1,
            || pool.install(|| empty(DEPTH)),
            || plain_empty(black_box(DEPTH)),
        );
        let (forked, plain) = (divided(forked, JOINS), divided(plain, JOINS));
        let over: Vec<f64> = forked.iter().zip(&plain).map(|(f, p)| f - p).collect();
        let (total, plain) = (least(&forked), least(&plain));
        let more = format!(r#", "total_ns": {total:.3}, "plain_ns": {plain:.3}"#);
        print_row("join", threads, total - plain, &over, &more);
    }
}

// ---- fib ----

fn fib_of(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (first, second) = rayon::join(|| fib_of(n - 1), || fib_of(n - 2));
    first + second
}

fn plain_fib(n: u32) -> u64 {
    if n < 2 {
        u64::from(n)
    } else {
        plain_fib(n - 1) + plain_fib(n - 2)
    }
}

fn fib(rounds: usize) {
    let pool = pool(2);
    let (forked, plain) = in_turn(
        rounds,
        1,
        || assert_eq!(pool.install(|| fib_of(black_box(FIB_OF))), FIB_VALUE),
        || assert_eq!(plain_fib(black_box(FIB_OF)), FIB_VALUE),
    );
    let more = format!(r#", "value": {FIB_VALUE}"#);
    print_times("fib", 2, &forked, &plain, &more);
}

// ---- treesum ----

struct Node<'a> {
    left: Option<&'a Node<'a>>,
    right: Option<&'a Node<'a>>,
    value: i64,
}

/// The values 0, 1, ... in an array that `grow` makes a tree.
fn seeds<'a>(n: usize) -> Vec<Node<'a>> {
    (0..n as i64)
        .map(|value| Node {
            left: None,
            right: None,
            value,
        })
        .collect()
}

/// Depth-first preorder in one array, halved at each level.
fn grow<'a>(nodes: &'a mut [Node<'a>]) -> Option<&'a Node<'a>> {
    let (node, rest) = nodes.split_first_mut()?;
    let (left, right) = rest.split_at_mut(rest.len() / 2);
    node.left = grow(left);
    node.right = grow(right);
    Some(node)
}

fn sum_of(at: &Node) -> i64 {
    let (left, right) = match (at.left, at.right) {
        (Some(left), Some(right)) => rayon::join(|| sum_of(left), || sum_of(right)),
        (Some(left), None) => (sum_of(left), 0),
        (None, Some(right)) => (0, sum_of(right)),
        (None, None) => (0, 0),
    };
    at.value + left + right
}

fn plain_sum(at: &Node) -> i64 {
    at.value + at.left.map_or(0, plain_sum) + at.right.map_or(0, plain_sum)
}

/// Nanoseconds of a whole sum, with forks and plain.
fn sums(n: usize, threads: usize, rounds: usize, runs: usize) -> (Vec<f64>, Vec<f64>) {
    let mut nodes = seeds(n);
    let root = grow(&mut nodes).unwrap();
    let wanted = (n * (n - 1) / 2) as i64;
    let pool = pool(threads);
    in_turn(
        rounds,
        runs,
        || assert_eq!(pool.install(|| sum_of(black_box(root))), wanted),
        || assert_eq!(plain_sum(black_box(root)), wanted),
    )
}

fn treesum(rounds: usize) {
    for threads in [1, 2] {
        let (forked, plain) = sums(NODES, threads, rounds, 1);
        let (forked, plain) = (divided(forked, NODES as f64), divided(plain, NODES as f64));
        print_times("treesum", threads, &forked, &plain, "");
    }
}

fn treesum_small(rounds: usize) {
    let (forked, plain) = sums(SMALL_NODES, SMALL_THREADS, rounds, SMALL_SUMS);
    print_times("treesum_small", SMALL_THREADS, &forked, &plain, "");
}

// ---- latency and warm ----

/// Gives its CPU away now and then: the worker may have been woken on it.
fn spawn_and_poll(pool: &ThreadPool, done: &Arc<AtomicBool>) {
    done.store(false, Ordering::Relaxed);
    let flag = Arc::clone(done);
    pool.spawn(move || flag.store(true, Ordering::Release));
    let mut polls = 0u32;
    while !done.load(Ordering::Acquire) {
        polls = polls.wrapping_add(1);
        if polls & 63 == 0 {
            std::thread::yield_now();
        } else {
            spin_loop();
        }
    }
}

/// The median of the jobs.
fn job(mut act: impl FnMut(), idle: Option<Duration>) -> f64 {
    let mut times = Vec::with_capacity(JOBS);
    for _ in 0..JOBS {
        if let Some(idle) = idle {
            std::thread::sleep(idle);
        }
        times.push(nanoseconds(&mut act));
    }
    median(&times)
}

fn jobs(what: &str, idle: Option<Duration>, rounds: usize) {
    let pool = pool(2);
    let done = Arc::new(AtomicBool::new(false));
    let (mut polled, mut blocked) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        polled.push(job(|| spawn_and_poll(&pool, &done), idle));
        blocked.push(job(|| pool.install(|| black_box(())), idle));
    }
    print_row(what, 2, least(&polled), &polled, "");
    print_row(&format!("{what}_blocked"), 2, least(&blocked), &blocked, "");
}

// ---- parallel_for ----

/// Each step needs the one before.  Never inlined: the loop around it must be
/// the same for both, and not be vectorised in one of them.
#[inline(never)]
fn compute(mut x: u64, steps: u64) -> u64 {
    for k in 0..steps {
        x = (x ^ (x >> 29))
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .wrapping_add(k);
    }
    x
}

fn plain_loop(output: &mut [u64], steps: u64) {
    for (i, place) in output.iter_mut().enumerate() {
        *place = compute(i as u64, steps);
    }
}

/// How many steps take ITERATION_NS: a guess, corrected by the loop itself, in
/// which the processor overlaps neighbours.
fn calibrated(output: &mut [u64]) -> u64 {
    let mut steps = 300;
    for _ in 0..3 {
        let times: Vec<f64> = (0..20)
            .map(|_| nanoseconds(|| plain_loop(output, steps)))
            .collect();
        let best = least(&times) / ITERATIONS as f64;
        steps = (steps as f64 * ITERATION_NS / best).round() as u64;
    }
    steps
}

fn parallel_for(rounds: usize) {
    let (mut output, mut expected) = (vec![0; ITERATIONS], vec![0; ITERATIONS]);
    let steps = calibrated(&mut expected);
    let pool = pool(2);
    let (forked, plain) = in_turn(
        rounds,
        LOOPS,
        || {
            pool.install(|| {
                output
                    .par_iter_mut()
                    .enumerate()
                    .for_each(|(i, place)| *place = compute(i as u64, steps));
            });
        },
        || plain_loop(&mut expected, steps),
    );
    assert_eq!(output, expected);
    let serial = least(&plain);
    let more = format!(
        r#", "ideal_ns": {:.3}, "ideal_ns_median": {:.3}, "iteration_ns": {:.1}, "steps": {steps}"#,
        serial / 2.0,
        median(&plain) / 2.0,
        serial / ITERATIONS as f64
    );
    print_row("parallel_for", 2, least(&forked), &forked, &more);
}

// ---- spawn ----

fn spawn(rounds: usize) {
    let pool = pool(2);
    let spawn_all = || {
        pool.install(|| {
            rayon::scope(|scope| {
                for _ in 0..TASKS {
                    scope.spawn(|_| {});
                }
            });
        });
    };
    let (forked, _) = in_turn(rounds, 1, spawn_all, || {});
    let forked = divided(forked, TASKS as f64);
    print_row("spawn", 2, least(&forked), &forked, "");
}

// ---- the command line ----

/// peers.py says at build time which Rayon it is.
fn version() {
    let version = option_env!("PEER_RAYON").unwrap_or("Rayon");
    println!(r#"{{"what": "version", "version": "{version}"}}"#);
}

fn usage() -> ! {
    eprintln!(
        "usage: rayon-peer join | fib | treesum | treesum_small | latency | warm | \
         parallel_for | spawn | version [rounds]"
    );
    std::process::exit(2);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (what, rounds) = match arguments.as_slice() {
        [what] => (what, None),
        [what, rounds] => match rounds.parse() {
            Ok(n) if (1..=MAX_ROUNDS).contains(&n) => (what, Some(n)),
            _ => {
                eprintln!("rayon-peer: rounds must be from 1 to {MAX_ROUNDS}");
                std::process::exit(2);
            }
        },
        _ => usage(),
    };
    let few = rounds.unwrap_or(5);
    match what.as_str() {
        "join" => join(few),
        _ if cfg!(feature = "join-alone") => usage(),
        "fib" => fib(few),
        "treesum" => treesum(few),
        "treesum_small" => treesum_small(few),
        "latency" => jobs("latency", Some(IDLE), rounds.unwrap_or(1)),
        "warm" => jobs("warm", None, few),
        "parallel_for" => parallel_for(few),
        "spawn" => spawn(few),
        "version" => version(),
        _ => usage(),
    }
}
