"""The gradients of one optimizer step, from one or several mini-batches."""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...errors import LayerError, OptionError
from ..models.modes import unwrap
from ..types import Batch, Output, Terms

Pieces = Iterable[tuple[int, Batch]]
"""The mini-batches of an optimizer step, with their step numbers in the epoch."""
Prepare = Callable[[int], None]
"""Sets the random state and the step counters for a mini-batch."""
ONE_PASS = (
    "accumulation='exact' needs a method that runs the model once, on the images of the batch, and uses only its "
    "output: use accumulation='micro' with this method."
)


class Loss(NamedTuple):
    """What a step reports: the loss and its parts, each summed over the images, and the number of images.

    On several processes, the sums are over this process's images, times the number of processes.
    """

    sums: dict[str, float]
    images: int


def add_gradients(
    fabric: Any, model: nn.Module, objective: nn.Module, pieces: Pieces, count: int, prepare: Prepare
) -> Loss:
    """Add up the gradients of the mean over `count` mini-batches; terms see one mini-batch at a time."""
    sums: dict[str, float] = {}
    images = 0
    for index, (step, batch) in enumerate(pieces):
        prepare(step)
        with fabric.no_backward_sync(model, enabled=index + 1 < count):
            terms: Terms = objective(model, batch)
            fabric.backward(terms.total / count)
        size = _count(fabric, batch)
        for name, value in _values(terms).items():
            sums[name] = sums.get(name, 0.0) + value * size
        images += size
    return Loss(sums, images)


def add_exact_gradients(
    fabric: Any, model: nn.Module, objective: nn.Module, pieces: Pieces, count: int, prepare: Prepare
) -> Loss:
    """Add up the gradients of mini-batches as if they were one batch, with one graph in memory at a time.

    The model runs twice. The first pass only computes the outputs of all mini-batches, and the objective yields the
    gradient of every output; the second pass propagates these gradients to the weights, by mini-batch. Both passes
    use the same random numbers, and only the second one updates buffers, such as the running statistics of BatchNorm.
    """
    listed = list(pieces)
    whole = _join(fabric, [batch for _, batch in listed])
    cached = CachedOutputs(model, listed, whole, prepare)
    try:
        terms: Terms = objective(cached, whole)
    except LayerError as error:  # the method taps a layer of the model
        raise OptionError(ONE_PASS) from error
    with fabric.no_backward_sync(model):
        torch.autograd.backward(terms.total)
    for index, (step, batch) in enumerate(listed):
        prepare(step)
        with fabric.no_backward_sync(model, enabled=index + 1 < count):
            output: Output = model(batch.images, *cached.labels(index))
            carried = [
                (value * gradient).sum() for value, gradient in zip(output, cached.gradients(index), strict=True)
            ]
            fabric.backward(torch.stack(carried).sum())
    images = _count(fabric, whole)
    return Loss({name: value * images for name, value in _values(terms).items()}, images)


class CachedOutputs(nn.Module):
    """Stands in for the model: returns the outputs of mini-batches as one output, whose gradients it keeps."""

    def __init__(self, model: nn.Module, pieces: list[tuple[int, Batch]], whole: Batch, prepare: Prepare) -> None:
        super().__init__()
        self.wrapped = [model]  # in a list, so that its weights do not belong to this module
        self.fc = unwrap(model).get_submodule("fc")  # for the penalty of a head
        self.pieces, self.whole, self.prepare = pieces, whole, prepare
        self.sizes = [len(batch.labels) for _, batch in pieces]
        self.guided = False
        self.output: Output | None = None

    def forward(self, images: Tensor, labels: Tensor | None = None, change: Any = None) -> Output:
        """Return the model's output for the whole batch, without the graph."""
        if images is not self.whole.images or change is not None or self.output is not None:
            raise OptionError(ONE_PASS)
        self.guided = labels is not None
        network = unwrap(self.wrapped[0])
        before = {name: value.clone() for name, value in network.named_buffers()}
        outputs = []
        with torch.no_grad():
            for index, (step, batch) in enumerate(self.pieces):
                self.prepare(step)
                outputs.append(self.wrapped[0](batch.images, *self.labels(index)))
            for name, value in network.named_buffers():
                value.copy_(before[name])
        features, logits = (torch.cat(parts).requires_grad_() for parts in zip(*outputs, strict=True))
        self.output = Output(features, logits)
        return self.output

    def labels(self, index: int) -> tuple[Tensor, ...]:
        """Return the labels of a mini-batch if the objective passes labels to the model."""
        return (self.pieces[index][1].labels,) if self.guided else ()

    def gradients(self, index: int) -> list[Tensor]:
        """Return the gradients of the features and of the logits of a mini-batch."""
        assert self.output is not None
        gradients = [torch.zeros_like(value) if value.grad is None else value.grad for value in self.output]
        return [torch.split(gradient, self.sizes)[index] for gradient in gradients]


def average_gradients(fabric: Any, objective: nn.Module) -> None:
    """Average the gradients of the objective's parameters over processes, as DDP does for the model."""
    if fabric.world_size > 1:
        for parameter in objective.parameters():
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = fabric.all_reduce(gradient, reduce_op="mean")


class NotFinite(Exception):
    """An output of the model is not finite, on one process or several; raised on all of them."""


def watch_outputs(fabric: Any, model: nn.Module) -> Any:
    """Make the model raise `NotFinite` on all processes if an output is not finite on any of them."""

    def check(_: nn.Module, __: Any, output: Output) -> None:
        wrong = sum(float(not torch.isfinite(value).all()) for value in output)
        if add_up(fabric, [wrong])[0]:
            raise NotFinite("an output of the model is not finite.")

    return model.register_forward_hook(check)


def add_up(fabric: Any, numbers: list[float]) -> list[float]:
    """Return the sums of some numbers over the processes."""
    if fabric.world_size == 1:
        return numbers
    total = fabric.all_reduce(torch.tensor(numbers, dtype=torch.float64, device=fabric.device), reduce_op="sum")
    return [float(number) for number in total.tolist()]


def gradients_are_finite(parameters: Iterable[nn.Parameter]) -> bool:
    """Return whether this process's part of all gradients is finite."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norms = [torch.linalg.vector_norm(local(gradient)).item() for gradient in gradients]
    return all(map(math.isfinite, norms))


def local(value: Tensor) -> Tensor:
    """Return the part of a tensor that this process has."""
    from torch.distributed.tensor import DTensor

    return value.to_local() if isinstance(value, DTensor) else value


def _join(fabric: Any, batches: list[Batch]) -> Batch:
    """Join mini-batches into one batch, in which every image has the same weight."""
    images, labels, rows = (torch.cat(parts) for parts in list(zip(*batches, strict=True))[:3])
    return Batch(images, labels, rows, fabric.world_size / sum(_count(fabric, batch) for batch in batches))


def _count(fabric: Any, batch: Batch) -> int:
    """Return the number of images of the global batch."""
    world: int = fabric.world_size
    return round(world / batch.sample_weight)


def _values(terms: Terms) -> dict[str, float]:
    """Return the loss, its parts and the measures as floats."""
    named: dict[str, Tensor] = {"loss": terms.total, **terms.parts, **terms.measures}
    return dict(zip(named, torch.stack([value.detach().double() for value in named.values()]).tolist(), strict=True))
