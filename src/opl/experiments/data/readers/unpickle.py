"""Loading of untrusted pickles as plain data.

A pickle is a program, and loading it runs it. This loader only accepts globals that build plain values and arrays of
numbers; any other is rejected by name before it has any effect. Even NumPy's own functions are not called, because they
trust the given types and sizes; replacements build the arrays and check them.
"""

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import DataError

_PLAIN = (set, frozenset, bytearray, bytes, str, int, float, bool, complex, list, tuple, dict)


def load(file: Path) -> Any:
    """Load plain values and arrays of numbers or text from a pickle; Python 2 strings are decoded as Latin-1.

    Raises:
        DataError: the pickle contains anything else, or is damaged.
    """
    try:
        with file.open("rb") as stream:
            return _finished(_Unpickler(stream, encoding="latin1").load())
    except _RefusedError as error:
        raise DataError(
            f"the pickle {str(file)!r} was not loaded, because it asks for {error}, which is not plain data and may be "
            "code: take the file from where its authors offer it, or the data set in another layout."
        ) from error
    except MemoryError:
        raise
    except Exception as error:  # a damaged pickle can fail in any way
        words = " ".join(str(error).split())[:200]
        raise DataError(
            f"the pickle {str(file)!r} cannot be read ({type(error).__name__}: {words}): check that the file is "
            "complete, or get it again."
        ) from error


class _RefusedError(Exception):
    """Names the rejected content of a pickle."""


class _Type:
    """Stands in for `numpy.dtype`: numbers, booleans or text, of either byte order."""

    def __init__(self, code: object, *_: object) -> None:
        self.dtype = np.dtype(code if isinstance(code, str) else "V")
        if self.dtype.kind not in "biufSU":
            raise _RefusedError(f"an array of {code!r}")

    def __setstate__(self, state: Any) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """Stands in for `numpy.ndarray`."""

    array: np.ndarray[Any, Any] | None = None

    def __setstate__(self, state: Any) -> None:
        *_, shape, kind, fortran, raw = state
        self.array = _build(raw, kind, shape, "F" if fortran else "C")


def _build(raw: Any, kind: Any, shape: Any, order: Any) -> np.ndarray[Any, Any]:
    if not isinstance(kind, _Type) or not isinstance(raw, str | bytes | bytearray):
        raise _RefusedError("an array of Python objects")
    raw = raw.encode("latin1") if isinstance(raw, str) else raw
    if len(raw) != math.prod(shape) * kind.dtype.itemsize:
        raise ValueError(f"{len(raw)} bytes for an array of {shape}")
    flat = np.frombuffer(raw, kind.dtype) if raw else np.zeros(0, kind.dtype)
    return flat.reshape(shape, order="F" if order == "F" else "C")


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _from_buffer(raw: Any, kind: Any, shape: Any, order: Any) -> _Array:
    made = _Array()
    made.array = _build(raw, kind, shape, order)
    return made


def _scalar(kind: Any, raw: Any) -> Any:
    return _build(raw, kind, (1,), "C")[0].item()


def _encode(text: Any, _: object = "") -> bytes:
    return str(text).encode("latin1")  # how Python 3 writes bytes for Python 2


_WORDS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encode,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _reconstruct for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _from_buffer for core in ("core", "_core")},
    **{(module, kind.__name__): kind for module in ("builtins", "__builtin__") for kind in _PLAIN},
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _WORDS:
            raise _RefusedError(f"{module}.{name}")
        return _WORDS[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise _RefusedError("a reference to something outside of it")


def _finished(value: Any) -> Any:
    """Replace the stand-ins in a value by arrays, and decode dictionary keys to strings."""
    if isinstance(value, _Array):
        if value.array is None:
            raise ValueError("an array without content")
        return value.array
    if isinstance(value, dict):
        return {key.decode("latin1") if isinstance(key, bytes) else key: _finished(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finished(item) for item in value]
    return value
