# SPDX-License-Identifier: Apache-2.0
"""Every number on the command line, and those in files that only a command reads: what makes no sense is refused in one
line, with exit status 2, and nothing else comes of it."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
from training_runs import ROOT, WEFT, environment

# Whole command lines without a number flag; those that need a model have one that is not there, for flags are read
# before it.
COMMANDS = {
    "train": ["train", "no.graph", "--data", "no", "--steps", "3"],
    "run": ["run", "no.graph", "--inputs", "no.safetensors"],
    "plan": ["plan", "no.graph"],
    "profile": ["profile", "no.graph"],
    "export": ["export", "no/such", "-o", "no.safetensors"],
    "cluster measure": ["cluster", "measure", "-o", "/no/such/folder/m.cluster"],
}
# With what each of them takes, in place of the number.
WORDS = {
    "train": ["--optimizer-set weight_decay={}", "--schedule 'linear warmup={}'", "--parallel data={}"],
    "run": ["--parallel data={}", "--parallel tensor=2x{}"],
    "plan": ["--parallel data={}", "--parallel micro-batches={}", "--cluster {}x8xH100 --max-bytes {}"],
    "profile": ["--batch-size 8,{}"],
}
ODD = ["0", "-1", "0.5", "1e9", "1e30", "inf", "nan", "9223372036854775807", "4611686018427387904", "", "x", "3x", "0x"]

# One process for all: starting LibTorch takes longer than reading a flag. Reads argument lists, one a line, and says
# the status and the errors of each.
READER = """
import json, os, sys, tempfile
from weft import _weft

def no_capture(model, settings):
    raise _weft.UserError("nothing is captured here")

errors = os.dup(2)
for line in sys.stdin:
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        status = _weft.run_command_line(json.loads(line), no_capture)
        os.dup2(errors, 2)
        said.seek(0)
        print(json.dumps([status, said.read().decode(errors="replace")]), flush=True)
"""


def read_all(lines, folder):
    """(status, errors) of each command line."""
    done = subprocess.run(
        [sys.executable, "-c", READER],
        input="".join(json.dumps([str(word) for word in line]) + "\n" for line in lines),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(),
        timeout=300,
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert done.returncode == 0 and len(found) == len(lines), (lines[len(found)], done.stderr)
    return found


def number_flags(command):
    """As the command's help tells them."""
    done = subprocess.run([WEFT, *command.split(), "--help"], capture_output=True, text=True, check=True)
    return re.findall(r"(--[a-z-]+) \S*:(?:POSITIVE|NONNEGATIVE)", done.stdout)


def check(line, status, said):
    assert status in (0, 2), (line, status, said)
    errors = [text for text in said.splitlines() if text.startswith("weft: error: ")]
    assert len(errors) == (1 if status else 0), (line, said)
    assert "mistake of Weft" not in said and len(said) < 2000, (line, said)
    return errors[0].removeprefix("weft: error: ") if errors else ""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_that_takes_a_number(command, tmp_path):
    flags = number_flags(command)
    assert flags, command
    lines = [[*COMMANDS[command], flag, odd] for flag in flags for odd in ODD]
    for line, (status, said) in zip(lines, read_all(lines, tmp_path), strict=True):
        message = check(line, status, said)
        # None of them is all of what a flag takes.
        if line[-1] in ("inf", "nan", "", "x", "3x", "0x", "-1"):
            assert line[-2] in message, (line, message)


@pytest.mark.parametrize("command", WORDS)
def test_every_word_with_a_number(command, tmp_path):
    lines = [
        [*COMMANDS[command], *shlex.split(text.format(odd or "''", odd or "''"))]
        for text in WORDS[command]
        for odd in ODD
    ]
    for line, (status, said) in zip(lines, read_all(lines, tmp_path), strict=True):
        check(line, status, said)
        assert status == 2, (line, said)


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "MASTER_PORT", "WEFT_STALL_SECONDS", "WEFT_TIMEOUT_SECONDS"])
def test_numbers_of_the_environment(name, tmp_path):
    given = {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}
    for odd in ("-1", "0.5", "nan", "", "x", "9223372036854775808", "1000000000000"):
        done = subprocess.run(
            [WEFT, *COMMANDS["train"]],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**environment(**given), name: odd},
            timeout=60,
        )
        message = check(name, done.returncode, done.stderr)
        assert message.startswith(f"the environment variable {name} must be a whole number, "), message
    assert os.listdir(tmp_path) == []


GPT_TABLE = """global_batch,micro_batch,hidden,heads,layers,sequence,tensor,data,pipeline
16,{micro_batch},2048,16,{layers},1024,2,2,2
"""


def test_a_table_of_runs(tmp_path):
    lines = []
    for odd in ODD:
        for name in ("micro_batch", "layers"):
            numbers = {"micro_batch": "1", "layers": "24", name: odd}
            path = tmp_path / f"{name}.{len(lines)}.csv"
            path.write_text(GPT_TABLE.format(**numbers))
            lines.append(["simulate", "--table", path])
    for line, (status, said) in zip(lines, read_all(lines, tmp_path), strict=True):
        message = check(line, status, said)
        assert status == 2 and message.startswith(f"{line[-1]}:2: "), (line, message)


def test_a_cluster_file(tmp_path):
    text = subprocess.run([WEFT, "cluster", "show", "2x8xH100", "--text"], capture_output=True, text=True, check=True)
    rows = text.stdout.splitlines()
    lines = []
    for number, row in enumerate(rows):
        for odd in ODD if " = " in row else []:
            path = tmp_path / f"{len(lines)}.cluster"
            changed = re.sub(r"= [0-9][0-9.e+-]*", f"= {odd}", row, count=1)
            path.write_text("\n".join([*rows[:number], changed, *rows[number + 1 :]]) + "\n")
            lines.append(["simulate", ROOT / "test/plan/Inputs/text.graph", "--cluster", path])
    refused = 0
    for line, (status, said) in zip(lines, read_all(lines, tmp_path), strict=True):
        message = check(line, status, said)
        refused += status == 2
        assert status == 0 or message.startswith(f"{line[-1]}:"), (line, message)
    assert refused > len(lines) / 2
