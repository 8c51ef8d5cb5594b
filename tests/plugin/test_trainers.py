"""OPL in trainers of other libraries: the weights after some steps are those of a loop with the textbook."""

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


IMAGES = torch.randn(96, 3, 16, 16, generator=torch.Generator().manual_seed(0))
IMAGE_LABELS = torch.randint(0, 4, (96,), generator=torch.Generator().manual_seed(1))


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def trained_by_lightning(make_criterion) -> torch.Tensor:
    lightning = pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = nn.Sequential(nn.Flatten(), nn.Linear(768, 32), nn.ReLU(), nn.Linear(32, 4))
            self.criterion = make_criterion(self.model)

        def training_step(self, batch, _):
            return self.criterion(self.model(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    lightning.seed_everything(0, verbose=False)
    module = Module()
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accumulate_grad_batches=2,
    )
    trainer.fit(module, DataLoader(TensorDataset(IMAGES, IMAGE_LABELS), 16))
    return weights(module.model)


def trained_by_hugging_face(make_criterion, folder) -> torch.Tensor:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    transformers.set_seed(0)
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=4
    )
    model = transformers.ResNetForImageClassification(config)
    arguments = transformers.TrainingArguments(
        str(folder),
        num_train_epochs=2,
        per_device_train_batch_size=16,
        gradient_accumulation_steps=2,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    rows = [{"pixel_values": x, "labels": y} for x, y in zip(IMAGES, IMAGE_LABELS, strict=True)]
    trainer = transformers.Trainer(model, arguments, train_dataset=rows, compute_loss_func=make_criterion(model))
    trainer.train()
    return weights(model)


@pytest.mark.filterwarnings("ignore")
def test_weight_zero_in_lightning_is_its_plain_training_bit_for_bit():
    plain = trained_by_lightning(lambda model: F.cross_entropy)
    assert torch.equal(trained_by_lightning(lambda model: opl.regularize(F.cross_entropy, model, weight=0)), plain)
    assert not torch.equal(trained_by_lightning(lambda model: opl.regularize(F.cross_entropy, model)), plain)


def test_weight_zero_in_hugging_face_with_accumulated_gradients_is_its_plain_training(tmp_path):
    def base(output, labels, num_items_in_batch):  # what the Trainer asks for: a sum over all accumulated items
        return F.cross_entropy(output.logits, labels, reduction="sum") / num_items_in_batch

    plain = trained_by_hugging_face(lambda model: base, tmp_path)
    zero = trained_by_hugging_face(lambda model: opl.regularize(F.cross_entropy, model, weight=0), tmp_path)
    assert torch.equal(zero, plain)
    assert not torch.equal(
        trained_by_hugging_face(lambda model: opl.regularize(F.cross_entropy, model), tmp_path), plain
    )
