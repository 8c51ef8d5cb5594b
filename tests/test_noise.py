"""Wrong labels on purpose: every matrix as it is written down, labels drawn from it, and no other labels touched."""

import doctest
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from opl.errors import DataError, FolderError, OptionError
from opl.experiments import cli, tables
from opl.experiments.data import ClassDependent, Digits, NoiseMatrix, PairFlip, Synthetic, UniformNoise
from opl.experiments.data import noisy_labels as module
from opl.experiments.data.noisy_labels import corrupt_labels, draw_labels, pruning_purity
from opl.experiments.data.readers.catalog import CATALOG
from opl.experiments.recipe import to_json
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import parse_recipe
from opl.experiments.training.run import run

TEN = CATALOG["cifar10"].names
CLOTHES = CATALOG["fashion-mnist"].names
DIGITS = tuple("0123456789")


def flips(matrix, names):
    """Which class is taken for which, by name."""
    return {names[i]: names[j] for i in range(len(names)) for j in range(len(names)) if i != j and matrix[i, j] > 0}


# Matrices


def test_uniform_noise_goes_to_every_other_class_alike():
    matrix = UniformNoise(0.4).matrix(TEN)
    by_hand = [[0.6 if i == j else 0.4 / 9 for j in range(10)] for i in range(10)]
    np.testing.assert_allclose(matrix, by_hand, rtol=1e-15)


def test_pair_flip_goes_to_the_next_class_and_from_the_last_to_the_first():
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


def test_with_super_classes_a_class_is_taken_for_the_next_of_its_own():
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
def test_what_comes_out_is_what_the_matrix_says(kind, seed):
    noise, names = KINDS[kind]
    count = len(names)
    groups = tuple(range(4)) * 5 if kind == "super-class" else ()
    matrix = noise.matrix(names, groups)
    labels = torch.arange(20_000) % count
    noisy = draw_labels(labels, matrix, seed)
    for label in range(count):
        found = noisy[labels == label].bincount(minlength=count).double()
        expected = matrix[label] * found.sum()
        assert found[expected == 0].sum() == 0
        there = expected > 0
        if there.sum() > 1:
            assert stats.chisquare(found[there].numpy(), expected[there].numpy()).pvalue > 1e-5
    assert not torch.equal(noisy, draw_labels(labels, matrix, seed + 5))


def test_a_label_depends_on_its_own_row_and_the_seed_alone():
    matrix = UniformNoise(0.5).matrix(TEN)
    labels = torch.arange(1000) % 10
    noisy = draw_labels(labels, matrix, 3)
    assert torch.equal(draw_labels(labels[:100], matrix, 3), noisy[:100])
    other = labels.clone()
    other[::2] = 0
    assert torch.equal(draw_labels(other, matrix, 3)[1::2], noisy[1::2])
    assert torch.equal(draw_labels(labels, torch.eye(10), 3), labels)


@pytest.mark.parametrize("data", [Synthetic(like="cifar10"), Synthetic(like="fashion-mnist"), Digits(val=100)])
def test_training_and_validation_are_spoilt_and_the_test_labels_and_the_source_are_not(data):
    splits = data.load(0)
    before = splits.test.labels.clone()
    noisy = corrupt_labels(splits, UniformNoise(0.4), 0)
    assert noisy.splits.test is splits.test
    assert torch.equal(splits.test.labels, before)
    assert torch.equal(splits.train.labels, before)
    for name, clean, dirty in (
        ("train", splits.train, noisy.splits.train),
        ("val", splits.val, noisy.splits.val),
    ):
        assert dirty.pixels is clean.pixels
        assert torch.equal(dirty.rows, clean.rows)
        wrong = dirty.labels[clean.rows] != clean.labels[clean.rows]
        assert torch.equal(wrong, noisy.wrong[name])
        assert wrong.float().mean().item() == pytest.approx(0.4, abs=0.15)
        assert noisy.counts[name].sum() == len(clean)
        assert noisy.counts[name].diagonal().sum() == (~wrong).sum()
        assert noisy.rates()[name] == pytest.approx(wrong.float().mean().item())


def test_the_same_image_has_the_same_label_however_many_are_taken():
    few, many = (
        corrupt_labels(Synthetic(like="mnist", rows=200, val=val).load(0), PairFlip(0.4), 1).splits for val in (0, 56)
    )
    assert torch.equal(few.train.labels[:200], many.train.labels[:200])


def test_the_seed_of_the_noise_can_be_held_while_that_of_the_run_changes():
    splits = Synthetic(like="mnist").load(0)
    labels = [
        corrupt_labels(splits, UniformNoise(0.4, seed=own), seed).splits.train.labels
        for own in (-1, 0)
        for seed in (0, 1)
    ]
    assert not torch.equal(labels[0], labels[1])
    assert torch.equal(labels[2], labels[3])
    assert torch.equal(labels[0], labels[2])


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
    found = pruning_purity(kept, wrong)
    assert found == pytest.approx({"kept": 0.6, "kept/clean": 2 / 3, "wrong/pruned": 0.5})
    assert pruning_purity(kept, torch.zeros(5)) == {"kept": pytest.approx(0.6), "kept/clean": 1.0}
    assert pruning_purity(~torch.ones(5).bool(), wrong) == {"kept": 0.0, "wrong/pruned": 1.0}


# Runs


def tiny(name, **changes):
    return replace(tables.recipe(f"cifar100-noisy-{name}", "tiny"), epochs=1, **changes)


