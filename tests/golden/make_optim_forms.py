"""Writes optim_forms.txt: parameters that the authors' packages of Schedule-Free and Prodigy, and PyTorch's averages of weights,
reach on the gradients of optim.txt. "Prodigy'" is Prodigy whose second pass has the d of the step before, as ours.

    python tests/golden/make_optim_forms.py        (needs PyTorch, schedulefree 1.4.1, prodigyopt 1.1.2)

Lines as in optim.txt, with one more for each case and type: the parameters after 100 steps in the form for evaluation.
"""
import inspect
import os
import textwrap

import prodigyopt
import schedulefree
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from importlib.metadata import version
from make_optim import SEEN, SHAPES, lua, record, text

SF = dict(warmup_steps=10, r=1.0, weight_lr_power=1.0)

CASES = [
    ("ScheduleFreeSGD", {}),
    ("ScheduleFreeSGD", dict(lr=0.1)),
    ("ScheduleFreeSGD", dict(lr=0.1, momentum=0.5)),
    ("ScheduleFreeSGD", dict(lr=0.1, weight_decay=0.1)),
    ("ScheduleFreeSGD", dict(lr=0.1, warmup_steps=20)),
    ("ScheduleFreeSGD", dict(lr=0.1, r=2.0)),
    ("ScheduleFreeSGD", dict(lr=0.1, warmup_steps=20, weight_lr_power=0.0)),
    ("ScheduleFreeSGD", dict(lr=0.1, momentum=0.98, weight_decay=0.1, **SF)),
    ("ScheduleFreeAdamW", {}),
    ("ScheduleFreeAdamW", dict(lr=0.01)),
    ("ScheduleFreeAdamW", dict(lr=0.01, betas=(0.95, 0.99))),
    ("ScheduleFreeAdamW", dict(lr=0.01, eps=1e-3)),
    ("ScheduleFreeAdamW", dict(lr=0.01, weight_decay=0.1)),
    ("ScheduleFreeAdamW", dict(lr=0.01, warmup_steps=20)),
    ("ScheduleFreeAdamW", dict(lr=0.01, r=2.0)),
    ("ScheduleFreeAdamW", dict(lr=0.01, warmup_steps=20, weight_lr_power=0.0)),
    ("ScheduleFreeAdamW", dict(lr=0.01, betas=(0.98, 0.99), weight_decay=0.1, **SF)),
    ("Prodigy", dict(eps=1e-11)),
    ("Prodigy", dict(lr=0.5, eps=1e-11)),
    ("Prodigy", dict(betas=(0.8, 0.95))),
    ("Prodigy", dict(lr=0.1, weight_decay=0.1)),
    ("Prodigy", dict(growth_rate=1.1)),
    ("Prodigy'", {}),
    ("Prodigy'", dict(lr=0.5)),
    ("Prodigy'", dict(betas=(0.8, 0.95))),
    ("Prodigy'", dict(betas=(0.0, 0.999), growth_rate=1.02)),
    ("Prodigy'", dict(beta3=0.99)),
    ("Prodigy'", dict(eps=1e-4)),
    ("Prodigy'", dict(lr=0.1, weight_decay=0.1)),
    ("Prodigy'", dict(weight_decay=0.1, decouple=False)),
    ("Prodigy'", dict(use_bias_correction=True)),
    ("Prodigy'", dict(lr=0.5, safeguard_warmup=True)),
    ("Prodigy'", dict(d0=1e-3)),
    ("Prodigy'", dict(d_coef=2.0)),
    ("Prodigy'", dict(growth_rate=1.1)),
    ("Prodigy'", dict(lr=0.5, use_bias_correction=True, weight_decay=0.1, d_coef=0.5, growth_rate=1.5)),
    ("SWA(SGD)", dict(lr=0.1)),
    ("SWA(SGD)", dict(lr=0.1, momentum=0.9, swa_start=30, swa_every=7)),
    ("SWA(AdamW)", dict(lr=0.01, swa_start=95)),
    ("EMA(AdamW)", dict(lr=0.01, ema=0.9)),
]

def earlier_d():
    """Prodigy whose second pass has d as it was before the step."""
    source = textwrap.dedent(inspect.getsource(prodigyopt.Prodigy.step))
    changed = source.replace("d_hat = d\n", "d_hat = d_before = d\n").replace("add_(d * eps)", "add_(d_before * eps)")
    changed = changed.replace("value=-dlr * d)", "value=-dlr * d_before)")
    assert changed.count("d_before") == 3
    scope = dict(vars(prodigyopt.prodigy))
    exec(changed, scope)
    return type("ProdigyEarlierD", (prodigyopt.Prodigy,), {"step": scope["step"]})


PACKAGES = {"ScheduleFreeSGD": schedulefree.SGDScheduleFree, "ScheduleFreeAdamW": schedulefree.AdamWScheduleFree,
            "Prodigy": prodigyopt.Prodigy, "Prodigy'": earlier_d(), "SGD": torch.optim.SGD, "AdamW": torch.optim.AdamW}


class Averaged:
    """An optimizer with an average of its parameters, which eval() puts in their place."""

    def __init__(self, inner, params, swa_start=1, swa_every=1, ema=None, **options):
        self.optimizer = PACKAGES[inner](params, foreach=False, **options)
        self.params, self.start, self.every, self.steps = params, swa_start, swa_every, 0
        self.model = torch.nn.ParameterList(params)
        average = get_ema_multi_avg_fn(ema) if ema else None
        self.averages = AveragedModel(self.model, multi_avg_fn=average)
        if ema:  # PyTorch's begins with the weights after the first update, ours with those before it
            self.averages.update_parameters(self.model)

    def step(self):
        self.optimizer.step()
        self.steps += 1
        if self.steps >= self.start and (self.steps - self.start) % self.every == 0:
            self.averages.update_parameters(self.model)

    def eval(self):
        with torch.no_grad():
            for p, average in zip(self.params, self.averages.parameters()):
                p.copy_(average)


def make(name, params, options):
    if "(" in name:
        return Averaged(name[name.index("(") + 1:-1], params, **options)
    more = {} if "Prodigy" in name else dict(foreach=False)
    optimizer = PACKAGES[name](params, **more, **options)
    if "Prodigy" not in name:
        optimizer.train()
    return optimizer


def run(name, options, dtype, start, steps):
    params = [torch.nn.Parameter(x.to(dtype).clone()) for x in start]
    optimizer, seen = make(name, params, options), []
    for t, grads in enumerate(steps, 1):
        for p, g in zip(params, grads):
            p.grad = g.to(dtype).clone()
        optimizer.step()
        if t in SEEN:
            seen.append([p.detach().clone() for p in params])
    if hasattr(optimizer, "eval"):
        optimizer.eval()
    return seen + [params]


def main():
    start, steps = record()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "optim_forms.txt")
    with open(path, "w") as out:
        print("torch", torch.__version__, *(f"{name} {version(name)}" for name in ("schedulefree", "prodigyopt")), file=out)
        print(" ".join("x".join(map(str, s)) for s in SHAPES), file=out)
        print(text(start), file=out)
        for grads in steps:
            print(text(grads), file=out)
        for name, options in CASES:
            print(name, "{" + ",".join(f"{k}={lua(v)}" for k, v in options.items()) + "}", file=out)
            for dtype in (torch.float32, torch.float64):
                for tensors in run(name, options, dtype, start, steps):
                    print(text(p.detach() for p in tensors), file=out)


if __name__ == "__main__":
    main()
