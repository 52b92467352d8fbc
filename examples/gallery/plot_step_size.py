r"""
Order of convergence
====================

A method of order :math:`p` has an error that falls like :math:`h^p` when the same time :math:`T` is reached with
smaller steps. Here that is measured for the oscillator :math:`y' = z,\; z' = -y`, whose solution is known.

Euler is of order one. Verlet, as networks use it with both parts at the same time, is of order one too. Its first-order
error is of a harmless kind: shift :math:`z` by half a step before the first step and back after the last, and the very
same steps are of order two.
"""

import math

import matplotlib.pyplot as plt
import torch

import evolvent as ev


class Oscillator(ev.dynamics.PartitionedDynamics):
    """y' = z, z' = -y."""

    def dy(self, t, z):
        return z

    def dz(self, t, y):
        return -y


oscillator, T = Oscillator(), 2.0
start = (torch.ones(1, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64))
exact = (math.cos(T), -math.sin(T))


def solve(method, steps, staggered=False):
    """The state at T; staggered: z lives at half steps in between."""
    h = T / steps
    y, z = start
    if staggered:
        z = z + h / 2 * oscillator.dz(0.0, y)
    y, z = ev.Evolution(oscillator, method, steps=steps, step_size=h)((y, z))
    if staggered:
        z = z - h / 2 * oscillator.dz(T, y)
    return y, z


def error(state):
    return math.hypot(state[0].item() - exact[0], state[1].item() - exact[1])


# %%
# The slope between neighbouring step sizes is the observed order.

counts = [2**k for k in range(3, 11)]
curves = {
    "Euler": [error(solve(ev.integrators.Euler(), n)) for n in counts],
    "Verlet": [error(solve(ev.integrators.Verlet(), n)) for n in counts],
    "Verlet, staggered": [error(solve(ev.integrators.Verlet(), n, staggered=True)) for n in counts],
}
for name, errors in curves.items():
    print(f"{name:18s} observed order {math.log2(errors[-2] / errors[-1]):.3f}")

# %%

sizes = [T / n for n in counts]
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for (name, errors), marker in zip(curves.items(), "osD", strict=True):
    ax.loglog(sizes, errors, marker=marker, markersize=5, label=name)
ax.loglog(sizes, [0.25 * h for h in sizes], color="0.6", linestyle=":", label="slope 1")
ax.loglog(sizes, [0.02 * h**2 for h in sizes], color="0.6", linestyle="--", label="slope 2")
ax.set(xlabel="step size $h$", ylabel="error at $T = 2$", title="Error against step size")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
