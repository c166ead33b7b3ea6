"""The simulator of the scheduler's policies: benchmarks/simulate."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
before = list(sys.path)
sys.path.insert(0, str(ROOT / "benchmarks"))
try:
    from simulate import chart, costs, report, run, validate, workloads
    from simulate.engine import Policy, Sim
finally:
    sys.path[:] = before  # benchmarks has an arrays.py, as the tests have

SMALL = {
    "big map": lambda: workloads.big_map(512, 20_000.0),
    "streamed map": lambda: workloads.streamed_map(256, 20_000.0),
    "unbalanced tree": lambda: workloads.tree(60_001, 100.0, 200),
    "small calls": lambda: workloads.small_calls(8),
    "spawns": lambda: workloads.spawns(200, 3),
    "batch": lambda: workloads.batch(5_000, 300.0, 16),
    "nested": lambda: workloads.nested(4, 4, 10_000.0),
    "fib": lambda: workloads.fibonacci(20, 50.0, 8),
}
POLICIES = {
    "own": Policy(),
    "any": Policy(wait="any"),
    "chain": Policy(wait="chain"),
    "nearest": Policy(victim="nearest"),
    "wake two": Policy(wake=2),
    "eager": Policy(joins="eager"),
    "show": Policy(show_wakes=True, guests_first=False),
    "local": Policy(count="local", counters="free"),
}
NOWHERE = ROOT / "no results"  # the fallbacks, so that no test depends on what was measured
MACHINES = [costs.here(NOWHERE), costs.two_sockets(NOWHERE)]


def simulate(workload, workers, policy=None, machine=MACHINES[0], seed=1):
    sim = Sim(machine, workers, policy, seed, trace=True)
    sim.run(lambda w: workload.root(sim, w))
    return sim


def test_the_policy_has_the_constants_of_the_runtime():
    runtime = ROOT / "pyblitz" / "runtime"
    source = "".join(path.read_text() for path in sorted(runtime.glob("*.p[xy][dx]")))
    source += (runtime / "atomic.h").read_text() + (runtime / "os.h").read_text()
    names = {
        "SHARE_AWAKE_NS": Policy.share_awake,
        "SHARE_ASLEEP_NS": Policy.share_asleep,
        "BEAT_NS": Policy.beat,
        "WAITED_ASLEEP_NS": Policy.beat_asleep,
        "ROUNDS_UNTIL_SLEEPY": Policy.rounds,
        "MOST_ROUNDS_OF_A_LOOK": Policy.rounds_of_a_look,
        "SPIN_ROUNDS": Policy.looks,
        "PB_LOOKS_PER_YIELD": Policy.looks_per_yield,
        "BATCH_TURN": Policy.turn,
        "PYBLITZ_BIAS_AFTER": Policy.bias_after,
    }
    for name, ours in names.items():
        found = re.findall(rf"^(?:#define|enum {{)? +{name} =? ?(\d+)", source, re.M)
        assert found == [str(int(ours))], name


@pytest.mark.parametrize("name", SMALL)
def test_same_seed_same_run(name):
    def figures(seed):
        sim = simulate(SMALL[name](), 8, machine=MACHINES[1], seed=seed)
        return sim.now, sim.events, sim.steals, sim.looks, sim.parts

    assert figures(3) == figures(3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", SMALL)
def test_every_item_runs_once(name, policy):
    workload = SMALL[name]()
    for workers in (1, 2, 3, 16, 70):
        sim = simulate(workload, workers, POLICIES[policy], MACHINES[workers % 2])
        at = 0
        for lo, hi in sorted(sim.parts):
            assert lo == at
            at = hi
        assert at == sim.items == workload.items
        assert sum(w.work for w in sim.workers) == pytest.approx(workload.work)
        assert not any(w.forks or w.tasks or w.lazy for w in sim.workers)


@pytest.mark.parametrize("name", SMALL)
def test_never_faster_than_the_workers(name):
    workload = SMALL[name]()
    for workers in (1, 2, 5, 16):
        for policy in POLICIES.values():
            sim = simulate(workload, workers, policy)
            assert workload.work / sim.now <= workers
            assert sim.now >= workload.span


def test_two_workers_halve_a_big_map():
    workload = workloads.big_map(1024, 50_000.0)
    assert 1.9 < workload.work / simulate(workload, 2).now <= 2.0
    assert workload.work / simulate(workload, 1).now > 0.99


def depth_and_grain(name):
    return {"big map": (9, 20_000.0), "unbalanced tree": (60, 20_000.0), "nested": (8, 10_000.0)}[
        name
    ]


@pytest.mark.parametrize("workers", [2, 4, 16])
@pytest.mark.parametrize("name", ["big map", "unbalanced tree", "nested"])
def test_brent(name, workers):
    """T <= W / P + c S, where a step of the span may take a wake, a sweep and a theft.  That is a
    theorem for greedy schedulers: whoever leapfrogs idles although there is work, hence the 2."""
    workload = SMALL[name]()
    depth, grain = depth_and_grain(name)
    own = MACHINES[0].costs
    alone = simulate(workload, 1).now
    step = own.wake + own.wake_call + own.steal[0] + own.look[0] * workers + own.node
    span = grain + workload.span + depth * step
    assert simulate(workload, workers, Policy(wait="any")).now <= alone / workers + 3 * span
    for policy in (Policy(), Policy(wait="chain")):
        assert simulate(workload, workers, policy).now <= 2 * alone / workers + 3 * span


@pytest.mark.parametrize("workers", [2, 8, 32])
@pytest.mark.parametrize("name", ["big map", "unbalanced tree", "nested"])
def test_few_steals(name, workers):
    depth, _ = depth_and_grain(name)
    for policy in (Policy(), Policy(wait="any"), Policy(victim="nearest")):
        sim = simulate(SMALL[name](), workers, policy)
        assert 0 < sim.steals <= 4 * workers * depth


def test_one_worker_neither_steals_nor_wakes():
    for make in SMALL.values():
        sim = simulate(make(), 1)
        assert (sim.steals, sim.wakes, sim.looks) == (0, 0, 0)


@pytest.mark.parametrize("policy", ["own", "nearest", "show"])
@pytest.mark.parametrize("workers", [2, 7, 8, 40, 100])
def test_a_sweep_looks_at_each_victim_once(workers, policy):
    sim = Sim(MACHINES[1], workers, POLICIES[policy])
    for i in {1, workers // 2, workers - 1} - {0}:
        sim.turn[i] = 12345
        sim.began[i] = 10.0
        others = np.delete(np.arange(workers), i)
        times = sim.arrivals(i, others)
        assert len(set(np.round(times, 6))) == len(others)
        assert times.min() > 10.0
        assert times.max() <= 10.0 + sim.sweep_ns[i] + sim.look_ns[i] + 1e-6
        if policy != "show":
            assert others[times.argmin()] == 0  # guests first
        for v in others:  # both ways of asking agree
            assert sim.arrivals(np.array([i]), v)[0] == pytest.approx(sim.arrivals(i, v))


def test_nearest_goes_from_near_to_far():
    sim = Sim(MACHINES[1], 128, Policy(victim="nearest"))
    sim.turn[50] = 99
    others = np.delete(np.arange(1, 128), 49)
    order = others[np.argsort(sim.arrivals(50, others))]
    far = [MACHINES[1].distance(50, int(v)) for v in order]
    assert far == sorted(far)


def write(directory, name, rows):
    lines = [{"cpu": "a"}, *({"who": "pyblitz"} | row for row in rows)]
    path = directory / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")


def test_costs_are_read_from_results(tmp_path):
    assert costs.here(tmp_path).costs == costs.Costs()
    assert costs.here(tmp_path).biased
    scheduler = f"scheduler/{costs.PRICED}"
    write(tmp_path, scheduler, [{"what": "join", "threads": 1, "ns_min": 5.0, "plain_ns_min": 2.0}])
    assert not costs.here(tmp_path).biased
    write(
        tmp_path,
        scheduler,
        [
            {"what": "join", "threads": 1, "ns_min": 2.5, "plain_ns_min": 2.0},
            {"what": "join_lazy", "threads": 1, "ns_min": 1.5},
            {"what": "join", "threads": 2, "ns_min": 0.3, "plain_ns_min": 2.0},
            {"what": "join_lazy", "threads": 2, "ns_min": 9.0},
            {"what": "spawn_many", "threads": 1, "ns_min": 20.0},
        ],
    )
    own = costs.here(tmp_path)
    assert (own.costs.fork_eager, own.costs.fork_lazy, own.biased) == (2.5, 1.5, True)
    assert f"{scheduler}.jsonl" in own.sources["fork_eager"]

    rows = validate.Validation(own, costs.measured(tmp_path)).rows()
    found = {(r["row"], r["threads"]): r for r in rows}
    assert found["join", 1]["kind"] == "input"
    assert found["join", 1]["within"]
    assert found["join", 2]["kind"] == "predicted"
    assert found["join", 2]["within"]  # 2.3 of 4.5 ns
    assert found["join_lazy", 2]["within"] is False
    assert found["fib lazy", 2]["within"] is None
    text = report.validation(rows)
    assert "**no**" in text
    assert "not measured" in text


def test_prices_are_read_from_results(tmp_path):
    write(
        tmp_path,
        "prices",
        [
            {"what": "clock", "price": 30.0},
            {"what": "transfer", "price": 40.0},
            {"what": "fence", "price": 7.0},
            {"what": "look, nothing changed", "least": 1.0},
            {"what": "wake", "least": 9.0},
        ],
    )
    own = costs.here(tmp_path)
    eager = costs.Costs.fork_eager
    assert (own.costs.clock, own.costs.fork_fenced) == (30.0, eager + 7.0)
    assert own.costs.transfer == (40.0, 40.0, 40.0)
    assert own.costs.wake == costs.Costs.wake  # that row says no price
    kinds = {name: source.split(":")[0] for name, source in own.sources.items()}
    found = {name for name, kind in kinds.items() if kind == costs.MEASURED}
    assert found == {"clock", "transfer", "fork_fenced"}
    assert set(kinds.values()) == {costs.MEASURED, costs.ESTIMATE}

    other = costs.two_sockets(tmp_path)
    assert (other.costs.clock, other.costs.transfer) == (30.0, (23.0, 107.0, 197.0))
    assert other.sources["clock"] == own.sources["clock"]
    assert other.sources["transfer"].startswith(costs.PUBLISHED)


def test_two_threads_of_pyblitz_set_no_price(tmp_path):
    """They are what the simulation has to predict."""
    before = costs.here(tmp_path)
    names = [row["name"] for row in before.table()] + ["join", "join_lazy", "latency", "spawn"]
    rows = [{"what": name, "threads": 2, "ns_min": 77.0, "ns_mean": 77.0} for name in names]
    write(tmp_path, "scheduler", rows)
    write(tmp_path, "sleeping", rows)
    assert costs.here(tmp_path) == before


def measured_by(source):
    """File and row."""
    name, what = source.removeprefix(f"{costs.MEASURED}: ").split(", ")[:2]
    return name.removesuffix(".jsonl"), what.removesuffix(" with 1 thread")


def last(name):
    if name == "scheduler":  # as it was called when simulate.jsonl was written
        name = f"scheduler/{costs.PRICED}"
    lines = (costs.RESULTS / f"{name}.jsonl").read_text().splitlines()[1:]
    return [json.loads(line) for line in lines]


def test_every_cost_is_measured_published_or_an_estimate():
    """As computed now, and as in the last results, which docs/scale.md prints."""
    now = [row for make in costs.MACHINES.values() for row in make().table()]
    printed = [row for row in last("simulate") if row["what"] == "cost"]
    assert {row["name"] for row in printed} == {row["name"] for row in now}
    for row in now + printed:
        kind, reason = row["source"].split(": ", 1)
        assert kind in (costs.MEASURED, costs.PUBLISHED, costs.ESTIMATE)
        assert reason
        assert "placeholder" not in reason
        if kind == costs.MEASURED:
            name, what = measured_by(row["source"])
            assert [r for r in last(name) if r["what"] == what], row
    for rows in (now, printed):
        own = [row for row in rows if row["machine"] == "here"]
        assert [r["name"] for r in own if not r["source"].startswith(costs.MEASURED)] == ["doze"]


def test_prices_are_printed_with_their_sources():
    rows = [row for machine in MACHINES for row in machine.table()]
    text = report.page(rows, {m.name: m.title for m in MACHINES})
    lines = {line.split("|")[1].strip(" `"): line for line in text.splitlines() if "|" in line}
    for machine in MACHINES:
        for row in machine.table():
            assert row["source"] in lines[row["name"]]
            assert row["meaning"] in lines[row["name"]]
    assert "23 / 107 / 197" in lines["transfer"]
    assert " 60 |" in lines["transfer"]  # one number where all cores are equally far


def test_tables_and_chart(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "WORKERS", (1, 4))
    monkeypatch.setattr(run, "COMPARED", (4,))
    monkeypatch.setattr(run, "ALL", {name: lambda seed, n=name: SMALL[n]() for name in run.ALL})
    runs = run.Runs()
    curves = [row for machine in MACHINES for row in run.curve_rows(runs, machine)]
    rows = curves + run.policy_rows(runs, MACHINES[1])
    page = report.page(rows, {m.name: m.title for m in MACHINES})
    for label, *_ in run.VARIANTS:
        assert label in page
    assert "What it decided" in page

    svg = ElementTree.fromstring(chart.draw(curves, {m.name: m for m in MACHINES}))
    lines = [
        e for e in svg.iter() if e.get("class", "").startswith("line c") and not e.get("style")
    ]
    assert len(lines) == 2 * len(workloads.FIVE)
