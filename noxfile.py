"""The test matrix and the package, each session in a separate environment: `nox --list` shows the sessions.

On Linux the default build of torch needs gigabytes of CUDA libraries. If pip is configured with an index of CPU builds,
the CPU build is installed instead.
"""

import tarfile
from pathlib import Path

import nox

HERE = Path(__file__).parent
PYTHONS = ("3.11", "3.12", "3.13")
TORCHES = ("2.6.0", "2.9.1", "2.13.0")
TOOLS = ("numpy", "pillow", "pytest>=8", "hypothesis>=6")  # what the library's tests need in addition to torch
ORACLES = ("pytorch-metric-learning", "scikit-learn", "torchmetrics")  # with which geometry is compared
PACKAGES = ("kernels", "losses", "heads", "plugin")
NO_DATA = {"OPL_DATA": None}  # reading real data needs the experiments
FILES = ("functional", "geometry", "public_names", "signatures")

nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False


def library_tests(tests: Path) -> list[str]:
    """Return the tests that need only torch; tests of other libraries are skipped if these are not installed."""
    return [
        *(str(tests / package) for package in PACKAGES),
        *(str(path) for file in FILES for path in tests.glob(f"test_{file}*.py")),
    ]


@nox.session(python=PYTHONS)
@nox.parametrize("torch", TORCHES)
def library(session: nox.Session, torch: str) -> None:
    """Run the library's tests with one version of Python and of torch."""
    session.install(f"torch=={torch}", "--editable", ".", *TOOLS, *ORACLES)  # tests call benchmarks of the checkout
    session.run(
        "pytest", "-o", "addopts=-q -m 'not slow'", *library_tests(HERE / "tests"), *session.posargs, env=NO_DATA
    )


@nox.session
def build(session: nox.Session) -> None:
    """Build the wheel and the source distribution in dist/, and check their metadata."""
    session.install("--constraint", "constraints.txt", "build", "twine")
    session.run("python", "-m", "build", "--outdir", "dist")
    session.run("twine", "check", "--strict", *(str(path) for path in (HERE / "dist").iterdir()))


@nox.session(requires=["build"])
def wheel(session: nox.Session) -> None:
    """Test the wheel with torch alone, then with the extra, both outside of the checkout."""
    [file] = (HERE / "dist").glob("*.whl")
    place = session.create_tmp()
    session.install("--constraint", "constraints.txt", str(file))
    session.chdir(place)
    session.run("python", "-c", "import opl; print(opl.__version__, opl.regularize.__name__)")
    session.run("opl", "--help")
    session.chdir(HERE)
    session.install("--constraint", "constraints.txt", f"{file}[experiments]")
    session.chdir(place)
    session.run("python", "-m", "opl", "train", "digits-opl", "--scale", "tiny", "--out", "runs")


@nox.session(requires=["build"])
def sdist(session: nox.Session) -> None:
    """Run the quick tests of the unpacked source distribution."""
    [file] = (HERE / "dist").glob("*.tar.gz")
    place = Path(session.create_tmp())
    with tarfile.open(file) as archive:
        archive.extractall(place, filter="data")
    session.chdir(place / file.name.removesuffix(".tar.gz"))
    session.install("--constraint", "constraints.txt", "--editable", ".[dev]")
    session.run("pytest", "-n", "auto", "--maxprocesses", "4", *session.posargs)
