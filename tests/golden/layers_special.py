"""Layers whose form differs from PyTorch's: how they are built (LAYERS) and called (CALLS)."""
import torch


def similarity(dim=2, **options): return torch.nn.CosineSimilarity(dim - 1 if dim > 0 else dim, **options)


def average_of_all(layer):
    """momentum = false: None in PyTorch."""
    return lambda *args, **options: layer(*args, **{k: None if v is False and k == "momentum" else v
                                                    for k, v in options.items()})


def index(dim): return dim - 1 if dim > 0 else dim


LAYERS = {
    "Flatten": lambda start_dim=2, end_dim=-1: torch.nn.Flatten(index(start_dim), index(end_dim)),
    "Unflatten": lambda dim, sizes: torch.nn.Unflatten(index(dim), sizes),
    "CosineSimilarity": similarity,
    "BatchNorm1d": average_of_all(torch.nn.BatchNorm1d),
    "BatchNorm2d": average_of_all(torch.nn.BatchNorm2d),
}

def transposed(layer, x, output_size=None):
    return layer(x, [output_size] if isinstance(output_size, int) else output_size)


CALLS = {
    "ConvTranspose1d": transposed,
    "ConvTranspose2d": transposed,
}
