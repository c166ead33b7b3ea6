"""How many threads the machine grants: environment, affinity, control groups."""

import multiprocessing
import os

import pytest

from pyblitz.host import config


@pytest.fixture
def cgroup(tmp_path):
    """cgroup(membership, {file: text}) -> the quota that they say."""

    def quota(membership, files):
        mount = tmp_path / "mount"
        mount.mkdir()
        for name, text in files.items():
            path = mount / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "membership").write_text(membership)
        return config.cgroup_quota(str(mount), str(tmp_path / "membership"))

    return quota


V1 = "12:memory:/x\n4:cpu,cpuacct:{}\n1:name=systemd:/y\n"


@pytest.mark.parametrize(
    ("membership", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {}, None),
        ("", {"cpu.max": "150000 100000\n"}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "200000 100000\n"}, 2.0),
        ("0::/a/b\n", {"a/b/cpu.max": "100000 100000\n", "a/cpu.max": "max 100000\n"}, 1.0),
        # The path is the host's: in the container there is only the mount.
        ("0::/docker/1234\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("0::/\n", {"cpu.max": "rubbish\n"}, None),
        ("0::/\n", {"cpu.max": ""}, None),
        ("rubbish\n\n0::/\n", {"cpu.max": "300000 100000\n"}, 3.0),
        (
            V1.format("/"),
            {"cpu/cpu.cfs_quota_us": "250000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            2.5,
        ),
        (
            V1.format("/"),
            {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
            None,
        ),
        (
            V1.format("/a"),
            {"cpu/a/cpu.cfs_quota_us": "50000\n", "cpu/a/cpu.cfs_period_us": "50000\n"},
            1.0,
        ),
        (V1.format("/"), {"cpu/cpu.cfs_quota_us": "250000\n"}, None),
        # Both versions at once: the tighter limit.
        (
            V1.format("/") + "0::/\n",
            {
                "cpu.max": "300000 100000\n",
                "cpu/cpu.cfs_quota_us": "200000\n",
                "cpu/cpu.cfs_period_us": "100000\n",
            },
            2.0,
        ),
    ],
)
def test_cgroup_quota(cgroup, membership, files, quota):
    assert cgroup(membership, files) == quota


def test_no_cgroups_at_all(tmp_path):
    assert config.cgroup_quota(str(tmp_path), str(tmp_path / "none")) is None


@pytest.fixture
def machine(monkeypatch):
    """A machine with so many CPUs, and such a quota."""

    def pretend(cpus, quota):
        monkeypatch.delenv(config.ENVIRONMENT_VARIABLE, raising=False)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cpus)), raising=False)
        monkeypatch.setattr(config, "cgroup_quota", lambda: quota)

    return pretend


@pytest.mark.parametrize(
    ("cpus", "quota", "threads"),
    [(1, None, 1), (8, None, 8), (8, 2.0, 2), (8, 2.1, 3), (8, 0.1, 1), (2, 16.0, 2)],
)
def test_default(machine, cpus, quota, threads):
    machine(cpus, quota)
    assert config.default_num_threads() == threads


def test_no_more_than_the_most(machine):
    machine(100_000, None)
    assert config.default_num_threads() == config.MAX_THREADS


def test_without_affinity(monkeypatch):
    def refuses(pid):
        raise OSError

    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    monkeypatch.setattr(os, "sched_getaffinity", refuses, raising=False)
    assert config.available_cpus() == 5
    monkeypatch.delattr(os, "sched_getaffinity")
    assert config.available_cpus() == 5
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert config.available_cpus() == 1


@pytest.mark.parametrize(("text", "threads"), [("1", 1), ("7", 7), (" 12 ", 12), ("16384", 16384)])
def test_environment(machine, monkeypatch, text, threads):
    machine(2, 1.0)
    monkeypatch.setenv("PYBLITZ_NUM_THREADS", text)
    assert config.default_num_threads() == threads


