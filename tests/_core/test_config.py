import pytest
import torch
from pydantic import Field, ValidationError

from evolvent._core.config import Config
from evolvent._core.errors import ConfigError, UnknownNameError


class Wheel(Config):
    radius: float = Field(default=1.0, gt=0)
    spokes: int = 20


class Engine(Config):
    power: float
    fuel: str = "petrol"


class Car(Config):
    name: str
    engine: Engine | None = None
    wheel: Wheel = Wheel()
    spares: list[Wheel] = []
    drivers: dict[str, Engine] = {}
    tags: dict[str, int] = {}


def message(values: dict, kind: type[Exception]) -> str:
    with pytest.raises(kind) as error:
        Car.read(values, "car.yaml")
    assert "\n" not in str(error.value)
    return str(error.value)


def test_good_values_are_read_and_frozen():
    car = Car.read({"name": "a", "wheel": {"radius": 2}, "spares": [{}]}, "car.yaml")
    assert car.wheel.radius == 2.0
    with pytest.raises(ValidationError):
        car.name = "b"


@pytest.mark.parametrize(
    ("values", "guess", "known"),
    [
        ({"nane": "a"}, "'name'", "engine"),
        ({"wheel": {"radus": 1}}, "'wheel.radius'", "radius, spokes"),
        ({"engine": {"power": 1, "fule": "x"}}, "'engine.fuel'", "fuel, power"),
        ({"spares": [{}, {"spoke": 1}]}, "'spares.1.spokes'", "radius, spokes"),
        ({"drivers": {"name": {"power": 1, "feul": "x"}}}, "'drivers.name.fuel'", "fuel, power"),
    ],
    ids=["top", "nested", "optional", "list", "mapping"],
)
def test_unknown_key_is_answered_with_the_nearest(values, guess, known):
    text = message({"name": "a", **values}, UnknownNameError)
    assert "car.yaml" in text
    assert f"Did you mean {guess}" in text
    assert known in text


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"name": 3}, "name"),
        ({"name": "a", "wheel": {"radius": "wide"}}, "wheel.radius"),
        ({"name": "a", "wheel": {"radius": -1}}, "wheel.radius"),
        ({"name": "a", "wheel": 5}, "wheel"),
        ({"name": "a", "tags": {"x": "y"}}, "tags.x"),
    ],
)
def test_wrong_value_is_one_line_with_source_and_key(values, key):
    text = message(values, ConfigError)
    assert text.startswith(f"car.yaml: {key}: ")
    assert ", got " in text


def test_missing_key_is_named():
    assert message({}, ConfigError) == "car.yaml: the key 'name' is missing."
    assert message({"name": "a", "engine": {}}, ConfigError) == "car.yaml: the key 'engine.power' is missing."


def test_messages_stay_short_whatever_is_passed():
    for values, error in [({"name": ["x" * 5000]}, ConfigError), ({"name": "a", "x" * 5000: 1}, UnknownNameError)]:
        text = message(values, error)
        assert len(text) < 300
        assert "\n" not in text


def test_tensors_are_told_by_their_shape():
    assert message({"name": torch.full((3,), 0.123)}, ConfigError).endswith("got float32 of shape (3,).")
