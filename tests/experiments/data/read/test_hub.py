"""The Hub: given up on when it is silent, and read like any folder when it answers."""

import socket
import time

import pytest

from _image_files import write_mnist
from opl.errors import DataError
from opl.experiments.data import Mnist, find
from opl.experiments.data.read import hub

pytestmark = pytest.mark.usefixtures("apart")


def test_a_network_that_never_answers_is_given_up_on_in_seconds(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(hub, "PATIENCE", 0.5)
        start = time.monotonic()
        with pytest.raises(DataError, match="FOLDER"):
            find("mnist")
        assert time.monotonic() - start < 3


def test_what_the_hub_sends_is_read_like_any_folder(tmp_path, monkeypatch):
    import huggingface_hub

    def download(name, **_):
        assert name == "ylecun/mnist"
        write_mnist(tmp_path / "sent/mnist")
        return str(tmp_path / "sent")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(hub, "is_reachable", lambda: True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    splits = Mnist(val=0).load(0)
    assert (len(splits.train), splits.source) == (40, "Hub ylecun/mnist")
