"""The animation: its frames, how long they stay, and axes that do not move."""

import numpy as np
import pytest
from _chart_values import space

from opl.errors import FolderError, OptionError
from opl.experiments.charts.animation import HOLD, STEP, animate, principal_axes
from opl.experiments.charts.cosines import unit_features

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")


def test_there_is_one_frame_per_epoch_and_the_last_stays_longer(tmp_path):
    epochs = [space("CE", signed=True), space("CE")]
    file = animate([epochs, [space("CE+OPL", signed=True), space("CE+OPL")]], tmp_path / "some.gif")
    with Image.open(file, formats=["GIF"]) as picture:
        durations, frames = [], []
        for index in range(picture.n_frames):
            picture.seek(index)
            durations.append(picture.info["duration"])
            frames.append(np.asarray(picture.convert("RGB")))
    assert durations == [STEP, HOLD]
    assert not np.array_equal(*frames)
    assert (frames[0][0, 0] == 255).all(), "the background stays white"


def test_the_axes_are_those_of_a_pca_by_scikit_learn():
    pca = pytest.importorskip("sklearn.decomposition", reason="scikit-learn is not installed").PCA(2)
    given = space(signed=True)
    pca.fit(unit_features(given)[0])
    np.testing.assert_allclose(np.abs(principal_axes(given)), np.abs(pca.components_.T), atol=1e-8)


@pytest.mark.parametrize("models", [[], [[]], [[space()], [space(), space()]]])
def test_models_with_different_numbers_of_epochs_are_refused(tmp_path, models):
    with pytest.raises(OptionError, match="different numbers of epochs"):
        animate(models, tmp_path / "some.gif")


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(FolderError, match="cannot write"):
        animate([[space()]], tmp_path / "absent" / "some.gif")
