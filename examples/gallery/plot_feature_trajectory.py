r"""
A digit on its way through a Hamiltonian network
================================================

The layers of a network are moments in time. A small Hamiltonian network is trained on 8 x 8 digits for a few seconds;
then one digit is followed through the steps of its evolution: every row is one feature map, every column one time.
"""

import matplotlib.pyplot as plt
import torch
from torch.nn import functional as F

import evolvent as ev
from evolvent import data

torch.manual_seed(0)
digits = data.load("digits")
preprocess = data.Preprocess(data.per_pixel_mean(digits.train.images))
h = 0.25
model = ev.create_model(
    "hamiltonian", in_channels=1, image_size=8, channels=(16,), blocks=8, step_size=h, head_pool=4
)

# %%
# Training is a plain PyTorch loop.

batches = data.Batches(data.ImageSource(digits.train), batch_size=50)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=2e-4)
for epoch in range(8):
    for batch in batches.epoch(epoch):
        optimizer.zero_grad()
        F.cross_entropy(model(preprocess(batch.images)), batch.labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

model.eval()
with torch.no_grad():
    hits = model(preprocess(digits.test.images)).argmax(1) == digits.test.labels
print(f"test accuracy {hits.float().mean():.1%}")

# %%
# ``trajectories`` gives, for each evolution in the network, the features at all times :math:`0, h, \dots, T`.
# The channels are two halves, :math:`y` and :math:`z`, that drive each other; two maps of each are shown.

image = digits.test.images[:1]
with torch.no_grad():
    (trajectory,) = model.trajectories(preprocess(image))
in_time = torch.cat(trajectory)  # (times, channels, height, width)
shown = {"$y_0$": 0, "$y_4$": 4, "$z_0$": 8, "$z_4$": 12}

grid = {"nrows": len(shown), "ncols": len(in_time) + 1}
fig, axes = plt.subplots(**grid, figsize=(10.5, 4.4), layout="constrained")
for row, (name, channel) in enumerate(shown.items()):
    limit = in_time[:, channel].abs().max()
    axes[row, 1].set_ylabel(name, rotation=0, ha="right", va="center")
    for ax, features in zip(axes[row, 1:], in_time[:, channel], strict=True):
        picture = ax.imshow(features.numpy(), cmap="RdBu_r", vmin=-limit, vmax=limit)
    fig.colorbar(picture, ax=axes[row, -1], shrink=0.8)
for time in range(len(in_time)):
    axes[0, time + 1].set_title(f"$t = {time * h:g}$", fontsize=9)
axes[0, 0].imshow(image[0, 0].numpy(), cmap="gray_r")
axes[0, 0].set_title("image", fontsize=9)
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
plt.show()
