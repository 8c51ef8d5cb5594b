"""Callbacks of Lightning and Hugging Face: what they log is what the criterion computed."""

import pytest
import torch
from _trainers import fit_by_lightning, hugging_face_trainer
from torch import nn

import opl
from _textbook import textbook

INPUTS = torch.randn(32, 6, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(32) % 4


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))


def expected(model: nn.Module, rows: slice) -> dict[str, float]:
    features = model[:2](INPUTS[rows]).detach()
    base = nn.functional.cross_entropy(model[2](features), LABELS[rows])
    one, two = (textbook(features, LABELS[rows], gamma) for gamma in (0.0, 1.0))
    parts = {"base": base, "projection": textbook(features, LABELS[rows]), "s": 1 - one, "d": two - one}
    return {f"opl/{name}": float(value) for name, value in parts.items()}


@pytest.mark.filterwarnings("ignore")
def test_lightning_logs_the_parts_of_every_batch(tmp_path):
    lightning = pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")
    from opl.plugin.callbacks import LightningCallback

    logged = []

    class Keep(lightning.Callback):
        def on_train_batch_end(self, trainer, *_):
            logged.append({name: float(value) for name, value in trainer.callback_metrics.items()})

    model = fit_by_lightning(
        network(),
        lambda model: opl.regularize(nn.CrossEntropyLoss(), model),
        (INPUTS, LABELS),
        16,
        0.0,
        max_epochs=1,
        callbacks=[LightningCallback(), Keep()],
    )
    assert len(logged) == 2
    for index, numbers in enumerate(logged):
        wanted = expected(model, slice(16 * index, 16 * index + 16))
        assert {name: numbers[name] for name in wanted} == pytest.approx(wanted, rel=1e-5)
        assert {"opl/gamma", "opl/gamma_needed", "opl/without_positive", "opl/class_cosine"} < numbers.keys()


def trainer_of(folder, criterion_of, **settings):
    steps = {"per_device_train_batch_size": 16, "num_train_epochs": 1, "learning_rate": 0.0, "logging_steps": 2}
    steps["dataloader_drop_last"] = True
    return hugging_face_trainer(folder, network(), (INPUTS, LABELS), criterion_of, **steps, **settings)


def test_hugging_face_logs_means_of_the_parts_where_reports_see_them(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from opl.plugin.callbacks import HuggingFaceCallback

    trainer = trainer_of(tmp_path, lambda model: opl.regularize(nn.CrossEntropyLoss(), model))
    seen = []

    class Report(transformers.TrainerCallback):
        def on_log(self, *_, logs=None, **__):
            seen.append(dict(logs))

    trainer.add_callback(Report())
    callback = HuggingFaceCallback.attach(trainer)
    batches = []
    trainer.callback_handler.callbacks.append(_keep(transformers, callback.criterion, batches))
    trainer.train()
    means = {name: sum(batch[name] for batch in batches) / 2 for name in batches[0]}
    assert len(batches) == 2
    assert {name: value for name, value in seen[0].items() if name.startswith("opl/")} == pytest.approx(means)
    assert trainer.state.log_history[0]["opl/s"] == pytest.approx(means["opl/s"])
    total = seen[0]["opl/base"] + seen[0]["opl/projection"]
    assert float(seen[0]["loss"]) == pytest.approx(total, abs=1e-3)


def _keep(transformers, criterion, batches):
    class Keep(transformers.TrainerCallback):
        def on_step_end(self, *_, **__):
            short = {"same": "s", "other": "d"}
            values = {f"opl/{short.get(name, name)}": float(value) for name, value in criterion.last._asdict().items()}
            batches.append(values)

    return Keep()


@pytest.mark.parametrize(
    ("criterion_of", "settings", "message"),
    [
        (lambda model: None, {}, "compute_loss_func"),
        (lambda model: opl.regularize(nn.CrossEntropyLoss(), model), {"label_smoothing_factor": 0.1}, "no effect"),
    ],
)
def test_a_trainer_that_ignores_opl_or_label_smoothing_is_refused(tmp_path, criterion_of, settings, message):
    pytest.importorskip("transformers", reason="transformers is not installed")
    from opl.plugin.callbacks import HuggingFaceCallback

    with pytest.raises(opl.errors.OptionError, match=message):
        HuggingFaceCallback.attach(trainer_of(tmp_path, criterion_of, **settings))


@pytest.mark.parametrize("restore", [False, True])
def test_hugging_face_resumes_the_state_of_the_criterion(tmp_path, restore):
    pytest.importorskip("transformers", reason="transformers is not installed")
    from opl.plugin.callbacks import HuggingFaceCallback

    settings = {"save_strategy": "steps", "save_steps": 1, "restore_callback_states_from_checkpoint": restore}

    def ramped(model):
        return opl.regularize(nn.CrossEntropyLoss(), model, gamma=opl.Ramp(0.0, 1.0, steps=4), weight=opl.Ramp(steps=8))

    whole = trainer_of(tmp_path, ramped, **settings)
    HuggingFaceCallback.attach(whole)
    whole.train()
    resumed = trainer_of(tmp_path, ramped, **settings)
    HuggingFaceCallback.attach(resumed)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    first, second = (trainer.compute_loss_func.state_dict() for trainer in (whole, resumed))
    assert {name: int(value) for name, value in first.items()} == {name: int(value) for name, value in second.items()}
    assert max(map(int, first.values())) == 2


def test_values_that_are_undefined_in_a_batch_are_not_logged():
    from opl.plugin import LossParts
    from opl.plugin.callbacks import name_parts

    parts = LossParts(torch.tensor(1.0), same=torch.tensor(torch.nan), other=torch.tensor(0.5))
    assert name_parts(parts).keys() == {"opl/base", "opl/d"}
