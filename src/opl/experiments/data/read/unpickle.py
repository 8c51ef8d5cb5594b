"""Reading of untrusted pickles as plain data.

A pickle is a program. This reader does not run it: `pickletools` takes it apart, and the instructions that build plain
values and arrays of numbers are carried out here, on values of our own. There is no instruction that imports, calls or
sets an attribute; whatever else a pickle asks for is rejected by name. Values that a pickle shares are shared in the
result, dictionary keys are plain, and no instruction reserves more memory than the file has bytes, so that a small file
cannot grow into a large one.
"""

import math
import mmap
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....errors import DataError

MOST_INSTRUCTIONS = 1 << 25  # each may take some dozens of bytes of memory
_PLAIN_KEYS = (str, bytes, int, float, bool, type(None))


def load(file: Path) -> Any:
    """Load plain values and arrays of numbers or text from a pickle; Python 2 strings are decoded as Latin-1.

    Raises:
        DataError: the pickle contains anything else, or is damaged.
    """
    try:
        with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _finished(_Machine().run(content), {}, 0)
    except _RefusedError as error:
        raise DataError(
            f"the pickle {str(file)!r} was not loaded, because it asks for {error}, which is not plain data and may be "
            "code: take the file from where its authors offer it, or the data set in another layout."
        ) from error
    except Exception as error:  # a damaged pickle can fail in any way
        words = " ".join(str(error).split())[:200]
        raise DataError(
            f"the pickle {str(file)!r} cannot be read ({type(error).__name__}: {words}): check that the file is "
            "complete, or get it again."
        ) from error


class _RefusedError(Exception):
    """Names the rejected content of a pickle."""


# Arrays


class _Name(NamedTuple):
    """Something of Python that a pickle names, such as `numpy.ndarray`; only those of `_BUILDERS` can be used."""

    module: str
    name: str


class _Kind:
    """Stands in for `numpy.dtype`: numbers, booleans or text, of either byte order."""

    def __init__(self, code: object, *_: object) -> None:
        word = code if isinstance(code, str) and len(code) < 16 else "V"
        self.dtype = np.dtype(word)
        if self.dtype.kind not in "biufSU":
            raise _RefusedError(f"an array of {word!r}")

    def set_state(self, state: Any) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """Stands in for `numpy.ndarray`."""

    def __init__(self, array: np.ndarray[Any, Any] | None = None) -> None:
        self.array = array

    def set_state(self, state: Any) -> None:
        *_, shape, kind, fortran, raw = state
        self.array = _build(raw, kind, shape, "F" if fortran else "C")


def _build(raw: Any, kind: Any, shape: Any, order: Any) -> np.ndarray[Any, Any]:
    if not isinstance(kind, _Kind) or not isinstance(raw, str | bytes | bytearray):
        raise _RefusedError("an array of Python objects")
    raw = raw.encode("latin1") if isinstance(raw, str) else raw
    if len(shape) > 32 or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError("an array of an impossible shape")
    if len(raw) != math.prod(shape) * kind.dtype.itemsize:
        raise ValueError(f"{len(raw)} bytes for an array of {shape}")
    flat = np.frombuffer(raw, kind.dtype) if raw else np.zeros(0, kind.dtype)
    return flat.reshape(shape, order="F" if order == "F" else "C")


def _scalar(kind: Any, raw: Any) -> Any:
    return _build(raw, kind, (1,), "C")[0].item()


def _encode(text: Any = "", _: object = "") -> bytes:
    """Bytes as Python 3 writes them for Python 2, and the empty ones of `bytes()`."""
    if not isinstance(text, str):
        raise _RefusedError(f"bytes of a {type(text).__name__}")
    return text.encode("latin1")


def _set(items: Any = ()) -> set[Any]:
    return {_plain(item) for item in items}


_BUILDERS: dict[_Name, Callable[..., Any]] = {
    _Name("numpy", "dtype"): _Kind,
    _Name("_codecs", "encode"): _encode,
    **{
        _Name(f"numpy.{core}.{module}", name): build
        for core in ("core", "_core")
        for module, name, build in (
            ("multiarray", "_reconstruct", lambda *_: _Array()),
            ("multiarray", "scalar", _scalar),
            ("numeric", "_frombuffer", lambda *given: _Array(_build(*given))),
        )
    },
    **{
        _Name(module, name): build
        for module in ("builtins", "__builtin__")
        for name, build in (
            ("set", _set),
            ("frozenset", _set),
            ("bytes", _encode),
            ("bytearray", lambda *given: bytearray(_encode(*given))),
        )
    },
}
_MENTIONED = {_Name("numpy", "ndarray")}  # passed to `_reconstruct`, and not used otherwise


def _named(module: str, name: str) -> _Name:
    found = _Name(module, name)
    if found not in _BUILDERS and found not in _MENTIONED:
        raise _RefusedError(f"{module}.{name}"[:200])
    return found


