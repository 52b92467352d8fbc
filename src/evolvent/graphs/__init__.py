"""Graphs: sparse matrices, neighbours and weights of points, Laplacians with their spectra and components."""

from evolvent.graphs.affinity import dense_affinity, gaussian_affinity
from evolvent.graphs.components import (
    Connectivity,
    connected_components,
    connectivity,
    largest_component,
    subgraph,
)
from evolvent.graphs.laplacian import Normalisation, check_weights, laplacian, normalise, undirected
from evolvent.graphs.neighbours import Neighbours, Search, check_points, nearest_neighbours
from evolvent.graphs.solve import conjugate_gradients
from evolvent.graphs.sparse import SparseMatrix, check_graph
from evolvent.graphs.spectrum import (
    eigenvalue_bound,
    largest_eigenvalue,
    largest_stable_step,
    smallest_eigenvalues,
)

__all__ = [
    "Connectivity",
    "Neighbours",
    "Normalisation",
    "Search",
    "SparseMatrix",
    "check_graph",
    "check_points",
    "check_weights",
    "conjugate_gradients",
    "connected_components",
    "connectivity",
    "dense_affinity",
    "eigenvalue_bound",
    "gaussian_affinity",
    "laplacian",
    "largest_component",
    "largest_eigenvalue",
    "largest_stable_step",
    "nearest_neighbours",
    "normalise",
    "smallest_eigenvalues",
    "subgraph",
    "undirected",
]
