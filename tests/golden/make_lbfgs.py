"""Writes lbfgs.txt: parameters that PyTorch's L-BFGS reaches in 10 steps, in float64.

    python tests/golden/make_lbfgs.py        (needs PyTorch)

Lines: the version; then for each case the function, the options as Lua, the starting point, and for each step the number
of evaluations so far and the parameters after it. Numbers are hexadecimal; tensors of a line follow each other. The
functions stand in tests/valleys.lua once more.
"""
import os

import torch

STEPS = 10


def rosenbrock(x):
    """Two tensors, of 3 and of 2 elements, taken as one vector of five."""
    z = torch.cat(x)
    return (100 * (z[1:] - z[:-1] ** 2) ** 2 + (1 - z[:-1]) ** 2).sum()


def quadratic(x):
    """Curvatures from 1 to 1000."""
    z = torch.cat(x)
    scale = 10 ** (torch.arange(z.numel(), dtype=z.dtype) * (3 / (z.numel() - 1)))
    return 0.5 * (scale * (z - 1) ** 2).sum()


def valley(x):
    """Not convex: a slope of exponentials and a wave."""
    z = torch.cat(x)
    return (torch.exp(0.3 * z) + torch.exp(-z) + 0.5 * torch.sin(3 * z)).sum() + 0.1 * (z.sum() - 1) ** 2


def kink(x):
    """Steep where it is least: cubics are no good there."""
    z = torch.cat(x)
    return ((z - 0.3).abs() ** 1.2).sum() + 0.01 * (z**2).sum()


FUNCTIONS = dict(rosenbrock=rosenbrock, quadratic=quadratic, valley=valley, kink=kink)
START = [[-1.2, 1.0, 0.5], [-0.7, 1.5]]
WOLFE = "strong_wolfe"

CASES = [
    ("rosenbrock", dict(lr=0.1, max_iter=4)),
    ("rosenbrock", dict(lr=0.1, max_iter=1)),
    ("rosenbrock", dict(line_search_fn=WOLFE, max_iter=4)),
    ("rosenbrock", dict(line_search_fn=WOLFE, max_iter=1)),
    ("rosenbrock", dict(line_search_fn=WOLFE, max_iter=4, lr=0.1)),
    ("rosenbrock", dict(line_search_fn=WOLFE, max_iter=4, history_size=2)),
    ("rosenbrock", dict(line_search_fn=WOLFE, max_iter=4, max_eval=5)),
    ("rosenbrock", dict(line_search_fn=WOLFE, max_iter=4, max_eval=1)),
    ("rosenbrock", dict(line_search_fn=WOLFE, max_iter=4, tolerance_change=1e-1)),
    ("rosenbrock", dict(line_search_fn=WOLFE, max_iter=4, tolerance_grad=1.0)),
    ("rosenbrock", dict(line_search_fn=WOLFE)),
    ("quadratic", dict()),
    ("quadratic", dict(max_iter=3)),
    ("quadratic", dict(lr=0.5, max_iter=3, history_size=1)),
    ("quadratic", dict(max_iter=5, max_eval=3)),
    ("quadratic", dict(max_iter=3, tolerance_grad=10.0)),
    ("quadratic", dict(max_iter=3, tolerance_change=1e-2)),
    ("quadratic", dict(line_search_fn=WOLFE, max_iter=2)),
    ("valley", dict(max_iter=2)),
    ("valley", dict(line_search_fn=WOLFE, max_iter=2)),
    ("valley", dict(line_search_fn=WOLFE, max_iter=2, lr=30.0)),
    ("valley", dict(line_search_fn=WOLFE, max_iter=3, lr=1e-3)),
    ("kink", dict(line_search_fn=WOLFE, max_iter=2, max_eval=30, lr=100.0)),
]


def lua(value):
    if isinstance(value, (tuple, list)):
        return "{ %s }" % ", ".join(map(lua, value))
    if isinstance(value, bool):
        return str(value).lower()
    return '"%s"' % value if isinstance(value, str) else repr(value)


def table(options):
    return "{ %s }" % ", ".join("%s = %s" % (k, lua(v)) for k, v in options.items())


def flat(params):
    return " ".join(x.hex() for p in params for x in p.detach().tolist())


def run(name, options, out):
    params = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in START]
    optimizer = torch.optim.LBFGS(params, **options)

    def closure():
        optimizer.zero_grad()
        loss = FUNCTIONS[name](params)
        loss.backward()
        return loss

    out.write("%s %s\n" % (name, table(options)))
    out.write(flat(params) + "\n")
    for _ in range(STEPS):
        optimizer.step(closure)
        evals = optimizer.state[params[0]]["func_evals"]
        out.write("%d %s\n" % (evals, flat(params)))


def path(name):
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


def main():
    with open(path("lbfgs.txt"), "w") as out:
        out.write("PyTorch %s\n" % torch.__version__.split("+")[0])
        for name, options in CASES:
            run(name, options, out)


if __name__ == "__main__":
    main()
