"""What a run is to measure: from the options to scenarios, rounds, timing and a hash. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from apexlab.bench.model.shape import Shape
from apexlab.bench.model.stream import Stream
from apexlab.bench.planning.configuration import configuration, configuration_hash
from apexlab.bench.planning.preset import Preset
from apexlab.bench.planning.rounds import QUICK_ROUNDS, ROUNDS
from apexlab.bench.planning.scenario import Scenario, find_ladder, find_scenarios, of_ladder
from apexlab.verify.errors import UsageError

SCHEMA = "apexlab.bench-plan/1"
LADDER = "classic"
BASELINE = find_ladder(LADDER).steps[0].scenario  # the same one in every ladder
PRESETS = {"cuda": "gpt-small", "cpu": "cpu"}
# Set for the processes on a device, where the user has not. Threads that spin while they wait slow
# a training on busy cores down to a sixth.
VARIABLES: dict[str, dict[str, str]] = {"cpu": {"OMP_WAIT_POLICY": "PASSIVE"}, "cuda": {}}
SHARED_CORES = "OMP_NUM_THREADS"  # set where several GPUs share the cores
DIGESTED = 2**16  # tokens that tell one stream from another


@dataclass(frozen=True)
class Timing:
    """How one process measures: steps of warm-up, which ends when two windows agree within
    `agree`, then `blocks` that each last `block_seconds` or longer."""

    least_warmup: int
    most_warmup: int
    agree: float
    blocks: int
    block_seconds: float


# By device and --quick. A step of gpt-small takes 0.3 s in FP32 on an H200; on a CPU, a step of
# the preset cpu takes some milliseconds.
TIMING = {
    ("cuda", False): Timing(20, 100, 0.01, 10, 0.5),
    ("cuda", True): Timing(10, 20, 0.02, 5, 0.3),
    ("cpu", False): Timing(20, 100, 0.02, 10, 0.25),
    ("cpu", True): Timing(10, 40, 0.05, 5, 0.1),
}
# Of the loss curves. All that a CPU can show in the time that --quick has is fewer.
PARITY_STEPS = {("cuda", False): 200, ("cuda", True): 200, ("cpu", False): 200, ("cpu", True): 100}


@dataclass(frozen=True)
class Request:
    """What the options say. `data`: None for the stream, else {"kind", "path", "sha256"}."""

    ladder: str | None = None
    scenarios: tuple[str, ...] = ()
    rounds: int | None = None
    quick: bool = False
    device: str = "cuda"
    gpus: int = 1
    seed: int = 0
    margin: float = 0.02
    data: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Plan:
    """`scenarios`: the baseline first. `data`: as a task has it. `notes`: what was decided for the
    user, to be said."""

    ladder: str | None
    scenarios: tuple[Scenario, ...]
    baseline: str
    rounds: int
    quick: bool
    device: str
    gpus: int
    seed: int
    margin: float
    preset: Preset
    data: Mapping[str, Any]
    timing: Timing
    configuration: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        return configuration_hash(dict(self.configuration))

    def names(self) -> list[str]:
        return [scenario.name for scenario in self.scenarios]

    def document(self, version: str, created: str) -> dict[str, Any]:
        """plan.json."""
        return {
            "schema": SCHEMA, "version": version, "created": created,
            "configuration": dict(self.configuration), "configuration_hash": self.hash,
            "ladder": self.ladder, "scenarios": self.names(), "baseline": self.baseline,
            "rounds": self.rounds, "quick": self.quick, "seed": self.seed, "device": self.device,
            "gpus": self.gpus, "margin": self.margin,
            "preset": {"name": self.preset.name, "batch": self.preset.batch,
                       "shape": asdict(self.preset.shape)},
            "data": dict(self.data), "timing": asdict(self.timing),
            "seconds": self.preset.seconds}


def request_of(plan: Mapping[str, Any], given: Mapping[str, Any]) -> Request:
    """What was asked for when this plan was made, with what is `given` now in its place."""
    data = plan["data"] if plan["data"]["kind"] == "text" else None
    kept = {"ladder": plan["ladder"], "scenarios": () if plan["ladder"] else
            tuple(plan["scenarios"]), "data": data}
    if given.keys() & {"ladder", "scenarios"}:
        kept |= {"ladder": None, "scenarios": ()}
    same = ("rounds", "quick", "device", "gpus", "seed", "margin")
    return Request(**{**{key: plan[key] for key in same}, **kept, **given})


def preset_of(plan: Mapping[str, Any]) -> Preset:
    """The preset of a plan, whatever became of the file that it was read from."""
    given = plan["preset"]
    return Preset(given["name"], Shape(**given["shape"]), given["batch"], plan.get("seconds", 30))


def make_plan(request: Request, preset: Preset) -> Plan:
    """Raises UsageError for a request that nothing can meet."""
    scenarios, notes = _chosen(request)
    rounds = request.rounds
    if rounds is None:
        rounds = QUICK_ROUNDS if request.quick else ROUNDS
    if rounds < 1:
        raise UsageError(f"--rounds {rounds} measures nothing. Ask for one or more; an interval "
                         f"needs two, and the default is {ROUNDS}.")
    data = request.data or {"kind": "stream", "seed": request.seed}
    digest = data["sha256"] if data["kind"] == "text" else _digest(preset, data["seed"])
    settings = configuration(preset, scenarios, digest, request.seed, request.device, request.gpus)
    return Plan(
        None if request.scenarios else request.ladder or LADDER, scenarios, BASELINE, rounds,
        request.quick, request.device, request.gpus, request.seed, request.margin, preset, data,
        TIMING[request.device, request.quick], settings, notes)


def _chosen(request: Request) -> tuple[tuple[Scenario, ...], tuple[str, ...]]:
    if request.scenarios and request.ladder:
        raise UsageError("--ladder and --scenarios both say what to measure. Give one of them.")
    if not request.scenarios:
        return of_ladder(request.ladder or LADDER), ()
    named = find_scenarios(request.scenarios)
    baseline, = find_scenarios([BASELINE])
    notes = () if baseline in named else (
        f"The baseline {BASELINE} is measured as well: every figure is read against it.",)
    return (baseline, *(scenario for scenario in named if scenario != baseline)), notes


def _digest(preset: Preset, seed: int) -> str:
    stream = Stream(preset.shape.vocabulary, seed)
    return stream.digest(stream.tokens(DIGESTED))


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Sequence[str]:
    """In what two documents of plans would measure differently; rounds may be added to."""
    same = ("scenarios", "device", "gpus", "seed", "preset", "quick", "timing", "margin")
    found = [key for key in same if old.get(key) != new[key]]
    if old.get("configuration_hash") != new["configuration_hash"] and not found:
        found.append("data" if old.get("data") != new["data"] else "configuration")
    return found
