"""Label noise: transition matrices, labels drawn from them, and unchanged test labels."""

import doctest
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from opl.errors import DataError, OptionError
from opl.experiments.data import ClassDependent, NoiseMatrix, PairFlip, Synthetic, UniformNoise
from opl.experiments.data import noisy_labels as module
from opl.experiments.data.noisy_labels import corrupt_labels, draw_labels, pruning_purity
from opl.experiments.data.read.catalog import CATALOG

TEN = CATALOG["cifar10"].names
CLOTHES = CATALOG["fashion-mnist"].names
DIGITS = tuple("0123456789")


def flips(matrix, names):
    """Which class is taken for which, by name."""
    return {names[i]: names[j] for i in range(len(names)) for j in range(len(names)) if i != j and matrix[i, j] > 0}


# Matrices


def test_uniform_noise_maps_to_all_other_classes_equally():
    matrix = UniformNoise(0.4).matrix(TEN)
    by_hand = [[0.6 if i == j else 0.4 / 9 for j in range(10)] for i in range(10)]
    np.testing.assert_allclose(matrix, by_hand, rtol=1e-15)


def test_pair_flip_maps_each_class_to_the_next_and_wraps_around():
    assert PairFlip(0.4).matrix(("a", "b", "c")).tolist() == [[0.6, 0.4, 0], [0, 0.6, 0.4], [0.4, 0, 0.6]]
    assert flips(PairFlip(0.4).matrix(TEN), TEN)["truck"] == "airplane"


def test_class_dependent_noise_has_the_maps_of_the_literature():
    ten = {"truck": "automobile", "bird": "airplane", "deer": "horse", "cat": "dog", "dog": "cat"}
    clothes = {"Ankle boot": "Sneaker", "Sneaker": "Sandal", "Pullover": "Shirt", "Coat": "Dress", "Dress": "Coat"}
    digits = {"2": "7", "3": "8", "5": "6", "6": "5", "7": "1"}
    for names, expected in ((TEN, ten), (CLOTHES, clothes), (DIGITS, digits)):
        matrix = ClassDependent(0.4).matrix(names)
        assert flips(matrix, names) == expected
        assert matrix.diagonal().tolist() == pytest.approx([0.6 if name in expected else 1.0 for name in names])
        assert (1 - matrix.diagonal()).mean().item() == pytest.approx(0.2)  # half of the classes: half of the rate


def test_with_superclasses_a_class_becomes_the_next_of_the_same_superclass():
    names, groups = ("a", "b", "c", "d", "e"), (7, 3, 7, 3, 7)
    assert flips(ClassDependent(0.3).matrix(names, groups), names) == {"a": "c", "c": "e", "e": "a", "b": "d", "d": "b"}


@pytest.mark.parametrize("ending", ["npy", "json", "csv", "txt"])
def test_a_matrix_comes_from_a_file(tmp_path, ending):
    rows = [[0.5, 0.25, 0.25], [0, 1, 0], [0.1, 0.2, 0.7]]
    file = tmp_path / f"matrix.{ending}"
    if ending == "npy":
        np.save(file, rows)
    elif ending == "json":
        file.write_text(json.dumps(rows))
    else:
        joint = "," if ending == "csv" else "  "
        file.write_text("\n".join(joint.join(map(str, row)) for row in rows) + "\n\n")
    np.testing.assert_allclose(NoiseMatrix(str(file)).matrix(("a", "b", "c")), rows, rtol=1e-12)


# Labels


