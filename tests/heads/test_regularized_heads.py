"""OPL beside a head that is no linear layer."""

import torch
from torch import nn
from torch.nn import functional as F


def test_opl_finds_the_features_of_a_head_unasked():
    import opl
    from opl.heads import ArcFaceHead

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(5, 8), ArcFaceHead(8, num_classes=3)

        def forward(self, x):
            return self.head(self.body(x).relu())

    model = Model()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    x, labels = torch.randn(6, 5), torch.tensor([0, 1, 2, 0, 1, 2])
    loss = criterion(model(x), labels)
    features = model.body(x).relu()
    expected = F.cross_entropy(model.head(features), labels) + opl.orthogonal_projection(features, labels).loss
    torch.testing.assert_close(loss, expected)
