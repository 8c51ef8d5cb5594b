"""A pseudo-terminal of any size, on which a call is made in a forked process, and what a person would see there."""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import traceback
from collections.abc import Callable
from dataclasses import dataclass

SECONDS = 120  # after which a call is taken to hang
ABSENT = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")  # variables that would overrule the terminal


@dataclass
class Shown:
    """What was seen on a terminal."""

    code: int
    raw: str
    """All that was written, escape codes included."""
    screens: list[list[str]]
    """The lines on the screen, each time that something was written."""
    lines: list[str]
    """All lines at the end, those that scrolled out of sight included."""
    widest: int
    """Columns of the longest line that was ever written, as if the terminal had no edge."""

    @property
    def text(self) -> str:
        """The lines at the end as one text, in which a break between words counts as a space."""
        return " ".join(" ".join(self.lines).split())


def on_terminal(call: Callable[[], int], columns: int, lines: int, **environment: str) -> Shown:
    """Make a call in a process of its own, with all three standard streams on a terminal."""
    child, ours = pty.fork()
    if child == 0:
        _make(call, columns, lines, environment)
    screen, endless = Screen(columns, lines), Screen(sys.maxsize, lines)
    decode = codecs.getincrementaldecoder("utf-8")().decode
    raw, rest, screens = "", "", []
    while part := _read(ours, child):
        raw += (more := decode(part))
        text = rest + more
        rest = text[text.rfind("\x1b") :] if re.search(r"\x1b[^a-zA-Z]*$", text) else ""
        for each in (screen, endless):
            each.write(text.removesuffix(rest))
        screens.append(screen.visible)
    os.close(ours)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Shown(code, raw, screens, screen.rows, max(map(len, endless.rows)))


class Screen:
    """A terminal that knows what rich writes: text, ends of lines, colors, cursor up, and the erasure of a line."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self.rows, self.row, self.column = [""], 0, 0

    @property
    def top(self) -> int:
        """The first row that is in sight."""
        return max(0, len(self.rows) - self.lines)

    @property
    def visible(self) -> list[str]:
        """The rows that are in sight."""
        return self.rows[self.top :]

    def write(self, text: str) -> None:
        """Write text with whole escape codes."""
        for code, words in re.findall(r"(\x1b\[[?\d;]*[a-zA-Z]|[\r\n])|([^\x1b\r\n]+)", text):
            if words:
                self._draw(words)
            elif code == "\n":
                self._feed()
            elif code == "\r":
                self.column = 0
            elif code.endswith("A"):
                self.row = max(self.top, self.row - int(code[2:-1] or 1))
            elif code.endswith("K"):
                assert code == "\x1b[2K", code
                self.rows[self.row] = ""
            else:
                assert code.endswith("m") or code in ("\x1b[?25l", "\x1b[?25h"), repr(code)

    def _feed(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")

    def _draw(self, words: str) -> None:
        while words:
            if self.column == self.columns:
                self._feed()
                self.column = 0
            part, words = words[: self.columns - self.column], words[self.columns - self.column :]
            before = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = before[: self.column] + part + before[self.column + len(part) :]
            self.column += len(part)


def _make(call: Callable[[], int], columns: int, lines: int, environment: dict[str, str]) -> None:
    """Make the call in this process, and end it."""
    code = 99
    try:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        for name in ABSENT:
            os.environ.pop(name, None)
        os.environ.update({"TERM": "xterm-256color", **environment})
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(fd, mode, closefd=False) for fd, mode in enumerate("rww"))
        code = call()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _read(ours: int, child: int) -> bytes:
    """What was written next; nothing at the end."""
    if not select.select([ours], [], [], SECONDS)[0]:
        os.kill(child, signal.SIGKILL)
        return b""
    try:
        return os.read(ours, 65536)
    except OSError:  # Linux says so at the end
        return b""
