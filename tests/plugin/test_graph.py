"""Features behind the logits of a model that is checkpointed, compiled, in DDP, copied, or trained for long."""

import copy
import gc
import io
import pickle
import resource
import weakref

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import opl
from _small_cnn import Net, SmallCNN, data, hooked
from _textbook import agrees, expected_loss, textbook
from opl import errors
from opl.plugin.graph import LayerHook, _all_keys, bare_name, note_of


def test_a_ddp_model_is_tapped(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        model = SmallCNN()
        images, labels = data()
        wrapped = DistributedDataParallel(model)
        criterion = opl.regularize(nn.CrossEntropyLoss(), wrapped, layer="fc", global_batch=True)
        loss = criterion(wrapped(images), labels)
        agrees(model, loss, expected_loss(model, images, labels))
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
    return sum(1 for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor) and thing.grad_fn is not None)


def test_no_graph_stays_alive_between_steps():
    model = SmallCNN()
    images, labels = data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    before = graphs_alive()
    loss = criterion(model(images), labels)
    loss.backward()
    del loss
    assert graphs_alive() == before


@pytest.mark.slow
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


class Compiled:
    """A small network and its compiled form, with OPL attached before."""

    def __init__(self, change=None, **options):
        torch._dynamo.reset()
        self.model, (self.images, self.labels) = SmallCNN(), data()
        self.criterion = opl.regularize(nn.CrossEntropyLoss(), self.model, **options)
        function = self.model if change is None else lambda images: change(self.model(images))
        self.forward = torch.compile(function, fullgraph=True, backend="aot_eager")

    def agrees(self, logits, images, rows=lambda features: features):
        features = rows(self.model.embed(images))
        expected = F.cross_entropy(logits, self.labels) + textbook(features, self.labels)
        agrees(self.model, self.criterion(logits, self.labels), expected)


def test_the_last_of_two_compiled_passes_is_right_and_the_first_is_refused():
    case = Compiled()
    first, second = case.forward(case.images), case.forward(case.images * 2)
    case.agrees(second, case.images * 2)
    with pytest.raises(errors.TapError, match=r"compiled.*opl.regularize|earlier pass"):
        case.criterion(first, case.labels)
    case.agrees(case.forward(case.images), case.images)  # the advice: right after each pass


@pytest.mark.parametrize("options", [{"layer": "fc"}, {"features": "pool"}, {"layer": "pool", "pool": "mean"}], ids=str)
def test_the_first_of_two_compiled_passes_is_refused_for_a_named_layer(options):
    case = Compiled(**options)
    first, _ = case.forward(case.images), case.forward(case.images * 2)
    with pytest.raises(errors.TapError, match=r"compiled"):
        case.criterion(first, case.labels)


def test_a_pass_without_gradients_does_not_replace_a_compiled_pass():
    case = Compiled(layer="fc")
    logits = case.forward(case.images)
    with torch.no_grad():
        case.forward(case.images * 3)
    case.agrees(logits, case.images)


def test_features_inside_a_compiled_call_are_refused_and_the_advice_works():
    case = Compiled(features="pool")
    with pytest.raises(errors.TapError, match=r"hides the order of rows.*features=lambda output"):
        case.criterion(case.forward(case.images), case.labels)
    torch._dynamo.reset()
    model = case.model
    both = torch.compile(lambda images: (model(images), model.embed(images)), fullgraph=True, backend="aot_eager")
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, features=lambda output: output[1])
    output = both(case.images)
    expected = F.cross_entropy(output[0], case.labels) + textbook(output[1], case.labels)
    agrees(model, criterion(output, case.labels), expected)


@pytest.mark.parametrize("options", [{}, {"layer": "fc"}], ids=str)
def test_rows_permuted_inside_a_compiled_model_are_refused(options):
    order = torch.randperm(24, generator=torch.Generator().manual_seed(0))
    case = Compiled(lambda logits: logits[order], **options)
    with pytest.raises(errors.TapError, match="features=lambda output"):
        case.criterion(case.forward(case.images), case.labels)


@pytest.mark.parametrize("options", [{}, {"layer": "fc"}], ids=str)
@pytest.mark.parametrize("change", [lambda x: x * 2, lambda x: x.log_softmax(1), lambda x: -x / 0.07])
def test_logits_scaled_inside_a_compiled_model_are_recognized(change, options):
    case = Compiled(change, **options)
    case.agrees(case.forward(case.images), case.images)


def test_rows_permuted_after_a_compiled_model_are_followed():
    order = torch.randperm(24, generator=torch.Generator().manual_seed(0))
    case = Compiled()
    case.agrees(case.forward(case.images)[order], case.images, lambda features: features[order])


def test_a_compiled_model_that_ran_before_is_hooked_or_says_so():
    """PyTorch may or may not compile it again for the new hooks."""
    torch._dynamo.reset()
    model, (images, labels) = SmallCNN(), data()
    compiled = torch.compile(model, backend="aot_eager")
    compiled(images)
    criterion = opl.regularize(nn.CrossEntropyLoss(), compiled)
    logits = compiled(images)
    try:
        loss = criterion(logits, labels)
    except errors.TapError as error:
        message = str(error)
        assert "compiled and run before" in message
        torch.compiler.reset()  # the advice
        logits = compiled(images)
        loss = criterion(logits, labels)
    agrees(model, loss, F.cross_entropy(logits, labels) + textbook(model.embed(images), labels))


