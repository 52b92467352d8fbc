"""Read-only diagnostics."""

from evolvent.analysis.cost import activation_bytes, count_multiply_adds, count_parameters

__all__ = ["activation_bytes", "count_multiply_adds", "count_parameters"]
