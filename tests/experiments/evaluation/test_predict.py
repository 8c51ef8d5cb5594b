"""What a run keeps of its test images, and measuring it again."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from _tiny_runs import TINY, write_tiny_runs
from opl.errors import DamagedError, OptionError
from opl.experiments import cli
from opl.experiments.data import Synthetic
from opl.experiments.data.cifar import Cifar100
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import build_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_runs(tmp_path_factory.mktemp("runs"))


def features_of(found, recipe):
    """Features and labels of the test images, without our batches."""
    model = build_model(recipe)
    model.load_state_dict(found.weights())
    test = recipe.data.load(recipe.seed).test
    pixels, labels = test.take(torch.arange(len(test)))
    mean, std = (torch.tensor(values)[:, None, None] for values in (recipe.data.mean, recipe.data.std))
    with torch.no_grad():
        features = model.eval()((pixels.float() / 255 - mean) / std).features
    return features.numpy(), labels.numpy()


def test_a_run_keeps_what_its_model_says_of_the_test_images(folder):
    found = RunFolder.of(folder, "cifar100-resnet56-opl", 1)
    arrays = found.outputs()
    recipe = replace(TINY["opl"], seed=1)
    model = build_model(recipe)
    model.load_state_dict(found.weights())
    test = recipe.data.load(1).test
    pixels, labels = test.take(torch.arange(len(test)))
    mean, std = (torch.tensor(values)[:, None, None] for values in (recipe.data.mean, recipe.data.std))
    with torch.no_grad():
        features, logits = model.eval()((pixels.float() / 255 - mean) / std)
    assert (arrays["labels"] == labels.numpy()).all()
    p = torch.softmax(logits, 1).numpy()
    assert (arrays["top5"][:, 0] == p.argmax(1)).mean() > 0.99  # a tie may fall either way
    np.testing.assert_allclose(arrays["p5"][:, 0], p.max(1), atol=2e-3)
    assert (np.diff(arrays["p5"].astype(float), axis=1) <= 0).all()
    np.testing.assert_allclose(arrays["features"], features.numpy(), atol=2e-3, rtol=2e-3)
    shown = arrays["pixels"]
    assert (shown == pixels[: len(shown)].permute(0, 2, 3, 1).numpy()).all()
    means = np.stack([features.numpy()[labels == each].mean(0) for each in labels.unique()])
    units = means / np.linalg.norm(means, axis=1, keepdims=True)
    there = labels.unique().numpy()
    np.testing.assert_allclose(arrays["similarity"][np.ix_(there, there)], units @ units.T, atol=1e-4)


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_geometry_is_that_of_all_images_in_any_order(folder, monkeypatch, capfd, order):
    """`opl evaluate RUN geometry` against the full matrix of cosines in double precision."""
    real = Synthetic.load

    def load(data, seed):
        splits = real(data, seed)
        rows = splits.test.rows
        labels = splits.test.labels[rows]
        places = labels.argsort(stable=True) if order == "sorted" else torch.randperm(len(rows))
        return splits._replace(test=replace(splits.test, rows=rows[places]))

    monkeypatch.setattr(Synthetic, "load", load)
    found = RunFolder.of(folder, "cifar100-resnet56-opl", 0)
    assert cli.main(["evaluate", str(found.path), "geometry"]) == 0
    numbers = json.loads(capfd.readouterr().out)
    features, labels = features_of(found, TINY["opl"])
    units = features.astype(np.float64) / np.linalg.norm(features.astype(np.float64), axis=1, keepdims=True)
    cosines, alike = units @ units.T, labels[:, None] == labels
    assert numbers["images"] == len(labels)
    assert numbers["s"] == pytest.approx(cosines[alike & ~np.eye(len(labels), dtype=bool)].mean(), abs=1e-6)
    assert numbers["d"] == pytest.approx(abs(cosines[~alike].mean()), abs=1e-6)


def test_measuring_again_writes_the_same(folder, capfd):
    found = RunFolder.of(folder, "cifar100-resnet56-ce", 0)
    before = found.outputs()
    (found.path / "test.npz").write_bytes(b"broken")
    with pytest.raises(DamagedError, match=r"test.npz is not what the run wrote"):
        found.outputs()
    assert cli.main(["evaluate", str(found.path), "geometry"]) == 0
    numbers = json.loads(capfd.readouterr().out)
    assert numbers["images"] == len(before["labels"])
    after = found.outputs()
    for name, value in before.items():
        np.testing.assert_allclose(after[name].astype(float), value.astype(float), atol=2e-3)


def test_what_cannot_be_measured_is_one_sentence(folder, tmp_path, capfd):
    assert cli.main(["evaluate", str(tmp_path / "nowhere"), "geometry"]) == 2
    assert "no finished run" in capfd.readouterr().err
    assert cli.main(["evaluate", str(folder / "cifar100-resnet56-ce" / "seed-0"), "novel"]) == 2
    assert "novel classes" in capfd.readouterr().err
    assert cli.main(["evaluate", str(folder), "horoscope"]) == 2
    assert "protocol 'horoscope' does not exist" in capfd.readouterr().err
    assert cli.main(["evaluate", str(folder), "geometry", "--nonsense"]) == 2
    assert "--nonsense" in capfd.readouterr().err
    with pytest.raises(OptionError, match="none is new"):
        Cifar100().novel_classes()
    with pytest.raises(OptionError, match="not 'val'"):
        Cifar100(classes=20).novel_classes("val")
