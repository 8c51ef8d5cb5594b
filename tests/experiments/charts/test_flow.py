"""The flow of s and d: its rates against the gradient of the loss, and the drawing."""

import numpy as np
import pytest
from _chart_values import path

from opl.experiments.charts import flow


def test_d_is_constant_at_the_gamma_needed_and_s_at_the_limit():
    s, d = np.array([0.9, 0.6, 0.4]), np.array([0.3, 0.5, 0.2])
    for same, other in zip(s, d, strict=True):
        _, still = flow.flow(np.array([same]), np.array([other]), (1 - same) / (1 - other))
        still_s, _ = flow.flow(np.array([same]), np.array([other]), (same + 1 / 4) / other, positives=4)
        assert still == pytest.approx(0, abs=1e-12)
        assert still_s == pytest.approx(0, abs=1e-12)


def test_rates_equal_gradient_descent_on_free_features():
    torch = pytest.importorskip("torch")
    from opl import orthogonal_projection

    classes, each = 40, 5
    labels = torch.arange(classes).repeat_interleave(each)
    basis = torch.linalg.qr(torch.randn(300, classes * (each + 1) + 1, dtype=torch.float64))[0].T
    s, d = 0.7, 0.4
    x = d**0.5 * basis[0] + (s - d) ** 0.5 * basis[1 : classes + 1].repeat_interleave(each, 0)
    x = (x + (1 - s) ** 0.5 * basis[classes + 1 :]).requires_grad_()
    for gamma in (0.2, 1.0, 1.5):
        found = orthogonal_projection(x, labels, gamma=gamma)
        slope, to_s, to_d = (torch.autograd.grad(part, x, retain_graph=True)[0] for part in found)
        rates = [-float((slope * part).sum()) for part in (to_s, to_d)]
        wanted = flow.flow(np.array([s]), np.array([d]), gamma, positives=each - 1)
        assert rates[0] / rates[1] == pytest.approx(float(wanted[0][0] / wanted[1][0]), rel=0.1)
        assert np.sign(rates).tolist() == [np.sign(wanted[0][0]), np.sign(wanted[1][0])]


def test_every_panel_has_arrows_a_line_and_all_paths():
    figure = flow.draw([path("CE"), path("CE+OPL")])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["gamma 0.5", "gamma 1", "gamma 2"]
    for axes in figure.axes:
        assert len(axes.get_lines()) == 5
        assert len(axes.collections) == 1
