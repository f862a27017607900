# SPDX-License-Identifier: Apache-2.0
"""What a command that runs its model, as `weft train`, starts for FILE.py:FUNCTION: a Python process that captures it.

    python -m weft.capture_file FILE.py:FUNCTION GRAPH [KEY=VALUE ...]

KEY is an argument of FUNCTION, or one of

    capture:precision=bf16      f32, bf16, bf16-mixed or f16-mixed
    capture:evaluation=true     the loss alone, in eval mode
    capture:loss=1              the place or the key of the loss in what the model returns
    batch:0=i64[4,128]          the type of a tensor of the batch, by its key

Writes the graph to GRAPH and the times, or one error message, as JSON to
GRAPH.json. What the user's code prints goes to the standard error stream. `weft` turns the collection of garbage off:
hardly anything of what is made here is let go before the end.
"""

from __future__ import annotations

import ast
import atexit
import importlib.util
import inspect
import json
import os
import pathlib
import re
import sys
import traceback

import torch
import torch._refs.fft
import torch._refs.linalg
import torch._refs.nn.functional
import torch._refs.special
from torch.optim import Optimizer

from weft import hugging_face
from weft._weft import UserError
from weft.capture import capture_function
from weft.model_folder import add_model_folder, hint_for, module_name


def main(arguments):
    """Gives what was captured: the process ends before it would be taken apart."""
    model, output, *settings = arguments
    captured = None
    try:
        captured = capture_model(model, settings)
        pathlib.Path(output).write_text(str(captured.graph))
        report = {
            "build_seconds": captured.build_seconds,
            "capture_seconds": captured.capture_seconds,
            "real": captured.real,
            "hugging_face": hugging_face.describe(captured.made_from[1]),
        }
    except UserError as error:
        report = {"error": str(error)}
    pathlib.Path(output + ".json").write_text(json.dumps(report))
    return captured


def capture_model(model, settings):
    """What capture_function gives for FILE.py:FUNCTION; every error is a UserError."""
    leave_out_compiler()
    function = load_function(model)
    ours = [setting for setting in settings if ":" in setting.partition("=")[0]]
    options = read_options(function, [setting for setting in settings if setting not in ours])
    return run(function, options, model, read_capture_options(ours))


def leave_out_compiler():
    """Keeps the first optimizer, and the first operator that torch describes in Python, from importing torch's compiler.

    They do so to be left out of what is compiled, which takes a second or two, and in this process nothing is compiled.
    Where torch has no such mark, the compiler is imported as ever.
    """
    mark = getattr(torch._compile, "_disable_dynamo", None)
    if mark is None or "torch._dynamo" in sys.modules:
        return
    wrapper = mark(lambda: None).__code__
    described = (torch._refs, torch._refs.fft, torch._refs.linalg, torch._refs.nn.functional, torch._refs.special)
    functions = [Optimizer.add_param_group]
    functions += [each for module in described for each in vars(module).values() if inspect.isfunction(each)]
    for function in functions:
        while inspect.isfunction(function):
            # Every wrapper there calls `fn`.
            names = function.__code__.co_freevars
            inner = function.__closure__[names.index("fn")].cell_contents if "fn" in names else None
            if function.__code__ is wrapper:
                inner.__dynamo_disable = inner
            function = inner


def end_at_once(status=0):
    """Ends the process without taking torch apart object by object, which takes half a second."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def load_function(model):
    file, _, name = model.rpartition(":")
    if not file or not name.isidentifier():
        raise UserError(f"{model}: name the function too, as in FILE.py:FUNCTION")
    path = pathlib.Path(file)
    if not path.is_file():
        raise UserError(f"{file}: no such file")
    add_model_folder(str(path.parent.resolve()))
    name_of_module = module_name(path)
    spec = importlib.util.spec_from_file_location(name_of_module, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name_of_module] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(f"{place_of(error, file)}: {describe(error)}{own_traceback(error)}") from error
    function = getattr(module, name, None)
    if not callable(function):
        known = [
            key
            for key, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_")
        ]
        raise UserError(f"{file}: there is no function {name}; it has {', '.join(known) or 'none'}")
    return function


def read_options(function, settings):
    """KEY=VALUE words as keyword arguments of the function."""
    options = {}
    parameters = inspect.signature(function).parameters.values()
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    known = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key.isidentifier():
            raise UserError(f"--set {setting}: write it as KEY=VALUE")
        if key not in known and not takes_any:
            raise UserError(unknown_option(function, key, known))
        try:
            options[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            options[key] = text
    return options


def read_capture_options(settings):
    """Keyword arguments of capture_function, from the words with a colon in their key."""
    options = {"batch_types": {}}
    for setting in settings:
        key, equals, text = setting.partition("=")
        group, _, name = key.partition(":")
        if not equals:
            raise UserError(f"--set {setting}: write it as KEY=VALUE")
        if group == "batch":
            options["batch_types"][name] = text
        elif key == "capture:precision":
            options["precision"] = text
        elif key == "capture:evaluation" and text in ("true", "false"):
            options["evaluation"] = text == "true"
        elif key == "capture:loss":
            options["loss"] = int(text) if text.lstrip("-").isdigit() else text
        else:
            raise UserError(
                f"--set {setting}: there are capture:precision=NAME, capture:evaluation=true or false, capture:loss=KEY, "
                "and batch:KEY=TYPE"
            )
    return options


def unknown_option(function, key, known):
    return f"{function.__name__} has no option {key}; it has {', '.join(known) if known else 'none'}"


def run(function, options, model, capture_options=None):
    file = model.rpartition(":")[0]
    try:
        return capture_function(function, options, **(capture_options or {}))
    except UserError as error:
        if error.__cause__ is not None:
            place = place_of(error.__cause__, file)
            raise UserError(f"{place}: {error}") from error
        raise UserError(f"{model}: {error}") from error
    except TypeError as error:
        strange = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if strange and strange[1] in options:
            known = list(inspect.signature(function).parameters)
            raise UserError(f"{model}: " + unknown_option(function, strange[1], known)) from error
        raise UserError(f"{place_of(error, file)}: {describe(error)}{own_traceback(error)}") from error
    except (Exception, SystemExit) as error:
        raise UserError(f"{place_of(error, file)}: {describe(error)}{own_traceback(error)}") from error


def place_of(error, file):
    """FILE:LINE of the innermost frame in the user's file, else of all."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    own = [f for f in frames if is_same(f.filename, file)]
    frame = own[-1] if own else None
    return f"{file}:{frame.lineno} in {frame.name}" if frame else file


def own_traceback(error):
    """The traceback as Python would print it, without the frames of Weft; after the first line of a message."""
    text = traceback.TracebackException.from_exception(error)
    ours = os.path.dirname(os.path.abspath(__file__)) + os.sep
    each = text
    while each is not None:
        own = [frame for frame in each.stack if not frame.filename.startswith((ours, "<frozen importlib"))]
        each.stack = traceback.StackSummary.from_list(own)
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    return "\n" + "".join(text.format()).split("\nException raised from")[0].rstrip() if text.stack else ""


def is_same(filename, file):
    return os.path.exists(filename) and os.path.samefile(filename, file)


def describe(error):
    # PyTorch appends its C++ stack to some messages.
    text = str(error).split("\nException raised from")[0].strip() + hint_for(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


if __name__ == "__main__":
    # The report of the caller goes to the real standard output.
    os.dup2(2, 1)
    kept = main(sys.argv[1:])
    end_at_once()