def test_every_variant_of_a_seed_sees_the_same_labels_and_the_folder_tells_them(tmp_path):
    for seed in (0, 1):
        arrays, facts = [], []
        for name in ("uniform-ce", "uniform-tl-opl-left-out"):
            result = run(tiny(name, seed=seed), tmp_path)
            folder = RunFolder.of(tmp_path, f"cifar100-noisy-{name}", seed)
            arrays.append(folder.outputs("noise"))
            facts.append(folder.noise())
            assert result["noise/train"] == facts[-1]["rates"]["train"]
            assert result["noise/val"] == facts[-1]["rates"]["val"]
        assert facts[0] == facts[1]
        assert all(np.array_equal(arrays[0][key], arrays[1][key]) for key in arrays[0])
        splits = tiny("uniform-ce").data.load(seed)
        clean = splits.train.labels[splits.train.rows].numpy()
        assert ((arrays[0]["train/labels"] != clean) == arrays[0]["train/wrong"]).all()
        assert facts[0]["rates"]["train"] == (arrays[0]["train/labels"] != clean).mean()
        np.testing.assert_allclose(facts[0]["matrix"], UniformNoise(0.4).matrix(splits.class_names))
    first, second = (RunFolder.of(tmp_path, "cifar100-noisy-uniform-ce", seed).outputs("noise") for seed in (0, 1))
    assert not np.array_equal(first["train/labels"], second["train/labels"])


def test_the_network_is_trained_on_the_wrong_labels_and_tested_on_the_right_ones(tmp_path):
    wrong = tmp_path / "all-wrong.json"  # every label is the next class
    wrong.write_text(json.dumps(torch.eye(10).roll(1, dims=1).tolist()))
    recipe = tables.recipe("digits-ce", "small")
    data = replace(recipe.data, val=100)
    result = run(replace(recipe, data=data, epochs=12, noise=NoiseMatrix(str(wrong))), tmp_path)
    assert result["noise/train"] == 1.0
    assert result["val/top1"] > 70
    assert result["test/top1"] < 10
    found = RunFolder.of(tmp_path, recipe.name, 0).outputs()
    assert ((found["labels"] + 1) % 10 == found["top5"][:, 0]).mean() > 0.7


def test_a_run_does_not_go_on_with_another_matrix(tmp_path):
    file = tmp_path / "matrix.json"
    recipe = tiny("uniform-ce", noise=NoiseMatrix(str(file)))
    file.write_text(json.dumps(torch.eye(10).tolist()))
    folder = RunFolder.of(tmp_path, recipe.name, 0)
    run(recipe, tmp_path)
    (folder.path / "done").unlink()
    file.write_text(json.dumps(torch.eye(10).roll(1, dims=1).tolist()))
    with pytest.raises(FolderError, match="another noise matrix"):
        run(recipe, tmp_path)


def test_noise_survives_json_and_old_recipes_have_none():
    for noise in (UniformNoise(0.3), PairFlip(0.2, seed=7), ClassDependent(), NoiseMatrix("m.npy"), None):
        recipe = tiny("uniform-ce", noise=noise)
        told = json.loads(json.dumps(to_json(recipe)))
        assert parse_recipe(told) == recipe
    del told["noise"]
    assert parse_recipe(told).noise is None


# What cannot be used


def test_a_rate_that_is_no_share_is_refused():
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
def test_a_file_that_is_no_transition_matrix_gets_its_sentence(case, tmp_path):
    text, kind, words = BAD[case]
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(kind) as caught:
        NoiseMatrix(str(tmp_path / "m.json")).matrix(("a", "b"))
    assert all(word in str(caught.value) for word in words), caught.value
    assert "\n" not in str(caught.value)


def test_classes_of_which_nobody_said_which_look_alike_are_refused():
    with pytest.raises(OptionError, match="look alike"):
        ClassDependent(0.4).matrix(("left", "right"))
    with pytest.raises(OptionError, match="look alike"):
        ClassDependent(0.4).matrix(DIGITS[:5])
    with pytest.raises(OptionError, match="'c' is the only class of its super-class"):
        ClassDependent(0.4).matrix(("a", "b", "c"), (0, 0, 1))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--noise.rate", "1.0"], "rate is 1.0"),
        (["--noise.rate", "-0.2"], "rate is -0.2"),
        (["--data.classes", "6"], "only class of its super-class"),
        (["--data.val", "0"], "--data.val"),
        (["--method.start", "0"], "start is 0"),
    ],
)
def test_wrong_words_are_one_sentence_and_code_2(words, said, tmp_path, capfd):
    try:
        code = cli.main(["train", "cifar100-noisy-class-tl", "--scale", "tiny", "--out", str(tmp_path), *words])
    except SystemExit as ended:  # a flag that is refused as soon as it is read
        code = ended.code
    assert code == 2
    told = capfd.readouterr().err
    assert said in told
    assert "Traceback" not in told


def test_a_missing_file_is_one_sentence_and_code_2(tmp_path, capfd, monkeypatch):
    name = "cifar100-noisy-uniform-ce"
    changed = {"tiny": tiny("uniform-ce", noise=NoiseMatrix("/nowhere/m.npy"))}
    monkeypatch.setitem(tables.recipes(), name, changed)
    assert cli.main(["train", name, "--scale", "tiny", "--out", str(tmp_path)]) == 2
    assert "'/nowhere/m.npy' cannot be read" in capfd.readouterr().err


def test_the_docstrings_examples_are_true():
    assert doctest.testmod(module, extraglobs={"torch": torch}) == (0, 2)
