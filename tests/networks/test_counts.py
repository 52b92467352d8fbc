"""Parameter counts: of every registered network, and against Bohn, Griebel, Kannan 2021, Table 1 and Table 3."""

import pytest

from evolvent import create_model, list_models
from evolvent.analysis import count_parameters

REGISTERED = {
    "antisymmetric": 981_866,
    "appnp": 92_231,
    "cnn": 1_075_162,
    "diff_resnet": 18,
    "diff_resnet_fewshot": 527_877,
    "diff_resnet_graph": 2_064_960,
    "epdo": 233_622,
    "epdo_c16": 233_622,
    "epdo_c16_quotient": 220_918,  # He et al. 2023, Table 2, without widths: 229K
    "epdo_c8": 60_350,
    "epdo_d16_c16": 567_382,  # He et al. 2023, Table 2, without widths: 525K
    "equivariant_hamiltonian": 33_530,
    "equivariant_parabolic": 66_074,
    "fractional_hamiltonian74": 558_762,
    "gat": 92_373,
    "gcn": 92_231,
    "graphsage": 184_391,
    "graphsage_maxpool": 192_711,
    "hamiltonian": 504_938,
    "hamiltonian1202": 7_976_810,
    "hamiltonian74": 504_938,
    "hyperbolic": 984_362,
    "hyperbolic_wavelet": 651_042,
    "imex": 995_594,
    "lean5_hamiltonian": 87_242,
    "lean5_hyperbolic": 142_730,
    "lean5_parabolic": 142_730,
    "lean_hamiltonian": 92_234,
    "lean_hyperbolic": 147_722,
    "lean_parabolic": 147_722,
    "leapfrog": 983_114,
    "lm_resnet": 269_729,
    "log_hamiltonian74": 558_762,
    "mobilenetv3_isometric": 1_007_178,
    "multigrid_hamiltonian": 442_538,
    "multigrid_hyperbolic": 546_122,
    "multigrid_parabolic": 546_122,
    "no_diff_resnet": 18,
    "nonlocal_hamiltonian": 558_762,
    "nonlocal_hamiltonian74": 558_762,
    "odenet": 208_266,
    "odenet_mobile": 1_007_562,
    "parabolic": 984_362,
    "bsde": 34_531,
    "perceptron": 1_981,
    "otflow": 1_229,
    "velocity": 1_250,
    "point_resnet": 1_170,
    "preresnet": 569_370,
    "preresnet20": 569_370,
    "prnet_mnist": 212_368,
    "prnet_mobile": 1_009_098,
    "resnet": 658_586,
    "resnet26": 13_715_784,
    "resnet26_epdo": 9_073_540,
    "resnet26_steerable_pdo": 14_505_616,
    "resnet44": 658_586,
    "resnet_fewshot": 527_877,
    "resnet_graph": 2_064_960,
    "resnet_mnist": 576_778,
    "riesz_hamiltonian74": 558_762,
    "rknet": 208_266,
    "steerable_pdo": 941_958,
    "steerable_pdo_c16": 941_958,
    "steerable_pdo_c8": 53_758,
}


def test_every_registered_network_is_counted():
    assert sorted(REGISTERED) == list_models()


@pytest.mark.parametrize(("name", "count"), REGISTERED.items())
def test_registered_network_is_built_with_its_parameters(name, count):
    assert count_parameters(create_model(name)) == count


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("hamiltonian74", {}, 504_938),
        ("hamiltonian74", {"num_classes": 100}, 666_308),
        ("hamiltonian74", {"image_size": 96, "head_pool": 8}, 497_098),
        ("hamiltonian74", {"num_classes": 20, "readout": "segmentation"}, 489_268),
        ("hamiltonian74", {"bias": True, "norm": "batch"}, 508_682),
        ("resnet44", {}, 658_586),
        ("cnn", {"in_channels": 1}, 1_073_162),  # He et al. 2023, Table 2: 1.1M
        ("odenet", {"downsampling": "residual"}, 232_970),
        ("rknet", {"downsampling": "residual"}, 232_970),
        ("resnet_mnist", {"downsampling": "residual"}, 601_482),  # Kim et al. 2022, Table 2: 0.60M
        ("mobilenetv3_isometric", {"num_classes": 200}, 1_201_928),  # Kim et al. 2022, Table 3: 1.21M
        ("mobilenetv3_isometric", {"num_classes": 200, "multiplier": 2}, 4_296_008),  # 4.30M
        ("odenet_mobile", {"num_classes": 200}, 1_202_312),  # 1.36M
        ("odenet_mobile", {"num_classes": 200, "multiplier": 2}, 4_296_776),  # 4.90M
        ("prnet_mobile", {"num_classes": 200}, 1_203_848),  # 1.36M
        ("prnet_mobile", {"num_classes": 200, "multiplier": 2}, 4_299_080),  # 4.56M
        ("preresnet20", {}, 569_370),
        ("preresnet20", {"num_classes": 100}, 577_740),
    ],
)
def test_parameters(name, options, count):
    assert count_parameters(create_model(name, **options)) == count
