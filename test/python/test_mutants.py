# SPDX-License-Identifier: Apache-2.0
"""Mutants of every kind of file, given to every command that reads it: each is read, or refused in a few words.

fuzz/ holds the readers alone against far more of them; here stand the commands behind, and .pt2 files.
"""

import io
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import zipfile

import pytest
import torch
from test_export import export

WEFT = os.environ.get("WEFT_PROGRAM", str(pathlib.Path(sys.executable).parent / "weft"))
CORPUS = pathlib.Path(__file__).parents[2] / "fuzz" / "corpus"
NUMBERS = [
    "0",
    "-1",
    "1",
    "3",
    "7",
    "2147483648",
    "9223372036854775807",
    "1e308",
    "0.5",
    "inf",
    "nan",
    "18446744073709551616",
]
PIDS = pathlib.Path("/sys/fs/cgroup/pids")
LONGEST_MESSAGE_BYTES = 2048
LONGEST_ANSWER_SECONDS = 60


@pytest.fixture(scope="module")
def few_processes():
    """A control group that bounds what a mutant could start; its folder, or a skip."""
    group = PIDS / f"weft-mutants-{os.getpid()}"
    try:
        group.mkdir()
        (group / "pids.max").write_text("256")
    except OSError as error:
        pytest.skip(f"processes cannot be bounded here: {error}")
    yield group
    group.rmdir()


def mutant(text, draw):
    """One or two changes: of a line, of a word or number, or of a byte."""
    for _ in range(draw.randint(1, 2)):
        lines = text.splitlines(keepends=True)
        tokens = re.findall(r"[\w.]+|\s+|.", text, re.DOTALL)
        kind = draw.randrange(8)
        if not tokens:
            break
        if kind == 0:
            lines.pop(draw.randrange(len(lines)))
            text = "".join(lines)
        elif kind == 1:
            lines.insert(draw.randrange(len(lines)), draw.choice(lines))
            text = "".join(lines)
        elif kind == 2:
            text = text[: draw.randrange(len(text))]
        elif kind == 3:
            at = draw.randrange(len(text))
            text = text[:at] + chr(ord(text[at]) ^ (1 << draw.randrange(7))) + text[at + 1 :]
        elif kind == 4:
            numbers = [i for i, token in enumerate(tokens) if token[0].isdigit()]
            if numbers:
                tokens[draw.choice(numbers)] = draw.choice(NUMBERS)
            text = "".join(tokens)
        elif kind == 5:
            words = [i for i, token in enumerate(tokens) if token[0].isalnum()]
            tokens[draw.choice(words)] = tokens[draw.choice(words)]
            text = "".join(tokens)
        elif kind == 6:
            tokens.pop(draw.randrange(len(tokens)))
            text = "".join(tokens)
        else:
            i, j = draw.randrange(len(tokens)), draw.randrange(len(tokens))
            tokens[i], tokens[j] = tokens[j], tokens[i]
            text = "".join(tokens)
    return text


