"""The features of every epoch are those of the run on disk."""

import numpy as np

from opl.experiments import paper
from opl.experiments.evaluation.epochs import features_by_epoch
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.run import run


def test_the_last_epoch_has_the_features_that_the_run_stored_and_watching_changes_no_weight(tmp_path, capsys):
    recipe = paper.recipe("digits-opl", "tiny")
    run(recipe, tmp_path)
    stored = RunFolder.of(tmp_path, recipe.name, recipe.seed).outputs()
    capsys.readouterr()
    features, labels, names = features_by_epoch(recipe)
    assert len(features) == recipe.epochs
    np.testing.assert_allclose(
        features[-1], stored["features"].astype(np.float32), rtol=2e-3, atol=1e-4
    )  # kept as fp16
    np.testing.assert_array_equal(labels, stored["labels"])
    assert len(names) == recipe.data.num_classes
    assert not np.allclose(features[0], features[-1])
    assert "epoch 1/" not in capsys.readouterr().err