@pytest.mark.parametrize("text", ["", "  "])
def test_empty_environment_is_none(machine, monkeypatch, text):
    machine(3, None)
    monkeypatch.setenv("PYBLITZ_NUM_THREADS", text)
    assert config.default_num_threads() == 3


@pytest.mark.parametrize("text", ["0", "-1", "16385", "two", "1.5", "0x2"])
def test_bad_environment(machine, monkeypatch, text):
    machine(2, None)
    monkeypatch.setenv("PYBLITZ_NUM_THREADS", text)
    with pytest.raises(ValueError, match=r"PYBLITZ_NUM_THREADS must be .*, not '?" + text):
        config.default_num_threads()


@pytest.mark.parametrize(
    ("inside", "openmp", "asked", "threads"),
    [
        (True, "2", None, 2),
        (True, "2,1", "6", 2),
        (True, "9", "6", 6),
        (True, "9", None, 4),
        (True, "many", None, 4),
        (True, "0", None, 4),
        (True, None, None, 4),
        (False, "2", None, 4),
    ],
)
def test_what_a_pool_of_processes_grants(machine, monkeypatch, inside, openmp, asked, threads):
    machine(4, None)
    monkeypatch.setattr("multiprocessing.process.parent_process", lambda: "it")
    name = "LokyProcess-3" if inside else "ForkPoolWorker-3"
    monkeypatch.setattr(multiprocessing.current_process(), "name", name)
    for name, value in [("OMP_NUM_THREADS", openmp), ("PYBLITZ_NUM_THREADS", asked)]:
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert config.default_num_threads() == threads


@pytest.mark.parametrize(
    ("cpus", "quota", "text", "spin"),
    [
        (4, None, "", 200),
        (4, 4.0, " 70 ", 70),
        (9, 3.5, "70", 0),
        (3, None, "70", 0),
        (4, None, "0", 0),
        (4, None, "1000000", 1_000_000),
    ],
)
def test_spinning(machine, monkeypatch, cpus, quota, text, spin):
    """Of four threads: not where their CPUs are not all there, or paid for by the time."""
    machine(cpus, quota)
    monkeypatch.setenv("PYBLITZ_SPIN", text)
    assert config.spin_microseconds(4) == spin


@pytest.mark.parametrize(("text", "expected"), [("", True), ("1", True), (" 0 ", False)])
def test_placing_threads(monkeypatch, text, expected):
    monkeypatch.setenv("PYBLITZ_AFFINITY", text)
    assert config.places_threads() == expected


@pytest.mark.parametrize("text", ["1000001", "-1", "1.5", "often"])
def test_a_bad_time_to_spin(script, text):
    """Told by each first operation, as all of the environment."""
    source = """
import pyblitz as pb
for _ in range(2):
    try: pb.join(int, int)
    except ValueError as e: print(e)
"""
    why = f"PYBLITZ_SPIN must be a number of microseconds, at most 1000000, not {text!r}"
    assert script(source, env={"PYBLITZ_SPIN": text}).splitlines() == [why] * 2


def test_the_environment_reaches_the_pool(script):
    source = "import pyblitz as pb, native_capi; print(pb.num_threads(), native_capi.inside()[0])"
    assert script(source, env={"PYBLITZ_NUM_THREADS": "5"}).split() == ["5", "5"]
    done = script(source, env={"PYBLITZ_NUM_THREADS": "many"}, check=False)
    assert done.returncode == 1
    assert "ValueError: PYBLITZ_NUM_THREADS must be an integer, not 'many'" in done.stderr


def test_a_bad_environment_is_told_by_the_first_operation(script):
    """No GIL is held there, and no worker is left behind."""
    assert script(
        "import native_capi, os, pyblitz as pb\n"
        "for _ in range(2):\n"
        "    try: native_capi.fib(5)\n"
        "    except ValueError as e: print(e)\n"
        "pb.set_num_threads(3)\n"
        "print(native_capi.inside()[0])",
        env={"PYBLITZ_NUM_THREADS": "0"},
    ).splitlines() == ["PYBLITZ_NUM_THREADS must be from 1 to 16384, not 0"] * 2 + ["3"]
