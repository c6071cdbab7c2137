"""Writes optim.txt and optim_muon.txt: parameters that PyTorch's optimizers reach on recorded gradients.

    python tests/golden/make_optim.py        (needs PyTorch)

Lines: the versions; the shapes; the parameters at first; 100 lines of gradients; then for each case its
class, its options as Lua, and the parameters after 1, 10 and 100 steps in float32 and float64. Numbers are
hexadecimal; all tensors of a line follow each other.
"""
import functools
import os
import re

import torch

SHAPES = [(3, 4), (5,), (2, 1, 2)]
MATRICES = [(3, 4), (5, 2), (3, 3)]
STEPS = 100
SEEN = (1, 10, 100)

# Each option by itself: class, options.
ALONE = {
    "SGD": dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1, nesterov=True, maximize=True),
    "Adam": dict(lr=0.01, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, amsgrad=True, maximize=True,
                 decoupled_weight_decay=True),
    "AdamW": dict(lr=0.01, betas=(0.9, 0.95), eps=1e-3, weight_decay=0.3, amsgrad=True, maximize=True),
    "NAdam": dict(lr=0.01, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, momentum_decay=0.01,
                  decoupled_weight_decay=True, maximize=True),
    "RAdam": dict(lr=0.01, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, decoupled_weight_decay=True, maximize=True),
    "Adamax": dict(lr=0.01, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, maximize=True),
    "Adagrad": dict(lr=0.1, lr_decay=0.01, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3, maximize=True),
    "Adadelta": dict(lr=0.5, rho=0.8, eps=1e-4, weight_decay=0.1, maximize=True),
    "RMSprop": dict(lr=0.1, alpha=0.9, eps=1e-3, weight_decay=0.1, momentum=0.9, centered=True, maximize=True),
    "Rprop": dict(lr=0.1, etas=(0.4, 1.3), step_sizes=(1e-4, 1.0), maximize=True),
    "ASGD": dict(lr=0.1, lambd=0.01, alpha=0.5, t0=50, weight_decay=0.1, maximize=True),
    "Adafactor": dict(lr=0.1, beta2_decay=-0.5, eps=(1e-6, 1e-2), d=2.0, weight_decay=0.1, maximize=True),
    "Muon": dict(lr=0.02, weight_decay=0.3, momentum=0.8, nesterov=False, ns_coefficients=(3.0, -3.2, 1.2), eps=0.1,
                 ns_steps=3, adjust_lr_fn="original"),
}

# What an option does nothing without.
NEEDS = dict(dampening=dict(momentum=0.9), nesterov=dict(momentum=0.9), decoupled_weight_decay=dict(weight_decay=0.1))

# What PyTorch is told where its default depends on the type of the parameter: our default.
IMPLIED = {"Adafactor": dict(eps=(2.0**-23, 1e-3))}

