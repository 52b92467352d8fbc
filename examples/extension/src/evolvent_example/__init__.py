"""An extension of Evolvent. Importing this package registers what it brings."""

from importlib.resources import files

from evolvent.experiments import register_recipes
from evolvent_example import denoising, periodic, ripples, trained_diffusion

__all__ = ["denoising", "periodic", "ripples", "trained_diffusion"]

register_recipes(files(__name__) / "recipes")
