"""Writes the safetensors files beside it, with PyPI's safetensors.

    python tests/golden/safetensors/make.py        (needs NumPy, PyTorch and safetensors)
"""
import json
import os
import struct

import numpy as np
import safetensors
import torch
from safetensors.torch import save_file, save_model

here = os.path.dirname(os.path.abspath(__file__))


def path(name):
    return os.path.join(here, name + ".safetensors")


def save_raw(name, tensors):
    """Types that no library of Python's writes: name -> (type, shape, bytes)."""
    header, data = {}, b""
    for key, (dtype, shape, content) in tensors.items():
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path(name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    safetensors.deserialize(open(path(name), "rb").read())  # the reference reads it


# What tensors hold: optlua writes the same bytes.
save_file(
    {
        "weight": torch.arange(6, dtype=torch.float32).reshape(2, 3) / 4,
        "bias": torch.arange(3, dtype=torch.float64) / 3,
        "ids": torch.tensor([2**63 - 1, -(2**63), 0]),
        "bytes": torch.tensor([0, 255], dtype=torch.uint8),
        "half.weight": torch.tensor([1.0, -2.5, float("inf")], dtype=torch.bfloat16),
        "a scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        'über "\\\t\x01\x7f': torch.ones(1),
    },
    path("held"),
    metadata={"made by": "safetensors\n„1“"},
)
save_file({}, path("none"))

# Other types, and what they are as float32 or int64.
every = torch.arange(256, dtype=torch.uint8)
special = [0, 1, 2, 0x3FF, 0x400, 0x401, 0x3BFF, 0x3C00, 0x3C01, 0x7BFF, 0x7C00, 0x7C01, 0x7E00, 0x7FFF]
bits = np.array(special + [0x8000 | x for x in special] + list(range(5, 65536, 131)), dtype=np.uint16)
half = torch.from_numpy(bits.view(np.float16).copy())
others = {"F16": half, "F16.float32": half.float(), "BOOL": torch.tensor([[True], [False]])}
for name, dtype in {
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E8M0": torch.float8_e8m0fnu,
}.items():
    others[name] = every.clone().view(dtype)
    others[name + ".float32"] = every.view(dtype).float()
for name, dtype in {
    "I8": torch.int8,
    "I16": torch.int16,
    "U16": torch.uint16,
    "I32": torch.int32,
    "U32": torch.uint32,
}.items():
    info = torch.iinfo(dtype)
    values = torch.tensor([info.min, 0, 1, 100, info.max])
    others[name] = values.to(dtype)
    others[name + ".int64"] = values
others["C64"] = torch.zeros(2, dtype=torch.complex64)
save_file(others, path("others"))
save_raw(
    "rare",
    {
        "U64": ("U64", [2], struct.pack("<QQ", 7, 2**63 - 1)),
        "too large": ("U64", [2], struct.pack("<QQ", 7, 2**63)),
        "F4": ("F4", [3, 2], b"\0" * 3),
        "F6": ("F6_E2M3", [4], b"\0" * 3),
        "nine": ("F32", [1] * 9, b"\0" * 4),
    },
)


# A tied model, as safetensors.torch.save_model writes it.
class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(4, 3)
        self.head = torch.nn.Linear(3, 4, bias=False)
        self.head.weight = self.embedding.weight


tied = Tied()
with torch.no_grad():
    tied.embedding.weight.copy_(torch.arange(12.0).reshape(4, 3))
save_model(tied, path("tied"))

# Pickles, which are refused: PyTorch's zip, and its older form.
torch.save({"x": torch.ones(1)}, os.path.join(here, "zip.pt"))
torch.save({"x": torch.ones(1)}, os.path.join(here, "old.pt"), _use_new_zipfile_serialization=False)

with open(os.path.join(here, "made_with.txt"), "w") as file:
    file.write(f"safetensors {safetensors.__version__}\nPyTorch {torch.__version__}\nNumPy {np.__version__}\n")
