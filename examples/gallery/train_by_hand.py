"""
Training by hand
================

Networks are plain ``nn.Module`` objects, so that a plain PyTorch loop trains them. Nothing else of the library is
needed.
"""

import torch
from torch.nn import functional as F

import evolvent as ev
from evolvent import data

# %%
# The data set ships with scikit-learn. Images are bytes in memory; ``Preprocess`` subtracts the mean training image.

torch.manual_seed(0)
digits = data.load("digits")
preprocess = data.Preprocess(data.per_pixel_mean(digits.train.images))
batches = data.Batches(data.ImageSource(digits.train), batch_size=50, seed=0)

# %%
# Options of a family are keyword arguments.

model = ev.create_model("hamiltonian", in_channels=1, image_size=8, channels=(16, 32), blocks=2, step_size=0.2)
epochs, peak = 10, 0.1
optimizer = torch.optim.SGD(model.parameters(), lr=peak, momentum=0.9, weight_decay=2e-4)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=epochs * len(batches))


def accuracy():
    model.eval()
    with torch.no_grad():
        predicted = model(preprocess(digits.test.images)).argmax(1)
    model.train()
    return (predicted == digits.test.labels).float().mean().item()


# %%
# The order of an epoch is a function of the seed and the epoch's number.

for epoch in range(epochs):
    for batch in batches.epoch(epoch):
        loss = F.cross_entropy(model(preprocess(batch.images)), batch.labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    print(f"epoch {epoch + 1:2d}  loss {loss.item():.3f}  test accuracy {accuracy():.1%}")

# %%
# A saved model is a folder with ``config.yaml`` and ``model.safetensors``.

ev.save(model, "runs/digits-model")
again = ev.load("runs/digits-model")
images = preprocess(digits.test.images)
assert torch.equal(again(images), model.eval()(images))
