"""Parquet files and folders that the library `datasets` reads."""

import numpy as np
import pytest
import torch
from PIL import Image

from opl.errors import DataError
from opl.experiments.data import Mnist

pytestmark = pytest.mark.usefixtures("apart")


def test_images_in_folders_of_parts_are_read(tmp_path):
    for name in ("train", "test"):
        for digit in range(10):
            folder = tmp_path / "images" / name / str(digit)
            folder.mkdir(parents=True)
            Image.fromarray(np.full((28, 28), 20 * digit, dtype=np.uint8)).save(folder / "a.png")
    splits = Mnist(root=str(tmp_path / "images"), val=0).load(0)
    pixels, labels = splits.train.take(torch.arange(10))
    assert torch.equal(pixels[:, 0, 0, 0].long(), labels * 20)
    assert labels.sort().values.tolist() == list(range(10))


def test_what_save_to_disk_wrote_is_read_and_its_files_cannot_be_elsewhere(tmp_path):
    import datasets

    images = [Image.fromarray(np.full((28, 28), 20 * digit, dtype=np.uint8)) for digit in range(10)]
    kinds = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=list("9876543210"))})
    part = datasets.Dataset.from_dict({"image": images, "label": list(range(10))}, features=kinds)
    datasets.DatasetDict({"train": part, "test": part}).save_to_disk(tmp_path / "saved")
    splits = Mnist(root=str(tmp_path / "saved"), val=0).load(0)
    pixels, labels = splits.train.take(torch.arange(10))
    assert torch.equal(pixels[:, 0, 0, 0].long(), labels * 20)
    assert splits.class_names == tuple("9876543210")
    state = tmp_path / "saved/train/state.json"
    state.write_text(state.read_text().replace('"data-', '"../test/data-'))
    assert len(Mnist(root=str(tmp_path / "saved"), val=0).load(0).test) == 10
    state.write_text(state.read_text().replace('"../test/data-', '"../../data-'))
    with pytest.raises(DataError, match="is not a regular file in the folder of the data set"):
        Mnist(root=str(tmp_path / "saved"), val=0).load(0)
    (tmp_path / "saved/dataset_dict.json").write_text('{"splits": ["train"]}')
    with pytest.raises(DataError, match="has no split 'test' of mnist"):
        Mnist(root=str(tmp_path / "saved"), val=0).load(0)


def test_a_folder_without_data_is_refused(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/diary.docx").write_text("not a data set")
    with pytest.raises(DataError, match="cannot be read"):
        Mnist(root=str(tmp_path / "notes")).load(0)
