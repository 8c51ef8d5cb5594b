"""What the machine refused, as a sentence: no space, no permission, no memory. Does not import torch."""

import errno

from ..errors import MachineError, OplError

CURES = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the quota of the disk is used up: free some space",
    errno.EFBIG: "the file would be larger than this process may write: raise the limit (ulimit -f)",
    errno.EROFS: "the file system is read-only: give another folder",
    errno.EACCES: "there is no permission: give another folder, or ask for the right",
    errno.EPERM: "there is no permission: give another folder, or ask for the right",
    errno.ENOENT: "it is not there, or was deleted meanwhile: check the folder",
    errno.ENOTDIR: "a part of the path is a file: give a folder",
    errno.EISDIR: "it is a folder: give a file",
    errno.ELOOP: "its links lead in a circle: give another path",
    errno.ENAMETOOLONG: "the name is too long: give a shorter one",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
    errno.ENOMEM: "the memory is not enough: end other programs",
    errno.EIO: "the disk failed to read or write: check it",
}
MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory", "bad_alloc")
AGAIN = "then run the same command again; training resumes from its last checkpoint"


def explain(error: BaseException) -> OplError | None:
    """Return an error with one sentence for what the machine refused; None for any other error.

    Example:
        >>> str(explain(OSError(errno.ENOSPC, "No space left on device", "runs/checkpoint.pt"))).split(",")[0]
        "'runs/checkpoint.pt': the disk is full: free some space"
    """
    if isinstance(error, OplError):
        return error
    text = str(error)
    if isinstance(error, OSError):
        return MachineError(f"{_where(error)}{CURES.get(error.errno or 0) or _plain(error)}, {AGAIN}.")
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(word in text for word in MEMORY)):
        return MachineError(
            "the memory is not enough: give a smaller --batch-size or model, or end other programs, " + AGAIN + "."
        )
    if isinstance(error, RuntimeError) and "home directory" in text:
        return MachineError("the home folder is not known: set HOME, or OPL_CACHE to a folder for decoded data sets.")
    if isinstance(error, RuntimeError) and text.startswith("Symlink loop from "):  # of pathlib, before Python 3.13
        return MachineError(f"{text.removeprefix('Symlink loop from ')}: {CURES[errno.ELOOP]}.")
    if isinstance(error, RecursionError):
        return MachineError("a file is nested too deeply to be read: it was damaged, so restore or delete it.")
    return None


def _where(error: OSError) -> str:
    return f"{str(error.filename)!r}: " if error.filename not in (None, "") else ""


def _plain(error: OSError) -> str:
    return f"{(error.strerror or str(error) or type(error).__name__).rstrip('.').lower()}: look at that"
