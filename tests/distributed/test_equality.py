"""Trainings of several processes end where that of one process ends."""

import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from . import cases

SCRIPT = Path(cases.__file__)
SECONDS = 240


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(folder, world, *arguments):
    """Run the script in ``world`` processes and return what each has written."""
    wait_for(start(folder, world, SCRIPT, *arguments), folder)
    return [torch.load(folder / f"{rank}.pt") for rank in range(world)]


def start(folder, world, script, *arguments):
    """Start a script in ``world`` processes."""
    port = free_port()
    started = []
    for rank in range(world):
        variables = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "GROUP_RANK": 0,
            "WORLD_SIZE": world,
            "LOCAL_WORLD_SIZE": world,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "TORCHELASTIC_RUN_ID": "test",
            "OMP_NUM_THREADS": 1,
        }
        environment = os.environ | {name: str(value) for name, value in variables.items()}
        command = [sys.executable, str(script), str(folder), *map(str, arguments)]
        log = (folder / f"{rank}.log").open("wb")
        started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
    return started


def wait_for(started, folder):
    """Wait until all processes have ended; end the others if one fails or time is up."""
    end = time.monotonic() + SECONDS
    try:
        while any(process.poll() is None for process in started):
            failed = [rank for rank, process in enumerate(started) if process.poll()]
            if failed or time.monotonic() > end:
                break
            time.sleep(0.1)
    finally:
        for process in started:
            process.kill()
    codes = [process.wait() for process in started]
    logs = "".join((folder / f"{rank}.log").read_text()[-3000:] for rank in range(len(started)))
    assert codes == [0] * len(started), logs


@pytest.fixture(scope="module")
def reference():
    return cases.MemberCases().results(*cases.ALL)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What two processes have found; the workers of pytest-xdist share it."""
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    base = tmp_path_factory.getbasetemp()
    folder = (base if alone else base.parent) / "two"
    folder.mkdir(exist_ok=True)
    with FileLock(folder / "lock"):
        files = [folder / "0.pt", folder / "1.pt"]
        return [torch.load(f) for f in files] if files[0].exists() else run(folder, 2)


def names(*prefixes):
    return [name for name in dir(cases.MemberCases) if name.startswith(prefixes)]


def check_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-6, atol=1e-6, msg=name)


@pytest.mark.parametrize("name", names("data_", "members_"))
def test_two_processes_end_with_the_weights_and_the_history_of_one(two, reference, name):
    for found in two:
        check_equal(found[name], reference[name])


def test_the_first_process_gives_its_running_statistics_to_all(two, reference):
    name = "statistics_of_batch_norm"
    first, second = (found[name] for found in two)
    check_equal(first, second)
    assert not torch.allclose(first["buffers"], reference[name]["buffers"])
    x = cases.data()[0][: cases.SIZE // 2]  # its part of the batch
    torch.manual_seed(0)
    network = cases.batch_normalised()
    network(x)
    expected = torch.cat([buffer.double().flatten() for buffer in network.buffers()])
    torch.testing.assert_close(first["buffers"], expected, rtol=1e-6, atol=1e-6)


def test_members_with_batch_norm_see_the_whole_batch(two, reference):
    name = "statistics_of_members"
    for found in two:
        check_equal(found[name], reference[name])


def test_a_step_sends_two_means_and_its_loss(two):
    """2 · S · K numbers, with the likelihood and a checksum of each process; and four numbers."""
    for found in two:
        assert found["messages"] == [2 * 16 * cases.CLASSES + 1 + 2, 4]


def test_random_numbers_of_members_leave_the_processes_in_step(two):
    first, second = (found["failures"]["dropout"] for found in two)
    assert torch.equal(first, second)


def test_a_loss_that_is_not_finite_in_one_process_stops_both(two):
    first, second = (found["failures"]["nan"] for found in two)
    assert first[0] == "NonFiniteInputError"
    assert "its item 5" in first[1]
    assert second[0] == "ProcessError"


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("small batch", "SettingError", "A batch of 1 items cannot be divided among 2 processes"),
        ("sampler", "SettingError", "an ordinary sampler in place of the DistributedSampler"),
        ("one process", "SettingError", "pass fabric="),
        ("few members", "SettingError", "1 members for 2 processes"),
        ("inputs", "DataError", "must have the same inputs"),
        ("wrapped", "SettingError", "pass the ensemble itself"),
        ("lbfgs", "SettingError", "use another optimiser"),
        ("grid", "SettingError", "must divide the number of processes, 2"),
    ],
)
def test_what_cannot_be_right_is_refused_by_every_process(two, name, kind, said):
    for found in two:
        assert found["failures"][name][0] == kind
        assert said in found["failures"][name][1]


@pytest.mark.parametrize("name", [n for n in dir(cases.Resumed) if n.startswith("goes_on_")])
def test_an_interrupted_training_ends_with_the_weights_of_one_that_was_not(two, name):
    for found in two:
        went_on, whole = found["resumed"][name]
        assert torch.equal(went_on, whole)


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("at_a_full_disk", "Another process could not save its part", "No space left"),
        ("without_a_common_checkpoint", "no checkpoint in common", "no checkpoint in common"),
        ("in_a_folder_of_one_process", "a training in one process", "a training in one process"),
    ],
)
def test_processes_that_cannot_save_or_go_on_stop_together(two, name, first, second):
    for found, said in zip(two, (first, second), strict=True):
        assert said in found["resumed"][f"stops_{name}"][1]


@pytest.mark.slow
def test_processes_that_are_killed_at_any_instant(tmp_path):
    script = Path(cases.__file__).with_name("killed.py")
    instants = random.Random(time.time())
    ended = []
    for name, kills in {"whole": 0, "killed": 6}.items():
        folder = tmp_path / name
        folder.mkdir()
        for _ in range(kills):
            started = start(folder, 2, script)
            begun = time.monotonic()
            while not list(folder.glob("checkpoints/process-1/checkpoint-*")):
                assert time.monotonic() < begun + SECONDS
                time.sleep(0.05)
            time.sleep(instants.uniform(0, 6))
            for process in instants.sample(started, 2):  # the other one may go on for a while
                process.kill()
                process.wait()
        wait_for(start(folder, 2, script), folder)
        ended.append([torch.load(folder / f"{rank}.pt") for rank in range(2)])
    for whole, killed in zip(*ended, strict=True):
        assert torch.equal(whole, killed)


@pytest.mark.slow
def test_a_grid_of_four_processes_ends_where_one_ends(tmp_path, reference):
    results = run(tmp_path, 4, 2)
    for found in results:
        assert found.keys() <= reference.keys()
        for name in found.keys() - {"statistics_of_members"}:
            check_equal(found[name], reference[name])
        # Each process normalised by its part of the batch; those of the first row went to all.
        check_equal(found["statistics_of_members"], results[0]["statistics_of_members"])
