# SPDX-License-Identifier: Apache-2.0
"""x[mask] in a captured step, whose shape depends on data: all rows stay, and those that the mask leaves out do not count.

What is computed row by row, reduced over the rows, or written back where the mask is, is the same with all rows. In the
others every tensor holds ones (zeros where it holds whole numbers): nothing that x holds there, as NaN, gets on, neither
forward nor backward. For anything else the mask is read, and the step is for this mask alone, if it follows from the
batch; if it follows from parameters, it is refused with the line of the model.
"""

from __future__ import annotations

import operator

import torch

from weft._weft import UserError
from weft.running_line import running_line
from weft.traced_number import TracedNumber, with_tensor


class Masked:
    """Rows of `values` where `mask`, which has one dim; `follow` tells which masks are the same.

    `given` is the mask as the model has it, of which `mask` is made.
    """

    def __init__(self, values, mask, follow, given=None):
        self._follow = follow
        self._given = given
        # The selected rows alone, once something has needed them.
        self._rows = None
        follow.made += 1
        self._first_mask = mask
        self._version = mask._version
        self._values = torch.where(_beside(mask, values), values, _filler(values))

    @property
    def _mask(self):
        if self._first_mask._version != self._version:
            raise mask_refusal("what is done with it after its mask was written to")
        return self._first_mask

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        return _call(function, arguments, keywords or {})

    @property
    def shape(self):
        return (self._count(), *self._values.shape[1:]) if self._rows is None else self._rows.shape

    @property
    def dtype(self):
        return self._values.dtype

    @property
    def device(self):
        return self._values.device

    @property
    def requires_grad(self):
        return self._values.requires_grad

    @property
    def ndim(self):
        return self._values.dim()

    def dim(self):
        return self._values.dim()

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def numel(self):
        return self._count() * self._values[0].numel() if self._values.dim() > 1 else self._count()

    def nelement(self):
        return self.numel()

    def is_floating_point(self):
        return self._values.is_floating_point()

    def __len__(self):
        return int(self._count())

    def __bool__(self):
        return bool(self._selected(mask_refusal("a branch on it")))

    def __iter__(self):
        return iter(self._selected(mask_refusal("a loop over its rows")))

    def __getitem__(self, index):
        return _all_rows_or_selected(_rows_of, torch.Tensor.__getitem__, (self, index), {})

    def __setitem__(self, index, value):
        rows = self._selected(mask_refusal("writing into a part of it"))
        rows[index] = value._selected() if type(value) is Masked else value

    def __getattr__(self, name):
        method = getattr(torch.Tensor, name, None)
        if method is None:
            raise AttributeError(name)
        if not callable(method):
            return getattr(self._selected(mask_refusal(f".{name}")), name)
        return lambda *arguments, **keywords: _call(method, (self, *arguments), keywords)

    def _count(self):
        return self._follow.number(self._mask.sum())

    def _with(self, values):
        return Masked(values, self._mask, self._follow, self._given)

    def _selected(self, refusal=None):
        """The selected rows alone: from here on the step is for this mask alone. Throws `refusal` where it cannot be."""
        if self._rows is None:
            places = self._follow.places(self._mask)
            if places is None:
                raise refusal or mask_refusal("what is done with it")
            self._rows = self._values[places[0]]
        return self._rows

    def _where_selected(self, value):
        """All rows, with `value` in those that are left out."""
        return torch.where(_beside(self._mask, self._values), self._values, torch.full_like(self._values, value))


def _beside(mask, values):
    return mask.reshape(-1, *[1] * (values.dim() - 1))


def _filler(values):
    return torch.ones_like(values) if values.is_floating_point() or values.is_complex() else torch.zeros_like(values)


class MaskRefusal(UserError):
    pass


def mask_refusal(what):
    where = running_line()
    return MaskRefusal(
        f"[capture] indexing with a boolean mask: the shape of x[mask] depends on data, and {what} needs it. Sums, "
        "means, losses, what is computed row by row and x[mask] = ... work; else use torch.where(mask, x, 0), and "
        "divide by mask.sum() where a mean is wanted" + (f"\n  at {where}" if where else "")
    )


# ---- Operators, as Python writes them.


def _operate(function, arguments, keywords):
    return _all_rows_or_selected(lambda *given: _by_row(function, given, keywords), function, arguments, keywords)


