"""Writes clip.txt: parameters that PyTorch reaches where gradients are unscaled and clipped before each step.

    python tests/golden/make_clip.py         (needs PyTorch)

Lines: the version; then for each case the options of the container as Lua, and the parameters after 1, 10
and 100 steps in float32 and float64, hexadecimal. Parameters 1 and 2 are the group "a", 3 is the group "b".
Gradients and first parameters are those of `element`. AGC is timm's adaptive_clip_grad, written out.
"""
import os
import re

import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

SHAPES = [(3, 4), (5,), (2, 1, 2)]
SEEN = (1, 10, 100)

CASES = [
    dict(max_norm=1.0),
    dict(max_norm=3.0, norm_type=float("inf")),
    dict(clip_value=0.5),
    dict(max_norm=2.0, clip_value=0.5),
    dict(max_group_norm=1.5),
    dict(max_group_norm=1.5, max_norm=1.2),
    dict(agc=0.5),
    dict(agc=0.01, agc_eps=0.1),
    dict(grad_scale=1024.0, max_norm=1.0),
    dict(grad_scale=3.0, max_group_norm=1.0, max_norm=0.9, agc=0.3, clip_value=0.05),
]
CLASSES = [("SGD", dict(lr=0.1, momentum=0.9)), ("AdamW", dict(lr=0.01))]


def element(t, k, i):
    """Element i of gradient k at step t, all from 0; at step -1 it begins the parameter. Exact in float32."""
    return (((t + 2) ** 2 * (k + 3) + (i + 5) ** 2 * (t + 7) + 11 * i) % 64 - 31) * 2.0 ** (-4 - 3 * k)


def tensors(t, dtype):
    return [torch.tensor([element(t, k, i) for i in range(torch.Size(s).numel())], dtype=dtype).reshape(s)
            for k, s in enumerate(SHAPES)]


def unit_norm(x):
    return x.norm() if x.ndim <= 1 else x.norm(dim=tuple(range(1, x.ndim)), keepdim=True)


def adapt(p, factor, eps):
    limit = unit_norm(p.detach()).clamp(min=eps) * factor
    norm = unit_norm(p.grad)
    p.grad = torch.where(norm < limit, p.grad, p.grad * (limit / norm.clamp(min=1e-6)))


def clip(params, o):
    kind = o.get("norm_type", 2.0)
    for p in params:
        p.grad = p.grad / o.get("grad_scale", 1.0)
    if "max_group_norm" in o:
        for group in (params[:2], params[2:]):
            clip_grad_norm_(group, o["max_group_norm"], kind, foreach=False)
    if "max_norm" in o:
        clip_grad_norm_(params, o["max_norm"], kind, foreach=False)
    if "agc" in o:
        for p in params:
            adapt(p, o["agc"], o.get("agc_eps", 1e-3))
    if "clip_value" in o:
        clip_grad_value_(params, o["clip_value"])


def run(name, hyper, o, dtype):
    params = [torch.nn.Parameter(x) for x in tensors(-1, dtype)]
    optimizer = getattr(torch.optim, name)(params, foreach=False, **hyper)
    seen = []
    for t in range(SEEN[-1]):
        for p, g in zip(params, tensors(t, dtype)):
            p.grad = g
        clip(params, o)
        optimizer.step()
        if t + 1 in SEEN:
            seen.append([p.detach().clone() for p in params])
    return seen


def text(parameters):
    return " ".join(re.sub(r"\.?0+p", "p", float(x).hex()) for p in parameters for x in p.flatten())


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clip.txt")
    with open(path, "w") as out:
        print("torch", torch.__version__, file=out)
        for name, hyper in CLASSES:
            for o in CASES:
                fields = {**hyper, **o}
                words = ", ".join(f"{k} = {'math.huge' if v == float('inf') else v}" for k, v in fields.items())
                print(f'{{ class = "{name}", {words} }}', file=out)
                for dtype in (torch.float32, torch.float64):
                    for seen in run(name, hyper, o, dtype):
                        print(text(seen), file=out)


main()
