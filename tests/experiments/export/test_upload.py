"""Uploading to the Hub: the calls that are made, and refusals in one sentence."""

from types import SimpleNamespace

import pytest

from _said import says
from opl.errors import OplError, OptionError
from opl.experiments.export.bundle import check_repository, upload


class FakeHub:
    """Stands for `HfApi`: keeps the calls, and answers as told."""

    def __init__(self, files=(".gitattributes",), private=False, error: Exception | None = None) -> None:
        self.files, self.private, self.error, self.calls = files, private, error, []

    def create_repo(self, repository, *, private, exist_ok):
        self.calls.append(("create", repository, private, exist_ok))
        if self.error:
            raise self.error
        return f"https://hub.example/{repository}"

    def model_info(self, repository):
        return SimpleNamespace(private=self.private)

    def list_repo_files(self, repository):
        return list(self.files)

    def upload_folder(self, *, repo_id, folder_path, allow_patterns, commit_message):
        self.calls.append(("upload", repo_id, folder_path, allow_patterns))


@pytest.fixture
def hub(monkeypatch):
    """`hub(...)`: the Hub from here on."""

    def install(**options) -> FakeHub:
        api = FakeHub(**options)
        monkeypatch.setattr("huggingface_hub.HfApi", lambda: api)
        return api

    return install


@pytest.mark.parametrize("files", [(".gitattributes",), ("README.md",), ("README.md", "training.json", "config.json")])
def test_a_repository_is_made_and_the_files_of_the_export_are_uploaded(hub, tmp_path, files):
    api = hub(files=files)
    assert upload(tmp_path, "somebody/digits") == "https://hub.example/somebody/digits"
    create, sent = api.calls
    assert create == ("create", "somebody/digits", False, True)
    assert sent[:3] == ("upload", "somebody/digits", tmp_path)
    assert {"model.safetensors", "config.json", "README.md", "training.json", "training.png"} <= set(sent[3])


def test_nothing_private_is_uploaded_to_a_public_repository(hub, tmp_path):
    api = hub(private=True)
    upload(tmp_path, "somebody/digits", private=True)
    assert api.calls[0] == ("create", "somebody/digits", True, True)
    public = hub(private=False)
    says(lambda: upload(tmp_path, "somebody/digits", private=True), OptionError, ["is public"])
    assert [call[0] for call in public.calls] == ["create"]


def test_repository_with_other_files_is_refused(hub, tmp_path):
    api = hub(files=(".gitattributes", "pytorch_model.bin"))
    says(lambda: upload(tmp_path, "somebody/bert"), OptionError, ["do not belong to an export"])
    assert [call[0] for call in api.calls] == ["create"]


def test_refusals_of_the_hub_are_one_sentence(hub, tmp_path):
    hub(error=OSError("401 Unauthorized\nfor url"))
    says(lambda: upload(tmp_path, "somebody/digits"), OplError, ["401 Unauthorized for url", "hf auth login"])


@pytest.mark.parametrize("name", ["digits", "a/b/c", "/digits", "somebody/"])
def test_a_name_that_is_no_repository_is_refused(name):
    says(lambda: check_repository(name), OptionError, ["must be a repository"])


def test_calls_match_the_real_interface():
    """The arguments that are given exist in huggingface_hub's own class."""
    import inspect

    from huggingface_hub import HfApi

    assert {"private", "exist_ok"} <= set(inspect.signature(HfApi.create_repo).parameters)
    wanted = {"repo_id", "folder_path", "allow_patterns", "commit_message"}
    assert wanted <= set(inspect.signature(HfApi.upload_folder).parameters)
    assert "repo_id" in inspect.signature(HfApi.list_repo_files).parameters
    assert "repo_id" in inspect.signature(HfApi.model_info).parameters