def _add_operators():
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
        function = getattr(operator, f"__{name}__")
        setattr(Masked, f"__{name}__", lambda self, other, f=function: _operate(f, (self, other), {}))
        setattr(Masked, f"__r{name}__", lambda self, other, f=function: _operate(f, (other, self), {}))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        function = getattr(operator, f"__{name}__")
        setattr(Masked, f"__{name}__", lambda self, other, f=function: _operate(f, (self, other), {}))
    for name in ("neg", "pos", "abs", "invert"):
        function = getattr(operator, f"__{name}__")
        setattr(Masked, f"__{name}__", lambda self, f=function: _operate(f, (self,), {}))
    Masked.__hash__ = object.__hash__
    Masked.__matmul__ = lambda self, other: _call(torch.matmul, (self, other), {})
    Masked.__rmatmul__ = lambda self, other: _call(torch.matmul, (other, self), {})


_add_operators()


# ---- Functions of torch, by name.

# An element of the result comes from the elements at its place.
_ELEMENTWISE = set(
    "abs absolute neg negative exp expm1 exp2 log log1p log2 log10 sqrt rsqrt square reciprocal sin cos tan tanh sigmoid "
    "logit relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign hardtanh hardsigmoid hardswish logsigmoid "
    "erf erfc floor ceil round trunc frac sign clamp clamp_min clamp_max add sub subtract mul multiply div divide "
    "true_divide pow maximum minimum fmax fmin where lerp addcmul addcdiv atan2 eq ne lt le gt ge logical_and logical_or "
    "logical_not logical_xor isnan isinf isfinite nan_to_num masked_fill float double half bfloat16 long int bool to "
    "type_as detach clone contiguous conj real imag rsub bitwise_not bitwise_and bitwise_or".split()
)
# A row of the result comes from a row of the first argument and all of the others.
_OF_ROWS = {"linear", "embedding", "matmul", "mm"}
# One of the dims that they are given, which must not be the rows'.
_ALONG_A_DIM = set(
    "softmax log_softmax sum mean amax amin max min argmax argmin logsumexp norm prod any all cumsum normalize gather "
    "unsqueeze squeeze var std cosine_similarity layer_norm rms_norm one_hot glu".split()
)
# The losses of torch.nn.functional with a `reduction`, element by element.
_LOSSES = set(
    "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div "
    "soft_margin_loss poisson_nll_loss gaussian_nll_loss".split()
)


def _call(function, arguments, keywords):
    return _all_rows_or_selected(
        lambda *given, **options: _call_all_rows(function, given, options), function, arguments, keywords
    )


def _all_rows_or_selected(of_all, of_selected, arguments, keywords):
    """With all rows if that is the same; else with the rows that are selected."""
    refusal = None
    if not any(one._rows is not None for one in _masked_in([*arguments, *keywords.values()])):
        try:
            return of_all(*arguments, **keywords)
        except MaskRefusal as error:
            refusal = error
    plain = [_with_selected(one, refusal) for one in arguments]
    return of_selected(*plain, **{key: _with_selected(one, refusal) for key, one in keywords.items()})


def _masked_in(things):
    for one in things:
        if type(one) is Masked:
            yield one
        elif type(one) in (tuple, list):
            yield from _masked_in(one)


def _with_selected(thing, refusal):
    if type(thing) is Masked:
        return thing._selected(refusal)
    return type(thing)(_with_selected(one, refusal) for one in thing) if type(thing) in (tuple, list) else thing


def _call_all_rows(function, arguments, keywords):
    name = getattr(function, "__name__", "").strip("_")
    if name in ("cross_entropy", "nll_loss") or name in _LOSSES:
        return _loss(function, name, arguments, keywords)
    if name == "ctc_loss":
        return _ctc_loss(function, arguments, keywords)
    if name in ("view", "reshape", "flatten"):
        return _reshaped(name, arguments, keywords)
    if name == "size":
        return arguments[0].size(*arguments[1:], **keywords)
    if name in ("numel", "dim"):
        return getattr(arguments[0], name)()
    if name == "getitem":
        return _rows_of(*arguments)
    if name in _OF_ROWS and type(arguments[0]) is Masked and type(arguments[1]) is not Masked:
        return arguments[0]._with(function(arguments[0]._values, *arguments[1:], **keywords))
    if name == "dropout" and (keywords.get("p") == 0 or keywords.get("training") is False):
        return arguments[0]
    if name in _ELEMENTWISE:
        made = _by_row(function, arguments, keywords)
        if function.__name__.endswith("_") and not function.__name__.startswith("_"):
            # In place.
            arguments[0]._values = made._values
            return arguments[0]
        return made
    if name in _ALONG_A_DIM:
        dim = _dim_of(name, arguments, keywords)
        if dim is not None and dim != 0:
            return _by_row(function, arguments, keywords)
        if name in _REDUCED and dim in (None, 0) and len(arguments) <= 2:
            return _REDUCED[name](_first(arguments), *([] if dim is None else [0]), **_reduced_options(name, keywords))
    raise mask_refusal(f"`{name}`")


