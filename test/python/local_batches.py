# SPDX-License-Identifier: Apache-2.0
"""Steps of ranks that give batches of their own: what each of them gets, many cases in one start of real processes."""

import os
import pathlib
import subprocess
import sys

import torch
import weft
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

WORDS = 23


class Text(nn.Module):
    """A mean over the tokens that count; padding is looked at by nobody."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(16, WORDS)

    def forward(self, tokens, labels, scale=None):
        hidden = self.embedding(tokens)
        hidden = hidden + self.dropout(self.down(nn.functional.gelu(self.up(hidden))))
        logits = self.head(hidden)
        if scale is not None:
            logits = logits * scale
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


class Pairs(nn.Module):
    """Every row is told from all others of the batch, as in contrastive learning; batch norm; a path by value."""

    def __init__(self, reads_values=False):
        super().__init__()
        self.first = nn.Linear(6, 16)
        self.norm = nn.BatchNorm1d(16)
        self.second = nn.Linear(16, 8)
        self.reads_values = reads_values

    def forward(self, inputs, others):
        left = self.second(self.norm(self.first(inputs)))
        right = self.second(torch.relu(self.first(others)))
        logits = left @ right.t()
        if self.reads_values and inputs[-1, 0].item() > 0:
            logits = logits * 2
        return nn.functional.cross_entropy(logits, torch.arange(len(inputs)))


MODELS = {"text": Text, "pairs": Pairs}


def make(model, **options):
    torch.manual_seed(0)
    module = MODELS[model](**options)
    return module, torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)


def text(number, rows, length=8, padded=0):
    """`padded`: so many tokens at the end count for nothing, and more of them in later rows."""
    generator = torch.Generator().manual_seed(number)
    tokens = torch.randint(WORDS, (rows, length), generator=generator)
    labels = torch.randint(WORDS, (rows, length), generator=generator)
    for row in range(rows):
        labels[row, length - min(padded + row % 2, length - 1) :] = -100
    return {"tokens": tokens, "labels": labels}


def pairs(number, rows):
    generator = torch.Generator().manual_seed(number)
    return {"inputs": torch.randn(rows, 6, generator=generator), "others": torch.randn(rows, 6, generator=generator)}


class Samples(Dataset):
    def __init__(self, batch):
        self.batch = batch

    def __len__(self):
        return len(next(iter(self.batch.values())))

    def __getitem__(self, number):
        return {key: value[number] for key, value in self.batch.items()}


def joined(parts, pad=None):
    """One batch of several, of which some may be shorter."""
    out = {}
    for key, first in parts[0].items():
        tensors = [part[key] for part in parts]
        if first.dim() == 0:
            out[key] = first
            continue
        if pad:
            longest = max(tensor.shape[1] for tensor in tensors)
            tensors = [nn.functional.pad(tensor, (0, longest - tensor.shape[1]), value=pad[key]) for tensor in tensors]
        out[key] = torch.cat(tensors)
    return out


def eager(case):
    """What PyTorch makes of the same steps on the whole batches: losses, gradients of the last, the model's state."""
    module, optimizer = make(case["model"], **case.get("settings", {}))
    accumulate = case.get("options", {}).get("accumulate", 1)
    losses = []
    for number, parts in enumerate(case["steps"]):
        loss = module(**joined(parts, case.get("options", {}).get("pad")))
        (loss / accumulate).backward()
        losses.append(loss.item())
        gradients = {name: parameter.grad.clone() for name, parameter in module.named_parameters()}
        if (number + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    module.eval()
    with torch.no_grad():
        evaluated = module(**joined(case["steps"][0], case.get("options", {}).get("pad"))).item()
    return {"losses": losses, "gradients": gradients, "state": module.state_dict(), "evaluated": evaluated}


def run(case):
    """The same by the ranks: each gives the part of `data_rank`, or by `rank` where the sampler is wrong."""
    module, optimizer = make(case["model"], **case.get("settings", {}))
    options = {"batch": "local", "keep_gradients": case.get("options", {}).get("accumulate", 1) == 1}
    options.update(case.get("options", {}))
    examples = case.get("examples", case["steps"][0][:1])
    example = examples[int(os.environ["RANK"]) % len(examples)]
    trainer = weft.parallelize(module, optimizer, example, parallel=case["words"], seed=3, **options)

    def own(parts):
        place = trainer.rank if case.get("by_rank") else trainer.data_rank
        return parts[place % len(parts)]

    result = {"parts": (trainer.data_ranks, trainer.data_rank), "losses": []}
    for parts in case["steps"]:
        result["losses"].append(trainer.step(own(parts)))
        result["gradients"] = {name: parameter.grad for name, parameter in module.named_parameters()}
    result["evaluated"] = trainer.evaluate(own(case["steps"][0]))
    result["state"] = {key: tensor.clone() for key, tensor in trainer.state_dict().items()}
    return result


def run_loader(case):
    """The loop of a script for DistributedDataParallel, with its sampler, and what its loaders gave."""
    module, optimizer = make(case["model"])
    dataset = Samples(case["samples"])
    size = case["batch_size"]
    example = torch.utils.data.default_collate([dataset[i] for i in range(size)])
    trainer = weft.parallelize(module, optimizer, example, parallel=case["words"], batch="local")
    sampler = DistributedSampler(
        dataset, num_replicas=trainer.data_ranks, rank=trainer.data_rank, shuffle=True, seed=5, drop_last=False
    )
    losses, given = [], []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for batch in DataLoader(dataset, batch_size=size, sampler=sampler):
            given.append(batch)
            losses.append(trainer.step(batch))
    return {"losses": losses, "given": given, "state": {k: v.clone() for k, v in trainer.state_dict().items()}}


def refusals(case):
    """The messages of steps that must not be made, each rank's own; those between them go on."""
    module, optimizer = make(case["model"])
    rank = int(os.environ["RANK"])
    trainer = weft.parallelize(
        module, optimizer, case["example"], parallel=case["words"], **case.get("options", {"batch": "global"})
    )
    out = []
    for call, batches in case["calls"]:
        if isinstance(call, (list, tuple)):
            call = call[rank]
        try:
            out.append(getattr(trainer, call)(batches[rank % len(batches)]))
        except weft.UserError as error:
            out.append(str(error))
    return out


RUNS = {"run": run, "loader": run_loader, "refusals": refusals}


def on_ranks(ranks, folder, cases):
    """For every case, what each rank got."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(cases, folder / "cases")
    paths = [*sys.path, os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"),
            *(str(pathlib.Path(__file__)), str(folder)),
        ],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "WEFT_STALL_SECONDS": "60"},
    )
    assert done.returncode == 0, done.stderr[-6000:]
    by_rank = [torch.load(folder / f"rank-{rank}", weights_only=False) for rank in range(ranks)]
    return {name: [results[name] for results in by_rank] for name in cases}, done.stderr


def main(folder):
    torch.set_num_threads(1)
    results = {}
    for name, case in torch.load(folder / "cases", weights_only=False).items():
        print(name, file=sys.stderr, flush=True)
        results[name] = RUNS[case.get("kind", "run")](case)
    torch.save(results, folder / f"rank-{os.environ['RANK']}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
