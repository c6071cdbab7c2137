"""Writes sam.txt: parameters that SAM of the package pytorch-optimizer reaches, around PyTorch's optimizers.

    python tests/golden/make_sam.py        (needs PyTorch and, from PyPI, pytorch-optimizer)

Lines: the versions; then for each case the function, the class, and the options as Lua, those of the first tensor's group
and of the second's; the parameters after 1, 10 and 30 steps, in float64. Functions and start are those of make_lbfgs.py.
The package rounds the norm to float32; here it is float64.
"""
from importlib.metadata import version

import torch
from make_lbfgs import FUNCTIONS, START, flat, path, table
from pytorch_optimizer.optimizer import sam

STEPS = 30
SEEN = (1, 10, 30)

CASES = [
    ("valley", "SGD", dict(lr=0.05), {}),
    ("valley", "SGD", dict(lr=0.05, rho=0.5), {}),
    ("valley", "SGD", dict(lr=0.05, rho=0.3, adaptive=True), {}),
    ("valley", "SGD", dict(lr=0.05, momentum=0.9, weight_decay=0.1, rho=0.2), dict(rho=0.0)),
    ("valley", "SGD", dict(lr=0.05, nesterov=True, momentum=0.9, rho=0.2, adaptive=True), dict(adaptive=False, lr=0.1)),
    ("quadratic", "SGD", dict(lr=1e-3, rho=0.1), {}),
    ("valley", "AdamW", dict(lr=0.02, rho=0.3), {}),
    ("valley", "AdamW", dict(lr=0.02, weight_decay=0.1, amsgrad=True, rho=1.0, adaptive=True), {}),
    ("rosenbrock", "Adam", dict(lr=0.01, rho=0.05), dict(lr=0.02)),
    ("quadratic", "RMSprop", dict(lr=0.01, rho=0.1), {}),
]


def norm_squared(groups, weight_adaptive):
    """As the package's, in float64."""
    total = torch.zeros(1, dtype=torch.float64)
    for group in groups:
        for p in group["params"]:
            total += ((p.abs() if group["adaptive"] else 1.0) * p.grad).square().sum()
    return total


def run(name, base, options, second, out):
    params = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in START]
    groups = [dict(params=[params[0]], **options), dict(params=[params[1]], **{**options, **second})]
    optimizer = sam.SAM(groups, getattr(torch.optim, base), **options)

    def closure():
        optimizer.zero_grad()
        loss = FUNCTIONS[name](params)
        loss.backward()
        return loss

    for t in range(1, STEPS + 1):
        closure()
        optimizer.step(closure)
        if t in SEEN:
            out.write(flat(params) + "\n")


def main():
    sam.get_global_gradient_norm = norm_squared
    with open(path("sam.txt"), "w") as out:
        out.write("PyTorch %s, pytorch-optimizer %s\n" % (torch.__version__.split("+")[0], version("pytorch-optimizer")))
        for name, base, options, second in CASES:
            out.write("%s %s %s %s\n" % (name, base, table(options), table(second)))
            run(name, base, options, second, out)


if __name__ == "__main__":
    main()
