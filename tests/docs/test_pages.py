"""Every block of Python in README and docs runs, after lines that define what a reader has: a model and data."""

import doctest
import re
import runpy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import opl

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python(?P<mark>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NEEDS = {"lightning": "pytorch_lightning", "accelerate": "accelerate", "losses": "pytorch_metric_learning"}
NOT_RUN = {
    'init_process_group("nccl")': "needs several processes; examples/torchrun_global_batch.py runs it",
    "# Several views per sample": "tests/plugin/test_clients.py runs each recipe",
    "from_pretrained(": "needs an exported run; tests/experiments/export runs it",
}
"""Parts of blocks that are not run here, and why."""
WIDE = "model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 100))\nloader = [(images, labels)]"
SETUP = {
    "logistic(support": "support, labels, queries = torch.randn(2, 5, 8), torch.arange(5), torch.randn(2, 3, 8)",
    "geometry = opl.geometry.Geometry(64": WIDE,
    "opl.geometry.GeometryMetric(64": WIDE,
    "ArcFaceHead(512": "model = nn.Linear(16, 512)",
    "ProjectionMetricLoss(gamma": "embeddings = torch.randn(8, 128)",
    "geometry.report(features": """
features, logits = torch.rand(16, 8), torch.randn(16, 4)
train = test = features
labels = train_labels = test_labels = torch.arange(16) % 4
scores_in, scores_out = torch.rand(8), torch.rand(8)
""",
    "TruncatedLoss()(": "rows, best, kept = torch.arange(8), model, torch.ones(8, dtype=torch.bool)",
    "MART(eps": """
from opl.experiments.types import Output
class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.ReLU()), nn.Linear(8, 4)
    def forward(self, x):
        features = self.body(x)
        return Output(features, self.head(features))
model, images, rows, num_classes, feature_dim = Network(), torch.rand(8, 3, 4, 4), torch.arange(8), 4, 8
""",
    "pgd(model, images": "model = nn.Sequential(nn.Flatten(), nn.Linear(48, 4))",
}
"""Parts of blocks, and what a page says that the reader has there beside a model and a batch."""


def blocks(page):
    return [match for match in BLOCK.finditer(page.read_text(encoding="utf-8")) if "_build" not in page.parts]


def a_training():
    """What the reader of a page has: a model of four classes, a batch, a loader, an optimizer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, 4))
    images, labels = torch.randn(16, 16), torch.arange(16) % 4
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(images, labels)
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    return {
        "torch": torch,
        "nn": nn,
        "F": F,
        "opl": opl,
        "model": model,
        "images": images[:8],
        "labels": labels[:8],
        "optimizer": optimizer,
        "loader": loader,
    }


def marks(page):
    """The import of another library takes seconds."""
    return pytest.mark.slow if page.stem in NEEDS else ()


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=marks(page)) for page in PAGES if blocks(page)]
)
def test_the_code_of_the_page_runs(page, tmp_path):
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem], reason=f"{NEEDS[page.stem]} is not installed")
    names, runner, file = a_training(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS), tmp_path / "block.py"
    for block in blocks(page):
        if "not-run" in block["mark"] or any(part in block["code"] for part in NOT_RUN):
            continue
        lines = [code for part, code in SETUP.items() if part in block["code"]]
        if block["code"].startswith(">>>"):
            example = doctest.DocTestParser().get_doctest(block["code"], {}, page.stem, str(page), 0)
            example.globs = names
            runner.run(example, clear_globs=False)
        else:
            file.write_text("\n".join([*lines, block["code"]]), encoding="utf-8")
            names |= runpy.run_path(str(file), names)
    assert runner.summarize(verbose=False).failed == 0
