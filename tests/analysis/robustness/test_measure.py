"""Accuracy on perturbed images: against naive counting, through preprocessing, and what is refused."""

import builtins
import importlib
import warnings

import pytest
import torch
from torch import nn

from evolvent import create_model
from evolvent._core.extras import import_extra
from evolvent.analysis import AttackWarning, measure_robustness
from evolvent.analysis.robustness import FGSM, PGD, Attack, OfBytes, budget_text, corrupt, parse_budgets
from evolvent.analysis.robustness.attack import ascent, cross_entropy
from evolvent.data import Preprocess
from evolvent.errors import ConfigError, ShapeError, UnknownNameError

KINDS = ("noise", "crop", "rotate", "jitter")


def naive(scores: torch.Tensor, labels: torch.Tensor) -> list[float]:
    """Top-1, top-5, mean and deviation over classes, counted one by one."""
    hits = [int(row.argmax()) == int(label) for row, label in zip(scores, labels, strict=True)]
    among = [int(label) in row.topk(5).indices.tolist() for row, label in zip(scores, labels, strict=True)]
    shares = []
    for k in sorted(set(labels.tolist())):
        own = [hit for hit, label in zip(hits, labels.tolist(), strict=True) if label == k]
        shares.append(sum(own) / len(own))
    mean = sum(shares) / len(shares)
    deviation = (sum((share - mean) ** 2 for share in shares) / len(shares)) ** 0.5
    return [sum(hits) / len(hits), sum(among) / len(among), mean, deviation]


def test_figures_are_those_of_naive_counting(convnet, digits):
    images, labels = digits
    attacks = ["fgsm", PGD(5, None)]
    found = measure_robustness(convnet, images, labels, attacks=attacks, eps=[0.05, 0.1], corruptions=["noise"],
                               batch_size=17)  # fmt: skip
    titles = ["clean", "noise", "fgsm 12.75/255", "fgsm 25.5/255", "pgd 12.75/255", "pgd 25.5/255"]
    assert [one.title for one in found.accuracies] == titles
    pixels = images / 255
    changed = {
        "clean": pixels,
        "noise": corrupt("noise", pixels, torch.arange(60)),
        "fgsm 25.5/255": FGSM().perturb(convnet, pixels, labels, 0.1, torch.Generator()),
    }
    for title, x in changed.items():
        with torch.no_grad():
            expected = naive(convnet(x), labels)
        one = found[title]
        assert [one.top1, one.top5, one.class_mean, one.class_std] == pytest.approx(expected, abs=1e-6), title
    assert found["pgd 25.5/255"].top1 <= found["fgsm 25.5/255"].top1 < found["clean"].top1
    assert (found.count, found.classes) == (60, [str(k) for k in range(10)])


def test_gradients_pass_through_the_preprocessing():
    """The chain rule by hand: of 255 x / 255 - mean, the gradient of the network itself."""
    torch.manual_seed(0)
    network = create_model("resnet", channels=(4,), blocks=1, in_channels=1).double().eval()
    mean, images, labels = torch.rand(1, 6, 6).double(), torch.rand(3, 1, 6, 6).double(), torch.tensor([1, 2, 3])
    composed = OfBytes(nn.Sequential(Preprocess(mean), network))
    whole = ascent(composed, images, cross_entropy(labels))
    alone = ascent(network, images - mean, cross_entropy(labels))
    torch.testing.assert_close(whole.gradient, alone.gradient)
    torch.testing.assert_close(whole.scores, alone.scores)
    assert whole.gradient.abs().max() > 0


def test_steps_that_do_not_reach_the_budget_are_named(convnet, digits):
    images, labels = digits[0][:4], digits[1][:4]
    with pytest.warns(AttackWarning, match=r"steps of pgd do not reach 8/255, so that its figure there is too good"):
        measure_robustness(convnet, images, labels, attacks=["pgd"], eps=[3 / 255, 8 / 255], corruptions=[])


class OneStep:
    """An attack that has what is needed and inherits nothing."""

    name = "one step"

    def perturb(self, model, images, labels, eps, generator):
        return (images + eps).clamp(max=1)


def test_attacks_of_others_and_random_starts(convnet, digits):
    images, labels = digits[0][:4], digits[1][:4]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measure_robustness(convnet, images, labels, attacks=[OneStep()], eps=[3 / 255], corruptions=[])
    random = PGD(random_start=True)
    with pytest.warns(AttackWarning, match="do not reach 3/255"):
        measure_robustness(convnet, images, labels, attacks=[random], eps=[3 / 255], corruptions=[])


