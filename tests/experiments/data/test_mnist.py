"""Fashion-MNIST and the names of its classes."""

import numpy as np
import pytest

from _image_files import write
from opl.experiments.data import CATALOG, FashionMnist

pytestmark = pytest.mark.usefixtures("apart")


def test_the_hubs_spelling_of_a_t_shirt_is_corrected(tmp_path, shelf):
    names = ["T - shirt / top", *CATALOG["fashion-mnist"].names[1:]]
    for name in ("train", "test"):
        pixels = np.zeros((10, 28, 28), dtype=np.uint8)
        write(shelf / f"fashion-mnist/fashion_mnist/{name}-00000-of-00001.parquet", pixels, list(range(10)), names)
    assert FashionMnist(val=0).load(0).class_names == CATALOG["fashion-mnist"].names