def answer(group, *words):
    """Runs the command; "" where it did or refused what was asked, else what is wrong with that."""

    def bound():
        (group / "cgroup.procs").write_text(str(os.getpid()))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))

    try:
        done = subprocess.run(
            [WEFT, *map(str, words)], capture_output=True, timeout=LONGEST_ANSWER_SECONDS, preexec_fn=bound, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {LONGEST_ANSWER_SECONDS} s"
    error = done.stderr.decode(errors="backslashreplace")
    if done.returncode not in (0, 2):
        return f"exit status {done.returncode}: {error[:1000]}"
    if "mistake of Weft" in error:
        return error[:1000]
    if done.returncode == 2 and not error.startswith("weft: "):
        return f"no message: {error[:1000]}"
    if len(done.stderr) > LONGEST_MESSAGE_BYTES:
        return f"a message of {len(done.stderr)} bytes: {error[:300]}"
    return ""


def graph_of(plan):
    return re.search(r"plan @(\S+)", plan).group(1)


CLUSTER = ["--cluster", "8xA100-80G"]
# By the kind of file: the ending, and the commands that read it.
COMMANDS = {
    "graph": [
        ["opt", "FILE"],
        ["profile", "FILE"],
        ["simulate", "FILE", *CLUSTER],
        ["simulate", "FILE", *CLUSTER, "--parallel", "data=2"],
        ["explain", "FILE", *CLUSTER, "--parallel", "tensor=2"],
        ["plan", "FILE", *CLUSTER],
    ],
    "program": [["opt", "FILE"], ["simulate", "FILE", *CLUSTER], ["explain", "FILE", *CLUSTER]],
    "plan": [
        ["opt", "FILE"],
        ["simulate", CORPUS / "graph" / "trained.graph", *CLUSTER, "--plan", "FILE"],
        ["explain", CORPUS / "graph" / "trained.graph", *CLUSTER, "--plan", "FILE"],
    ],
    "cluster": [
        ["opt", "FILE"],
        ["cluster", "show", "FILE"],
        ["simulate", CORPUS / "graph" / "trained.graph", "--cluster", "FILE", "--parallel", "data=2"],
        ["plan", CORPUS / "graph" / "trained.graph", "--cluster", "FILE"],
    ],
    "schedule": [["opt", "FILE"]],
    "timeline": [["simulate", CORPUS / "graph" / "trained.graph", *CLUSTER, "--against", "FILE"]],
}


def sources(kind):
    texts = [path.read_text() for path in sorted((CORPUS / kind).iterdir()) if path.suffix == f".{kind}"]
    if kind == "plan":
        # Of the graph that they are tried on.
        step = ["local batch_norm", "seats 2", "recompute cheap", "recompute %h", "%batch.0 [data, -]", "%w [-, data]"]
        texts += [f"plan @trained on <data=2, tensor=2> {{\n  {line}\n}}\n" for line in step]
        texts.append("plan @trained on <> in <parts=2> {\n  schedule 1f1b\n  %batch.0 [parts, -]\n}\n")
        texts.append("plan @trained on <data=2> {\n  stage %h\n  stage %y\n  schedule gpipe\n}\n")
    return texts


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_mutant_is_read_or_refused(kind, few_processes, campaign_size, tmp_path):
    draw = random.Random(f"{kind} {os.environ.get('WEFT_SEED', 0)}")
    file = tmp_path / f"x.{kind}"
    wrong = []
    for number in range(campaign_size(2, 150)):
        text = mutant(draw.choice(sources(kind)), draw)
        file.write_text(text, errors="surrogateescape")
        for command in COMMANDS[kind] if os.environ.get("WEFT_CAMPAIGN") else [draw.choice(COMMANDS[kind])]:
            words = [file if word == "FILE" else word for word in command]
            if fault := answer(few_processes, *words):
                keep(kind, number, text.encode(errors="surrogateescape"))
                wrong.append(f"{kind}-{number}: {command[0]}: {fault}")
    assert not wrong, "\n".join(wrong)


def keep(kind, number, content):
    """Leaves a mutant without an answer where WEFT_KEEP says."""
    if folder := os.environ.get("WEFT_KEEP"):
        pathlib.Path(folder, f"{kind}-{number}").write_bytes(content)


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.second = torch.nn.Linear(8, 4)
        self.register_buffer("scale", torch.tensor([2.0]))

    def forward(self, x, *, y):
        mask = torch.tensor([True, False, True, True])
        hidden = self.second(torch.relu(self.first(x))) * self.scale
        return ((hidden.view(-1, 4) - y) ** 2 * mask).mean()


def packed(records):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in records.items():
            archive.writestr(name, content)
    return out.getvalue()


def places(tree, found):
    """Every (container, key) of a tree of JSON."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        found.append((tree, key))
        if isinstance(value, (dict, list)):
            places(value, found)
    return found


def changed(text, draw):
    """JSON with one value removed, or replaced by another of it or of another sort."""
    tree = json.loads(text)
    all_places = places(tree, [])
    container, key = draw.choice(all_places)
    other_container, other = draw.choice(all_places)
    kind = draw.randrange(4)
    if kind == 0:
        del container[key]
    elif kind == 1:
        container[key] = draw.choice([0, -1, 2**62, 10**30, 1.5, None, "", "x", [], {}, True])
    elif kind == 2:
        container[key] = json.loads(json.dumps(other_container[other]))
    else:
        swapped = container[key]
        container[key] = json.loads(json.dumps(other_container[other]))
        other_container[other] = swapped if not isinstance(swapped, (dict, list)) else json.loads(json.dumps(swapped))
    return json.dumps(tree)


def test_a_mutant_of_an_export_is_read_or_refused(few_processes, campaign_size, tmp_path):
    batch = {"x": torch.zeros(2, 4), "y": torch.zeros(2, 4)}
    whole = pathlib.Path(export(Small(), batch, tmp_path / "whole.pt2")).read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    texts = [name for name in records if name.endswith(".json")]
    program = next(name for name in texts if "/models/" in name)
    draw = random.Random(f"pt2 {os.environ.get('WEFT_SEED', 0)}")
    file = tmp_path / "x.pt2"
    wrong = []
    for number in range(campaign_size(8, 600)):
        kind = draw.randrange(8)
        if kind == 0:
            at = draw.randrange(len(whole))
            content = whole[:at] + bytes([whole[at] ^ (1 << draw.randrange(8))]) + whole[at + 1 :]
        elif kind == 1:
            content = whole[: draw.randrange(len(whole))]
        elif kind == 2:
            name = draw.choice(list(records))
            content = packed({key: value for key, value in records.items() if key != name})
        elif kind == 3:
            name = draw.choice(texts)
            text = mutant(records[name].decode(), draw)
            content = packed({**records, name: text.encode(errors="replace")})
        else:
            name = program if draw.randrange(4) else draw.choice(texts)
            content = packed({**records, name: changed(records[name], draw)})
        file.write_bytes(content)
        if fault := answer(few_processes, "profile", file):
            keep("pt2", number, content)
            wrong.append(f"pt2-{number}: {fault}")
    assert not wrong, "\n".join(wrong)


def test_a_message_is_bounded_whatever_it_quotes(few_processes, tmp_path):
    name = "n" * 100_000
    words = "word " * 100_000
    for text in [
        f"graph @g func @step {{ return loss = %{name} }}",
        f"graph @g func @step {{ input %x : f32[{'9' * 100_000}] }}",
        f'graph @g func @step {{ input %x : f32[1] = batch "{words}" input %y : f32[1] = batch "{words}" }}',
        f"plan @{name} on <{name}=0> {{ %{name} [{name} }}",
        f"cluster @c device {name}",
        f"schedule @{name} {{ stages 2 micro_batches 1 0: F{name} }}",
    ]:
        file = tmp_path / "x"
        file.write_text(text)
        assert answer(few_processes, "opt", file) == ""
    assert answer(few_processes, "opt", tmp_path / ("x" * 200) / "y") == ""
    assert answer(few_processes, "opt", tmp_path / name) == ""