def test_a_model_in_training_mode_is_named_attacked_in_evaluation_and_put_back(digits):
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Dropout(0.5), nn.Linear(64, 10))
    model[1].eval()
    model[3].bias.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.warns(AttackWarning, match="Sequential is in training mode. It is attacked in evaluation mode"):
        one = measure_robustness(model, *digits, attacks=["pgd"], eps=[0.01], corruptions=[])
    assert [part.training for part in model] == [True, False, True, True]
    assert [p.requires_grad for p in model.parameters()] == [True, True, True, False]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = measure_robustness(model.eval(), *digits, attacks=["pgd"], eps=[0.01], corruptions=[])
    assert one.accuracies == other.accuracies


def test_examples_show_the_image_the_change_and_the_answer(convnet, digits):
    images, labels = digits
    found = measure_robustness(convnet, images, labels, attacks=["fgsm"], eps=[3 / 255], corruptions=[], examples=2,
                               classes=[f"digit {k}" for k in range(10)])  # fmt: skip
    assert [(e.title, e.row) for e in found.examples] == [
        ("clean", 0),
        ("clean", 59),
        ("fgsm 3/255", 0),
        ("fgsm 3/255", 59),
    ]
    clean, attacked = found.examples[1], found.examples[3]
    assert torch.equal(clean.image, images[59])
    assert clean.magnified == 1
    assert (clean.difference == 128).all()
    assert attacked.magnified == pytest.approx(255 / 6, rel=1e-3)
    assert set(attacked.difference.unique().tolist()) <= {0, 128, 255}
    with torch.no_grad():
        shares = convnet(images[59:] / 255).softmax(1)[0]
    assert (clean.predicted, clean.label) == (int(shares.argmax()), int(labels[59]))
    assert clean.confidence == pytest.approx(shares.max().item(), abs=1e-5)
    assert found.classes[3] == "digit 3"
    assert not measure_robustness(convnet, images, labels, attacks=[], corruptions=[], examples=0).examples


