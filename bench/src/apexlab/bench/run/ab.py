"""Two images measured in turn: round by round, so that a drift of the machine meets both alike.

Each round is one container, which goes on in the folder of its image (`--resume`), so that the
first look at the scenarios is had once. Which image comes first changes from round to round.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from apexlab.verify.errors import FALLBACK, OK, PROBLEM, CannotError, UsageError

INSIDE = "/results"  # the place of the image that every user may write to
SIDES = ("a", "b")
MEASURED = (OK, PROBLEM, FALLBACK)  # also when a scenario failed: the others have their times
_ASK_SECONDS = 60.0
_LEAVE_SECONDS = 20.0  # after Ctrl-C, to write what is finished


@dataclass(frozen=True)
class Image:
    """`name` as it was given; `id` is the content's digest, which a moved tag does not change."""

    name: str
    id: str


@dataclass(frozen=True)
class Turn:
    """One container: the round (from 0) and whose it is."""

    round: int
    side: str


def turns(rounds: int) -> Iterator[Turn]:
    """a b, b a, a b, ... Raises UsageError."""
    if rounds < 2:
        raise UsageError(f"{rounds} rounds give no interval, so nothing could be said of two "
                         "images. Ask for two or more; the default is 5.")
    for number in range(rounds):
        for side in SIDES if number % 2 == 0 else SIDES[::-1]:
            yield Turn(number, side)


def find_image(name: str) -> Image:
    """A local image. Raises CannotError for none, and for an engine that does not answer."""
    command = ["docker", "image", "inspect", "--format", "{{.Id}}", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_SECONDS,
                              stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise CannotError("There is no docker command on this machine, and two images can only "
                          "be compared where both can run. Install Docker.") from error
    except subprocess.TimeoutExpired as error:
        raise CannotError("The container engine does not answer. Start it, and try again."
                          ) from error
    if done.returncode:
        said = " ".join(done.stderr.split())
        raise CannotError(f"The image {name} cannot be used ({said}). `docker images` lists what "
                          f"is here; `docker pull {name}` fetches it.")
    return Image(name, done.stdout.strip())


def command(image: Image, turn: Turn, folder: Path, device: str, options: Sequence[str],
            name: str) -> list[str]:
    """The container of one turn. It runs the image by its digest, as the user who asked, so that
    the results belong to that user; group 0 may write in the image."""
    gpus = ["--gpus", "all"] if device == "cuda" else []
    resume = ["--resume"] if turn.round else []
    return ["docker", "run", "--rm", "--init", "--name", name, *gpus, "--shm-size", "1g",
            "--user", f"{os.getuid()}:0", "-v", f"{folder.resolve()}:{INSIDE}", image.id,
            "bench", "train", "--device", device, "--rounds", str(turn.round + 1),
            "--out", f"{INSIDE}/{turn.side}", *resume, *options]


def run(images: Sequence[Image], rounds: int, folder: Path, device: str, options: Sequence[str],
        say: Callable[[str], None]) -> None:
    """Run all turns. Raises CannotError as soon as a container does not come to its end: what was
    finished before stays in the folder."""
    for turn in turns(rounds):
        image = images[SIDES.index(turn.side)]
        say(f"round {turn.round + 1} of {rounds}: {image.name}")
        name = f"apexlab-ab-{os.getpid()}-{turn.side}{turn.round}"
        code = _contained(command(image, turn, folder, device, options, name), name)
        if code not in MEASURED:
            raise CannotError(f"Round {turn.round + 1} of {image.name} was not measured: its "
                              f"container ended with {code}, and said why above. What was "
                              f"finished is in {folder}.")


def _contained(command: Sequence[str], name: str) -> int:
    """The exit code of a container, which does not outlive this call."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        return process.wait()
    finally:
        if process.poll() is None:  # Ctrl-C: let it write what is finished, then be sure
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=_LEAVE_SECONDS)
            except subprocess.TimeoutExpired:
                subprocess.run(["docker", "kill", name], capture_output=True, check=False)
                process.kill()
                process.wait()
