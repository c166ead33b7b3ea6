//! The rows of benchmarks/join.py with Rayon, on the same machine: prints one
//! JSON object per row, `{"what": ..., "threads": ..., "ns": ...}`.
//!
//!     rayon-peer [join | latency | warm]...      (all three without arguments)
//!
//! - `join`: a full binary tree of empty leaves, 20 levels of `rayon::join`, in
//!   pools of 1 and 2 threads.  `ns` is the time of one join over that of the two
//!   calls of the plain recursion of the same shape; `total_ns` and `plain_ns`
//!   are the two as measured.
//! - `latency`: from `spawn` in a thread outside a pool of 2 threads until the
//!   job has set a flag that the thread polls, giving its CPU away now and then;
//!   the pool has had nothing to do for 20 ms and sleeps.  `latency_blocked` is
//!   the same with `install`, which puts the caller to sleep.  Medians of 200.
//! - `warm`: the same, back to back.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

const DEPTH: u32 = 20;
const JOINS: f64 = ((1u64 << DEPTH) - 1) as f64;
const ROUNDS: usize = 5;
const JOBS: usize = 200;
const IDLE: Duration = Duration::from_millis(20);

fn forked(depth: u32) {
    if black_box(depth) > 0 {
        rayon::join(|| forked(depth - 1), || forked(depth - 1));
    }
}

/// Called through a pointer that the compiler cannot see through, like a leaf of
/// a library.
fn plain(this: fn(u32), depth: u32) {
    if black_box(depth) > 0 {
        black_box(this)(depth - 1);
        black_box(this)(depth - 1);
    }
}

fn plain_tree(depth: u32) {
    plain(plain_tree, depth);
}

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap()
}

fn nanoseconds(f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_secs_f64() * 1e9
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn join() {
    for threads in [1, 2] {
        let pool = pool(threads);
        let (mut with_join, mut without) = (Vec::new(), Vec::new());
        // Interleaved; the first round warms up.
        for round in 0..=ROUNDS {
            let w = pool.install(|| nanoseconds(|| forked(DEPTH)));
            let p = nanoseconds(|| plain_tree(black_box(DEPTH)));
            if round > 0 {
                with_join.push(w / JOINS);
                without.push(p / JOINS);
            }
        }
        let (total, plain) = (least(&with_join), least(&without));
        println!(
            r#"{{"what": "join", "threads": {threads}, "ns": {:.3}, "total_ns": {total:.3}, "plain_ns": {plain:.3}}}"#,
            total - plain
        );
    }
}

fn spawn_once(pool: &ThreadPool, done: &Arc<AtomicBool>) {
    done.store(false, Ordering::Relaxed);
    let flag = Arc::clone(done);
    pool.spawn(move || flag.store(true, Ordering::Release));
    let mut polls = 0u32;
    while !done.load(Ordering::Acquire) {
        polls += 1;
        if polls & 63 == 0 {
            std::thread::yield_now();
        } else {
            spin_loop();
        }
    }
}

fn latency(what: &str, idle: Option<Duration>) {
    let pool = pool(2);
    let done = Arc::new(AtomicBool::new(false));
    let (mut spawned, mut installed) = (Vec::new(), Vec::new());
    for _ in 0..JOBS {
        if let Some(idle) = idle {
            std::thread::sleep(idle);
        }
        spawned.push(nanoseconds(|| spawn_once(&pool, &done)));
    }
    for _ in 0..JOBS {
        if let Some(idle) = idle {
            std::thread::sleep(idle);
        }
        installed.push(nanoseconds(|| pool.install(|| black_box(()))));
    }
    for (suffix, times) in [("", spawned), ("_blocked", installed)] {
        println!(
            r#"{{"what": "{what}{suffix}", "threads": 2, "ns": {:.0}}}"#,
            median(times)
        );
    }
}

fn main() {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted.is_empty() {
        wanted = ["join", "latency", "warm"].map(String::from).to_vec();
    }
    for what in wanted {
        match what.as_str() {
            "join" => join(),
            "latency" => latency("latency", Some(IDLE)),
            "warm" => latency("warm", None),
            _ => {
                eprintln!("rayon-peer: join, latency or warm, not {what:?}");
                std::process::exit(2);
            }
        }
    }
}
