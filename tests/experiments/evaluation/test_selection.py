"""Selection of domains: a loop over episodes as reference, stored features, and families of finished runs."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from opl.errors import DataError, FeatureError, FolderError, OptionError
from opl.experiments import cli, paper
from opl.experiments.data.episode_sampling import MetaEpisodes
from opl.experiments.evaluation.protocols import Selection, average_settings
from opl.experiments.evaluation.selection import (
    Extractor,
    SupportSet,
    centroids_of,
    cosines,
    evaluate_selection,
    fit_weights,
    products_of,
)
from opl.experiments.item import Item
from opl.experiments.results.conformity import screen
from opl.experiments.results.runs import read_runs
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import finished_model
from opl.experiments.training.run import run

pytestmark = pytest.mark.usefixtures("one_thread")
NAMES = ("meta-base", "meta-pnf-omniglot-8", "meta-pnf")
TARGETS = ("omniglot-8", "mnist")
QUICK = tuple(Selection(target=target, episodes=8) for target in TARGETS)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for name in NAMES:
        run(paper.recipe(name, "tiny"), out)
    torch.set_num_threads(threads)
    return out


@pytest.fixture
def runs(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "runs")
    return {name: RunFolder.of(tmp_path / "runs", name, 0) for name in NAMES}


def by_hand(folders, protocol, data):
    """Classify image by image and episode by episode, with the written weights."""
    networks = [finished_model(folder).eval() for folder in folders]
    part, _ = data.of(protocol.target).novel_classes()
    drawn = MetaEpisodes(part.labels, episodes=8, seed=0, hierarchy=data.of(protocol.target).hierarchy("test"))
    weights = folders[-1].measure_arrays(f"selection-{protocol.target}")["weights"]

    def represent(rows, weight):
        images = (part.pixels[rows].float() / 255 - 0.5) / 0.5
        with torch.no_grad():
            units = [F.normalize(network(images).features, dim=1) for network in networks]
        return torch.cat([float(w) * domain for w, domain in zip(weight, units, strict=True)], dim=1)

    for index in range(8):
        support, labels, queries, truth, way = drawn[index]
        known, questions = represent(support, weights[index]), represent(queries, weights[index])
        centroids = torch.stack([known[labels == number].mean(0) for number in range(way)])
        predicted = F.cosine_similarity(questions[:, None], centroids[None], dim=2).argmax(1)
        yield 100 * (predicted == truth).float().mean().item()


def test_accuracies_equal_a_loop_over_episodes_and_are_written(runs):
    numbers = evaluate_selection(runs["meta-pnf"], QUICK)
    folder, data = runs["meta-pnf"], paper.recipe("meta-pnf", "tiny").data
    for protocol in QUICK:
        stored = folder.measure_arrays(f"selection-{protocol.target}")["each"]
        np.testing.assert_allclose(stored, list(by_hand(list(runs.values()), protocol, data)), atol=1e-4)
        assert numbers[protocol.metric] == pytest.approx(stored.mean(), abs=1e-4)
        content = folder.measure(f"selection-{protocol.target}")
        assert set(content["members"]) == {"meta-base", "meta-pnf-omniglot-8"}
        assert set(content["weights"]) == {"cifar-fs", "omniglot-8", "pacs-sketch"}
    both = np.mean([folder.measure_arrays(f"selection-{target}")["each"] for target in TARGETS], axis=0)
    np.testing.assert_allclose(folder.measure_arrays("selection-average-of-2")["each"], both, atol=1e-4)
    assert folder.measure("selection-average-of-2")["settings"] == json.loads(json.dumps(average_settings(QUICK)))
    assert numbers["selection/base"] == runs["meta-base"].result()["test/top1"]
    assert folder.result()["selection/mnist"] == numbers["selection/mnist"]


def test_features_are_stored_and_recomputed_for_other_images(runs, monkeypatch):
    seen = []
    encode = Extractor._encode
    monkeypatch.setattr(
        Extractor, "_encode", lambda self, pixels: seen.append(self.recipe.name) or encode(self, pixels)
    )
    first = evaluate_selection(runs["meta-pnf"], QUICK[:1])
    assert sorted(set(seen)) == sorted(NAMES)
    seen.clear()
    assert evaluate_selection(runs["meta-pnf"], QUICK[:1]) == first
    evaluate_selection(runs["meta-base"], QUICK[:1])  # alone, with the features of its family
    assert seen == []
    evaluate_selection(runs["meta-base"], [replace(QUICK[0], seed=1)])  # other episodes have other images
    assert set(seen) == {"meta-base"}
    for folder in runs.values():
        kept = folder.outputs("features-omniglot-8-test")
        assert kept["features"].dtype == np.float32
        assert folder.faults() == {}
    damaged = runs["meta-pnf"].path / "features-omniglot-8-test.npz"
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    assert "features-omniglot-8-test.npz" in runs["meta-pnf"].faults()
    assert runs["meta-pnf"].faults_of_numbers() == {}
    with pytest.raises(FolderError, match=r"features-omniglot-8-test.npz is not what the run wrote"):
        evaluate_selection(runs["meta-pnf"], QUICK[:1])


def test_missing_member_or_other_base_raises(runs):
    shutil.rmtree(runs["meta-pnf-omniglot-8"].path)
    with pytest.raises(FolderError, match=r"meta-pnf-omniglot-8.*is not a finished run"):
        evaluate_selection(runs["meta-pnf"], QUICK)
    base = replace(paper.recipe("meta-base", "tiny"), epochs=1)
    shutil.rmtree(runs["meta-base"].path)
    run(base, runs["meta-base"].path.parents[1])
    run(paper.recipe("meta-pnf-omniglot-8", "tiny"), runs["meta-base"].path.parents[1])
    with pytest.raises(FolderError, match="meta-pnf/seed-0 started from other weights of meta-base"):
        evaluate_selection(runs["meta-pnf"], QUICK)


def test_run_evaluated_with_a_refused_member_is_refused(runs):
    evaluate_selection(runs["meta-pnf"], QUICK[:1])
    out = runs["meta-pnf"].path.parents[1]
    item = Item("x", "x", "x", {}, ())
    states = {run.name: run.state for run in screen(read_runs(out), [item])}
    assert set(states.values()) == {"done"}
    shutil.rmtree(runs["meta-pnf-omniglot-8"].path)
    other = replace(paper.recipe("meta-pnf-omniglot-8", "tiny"), batch_size=8)
    run(other, out)
    screened = {run.name: run for run in screen(read_runs(out), [item])}
    assert screened["meta-pnf"].state == "refused"
    assert "other weights of meta-pnf-omniglot-8" in screened["meta-pnf"].sentence
    shutil.rmtree(runs["meta-pnf-omniglot-8"].path)
    run(replace(other, changes=("batch_size 8 (recipe: 16)",)), out)
    screened = {run.name: run for run in screen(read_runs(out), [item])}
    assert screened["meta-pnf-omniglot-8"].state == screened["meta-pnf"].state == "refused"
    assert "evaluated with meta-pnf-omniglot-8, which is refused" in screened["meta-pnf"].sentence


def test_command_line_evaluates_several_targets(runs, capsys):
    flags = ["--target", "mnist", "pacs-sketch", "--episodes", "3"]
    assert cli.main(["evaluate", str(runs["meta-base"].path), "selection", *flags]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {"selection/mnist", "selection/pacs-sketch", "selection/average-of-2", "selection/base"} <= set(printed)


def test_other_data_and_parts_without_classes_raise(runs, tmp_path, monkeypatch):
    digits = replace(paper.recipe("digits-ce", "tiny"), epochs=1)
    run(digits, tmp_path)
    with pytest.raises(OptionError, match="trained on synthetic-digits, which is not a source of Meta-Dataset"):
        evaluate_selection(RunFolder.of(tmp_path, "digits-ce", 0), QUICK)
    from opl.experiments.data import SyntheticSource

    empty = SyntheticSource.novel_classes

    def none(self, part="test"):
        images, names = empty(self, part)
        return replace(images, rows=images.rows[:0]), names

    monkeypatch.setattr(SyntheticSource, "novel_classes", none)
    with pytest.raises(DataError, match="mnist has no classes in its part 'val'"):
        evaluate_selection(runs["meta-base"], [Selection(target="mnist", part="val")])


def make_episode(seed, way=6, domains=3, good=1, dim=48, clear=0.3):
    """Features (K, n, D), labels and ways: domain `good` separates the classes, the others are noise."""
    chance = torch.Generator().manual_seed(seed)
    labels = torch.arange(way).repeat_interleave(torch.randint(1, 8, (way,), generator=chance))
    features = torch.randn(domains, len(labels), dim, generator=chance).abs()
    features[good] = 2 * torch.randn(way, dim, generator=chance).abs()[labels] + clear * features[good]
    return features, labels, way


def support_set(features, labels, way):
    return SupportSet(products_of(features, centroids_of(features, labels, way)), labels, way)


def by_definition(features, labels, way, steps=40):
    """SUR as published: one episode, concatenated features, torch's optimizer, cosine similarities."""
    units = [F.normalize(domain.double(), dim=1) for domain in features]
    numbers = torch.zeros(len(units), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adadelta([numbers], lr=3000 / way)
    for _ in range(steps):
        optimizer.zero_grad()
        together = torch.cat([weight * domain for weight, domain in zip(numbers.sigmoid(), units, strict=True)], dim=1)
        centroids = torch.stack([together[labels == number].mean(0) for number in range(way)])
        cosine = F.normalize(together, dim=1) @ F.normalize(centroids, dim=1).T
        F.cross_entropy(10 * cosine, labels).backward()
        optimizer.step()
    return numbers.detach().sigmoid()


def test_weights_of_many_episodes_equal_a_plain_loop():
    episodes = [make_episode(seed, way=5 + 3 * seed, good=seed % 3) for seed in range(5)]
    result = fit_weights([support_set(*episode) for episode in episodes])
    expected = torch.stack([by_definition(*episode) for episode in episodes])
    torch.testing.assert_close(result, expected, atol=1e-6, rtol=1e-6)
    alone = torch.cat([fit_weights([support_set(*episode)]) for episode in episodes])
    torch.testing.assert_close(result, alone, atol=1e-12, rtol=0)


@pytest.mark.parametrize("domains", [3, 8])
def test_informative_domain_gets_nine_tenths_of_the_weight(domains):
    episodes = [make_episode(seed, way=5 + seed % 4, domains=domains, good=seed % domains) for seed in range(24)]
    result = fit_weights([support_set(*episode) for episode in episodes])
    informative = torch.arange(24) % domains
    counted = result.square() / result.square().sum(1, keepdim=True)  # a weight enters cosines as its square
    assert counted[torch.arange(24), informative].min() >= 0.9
    shares = result / result.sum(1, keepdim=True)
    assert shares[torch.arange(24), informative].min() >= (0.9 if domains == 3 else 0.8)  # seven others keep 0.02 each


def test_zero_steps_give_equal_weights():
    result = fit_weights([support_set(*make_episode(0)), support_set(*make_episode(1))], steps=0)
    assert torch.equal(result, torch.full((2, 3), 0.5, dtype=torch.float64))


def test_zero_features_have_cosine_0_and_finite_weights():
    features, labels, way = make_episode(4)
    features[0] = 0
    features[2, 0] = 0
    result = fit_weights([support_set(features, labels, way)])
    assert result.isfinite().all()
    assert result[0, 1] > 0.5
    everything = torch.zeros_like(features)
    scores = cosines(result[0], products_of(everything, centroids_of(everything, labels, way)))
    assert (scores == 0).all()


def test_features_that_are_not_finite_raise():
    features, labels, way = make_episode(5)
    features[1, 2, 3] = torch.nan
    with pytest.raises(FeatureError, match="not finite"):
        fit_weights([support_set(features, labels, way)])
