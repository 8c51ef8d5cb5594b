"""The line in other people's code: the features behind the logits, against the textbook, value and gradient.

Every client calls a model in its own way and returns the model, the loss of `opl.regularize`, and cross-entropy plus
the textbook's loss of features that it takes out of the model by itself.
"""

import functools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import opl
from _small_cnn import Net, SmallCNN, data
from _textbook import agrees, textbook

CLIENTS = {}


def client(function):
    CLIENTS[function.__name__.replace("_", " ")] = function
    return function


@client
def plain():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits = model(images)
    return model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(model.seen[-1], labels)


@client
def arguments_by_name():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits = model(images)
    loss = criterion(input=logits, target=labels)
    return model, loss, F.cross_entropy(logits, labels) + textbook(model.seen[-1], labels)


@client
def the_last_registered_linear_is_not_the_classifier():
    class Gated(Net):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(16, 16)

        def forward(self, images):
            x = self.embed(images)
            self.seen.append(x * self.gate(x).sigmoid())
            return self.fc(self.seen[-1])

    model, (images, labels) = Gated(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits = model(images)
    return model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(model.seen[-1], labels)


class TwoHeads(Net):
    def __init__(self):
        super().__init__()
        self.early = nn.Linear(8, 4)

    def forward(self, images):
        x = self.body[:2](images)
        self.seen += [x.mean((2, 3)), self.pool(self.body[2:](x)).flatten(1)]
        return self.fc(self.seen[1]), self.early(self.seen[0])


@client
def two_heads_the_first():
    model, (images, labels) = TwoHeads(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits, _ = model(images)
    return model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(model.seen[1], labels)


@client
def two_heads_both():
    model, (images, labels) = TwoHeads(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    one, two = model(images)
    loss = criterion(one, labels) + 0.4 * criterion(two, labels)
    first, second = (F.cross_entropy(each, labels) for each in (one, two))
    return model, loss, first + textbook(model.seen[1], labels) + 0.4 * (second + textbook(model.seen[0], labels))


@client
def two_passes_before_the_criterion():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    one, _ = model(images), model(images.flip(3) * 2)
    return model, criterion(one, labels), F.cross_entropy(one, labels) + textbook(model.seen[0], labels)


@client
def two_passes_each_with_its_labels():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    one, two = model(images), model(images * 2)
    other = labels.roll(1)
    loss = criterion(two, other) + criterion(one, labels)
    expected = F.cross_entropy(one, labels) + textbook(model.seen[0], labels)
    return model, loss, expected + F.cross_entropy(two, other) + textbook(model.seen[1], other)


@client
def crops_with_concatenated_logits():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits, twice = torch.cat([model(images), model(images * 2)]), labels.repeat(2)
    return model, criterion(logits, twice), F.cross_entropy(logits, twice) + textbook(torch.cat(model.seen), twice)


@client
def a_pass_without_gradients_in_between():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits = model(images)
    with torch.no_grad():
        model(images * 3)
    return model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(model.seen[0], labels)


@client
def ignore_index_of_the_criterion():
    model, (images, labels) = Net(), data()
    labels[::5] = 255
    criterion = opl.regularize(nn.CrossEntropyLoss(ignore_index=255), model)
    logits = model(images)
    expected = F.cross_entropy(logits, labels, ignore_index=255) + textbook(model.seen[0], labels, ignore_index=255)
    return model, criterion(logits, labels), expected


@client
def ignore_index_of_a_partial():
    model, (images, labels) = Net(), data()
    labels[::5] = 9
    base = functools.partial(F.cross_entropy, ignore_index=9)
    criterion = opl.regularize(base, model)
    logits = model(images)
    return model, criterion(logits, labels), base(logits, labels) + textbook(model.seen[0], labels, ignore_index=9)


@client
def label_smoothing_of_the_criterion():
    model, (images, labels) = Net(), data()
    base = nn.CrossEntropyLoss(label_smoothing=0.2)
    criterion = opl.regularize(base, model)
    logits = model(images)
    return model, criterion(logits, labels), base(logits, labels) + textbook(model.seen[0], labels)


@client
def a_layer_called_by_keyword():
    class Keyword(Net):
        def forward(self, images):
            return self.fc(input=self.features(images))

    model, (images, labels) = Keyword(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits = model(images)
    return model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(model.seen[0], labels)


@client
def a_learned_temperature():
    class Scaled(Net):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(0.5))

        def forward(self, images):
            return super().forward(images) * self.scale.exp()

    model, (images, labels) = Scaled(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits = model(images)
    return model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(model.seen[0], labels)


@client
def pixels_are_classified_and_then_averaged():
    class AveragedPixels(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.classify = SmallCNN().body, nn.Conv2d(16, 4, 1)

        def forward(self, images):
            self.map = self.body(images)
            return F.adaptive_avg_pool2d(self.classify(self.map), 1).flatten(1)

    model, (images, labels) = AveragedPixels(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    logits = model(images)
    features = model.map.mean((2, 3))
    return model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(features, labels)


@client
def soft_targets():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    soft = F.one_hot(labels, 4).float()
    logits = model(images)
    return model, criterion(logits, soft), F.cross_entropy(logits, soft) + textbook(model.seen[0], labels)


@client
def the_output_of_a_named_layer():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, features="pool")
    logits = model(images)
    return model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(model.seen[0], labels)


@client
def the_output_of_a_named_layer_in_the_first_of_two_passes():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, features="body", pool="mean")
    logits, _ = model(images), model(images * 2)
    return model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(model.seen[0], labels)


@client
def the_input_of_a_named_layer_below():
    model, (images, labels) = Net(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, layer="pool", pool="mean")
    logits = model(images)
    return model, criterion(logits, labels), F.cross_entropy(logits, labels) + textbook(model.seen[0], labels)


@client
def a_function_of_the_output():
    class Both(Net):
        def forward(self, images):
            x = self.features(images)
            return {"logits": self.fc(x), "hidden": x * 2 + 1}

    model, (images, labels) = Both(), data()
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, features=lambda output: output["hidden"])
    output = model(images)
    expected = F.cross_entropy(output["logits"], labels) + textbook(output["hidden"], labels)
    return model, criterion(output, labels), expected


@pytest.mark.parametrize("name", CLIENTS)
def test_value_and_gradients_are_the_textbooks(name):
    torch.manual_seed(0)
    agrees(*CLIENTS[name]())