KINDS = {
    "uniform": (UniformNoise(0.4), TEN),
    "pair": (PairFlip(0.45), TEN),
    "class": (ClassDependent(0.4), DIGITS),
    "super-class": (ClassDependent(0.4), tuple(map(str, range(20)))),
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_label_frequencies_follow_the_matrix(kind, seed):
    noise, names = KINDS[kind]
    count = len(names)
    groups = tuple(range(4)) * 5 if kind == "super-class" else ()
    matrix = noise.matrix(names, groups)
    labels = torch.arange(20_000) % count
    noisy = draw_labels(labels, matrix, seed)
    for label in range(count):
        result = noisy[labels == label].bincount(minlength=count).double()
        expected = matrix[label] * result.sum()
        assert result[expected == 0].sum() == 0
        there = expected > 0
        if there.sum() > 1:
            assert stats.chisquare(result[there].numpy(), expected[there].numpy()).pvalue > 1e-5
    assert not torch.equal(noisy, draw_labels(labels, matrix, seed + 5))


def test_a_label_depends_only_on_its_row_and_the_seed():
    matrix = UniformNoise(0.5).matrix(TEN)
    labels = torch.arange(1000) % 10
    noisy = draw_labels(labels, matrix, 3)
    assert torch.equal(draw_labels(labels[:100], matrix, 3), noisy[:100])
    other = labels.clone()
    other[::2] = 0
    assert torch.equal(draw_labels(other, matrix, 3)[1::2], noisy[1::2])
    assert torch.equal(draw_labels(labels, torch.eye(10), 3), labels)


def test_noise_without_a_seed_of_its_own_uses_that_of_the_run():
    splits = Synthetic(like="mnist").load(0)
    noises = ((UniformNoise(0.4), 0), (UniformNoise(0.4), 1), (UniformNoise(0.4, seed=0), 1))
    first, second, fixed = (corrupt_labels(splits, noise, seed).splits.train.labels for noise, seed in noises)
    assert not torch.equal(first, second)
    assert torch.equal(first, fixed)


def test_classes_that_were_left_out_keep_their_labels():
    labels = torch.tensor([0, 1, 2, 3] * 50)
    part = Synthetic(like="mnist").load(0).train
    part = replace(part, labels=torch.cat([labels, part.labels[200:]]), rows=torch.arange(200)[labels < 2])
    splits = Synthetic(like="mnist", classes=2).load(0)._replace(train=part)
    noisy = corrupt_labels(splits, PairFlip(0.5), 0).splits.train
    assert torch.equal(noisy.labels[:200][labels >= 2], labels[labels >= 2])
    assert set(noisy.labels[part.rows].tolist()) == {0, 1}


def test_purity_by_hand():
    kept = torch.tensor([True, True, True, False, False])
    wrong = torch.tensor([False, False, True, True, False])
    result = pruning_purity(kept, wrong)
    assert result == pytest.approx({"kept": 0.6, "kept/clean": 2 / 3, "wrong/pruned": 0.5})
    assert pruning_purity(kept, torch.zeros(5)) == {"kept": pytest.approx(0.6), "kept/clean": 1.0}
    assert pruning_purity(~torch.ones(5).bool(), wrong) == {"kept": 0.0, "wrong/pruned": 1.0}


# What cannot be used


def test_noise_rates_outside_their_range_are_refused():
    for rate in (-0.1, 1.0, 2.0, float("nan")):
        for kind in (UniformNoise, PairFlip, ClassDependent):
            with pytest.raises(OptionError, match=f"rate is {rate}"):
                kind(rate)


BAD = {
    "rows that do not sum to 1": ("[[0.5, 0.4], [0, 1]]", OptionError, ["row 0", "sums to 0.9", "sum to 1"]),
    "a number below 0": ("[[1.5, -0.5], [0, 1]]", OptionError, ["-0.5"]),
    "too many classes": (json.dumps(torch.eye(3).tolist()), OptionError, ["3 x 3", "2 classes"]),
    "a row too many": ("[[1, 0], [0, 1], [1, 0]]", OptionError, ["3 x 2", "2 rows"]),
    "a single row": ("[1, 0]", OptionError, ["2 x 1"]),
    "rows of different lengths": ("[[1], [0, 1]]", DataError, ["cannot be read"]),
    "words": ('"no matrix"', DataError, ["cannot be read"]),
    "no number": ("[[NaN, 1], [0, 1]]", OptionError, ["row 0", "nan"]),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_noise_matrices_are_refused_with_the_reason(case, tmp_path):
    text, kind, phrases = BAD[case]
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(kind) as caught:
        NoiseMatrix(str(tmp_path / "m.json")).matrix(("a", "b"))
    assert all(word in str(caught.value) for word in phrases), caught.value
    assert "\n" not in str(caught.value)


def test_a_file_without_content_is_no_matrix(tmp_path):
    (tmp_path / "m.npy").touch()
    with pytest.raises(DataError, match="cannot be read"):
        NoiseMatrix(str(tmp_path / "m.npy")).matrix(("a", "b"))


def test_classes_without_a_map_of_similar_classes_are_refused():
    with pytest.raises(OptionError, match="no map of similar classes"):
        ClassDependent(0.4).matrix(("left", "right"))
    with pytest.raises(OptionError, match="no map of similar classes"):
        ClassDependent(0.4).matrix(DIGITS[:5])
    with pytest.raises(OptionError, match="'c' is the only selected class of its superclass"):
        ClassDependent(0.4).matrix(("a", "b", "c"), (0, 0, 1))


def test_the_docstrings_examples_are_true():
    assert doctest.testmod(module, extraglobs={"torch": torch}) == (0, 2)
