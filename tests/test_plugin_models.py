"""The tap on a model that is checkpointed, compiled, in DDP, copied, or trained for long."""

import copy
import gc
import io
import pickle
import resource

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import opl
from _small_cnn import SmallCNN, data, expected_loss
from opl import errors
from opl.plugin.graph import LayerHook


def test_checkpointed_blocks_run_again_in_backward_without_leaving_anything():
    model = SmallCNN()
    images, labels = data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    expected, *_ = expected_loss(model, images, labels)
    gradients = torch.autograd.grad(expected, list(model.parameters()))

    def whole(x):  # the tapped layer itself lies inside the checkpoint
        return checkpoint(model, x, use_reentrant=False)

    def body(x):
        features = checkpoint(lambda y: model.pool(model.body(y)), x, use_reentrant=False)
        return model.fc(features.flatten(1))

    for forward in (whole, body):
        loss = criterion(forward(images), labels)
        torch.testing.assert_close(loss, expected)
        for ours, theirs in zip(torch.autograd.grad(loss, list(model.parameters())), gradients, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("first", ["tap", "compile"])
def test_a_compiled_model_is_tapped(first):
    torch._dynamo.reset()
    model = SmallCNN()
    images, labels = data()
    expected, *_ = expected_loss(model, images, labels)
    if first == "tap":
        criterion = opl.regularize(nn.CrossEntropyLoss(), model)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    else:
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        criterion = opl.regularize(nn.CrossEntropyLoss(), compiled)
    for _ in range(2):
        loss = criterion(compiled(images), labels)
        torch.testing.assert_close(loss, expected)
    loss.backward()
    assert model.body[0].weight.grad.abs().sum() > 0


def test_a_ddp_model_is_tapped(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        model = SmallCNN()
        images, labels = data()
        wrapped = DistributedDataParallel(model)
        criterion = opl.regularize(nn.CrossEntropyLoss(), wrapped, layer="fc", global_batch=True)
        loss = criterion(wrapped(images), labels)
        torch.testing.assert_close(loss, expected_loss(model, images, labels)[0])
        loss.backward()
        assert model.body[0].weight.grad.abs().sum() > 0
    finally:
        dist.destroy_process_group()


def clone_by_pickle(value):
    return pickle.loads(pickle.dumps(value))


def clone_by_torch(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return torch.load(io.BytesIO(buffer.getvalue()), weights_only=False)


@pytest.mark.parametrize("clone", [copy.deepcopy, clone_by_pickle, clone_by_torch])
@pytest.mark.parametrize("order", ["model first", "criterion first"])
def test_a_model_and_its_criterion_are_copied_together(clone, order):
    model = SmallCNN()
    images, labels = data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    loss = criterion(model(images), labels)
    model(images)  # a graph is pending: it must not be copied
    if order == "model first":
        twin, its = clone((model, criterion))
    else:
        its, twin = clone((criterion, model))
    torch.testing.assert_close(its(twin(images), labels), loss)
    twin(images)
    with pytest.raises(errors.TapError):  # the copy's forward pass is not the original's
        criterion(torch.zeros(24, 4), labels)


def test_a_copy_of_the_model_alone_keeps_nothing_alive():
    model = SmallCNN()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    average = copy.deepcopy(model)  # as for an exponential moving average
    images, _ = data()
    average(images)
    (hook,) = average.fc._forward_hooks.values()
    assert not isinstance(hook, LayerHook)
    assert average(images).grad_fn.metadata == {}
    assert criterion.source.name


def graphs_alive() -> int:
    gc.collect()
    return sum(1 for thing in gc.get_objects() if isinstance(thing, torch.Tensor) and thing.grad_fn is not None)


def test_no_graph_stays_alive_between_steps():
    model = SmallCNN()
    images, labels = data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    before = graphs_alive()
    loss = criterion(model(images), labels)
    loss.backward()
    del loss
    assert graphs_alive() == before


def test_a_thousand_steps_leave_memory_flat():
    model = nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 10))
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    inputs, labels = torch.randn(128, 64), torch.randint(0, 10, (128,))

    def steps(number: int) -> int:
        for _ in range(number):
            model.zero_grad()
            criterion(model(inputs), labels).backward()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB

    warm = steps(100)
    # One kept graph is 128 x 2048 floats = 1 MiB: a thousand of them would be a gigabyte.
    assert steps(1000) - warm < 50 * 1024
