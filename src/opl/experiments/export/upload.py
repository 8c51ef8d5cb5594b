"""Uploading an export to the Hugging Face Hub."""

from pathlib import Path
from typing import Any

from ...errors import OplError, OptionError
from .bundle import CARD, FILES, TRAINING

BLANK = {".gitattributes", "LICENSE", CARD}  # what a new repository may have


def upload(folder: Path, repository: str, *, private: bool = False) -> str:
    """Upload an export as one commit, into a repository that is made if there is none; return its address.

    Args:
        folder: an export; other files in it are not uploaded.
        repository: for instance `somebody/cifar100-resnet56-opl`.
        private: make a private repository; one that exists and is public is refused.
    """
    api = _api()
    try:
        address = str(api.create_repo(repository, private=private, exist_ok=True))
        if private and not api.model_info(repository).private:
            raise OptionError(f"the Hub's {repository} is public: make it private there, or leave --private out.")
        others = {*api.list_repo_files(repository)} - BLANK
        if others and TRAINING not in others:
            raise OptionError(f"the Hub's {repository} holds other files than an export: name a new repository.")
        api.upload_folder(
            repo_id=repository, folder_path=folder, allow_patterns=list(FILES), commit_message="Export by opl"
        )
    except OplError:
        raise
    except Exception as error:  # not logged in, no right to write, no network, invalid name, ...
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise OplError(
            f"the Hub did not take {repository} ({reason}): log in with `hf auth login` under an account that may "
            "write there, and check the network."
        ) from error
    return address


def check_repository(repository: str) -> None:
    """Refuse a name that cannot be a repository, before anything is made."""
    if repository.count("/") != 1 or not all(repository.split("/")):
        raise OptionError(f"--hub {repository} names no repository: give one such as somebody/cifar100-resnet56-opl.")


def _api() -> Any:
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise OplError("--hub needs its extra: pip install 'orthogonal-projection-loss[hub]'.") from error
    return HfApi()