PAIRS = [
    ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)),
    ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1, maximize=True)),
    ("Adam", dict(betas=(0.0, 0.9))),
    ("Adam", dict(lr=0.01, betas=(0.9, 0.8), amsgrad=True)),
    ("Adam", dict(lr=0.01, betas=(0.9, 0.8), weight_decay=0.1, amsgrad=True, maximize=True)),
    ("AdamW", dict(lr=0.01, weight_decay=0)),
    ("AdamW", dict(betas=(0.9, 0.95), weight_decay=0.1)),
    ("AdamW", dict(lr=0.01, betas=(0.9, 0.8), amsgrad=True)),
    ("AdamW", dict(lr=0.01, betas=(0.9, 0.8), weight_decay=0.3, amsgrad=True, maximize=True)),
    ("NAdam", dict(lr=0.01, betas=(0.8, 0.95), eps=1e-6)),
    ("NAdam", dict(lr=0.01, weight_decay=0.1, momentum_decay=0.01)),
    ("NAdam", dict(lr=0.01, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
    ("RAdam", dict(lr=0.01, betas=(0.8, 0.95), eps=1e-4)),
    ("RAdam", dict(lr=0.01, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
    ("Adamax", dict(lr=0.01, betas=(0.8, 0.95), eps=1e-4)),
    ("Adamax", dict(lr=0.01, weight_decay=0.1, maximize=True)),
    ("Adagrad", dict(lr=0.1, lr_decay=0.01, initial_accumulator_value=0.5)),
    ("Adagrad", dict(lr=0.1, weight_decay=0.1, eps=1e-4, maximize=True)),
    ("Adadelta", dict(lr=0.5, rho=0.8, eps=1e-4)),
    ("Adadelta", dict(weight_decay=0.1, maximize=True)),
    ("RMSprop", dict(alpha=0.9, eps=1e-4, momentum=0.9)),
    ("RMSprop", dict(alpha=0.9, centered=True, eps=1e-2)),
    ("RMSprop", dict(alpha=0.9, centered=True, eps=1e-2, momentum=0.5, weight_decay=0.1, maximize=True)),
    ("Rprop", dict(lr=0.1, etas=(0.4, 1.3), step_sizes=(1e-4, 1.0), maximize=True)),
    ("ASGD", dict(lr=0.1, lambd=0.01, alpha=0.5, t0=50)),
    ("ASGD", dict(lr=0.1, weight_decay=0.1, maximize=True)),
    ("Adafactor", dict(lr=0.1, beta2_decay=-0.5, eps=(1e-6, 1e-2), d=2.0)),
    ("Adafactor", dict(lr=0.1, eps=(1e-6, 1e-3), weight_decay=0.1, maximize=True)),
    ("Muon", dict(lr=0.02, momentum=0.9, nesterov=False)),
    ("Muon", dict(adjust_lr_fn="match_rms_adamw")),
    ("Muon", dict(adjust_lr_fn="match_rms_adamw", lr=0.02, weight_decay=0)),
    ("Muon", dict(adjust_lr_fn="none")),
]


def alone(table, needs):
    """Cases with the defaults, and with each option by itself and what it needs."""
    for name, options in table.items():
        yield name, {}
        for key, value in options.items():
            yield name, {key: value, **needs.get(key, {})}


def record(shapes=SHAPES):
    """Gradients of different scales that drift, change sign and are 0 at times."""
    torch.manual_seed(1)
    start = [torch.randn(shape) for shape in shapes]
    scale = [torch.rand(shape) * 10.0 ** (1 - 2 * i) for i, shape in enumerate(shapes)]
    steps = []
    for t in range(STEPS):
        drift = 0.5 if t < 60 else -0.2
        grads = [(torch.randn(s.shape) + drift) * s for s in scale]
        if t % 17 == 0:
            grads[1].zero_()
        steps.append(grads)
    return start, steps


def torch_optimizer(name, options, params):
    """An optimizer of PyTorch; Muon with the iteration in the parameter's type, and without the check of a word."""
    options = {**IMPLIED.get(name, {}), **options}
    if name != "Muon":
        return getattr(torch.optim, name)(params, foreach=False, **options)
    adjust = options.pop("adjust_lr_fn", None)
    optimizer = torch.optim.Muon(params, **options)
    optimizer.param_groups[0]["adjust_lr_fn"] = adjust
    return optimizer


def run(make, dtype, start, steps):
    """The parameters after the steps that are SEEN; make(params) makes the optimizer."""
    params = [torch.nn.Parameter(x.to(dtype).clone()) for x in start]
    optimizer = make(params)
    seen = []
    for t, grads in enumerate(steps, 1):
        for p, g in zip(params, grads):
            p.grad = g.to(dtype).clone()
        optimizer.step()
        if t in SEEN:
            seen.append([p.detach().clone() for p in params])
    return seen


def text(tensors):
    return " ".join(re.sub(r"\.?0+p", "p", float(x).hex()) for t in tensors for x in t.flatten())


def lua(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "{" + ",".join(map(repr, value)) + "}"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def write(file, versions, shapes, cases):
    """Writes a file of cases: (class, options, make(params), remark)."""
    torch.set_default_dtype(torch.float32)
    start, steps = record(shapes)
    torch.set_default_dtype(torch.float64)  # or NAdam and ASGD keep their scalars in float32
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), file)
    with open(path, "w") as out:
        print(versions, file=out)
        print(" ".join("x".join(map(str, s)) for s in shapes), file=out)
        print(text(start), file=out)
        for grads in steps:
            print(text(grads), file=out)
        for name, options, make, remark in cases:
            print(name, "{" + ",".join(f"{k}={lua(v)}" for k, v in options.items()) + "}" + remark, file=out)
            for dtype in (torch.float32, torch.float64):
                for tensors in run(make, dtype, start, steps):
                    print(text(tensors), file=out)


def main():
    torch.Tensor.bfloat16 = lambda self: self.clone()  # for Muon, which iterates in bfloat16
    cases = [
        (name, options, functools.partial(torch_optimizer, name, options), "")
        for name, options in [*alone(ALONE, NEEDS), *PAIRS]
    ]
    version = f"torch {torch.__version__}"
    write("optim.txt", version, SHAPES, [case for case in cases if case[0] != "Muon"])
    write("optim_muon.txt", version + ", Muon without its cast to bfloat16", MATRICES,
          [case for case in cases if case[0] == "Muon"])


if __name__ == "__main__":
    main()
