r"""
Energy under Verlet and under Euler
===================================

Hamiltonian dynamics conserve the energy :math:`H(y, z)`. A time-stepping method need not. Here one and the same
right-hand side, with random weights, is advanced over 1000 steps by two methods of equal order and equal cost, from
eight random states.

Verlet is symplectic: its energy swings about the true value at first and settles near it. Under Euler the energy
grows; a smaller step slows the growth down but does not stop it.
"""

import matplotlib.pyplot as plt
import torch

import evolvent as ev

torch.manual_seed(0)
steps, h = 1000, 0.2
dynamics = ev.dynamics.Hamiltonian(channels=4)
y, z = torch.randn(2, 8, 4, 8, 8)

# %%
# Verlet takes partitioned dynamics, and Euler takes any; the state is the pair :math:`(y, z)` for both.
# ``trajectory`` gives the state at all times, and ``energy`` one number per sample.

ratios = {}
with torch.no_grad():
    for name, method in {"Euler": ev.integrators.Euler(), "Verlet": ev.integrators.Verlet()}.items():
        flow = ev.Evolution(dynamics, method, steps=steps, step_size=h)
        energy = torch.stack([dynamics.energy(*state) for state in flow.trajectory((y, z))])  # (times, samples)
        ratios[name] = energy / energy[0]
        print(f"{name:6s} H(T) / H(0) between {ratios[name][-1].min():.3f} and {ratios[name][-1].max():.3f}")

# %%
# The right picture shows Verlet alone, on a linear scale: the energy's error stays below ten percent.

times = torch.arange(steps + 1) * h
fig, (both, verlet) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
for name, colour in {"Euler": "tab:orange", "Verlet": "tab:blue"}.items():
    first, *_ = both.semilogy(times.numpy(), ratios[name].numpy(), color=colour, linewidth=1)
    first.set_label(name)
both.set(xlabel="time $t$", ylabel="$H(t)\\,/\\,H(0)$", title="Both methods, logarithmic")
both.legend(frameon=False)
verlet.axhline(1, color="0.6", linewidth=1)
verlet.plot(times.numpy(), ratios["Verlet"].numpy(), color="tab:blue", linewidth=0.8)
verlet.set(xlabel="time $t$", ylabel="$H(t)\\,/\\,H(0)$", title="Verlet, linear")
for ax in (both, verlet):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
