import sys
import types

import pytest

import evolvent
from evolvent._core.lazy import attach


@pytest.fixture
def package(monkeypatch):
    """A package with one submodule that counts how often it is asked."""
    package, home = types.ModuleType("lazy_package"), types.ModuleType("lazy_package.home")
    package.__path__ = []
    home.treasure = object()
    monkeypatch.setitem(sys.modules, "lazy_package", package)
    monkeypatch.setitem(sys.modules, "lazy_package.home", home)
    package.__getattr__, package.__dir__ = attach("lazy_package", ["home"], {"lazy_package.home": ["treasure"]})
    return package


def test_names_come_from_their_home_and_stay(package):
    assert "treasure" not in vars(package)
    assert package.treasure is sys.modules["lazy_package.home"].treasure
    assert "treasure" in vars(package)


def test_modules_are_imported_on_demand(package):
    assert package.home is sys.modules["lazy_package.home"]


def test_unknown_attribute_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="'lazy_package' has no attribute 'gold'"):
        package.gold  # noqa: B018
    assert not hasattr(package, "gold")


def test_dir_lists_all_names(package):
    assert dir(package) == ["home", "treasure"]


def test_everything_evolvent_offers_can_be_had():
    for name in {*evolvent.__all__, *dir(evolvent)}:
        assert getattr(evolvent, name) is not None
