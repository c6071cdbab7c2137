"""Checks that models which optlua loaded, trained and saved load in PyTorch and compute the same there.

    python tests/golden/check_models.py        (needs PyTorch and safetensors, and build/optlua)
"""
import subprocess
import tempfile

import torch
from safetensors.torch import load_file, load_model

from make_models import FOLDER, MODELS, output_of

with tempfile.TemporaryDirectory() as folder:
    subprocess.run(["build/optlua", "tests/golden/save_models.lua", folder], check=True)
    for name, (build, _) in MODELS.items():
        model = build()
        load_model(model, f"{folder}/{name}.safetensors", strict=True)
        inputs = load_file(f"{FOLDER}/{name}_data.safetensors")["inputs"]
        there = load_file(f"{folder}/{name}_outputs.safetensors")["outputs"]
        difference = (output_of(model, inputs[0]) - there).abs().max().item()
        print(f"{name}: outputs differ by {difference:.3g}")
        assert difference < 1e-5
print(f"fine, with PyTorch {torch.__version__}")
