"""What each PyTorch operation does to tensors with derivatives. Importing this package fills the table."""

from evolvent.equations.rules import arithmetic, elementwise, linear_maps, normalisation, selection
from evolvent.equations.rules.elementwise import register_elementwise

__all__ = ["arithmetic", "elementwise", "linear_maps", "normalisation", "register_elementwise", "selection"]