def _first(arguments):
    return next(one for one in arguments if type(one) is Masked)


def _dim_of(name, arguments, keywords):
    """The dim that the function works along, counted from the first, or None for all."""
    dims = _first(arguments)._values.dim()
    if name in ("layer_norm", "rms_norm"):
        return dims - 1 if len(arguments[1]) < dims else 0
    if name == "one_hot":
        return 1
    default = {"normalize": 1, "cosine_similarity": 1, "glu": -1}.get(name)
    position = {"norm": 2, "cosine_similarity": 2, "normalize": 2}.get(name, 1)
    dim = keywords.get("dim", arguments[position] if len(arguments) > position else default)
    if type(dim) in (tuple, list) and len(dim) == 1:
        dim = dim[0]
    if (dim is not None and type(dim) is not int) or (dim is None and name == "squeeze"):
        raise mask_refusal(f"`{name}` along these dims")
    return dim if dim is None else dim % (dims + 1 if name == "unsqueeze" else dims)


def _by_row(function, arguments, keywords):
    """function of all rows: those that are left out have ones again afterwards."""
    masked = _first([*arguments, *keywords.values()])
    plain = [_aligned(masked, one) for one in arguments]
    options = {key: _aligned(masked, one) for key, one in keywords.items()}
    made = _with_numbers(function, plain, options)
    if isinstance(made, tuple):
        return type(made)([masked._with(one) for one in made])
    return masked._with(made)


def _with_numbers(function, plain, options):
    if len(plain) == 2 and not options and getattr(function, "__module__", "") == "_operator":
        left, right = plain
        if type(right) is TracedNumber:
            return with_tensor(function, left, right)
        if type(left) is TracedNumber:
            return with_tensor(function, right, left, is_right=True)
    return function(*plain, **options)


def _aligned(masked, other):
    """What stands beside all rows of `masked` in its place."""
    if type(other) is Masked:
        if not masked._follow.is_same(masked._mask, other._mask):
            raise mask_refusal("two of them with masks that may differ in one expression")
        return other._values
    if isinstance(other, torch.Tensor) and other.dim() >= masked._values.dim():
        if other.dim() > masked._values.dim() or other.shape[0] != 1:
            raise mask_refusal("a tensor with a row for each of its rows")
    return other


def _loss(function, name, arguments, keywords):
    names = ("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing")
    if name in ("cross_entropy", "nll_loss"):
        given = {**dict(zip(names, arguments, strict=False)), **keywords}
        logits, target = given.pop("input"), given.pop("target")
        if type(logits) is not Masked or type(target) is not Masked or target._values.is_floating_point():
            raise mask_refusal(f"`{name}` without class numbers that are masked alike")
        _aligned(logits, target)
        # What is ignored counts in no mean.
        return function(logits._values, target._where_selected(given.get("ignore_index", -100)), **_no_none(given))
    reduction = keywords.get("reduction", "mean")
    if any(isinstance(one, (str, bool)) for one in arguments):
        raise mask_refusal(f"`{name}` with options that are not given by name")
    elements = _by_row(function, arguments, {**keywords, "reduction": "none"})
    return elements if reduction == "none" else _REDUCED[reduction](elements)


def _ctc_loss(function, arguments, keywords):
    names = ("log_probs", "targets", "input_lengths", "target_lengths", "blank", "reduction", "zero_infinity")
    given = {**dict(zip(names, arguments, strict=False)), **keywords}
    targets, lengths = given["targets"], given["target_lengths"]
    if type(targets) is not Masked or targets._values.dim() != 1 or type(given["log_probs"]) is Masked:
        raise mask_refusal("`ctc_loss` of something else than its targets")
    rows = _target_rows(targets, torch.as_tensor(lengths).reshape(-1))
    return function(**{**given, "targets": rows})


