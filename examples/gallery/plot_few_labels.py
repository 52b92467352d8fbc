r"""
Two labels are enough
=====================

Fifteen hundred points lie on two moons, and one point of each has a label. Heat spreads from the labels on the graph of
nearest neighbours, :math:`u' = -D^{-1} L u`, and each point takes the class of which it receives more.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

import evolvent as ev

x, y = make_moons(1500, noise=0.1, random_state=0)
labels = np.full(len(y), -1)
labels[[np.argmax(x[:, 1]), np.argmin(x[:, 1])]] = 0, 1

# %%
# The longer heat spreads, the farther it comes; here the labels alone spread, without any rounds in which points spread
# their classes. The colour is the share of the second class.

times = (3, 30, 300)
fig, axes = plt.subplots(1, len(times), figsize=(10.5, 3.2), layout="constrained", sharey=True)
for ax, time in zip(axes, times, strict=True):
    model = ev.DiffusionClassifier(diffusion_time=time, rounds=0).fit(x, labels)
    share = model.label_distributions_[:, 1]
    points = ax.scatter(*x.T, c=share, cmap="coolwarm", vmin=0, vmax=1, s=6)
    ax.scatter(*x[labels >= 0].T, marker="*", s=180, c="gold", edgecolors="black", zorder=3)
    ax.set_title(f"$t = {time}$", fontsize=10)
fig.colorbar(points, ax=axes, label="share of the second class")

# %%
# With its defaults the classifier also tells the class of points that it has not seen.

model = ev.DiffusionClassifier().fit(x, labels)
print(f"points without label: accuracy {np.mean(model.transduction_ == y):.1%}")
new, truth = make_moons(1000, noise=0.1, random_state=1)
print(f"new points: accuracy {model.score(new, truth):.1%}")
plt.show()
