"""Layers whose form differs from PyTorch's: how they are built (LAYERS) and called (CALLS)."""
import torch

LAYERS = {}

CALLS = {}
