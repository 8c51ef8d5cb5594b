"""The Hugging Face Hub: its download folder and whether it is reachable. Imports nothing heavy."""

import os
import threading
import urllib.error
import urllib.request
from pathlib import Path

PATIENCE = 4.0  # seconds without a reply after which the network counts as unavailable


def cache_folder() -> Path:
    """Return the folder of downloads, as defined by `huggingface_hub`."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()


def is_offline() -> bool:
    """Whether the environment requests offline mode."""
    names = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
    return any(os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"} for name in names)


def is_reachable() -> bool:
    """Request the Hub's front page in a thread, because a name server that never replies ignores timeouts."""
    said: list[bool] = []

    def ask() -> None:
        endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
        try:
            urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=PATIENCE).close()
            said.append(True)
        except urllib.error.HTTPError as error:
            said.append(error.code < 500)
        except (OSError, ValueError):
            said.append(False)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE)
    return bool(said and said[0])
