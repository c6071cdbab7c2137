"""Layers whose form differs from PyTorch's: how they are built (LAYERS) and called (CALLS)."""
import torch


def similarity(dim=2, **options): return torch.nn.CosineSimilarity(dim - 1 if dim > 0 else dim, **options)


LAYERS = {
    "CosineSimilarity": similarity,
}

CALLS = {}
