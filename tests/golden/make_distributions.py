"""Prints tests/golden/distributions.lua: what PyTorch computes for some distributions in float64.

    python make_distributions.py >distributions.lua

The tests never run this: the file is committed, with the version that made it."""
import math
import torch
import torch.distributions as D

torch.set_default_dtype(torch.float64)


def lua(x):
    if torch.is_tensor(x): x = x.tolist()
    if isinstance(x, list): return "{" + ", ".join(map(lua, x)) + "}"
    if isinstance(x, float) and not math.isfinite(x):
        return "nan" if math.isnan(x) else "inf" if x > 0 else "-inf"
    return repr(x)


P = [[0.2, 0.5, 0.3], [0.0, 0.25, 0.75]]
Q = [[0.4, 0.4, 0.2], [0.5, 0.25, 0.25]]
L = [[0.3, -1.2, 2.0], [-40.0, 5.5, 5.0]]
# class, parameters, a value that log_prob takes, parameters of another for the divergence
CASES = [
    ("Categorical", {"probs": P}, [[0, 1], [2, 2]], {"probs": Q}),
    ("Categorical", {"logits": L}, [2, 1], {"logits": P}),
    ("Categorical", {"logits": L[0]}, [0, 0, 2], {"probs": Q[0]}),
    ("Normal", {"loc": [0.5, -3.0], "scale": [2.0, 0.1]}, [[0.0, 1.0], [-7.5, -3.0]], {"loc": [0.0, 1.0], "scale": [1.0, 3.0]}),
    ("Normal", {"loc": 1.5, "scale": [[0.3], [4.0]]}, [0.1, 0.2, 0.3], {"loc": 0.25, "scale": 2.0}),
    ("Bernoulli", {"probs": [0.25, 0.9, 0.5]}, [1.0, 0.0, 1.0], {"probs": [0.5, 0.125, 0.5]}),
    ("Bernoulli", {"logits": [-30.0, 0.5, 4.0]}, [0.0, 1.0, 0.0], {"logits": [1.0, 2.0, -3.0]}),
    ("Uniform", {"low": [0.0, -1.0], "high": [2.0, 5.0]}, [[0.0, -1.5], [1.0, 4.0]], {"low": [-1.0, 0.0], "high": [3.0, 6.0]}),
    ("Exponential", {"rate": [0.5, 3.0]}, [[0.0, 1.0], [2.5, 0.2]], {"rate": [2.0, 0.75]}),
]

print("-- Made by make_distributions.py with PyTorch %s." % torch.__version__)
print("local inf, nan = math.huge, 0 / 0\n\nreturn {")
for name, params, value, other in CASES:
    integers = name == "Categorical"
    leaves = {k: torch.tensor(v, requires_grad=True) for k, v in params.items()}
    d = getattr(D, name)(**leaves, validate_args=False)
    q = getattr(D, name)(**{k: torch.tensor(v) for k, v in other.items()}, validate_args=False)
    fields = {"class": '"%s"' % name, "value": lua(value)}
    fields["params"] = "{ " + ", ".join("%s = %s" % (k, lua(v)) for k, v in params.items()) + " }"
    fields["other"] = "{ " + ", ".join("%s = %s" % (k, lua(v)) for k, v in other.items()) + " }"
    parts = {
        "log_prob": d.log_prob(torch.tensor(value)), "entropy": d.entropy(), "mean": d.mean,
        "variance": d.variance, "divergence": D.kl_divergence(d, q),
    }
    for k, v in parts.items(): fields[k] = lua(v.detach())
    for k in ("log_prob", "entropy"):
        grads = torch.autograd.grad(parts[k].sum(), list(leaves.values()), retain_graph=True, allow_unused=True)
        fields[k + "_gradients"] = "{ " + ", ".join(
            "%s = %s" % (n, lua(torch.zeros(()) .expand(l.shape) if g is None else g))
            for (n, l), g in zip(leaves.items(), grads)) + " }"
    print("  {\n" + "".join('    %s = %s,\n' % (k, v) for k, v in fields.items()) + "  },")
print("}")
