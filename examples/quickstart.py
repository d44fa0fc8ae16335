"""From a model to its weights: a job is traced here, ordered, trained on a network, and its result is loaded.

Two commands, the first in a terminal of its own; a notebook needs only that one:

    assay localnet start
    ASSAY_HOME=~/.assay/localnet/consumer python examples/quickstart.py
"""

import torch

import assay

# %% [markdown]
# Some points of a square, and on which side of its diagonal they lie.

# %%
points = torch.rand(640, 2, generator=torch.Generator().manual_seed(1))
sides = (points.sum(1) > 1).long()

# %% [markdown]
# A model of your own, and how it is to be trained.

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
# One step of it is traced on this machine, and written as data: nobody runs your Python.

# %%
assay.build_job(job, "quickstart-job")

# %% [markdown]
# The order locks its price until strangers have recomputed what they drew. What happens to it comes as events, with the
# payload delivered on the way; the result is there once its last round is closed.
#
# `home` is where your keys are. `None` means what `ASSAY_HOME` says, else `~/.assay`; with the market of
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
