"""Memory and core limits, from folders laid out as the kernel's cgroup mounts are."""

import os

import pytest

from apexlab.build.limits import GIB, cores, memory_limit, parse_size
from apexlab.verify.errors import UsageError


@pytest.fixture
def host(tmp_path):
    """An empty /proc of a 24 GiB machine, and an empty cgroup mount."""
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    cgroup.mkdir()
    (proc / "meminfo").write_text(f"MemTotal:  {24 * GIB // 1024} kB\nMemFree: 1 kB\n")
    return proc, cgroup


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def test_without_a_group_the_machines_memory_is_the_limit(host):
    proc, cgroup = host
    limit = memory_limit(None, cgroup, proc)
    assert (limit.bytes, limit.source) == (24 * GIB, "MemTotal")


def test_version_2_in_a_container(host):
    proc, cgroup = host
    write(proc / "self/cgroup", "0::/")
    write(cgroup / "memory.max", 6 * GIB)
    limit = memory_limit(None, cgroup, proc)
    assert limit.bytes == 6 * GIB
    assert limit.source.endswith("memory.max")


def test_version_2_takes_the_smallest_limit_on_the_way_up(host):
    proc, cgroup = host
    write(proc / "self/cgroup", "0::/ci.slice/job")
    write(cgroup / "ci.slice/job/memory.max", "max")
    write(cgroup / "ci.slice/memory.max", 4 * GIB)
    write(cgroup / "memory.max", 8 * GIB)
    assert memory_limit(None, cgroup, proc).bytes == 4 * GIB


def test_version_1_in_a_container(host):
    proc, cgroup = host
    write(proc / "self/cgroup", "4:memory:/docker/abc\n1:cpu:/docker/abc")
    write(cgroup / "memory/memory.limit_in_bytes", 2 * GIB)
    assert memory_limit(None, cgroup, proc).bytes == 2 * GIB


def test_version_1_under_docker_build_shows_the_limit_only_in_memory_stat(host):
    proc, cgroup = host
    write(proc / "self/cgroup", "4:memory:/limit/buildkit/xyz")
    write(cgroup / "memory/memory.limit_in_bytes", 9223372036854771712)
    write(cgroup / "memory/memory.stat", f"cache 0\nhierarchical_memory_limit {16 * GIB}\nrss 1")
    limit = memory_limit(None, cgroup, proc)
    assert limit.bytes == 16 * GIB
    assert "hierarchical_memory_limit" in limit.source


def test_what_was_asked_for_holds_only_below_the_other_limits(host):
    proc, cgroup = host
    write(cgroup / "memory.max", 6 * GIB)
    assert memory_limit(3 * GIB, cgroup, proc).source == "--memory"
    assert memory_limit(64 * GIB, cgroup, proc).bytes == 6 * GIB


def test_nothing_readable_gives_a_small_limit(tmp_path):
    assert memory_limit(None, tmp_path / "a", tmp_path / "b").bytes == 2 * GIB


@pytest.mark.parametrize(
    ("text", "size"),
    [("6G", 6 * GIB), ("6GiB", 6 * GIB), ("6g", 6 * GIB), ("1.5G", 3 * GIB // 2),
     ("512m", GIB // 2), ("1073741824", GIB)],
)
def test_sizes_as_people_write_them(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "six", "6X", "-1G", "0", "G", "6 G G", "9" * 400])
def test_no_size(text):
    with pytest.raises(UsageError, match="amount of memory"):
        parse_size(text)


def test_a_cpu_quota_limits_the_cores(host):
    proc, cgroup = host
    mask = len(os.sched_getaffinity(0))
    assert cores(cgroup, proc) == mask
    write(cgroup / "cpu.max", "max 100000")
    assert cores(cgroup, proc) == mask
    write(cgroup / "cpu.max", "100000 100000")
    assert cores(cgroup, proc) == 1


def test_a_cpu_quota_of_version_1_limits_the_cores(host):
    proc, cgroup = host
    write(cgroup / "cpu/cpu.cfs_quota_us", "50000")
    write(cgroup / "cpu/cpu.cfs_period_us", "100000")
    assert cores(cgroup, proc) == 1
