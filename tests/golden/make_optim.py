"""Writes optim.txt: parameters that PyTorch's optimizers reach on recorded gradients.

    python tests/golden/make_optim.py        (needs PyTorch)

Lines: the version; the shapes; the parameters at first; 100 lines of gradients; then for each case its
class, its options as Lua, and the parameters after 1, 10 and 100 steps in float32 and float64. Numbers are
hexadecimal; all tensors of a line follow each other.
"""
import os
import re

import torch

SHAPES = [(3, 4), (5,), (2, 1, 2)]
STEPS = 100
SEEN = (1, 10, 100)

CASES = [
    ("SGD", {}),
    ("SGD", dict(lr=0.1)),
    ("SGD", dict(lr=0.1, momentum=0.9)),
    ("SGD", dict(lr=0.1, weight_decay=0.1)),
    ("SGD", dict(lr=0.1, maximize=True)),
    ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.3)),
    ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True)),
    ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)),
    ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1, maximize=True)),
    ("Adam", {}),
    ("Adam", dict(lr=0.01)),
    ("Adam", dict(betas=(0.8, 0.95))),
    ("Adam", dict(betas=(0.0, 0.9))),
    ("Adam", dict(eps=1e-3)),
    ("Adam", dict(lr=0.01, weight_decay=0.1)),
    ("Adam", dict(lr=0.01, amsgrad=True)),
    ("Adam", dict(lr=0.01, maximize=True)),
    ("Adam", dict(lr=0.01, weight_decay=0.1, decoupled_weight_decay=True)),
    ("Adam", dict(lr=0.01, weight_decay=0.1, amsgrad=True)),
    ("Adam", dict(lr=0.01, weight_decay=0.1, amsgrad=True, maximize=True)),
    ("AdamW", {}),
    ("AdamW", dict(lr=0.01)),
    ("AdamW", dict(betas=(0.9, 0.95), weight_decay=0.1)),
    ("AdamW", dict(eps=1e-3)),
    ("AdamW", dict(lr=0.01, weight_decay=0)),
    ("AdamW", dict(lr=0.01, amsgrad=True)),
    ("AdamW", dict(lr=0.01, maximize=True)),
    ("AdamW", dict(lr=0.01, weight_decay=0.3, amsgrad=True, maximize=True)),
    ("NAdam", {}),
    ("NAdam", dict(lr=0.01, betas=(0.8, 0.95), eps=1e-6)),
    ("NAdam", dict(lr=0.01, weight_decay=0.1, momentum_decay=0.01)),
    ("NAdam", dict(lr=0.01, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
    ("RAdam", {}),
    ("RAdam", dict(lr=0.01, betas=(0.8, 0.95), eps=1e-4)),
    ("RAdam", dict(lr=0.01, weight_decay=0.1)),
    ("RAdam", dict(lr=0.01, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
    ("Adamax", {}),
    ("Adamax", dict(lr=0.01, betas=(0.8, 0.95), eps=1e-4)),
    ("Adamax", dict(lr=0.01, weight_decay=0.1, maximize=True)),
    ("Adagrad", {}),
    ("Adagrad", dict(lr=0.1, lr_decay=0.01, initial_accumulator_value=0.5)),
    ("Adagrad", dict(lr=0.1, weight_decay=0.1, eps=1e-4, maximize=True)),
    ("Adadelta", {}),
    ("Adadelta", dict(lr=0.5, rho=0.8, eps=1e-4)),
    ("Adadelta", dict(weight_decay=0.1, maximize=True)),
    ("RMSprop", {}),
    ("RMSprop", dict(alpha=0.9, eps=1e-4, momentum=0.9)),
    ("RMSprop", dict(alpha=0.9, centered=True, eps=1e-2)),
    ("RMSprop", dict(alpha=0.9, centered=True, eps=1e-2, momentum=0.5, weight_decay=0.1, maximize=True)),
    ("Rprop", {}),
    ("Rprop", dict(lr=0.1, etas=(0.4, 1.3), step_sizes=(1e-4, 1.0), maximize=True)),
    ("ASGD", {}),
    ("ASGD", dict(lr=0.1, lambd=0.01, alpha=0.5, t0=50)),
    ("ASGD", dict(lr=0.1, weight_decay=0.1, maximize=True)),
    ("Adafactor", dict(eps=(1e-6, 1e-3))),
    ("Adafactor", dict(lr=0.1, beta2_decay=-0.5, eps=(1e-6, 1e-2), d=2.0)),
    ("Adafactor", dict(lr=0.1, eps=(1e-6, 1e-3), weight_decay=0.1, maximize=True)),
]


def record():
    """Gradients of different scales that drift, change sign and are 0 at times."""
    torch.manual_seed(1)
    start = [torch.randn(shape) for shape in SHAPES]
    scale = [torch.rand(shape) * 10.0 ** (1 - 2 * i) for i, shape in enumerate(SHAPES)]
    steps = []
    for t in range(STEPS):
        drift = 0.5 if t < 60 else -0.2
        grads = [(torch.randn(s.shape) + drift) * s for s in scale]
        if t % 17 == 0:
            grads[1].zero_()
        steps.append(grads)
    return start, steps


def run(name, options, dtype, start, steps):
    params = [torch.nn.Parameter(x.to(dtype).clone()) for x in start]
    optimizer = getattr(torch.optim, name)(params, foreach=False, **options)
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
    return repr(value)


def main():
    start, steps = record()
    torch.set_default_dtype(torch.float64)  # or NAdam and ASGD keep their scalars in float32
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "optim.txt")
    with open(path, "w") as out:
        print("torch", torch.__version__, file=out)
        print(" ".join("x".join(map(str, s)) for s in SHAPES), file=out)
        print(text(start), file=out)
        for grads in steps:
            print(text(grads), file=out)
        for name, options in CASES:
            print(name, "{" + ",".join(f"{k}={lua(v)}" for k, v in options.items()) + "}", file=out)
            for dtype in (torch.float32, torch.float64):
                for tensors in run(name, options, dtype, start, steps):
                    print(text(tensors), file=out)


main()
