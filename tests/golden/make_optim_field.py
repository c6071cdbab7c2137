"""Writes optim_field.txt: what packages of other authors make of the gradients of optim.txt, in its format.

    python tests/golden/make_optim_field.py    (needs PyTorch and, from PyPI, adabelief-pytorch, colorama, lion-pytorch,
                                                pytorch-optimizer, pytorch_ranger, tabulate, timm, torch-optimizer)

Authors' own: AdaBelief, and timm's Adan, which is the authors' file. Of the others PyPI has no package of the authors.
"""
import contextlib
import functools
import importlib.util
import io
import os
import sys
import types
from importlib.metadata import version

import torch
from make_optim import SHAPES, alone, write

PACKAGES = ["adabelief-pytorch", "lion-pytorch", "pytorch-optimizer", "timm", "torch-optimizer"]


def timm(name):
    """An optimizer of timm, from its file: the package as a whole needs torchvision."""
    for package in ("timm", "timm.optim"):
        if package not in sys.modules:
            folders = importlib.util.find_spec(package).submodule_search_locations
            sys.modules[package] = types.ModuleType(package)
            sys.modules[package].__path__ = folders
    return of("timm.optim." + name.lower(), name)


def of(package, name):
    return getattr(importlib.import_module(package), name)


def lamb(params, clamp_value=None, **options):
    if clamp_value is not None:  # timm's has no limit; this one corrects no bias
        options.pop("bias_correction")
        options = {"weight_decay": 0.01, **options}
        return of("torch_optimizer", "Lamb")(params, clamp_value=clamp_value, **options)
    return timm("Lamb")(params, max_grad_norm=None, always_adapt=True, foreach=False, **options)


def lars(params, trust_coefficient=1e-3, **options):
    options = {"momentum": 0.9, "weight_decay": 5e-4, **options}
    return timm("Lars")(params, trust_coeff=trust_coefficient, always_adapt=True, foreach=False, **options)


def adabelief(params, amsgrad=False, **options):
    if amsgrad and options.get("rectify", True):  # the authors' does without the maximum then
        options = {"rectify": True, **options}
        return of("pytorch_optimizer", "AdaBelief")(params, ams_bound=True, foreach=False, **options)
    with contextlib.redirect_stdout(io.StringIO()):
        return of("adabelief_pytorch", "AdaBelief")(params, amsgrad=amsgrad, print_change_log=False, **options)


def ademamix(params, alpha_warmup=None, beta3_warmup=None, **options):
    assert alpha_warmup == beta3_warmup
    options = {"alpha": 2.0, **options}
    return of("pytorch_optimizer", "AdEMAMix")(
        params, weight_decouple=True, t_alpha_beta3=alpha_warmup, foreach=False, **options)


def adan(params, **options):
    return timm("Adan")(params, foreach=False, **options)


def signum(params, decoupled_weight_decay=False, **options):
    options = {"lr": 1e-2, **options}
    return of("pytorch_optimizer", "SignSGD")(params, weight_decouple=decoupled_weight_decay, foreach=False, **options)


def lion(params, **options):
    return of("lion_pytorch", "Lion")(params, **options)


MAKE = dict(LAMB=lamb, LARS=lars, AdaBelief=adabelief, AdEMAMix=ademamix, Adan=adan, Signum=signum, Lion=lion)

ALONE = {
    "LAMB": dict(lr=0.01, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, bias_correction=False, clamp_value=1.5,
                 maximize=True),
    "LARS": dict(lr=10.0, momentum=0.5, dampening=0.3, weight_decay=0.1, nesterov=True, trust_coefficient=0.01, eps=0.1,
                 maximize=True),
    "AdaBelief": dict(lr=0.01, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1, amsgrad=True, weight_decouple=False,
                      fixed_decay=True, rectify=False, degenerated_to_sgd=False, maximize=True),
    "AdEMAMix": dict(lr=0.01, betas=(0.8, 0.95, 0.99), alpha=8.0, alpha_warmup=50, eps=1e-3, weight_decay=0.1,
                     maximize=True),
    "Adan": dict(lr=0.01, betas=(0.9, 0.8, 0.95), eps=1e-3, weight_decay=0.1, no_prox=True, maximize=True),
    "Signum": dict(lr=0.001, momentum=0.5, weight_decay=0.1, decoupled_weight_decay=True, maximize=True),
    "Lion": dict(lr=0.001, betas=(0.8, 0.95), weight_decay=0.1, maximize=True),
}

NEEDS = dict(
    clamp_value=dict(bias_correction=False),
    weight_decouple=dict(weight_decay=0.1),
    fixed_decay=dict(weight_decay=0.01),
    no_prox=dict(weight_decay=0.1),
    decoupled_weight_decay=dict(weight_decay=0.1),
    alpha_warmup=dict(beta3_warmup=50),
)

PAIRS = [
    ("LAMB", dict(lr=0.02, weight_decay=0)),
    ("LAMB", dict(lr=0.02, weight_decay=0.1, bias_correction=False)),
    ("LARS", dict(lr=10.0, momentum=0)),
    ("LARS", dict(lr=10.0, momentum=0.9, nesterov=True, weight_decay=0)),
    ("LARS", dict(lr=3.0, trust_coefficient=0.02, weight_decay=0.01, maximize=True)),
    ("AdaBelief", dict(lr=0.01, weight_decay=0.1, weight_decouple=False, rectify=False)),
    ("AdaBelief", dict(lr=0.01, amsgrad=True, rectify=False, betas=(0.9, 0.8), eps=1e-8)),
    ("AdaBelief", dict(lr=0.01, amsgrad=True, weight_decay=0.1, betas=(0.9, 0.8))),
    ("AdaBelief", dict(lr=0.01, degenerated_to_sgd=False, weight_decay=0.1)),
    ("AdEMAMix", dict(lr=0.01, betas=(0.9, 0.95, 0.999), alpha=5.0, weight_decay=0.1)),
    ("AdEMAMix", dict(lr=0.01, betas=(0.0, 0.95, 0.999))),
    ("AdEMAMix", dict(lr=0.01, alpha_warmup=200, beta3_warmup=200)),
    ("Adan", dict(lr=0.01, weight_decay=0.1, no_prox=True, maximize=True)),
    ("Adan", dict(lr=0.01, betas=(0.9, 0.8, 0.95), weight_decay=0.1)),
    ("Signum", dict(momentum=0)),
    ("Signum", dict(momentum=0, weight_decay=0.1, lr=0.001)),
    ("Lion", dict(lr=0.01, betas=(0.8, 0.95), weight_decay=0.1, maximize=True)),
]


class Maximized:
    """An optimizer of a package that only minimizes."""

    def __init__(self, make, params):
        self.params, self.optimizer = params, make(params)

    def step(self):
        for p in self.params:
            p.grad.neg_()
        self.optimizer.step()


def make(name, options, params):
    options = dict(options)
    maximize = options.pop("maximize", False)
    build = functools.partial(MAKE[name], **options)
    return Maximized(build, params) if maximize else build(params)


def main():
    versions = ", ".join(f"{name} {version(name)}" for name in ["torch", *PACKAGES])
    cases = [(name, options, functools.partial(make, name, options), "")
             for name, options in [*alone(ALONE, NEEDS), *PAIRS]]
    write("optim_field.txt", versions, SHAPES, cases)


if __name__ == "__main__":
    main()
