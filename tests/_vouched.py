"""What a run folder vouches for its files with, made by plain hashlib: for runs that tests write or change by hand."""

import hashlib
import json
import zlib
from contextlib import suppress
from pathlib import Path

UNLISTED = {"done", "sums.json", "owner.json", ".owner.lock", ".manifest.lock", "error.json", "log.txt"}


def metric_lines(records: list[dict], settings: bytes = b"") -> str:
    """The records of epochs as `metrics.jsonl` has them, each with the CRC-32 of `recipe.json` and then of its JSON."""
    texts = [json.dumps(record) for record in records]
    return "".join(
        f'{text[:-1]}, "check": "{zlib.crc32(text.encode(), zlib.crc32(settings)):08x}"}}\n' for text in texts
    )


def vouch(path: Path, *, done: bool = True, more: dict[str, list[str]] | None = None) -> Path:
    """List the SHA-256 of the files of a run as they are now, as a finished or an unfinished run does; and `more`."""
    with suppress(OSError, ValueError, AttributeError, TypeError, RecursionError):  # no records
        _check_again(path / "metrics.jsonl", (path / "recipe.json").read_bytes())
    files = {file.relative_to(path).as_posix(): file for file in sorted(path.rglob("*")) if file.is_file()}
    sums = {name: [sha256(file)] for name, file in files.items() if name not in UNLISTED and ".pt" not in name}
    if not done:
        sums.pop("metrics.jsonl", None)
    sums |= more or {}
    total = hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()
    (path / ("done" if done else "sums.json")).write_text(json.dumps({"files": sums, "sha256": total}))
    return path


def _check_again(metrics: Path, settings: bytes) -> None:
    """Give every record the checksum that it has with these settings."""
    records = [json.loads(line) for line in metrics.read_text().splitlines()]
    for record in records:
        record.pop("check", None)
    metrics.write_text(metric_lines(records, settings))


def sha256(file: Path) -> str:
    """The checksum of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
