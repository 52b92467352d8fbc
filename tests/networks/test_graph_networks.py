"""Networks for nodes: stacks are single networks, Diff-ResNet is its equation, peers agree where they are installed."""

import gc
import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import evolvent as ev
from evolvent.dynamics import ConvectionDiffusion
from evolvent.errors import ConfigError, DataError, ShapeError
from evolvent.graphs import SparseMatrix, laplacian, normalise
from evolvent.networks import GraphNetwork, list_models, model_entry
from evolvent.networks.building import GraphOptions, StackedLinear, kept_for, part_of
from evolvent.networks.graph_baselines import _NeighbourMaximum
from evolvent.operators.graph_diffusion import UnstableDiffusionWarning
from evolvent.testing import check_network

NETWORKS = [name for name in list_models() if issubclass(model_entry(name).options, GraphOptions)]
SMALL = {"in_features": 9, "num_classes": 3}


def graph(nodes=14, share=0.25, seed=0, dtype=torch.float64):
    """Undirected, with isolated nodes at times."""
    drawn = torch.rand(nodes, nodes, generator=torch.Generator().manual_seed(seed)) < share
    upper = drawn.triu(1).to(dtype)
    return SparseMatrix.from_dense(upper + upper.T)


def features(nodes=14, width=9, seed=1, share=0.4):
    generator = torch.Generator().manual_seed(seed)
    dense = torch.rand(nodes, width, generator=generator, dtype=torch.float64)
    return SparseMatrix.from_dense(dense * (torch.rand(nodes, width, generator=generator) < share))


def make(name, **options):
    torch.manual_seed(0)
    return ev.create_model(name, **SMALL | options).double()


def test_which_there_are():
    assert NETWORKS == ["appnp", "diff_resnet_graph", "gat", "gcn", "graphsage", "graphsage_maxpool", "resnet_graph"]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("training", [False, True])
def test_an_initialisation_of_a_stack_is_a_network_of_its_own(name, training):
    silent = {"dropout": 0.0} | ({"attention_dropout": 0.0} if name == "gat" else {})
    stack, x, A = make(name, initialisations=3, **silent).train(training), features(), graph()
    answers = stack(x, A)
    assert answers.shape == (14, 3, 3)
    answers.square().mean(dim=(0, 2)).sum().backward()
    for k in range(3):
        single = stack.initialisation(k)
        torch.testing.assert_close(single(x, A), answers[:, k])
        single(x, A).square().mean().backward()
        for p, q in zip(stack.parameters(), single.parameters(), strict=True):
            torch.testing.assert_close(part_of(p.grad, 3)[..., k, :], q.grad.view_as(part_of(p.grad, 3)[..., k, :]))
    with pytest.raises(ConfigError, match=r"0 \.\.\. 2, got 3"):
        stack.initialisation(3)


@pytest.mark.parametrize("name", NETWORKS)
def test_sparse_and_dense_features_give_the_same(name):
    network, x, A = make(name, initialisations=2).eval(), features(), graph()
    torch.testing.assert_close(network(x, A), network(x.dense(), A))
    torch.testing.assert_close(network.forward_features(x, A), network.forward_features(x.dense(), A))


@pytest.mark.parametrize("name", NETWORKS)
def test_stacks_keep_the_contract(name):
    check_network(name, torch.randn(14, 9), extra=(graph(),), initialisations=2, **SMALL)


@settings(max_examples=25)
@given(st.sampled_from(NETWORKS), st.integers(2, 8), st.floats(0, 1), st.integers(0, 99))
def test_answers_follow_the_numbering_of_the_nodes(name, nodes, share, seed):
    """Any graph, also without edges: the order in which nodes are counted changes nothing."""
    network, A, x = make(name).eval(), graph(nodes, share, seed), features(nodes).dense()
    order = torch.randperm(nodes)
    turned = SparseMatrix.from_dense(A.dense()[order][:, order])
    found = network(x, A)
    assert found.isfinite().all()
    torch.testing.assert_close(network(x[order], turned), found[order])


@pytest.mark.parametrize("name", NETWORKS)
def test_misfits_are_refused(name):
    network = make(name)
    with pytest.raises(ShapeError, match=r"9 features.*\(14, 8\)"):
        network(torch.zeros(14, 8), graph())
    with pytest.raises(ShapeError, match=r"as many nodes, got \(14, 14\)"):
        network(torch.zeros(13, 9), graph())


@pytest.mark.parametrize("form", [lambda x: x, SparseMatrix.from_dense])
def test_features_that_are_no_numbers_are_refused(form):
    x, wrong = torch.rand(14, 9), torch.rand(14, 9)
    wrong[3, 2] = torch.nan
    net = ev.create_model("gcn", **SMALL)
    with pytest.raises(DataError, match="NaN or infinite"):
        net(form(wrong), graph(dtype=torch.float32))
    huge = form(x * 3e37)  # whose sum overflows
    assert net(huge, graph(dtype=torch.float32)).shape == (14, 3)


