"""The check must find what is wrong."""

import pytest
import torch
from torch import nn

from evolvent.errors import ShapeError
from evolvent.testing import check_compiles, check_exports, check_network


class Vectors(nn.Module):
    """A good network that takes no images; the cases below spoil it one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 2)

    def forward_features(self, x):
        if x.ndim != 2 or x.shape[1] != 3:
            raise ShapeError(f"this network takes (batch, 3), got {tuple(x.shape)}.")
        return self.body(x).tanh()

    def forward(self, x):
        return self.head(self.forward_features(x))


class Coupled(Vectors):
    """Answers depend on the batch's mean, which is said."""

    couples_batch = True

    def forward_features(self, x):
        return super().forward_features(x) - super().forward_features(x).mean(0)


class Ordered(Coupled):
    """Answers depend on which input comes first."""

    def forward_features(self, x):
        features = super().forward_features(x)
        return features - features[:1]


class Idle(Vectors):
    def __init__(self) -> None:
        super().__init__()
        self.idle = nn.Parameter(torch.ones(1))


class Featureless(Vectors):
    forward_features = property()

    def forward(self, x):
        return self.head(self.body(x))


class Unbounded(Vectors):
    def forward(self, x):
        return super().forward(x) / 0


class Lazy(Vectors):
    def forward(self, x):
        if not hasattr(self, "seen"):
            self.register_buffer("seen", torch.zeros(1))
        return super().forward(x)


class Extra(Vectors):
    def get_extra_state(self):
        return {"a": 1}

    def set_extra_state(self, state):
        pass


class Unpicklable(Vectors):
    def __init__(self) -> None:
        super().__init__()
        self.act = lambda x: x

    def forward(self, x):
        return self.act(super().forward(x))


class Single(Vectors):
    def forward(self, x):
        return super().forward(x.float().to(self.head.weight.dtype)).float()


class Contagious(Vectors):
    def forward(self, x):
        return super().forward(x - x.mean(0))


class Forgetful(Vectors):
    """Keeps a number that shapes the answers outside the state_dict."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.rand(1), persistent=False)

    def forward(self, x):
        return self.scale * super().forward(x)

    def __deepcopy__(self, memo):
        twin = Forgetful()
        nn.Module.load_state_dict(twin, self.state_dict())
        return twin


class Branching(Vectors):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else -super().forward(x)


class Rude(Vectors):
    def forward_features(self, x):
        return self.body(x).tanh()


class Careless(Vectors):
    def forward_features(self, x):
        return self.body(x[:, :3]).tanh()


class Vague(Vectors):
    def forward_features(self, x):
        if x.shape[1] != 3:
            raise ShapeError("wrong shape.")
        return self.body(x).tanh()


x = torch.linspace(-1, 1, 6).view(2, 3)


def test_networks_on_vectors_pass():
    check_network(Vectors(), x)
    check_network(Vectors(), x, refused=[torch.ones(2, 4), torch.ones(3)])
    check_network(Rude(), x, refused=[])


def test_a_network_may_say_that_it_couples_the_batch():
    check_network(Coupled(), torch.randn(4, 3))


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (Idle, "'idle' gets no gradient"),
        (Featureless, "no forward_features"),
        (Unbounded, "not finite"),
        (Lazy, r"changes the keys of the state_dict: \['seen'\]"),
        (Extra, "neither parameters nor buffers"),
        (Single, "float32"),
        (Contagious, "depends on the other inputs of the batch"),
        (Ordered, "depend on the order of the batch"),
        (Forgetful, "copy answers differently"),
        (Rude, "raises RuntimeError, must be ShapeError"),
        (Careless, "is taken, must raise ShapeError"),
        (Vague, "does not say which shape was given"),
    ],
)
def test_faults_are_found(kind, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_network(kind(), x)


def test_what_cannot_be_pickled_is_found():
    with pytest.raises(AssertionError, match="cannot be pickled"):
        check_network(Unpicklable(), x)


def test_what_cannot_be_exported_is_found():
    with pytest.raises(AssertionError, match=r"torch\.export does not take"):
        check_exports(Branching(), x)


def test_compiled_modules_are_compared():
    check_compiles(Vectors(), x, backend="eager")


def test_module_given_is_left_alone():
    model = Vectors()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    check_network(model, x)
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
