# SPDX-License-Identifier: Apache-2.0
"""Writes docs/models.md from what run.py found.

.venv/bin/python test/zoo/table.py [--results build/zoo/results.jsonl]
"""

import argparse
import collections
import pathlib
import re

from cell import KINDS
from run import RESULTS, entries, newest_commit
from zoo import PACKAGES, ROOT

TITLES = {
    "hugging_face_text": "transformers: text",
    "hugging_face_experts": "transformers: mixtures of experts",
    "hugging_face_media": "transformers: images and sound",
    "timm_images": "timm",
    "torchvision_images": "torchvision",
    "diffusers_models": "diffusers",
    "monai_volumes": "MONAI",
    "segmentation_models": "segmentation-models-pytorch",
    "x_transformers_models": "x-transformers",
    "vit_pytorch_images": "vit-pytorch",
    "torch_geometric_graphs": "PyG",
    "peft_adapters": "peft",
    "small_packages": "packages of one or a few models",
}
HEAD = """# Models that were run

Made by `make zoo`, `.venv/bin/python test/zoo/run.py` and `.venv/bin/python test/zoo/table.py`: {models} models of
{packages} packages from outside this repository, each built tiny from its configuration and pinned in requirements/dev.txt and
requirements/zoo.txt. Each takes two steps on two batches; the losses, the gradients and the buffers are compared with
those of eager PyTorch: on one rank bit for bit, under plans on two real processes up to rounding. The code that was run
is that of {commits}.

- `=`: equal, bit for bit. `~`: equal up to rounding. `-`: not run.
- `refused 3`: refused by name, with message 3 below.
- **fails 5**: an error of ours or a difference, as told under 5 below.

What a word stands for: {words}. Random numbers of dropout differ from eager PyTorch's by design, so dropout is 0 here.
"""


def package_count(names):
    small = {re.split(r"_(?:io|1d|residual|fsq|lfq|resnet|coca|filters)$", name)[0] for name in names}
    return len(small)


def read(results):
    """The newest entry of every cell, by model and kind."""
    found = {}
    for entry in entries(results):
        found[(entry["model"], entry["kind"])] = entry
    return found


def plain(message):
    """A message without what differs from model to model, so that equal ones are told once."""
    message = " ".join(message.split())
    message = re.sub(r"^(stage \d+ \()?rank \d+\)?, step \d+, instruction \d+ \([^)]*\): ", "", message)
    message = re.sub(r"^\[guard\] \S+: ", "[guard] VALUE: ", message)
    message = re.sub(r"in module \S+?: ", "in module MODULE: ", message)
    message = re.sub(r"%[\w./-]+", "%VALUE", message)
    message = re.sub(r"\bread \S+ from this tensor", "read X from this tensor", message)
    message = re.sub(r"now it is \S+\.", "now it is Y.", message)
    message = re.sub(r"/\S*/", "", message)
    return re.sub(r"\|", "\\|", message)[:420]


def trouble(entry):
    """What is told below the table about a cell that is refused or fails."""
    if entry["outcome"] == "different":
        what = "the loss" if entry["loss"] > 1e-5 else "a gradient" if entry["gradient"] > 1e-4 else "a buffer"
        if entry["kind"] == "one rank":
            names = {"loss": "the loss", "gradient": "a gradient", "buffer": "a buffer"}
            what = names[max(names, key=lambda part: entry[part])]
            what = f"not bit-equal: {'beyond rounding, ' if max(entry['loss'], entry['gradient']) > 1e-3 else ''}{what}"
        return f"{what} differs from eager PyTorch's"
    return plain(entry["message"])


class Notes:
    """Messages, numbered in the order in which they are first met."""

    def __init__(self):
        self.numbers = {}
        self.models = collections.defaultdict(list)

    def number(self, text, model):
        number = self.numbers.setdefault(text, len(self.numbers) + 1)
        if model not in self.models[text]:
            self.models[text].append(model)
        return number

    def lines(self):
        for text, number in self.numbers.items():
            models = self.models[text]
            shown = ", ".join(models[:6]) + (f" and {len(models) - 6} more" if len(models) > 6 else "")
            yield f"{number}. `{text.replace('`', chr(39))}`\n   ({shown})"


def write(found, page, commit, note=""):
    refusals, failures = Notes(), Notes()
    kinds = [kind for kind in KINDS if any(key[1] == kind for key in found)]
    models = list(dict.fromkeys(model for model, _ in found))
    counts = {kind: collections.Counter() for kind in kinds}
    sections = []
    for package in PACKAGES:
        rows = [model for model in models if model.startswith(f"{package}/")]
        if not rows:
            continue
        lines = [f"## {TITLES[package]}", "", "| model | " + " | ".join(kinds) + " |", "|---|" + "---|" * len(kinds)]
        for model in rows:
            name = model.partition("/")[2]
            cells = []
            for kind in kinds:
                entry = found.get((model, kind))
                if entry is None:
                    cells.append("-")
                    continue
                outcome = entry["outcome"]
                counts[kind][outcome] += 1
                if outcome == "refused":
                    cells.append(f"refused {refusals.number(trouble(entry), name)}")
                elif outcome in ("failed", "different"):
                    cells.append(f"**fails {failures.number(trouble(entry), name)}**")
                else:
                    cells.append("=" if outcome == "bit-equal" else "~")
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        sections.append("\n".join(lines))
    words = "; ".join(f"*{kind}* `{KINDS[kind][0] or 'none'}`" for kind in kinds if KINDS[kind][0])
    small = [model.partition("/")[2] for model in models if model.startswith("small_packages/")]
    packages = package_count(small) + len({p.partition("_")[0] for p in PACKAGES if p != "small_packages"})
    out = [HEAD.format(models=len(models), packages=packages, words=words, commits=commits_of(found, commit))]
    out += [note + "\n"] if note else []
    out.append(summary(kinds, counts))
    close = sorted(
        model
        for (model, kind), entry in found.items()
        if kind == "one rank" and entry["outcome"] in ("close", "different")
    )
    if close:
        out.append(f"Not bit-equal on one rank, and equal up to rounding: {', '.join(close)}.\n")
    out += [section + "\n" for section in sections]
    out.append("## Refusals\n\nEach says what to do instead. [limits.md](limits.md) has them by subject.\n")
    out += refusals.lines()
    out.append("\n## Failures\n")
    out += failures.lines() if failures.numbers else ["None."]
    page.write_text("\n".join(out) + "\n")


def commits_of(found, newest):
    """The commits whose code the cells ran, with their number where there are several."""
    counts = collections.Counter(entry.get("commit", newest) for entry in found.values())
    if len(counts) == 1:
        return f"commit {next(iter(counts))}"
    each = ", ".join(f"{commit} ({count} cells)" for commit, count in counts.most_common())
    return f"these commits, one after the other: {each}"


def summary(kinds, counts):
    lines = ["| | bit-equal | up to rounding | refused | fails |", "|---|---|---|---|---|"]
    for kind in kinds:
        count = counts[kind]
        equal = count["equal"] + count["close"]
        lines.append(
            f"| {kind} | {count['bit-equal']} | {equal} | {count['refused']} | {count['failed'] + count['different']} |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--note", default="", help="what a reader has to know of this run")
    parser.add_argument("--commit", default=newest_commit(), help="the code that was run")
    arguments = parser.parse_args()
    write(read(arguments.results), ROOT / "docs" / "models.md", arguments.commit, arguments.note)


if __name__ == "__main__":
    main()
