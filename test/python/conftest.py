# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "models"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(autouse=True)
def one_thread():
    """Sums come out in one order only with one thread."""
    torch.set_num_threads(1)


@pytest.fixture
def root():
    return ROOT


@pytest.fixture
def spirals():
    """The C++ program in examples/cpp."""
    built = ROOT / "build/release/examples/cpp/example_train_spirals"
    program = pathlib.Path(os.environ.get("WEFT_CPP_EXAMPLE", built))
    if not program.exists():
        pytest.skip(f"{program} is not built")
    return program


def pytest_configure(config):
    config.addinivalue_line("markers", "campaign: long; `make campaign` runs it, `make test` does not")
    config.addinivalue_line("markers", "clock: compares times; `make test` runs it with nothing beside it")


# First, since `-m campaign` chooses by the marks that are there then.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    if os.environ.get("WEFT_CAMPAIGN"):
        for item in items:
            if "campaign_size" in item.fixturenames:
                item.add_marker(pytest.mark.campaign)
    else:
        for item in items:
            if item.get_closest_marker("campaign"):
                item.add_marker(pytest.mark.skip(reason="long: make campaign runs it"))


@pytest.fixture
def campaign_size():
    """How many cases: a few, or in a campaign many."""
    return lambda few, many: many if os.environ.get("WEFT_CAMPAIGN") else few
