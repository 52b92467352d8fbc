"""A tiny recipe on the digits that ship with scikit-learn."""

import pytest

from evolvent.experiments.recipe import Recipe, overlay


@pytest.fixture
def tiny():
    """Builds a recipe that trains in a second; keyword arguments are laid over it."""

    def build(**changes) -> Recipe:
        values = {
            "name": "tiny",
            "title": "Tiny",
            "question": "Does it run?",
            "model": {
                "name": "hamiltonian",
                "options": {"channels": [4, 8], "blocks": 1, "step_size": 0.2, "dropout": 0.3},
            },
            "data": {"name": "digits", "batch_size": 48, "augment": {"pad": 1, "flip": True}},
            "task": {"smoothness": 1e-4, "label_smoothing": 0.1},
            "optimizer": {"lr": 0.05},
            "schedule": {"name": "cosine", "warmup": 0.5},
            "training": {"epochs": 2},
        }
        return Recipe.read(overlay(values, changes), "test")

    return build