def test_few_classes_have_no_top_five(linear):
    model, images, labels = linear
    told = []
    found = measure_robustness(
        model, images, labels, attacks=["fgsm"], eps=[0.01], corruptions=[], batch_size=10, tell=told.append
    )
    assert found["clean"].top5 is None
    assert found["clean"].top1 == 1
    assert told == pytest.approx([k / 8 for k in range(1, 9)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_corruptions_are_reproducible_and_do_not_depend_on_the_batch(kind, channels, dtype):
    if kind != "noise":
        pytest.importorskip("kornia")
    images, rows = torch.rand(5, channels, 16, 12, dtype=dtype), torch.arange(10, 15)
    found = corrupt(kind, images, rows, seed=4)
    assert found.shape == images.shape
    assert found.dtype == dtype
    assert found.min() >= 0
    assert found.max() <= 1
    assert (found - images).abs().max() > 0.01
    torch.testing.assert_close(found[2:3], corrupt(kind, images[2:3], rows[2:3], seed=4))
    if kind != "crop":
        assert not torch.equal(found, corrupt(kind, images, rows, seed=5))


def test_corruptions_do_what_they_say():
    pytest.importorskip("kornia")
    rows = torch.arange(200)
    noise = corrupt("noise", torch.full((200, 1, 8, 8), 0.5), rows) - 0.5
    assert noise.std().item() == pytest.approx(0.1, rel=0.02)
    ramp = torch.linspace(0, 1, 64).expand(2, 1, 64, 64)
    cropped = corrupt("crop", ramp, rows[:2])
    assert cropped[0, 0, 0, 0].item() == pytest.approx(4 / 63, abs=1e-3)  # 56 of 64 pixels begin at the fifth
    dot = torch.zeros(200, 1, 33, 33)
    dot[:, :, 16, 28:31] = 1
    turned = corrupt("rotate", dot, rows)
    grid = torch.arange(33.0) - 16
    mass = turned[:, 0] / turned.sum((1, 2, 3))[:, None, None]
    angles = torch.atan2((mass * grid[:, None]).sum((1, 2)), (mass * grid).sum((1, 2))).rad2deg()
    assert angles.abs().max() <= 31
    assert angles.max() > 25
    assert angles.min() < -25
    grey = corrupt("jitter", torch.full((200, 1, 4, 4), 0.5), rows)
    assert grey.min() >= 0.5 * 0.8 - 1e-6
    assert grey.max() <= 0.5 * 1.2 + 1e-6
    assert grey.flatten(1).std(1).max() < 1e-6


def test_a_missing_package_is_named_with_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *others):
        if name.startswith("kornia"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *others)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(
        ConfigError, match=r"corruptions of images need kornia. Install it with `pip install 'evolvent\[rob"
    ):
        corrupt("crop", torch.rand(1, 1, 8, 8), torch.tensor([0]))
    monkeypatch.setattr(importlib, "import_module", lambda name: real("kornia_without_its_parts"))
    with pytest.raises(ModuleNotFoundError, match="without_its_parts"):
        import_extra("kornia", "robustness", "corruptions")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eps": [3]}, r"eps is 3, but pixels lie between 0 and 1, .* Did you mean 3/255\?"),
        ({"eps": [8.0]}, "Did you mean 8/255"),
        ({"eps": [255]}, r"Give less than 1, as in 3/255\."),
        ({"eps": [-0.1]}, "must be positive"),
        ({"eps": []}, "needs a budget"),
        ({"eps": 0.1}, r"eps is a list of budgets, such as \[1/255, 3/255\], got 0\.1"),
        ({"eps": "3/255"}, r"list of budgets, .* got '3/255'"),
        ({"eps": ["3/255"]}, "3/255 without quotes, got '3/255'"),
        ({"images": torch.randn(60, 1, 8, 8)}, r"values from -.* put it in front of the model"),
        ({"images": torch.zeros(60, 1, 8, 8, dtype=torch.int32)}, "bytes or floating-point"),
        ({"labels": torch.full((60,), 10)}, r"labels must lie in 0 ... 9, .* got 10 ... 10"),
        ({"labels": torch.full((60,), 1.0)}, r"labels must be classes by number, got float32 of shape \(60,\)"),
        ({"labels": torch.full((60,), -1)}, "labels must lie in"),
        (
            {"model": nn.Identity().eval()},
            r"needs a classifier, which gives each image scores \(N, classes\), got \(1, 1, 8, 8\)",
        ),
        ({"classes": ["a", "b"]}, "10 classes apart, but 2 are named"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_what_cannot_be_attacked_is_explained(change, message, convnet, digits):
    given = {"model": convnet, "images": digits[0], "labels": digits[1], "corruptions": []} | change
    with pytest.raises(ConfigError, match=message) as caught:
        measure_robustness(**given)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
def test_labels_are_whole_numbers_of_any_kind(dtype, convnet, digits):
    options = {"attacks": ["fgsm"], "eps": [0.1], "corruptions": [], "examples": 1}
    found, expected = (measure_robustness(convnet, digits[0], y, **options) for y in (digits[1].to(dtype), digits[1]))
    assert found.accuracies == expected.accuracies


def test_shapes_and_names_are_checked(convnet, digits):
    with pytest.raises(ShapeError, match="labels of shape"):
        measure_robustness(convnet, digits[0], digits[1][:3])
    with pytest.raises(ShapeError, match="an attack takes images"):
        measure_robustness(convnet, digits[0][0], digits[1])
    with pytest.raises(UnknownNameError, match=r"unknown corruption 'noize'\. Did you mean 'noise'"):
        measure_robustness(convnet, *digits, corruptions=["noize"])
    with pytest.raises(UnknownNameError, match=r"unknown attack 'pdg'\. Did you mean 'pgd'"):
        measure_robustness(convnet, *digits, attacks=["pdg"])


def test_budgets_are_read_as_people_write_them():
    assert parse_budgets("0.5/255,3/255") == [0.5 / 255, 3 / 255]
    assert [budget_text(eps) for eps in (8 / 255, 0.5 / 255)] == ["8/255", "0.5/255"]
    for text in ("three", "3/0", "3/", ""):
        with pytest.raises(ConfigError, match="must be a number or a fraction such as 3/255, got"):
            parse_budgets(text)
    with pytest.raises(ConfigError, match="Did you mean 3/255"):
        parse_budgets("1/255,3")


def test_attacks_of_ones_own_are_taken(convnet, digits):
    class Whiteout(Attack):
        name = "whiteout"

        def perturb(self, model, images, labels, eps, generator):
            return (images + eps).clamp(0, 1)

    found = measure_robustness(convnet, *digits, attacks=[Whiteout()], eps=[0.9], corruptions=[])
    assert found["whiteout 229.5/255"].top1 < 0.5
