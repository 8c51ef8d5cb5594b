"""Files are written whole or not at all, and links, pipes and devices are never followed or waited for."""

import os

import pytest

from opl.experiments.files import open_to_append, read_limited, sweep, write_whole


def test_a_link_at_the_final_name_is_replaced_and_its_target_untouched(tmp_path):
    (tmp_path / "target").write_text("not ours")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_whole(tmp_path / "link", "ours \u2026")
    assert (tmp_path / "target").read_text() == "not ours"
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").read_bytes() == "ours \u2026".encode()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    write_whole(tmp_path / "file", b"old")
    monkeypatch.setattr(os, "fsync", lambda number: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write_whole(tmp_path / "file", b"new")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("file", b"old")]


def test_links_and_pipes_are_not_appended_to(tmp_path):
    (tmp_path / "target").write_text("not ours")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=r"symbolic links|No such device|not a regular file"):
            open_to_append(tmp_path / name)
    assert (tmp_path / "target").read_text() == "not ours"
    with open_to_append(tmp_path / "new") as file:
        file.write(b"ours")
    assert (tmp_path / "new").read_bytes() == b"ours"


def test_only_regular_files_of_limited_size_are_read(tmp_path):
    (tmp_path / "large").write_bytes(b"12345")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "large")
    assert read_limited(tmp_path / "link") == b"12345"
    for name, options in (("large", {"limit": 4}), ("pipe", {}), ("link", {"links": False}), ("gone", {})):
        with pytest.raises(OSError, match=r"larger than 4|not a regular file|symbolic links|No such file"):
            read_limited(tmp_path / name, **options)


def test_only_temporary_files_are_swept(tmp_path):
    for name in (".a.0123.tmp", ".lock", "b.tmp"):
        (tmp_path / name).write_text("")
    sweep(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [".lock", "b.tmp"]
