# SPDX-License-Identifier: Apache-2.0
"""Who gets to the sockets of a run: nobody from outside this machine where all ranks are here, and between hosts
those who know the run's secret."""

import contextlib
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import time

import pytest
from namespaces import linked_namespaces, listening
from training_runs import GPT, WEFT, Run, capture, environment, losses, make_text, metrics

END_SECONDS = 60
LOOPBACK = {"0100007F", "00000000000000000000000001000000"}
# Tells which of the ports at a host may be connected to.
CONNECT = """
import json, socket, sys
host, reached = sys.argv[1], []
for port in map(int, sys.argv[2:]):
    with socket.socket() as peer:
        peer.settimeout(3)
        try:
            peer.connect((host, port))
            reached.append(port)
        except OSError:
            pass
print(json.dumps(reached))
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    graph = capture(f"{GPT}:tiny", folder / "tiny.graph")
    return [graph, "--data", make_text(folder / "data"), "--parallel", "data=2"]


@contextlib.contextmanager
def running(base, output, command=(WEFT,), **variables):
    """A run that goes on until it is left."""
    with Run([*base, "--steps", 1_000_000], output, command=command, **variables) as run:
        run.wait_for_step(2)
        yield run


@pytest.mark.parametrize("communication", ["shared", "gloo"])
def test_a_local_run_listens_on_loopback_alone(base, tmp_path, communication):
    with running(base, tmp_path / "run", WEFT_COMMUNICATION=communication) as run:
        ranks = run.ranks()
        assert sorted(ranks) == [0, 1]
        assert not listening([run.process.pid]), "the launcher has a port"
        found = listening(ranks.values())
        # By shared memory there are none at all; Gloo's are seen, so that the look is one.
        assert bool(found) == (communication == "gloo")
        assert {address for address, _ in found} <= LOOPBACK


def test_no_port_of_a_local_run_is_reached_from_another_namespace(base, tmp_path):
    with contextlib.ExitStack() as stack:
        (here, address), (there, _) = stack.enter_context(linked_namespaces())
        started = running(base, tmp_path / "run", command=(*here, WEFT), WEFT_COMMUNICATION="gloo")
        run = stack.enter_context(started)
        ports = [port for _, port in listening([run.process.pid, *run.ranks().values()])]
        assert ports
        # One that is open to all, so that a way is there.
        opener = "import socket, time; s = socket.socket(); s.bind(('', 47999)); s.listen(); print(1, flush=True)"
        open_port = subprocess.Popen(
            [*here, sys.executable, "-c", f"{opener}; time.sleep(60)"], stdout=subprocess.PIPE, text=True
        )
        try:
            open_port.stdout.readline()
            words = [*there, sys.executable, "-c", CONNECT, address, *map(str, [*ports, 47999])]
            done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=END_SECONDS)
        finally:
            open_port.kill()
            open_port.communicate()
        assert json.loads(done.stdout) == [47999]


def test_the_launchers_socket_has_a_name_that_is_not_guessed(base, tmp_path):
    with running(base, tmp_path / "run") as run:
        names = [
            line.split()[-1]
            for line in pathlib.Path(f"/proc/{run.process.pid}/net/unix").read_text().splitlines()
            if f"@weft/{run.process.pid}." in line
        ]
        assert names
        assert all(len(name) >= len("@weft/1.") + 32 for name in names)


class BetweenHosts:
    """A rank in each of two namespaces, started one by one."""

    def __init__(self, base, output, places, steps=4):
        self.words = [str(each) for each in [WEFT, "train", *base, "--steps", steps, "--output", output]]
        self.places = places
        self.variables = {
            "WORLD_SIZE": 2,
            "MASTER_ADDR": places[0][1],
            "MASTER_PORT": 29500,
            # They see one pid namespace and could share memory, which hosts cannot.
            "WEFT_COMMUNICATION": "gloo",
            "WEFT_TIMEOUT_SECONDS": 40,
        }
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stderr.close()

    def start(self, rank, place=None, **variables):
        within = self.places[rank if place is None else place][0]
        process = subprocess.Popen(
            [*within, *self.words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(RANK=rank, **self.variables, **variables),
        )
        self.processes.append(process)
        return process


def test_between_hosts_a_peer_without_the_secret_is_refused_and_named(base, tmp_path):
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(16) + "\n")
    output = tmp_path / "run"
    with linked_namespaces(3) as places, BetweenHosts(base, output, places) as run:
        first = run.start(0, WEFT_SECRET_FILE=path)
        strangers = [
            (run.start(1, place=2), "it asks for the run's secret: set WEFT_SECRET_FILE"),
            (run.start(1, place=2, WEFT_SECRET=secrets.token_hex(16)), "its secret is another"),
        ]
        for process, said in strangers:
            _, err = process.communicate(timeout=END_SECONDS)
            assert process.returncode == 2
            assert err.count("weft: error: ") == 1, err
            assert f"the store at {places[0][1]}:29500 refused this rank: {said}" in err
        assert first.poll() is None, "a stranger ended the run"
        second = run.start(1, WEFT_SECRET_FILE=path)
        # While both are at work, what they listen on is the link's address, for those in that network.
        _, err = second.communicate(timeout=END_SECONDS)
        assert second.returncode == 0, err
        _, err = first.communicate(timeout=END_SECONDS)
        assert first.returncode == 0, err
        assert err.count(f"weft: refused {places[2][1]}: it does not know the run's secret\n") == 1
    assert sorted(losses(output)) == [1, 2, 3, 4]


def test_between_hosts_nothing_listens_on_other_networks(base, tmp_path):
    secret = secrets.token_hex(16)
    with linked_namespaces() as places, BetweenHosts(base, tmp_path / "run", places, steps=1_000_000) as run:
        ranks = [run.start(rank, WEFT_SECRET=secret) for rank in (0, 1)]
        links = [bytes(map(int, reversed(address.split(".")))).hex().upper() for _, address in places]
        end = time.monotonic() + END_SECONDS
        while not metrics(tmp_path / "run"):
            assert all(rank.poll() is None for rank in ranks) and time.monotonic() < end, "no step was made"
            time.sleep(0.05)
        for process, link in zip(ranks, links):
            found = listening([process.pid])
            assert found
            assert {address for address, _ in found} == {link}


def test_between_hosts_a_secret_is_asked_for(base, tmp_path):
    with linked_namespaces() as places, BetweenHosts(base, tmp_path / "run", places) as run:
        process = run.start(0)
        _, err = process.communicate(timeout=END_SECONDS)
        assert process.returncode == 2
        assert "ranks of several hosts need a secret that all of them know: set WEFT_SECRET_FILE" in err


def test_under_torchrun_a_secret_takes_the_ranks_to_a_store_of_their_own(base, tmp_path):
    """torchrun's own store is open to all; the one that rank 0 keeps listens on the link and knows who may come."""
    output = tmp_path / "run"
    secret = secrets.token_hex(16)
    with linked_namespaces() as places:
        nodes = [
            subprocess.Popen(
                [*within, sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(number)]
                + ["--nproc-per-node", "1", "--master-addr", places[0][1], "--master-port", "29500", "--no-python"]
                + [str(word) for word in [WEFT, "train", *base, "--steps", 4, "--output", output]],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
                env=environment(WEFT_SECRET=secret, WEFT_COMMUNICATION="gloo", WEFT_TIMEOUT_SECONDS=40),
            )
            for number, (within, _) in enumerate(places)
        ]
        try:
            said = [node.communicate(timeout=END_SECONDS)[1] for node in nodes]
        finally:
            for node in nodes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(node.pid, signal.SIGKILL)
                node.wait()
                node.stderr.close()
        assert [node.returncode for node in nodes] == [0, 0], said
    assert sorted(losses(output)) == [1, 2, 3, 4]