def _target_rows(targets, lengths):
    """The targets that stand one after the other where the mask is, a row for each of the lengths."""
    targets = targets.to(torch.int64)
    mask = targets._given
    is_same = targets._follow.is_same
    if mask is None or mask.dim() != 2 or not any(is_same(lengths, mask.sum(dim)) for dim in (-1, 1)):
        return torch.ops.weft.ctc_targets(targets._values, targets._mask, lengths, targets._values.shape[0])
    # Each has what its own row of the mask selects: every row by itself, and no wider than the mask.
    place = (mask.cumsum(1) - 1).clamp_min(0)
    return torch.zeros_like(place).scatter_add(1, place, targets._where_selected(0).reshape(mask.shape))


def _no_none(options):
    options = {key: value for key, value in options.items() if value is not None}
    if options.get("reduction") == "none":
        raise mask_refusal("a loss of every row")
    return options


def _reshaped(name, arguments, keywords):
    masked, *sizes = arguments
    values = masked._values
    if name == "flatten":
        if sizes or keywords:
            start = keywords.get("start_dim", sizes[0] if sizes else 0)
            if start != 0:
                return masked._with(values.flatten(*sizes, **keywords))
        sizes = [-1]
    if len(sizes) == 1 and not isinstance(sizes[0], int):
        sizes = list(sizes[0])
    keeps_rows = sizes and (sizes[0] == -1 if type(sizes[0]) is int else type(sizes[0]) is TracedNumber)
    inner = 1
    for size in sizes[1:]:
        if type(size) is not int or size < 0:
            keeps_rows = False
        else:
            inner *= size
    if not keeps_rows or inner != values[0].numel():
        if sizes == [-1] and values.dim() > 1:
            each = values.shape[1:].numel()
            mask = masked._mask.reshape(-1, 1).expand(-1, each).reshape(-1)
            return Masked(values.reshape(-1), mask, masked._follow)
        raise mask_refusal(f"`{name}` to {sizes}")
    return masked._with(values.reshape(values.shape[0], *sizes[1:]))


def _rows_of(masked, index):
    if type(index) is Masked and index.dtype == torch.bool and index._values.dim() == 1:
        _aligned(masked, index)
        return Masked(masked._values, masked._mask & index._values, masked._follow)
    if type(index) is tuple and index and index[0] == slice(None) and not any(type(i) is Masked for i in index):
        return masked._with(masked._values[index])
    if type(index) is tuple and index and index[0] is Ellipsis and len(index) - 1 < masked._values.dim():
        return masked._with(masked._values[index])
    raise mask_refusal("an index into its rows")


# ---- Over the rows.


def _sum(masked, dim=None, **options):
    rows = masked._where_selected(0)
    return rows.sum(**options) if dim is None else rows.sum(dim, **options)


def _mean(masked, dim=None, **options):
    count = masked._mask.sum()
    if dim is None and masked._values.dim() > 1:
        count = count * masked._values.shape[1:].numel()
    kind = options.pop("dtype", masked.dtype)
    # Rounded once, as the kernel of mean does.
    wide = torch.float32 if kind in (torch.float16, torch.bfloat16) else kind
    total = _sum(masked, dim, dtype=wide, **options)
    return (total / count.to(wide)).to(kind)


def _extreme(name, sign):
    def reduce(masked, dim=None):
        if dim is not None and not name.startswith("a"):
            raise mask_refusal(f"`{name}` over its rows with their numbers")
        kind = masked.dtype
        limits = None if kind.is_floating_point else torch.iinfo(kind)
        worst = sign * float("inf") if limits is None else limits.min if sign < 0 else limits.max
        rows = masked._where_selected(worst)
        return getattr(rows, name)() if dim is None else getattr(rows, name)(dim)

    return reduce


_REDUCED = {
    "sum": _sum,
    "mean": _mean,
    "max": _extreme("max", -1),
    "min": _extreme("min", 1),
    "amax": _extreme("amax", -1),
    "amin": _extreme("amin", 1),
    "any": lambda masked: masked._where_selected(0).any(),
    "all": lambda masked: masked._where_selected(1).all(),
}


def _reduced_options(name, keywords):
    options = {key: value for key, value in keywords.items() if key != "dim"}
    if options and (name not in ("sum", "mean") or set(options) - {"keepdim", "dtype"}):
        raise mask_refusal(f"`{name}` with {', '.join(options)}")
    return options
