"""The examples run as the README says, and show what they promise."""

import doctest
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parent.parent / "examples"


def run(*argv: str) -> str:
    done = subprocess.run([sys.executable, *argv], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def needs(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")


def geometry(line: str) -> tuple[float, float, float]:
    accuracy, same, other = re.search(r"accuracy ([\d.]+)%, s ([-\d.]+), d ([-\d.]+)", line).groups()
    return float(accuracy), float(same), float(other)


def test_the_examples_of_the_page_about_the_loss_are_true():
    results = doctest.testfile(str(EXAMPLES.parent / "docs" / "loss.md"), module_relative=False)
    assert (results.failed, results.attempted > 20) == (0, True)


def test_the_plain_loop_shows_the_effect_on_the_features():
    needs("sklearn")
    rows = {
        line.split()[0]: [float(word.rstrip("%")) for word in line.split()[2:]]
        for line in run(str(EXAMPLES / "plain_loop.py"), "--epochs", "6").splitlines()
        if " mean " in line
    }
    assert rows["CE+OPL"][0] > 90
    assert rows["CE+OPL"][2] < rows["CE"][2]
    assert rows["CE+OPL"][1] - rows["CE+OPL"][2] > rows["CE"][1] - rows["CE"][2]


NEEDS = {
    "lightning_module": "pytorch_lightning",
    "huggingface_trainer": "transformers",
    "sequence_classification": "transformers",
    "segmentation": "torch",
    "token_classification": "torch",
}


@pytest.mark.parametrize("name", NEEDS)
def test_the_example_trains_features_with_better_separated_classes(name):
    needs(NEEDS[name])
    without, with_opl = (
        geometry(line) for line in run(str(EXAMPLES / f"{name}.py")).splitlines() if line.startswith("weight")
    )
    assert with_opl[0] > 50  # chance is 25
    assert with_opl[1] - with_opl[2] > without[1] - without[2]  # classes further apart than they are wide


def test_torchrun_trains_the_global_batch_as_one_process_would():
    argv = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    out = run(*argv, str(EXAMPLES / "torchrun_global_batch.py"))
    gaps = [float(gap) for gap in re.findall(r"largest difference to one process ([\d.e+-]+)", out)]
    assert len(gaps) == 2
    assert max(gaps) < 1e-9


def test_a_loss_of_your_own_differs_from_the_baseline_in_the_method_alone(tmp_path):
    argv = (str(EXAMPLES / "own_loss.py"), "--out", str(tmp_path))
    out = run(*argv)
    own, baseline = (
        [float(word) for word in re.search(rf"^{name} +([\d. ]+)$", out, re.MULTILINE)[1].split()]
        for name in ("own", "CE")
    )
    assert max(own) > 20  # chance is 10
    first, second = (mine - theirs for mine, theirs in zip(own, baseline, strict=True))
    half = 12.706 * abs(first - second) / 2  # Student's t with one degree of freedom
    said = [float(word) for word in re.search(r"own - CE: (\S+) \[(\S+), (\S+)\], 2 seeds", out).groups()]
    middle = (first + second) / 2
    assert said == pytest.approx([middle, middle - half, middle + half], abs=0.1)
    settings = [
        json.loads((tmp_path / "tiny" / name / "seed-0" / "recipe.json").read_text())["recipe"]
        for name in ("own", "cifar100-fast-half")
    ]
    assert {key for key, value in settings[0].items() if value != settings[1][key]} == {"name", "method"}
    assert run(*argv) == out  # from the finished runs
