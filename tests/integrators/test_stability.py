"""False claims of stability limits are found."""

import pytest
import torch

from evolvent.errors import ConfigError
from evolvent.integrators import RK4, Euler, ImexEuler, Leapfrog
from evolvent.testing import check_stability


class Boastful(RK4):
    imaginary_stability = 3.0


class Modest(Euler):
    real_stability = 1.0


class ModestLeapfrog(Leapfrog):
    imaginary_stability = 0.0


class Misplaced(ImexEuler):
    real_stability = 2.0


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (Boastful, r"Boastful\(\) grows at h=2\.94, claimed imaginary_stability 3"),
        (Modest, r"Modest\(\) is bounded at h=1\.02, claimed real_stability 1"),
        (ModestLeapfrog, r"is bounded at h=0\.5, claimed imaginary_stability 0"),
    ],
)
def test_false_claims_are_found(kind, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_stability(kind())


def test_claims_without_an_equation_are_refused():
    with pytest.raises(ConfigError, match="SplitDynamics hold no test equation for real_stability"):
        check_stability(Misplaced())


def test_limit_of_rk4_is_a_root_of_its_polynomial():
    z = torch.tensor(-RK4.real_stability, dtype=torch.float64)
    assert (1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24).item() == pytest.approx(1, abs=1e-14)
    y = torch.tensor(1j * RK4.imaginary_stability, dtype=torch.complex128)
    assert (1 + y + y**2 / 2 + y**3 / 6 + y**4 / 24).abs().item() == pytest.approx(1, abs=1e-14)
