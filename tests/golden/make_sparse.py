"""Writes sparse.txt: parameters that torch.optim.SparseAdam reaches on recorded sparse gradients.

    python tests/golden/make_sparse.py        (needs PyTorch)

Lines: the version; the shapes; the parameters at first; 100 lines of gradients, in which a row that was not
looked up is zero; then for each case its options as Lua, and the parameters after 1, 10 and 100 steps in
float32 and float64. Numbers are hexadecimal; all tensors of a line follow each other.
"""
import os
import re

import torch

SHAPES = [(6, 4), (5,), (3, 2, 2)]
STEPS = 100
SEEN = (1, 10, 100)

CASES = [
    {},
    dict(lr=0.1),
    dict(lr=0.01, betas=(0.8, 0.95)),
    dict(lr=0.01, betas=(0.0, 0.9)),
    dict(lr=0.01, eps=1e-3),
    dict(lr=0.01, maximize=True),
    dict(lr=0.1, betas=(0.5, 0.9), eps=1e-4, maximize=True),
]


def record():
    """Gradients of which some rows are missing, the first one most of the time, and at times all."""
    torch.manual_seed(1)
    start = [torch.randn(shape) for shape in SHAPES]
    steps = []
    for t in range(STEPS):
        grads = []
        for i, shape in enumerate(SHAPES):
            rows = torch.rand(shape[0]) < 0.6
            rows[0] = t % 20 == 5
            if t % 13 == 0:
                rows[:] = False
            values = (torch.randn(shape) + 0.3) * 10.0 ** (1 - 2 * i)
            grads.append(values * rows.reshape(-1, *[1] * (len(shape) - 1)))
        steps.append(grads)
    return start, steps


def run(options, dtype, start, steps):
    params = [torch.nn.Parameter(x.to(dtype).clone()) for x in start]
    optimizer = torch.optim.SparseAdam(params, **options)
    seen = []
    for t, grads in enumerate(steps, 1):
        for p, g in zip(params, grads):
            p.grad = g.to(dtype).to_sparse(1)
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
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sparse.txt")
    with open(path, "w") as out:
        print("torch", torch.__version__, file=out)
        print(" ".join("x".join(map(str, s)) for s in SHAPES), file=out)
        print(text(start), file=out)
        for grads in steps:
            print(text(grads), file=out)
        for options in CASES:
            print("SparseAdam", "{" + ",".join(f"{k}={lua(v)}" for k, v in options.items()) + "}", file=out)
            for dtype in (torch.float32, torch.float64):
                for tensors in run(options, dtype, start, steps):
                    print(text(tensors), file=out)


main()
