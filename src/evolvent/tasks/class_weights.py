r"""Weights that let rare classes count for more in a loss over pixels.

With :math:`f_c` the share of class :math:`c` among the labelled pixels of the training images:

* ``"median"``: :math:`w_c = \mathrm{median}(f) / f_c` (Eigen and Fergus 2015, up to their counting per image);
* ``"root"``: :math:`w_c = \sqrt{\mathrm{median}(f) / f_c}`, half way to equal weights;
* ``"log"``: :math:`w_c = 1 / \ln(1.02 + f_c)` (Paszke et al. 2016).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from evolvent.data import ImageSet

ClassWeights: TypeAlias = Literal["median", "root", "log"]


def class_weights(images: ImageSet, kind: ClassWeights) -> Tensor:
    """One weight per class, from the counts of its labels; a class without any has the largest of the others.

    Shape: float32 (classes,).
    """
    counts = torch.tensor(images.class_counts(), dtype=torch.float64)
    shares = counts[counts > 0] / counts.sum()
    weights = torch.zeros_like(counts)
    weights[counts > 0] = 1 / (1.02 + shares).log() if kind == "log" else shares.median() / shares
    weights[counts == 0] = weights.max()
    return (weights.sqrt() if kind == "root" else weights).float()
