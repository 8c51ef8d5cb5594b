"""Parquet files and folders that the library `datasets` reads."""

import numpy as np
import pytest
import torch
from PIL import Image

from opl.errors import DataError
from opl.experiments.data import Mnist

pytestmark = pytest.mark.usefixtures("apart")


def test_images_in_folders_are_read_through_datasets(tmp_path, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    for name in ("train", "test"):
        for digit in range(10):
            folder = tmp_path / "images" / name / str(digit)
            folder.mkdir(parents=True)
            Image.fromarray(np.full((28, 28), 20 * digit, dtype=np.uint8)).save(folder / "a.png")
    splits = Mnist(root=str(tmp_path / "images"), val=0).load(0)
    pixels, labels = splits.train.take(torch.arange(10))
    assert torch.equal(pixels[:, 0, 0, 0].long(), labels * 20)
    assert labels.sort().values.tolist() == list(range(10))


def test_a_folder_without_data_is_refused(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/diary.docx").write_text("not a data set")
    with pytest.raises(DataError, match="cannot be read"):
        Mnist(root=str(tmp_path / "notes")).load(0)
