"""The work of layers.lua in PyTorch; see peer.py."""
import torch
from torch import nn
from torch.nn import functional as F

MILLION = 1 << 20
IMAGES, ROWS = (16, 64, 32, 32), (4096, 256)


def layer(size, make):
    return lambda: ([torch.randn(size)], make())


def cross_entropy(rows, classes):
    def make():
        target = torch.randint(0, classes, (rows,))
        return [torch.randn(rows, classes)], lambda x: F.cross_entropy(x, target)

    return make


def attention(**options):
    def make():
        inputs = [torch.randn(8, 4, 256, 64) for _ in range(3)]
        return inputs, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options)

    return make


def embedding():
    ids = torch.randint(0, 32000, (4096,))
    return [torch.randn(32000, 256)], lambda weight: F.embedding(ids, weight)


def lstm():
    inside = nn.LSTM(128, 128)
    return [torch.randn(64, 32, 128)], lambda x: inside(x)[0], inside


CASES = {
    "conv2d 3x3, 64 to 64, 32x32 x 16": layer((16, 64, 32, 32), lambda: nn.Conv2d(64, 64, 3, padding=1)),
    "conv2d 1x1, 256 to 64, 32x32 x 16": layer((16, 256, 32, 32), lambda: nn.Conv2d(256, 64, 1)),
    "conv2d 7x7 / 2, 3 to 64, 112x112 x 8": layer((8, 3, 112, 112), lambda: nn.Conv2d(3, 64, 7, stride=2, padding=3)),
    "conv2d 3x3, depthwise": layer(IMAGES, lambda: nn.Conv2d(64, 64, 3, padding=1, groups=64)),
    "max_pool2d 2x2": layer(IMAGES, lambda: nn.MaxPool2d(2)),
    "max_pool2d 3x3 / 2": layer(IMAGES, lambda: nn.MaxPool2d(3, stride=2, padding=1)),
    "avg_pool2d 2x2": layer(IMAGES, lambda: nn.AvgPool2d(2)),
    "adaptive_avg_pool2d 1": layer(IMAGES, lambda: nn.AdaptiveAvgPool2d(1)),
    "batch_norm": layer(IMAGES, lambda: nn.BatchNorm2d(64)),
    "group_norm, 8 groups": layer(IMAGES, lambda: nn.GroupNorm(8, 64)),
    "layer_norm, 256": layer(ROWS, lambda: nn.LayerNorm(256)),
    "softmax, 256": layer(ROWS, lambda: lambda x: F.softmax(x, -1)),
    "relu": layer(MILLION, lambda: F.relu),
    "gelu": layer(MILLION, lambda: F.gelu),
    "silu": layer(MILLION, lambda: F.silu),
    "tanh": layer(MILLION, lambda: torch.tanh),
    "sigmoid": layer(MILLION, lambda: torch.sigmoid),
    "exp": layer(MILLION, lambda: torch.exp),
    "cross_entropy, 64 x 1000": cross_entropy(64, 1000),
    "cross_entropy, 512 x 32000": cross_entropy(512, 32000),
    "attention, 8 x 4 x 256 x 64": attention(),
    "attention, causal": attention(is_causal=True),
    "linear, 1024 x 256 to 1024": layer((1024, 256), lambda: nn.Linear(256, 1024)),
    "embedding, 32k x 256, 4096 ids": embedding,
    "LSTM, 64 steps x 32, 128 to 128": lstm,
}


def work(name):
    """The forward pass, and the forward and backward pass, as functions; None for an unknown name."""
    if name not in CASES:
        return None
    inputs, fn, *inside = CASES[name]()
    if not inside and isinstance(fn, nn.Module):
        inside = [fn]
    leaves = [p for module in inside for p in module.parameters()]
    leaves += [x.requires_grad_() for x in inputs]
    seed = torch.randn_like(fn(*inputs))

    def forward():
        with torch.no_grad():
            fn(*inputs)

    def both():
        for leaf in leaves:
            leaf.grad = None
        fn(*inputs).backward(seed)

    return {"forward": forward, "both": both}
