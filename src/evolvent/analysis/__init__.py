"""Read-only diagnostics: they compute and hand back small records, and leave the model as it was."""

from evolvent.analysis.blobs import Blobs, draw_blobs, pixel_grid
from evolvent.analysis.block_damping import BlockDamping, block_damping, high_frequency_share
from evolvent.analysis.coefficient_maps import CoefficientMaps, LayerCoefficients, coefficient_maps
from evolvent.analysis.cost import activation_bytes, count_all_pairs, count_multiply_adds, count_parameters
from evolvent.analysis.diffusion_decay import DiffusionDecay, diffusion_decay, diffusion_matrix
from evolvent.analysis.energy import EnergyDrift, energy_drift
from evolvent.analysis.equivariance import Equivariance, LayerEquivariance, measure_equivariance
from evolvent.analysis.feature_clusters import FeatureClusters, feature_clusters
from evolvent.analysis.field_of_view import FieldOfView, fields_of_view, measure_field_of_view
from evolvent.analysis.growth import Growth, perturbation_growth
from evolvent.analysis.inversion import Inversion, invert
from evolvent.analysis.layer_cost import LayerCost, LayerTable, layer_costs
from evolvent.analysis.layer_features import features_at, find_layer
from evolvent.analysis.reconstruction import Reconstruction, measure_reconstruction
from evolvent.analysis.robustness import (
    FGSM,
    PGD,
    AttackWarning,
    Auto,
    MaskingAudit,
    Robustness,
    audit_masking,
    measure_robustness,
)
from evolvent.analysis.rotation import RotationAccuracy, rotation_accuracy
from evolvent.analysis.separating_network import SeparatingNetwork, separating_network
from evolvent.analysis.separation import (
    ParallelHyperplanes,
    Separation,
    StepNorms,
    measured_rate,
    parallel_hyperplanes,
    predicted_rate,
    separation,
    separation_bound,
    step_norms,
)
from evolvent.analysis.spectrum import Spectrum, spectra, spectrum_at
from evolvent.analysis.stability import EvolutionStability, measure_stability
from evolvent.analysis.step_advice import step_advice
from evolvent.analysis.step_size import StabilityWarning, StepBound, check_step_size, largest_stable_step
from evolvent.analysis.weight_spectrum import (
    MapSpectrum,
    WeightSpectrum,
    map_spectra,
    nonlocal_spectra,
    weight_spectrum,
)

__all__ = [
    "FGSM",
    "PGD",
    "AttackWarning",
    "Auto",
    "Blobs",
    "BlockDamping",
    "CoefficientMaps",
    "DiffusionDecay",
    "EnergyDrift",
    "Equivariance",
    "EvolutionStability",
    "FeatureClusters",
    "FieldOfView",
    "Growth",
    "Inversion",
    "LayerCoefficients",
    "LayerCost",
    "LayerEquivariance",
    "LayerTable",
    "MapSpectrum",
    "MaskingAudit",
    "ParallelHyperplanes",
    "Reconstruction",
    "Robustness",
    "RotationAccuracy",
    "SeparatingNetwork",
    "Separation",
    "Spectrum",
    "StabilityWarning",
    "StepBound",
    "StepNorms",
    "WeightSpectrum",
    "activation_bytes",
    "audit_masking",
    "block_damping",
    "check_step_size",
    "coefficient_maps",
    "count_all_pairs",
    "count_multiply_adds",
    "count_parameters",
    "diffusion_decay",
    "diffusion_matrix",
    "draw_blobs",
    "energy_drift",
    "feature_clusters",
    "features_at",
    "fields_of_view",
    "find_layer",
    "high_frequency_share",
    "invert",
    "largest_stable_step",
    "layer_costs",
    "map_spectra",
    "measure_equivariance",
    "measure_field_of_view",
    "measure_reconstruction",
    "measure_robustness",
    "measure_stability",
    "measured_rate",
    "nonlocal_spectra",
    "parallel_hyperplanes",
    "perturbation_growth",
    "pixel_grid",
    "predicted_rate",
    "rotation_accuracy",
    "separating_network",
    "separation",
    "separation_bound",
    "spectra",
    "spectrum_at",
    "step_advice",
    "step_norms",
    "weight_spectrum",
]