class Heads(Net):
    """Several heads on one input."""

    def __init__(self):
        super().__init__()
        self.second, self.down, self.up = nn.Linear(16, 2), nn.Linear(16, 3, bias=False), nn.Linear(3, 4, bias=False)
        self.mode = "first"

    def forward(self, images):
        x = self.features(images)
        return {
            "first": lambda: self.fc(x),
            "second": lambda: self.second(x),
            "joined": lambda: torch.cat([self.fc(x), self.second(x)], 1),
            "joined and flipped": lambda: torch.cat([self.fc(x), self.second(x)], 1).flip(0),
            "low rank": lambda: self.fc(x) + 0.5 * self.up(self.down(x)),
        }[self.mode]()


def check(model, criterion, images, labels):
    logits = model(images)
    flipped = model.seen[-1].flip(0) if model.mode == "joined and flipped" else model.seen[-1]
    agrees(model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(flipped, labels))


def test_heads_can_be_switched_after_many_batches():
    model, (images, labels) = Heads(), data(classes=2)
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    for mode in ["first"] * 12 + ["second"] * 12 + ["joined", "joined and flipped", "low rank", "first"]:
        model.mode = mode
        check(model, criterion, images, labels)


def test_a_head_inside_a_checkpoint_that_is_used_later_is_refused_once_and_then_kept():
    model, (images, labels) = Heads(), data(classes=2)
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    for _ in range(12):
        check(model, criterion, images, labels)
    model.mode = "second"
    model.second.requires_grad_(False)  # then the graph does not keep its input
    body = model.features

    def forward(x):
        return checkpoint(lambda y: model.second(body(y) + 0), x, use_reentrant=False)

    with pytest.raises(errors.TapError, match=r"'second'.*again"):
        criterion(forward(images), labels)
    logits = forward(images)
    agrees(model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(model.embed(images), labels))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_prepare_qat_may_follow_the_criterion():
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 8), nn.ReLU(), nn.Linear(8, 4))
    images, labels = data()
    model.qconfig = torch.ao.quantization.get_default_qat_qconfig("fbgemm")
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    torch.ao.quantization.prepare_qat(model.train(), inplace=True)
    features = hooked(model[3])
    logits = model(images)
    agrees(model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(features[0], labels))


def test_distributed_tensors_are_gathered(tmp_path):
    from torch.distributed.tensor import DTensor, Replicate

    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
        model, (images, labels) = SmallCNN(), data()
        distributed = dist.tensor.parallel.parallelize_module(
            model,
            mesh,
            {"fc": dist.tensor.parallel.ColwiseParallel(output_layouts=Replicate(), use_local_output=False)},
        )
        criterion = opl.regularize(nn.CrossEntropyLoss(), distributed)
        logits = distributed(images)
        assert isinstance(logits, DTensor)
        with pytest.raises(errors.OptionError, match=r"DTensor.*full_tensor"):
            criterion(logits, labels)
        logits = logits.full_tensor()
        expected = F.cross_entropy(logits, labels) + textbook(model.embed(images), labels)
        torch.testing.assert_close(criterion(logits, labels).double(), expected.double(), rtol=1e-5, atol=1e-5)
    finally:
        dist.destroy_process_group()


def hooks_on(model) -> int:
    return sum(len(layer._forward_hooks) + len(layer._forward_pre_hooks) for layer in model.modules())


def test_criteria_leave_nothing_behind():
    """Thirty criteria, made and dropped: no hook and no graph stays, and one layer has one hook for all."""
    model, (images, labels) = SmallCNN(), data()
    before = graphs_alive()
    kept = [opl.regularize(nn.CrossEntropyLoss(), model) for _ in range(3)]
    assert hooks_on(model) == 1
    kept.clear()
    gc.collect()
    assert hooks_on(model) == 0
    for _ in range(30):
        criterion = opl.regularize(nn.CrossEntropyLoss(), model)
        criterion(model(images[:4]), labels[:4])
        assert hooks_on(model) == 1
    del criterion
    gc.collect()
    assert hooks_on(model) == 0
    assert graphs_alive() == before


def test_a_saved_model_knows_nothing_of_its_hooks():
    model, (images, labels) = SmallCNN(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    criterion(model(images), labels)
    assert b"opl" not in pickle.dumps(model)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    loaded = torch.load(io.BytesIO(buffer.getvalue()), weights_only=False)
    assert torch.equal(loaded(images), model(images))


def test_layers_that_were_never_the_classifier_keep_nothing_alive():
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    images, labels = data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    for _ in range(10):
        criterion(model(images), labels)
    hooks = [next(iter(model[index]._forward_hooks.values())) for index in (1, 3, 5)]
    assert [hook.strong for hook in hooks] == [False, False, True]
    logits = model(images)
    notes = [note_of(node) for node, _ in _all_keys((logits.grad_fn, 0)) if note_of(node) is not None]
    assert sorted(isinstance(note.features, weakref.ref) for note in notes) == [False, True, True]


def test_wrappers_do_not_change_names():
    for name in ("module.fc", "_orig_mod.fc", "_fsdp_wrapped_module.fc", "module._fsdp_wrapped_module.fc"):
        assert bare_name(name) == "fc"
    assert bare_name("body._checkpoint_wrapped_module.0") == "body.0"
