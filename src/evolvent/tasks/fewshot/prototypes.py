"""Transformations of an episode's features, and the prototypes of its classes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from evolvent.networks.diff_resnet_fewshot import Reading

_SHARPNESS = 10.0  # of the published code's weights


def centre_and_normalise(x: Tensor, mean: Tensor) -> Tensor:
    r""":math:`x \leftarrow (x - \bar x) / |x - \bar x|`, with :math:`\bar x` the mean over the base classes.

    Shape: (..., d) and (d,) to (..., d).
    """
    return F.normalize(x - mean, dim=-1)


def shift_query(x: Tensor, support: int) -> Tensor:
    """Move the query so that its mean is that of the support.

    Args:
        x: points of episodes, the support first.
        support: how many points that are.

    Shape: (T, N, d) to the same.
    """
    move = x[:, :support].mean(1, keepdim=True) - x[:, support:].mean(1, keepdim=True)
    return torch.cat((x[:, :support], x[:, support:] + move), dim=1)


def prototypes(x: Tensor, way: int, shot: int) -> Tensor:
    r"""Means :math:`m_c` of the support, whose points come class by class.

    Shape: (T, N, d) to (T, way, d).
    """
    return x[:, : way * shot].unflatten(1, (way, shot)).mean(2)


def rectified_prototypes(x: Tensor, way: int, shot: int, reading: Reading = "paper") -> Tensor:
    r"""Means over all points, each counted to the class whose prototype is nearest in angle.

    .. math::
        \text{paper: } \tilde m_c = \sum_{i \in c} \frac{e^{\cos(x_i, m_c)}}{\sum_{j \in c} e^{\cos(x_j, m_c)}} x_i,
        \qquad \text{code: } \tilde m_c = \frac{1}{|c|} \sum_{i \in c} \frac{e^{10 \cos(x_i, m_c)}}{\sum_k e^{10
        \cos(x_i, m_k)}} x_i

    Liu, Song, Qin 2020; Wang et al., appendix E.3.1. The paper prints another factor :math:`1 / |c|`, with which
    prototypes shrink towards zero as classes grow; it is left out. Support points count to their own class.

    Args:
        x: points of episodes, the support first, class by class.
        way, shot: classes, and points of each in the support.
        reading: which of the two.

    Shape: (T, N, d) to (T, way, d).
    """
    cosines = F.normalize(x, dim=-1) @ F.normalize(prototypes(x, way, shot), dim=-1).mT  # (T, N, way)
    member = F.one_hot(cosines.argmax(-1), way).to(x.dtype)
    own = torch.eye(way, dtype=x.dtype, device=x.device).repeat_interleave(shot, 0)
    member[:, : way * shot] = own
    if reading == "paper":
        weights = cosines.exp() * member
        weights = weights / weights.sum(1, keepdim=True)
    else:
        weights = (_SHARPNESS * cosines).softmax(-1) * member / member.sum(1, keepdim=True)
    return weights.mT @ x
