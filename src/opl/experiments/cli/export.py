"""`opl export RUN DIR` and `opl export RUN --hub REPO`: export a finished run as a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from ...errors import OptionError
from .flags import Flags


@dataclass(frozen=True)
class Export(Flags):
    """Export a finished run as weights, config, model card and figures, to a folder, the Hub, or both."""

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """A finished run, such as runs/digits-opl/seed-0."""
    folder: Annotated[Positional[Path | None], arg(metavar="[DIR]")] = None
    """A new or empty folder, or an earlier export of the same run."""
    hub: str = ""
    """A repository of the Hugging Face Hub, such as somebody/digits-opl; it is created if it does not exist."""
    private: bool = False
    """Create a private repository."""
    license: str = "apache-2.0"
    """The license of the weights, as the Hub spells it; the data may have other terms."""

    def run(self) -> int:
        """Export, and print what was written."""
        import tempfile

        from ..export.bundle import check_repository, export_run, upload

        if self.folder is None and not self.hub:
            raise OptionError("opl export has no destination: pass a folder, a repository with --hub, or both.")
        if self.private and not self.hub:
            raise OptionError("--private needs a repository of the Hub: name it with --hub, or omit --private.")
        if self.hub:
            check_repository(self.hub)
        with tempfile.TemporaryDirectory() as temporary:
            target = self.folder or Path(temporary) / "export"
            written = export_run(self.run_folder, target, license=self.license, source=self.hub)
            if self.folder is not None:
                print("\n".join(map(str, written)))
            if self.hub:
                print(upload(target, self.hub, private=self.private))
        return 0
