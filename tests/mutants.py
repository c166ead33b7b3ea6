"""Breaks the package in some hundred places, one after another, and runs the tests that are to
notice.  By hand, not as a part of the tests:

    python tests/mutants.py [-j 2] [--only WORD ...] [--results FILE] [--directory EMPTY]

Each mutation is one exact text in one file and what stands there instead; none is equivalent:
each makes some documented result wrong, or some documented work not done.  It is built alone,
in a copy of this tree with everything that is already built there.  A mutation whose text is
no longer there (or more than once) makes the list wrong, not the tests: it is reported as
such, and the exit code says so.  A run that does not end counts as caught.

Each worker prints a line for each mutation as it is known, and the table comes at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 400  # for the tests of one mutation: more than any of them takes


class Mutation(NamedTuple):
    name: str
    file: str  # in pyblitz
    text: str  # exactly once there
    instead: str
    tests: str  # files in tests, with a blank between them


MUTATIONS = [
    # ---- runtime
    Mutation(
        "deque: grows into the wrong cells",
        "runtime/deque.pyx",
        "to = &ring_cells(r)[i & r.mask]",
        "to = &ring_cells(r)[i & d.mask]",
        "runtime/test_deque.py",
    ),
    Mutation(
        "deque: the last job is taken twice",
        "runtime/deque.pyx",
        "mine = t == b and i64_cas_seq_cst(&d.top, t, t + 1)",
        "mine = t == b",
        "runtime/test_deque.py",
    ),
    Mutation(
        "bridge: leaves begin anywhere",
        "runtime/bridge.pxd",
        "return lo + grain * (((hi - lo + grain - 1) // grain + 1) >> 1)",
        "return lo + ((hi - lo + 1) >> 1)",
        "runtime/test_bridge.py test_reduce.py",
    ),
    Mutation(
        "bridge: the first failure in time stays",
        "runtime/bridge.pyx",
        "if f.at <= at:",
        "if True:",
        "runtime/test_bridge.py test_failures.py",
    ),
    Mutation(
        "bridge: no failure at the limit",
        "runtime/bridge.pyx",
        "if f.at <= at:",
        "if f.at < at:",
        "runtime/test_bridge.py",
    ),
    Mutation(
        "bridge: one item too many is announced",
        "runtime/bridge.pyx",
        "i64_fetch_add_relaxed(&b.progress.total, n)",
        "i64_fetch_add_relaxed(&b.progress.total, n + 1)",
        "test_progress.py",
    ),
    Mutation(
        "bridge: what was timed does not matter",
        "runtime/bridge.pyx",
        "if took < b.leaf_ns / 2:",
        "if took < 0:",
        "runtime/test_bridge.py",
    ),
    Mutation(
        "bridge: what takes long begins alone",
        "runtime/bridge.pyx",
        "        w.sharing = is_somebody_awake(w)\n",
        "        pass\n",
        "runtime/test_bridge.py",
    ),
    Mutation(
        "bridge: what may take no time is shared at once",
        "runtime/bridge.pyx",
        "if b.least_ns >= SHARE_AT_ONCE_NS and not sharing:",
        "if not sharing:",
        "runtime/test_bridge.py",
    ),
    Mutation(
        "join: the second half after a failure",
        "runtime/join.pyx",
        "return ra if ra else (<fork_fn>f.lazy.fn)(w, f.lazy.ctx)",
        "return (<fork_fn>f.lazy.fn)(w, f.lazy.ctx)",
        "runtime/test_join.py",
    ),
    Mutation(
        "join: the exception stays with the thief",
        "runtime/join.pyx",
        "f.error = hooks().capture() if f.rc == -1 else NULL\n    chaos",
        "f.error = NULL\n    chaos",
        "runtime/test_join.py",
    ),
    Mutation(
        "join: a lazy fork waits for ever",
        "runtime/join.pyx",
        "if now - f.waiting_since >= enough:",
        "if now < f.waiting_since:",
        "runtime/test_lazy.py",
    ),
    Mutation(
        "join: any fork may be joined at any time",
        "runtime/join.pyx",
        "or not take_published(f)):\n        return -1",
        "or not take_published(f)):\n        return 0",
        "runtime/test_lazy.py test_capi.py",
    ),
    Mutation(
        "scope: tasks begin after a failure",
        "runtime/scope.pyx",
        "    if i64_load_acquire(&s.limit):\n        rc = fn(w, ctx)",
        "    if True:\n        rc = fn(w, ctx)",
        "runtime/test_scope.py",
    ),
    Mutation(
        "scope: the second half of a batch has one context",
        "runtime/scope.pyx",
        "right.stride = task.stride",
        "right.stride = 0",
        "runtime/test_batch.py runtime/test_scope.py",
    ),
    Mutation(
        "scope: a broadcast comes to its own thread twice",
        "runtime/scope.pyx",
        "if not (w.background and i == w.index) and not send(",
        "if not send(",
        "runtime/test_scope.py test_tasks.py",
    ),
    Mutation(
        "sleep: no thread is kept",
        "runtime/sleep.pyx",
        "park(&me.parker, s.retire_ns if i >= s.keep else -1)",
        "park(&me.parker, s.retire_ns)",
        "runtime/test_sleep.py test_threadpool.py",
    ),
    Mutation(
        "sleep: a wake is not counted",
        "runtime/sleep.pyx",
        "    add_one(&one.stats.wakes)\n",
        "",
        "test_stats.py",
    ),
    Mutation(
        "pool: what is bound to a worker comes last",
        "runtime/pool.pyx",
        "if turn & 1 == 0:",
        "if turn > 3:",
        "runtime/test_pool.py runtime/test_lane.py",
    ),
    Mutation(
        "pool: mail waits for the lanes",
        "runtime/pool.pyx",
        "cdef Job* job = take_bound(w) if w.searches & 2 else take_mail(w, 0)",
        "cdef Job* job = take_bound(w)",
        "runtime/test_pool.py runtime/test_lane.py",
    ),
    Mutation(
        "lane: never another lane's turn",
        "runtime/lane.pyx",
        "while turn < LANE_TURN or not w.background:",
        "while True:",
        "runtime/test_lane.py test_tasks.py",
    ),
    Mutation(
        "lane: all lanes have one owner",
        "runtime/lane.pyx",
        "owner = <int>(i % <uint64_t>p.n_background)",
        "owner = 0",
        "runtime/test_lane.py test_tasks.py",
    ),
    Mutation(
        "stats: only the last stretch of time",
        "runtime/stats.pyx",
        "i64_store_release(total, spent + now - begin)",
        "i64_store_release(total, now - begin)",
        "test_stats.py",
    ),
    # Those of what was found by reading: depth, lateness, crowds, inputs that others write.
    Mutation(
        "pool: mail is served on top of any wait",
        "runtime/pool.pyx",
        "    cdef Job* job = take_mail(w, mail_level(w))\n    while job != NULL:\n"
        "        execute_waiting(w, job)\n        job = take_mail(w, mail_level(w))\n",
        "    cdef Job* job = take_mail(w, 0)\n    while job != NULL:\n"
        "        execute_waiting(w, job)\n        job = take_mail(w, 0)\n",
        "runtime/test_depth.py",
    ),
    Mutation(
        "pool: all broadcasts are served on top of a fork's wait",
        "runtime/pool.pyx",
        "        execute_waiting(w, job)\n        job = take_mail(w, mail_level(w))\n",
        "        execute_waiting(w, job)\n        job = take_mail(w, mail_level(w))\n"
        "    serve_broadcasts(w)\n",
        "runtime/test_depth.py",
    ),
    Mutation(
        "os: a wait begins anew with each signal",
        "runtime/os.h",
        "    timeout_ns += pb_now_ns();\n"
        "    until.tv_sec = timeout_ns / 1000000000;\n"
        "    until.tv_nsec = timeout_ns % 1000000000;\n"
        "    limit = &until;\n"
        "  }\n"
        "  for (;;) {\n"
        "    long rc = syscall(SYS_futex, &p->state, FUTEX_WAIT_BITSET_PRIVATE, PB_PARKED,\n",
        "    until.tv_sec = timeout_ns / 1000000000;\n"
        "    until.tv_nsec = timeout_ns % 1000000000;\n"
        "    limit = &until;\n"
        "  }\n"
        "  for (;;) {\n"
        "    long rc = syscall(SYS_futex, &p->state, FUTEX_WAIT_PRIVATE, PB_PARKED,\n",
        "test_cancel.py",
    ),
    Mutation(
        "pool: without threads jobs run on top of each other",
        "runtime/pool.pyx",
        "        if w.queued == NULL:\n            w.queued = job\n"
        "        else:\n            w.last_queued.next = job\n"
        "        w.last_queued = job\n        return\n",
        "        execute(w, job)\n        return\n",
        "runtime/test_depth.py",
    ),
    Mutation(
        "bridge: of two failures without memory the second is forgotten",
        "runtime/bridge.pyx",
        "        lower_limit(&b.lost, at)\n",
        "        pass\n",
        "test_containers.py",
    ),
    Mutation(
        "pool: whether a thread has begun is not asked",
        "runtime/pool.pyx",
        "    if not b.began:\n        i64_fetch_sub",
        "    if False:\n        i64_fetch_sub",
        "test_containers.py",
    ),
    Mutation(
        "pool: a wait that was told to stop looks after no signal",
        "runtime/pool.pyx",
        "if w.poll_at != 0 and now >= w.poll_at:",
        "if why == GO_ON and w.poll_at != 0 and now >= w.poll_at:",
        "test_cancel.py",
    ),
    Mutation(
        "pool: orphans run under the GIL",
        "runtime/pool.pyx",
        "    held = hooks().let_go()\n    error = hooks().capture()\n",
        "    held = NULL\n    error = hooks().capture()\n",
        "runtime/test_depth.py",
    ),
    Mutation(
        "threads: who asks for one job runs all",
        "host/threadpool.pyx",
        "while ran and not future.done() and (until is None or time.monotonic() < until):",
        "while ran:",
        "runtime/test_depth.py",
    ),
    Mutation(
        "deque: one that refuses thieves offers",
        "runtime/deque.pxd",
        "if u32_load_relaxed(&d.bias) == BIAS_REFUSED:",
        "if False:",
        "runtime/test_deque.py",
    ),
    Mutation(
        "pool: a caller's worker stays taken",
        "runtime/pool.pyx",
        "~(<uint64_t>1 << (w.index % GUEST_SLOTS)))",
        "~<uint64_t>0)",
        "runtime/test_pool.py",
    ),
    Mutation(
        "pool: nobody helps the callers beyond the first 64",
        "runtime/pool.pyx",
        "        k += 1\n        block = guest_block(w.pool, k)\n    return NULL\n",
        "        block = NULL\n    return NULL\n",
        "runtime/test_pool.py",
    ),
    Mutation(
        "pool: letters are served where a future is waited for",
        "runtime/pool.pyx",
        "while at[0] != NULL and (<Task*>at[0]).mail != MAIL_OR_NOBODY:",
        "while False:",
        "runtime/test_depth.py",
    ),
    Mutation(
        "scope: a broadcast keeps its level on top of a deeper wait",
        "runtime/scope.pyx",
        "call.level = max(s.group.level, w.least_level)",
        "call.level = s.group.level",
        "runtime/test_depth.py test_tasks.py",
    ),
    Mutation(
        "sleep: who was refused wakes the next one",
        "runtime/sleep.pyx",
        "    return_mail(one)\n    return REFUSED\n",
        "    return_mail(one)\n    wake_any(s, False)\n    return REFUSED\n",
        "runtime/test_depth.py",
    ),
    Mutation(
        "sleep: who was refused is never tried again",
        "runtime/sleep.pyx",
        "if now - last < REVIVE_NS or not i64_cas_relaxed(&s.tried, last, now):",
        "if True:",
        "runtime/test_depth.py",
    ),
    # ---- kernels
    Mutation(
        "select: indices of a block begin at 0",
        "kernels/select.pyx",
        "simd.places_wide(words, n, low, high, at, sizes, first)",
        "simd.places_wide(words, n, low, high, at, sizes, 0)",
        "test_partition.py",
    ),
    Mutation(
        "select: an item that a sample's range has not is said to be in it",
        "kernels/select.pyx",
        "if before + less <= k < before + less + found:",
        "if True:",
        "test_partition.py",
    ),
    Mutation(
        "select: after a bad sample the least is forgotten",
        "kernels/select.pyx",
        "found = within(words, n, least, most, some, &before)",
        "found = within(words, n, 0, most, some, &before)",
        "test_partition.py",
    ),
    Mutation(
        "select: a position outside of a sample's range is taken for one in it",
        "kernels/select.pyx",
        "if begin <= k < begin + sizes[1]:",
        "if True:",
        "test_partition.py",
    ),
    Mutation(
        "select: what is between two splitters is not looked at again",
        "kernels/select.pyx",
        "            if low == high:\n                if not put:",
        "            if True:\n                if not put:",
        "test_partition.py",
    ),
    Mutation(
        "select: keys are the items, whatever their kind",
        "kernels/select.pyx",
        "flip[0] = sign_bit(<Word>0) if kind == KEY_SIGNED else 0",
        "flip[0] = 0",
        "test_partition.py",
    ),
    Mutation(
        "select: items are read once for their keys, and once more",
        "kernels/select.pyx",
        "simd.around_wide(keys, here, m, wide",
        "simd.around_wide(keys, src + lo, m, wide",
        "test_writers.py",
    ),
    Mutation(
        "thirds: a vector is stored where another worker writes",
        "kernels/simd/thirds.h",
        "if (fits || to->below_end - to->below >= PB_PACKED)",
        "if (1)",
        "test_partition.py",
    ),
    Mutation(
        "select: both ends are stored by vectors where they meet",
        "kernels/select.pyx",
        "wide = min(m, n - lo - TWO_VECTORS // <int64_t>sizeof(Word))",
        "wide = m",
        "test_partition.py",
    ),
    Mutation(
        "select: which items go by vectors a block decides, not the row",
        "kernels/select.pyx",
        "return write_around(s.kind, src, lo, hi, s.n, low",
        "return write_around(s.kind, src, lo, hi, hi, low",
        "test_partition.py",
    ),
    Mutation(
        "select: a row that is changed while threads share it is taken as it is",
        "kernels/select.pyx",
        "put[0] = not u32_load_relaxed(&s.changed)",
        "put[0] = True",
        "test_writers.py",
    ),
    Mutation(
        "select: one thread does a whole row before it looks whether that is wanted",
        "kernels/select.pyx",
        "if lo > 0 and w != NULL and must_stop(w, 0):",
        "if False:",
        "test_partition.py",
    ),
    Mutation(
        "select: where few items are distinct, those that have no room are forgotten",
        "kernels/select.pyx",
        "if rc != 0 or fits:",
        "if True:",
        "test_partition.py",
    ),
    Mutation(
        "select: of words that are sorted, equal ones begin at the k-th",
        "kernels/select.pyx",
        "while first > 0 and sorted[first - 1] == sorted[k]:",
        "while False:",
        "test_partition.py",
    ),
    Mutation(
        "select: of zeros only those with the same sign are equal",
        "kernels/select.pyx",
        "widen(s.kind, <Word*>keys, <Word*>keys + 1)",
        "pass",
        "test_partition.py",
    ),
    Mutation(
        "select: where zeros are in the middle, only those with the position's sign are",
        "kernels/select.pyx",
        "    if low < high:",
        "    if False:",
        "test_partition.py",
    ),
    Mutation(
        "select: of a block more may be written than was counted",
        "kernels/select.pyx",
        "if sizes[k] > ends[k] - to[k]:",
        "if False:",
        "test_writers.py",
    ),
    Mutation(
        "partition: rows in any memory order are given in C order",
        "arrays/partition.pyx",
        "        if not indices and not cnp.PyArray_IS_C_CONTIGUOUS(x):\n            return None",
        "        pass",
        "test_partition.py",
    ),
    Mutation(
        "keep: what a mask does not select is what it selects",
        "kernels/simd/keep.h",
        "PB_ORDER(v, bits ^ ((1u << PB_PACKED) - 1))",
        "PB_ORDER(v, bits)",
        "test_simd.py",
    ),
    Mutation(
        "keep: where there is room for four, eight are written",
        "kernels/simd/keep.h",
        "yes_room - to >= 8 &&",
        "yes_room - to >= 4 &&",
        "test_simd.py",
    ),
    Mutation(
        "keep: of 32 indices without one, the next are left out",
        "kernels/simd/quicksorts.h",
        "        i += 32;   ",
        "        i += 40;   ",
        "test_simd.py",
    ),
    Mutation(
        "select: among equals any is first",
        "kernels/select.pyx",
        "return a.key < b.key or (a.key == b.key and a.index < b.index)",
        "return a.key < b.key",
        "test_partition.py",
    ),
    Mutation(
        "find: the first of a block is never the last hit",
        "kernels/find.pyx",
        "i = some_at(items, b.at[items.slot], b.n, l.search.find.which)",
        "i = some_at(items, b.at[items.slot] + items.size, b.n - 1, l.search.find.which)",
        "test_find.py",
    ),
    Mutation(
        "find: another hit takes the place of a smaller",
        "kernels/find.pyx",
        "while at < seen and not i64_cas_relaxed(&f.hit, seen, at):",
        "while not i64_cas_relaxed(&f.hit, seen, at):",
        "test_find.py",
    ),
    Mutation(
        "merge: NaNs of the second run are compared as numbers",
        "kernels/merge.pyx",
        "and b < b_end and (b_end - 1)[0] == (b_end - 1)[0]",
        "and b < b_end and (b_end - 1)[0] == (b_end - 1)[0] or True",
        "test_merge.py",
    ),
    Mutation(
        "collect: the second value is where the first is",
        "kernels/collect.pyx",
        "            at += count * c.sizes[k]\n",
        "",
        "test_iter.py",
    ),
    Mutation(
        "runs: the inverse is one too much",
        "kernels/runs.pyx",
        "k = before - 1",
        "k = before",
        "test_unique.py",
    ),
    Mutation(
        "radix: equal words that were not moved are lost when it stops",
        "kernels/radix.pyx",
        "if not r.done[b] and not store_equal(r, b):",
        "if not r.done[b]:",
        "test_sort.py",
    ),
    Mutation(
        "radix: the least word is next to the greatest, where that occurs often",
        "kernels/radix.pyx",
        "            if a.keys[i] < last:\n",
        "            if a.keys[i] <= last:\n",
        "test_sort.py",
    ),
    Mutation(
        "radix: what is in the last part is the greatest word",
        "kernels/radix.pyx",
        "        return r.split.wide.in_order[b - 1] == last\n",
        "        return True\n",
        "test_sort.py",
    ),
    Mutation(
        "radix: a word is where it was counted, whatever it is now",
        "kernels/radix.pyx",
        "if n > LEAF_WORDS and (r.split != NULL or not known):",
        "if n > LEAF_WORDS and not known:",
        "test_sort.py test_writers.py",
    ),
    Mutation(
        "radix: zeros with a sign stay where the leaf sort left them",
        "kernels/radix.pyx",
        "    if rc == 0 and negative > 0:\n",
        "    if False:\n",
        "test_simd.py",
    ),
    Mutation(
        "radix: NaNs lose their bits",
        "kernels/radix.pyx",
        "        return HAS_NANS\n    rc = run_leaf",
        "        pass\n    rc = run_leaf",
        "test_simd.py",
    ),
    Mutation(
        "radix: our leaf sort does not ask whether to stop",
        "kernels/radix.pyx",
        "    if w != NULL and is_ours(leaf):\n",
        "    if False:\n",
        "test_sort.py",
    ),
    Mutation(
        "quicksort: what was told to stop goes on with the rest",
        "kernels/simd/quicksort.h",
        "state, check))\n      return 0;",
        "state, check))\n      less += 0;",
        "test_simd.py",
    ),
    Mutation(
        "bridge: a short loop wakes a sleeper",
        "runtime/bridge.pyx",
        "elif b.beats or now - b.start >= SHARE_ASLEEP_NS:",
        "else:",
        "runtime/test_bridge.py",
    ),
    Mutation(
        "bridge: a loop whose last items take long runs alone",
        "runtime/bridge.pyx",
        "elif b.beats or now - b.start >= SHARE_ASLEEP_NS:",
        "elif b.beats:",
        "runtime/test_bridge.py",
    ),
    Mutation(
        "bridge: what its caller left waits until it ends",
        "runtime/bridge.pyx",
        "    b.beats = lazy_any(&w.lazy)\n",
        "    b.beats = False\n",
        "runtime/test_bridge.py",
    ),
    Mutation(
        "sleep: any wish follows another one soon",
        "runtime/sleep.pyx",
        "lately[0] = begun - last < LATELY_NS",
        "lately[0] = True",
        "runtime/test_sleep.py",
    ),
    Mutation(
        "sleep: one late look is somebody who wants the CPU",
        "runtime/sleep.pyx",
        "        if now - last <= LATE_AGAIN_NS:\n",
        "        if True:\n",
        "runtime/test_sleep.py",
    ),
    Mutation(
        "reduce: blocks are as many as fit, and halves of the tree unequal",
        "kernels/reduce.pyx",
        "    if blocks > 1:\n        items =",
        "    if False:\n        items =",
        "test_kernels.py",
    ),
    Mutation(
        "bridge: short loops right after each other wake nobody",
        "runtime/bridge.pyx",
        "    b.beats = b.beats or lately\n",
        "",
        "runtime/test_bridge.py",
    ),
    Mutation(
        "radix: a part with NaNs is sorted as floats",
        "kernels/radix.pyx",
        "if r.moves and n > LEAF_WORDS and high <= infinity and parts_are_floats(s):",
        "if r.moves and n > LEAF_WORDS and parts_are_floats(s):",
        "test_sort.py",
    ),
    Mutation(
        "move: a part has room for a vector, which it has not",
        "kernels/simd/move.h",
        "roomy &= to[k] + n <= ends[k];",
        "roomy &= to[k] + n / 2 <= ends[k];",
        "test_simd.py",
    ),
    Mutation(
        "move: a part gets more than it has",
        "kernels/simd/move.h",
        "      const unsigned mine = rest & ~more;",
        "      const unsigned mine = rest;",
        "test_simd.py test_sort.py",
    ),
    Mutation(
        "count: NumPy gets items that others write",
        "arrays/count.pyx",
        "return np.bincount(private_copy(x), weights, minlength)",
        "return np.bincount(x, weights, minlength)",
        "test_writers.py",
    ),
    Mutation(
        "runs: NaNs begin no run",
        "kernels/runs.pyx",
        "flags[i - lo] = i == r.numbers or not r.equal_nan",
        "flags[i - lo] = not r.equal_nan",
        "test_unique.py",
    ),
    Mutation(
        "search: NaN is behind its like",
        "kernels/search.pyx",
        "out[i] = s.n if right else s.numbers",
        "out[i] = s.n",
        "test_count.py",
    ),
    Mutation(
        "topk: of several items only the least is looked at",
        "kernels/select.pyx",
        "return rank_of(ends[greatest], kind, greatest) < root",
        "return rank_of(ends[0], kind, greatest) < root",
        "test_partition.py",
    ),
    Mutation(
        "topk: where a sample misleads, what was found is enough",
        "kernels/select.pyx",
        "    if heap[0].index == INT64_MAX:      # no",
        "    if n < SAMPLED_ITEMS:               # no",
        "test_partition.py",
    ),
    Mutation(
        "topk: the least time of many may be NaT",
        "kernels/select.pyx",
        "if kind == KEY_TIME and ends[0] == sign_bit(ends[0]):",
        "if False:",
        "test_partition.py",
    ),
    Mutation(
        "topk: indices within a block, not within the row",
        "arrays/partition.pyx",
        "found += length * np.arange(rows)[:, np.newaxis]",
        "found += 0 * np.arange(rows)[:, np.newaxis]",
        "test_partition.py",
    ),
    Mutation(
        "topk: the items behind the last block are left out",
        "arrays/partition.pyx",
        "np.arange(rows * length, n)])",
        "np.arange(rows * length, n)[:0]])",
        "test_partition.py",
    ),
    Mutation(
        "rank: the average is a half too small",
        "kernels/rank.pyx",
        "rank.average = 0.5 * <double>(start + 1 + end)",
        "rank.average = 0.5 * <double>(start + end)",
        "test_order.py",
    ),
    Mutation(
        "scan: a running sum of zeros loses its sign",
        "kernels/scan.pyx",
        "cdef Item last = a[0] if before == NULL else joined(before[0], a[0], product)",
        "cdef Item last = 0 + a[0] if before == NULL else joined(before[0], a[0], product)",
        "test_scan.py",
    ),
    Mutation(
        "scan: the block before is left out",
        "kernels/scan.pyx",
        "combine(s, <char*>cell.last, <const char*>cell.total)",
        "combine(s, <char*>cell.last, <const char*>s.cells[0].total)",
        "test_scan.py",
    ),
    Mutation(
        "scan: the one pass of whole numbers goes on from the first block",
        "kernels/scan.pyx",
        "NULL if block == 0 else <char*>(cell - 1).last)",
        "NULL if block == 0 else <char*>s.cells[0].last)",
        "test_scan.py",
    ),
    Mutation(
        "scan: the upper half of a vector lacks the lower one's sum",
        "kernels/simd/running.h",
        "_mm256_unpackhi_epi64(low, low)",
        "_mm256_unpacklo_epi64(low, low)",
        "test_scan.py",
    ),
    Mutation(
        "scan: narrow numbers of a vector are not added up",
        "kernels/simd/running.h",
        "sums = _mm256_add_epi32(sums, _mm256_slli_si256(sums, 8));",
        "sums = _mm256_add_epi32(sums, _mm256_slli_si256(sums, 4));",
        "test_scan.py",
    ),
    Mutation(
        "scan: without vectors, the second of four is left out",
        "kernels/simd/running.h",
        "three = two OP a[i + 2];",
        "three = one OP a[i + 2];",
        "test_scan.py",
    ),
    Mutation(
        "scan: a block of whole numbers forgets those before it",
        "kernels/scan.pyx",
        "cdef Word first = product if before == NULL else before[0]",
        "cdef Word first = product",
        "test_scan.py",
    ),
    Mutation(
        "reduceat: the second piece of a cast segment begins anew",
        "kernels/segments.pyx",
        "lo = hi",
        "lo = hi + 1",
        "test_scan.py",
    ),
    Mutation(
        "reduce: an extreme of floats is NumPy's where there is one thread",
        "arrays/reduce.pyx",
        'return x.descr.kind in b"iu" and op in idempotent',
        'return x.descr.kind in b"iuf" and op in idempotent',
        "test_reduce.py",
    ),
    Mutation(
        "dot: a zero keeps the sign of its products",
        "arrays/fold.pyx",
        "(<double*>red.result.acc[0])[0] += 0",
        "pass",
        "test_reduce.py",
    ),
    Mutation(
        "reduce: where the least is, in its block",
        "kernels/reduce.pyx",
        "p.at = b.lo + k",
        "p.at = k",
        "test_reduce.py test_moments.py",
    ),
    Mutation(
        "reduce: a leaf of several blocks has a tree of its own",
        "kernels/reduce.pyx",
        "        mid = bridge_middle(lo, hi, r.grain)\n",
        "        mid = lo + r.grain\n",
        "test_reduce.py",
    ),
    Mutation(
        "reduce: flags of the last step are lost",
        "kernels/reduce.pyx",
        "    left.items += right.items\n    gather_flags(&r.flags)\n",
        "    left.items += right.items\n",
        "test_reduce.py test_moments.py",
    ),
    Mutation(
        "cast: int16 is unsigned",
        "kernels/cast.pyx",
        "return to_number(to_kind, to_size, <int16_t*>NULL)",
        "return to_number(to_kind, to_size, <uint16_t*>NULL)",
        "test_map.py test_iter.py",
    ),
    Mutation(
        "map: a leaf ends inside a SIMD step",
        "kernels/map.pyx",
        "return grain & ~63 if grain >= 64 else 64",
        "return grain - 1 if grain >= 64 else 64",
        "test_kernels.py test_map.py",
    ),
    Mutation(
        "map: a leaf has several grains though nobody knows how long they take",
        "kernels/map.pyx",
        "    if m.pace <= 0 or m.dear:\n",
        "    if m.pace < 0:\n",
        "test_cancel.py",
    ),
    Mutation(
        "elementwise: a result is cast into out by an expression",
        "arrays/elementwise.pyx",
        "(<ndarray>out).dtype != r.dtypes[c.inputs] or not outputs_are_safe",
        "not outputs_are_safe",
        "test_map.py",
    ),
    Mutation(
        "map: what threads took together is what one takes",
        "kernels/map.pxd",
        "return took if threads == 1 else max(took, 0.97 * min(known, min(threads, 8) * took))",
        "return took",
        "test_kernels.py",
    ),
    Mutation(
        "map: flags are forgotten",
        "kernels/map.pyx",
        "            if gather_flags(&s.flags):\n",
        "            if False:\n",
        "test_map.py",
    ),
    Mutation(
        "member: zero is in every table",
        "kernels/member.pyx",
        "found = found if key[k] != 0 else zero",
        "found = found",
        "test_isin.py",
    ),
    Mutation(
        "merge: pieces are cut without regard to equals",
        "kernels/merge.pyx",
        "second = before(t.order, t.b + (k - i - 1) * size, t.a + i * size)",
        "second = not before(t.order, t.a + i * size, t.b + (k - i - 1) * size)",
        "test_merge.py test_less.py",
    ),
    Mutation(
        "distinct: the last of equals is the first",
        "kernels/distinct.pyx",
        "    if counts[place] == 0:\n        counts[all_of + place] = <uint32_t>at\n",
        "    counts[all_of + place] = <uint32_t>at\n",
        "test_unique.py",
    ),
    Mutation(
        "count: the edge below is never crossed",
        "kernels/count.pyx",
        "bin[i] = k + (x[i] >= edges[k + 1]) - (x[i] < edges[k])",
        "bin[i] = k + (x[i] >= edges[k + 1])",
        "test_count.py",
    ),
    Mutation(
        "count: edges are where they are computed to be",
        "kernels/count.pyx",
        "return 0.5 - off - (",
        "return 0.5 - (",
        "test_count.py",
    ),
    Mutation(
        "count: the last items of a row are not near an edge",
        "kernels/simd/bins.h",
        "near |= NAME##_bins_of(rest,",
        "/****/  NAME##_bins_of(rest,",
        "test_count.py",
    ),
    Mutation(
        "count: the last items are not among the extremes",
        "kernels/simd/extremes.h",
        "      n -= i; ",
        "      n = 0;  ",
        "test_count.py",
    ),
    Mutation(
        "filter: a mask's byte of 2 counts twice",
        "kernels/simd/keys.h",
        "some -= (NAME##_v)(v != 0);",
        "some += v;",
        "test_move.py test_kernels.py",
    ),
    Mutation(
        "filter: room for seven is room for eight",
        "kernels/filter.pyx",
        "while n - i >= 8 and yeses - t >= 8 and noes - (i - t) >= 8:",
        "while n - i >= 8 and yeses - t >= 7 and noes - (i - t) >= 7:",
        "test_move.py test_kernels.py",
    ),
    Mutation(
        "radix: what falls is stored as if it rose",
        "kernels/radix.pyx",
        "s.store(s.ctx, turned_words, n, s.n - lo - n)",
        "s.store(s.ctx, turned_words, n, lo)",
        "test_sort.py",
    ),
    Mutation(
        "radix: a block's end is not compared with the next",
        "kernels/radix.pyx",
        "more = 1 if lo + n < s.n and o.checks else 0",
        "more = 0",
        "test_sort.py",
    ),
    Mutation(
        "argsort: blocks that fall alone fall together",
        "kernels/argsort.pyx",
        "o.falls &= o.ranges[b].falls and (b == 0 or o.ranges[b - 1].end > o.ranges[b].begin)",
        "o.falls &= o.ranges[b].falls",
        "test_argsort.py",
    ),
    Mutation(
        "argsort: keys that are counted are those whose range was found",
        "kernels/argsort.pyx",
        "key = chunk[i] >> index_bits & mask",
        "key = chunk[i] >> index_bits",
        "test_writers.py",
    ),
    Mutation(
        "argsort: a run of counted keys begins with the last item before it",
        "kernels/argsort.pyx",
        "begins[ends[key]] = 1",
        "begins[ends[key] - 1] = 1",
        "test_argsort.py",
    ),
    Mutation(
        "argsort: values are ranked the other way round",
        "kernels/argsort.pyx",
        "ranks[order[k]] = k",
        "ranks[k] = order[k]",
        "test_argsort.py",
    ),
    Mutation(
        "distinct: numbers are one too many",
        "kernels/distinct.pyx",
        "t.slots[i].value[0] = <uint32_t>before",
        "t.slots[i].value[0] = <uint32_t>before + 1",
        "test_argsort.py",
    ),
    Mutation(
        "distinct: a block's values are ranked as another's",
        "kernels/argsort.pyx",
        "distinct_ranks(&c.values, lo // c.block, c.ranks, ranks)",
        "distinct_ranks(&c.values, 0, c.ranks, ranks)",
        "test_argsort.py",
    ),
    Mutation(
        "argsort: equals may be turned around",
        "kernels/argsort.pyx",
        "r.falls = not up and not same",
        "r.falls = not up",
        "test_argsort.py",
    ),
    Mutation(
        "user: a kernel's own -1 is success",
        "kernels/user.pyx",
        "rc = MINUS_ONE",
        "rc = 0",
        "test_kernels.py",
    ),
    Mutation(
        "repeat: what was summed up is taken for what is there",
        "kernels/repeat.pyx",
        "if not are_counts(bits) or <int64_t>sum != x.before[block + 1]:",
        "if False:",
        "test_writers.py",
    ),
    Mutation(
        "count: weights of items that are no bins go to some other",
        "kernels/count.pyx",
        "            bin[i] = <int32_t>(bits & last)\n        return all_bits",
        "            bin[i] = <int32_t>(bits & last)\n        return 0",
        "test_count.py test_writers.py",
    ),
    Mutation(
        "count: items that are no bins are counted in some other",
        "kernels/count.pyx",
        "        table[bits & last] += 1\n    return all_bits",
        "        table[bits & last] += 1\n    return 0",
        "test_count.py test_writers.py",
    ),
    # ---- arrays
    Mutation(
        "arrays: Fortran's order whatever is cast",
        "arrays/common.pyx",
        " and a.dtype == dtypes[i]",
        "",
        "test_map.py",
    ),
    Mutation(
        "arrays: the last of the distinct counts one less",
        "arrays/unique.pyx",
        "(<object>starts)[runs] = n",
        "(<object>starts)[runs] = n - 1",
        "test_unique.py",
    ),
    Mutation(
        "arrays: a scan in the precision of halves",
        "arrays/scan.pyx",
        """ and r.dtypes[2].char != "e")""",
        ")",
        "test_scan.py",
    ),
    Mutation(
        "arrays: a partition's part keeps its own indices",
        "arrays/partition.pyx",
        "inside = [k - begin for k in kths if begin <= k < end]",
        "inside = [k - begin for k in kths if begin < k < end]",
        "test_partition.py",
    ),
    Mutation(
        "front: calls that NumPy did alone are not named",
        "arrays/front.pyx",
        "        count_left(op.__name__, why, bytes)",
        "        pass",
        "test_front.py",
    ),
    Mutation(
        "evaluate: all numbers of a few elements are the first",
        "arrays/evaluate.pyx",
        "m.operands + m.registers + where - CONSTANT",
        "m.operands + m.registers",
        "test_iter.py",
    ),
    Mutation(
        "evaluate: a few dear elements are not shared",
        "arrays/evaluate.pyx",
        "(quick or pays(f.m.size, f.ns))",
        "quick",
        "test_iter.py",
    ),
    Mutation(
        "copy: a mask that others write is counted, and selects a few items then",
        "arrays/copy.pyx",
        "    if not written:\n",
        "    if False:\n",
        "test_writers.py",
    ),
    Mutation(
        "evaluate: an array that got another shape is selected from",
        "arrays/evaluate.pyx",
        "if cnp.PyArray_NDIM(a) == 1 and cnp",
        "if cnp.PyArray_NDIM(a) > 1 or cnp",
        "test_iter.py",
    ),
    Mutation(
        "filter: items that lie apart are compressed as if they lay side by side",
        "kernels/filter.pyx",
        "if step == sizeof(Unit):",
        "if True:",
        "test_iter.py",
    ),
    Mutation(
        "evaluate: what is asked for of a few elements is in a register",
        "arrays/evaluate.pyx",
        "    f.sizes[k] = 0\n",
        "",
        "test_iter.py",
    ),
    Mutation(
        "iter: a step in another errstate is part of a function's expression",
        "arrays/iter.pyx",
        "return not same and np.geterr() != before.run(np.geterr)",
        "return False",
        "test_iter.py",
    ),
    Mutation(
        "evaluate: a few elements of any order in memory are side by side",
        "arrays/evaluate.pyx",
        "> few_bytes or not cnp.PyArray_IS_C_CONTIGUOUS(a) or (",
        "> few_bytes or (",
        "test_iter.py",
    ),
    Mutation(
        "evaluate: a number of another type is wrapped where it is searched for",
        "arrays/evaluate.pyx",
        "    if value.dtype is not None and value.dtype != d:",
        "    if False:",
        "test_iter.py",
    ),
    Mutation(
        "order: only floats are missing among objects",
        "arrays/order.pyx",
        "    unequal = k != k",
        "    unequal = isinstance(k, float) and k != k",
        "test_order.py",
    ),
    Mutation(
        "merge: numbers beside text are merged in their own order",
        "arrays/merge.pyx",
        '(dtype.kind == "m" or (dtype.kind in "SU" and one.kind not in "SU")):',
        '(dtype.kind == "m"):',
        "test_merge.py",
    ),
    Mutation(
        "common: whoever has an identity may be grouped",
        "arrays/common.pyx",
        "(op.identity is not None and (is_numpys(op) or has_identity(op)))",
        "op.identity is not None",
        "test_iter.py",
    ),
    Mutation(
        "front: the last subclass decides, not the foremost",
        "arrays/front.pyx",
        "r.wrapper is None or x.__array_priority__ > r.wrapper.__array_priority__",
        "True",
        "test_front.py test_containers.py",
    ),
    Mutation(
        "front: a plain array in the place of a given out",
        "arrays/front.pyx",
        "if r.target is not None and result is not None:",
        "if False:",
        "test_front.py test_containers.py",
    ),
    Mutation(
        "front: a mask is dropped where nobody knows masks",
        "arrays/front.pyx",
        "if not self.masked and not r.is_ufunc:",
        "if False:",
        "test_front.py test_containers.py",
    ),
    Mutation(
        "front: an axis may be a truth value",
        "arrays/front.pyx",
        'if isinstance(x, bool) or not hasattr(x, "__index__"):',
        'if not hasattr(x, "__index__"):',
        "test_front.py",
    ),
    Mutation(
        "predicates: what is masked is selected",
        "arrays/predicates.pyx",
        "        return (x != 0).filled(False)\n",
        "        return (x != 0).filled(True)\n",
        "test_find.py test_move.py test_front.py test_containers.py",
    ),
    Mutation(
        "fold: a dear reduction makes its program dear for all that come",
        "arrays/fold.pyx",
        "        red.map.pace = max(red.map.pace, DEAR_NS)\n",
        "        red.map.dear = True\n",
        "test_reduce.py",
    ),
    Mutation(
        "fold: a sine is as quick as a sum",
        "arrays/program.pyx",
        "            self.m.dear = self.m.dear or r.dear\n",
        "",
        "test_reduce.py",
    ),
    Mutation(
        "copies: a piece of those from the end is left out",
        "kernels/blocks.pxd",
        "            memcpy(<char*>to + n, <const char*>source + n, 256)\n",
        "            memcpy(<char*>to + n, <const char*>source + n, 128)\n",
        "test_kernels.py",
    ),
    Mutation(
        "fold: the sign of a zero is as it comes",
        "arrays/fold.pyx",
        'if initial is no_value and (result.descr.kind not in b"fc" or value != 0) and (',
        "if initial is no_value and (",
        "test_reduce.py",
    ),
    Mutation(
        "evaluate: an out that lies over an input is read again",
        "arrays/evaluate.pyx",
        "and may_overlap(out, (<Node>part).what) and (",
        "and False and (",
        "test_iter.py test_map.py",
    ),
    Mutation(
        "evaluate: axes that run backwards are the outermost",
        "arrays/evaluate.pyx",
        "key=lambda axis: -abs(small.strides[axis])",
        "key=lambda axis: small.strides[axis]",
        "test_iter.py test_map.py",
    ),
    Mutation(
        "evaluate: what was kept has the array's byte order",
        "arrays/evaluate.pyx",
        "p.type_at(p.values[k])",
        "(<Node>nodes[k]).dtype",
        "test_iter.py",
    ),
    Mutation(
        "program: two operations are one although a third needs what is between",
        "arrays/program.pyx",
        "readers[between - REGISTER] != 1):",
        "readers[between - REGISTER] == 0):",
        "test_iter.py",
    ),
    Mutation(
        "program: two operations are done once more on what they wrote",
        "arrays/program.pyx",
        "pair.floats and overwrites",
        "pair.floats and False",
        "test_iter.py",
    ),
    Mutation(
        "program: the second operation has its operands the other way round",
        "arrays/program.pyx",
        "TURNED if turned else 0",
        "0",
        "test_iter.py",
    ),
    Mutation(
        "map: of two operations the first one's errors are the second one's",
        "kernels/map.pyx",
        "if gather_flags(&pair.flags):",
        "if gather_flags(&s.flags):",
        "test_iter.py",
    ),
    Mutation(
        "map: what follows an error in two operations is done by the items before",
        "kernels/map.pyx",
        "            fe_clear()\n        n -= items\n        for k in range(4):\n",
        "            fe_clear()\n        n -= items\n        for k in range(0):\n",
        "test_iter.py",
    ),
    Mutation(
        "pairs: of two NaNs the second one stays",
        "kernels/simd/pairs.h",
        "PB_PAIR_NANS(z, w)",
        "PB_PAIR_NANS(w, z)",
        "test_iter.py",
    ),
    Mutation(
        "pairs: the last items are as those of rows",
        "kernels/simd/pairs.h",
        "memcpy(&y, args[1] + i * steps[1], SIZE);",
        "memcpy(&y, args[1] + i * SIZE, SIZE);    ",
        "test_iter.py",
    ),
    Mutation(
        "sums: rows are added to those half a tree away",
        "kernels/simd/lanes.h",
        "rows[2 * i] + rows[2 * i + 1]; ",
        "rows[i] + rows[i + count / 2]; ",
        "test_simd.py",
    ),
    Mutation(
        "programs: two nodes of one array are two in a form",
        "arrays/program.pyx",
        "<void*>node.what if node.kind == NODE_INPUT else <void*>node",
        "<void*>node                                                 ",
        "test_iter.py",
    ),
    Mutation(
        "programs: a form does not know the first argument from the second",
        "arrays/program.pyx",
        "<< (16 + 8 * i)",
        "<< (16 + 0 * i)",
        "test_iter.py",
    ),
    Mutation(
        "programs: two use one that was idle",
        "arrays/program.pyx",
        "idle.pop(f.hash, None)",
        "idle.get(f.hash, None)",
        "test_iter.py",
    ),
    Mutation(
        "programs: what one met is told of the next one",
        "arrays/program.pyx",
        "    map_begin(&p.m)\n",
        "    # &p.m\n",
        "test_iter.py",
    ),
    Mutation(
        "programs: a form does not know what it is written to",
        "arrays/program.pyx",
        "<uint64_t>numbers[i] | out << 8",
        "<uint64_t>numbers[i] | (out & 0)",
        "test_iter.py",
    ),
    Mutation(
        "blocks: nobody computes a few elements in other company",
        "arrays/blocks.pyx",
        "    for rows in company:\n",
        "    for rows in company[:0]:\n",
        "test_iter.py",
    ),
    Mutation(
        "front: lazy arrays are written to",
        "arrays/front.pyx",
        "        self.refuse_lazy_outs(args, kwargs)\n",
        "",
        "test_iter.py",
    ),
    Mutation(
        "numbers: infinity comes among the NaNs",
        "kernels/numbers.pxd",
        "    if magnitude > infinity(bits):\n",
        "    if magnitude >= infinity(bits):\n",
        "test_argsort.py test_is_sorted.py",
    ),
    Mutation(
        "blocks that a function leaves open stay",
        "host/blocks.pyx",
        "    while has_left_open(w, part, mark) and",
        "    while False and",
        "test_tasks.py",
    ),
    Mutation(
        "blocks that an array's function leaves open stay",
        "runtime/bridge.pyx",
        "    if unlikely(has_left_open(w, part, mark)) and",
        "    if False and",
        "test_tasks.py",
    ),
    Mutation(
        "a broadcast changes the call over lazy forks",
        "runtime/scope.pyx",
        "    if not promote_all(w):\n        return ENOMEM\n    scope_begin",
        "    scope_begin",
        "test_tasks.py",
    ),
    Mutation(
        "what a block that is left open raises is lost",
        "host/blocks.pyx",
        "    return graver(gravest, failure)",
        "    return gravest",
        "test_tasks.py",
    ),
    Mutation(
        "reduce: a product of which parts overflow and others vanish is NaN",
        "arrays/fold.pyx",
        "return flags != 0 and op is multiply and bool(",
        "return False and bool(",
        "test_reduce.py",
    ),
    Mutation(
        "reduce: what a sum meets in a block is left to the steps of the next one",
        "kernels/reduce.pyx",
        "    if gather_flags(&r.flags):\n        fe_clear()\n    return 0",
        "    gather_flags(&r.flags)\n    return 0",
        "test_iter.py",
    ),
    Mutation(
        "reduce: the third quarter of a product is left out for the second one",
        "kernels/reduce.pyx",
        "        p2 *= factor_at(a, step, 2 * part + i, one)",
        "        p2 *= factor_at(a, step, part + i, one)",
        "test_reduce.py",
    ),
    Mutation(
        "reduce: factors without a sign are extended as if they had one",
        "arrays/fold.pyx",
        "product_signed if signed else product_unsigned",
        "product_signed",
        "test_reduce.py",
    ),
    Mutation(
        "find: what is equal to a number is looked for among other items",
        "kernels/find.pyx",
        "        elif is_some(items, at + i * size, half):",
        "        elif is_some(items, at + i, half):",
        "test_find.py",
    ),
    Mutation(
        "histogram: integers that are no doubles have their outer edges rounded",
        "arrays/count.pyx",
        "        outer = np.array(extremes_of(a), a.dtype)\n        if",
        "        outer = np.array(extremes_of(a), float)\n        if",
        "test_count.py",
    ),
    Mutation(
        "bincount: the last item does not say how long the result is",
        "kernels/count.pyx",
        "            while c.top >= 0 and c.counts[c.top] == 0:",
        "            while c.top >= 0 and c.counts[c.top] <= 1:",
        "test_count.py",
    ),
    Mutation(
        "minmax: a NaN in every second vector is not seen",
        "kernels/simd/extremes.h",
        "          some |= NANS(x[k], x[k + 1]);",
        "          some |= NANS(x[k], x[k]);",
        "test_simd.py",
    ),
    Mutation(
        "minmax: the zero of a pair is not that of the least alone",
        "arrays/fold.pyx",
        "    if n <= SINGLE_ITEMS and negative == 0:",
        "    if n <= SINGLE_ITEMS:",
        "test_simd.py",
    ),
    Mutation(
        "memory: what is resized keeps only what it is told to keep",
        "arrays/memory.pyx",
        "        memcpy(q, p, min(size, (<Head*>p - 1).size))",
        "        memcpy(q, p, min(size, <size_t>8))",
        "test_memory.py",
    ),
    Mutation(
        "who is called in wakes where Linux puts it",
        "runtime/sleep.pyx",
        "    if runs and works_on and",
        "    if False and",
        "runtime/test_sleep.py",
    ),
    Mutation(
        "who was woken keeps the CPUs that it was narrowed to",
        "runtime/sleep.pyx",
        "        place_take_back(&me.place)",
        "        pass",
        "runtime/test_sleep.py",
    ),
    Mutation(
        "put: an index that another thread has written is not checked again",
        "kernels/put.pyx",
        "        if unlikely(<uint64_t>to >= length):",
        "        if False:",
        "test_writers.py",
    ),
    Mutation(
        "a task has its scope's level, not that of who spawned it",
        "host/tasks.pyx",
        "spawned.level = mail_level(w)",
        "spawned.level = 0",
        "test_tasks.py",
    ),
    Mutation(
        "tasks: those that failed are done",
        "host/tasks.pyx",
        "home._listener is not None and error is None and not future.cancelled()",
        "home._listener is not None",
        "test_progress.py",
    ),
    Mutation(
        "predicates: any mask of as many items fits",
        "arrays/predicates.pyx",
        "    if mask.shape != shape:\n",
        "    if mask.size != np.prod(shape):\n",
        "test_find.py test_move.py test_bad_input.py",
    ),
    Mutation(
        "search: edges that are all the same fall",
        "arrays/search.pyx",
        "if edges[0] <= edges[-1]:",
        "if edges[0] < edges[-1]:",
        "test_count.py",
    ),
    Mutation(
        "search: a sorter may point behind the end",
        "arrays/search.pyx",
        "sorter.max() >= sorter.size",
        "sorter.max() > sorter.size",
        "test_count.py test_bad_input.py",
    ),
    Mutation(
        "gather: values that lie where they are put",
        "arrays/gather.pyx",
        "    if may_overlap(x, values):\n",
        "    if False:\n",
        "test_move.py",
    ),
    Mutation(
        "elementwise: what where= leaves alone is not kept",
        "arrays/elementwise.pyx",
        "c.ops[i].copy() if masks else np.empty_like(c.ops[i])",
        "np.empty_like(c.ops[i])",
        "test_map.py test_bad_input.py",
    ),
    Mutation(
        "elementwise: rows lie over each other",
        "arrays/elementwise.pyx",
        "        if not outputs_are_safe(arrays, len(arrays) - 1):\n",
        "        if False:\n",
        "test_map.py",
    ),
    Mutation(
        "elementwise: what where= keeps of a call that casts is computed",
        "arrays/elementwise.pyx",
        "or not r.numeric or c.mask is not None or c.outputs != 1",
        "or not r.numeric or c.outputs != 1",
        "test_map.py",
    ),
    Mutation(
        "elementwise: rows lie in either order",
        "arrays/elementwise.pyx",
        "        if not (c_order or f_order) or not",
        "        if not",
        "test_map.py",
    ),
    Mutation(
        "blocks: a later block is cast as it comes",
        "arrays/blocks.pyx",
        'np.can_cast(result.dtype, self.out.dtype, "safe")',
        'np.can_cast(result.dtype, self.out.dtype, "unsafe")',
        "test_map.py",
    ),
    Mutation(
        "count: the greatest is outside of the last bin",
        "arrays/count.pyx",
        "[np.nextafter(edges[-1], edges.dtype.type(np.inf)), np.nan]",
        "[edges[-1], np.nan]",
        "test_count.py",
    ),
    Mutation(
        "copy: the memory order of what runs backwards",
        "arrays/copy.pyx",
        "x = x.transpose(sorted(range(x.ndim), key=lambda d: -abs(a.strides[d])))",
        "x = x.transpose(sorted(range(x.ndim), key=lambda d: -a.strides[d]))",
        "test_move.py",
    ),
    Mutation(
        "join: of equal priorities the last subclass",
        "arrays/join.pyx",
        "if a.__array_priority__ > most:",
        "if a.__array_priority__ >= most:",
        "test_move.py test_front.py test_containers.py",
    ),
    Mutation(
        "merge: an input that lies under the result",
        "arrays/merge.pyx",
        "if not is_direct(y) or may_overlap(y, result):",
        "if not is_direct(y):",
        "test_merge.py",
    ),
    Mutation(
        "iter: positions of the second part begin at 0",
        "arrays/iter.pyx",
        "return int(starts[i] + at)",
        "return int(at)",
        "test_iter.py test_find.py",
    ),
    Mutation(
        "front: NumPy reads twice what another thread writes",
        "arrays/front.pyx",
        "                if Py_TYPE(args[i]) == &PyArray_Type and self.is_read_twice(",
        "                if False and self.is_read_twice(",
        "test_writers.py",
    ),
    Mutation(
        "front: and what lies in a buffer or is of a subclass",
        "arrays/front.pyx",
        "return private_copy(x) if isinstance(x, np.ndarray) and self.is_read_twice(where) else x",
        "return x",
        "test_writers.py",
    ),
    Mutation(
        "front: a buffer is sorted as NumPy sorts buffers, not stably",
        "arrays/front.pyx",
        "return mine if others or self.is_read_twice(where) else given",
        "return mine if others else given",
        "test_argsort.py",
    ),
    Mutation(
        "front: what is small goes to a method that takes other arguments",
        "arrays/front.pyx",
        "return mine if others or self.is_read_twice(where) else given",
        "return mine if self.is_read_twice(where) else given",
        "test_front.py",
    ),
    Mutation(
        "search: what is computed beyond the hit depends on the time",
        "arrays/evaluate.pyx",
        "f.grain = p.grain(False)",
        "f.grain = p.grain()",
        "test_iter.py",
    ),
    Mutation(
        "order: few keys of lexsort are read twice",
        "arrays/order.pyx",
        "keys = [privately(key) for key in keys]",
        "pass",
        "test_writers.py",
    ),
    Mutation(
        "order: ranks of few are read twice",
        "arrays/order.pyx",
        "    x = private_copy(x)\n    order = numpys.argsort",
        "    order = numpys.argsort",
        "test_writers.py",
    ),
    Mutation(
        "partition: rows are read twice",
        "arrays/partition.pyx",
        "np.argpartition(private_copy(x[index]), kths, axis)",
        "np.argpartition(x[index], kths, axis)",
        "test_writers.py",
    ),
    Mutation(
        "select: a mask of few is read twice",
        "arrays/select.pyx",
        "        m = private_copy(mask)",
        "        m = mask",
        "test_writers.py",
    ),
    Mutation(
        "select: booleans in a buffer are counted, and looked at again",
        "arrays/select.pyx",
        "        a = convert(a)\n    return private",
        "        pass\n    return private",
        "test_writers.py",
    ),
    Mutation(
        "nodes: a number that overflowed is converted in silence the next time",
        "arrays/nodes.pyx",
        "return x == 0 or (1e-4 < abs(x) < 65504 if want.itemsize < 4 else 1e-30 < abs(x) < 1e30)",
        "return True",
        "test_iter.py",
    ),
    Mutation(
        "nodes: an array of no axis is read when the chain ends",
        "arrays/nodes.pyx",
        "return n if n.kind != NODE_CONSTANT else None",
        "return n if n.dtype is want else None",
        "test_iter.py",
    ),
    Mutation(
        "nodes: elements of two filters are combined the second time",
        "arrays/nodes.pyx",
        "x.domain is not y.domain or not same_shape(x.shape, y.shape)",
        "not same_shape(x.shape, y.shape)",
        "test_iter.py",
    ),
    Mutation(
        "nodes: a number is found by its dtype alone",
        "arrays/nodes.pyx",
        "if made is not None and made[0] is x and made[1] is want:",
        "if made is not None and made[1] is want:",
        "test_iter.py",
    ),
    Mutation(
        "nodes: what the cells of a function hold does not matter",
        "arrays/nodes.pyx",
        "if are_same(numbers, e.numbers):",
        "if True:",
        "test_iter.py",
    ),
    Mutation(
        "nodes: a function that writes is asked once",
        "arrays/nodes.pyx",
        "        if instruction not in harmless:\n            return NOT_ONLY\n",
        "",
        "test_iter.py",
    ),
    Mutation(
        "nodes: what operators of numbers warn of is said once",
        "arrays/nodes.pyx",
        "if calls != e.operations or len(steps) > MOST_STEPS:",
        "if len(steps) > MOST_STEPS:",
        "test_iter.py",
    ),
    Mutation(
        "nodes: numbers may change while a function is asked",
        "arrays/iter.pyx",
        "made = expressions_of(function_of(e), [(node,)], None)",
        "made = expressions_of(fn, [(node,)], None)",
        "test_iter.py",
    ),
    Mutation(
        "nodes: of numbers that are to be times NumPy warns once",
        "arrays/nodes.pyx",
        'NOT_ONLY if dtype.kind in b"mM" or not dtype.isnative else',
        "NOT_ONLY if not dtype.isnative else",
        "test_iter.py",
    ),
    Mutation(
        "nodes: what stands for one exponent stands for another",
        "arrays/nodes.pyx",
        "if not powers.isdisjoint([(<Node>step).what for step in steps]):",
        "if False:",
        "test_iter.py",
    ),
    Mutation(
        "nodes: one number in two places is each of them",
        "arrays/nodes.pyx",
        "if len(are) + (len(fixed) > 0) != 1:",
        "if not are and not fixed:",
        "test_iter.py",
    ),
    Mutation(
        "nodes: numbers of other types are alike",
        "arrays/nodes.pyx",
        "type(numbers[i]) is not type(e.numbers[i]) or not is_plain",
        "not is_plain",
        "test_iter.py",
    ),
    Mutation(
        "nodes: what a function stood for keeps its array",
        "arrays/nodes.pyx",
        "made = [new_node(NODE_INPUT, None, (), (0,), x.dtype, None), *leaves[1:]]",
        "made = [*leaves]",
        "test_iter.py",
    ),
    Mutation(
        "iter: one thread that traces a function is none",
        "arrays/iter.pyx",
        "if u32_load_relaxed(&tracers) > 0 else None",
        "if u32_load_relaxed(&tracers) > 1 else None",
        "test_iter.py",
    ),
    Mutation(
        "iter: a function in another errstate is remembered",
        "arrays/iter.pyx",
        "    if traced_in() is not None:\n        return None\n",
        "",
        "test_iter.py",
    ),
    # ---- what Python sees
    Mutation(
        "config: half a CPU is none",
        "host/config.py",
        "n = min(n, math.ceil(quota))",
        "n = min(n, int(quota))",
        "test_config.py",
    ),
    Mutation(
        "config: the widest limit counts",
        "host/config.py",
        "return min(limits) if limits else None",
        "return max(limits) if limits else None",
        "test_config.py",
    ),
    Mutation(
        "stats: no callers",
        "_stats.py",
        "if background or any(counters) or any(times[1:])",
        "if background",
        "test_stats.py",
    ),
    Mutation(
        "progress: the end is not told",
        "host/progress.py",
        "        listener.tell(True)\n",
        "",
        "test_progress.py",
    ),
    Mutation(
        "tasks: the first failure in the list, whatever it is",
        "host/blocks.pyx",
        " and rank_of_error(other) < rank_of_error(error)):",
        " and False):",
        "test_tasks.py",
    ),
    Mutation(
        "tasks: a broadcast's caller is its first thread",
        "host/forks.pyx",
        "run_side(w, &b.join, 0 if w == b.caller else w.index + 1)",
        "run_side(w, &b.join, 1 if w == b.caller else w.index + 1)",
        "test_tasks.py",
    ),
    Mutation(
        "pools: what begins in a cancelled scope goes on",
        "host/pools.pyx",
        "if current_call(e.worker) != NULL and must_stop(e.worker, 0):",
        "if current_call(e.worker) != NULL and must_stop(e.worker, 0) and False:",
        "test_cancel.py",
    ),
    Mutation(
        "pools: those that were replaced are never freed",
        "host/pools.pyx",
        "        found.append(address)\n",
        "",
        "test_threadpool.py",
    ),
    Mutation(
        "pools: refused threads are counted",
        "host/pools.pyx",
        "(threads_refused(p) if without_refused else 0)",
        "0",
        "runtime/test_depth.py",
    ),
    Mutation(
        "pools: of many first callers the last one's pool stays",
        "host/pools.pyx",
        "if ptr_cas_acq_rel(&global_pool, old, p):",
        "if ptr_exchange_acq_rel(&global_pool, p) != p:",
        "test_first_calls.py",
    ),
    Mutation(
        "threadpool: in a forked child each first caller makes the pool",
        "host/threadpool.pyx",
        "        with lock:\n            if self._closed:\n",
        "        if True:\n            if self._closed:\n",
        "test_first_calls.py",
    ),
    Mutation(
        "threadpool: whoever drops one waits for its jobs",
        "host/threadpool.pyx",
        "        pool_retire(self._pool)\n        reap_dropped()\n",
        "        pool_retire(self._pool)\n        with nogil:\n            pool_join(self._pool)\n"
        "        reap_dropped()\n",
        "test_threadpool.py",
    ),
    Mutation(
        "interpreter: nobody hears of a failure under an unknown thread",
        "host/interpreter.pyx",
        "if unlikely(c.unheard and rc == -1):",
        "if False:",
        "test_capi.py",
    ),
    Mutation(
        "interpreter: whoever runs a kernel keeps the GIL",
        "host/interpreter.pyx",
        "c.gil = py_let_go() if lets_go else NULL",
        "c.gil = NULL",
        "test_capi.py",
    ),
    Mutation(
        "capi: a reduction forgets what was in acc",
        "capi.pyx",
        "memcpy(partial, c.acc, c.size)",
        "memcpy(partial, c.partials, c.size)",
        "test_capi.py",
    ),
    Mutation(
        "capi: spawn_on takes one thread too many",
        "capi.pyx",
        "if not 0 <= index < n:",
        "if not 0 <= index <= n:",
        "runtime/test_batch.py",
    ),
]


def mutated(text: str, mutation: Mutation) -> str:
    found = text.count(mutation.text)
    if found != 1:
        raise LookupError(f"{mutation.file}: {mutation.text!r} is there {found} times")
    assert mutation.text != mutation.instead
    return text.replace(mutation.text, mutation.instead)


class Copy:
    """A copy of the tree, with what is built, in which one file at a time is changed."""

    def __init__(self, directory: Path) -> None:
        self.root = directory
        shutil.copytree(
            ROOT,
            directory,
            ignore=shutil.ignore_patterns(".git", ".venv*", "temp.*", "__pycache__", ".*_cache"),
            dirs_exist_ok=True,
        )
        # What compiles slowest is what runs long; these tests do not.
        self.environ = {
            **os.environ,
            "PYBLITZ_CFLAGS": "-O1 -g0",
            "PYTHONPATH": str(directory),
            "PYBLITZ_NATIVE": str(directory / "native-built"),
        }
        self.build()

    def run(self, *args: str, seconds: float) -> tuple[int | None, str]:
        """Exit code and output; None when it took too long."""
        with subprocess.Popen(
            [sys.executable, *args],
            cwd=self.root,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            try:
                out, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.communicate()
                return None, ""
            return process.returncode, out

    def build(self) -> None:
        code, out = self.run("setup.py", "--quiet", "build_ext", "--inplace", seconds=1200)
        if code != 0:
            raise RuntimeError(out)

    def try_out(self, mutation: Mutation) -> dict[str, object]:
        path = self.root / "pyblitz" / mutation.file
        source = path.read_text()
        compiled = path.suffix == ".pyx"
        shared = path.suffix in {".pxd", ".h"}  # what many modules are compiled with
        # Where setup.py has Cython and the linker write, and where Python finds it; each is to be
        # newer than the one before.
        module = Path("pyblitz", mutation.file).with_suffix("")
        found = [f"build/cython/{module}.c", f"build/lib.*/{module}.*.so", f"{module}.*.so"]
        built = [x for glob in found for x in self.root.glob(glob)] if compiled else []
        assert not compiled or len(built) == 3, built
        row: dict[str, object] = {"mutation": mutation.name, "file": mutation.file}
        try:
            path.write_text(mutated(source, mutation))
        except LookupError as error:
            return {**row, "result": "no longer there", "by": str(error)}
        for product in built:
            shutil.copy2(product, str(product) + ".kept")
        begun = time.monotonic()
        try:
            if compiled or shared:
                self.build()
            row["build_s"] = round(time.monotonic() - begun)
            begun = time.monotonic()
            tests = [f"tests/{name}" for name in mutation.tests.split()]
            options = ["-x", "-q", "--full", "--no-header", "-p", "no:cacheprovider"]
            code, out = self.run("-m", "pytest", *options, *tests, seconds=SECONDS)
            row["test_s"] = round(time.monotonic() - begun)
        except RuntimeError as error:
            return {**row, "result": "does not compile", "by": str(error)[-2000:]}
        finally:
            path.write_text(source)
            for product in built:
                os.replace(str(product) + ".kept", product)
                os.utime(product)  # newer than the source again
            if shared:
                self.build()
        if code == 0:
            return {**row, "result": "missed", "by": mutation.tests}
        failed = [x.split(" ", 2)[1] for x in out.splitlines() if x.startswith(("FAILED", "ERROR"))]
        if code == 1 and failed:
            return {**row, "result": "caught", "by": failed[0]}
        if code is None or "dump_traceback_later" in out or "Timeout (0:" in out:
            return {**row, "result": "caught", "by": "it does not end"}
        if code < 0 or code > 5 or "Fatal Python error" in out:
            return {**row, "result": "caught", "by": f"exit {code}: {out.strip()[-200:]}"}
        return {**row, "result": "did not run", "by": out[-2000:]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("-j", "--jobs", type=int, default=1, help="copies at work at a time")
    parser.add_argument("--only", nargs="+", default=[""], help="with one of these in name or file")
    parser.add_argument(
        "--results", type=Path, default=ROOT / "benchmarks" / "results" / "mutants.jsonl"
    )
    parser.add_argument("--directory", type=Path, help="where the copies go, and stay")
    options = parser.parse_args()
    todo: queue.SimpleQueue[Mutation] = queue.SimpleQueue()
    chosen = [m for m in MUTATIONS if any(x in m.name or x in m.file for x in options.only)]
    for mutation in chosen:
        todo.put(mutation)
    rows: dict[str, dict[str, object]] = {}

    def work(directory: Path) -> None:
        copy = Copy(directory)
        while True:
            try:
                mutation = todo.get_nowait()
            except queue.Empty:
                return
            row = rows[mutation.name] = copy.try_out(mutation)
            print(f"{row['result']:16} {mutation.name:55} {str(row['by'])[:70]}", flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        base = options.directory or Path(scratch)
        threads = [
            threading.Thread(target=work, args=(base / f"copy{i}",)) for i in range(options.jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    done = [rows[m.name] for m in chosen if m.name in rows]
    known = {}
    if options.results.exists():
        known = {row["mutation"]: row for row in map(json.loads, options.results.open())}
    known |= {row["mutation"]: row for row in done}
    kept = [known[m.name] for m in MUTATIONS if m.name in known]
    options.results.write_text("".join(json.dumps(row) + "\n" for row in kept))
    print()
    for row in done:
        print(f"| {row['result']} | {row['file']} | {row['mutation']} | {str(row['by'])[:80]} |")
    caught = sum(row["result"] == "caught" for row in done)
    print(f"\n{caught} of {len(chosen)} were caught")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
