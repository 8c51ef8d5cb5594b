"""One-sentence messages for machine errors: no space, no permission, no memory. Does not import torch."""

import errno

from ..errors import MachineError, OplError

CURES = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the disk quota is exceeded: free some space",
    errno.EFBIG: "the file exceeds the size limit of this process: raise it (ulimit -f)",
    errno.EROFS: "the file system is read-only: choose another folder",
    errno.EACCES: "permission denied: choose another folder, or change its permissions",
    errno.EPERM: "permission denied: choose another folder, or change its permissions",
    errno.ENOENT: "it does not exist, or was deleted: check the path",
    errno.ENOTDIR: "a part of the path is a file: choose a folder",
    errno.EISDIR: "it is a folder: choose a file",
    errno.ELOOP: "its symbolic links are not allowed here, or form a loop: choose another path",
    errno.ENAMETOOLONG: "the name is too long: choose a shorter name",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
    errno.ENOMEM: "not enough memory: end other programs",
    errno.EIO: "the disk failed to read or write: check the disk",
}
MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory", "bad_alloc")
AGAIN = "then run the same command again; training resumes from its last checkpoint"


def explain(error: BaseException) -> OplError | None:
    """Convert a machine error to an `OplError` with a one-sentence message; return None for any other error.

    Example:
        >>> str(explain(OSError(errno.ENOSPC, "No space left on device", "runs/checkpoint.pt"))).split(",")[0]
        "'runs/checkpoint.pt': the disk is full: free some space"
    """
    if isinstance(error, OplError):
        return error
    text = str(error)
    if isinstance(error, OSError):
        return MachineError(f"{_where(error)}{CURES.get(error.errno or 0) or _plain(error)}, {AGAIN}.")
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(sign in text for sign in MEMORY)):
        return MachineError(f"not enough memory: use a smaller --batch-size or model, or end other programs, {AGAIN}.")
    if isinstance(error, RuntimeError) and "home directory" in text:
        return MachineError("the home folder is unknown: set HOME, or set OPL_CACHE to a folder for decoded data sets.")
    if isinstance(error, RuntimeError) and text.startswith("Symlink loop from "):  # by pathlib, before Python 3.13
        return MachineError(f"{text.removeprefix('Symlink loop from ')}: {CURES[errno.ELOOP]}.")
    if isinstance(error, RecursionError):
        return MachineError("a file is damaged, its values are nested too deeply: restore or delete it.")
    return None


def _where(error: OSError) -> str:
    return f"{str(error.filename)!r}: " if error.filename not in (None, "") else ""


def _plain(error: OSError) -> str:
    message = error.strerror or str(error) or type(error).__name__
    return f"{message.rstrip('.').lower()}; check the path and permissions"
