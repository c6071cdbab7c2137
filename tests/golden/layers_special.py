"""Layers whose form differs from PyTorch's: how they are built (LAYERS) and called (CALLS)."""
import torch


def similarity(dim=2, **options): return torch.nn.CosineSimilarity(dim - 1 if dim > 0 else dim, **options)


def average_of_all(layer):
    """momentum = false: None in PyTorch."""
    return lambda *args, **options: layer(*args, **{k: None if v is False and k == "momentum" else v
                                                    for k, v in options.items()})


def index(dim): return dim - 1 if dim > 0 else dim


class CausalSelfAttention(torch.nn.Module):
    """As nanoGPT has it."""

    def __init__(self, width, heads, bias=True):
        super().__init__()
        self.heads = heads
        self.c_attn = torch.nn.Linear(width, 3 * width, bias=bias)
        self.c_proj = torch.nn.Linear(width, width, bias=bias)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(-2, -3) for y in self.c_attn(x).chunk(3, -1))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(-2, -3).flatten(-2))


def with_options(layer, *inputs):
    """Inputs, then perhaps a table of options; masks of uint8 are PyTorch's of bool."""
    options = inputs[-1] if isinstance(inputs[-1], dict) else {}
    options = {k: v.bool() if torch.is_tensor(v) and v.dtype == torch.uint8 else v for k, v in options.items()}
    return layer(*(x for x in inputs if not isinstance(x, dict)), **options)


def along(layer): return lambda dim=-1: layer(index(dim))


def recurrent(layer, x, state=None, options=None):
    """A list is a pair of states; lengths go through packing."""
    state = tuple(state) if isinstance(state, list) else state
    lengths = options and options["lengths"]
    if lengths is None: return layer(x, state)
    rnn = torch.nn.utils.rnn
    packed = rnn.pack_padded_sequence(x, lengths, layer.batch_first, enforce_sorted=False)
    output, state = layer(packed, state)
    return rnn.pad_packed_sequence(output, layer.batch_first, total_length=x.shape[layer.batch_first])[0], state


LAYERS = {
    **{name: along(getattr(torch.nn, name)) for name in ("Softmax", "LogSoftmax", "Softmin", "GLU")},
    "Flatten": lambda start_dim=2, end_dim=-1: torch.nn.Flatten(index(start_dim), index(end_dim)),
    "Unflatten": lambda dim, sizes: torch.nn.Unflatten(index(dim), sizes),
    "CosineSimilarity": similarity,
    "BatchNorm1d": average_of_all(torch.nn.BatchNorm1d),
    "BatchNorm2d": average_of_all(torch.nn.BatchNorm2d),
    "CausalSelfAttention": CausalSelfAttention,
}


def transposed(layer, x, output_size=None):
    return layer(x, [output_size] if isinstance(output_size, int) else output_size)


CALLS = {
    **{kind + form: recurrent for kind in ("RNN", "GRU", "LSTM") for form in ("", "Cell")},
    "ConvTranspose1d": transposed,
    "ConvTranspose2d": transposed,
    "MultiheadAttention": with_options,
    "TransformerEncoderLayer": with_options,
}