@pytest.mark.parametrize(
    "convert", [lambda W: W.dense(), lambda W: W.to_scipy(), lambda W: torch.stack([W.rows, W.columns])]
)
def test_a_graph_of_another_kind_is_refused(convert):
    with pytest.raises(ShapeError, match="a graph is a SparseMatrix"):
        make("gcn")(features(), convert(graph()))


def test_a_directed_graph_is_refused():
    directed = SparseMatrix.from_dense(torch.eye(14).roll(1, 0))
    for name in ("gcn", "diff_resnet_graph", "appnp"):
        with pytest.raises(ev.errors.DataError, match="undirected"):
            make(name)(features(), directed)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("flow", ["explicit", "implicit"])
@pytest.mark.parametrize("h", [1.0, 0.5])
def test_diff_resnet_is_its_equation(layers, flow, h):
    options = {"gamma": 0.2 / h, "diffusion_steps": 4, "flow": flow, "dropout": 0.0}
    network = make("diff_resnet_graph", layers=layers, step_size=h, **options)
    A, x = graph(), features().dense()
    L, identity = laplacian(normalise(A, "gcn")).dense(), torch.eye(14, dtype=torch.float64)
    step = identity - 0.2 * L if flow == "explicit" else torch.linalg.inv(identity + 0.2 * L)
    u = x
    for block in network.evolution.dynamics:
        linear = block.convection.linear
        u = torch.linalg.matrix_power(step, 4) @ (u + h * F.relu(u @ linear.weight + linear.bias))
    torch.testing.assert_close(network.forward_features(x, A), u, atol=1e-8, rtol=1e-8)
    expected = u @ network.head.weight + network.head.bias
    for found in (network.train()(x, A), network.eval()(x, A), network(features(), A)):
        torch.testing.assert_close(found, expected, atol=1e-8, rtol=1e-8)


def test_wide_features_go_in_panels():
    network = make("diff_resnet_graph", in_features=300, initialisations=2, gamma=0.1)
    x, A = features(width=300), graph()
    expected = network.eval().head(network._features(x, A))
    torch.testing.assert_close(network(x, A), expected)


@pytest.mark.parametrize("sampled", [None, 2])
def test_a_lift_comes_first(sampled):
    network = make("diff_resnet_graph", width=5, layers=2, initialisations=2, gamma=0.1, dropout_features=sampled)
    x, A = features(), graph()
    assert network.forward_features(x, A).shape == (14, 2, 5)
    torch.testing.assert_close(network.eval()(x, A), network.head(network._features(x, A)))
    network.train()(x, A).square().sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in network.parameters())


def test_without_diffusion_the_graph_is_not_seen():
    network, x = make("resnet_graph").eval(), features()
    torch.testing.assert_close(network(x, graph(seed=3)), network(x, graph(seed=4)), rtol=0, atol=0)
    assert isinstance(network.evolution.dynamics_at(0), ConvectionDiffusion)


def dropping(place="after", sampled=None, **options):
    return make(
        "diff_resnet_graph", in_features=60, dropout=0.3, gamma=0.3, diffusion_steps=3, dropout_place=place,
        dropout_features=sampled, **options,
    )  # fmt: skip


@pytest.mark.parametrize("place", ["after", "before"])
@pytest.mark.parametrize("sampled", [None, 20, 60, 1000])
def test_dropout_keeps_the_mean(place, sampled):
    network, x, A = dropping(place, sampled), features(width=60), graph()
    expected = network.eval()(x, A)
    with torch.no_grad():
        many = torch.stack([network.train()(x, A) for _ in range(300)])
    error = many.std(dim=0) / 300**0.5
    assert many.std() > 0.01
    assert ((many.mean(dim=0) - expected).abs() < 5 * error + 1e-12).all()


def test_a_sample_of_features_keeps_the_covariance():
    """Dropout drawn in some features and scaled varies as dropout drawn in all does."""
    x, A = features(width=60), graph()
    with torch.no_grad():
        networks = dropping("after", None), dropping("after", 20)
        networks[1].load_state_dict(networks[0].state_dict())
        every, some = (torch.stack([n.train()(x, A) for _ in range(1500)]).flatten(1) for n in networks)
    one, other = (many.T.cov() for many in (every, some))
    assert other.trace() == pytest.approx(one.trace().item(), rel=0.15)
    assert (one * other).sum() > 0.9 * one.norm() * other.norm()


def test_every_feature_drops_independently():
    """Masks of one feature at different steps and nodes are independent, though all come from one draw."""
    from evolvent.dynamics.convection_diffusion import _Masks

    like = torch.zeros(6, 5, dtype=torch.float64)
    drawn = []
    for seed in range(4000):
        mask = _Masks(seed, 7, 0.5).draw(like, 0)
        drawn.append(torch.stack([mask(step)[:, 2] for step in range(7)]).flatten())
    found = torch.stack(drawn).T.corrcoef()
    assert (found - torch.eye(42, dtype=torch.float64)).abs().max() < 0.08


