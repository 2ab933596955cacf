"""What samples of a GPU come to; they are made up."""

from __future__ import annotations

import pytest

from apexlab.bench.run import nvml
from apexlab.bench.run.telemetry import Sample, causes, energy, names, sliced


def samples(*, start=0.0, count=20, period=0.1, watts=500.0, **more):
    return [Sample(start + number * period, 1980.0, 3201.0, watts, 60.0,
                   energy_joules=watts * number * period, processes=frozenset({11}), **more)
            for number in range(count)]


def test_only_the_window_counts():
    before = Sample(0.0, 210.0, 405.0, 75.0, 30.0, throttle=0x1, energy_joules=0.0,
                    processes=frozenset({10, 12}))
    found = sliced([[before, *samples(start=1.0)]], (1.05, 2.05), own=1)
    assert found["samples"] == 10 and found["throttle"] == []
    assert found["sm_clock"] == {"median": 1980.0, "min": 1980.0, "max": 1980.0}
    assert found["temperature"]["median"] == 60.0 and found["other_processes"] == 0


def test_energy_is_interpolated_at_both_ends():
    # 500 W for a second, read off a counter that was sampled at other times
    assert energy(samples(), 0.33, 1.33) == pytest.approx(500.0)
    assert sliced([samples()], (0.33, 1.33), own=1)["energy_joules"] == pytest.approx(500.0)
    short = [Sample(0.0, energy_joules=10.0), Sample(2.0, energy_joules=30.0)]
    assert energy(short, 0.5, 1.5) == pytest.approx(10.0)


@pytest.mark.parametrize("window", [(-0.1, 1.0), (0.5, 5.0)])
def test_energy_that_was_not_read_around_the_window_is_unknown(window):
    assert energy(samples(), *window) is None


def test_energy_without_a_counter_or_after_its_reset_is_unknown():
    assert energy([Sample(0.0), Sample(1.0)], 0.2, 0.8) is None
    assert energy([Sample(0.0, energy_joules=50.0), Sample(1.0, energy_joules=0.0)], 0, 1) is None


def test_a_sensor_that_is_absent_is_none_and_the_others_stay():
    found = sliced([[Sample(0.5, sm_clock=1000.0)]], (0.0, 1.0), own=1)
    assert found["sm_clock"]["median"] == 1000.0
    assert found["power_watts"] is None and found["energy_joules"] is None


def test_no_sample_in_the_window_is_no_telemetry():
    assert sliced([samples()], (100.0, 101.0), own=1) is None
    assert sliced([], (0.0, 1.0), own=1) is None
    assert causes(None) == frozenset()


def test_several_gpus_add_their_energy_and_keep_the_worst_of_the_rest():
    hot = [Sample(each.time, 1200.0, 3201.0, 700.0, 90.0, 0x20, each.energy_joules,
                  frozenset({12, 13})) for each in samples()]
    found = sliced([samples(), hot], (0.2, 1.2), own=2)
    assert found["energy_joules"] == pytest.approx(1000.0)
    assert found["temperature"]["max"] == 90.0 and found["sm_clock"]["min"] == 1200.0
    assert found["throttle"] == ["sw-thermal-slowdown"] and found["other_processes"] == 1


@pytest.mark.parametrize(("bits", "expected"), [
    (0x0, set()), (0x1, set()), (0x4, {"power-cap"}), (0x20, {"thermal-slowdown"}),
    (0x48, {"thermal-slowdown", "hardware-slowdown"}), (0x80, {"hardware-slowdown"}),
    (0x200, set())])
def test_throttle_reasons_become_causes(bits, expected):
    found = sliced([samples(throttle=bits)], (0.0, 1.0), own=1)
    assert causes(found) == expected


def test_a_reason_in_a_single_sample_counts():
    one = [*samples(count=10), Sample(0.55, throttle=0x40), *samples(start=0.95)]
    assert causes(sliced([one], (0.0, 1.0), own=1)) == {"thermal-slowdown"}


def test_reasons_have_names_and_an_unknown_one_its_value():
    assert names(0x4 | 0x8) == ["sw-power-cap", "hw-slowdown"]
    assert names(0x1000) == ["unknown-0x1000"]


def test_another_process_on_the_gpu_is_contended_and_ones_own_is_not():
    assert causes(sliced([samples()], (0.0, 1.0), own=1)) == frozenset()
    two = [Sample(0.4, processes=frozenset({11})), Sample(0.5, processes=frozenset({11, 12}))]
    assert causes(sliced([two], (0.0, 1.0), own=1)) == {"contended"}
    after = [Sample(0.4, processes=frozenset({11})), Sample(0.5, processes=frozenset({12}))]
    assert causes(sliced([after], (0.0, 1.0), own=1)) == frozenset()  # started again
    # Inside a container the driver may hide all of them.
    assert causes(sliced([[Sample(0.5)]], (0.0, 1.0), own=1)) == frozenset()


GPUS = ["GPU-aaaa1111", "MIG-eeee5555", "GPU-bbbb2222", "GPU-bbcc3333"]


@pytest.mark.parametrize(("variable", "expected"), [
    (None, ["GPU-aaaa1111", "GPU-bbbb2222", "GPU-bbcc3333"]),
    ("1", ["GPU-bbbb2222"]), ("2,0", ["GPU-bbcc3333", "GPU-aaaa1111"]),
    ("GPU-bbcc", ["GPU-bbcc3333"]), ("MIG-eeee5555", ["MIG-eeee5555"]),
    ("GPU-bb", []),  # fits two
    ("0,7,1", ["GPU-aaaa1111"]), ("-1", []), ("", []),
])
def test_the_variable_names_gpus_by_index_or_uuid(variable, expected):
    assert nvml.chosen(variable, GPUS) == expected


def test_without_a_driver_there_is_a_reason_and_no_crash(monkeypatch):
    watch = nvml.Watch(1)
    if not watch.why_none:
        pytest.skip("this machine has a GPU")
    watch.start()
    assert watch.stop() == [] and watch.others() == [] and watch.uuids() == []
    assert "NVML" in watch.why_none or "nvidia-ml-py" in watch.why_none
