r"""
Diffusion draws subclasses together
===================================

Points of four discs, two of each class, diffuse on the graph of their nearest neighbours. Each disc is a connected
component of the graph and shrinks to a point. The ratio of the least distance :math:`L` between discs to their largest
diameter :math:`D` grows exponentially, at a rate that the spectral gap of the graph predicts (Wang, Dou, Bao, Shi 2024,
Proposition 1).
"""

import math

import matplotlib.pyplot as plt

from evolvent.analysis import parallel_hyperplanes, predicted_rate, separating_network, separation
from evolvent.data import PointCloud
from evolvent.graphs import gaussian_affinity, normalise
from evolvent.operators import GraphDiffusion

cloud = PointCloud(kind="xor", points=200, noise=0.0)
(x, classes), discs = cloud.draw(seed=0), cloud.subclasses()
weights = normalise(gaussian_affinity(x.double(), 20, sigma=0.5), "row")
diffusion = GraphDiffusion(weights)

path = [x.double()]
for _ in range(200):
    path.append(diffusion.flow(path[-1], 1.0))

# %%
# The points after 0, 1, 10 and 20 steps.

fig, axes = plt.subplots(1, 4, figsize=(10, 2.8), layout="constrained", sharex=True, sharey=True)
for ax, k in zip(axes, (0, 1, 10, 20), strict=True):
    ax.scatter(*path[k].T, c=classes, cmap="coolwarm", s=6)
    ax.set(title=f"{k} steps", xticks=[], yticks=[], aspect="equal")
plt.show()

# %%
# :math:`L / D` of squared lengths, and the growth that is predicted.

ratios = [separation(u, discs).ratio for u in path]
rate = predicted_rate(weights)
print(f"predicted rate {rate:.4f}, measured {math.log(ratios[200] / ratios[100]) / 100:.4f}")

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.semilogy(ratios, label="measured")
ax.semilogy([ratios[100] * math.exp(rate * (k - 100)) for k in range(201)], linestyle=":", label="predicted growth")
ax.set(xlabel="diffusion steps", ylabel="$L / D$")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

# %%
# No parallel lines separate the four discs at first. After a few steps some do, and then a residual network can be
# written down that makes the two classes linearly separable (Theorem 1).

first = next(k for k, u in enumerate(path) if parallel_hyperplanes(u, discs) is not None)
network = separating_network(path[20], discs, classes, width=2)
features = network.forward_features(path[20]).detach()
print(f"parallel lines from step {first} on; a network of {sum(p.numel() for p in network.parameters())} parameters")

fig, axes = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained")
for ax, u, title in zip(axes, (path[20], features), ("after diffusion", "after the network"), strict=True):
    ax.scatter(*u.T, c=classes, cmap="coolwarm", s=8)
    ax.set(title=title, xticks=[], yticks=[])
plt.show()
