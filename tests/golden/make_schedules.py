"""Makes tests/golden/schedules.txt: the values that PyTorch's schedulers give over 200 steps, one line each:
the constructor as Lua, the base, the hyperparameter, and the values.

    python make_schedules.py"""
import os
import torch
import torch.optim.lr_scheduler as S
from torch.optim.swa_utils import SWALR

BASE, STEPS = 0.4, 200
HERE = os.path.dirname(os.path.abspath(__file__))

SIMPLE = [
    ("LambdaLR", dict(lr_lambda=lambda t: 1 / (1 + 0.03 * t)), "{ lr_lambda = function(t) return 1 / (1 + 0.03 * t) end }"),
    ("MultiplicativeLR", dict(lr_lambda=lambda t: 1 - 1 / (10 + t)),
     "{ lr_lambda = function(t) return 1 - 1 / (10 + t) end }"),
    ("StepLR", dict(step_size=30), None), ("StepLR", dict(step_size=7, gamma=0.9), None),
    ("MultiStepLR", dict(milestones=[20, 80, 80, 150], gamma=0.5), None),
    ("ConstantLR", dict(), None), ("ConstantLR", dict(factor=0.25, total_iters=40), None),
    ("LinearLR", dict(), None), ("LinearLR", dict(start_factor=0.1, end_factor=0.5, total_iters=60), None),
    ("ExponentialLR", dict(gamma=0.97), None),
    ("PolynomialLR", dict(), None), ("PolynomialLR", dict(total_iters=150, power=2.0), None),
    ("CosineAnnealingLR", dict(T_max=60), None), ("CosineAnnealingLR", dict(T_max=250, eta_min=0.01), None),
    ("CosineAnnealingWarmRestarts", dict(T_0=10), None),
    ("CosineAnnealingWarmRestarts", dict(T_0=7, T_mult=2, eta_min=0.02), None),
    ("CyclicLR", dict(base_lr=0.01, max_lr=0.1, step_size_up=20), None),
    ("CyclicLR", dict(base_lr=0.01, max_lr=0.1, step_size_up=20, step_size_down=35, mode="triangular2"), None),
    ("CyclicLR", dict(base_lr=0.01, max_lr=0.1, step_size_up=11, mode="exp_range", gamma=0.99), None),
    ("OneCycleLR", dict(max_lr=0.3, total_steps=200), None),
    ("OneCycleLR", dict(max_lr=0.3, epochs=10, steps_per_epoch=20, pct_start=0.4, anneal_strategy="linear"), None),
    ("OneCycleLR", dict(max_lr=0.3, total_steps=200, three_phase=True, div_factor=10.0, final_div_factor=100.0), None),
    ("SWALR", dict(swa_lr=0.05), None), ("SWALR", dict(swa_lr=0.05, anneal_epochs=90, anneal_strategy="linear"), None),
]


def lua(value):
    if isinstance(value, bool): return str(value).lower()
    if isinstance(value, str): return '"%s"' % value
    if isinstance(value, list): return "{ %s }" % ", ".join(map(lua, value))
    if isinstance(value, dict): return "{ %s }" % ", ".join("%s = %s" % (k, lua(v)) for k, v in value.items())
    return repr(value)


def optimizer(): return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=BASE, momentum=0.9)


def trace(opt, scheduler):
    lrs, momenta = [], []
    for k in range(STEPS):
        lrs.append(opt.param_groups[0]["lr"])
        momenta.append(opt.param_groups[0]["momentum"])
        opt.step()
        if k + 1 < STEPS: scheduler.step()
    return lrs, momenta


def main():
    lines = ["# PyTorch %s: constructor, hyperparameter, base, values" % torch.__version__]

    def put(text, name, base, values): lines.append("\t".join([text, name, repr(base)] + [repr(float(v)) for v in values]))

    for name, args, text in SIMPLE:
        opt = optimizer()
        lrs, momenta = trace(opt, (getattr(S, name, None) or SWALR)(opt, **args))
        text = "schedule.%s %s" % (name, text or lua(args))
        put(text, "lr", BASE, lrs)
        if name in ("CyclicLR", "OneCycleLR"): put(text, "momentum", 0.9, momenta)
    opt = optimizer()
    parts = [S.LinearLR(opt, total_iters=20), S.ConstantLR(opt, factor=0.5, total_iters=30), S.ExponentialLR(opt, gamma=0.95)]
    lrs, _ = trace(opt, S.SequentialLR(opt, parts, milestones=[20, 70]))
    put("schedule.SequentialLR { schedulers = { schedule.LinearLR { total_iters = 20 }, schedule.ConstantLR { factor = 0.5, "
        "total_iters = 30 }, schedule.ExponentialLR { gamma = 0.95 } }, milestones = { 20, 70 } }", "lr", BASE, lrs)
    opt = optimizer()
    lrs, _ = trace(opt, S.ChainedScheduler([S.ConstantLR(opt, factor=0.1, total_iters=20), S.ExponentialLR(opt, gamma=0.98)]))
    put("schedule.ChainedScheduler { schedulers = { schedule.ConstantLR { factor = 0.1, total_iters = 20 }, "
        "schedule.ExponentialLR { gamma = 0.98 } } }", "lr", BASE, lrs)
    with open(os.path.join(HERE, "schedules.txt"), "w") as f: f.write("\n".join(lines) + "\n")


main()
