"""The training loop: accumulation, clipping, validation, precision and logging vs simpler references."""

import csv
from dataclasses import replace

import pytest
import torch

from opl.errors import OptionError
from opl.experiments import paper
from opl.experiments.data import Digits
from opl.experiments.methods import CrossEntropy
from opl.experiments.models import EfficientNetLite0
from opl.experiments.run_folder import RunFolder
from opl.experiments.training import progress
from opl.experiments.training.build import build_model, input_statistics
from opl.experiments.training.run import run
from opl.optim import SGD, Steps

PLAIN = replace(
    paper.recipe("digits-ce", "small"),
    data=Digits(),
    optimizer=SGD(lr=0.05, momentum=0.0, weight_decay=0.0),
    schedule=Steps(milestones=()),
    epochs=1,
)


def trained(tmp_path, name, recipe):
    run(recipe, tmp_path / name)
    return RunFolder.of(tmp_path / name, recipe.name, recipe.seed)


def test_accumulated_batches_train_as_one_large_batch(tmp_path):
    large = trained(tmp_path, "large", replace(PLAIN, batch_size=64)).weights()
    small = trained(tmp_path, "small", replace(PLAIN, batch_size=32, accumulate=2)).weights()
    for name, value in large.items():
        # 899 images: the last of 15 large steps has 3, and so has the last small batch, alone in its step.
        torch.testing.assert_close(small[name], value, rtol=0, atol=1e-6)


def test_a_clipped_step_is_no_longer_than_its_limit(tmp_path):
    recipe = replace(PLAIN, clip=1e-3, batch_size=899)
    before = build_model(recipe).state_dict()
    after = trained(tmp_path, "clipped", recipe).weights()
    length = torch.cat([(after[name] - before[name]).flatten() for name in before]).norm()
    assert length.item() == pytest.approx(0.05 * 1e-3, rel=1e-3)


def test_one_step_is_the_gradient_of_cross_entropy(tmp_path):
    recipe = replace(PLAIN, batch_size=899)
    model = build_model(recipe)
    part = recipe.data.load(0).train
    pixels, labels = part.take(torch.arange(len(part)))
    images = (pixels.float() / 255 - torch.tensor(recipe.data.mean)) / torch.tensor(recipe.data.std)
    torch.nn.functional.cross_entropy(model(images).logits, labels).backward()
    after = trained(tmp_path, "one", recipe).weights()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(after[name], (parameter - 0.05 * parameter.grad).detach(), rtol=0, atol=1e-6)


def test_the_classifier_has_its_multiple_of_the_learning_rate(tmp_path):
    recipe = replace(PLAIN, batch_size=899)
    before = build_model(recipe).state_dict()
    plain = trained(tmp_path, "plain", recipe).weights()
    faster = trained(tmp_path, "faster", replace(recipe, head_lr_mult=4.0)).weights()
    for name, start in before.items():
        mult = 4 if name.startswith("fc.") else 1
        torch.testing.assert_close(faster[name] - start, mult * (plain[name] - start), rtol=0, atol=1e-6)


def test_a_model_with_published_weights_gets_images_in_their_scaling():
    digits = replace(PLAIN, model=EfficientNetLite0())
    assert input_statistics(digits) == ((127 / 255,), (128 / 255,))
    assert input_statistics(replace(digits, normalize="none")) == ((0.0,), (1.0,))
    inside = build_model(replace(digits, normalize="model"))
    assert inside.standardize.std.item() == pytest.approx(128 / 255)
    assert input_statistics(PLAIN) == (PLAIN.data.mean, PLAIN.data.std)


def test_validation_comes_every_n_epochs_and_after_the_last(tmp_path):
    data = replace(PLAIN.data, val=100)
    folder = trained(tmp_path, "val", replace(PLAIN, data=data, epochs=5, eval_every=2))
    assert [record["epoch"] for record in folder.metrics() if "val/top1" in record] == [1, 3, 4]


def test_the_best_epoch_by_validation_is_tested(tmp_path):
    data = replace(PLAIN.data, val=100)
    recipe = replace(PLAIN, data=data, epochs=4, selection="best-val", optimizer=SGD(lr=0.3, momentum=0.9))
    folder = trained(tmp_path, "best", recipe)
    assert folder.result()["val/top1"] == max(record["val/top1"] for record in folder.metrics())


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_other_precisions_learn_too(tmp_path, precision):
    recipe = replace(paper.recipe("digits-opl", "small"), epochs=12, precision=precision)
    assert trained(tmp_path, precision, recipe).result()["test/top1"] > 50


@pytest.mark.parametrize("name", ["cifar10-robust-madry", "cifar10-robust-mart", "cifar10-robust-trades"])
def test_attacks_in_training_run_in_mixed_precision_too(tmp_path, name):
    seen = []

    def record(module, inputs, output):
        if isinstance(module, torch.nn.Conv2d):
            seen.append(output.dtype)

    recipe = replace(paper.recipe(name, "tiny"), epochs=1, precision="bf16-mixed")
    with torch.nn.modules.module.register_module_forward_hook(record):
        run(recipe, tmp_path)
    assert seen
    assert set(seen) == {torch.bfloat16}


@pytest.mark.slow
def test_a_compiled_model_learns_the_same(tmp_path):
    recipe = replace(PLAIN, epochs=2, method=CrossEntropy())
    plain = trained(tmp_path, "plain", recipe).weights()
    compiled = trained(tmp_path, "compiled", replace(recipe, compile=True)).weights()
    for name, value in plain.items():
        torch.testing.assert_close(compiled[name], value, rtol=0, atol=1e-3)


def test_csv_gets_the_records_also_when_a_run_resumes(tmp_path, stopped):
    recipe = replace(PLAIN, epochs=2, log="csv")
    stopped(recipe, tmp_path / "csv", 1)
    folder = trained(tmp_path, "csv", recipe)
    with (folder.path / "csv" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["train/loss"]) for row in rows] == [record["train/loss"] for record in folder.metrics()]


def test_weights_and_biases_gets_the_records(tmp_path, monkeypatch):
    """Its logger has the interface of Fabric's; here it only remembers."""
    logged = []

    class WandbLogger:
        def __init__(self, **settings):
            logged.append(settings["name"])

        def log_metrics(self, metrics, step):
            logged.append((step, metrics["train/loss"]))

        def save(self):
            pass

    monkeypatch.setattr(progress, "_wandb_logger", lambda: WandbLogger)
    folder = trained(tmp_path, "wandb", replace(PLAIN, epochs=2, log="wandb"))
    records = [(record["epoch"], record["train/loss"]) for record in folder.metrics()]
    assert logged == [f"{PLAIN.name} seed {PLAIN.seed}", *records]
    monkeypatch.undo()
    with pytest.raises(OptionError, match="pip install wandb"):
        trained(tmp_path, "absent", replace(PLAIN, epochs=2, log="wandb"))


def test_tensorboard_gets_the_records(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = trained(tmp_path, "board", replace(PLAIN, epochs=2, log="tensorboard"))
    events = EventAccumulator(str(folder.path / "tensorboard"))
    events.Reload()
    losses = [event.value for event in events.Scalars("train/loss")]
    assert losses == pytest.approx([record["train/loss"] for record in folder.metrics()], rel=1e-6)
    assert [event.step for event in events.Images("similarity")] == [0, 1]  # the first epoch and the last
