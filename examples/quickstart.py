"""From a model to its trained weights: build a job, order it, and load the result.

Run two commands, the first one in a separate terminal; a notebook needs only the first one:

    assay localnet start
    ASSAY_HOME=~/.assay/localnet/consumer python examples/quickstart.py
"""

import torch

import assay

# %% [markdown]
# The data: points in a square, and on which side of its diagonal each point lies.

# %%
points = torch.rand(640, 2, generator=torch.Generator().manual_seed(1))
sides = (points.sum(1) > 1).long()

# %% [markdown]
# Your own model, and how to train it.

# %%
model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.GELU(), torch.nn.Linear(16, 2))
job = assay.JobSpec(
    name="quickstart",
    model=model,
    loss=assay.cross_entropy(),
    train={"x": points[:512], "y": sides[:512]},
    holdout={"x": points[512:], "y": sides[512:]},
    optimizer=torch.optim.AdamW(model.parameters(), lr=0.02),
    steps=80,
    batch=32,
)

# %% [markdown]
# Your machine captures one training step and writes it as data. No other machine runs your Python.

# %%
assay.build_job(job, "quickstart-job")

# %% [markdown]
# The order locks its price until other validators have recomputed parts of the training, drawn by lot. The loop follows
# the order's events and delivers the payload. The result is available when the last round is closed.
#
# `home` is the folder with your keys. `None` means `ASSAY_HOME`, or `~/.assay` if that is not set. With the market of
# `assay localnet start`, a notebook writes `home="~/.assay/localnet/consumer"`.

# %%
with assay.connect(home=None) as network:
    print("it costs", network.quote("quickstart-job").cost / 1e6, "ASSAY")
    order = network.submit("quickstart-job")
    for event in order.events(until=assay.OrderState.PROVEN):
        print(event.KIND)
    assay.load_result(model, order.result())

# %%
print("right:", (model(points[512:]).argmax(1) == sides[512:]).float().mean().item())