def test_unstable_steps_need_to_be_allowed():
    A = SparseMatrix.from_dense(torch.ones(14, 14) - torch.eye(14))
    with pytest.raises(ConfigError, match="too large for explicit diffusion on this graph"):
        make("diff_resnet_graph", gamma=3.0)(features(), A)
    with pytest.warns(UnstableDiffusionWarning):
        make("diff_resnet_graph", gamma=3.0, diffusion_steps=2, allow_unstable=True)(features(), A)


def test_gradients_of_the_maximum_over_neighbours():
    u = torch.rand(14, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: _NeighbourMaximum.apply(v, graph()), u)


@pytest.mark.parametrize("name", ["gat", "gcn", "graphsage_maxpool"])
def test_gradients(name):
    network, x, A = make(name, dropout=0.0).eval(), features().dense(), graph()
    parameters = dict(network.named_parameters())
    names, values = list(parameters), tuple(parameters.values())

    def answer(*given):
        return torch.func.functional_call(network, dict(zip(names, given, strict=True)), (x, A))

    assert torch.autograd.gradcheck(answer, values, atol=1e-6, fast_mode=True)


def test_what_is_made_of_a_graph_lives_as_long_as_the_graph():
    A, made = graph(), []
    for _ in range(2):
        kept_for(A, "test", lambda g: made.append(len(g)) or torch.zeros(1))
    assert made == [14]
    alive = weakref.ref(A)
    del A
    gc.collect()
    assert alive() is None


def test_linear_maps_of_a_stack():
    maps, x = StackedLinear(4, 2, 3).double(), torch.randn(5, 3, 4, dtype=torch.float64)
    found = maps(x)
    for k in range(3):
        weight, bias = part_of(maps.weight, 3)[:, k], part_of(maps.bias, 3)[k]
        torch.testing.assert_close(found[:, k], x[:, k] @ weight + bias)
    shared = maps(x[:, 0])
    torch.testing.assert_close(shared[:, 0], found[:, 0])


def test_deep_networks_use_the_strategies_of_gradients():
    network, x, A = make("diff_resnet_graph", layers=4, dropout=0.0, gamma=0.1).train(), features(), graph()
    plain = torch.autograd.grad(network(x, A).square().sum(), list(network.parameters()))
    ev.set_gradient(network, "checkpoint:2")
    for one, other in zip(
        torch.autograd.grad(network(x, A).square().sum(), list(network.parameters())), plain, strict=True
    ):
        torch.testing.assert_close(one, other)


def _pyg_weights(ours: GraphNetwork, theirs, names):
    """Copy our weights into a network of PyTorch Geometric, transposed; ``names`` are theirs in our order."""
    parameters = dict(theirs.named_parameters())
    for p, name in zip(ours.parameters(), names, strict=True):
        value = p.detach() if p.ndim == 1 or "att" in name else p.detach().T
        parameters[name].data = value.reshape(parameters[name].shape).clone()


def test_against_pytorch_geometric():
    nn = pytest.importorskip("torch_geometric.nn")
    x, A = features().dense(), graph()
    edges = torch.stack([A.columns, A.rows])

    def two(kind, *options, inner=8, **more):
        return torch.nn.ModuleList([kind(9, inner, *options, **more), kind(inner, 3, *options, **more)]).double()

    cases = {
        "gcn": (make("gcn", width=8), two(nn.GCNConv), ["0.bias", "0.lin.weight", "1.bias", "1.lin.weight"]),
        "graphsage": (
            make("graphsage", width=8), two(nn.SAGEConv),
            [f"{k}.{name}" for k in range(2) for name in ("lin_r.weight", "lin_l.bias", "lin_l.weight")],
        ),
    }  # fmt: skip
    for ours, theirs, names in cases.values():
        _pyg_weights(ours, theirs, names)
        expected = theirs[1](theirs[0](x, edges).relu(), edges)
        torch.testing.assert_close(ours.eval()(x, A), expected)
    gat = make("gat", width=4, heads=2)
    theirs = torch.nn.ModuleList([nn.GATConv(9, 4, 2), nn.GATConv(8, 3, 1)]).double()
    order = [f"{k}.{name}" for k in range(2) for name in ("att_dst", "att_src", "bias", "lin.weight")]
    _pyg_weights(gat, theirs, order)
    torch.testing.assert_close(gat.eval()(x, A), theirs[1](F.elu(theirs[0](x, edges)), edges))
    appnp = make("appnp", width=8).eval()
    start = appnp.layers[1](appnp.layers[0](x, A).relu(), A)[:, 0]
    torch.testing.assert_close(appnp(x, A), nn.APPNP(10, 0.1)(start, edges))