def _plain(key: Any) -> Any:
    """A dictionary key or an item of a set: others, such as tuples of tuples, could take forever to compare."""
    if not isinstance(key, _PLAIN_KEYS):
        raise _RefusedError(f"a {type(key).__name__} as a key")
    return key


# Instructions


class _Machine:
    """Carries out the instructions of one pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # the stacks under each mark
        self.memo: dict[int, Any] = {}

    def run(self, content: Any) -> Any:
        for count, (instruction, argument, _) in enumerate(pickletools.genops(content)):
            if count > MOST_INSTRUCTIONS:
                raise ValueError(f"more than {MOST_INSTRUCTIONS:,} instructions")
            name = instruction.name
            if name in _VALUES:
                self.stack.append(argument)
            elif name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name]())
            elif name in _PUTS:
                self.memo[len(self.memo) if argument is None else argument] = self.stack[-1]
            elif name in _GETS:
                self.stack.append(self.memo[int(argument or 0)])
            elif name in _STEPS:
                _STEPS[name](self, argument)
            elif name not in _SILENT:
                raise _RefusedError(f"the instruction {name}")
        return self.stack[-1]

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def mark(self, _: object) -> None:
        self.below.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, set):
            target.update(map(_plain, items))
        elif isinstance(target, list):
            target.extend(items)
        else:
            raise _RefusedError(f"a {type(target).__name__} that grows")

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise _RefusedError(f"a {type(target).__name__} with items")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[_plain(key)] = value

    def pop(self, count: int) -> list[Any]:
        items = self.stack[len(self.stack) - count :]
        if len(items) < count:
            raise ValueError("a value is missing")
        del self.stack[len(self.stack) - count :]
        return items

    def reduce(self, _: object) -> None:
        called, given = self.pop(2)
        if not isinstance(called, _Name) or called not in _BUILDERS or not isinstance(given, tuple):
            raise _RefusedError(f"a call of a {type(called).__name__}")
        self.stack.append(_BUILDERS[called](*given))

    def build(self, _: object) -> None:
        (state,) = self.pop(1)
        if not isinstance(self.stack[-1], _Kind | _Array):
            raise _RefusedError(f"attributes of a {type(self.stack[-1]).__name__}")
        self.stack[-1].set_state(state)

    def tuple_of(self, count: int) -> None:
        self.stack.append(tuple(self.pop(count)))

    def dict_of(self, items: list[Any]) -> None:
        self.stack.append({})
        self.set_items(items)


_VALUES = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
    "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "UNICODE", "SHORT_BINUNICODE",
    "BINUNICODE", "BINUNICODE8",
}  # fmt: skip
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "EMPTY_LIST": list, "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple, "EMPTY_SET": set,
}  # fmt: skip
_PUTS, _GETS = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}, {"GET", "BINGET", "LONG_BINGET"}
_SILENT = {"PROTO", "FRAME", "STOP"}
_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _Machine.mark,
    "POP": lambda machine, _: machine.pop(1).clear(),
    "POP_MARK": lambda machine, _: machine.since_mark().clear(),
    "DUP": lambda machine, _: machine.push(machine.stack[-1]),
    "LIST": lambda machine, _: machine.push(machine.since_mark()),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.since_mark())),
    "DICT": lambda machine, _: machine.dict_of(machine.since_mark()),
    "FROZENSET": lambda machine, _: machine.push(_set(machine.since_mark())),
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "APPEND": lambda machine, _: machine.append(machine.pop(1)),
    "APPENDS": lambda machine, _: machine.append(machine.since_mark()),
    "ADDITEMS": lambda machine, _: machine.append(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.set_items(machine.pop(2)),
    "SETITEMS": lambda machine, _: machine.set_items(machine.since_mark()),
    "GLOBAL": lambda machine, words: machine.push(_named(*words.split(" ", 1))),
    "STACK_GLOBAL": lambda machine, _: machine.push(_named(*map(str, machine.pop(2)))),
    "REDUCE": _Machine.reduce,
    "BUILD": _Machine.build,
}


def _finished(value: Any, done: dict[int, Any], depth: int) -> Any:
    """Replace the stand-ins in a value by arrays, and decode dictionary keys; what is shared is converted once."""
    if depth > 100:
        raise ValueError("values in values, a hundred deep")
    if isinstance(value, _Array):
        if value.array is None:
            raise ValueError("an array without content")
        return value.array
    if isinstance(value, _Kind | _Name):
        raise _RefusedError("a type as a value")
    if not isinstance(value, dict | list | tuple):
        return value
    if id(value) not in done:
        if isinstance(value, dict):
            done[id(value)] = {_text(key): _finished(item, done, depth + 1) for key, item in value.items()}
        else:
            done[id(value)] = [_finished(item, done, depth + 1) for item in value]
    return done[id(value)]


def _text(key: Any) -> Any:
    return key.decode("latin1") if isinstance(key, bytes) else key
