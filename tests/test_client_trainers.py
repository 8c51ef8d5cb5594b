"""The line in trainers of other libraries: the weights after some steps are those of a loop with the textbook."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import opl
from _hugging_face import trainer_of
from _lightning import module_of
from _textbook import textbook

STEPS, LR = 3, 0.1
LABELS = torch.arange(24) % 4
INPUTS = torch.randn(24, 6, generator=torch.Generator().manual_seed(0)) + LABELS[:, None]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))


def by_hand(smoothing: float) -> nn.Module:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), LR)
    for _ in range(STEPS):
        features = model[:2](INPUTS)
        loss = F.cross_entropy(model[2](features), LABELS, label_smoothing=smoothing) + textbook(features, LABELS)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def assert_same_weights(model: nn.Module, smoothing: float = 0.0) -> None:
    for ours, expected, start in zip(
        model.parameters(), by_hand(smoothing).parameters(), network().parameters(), strict=True
    ):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)
        assert not torch.equal(ours, start)


def by_hugging_face(folder, smoothing: float = 0.0, **settings) -> nn.Module:
    steps = {"per_device_train_batch_size": 24, "num_train_epochs": STEPS, "learning_rate": LR}
    plain = {"optim": "sgd", "lr_scheduler_type": "constant", "max_grad_norm": 0.0}
    criterion = nn.CrossEntropyLoss(label_smoothing=smoothing)
    trainer = trainer_of(
        folder,
        network(),
        (INPUTS, LABELS),
        lambda model: opl.regularize(criterion, model),
        **steps,
        **plain,
        **settings,
    )
    trainer.train()
    return trainer.model.net


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_hugging_face_with_the_label_smoothing_of_the_criterion(tmp_path, smoothing):
    assert_same_weights(by_hugging_face(tmp_path, smoothing), smoothing)


def test_label_smoothing_of_the_trainer_is_refused_since_it_would_have_no_effect(tmp_path):
    with pytest.raises(opl.errors.OptionError, match=r"label_smoothing_factor is 0\.2 and has no effect") as caught:
        by_hugging_face(tmp_path, label_smoothing_factor=0.2)
    assert "\n" not in str(caught.value)


def test_a_loop_of_ones_own_may_scale_the_loss_like_the_trainer():
    model = network()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    loss = criterion(model(INPUTS), LABELS, num_items_in_batch=48)
    expected = F.cross_entropy(model(INPUTS), LABELS) + textbook(model[:2](INPUTS), LABELS)
    torch.testing.assert_close(loss, expected / 2, rtol=1e-5, atol=1e-6, check_dtype=False)


@pytest.mark.filterwarnings("ignore")
def test_lightning():
    lightning = pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")

    module = module_of(network(), LR)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=STEPS, accelerator="cpu", enable_model_summary=False, **quiet)
    trainer.fit(module, DataLoader(TensorDataset(INPUTS, LABELS), 24))
    assert_same_weights(module.model)
