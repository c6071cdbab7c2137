"""Ops whose form differs from PyTorch's: names of arguments, numbers for tensors, masks, parts."""
import torch
import torch.nn.functional as F


def tensor(value, like):
    return value if torch.is_tensor(value) else torch.tensor(value, dtype=like.dtype)


def bounds(self, min=None, max=None):
    if torch.is_tensor(min) or torch.is_tensor(max):
        min, max = (None if v is None else tensor(v, self) for v in (min, max))
    return self.clone().clamp(min=min, max=max)


def region(self, starts, lengths, steps=None):
    steps = steps or [1] * len(lengths)
    return tuple(a if n < 0 else slice(a, a + (n - 1) * s + 1 if n else a, s)
                 for a, n, s in zip(starts, lengths, steps))


def assign(self, value, **where):
    copy = self.clone()
    copy[region(self, **where)] = value
    return copy


def product(self, dim=None, keepdim=False, dtype=None):
    for d in sorted((d % max(1, self.dim()) for d in (dim if dim is not None else range(self.dim()))), reverse=True):
        self = self.prod(d, keepdim=keepdim)
    return self


def count_nonzero(self, dim=None, keepdim=False):
    return (self != 0).sum(dim, keepdim=keepdim) if dim is not None else (self != 0).sum()


def batch_norm(input, running_mean=None, running_var=None, **a):
    return F.batch_norm(input, running_mean, running_var, **a)


def attention(query, key, value, attn_mask=None, **options):
    if attn_mask is not None and attn_mask.dtype == torch.uint8: attn_mask = attn_mask.bool()
    return F.scaled_dot_product_attention(query, key, value, attn_mask, **options)


def packed_attention(qkv, num_heads, attn_mask=None, is_causal=False):
    q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(-2, -3) for x in qkv.chunk(3, -1))
    if attn_mask is not None and is_causal:
        attn_mask = attn_mask.masked_fill(torch.ones(qkv.shape[-2], qkv.shape[-2]).triu(1).bool(), -torch.inf)
        is_causal = False
    return F.scaled_dot_product_attention(q, k, v, attn_mask, is_causal=is_causal).transpose(-2, -3).flatten(-2)


# PyTorch rounds 1 / alpha and 1 / 6 to float32 in the gradients of float64.
def celu(self, alpha=1): return self.clamp(min=0) + (alpha * torch.expm1(self / alpha)).clamp(max=0)
def hardsigmoid(self): return (self + 3).clamp(0, 6) / 6


def recurrent_step(kind, gates, h, c):
    """The next state from the rows of the input and of the state."""
    x, y = gates
    if kind == "rnn": return torch.tanh(x + y), c
    if kind == "gru":
        (xr, xz, xn), (yr, yz, yn) = x.chunk(3, -1), y.chunk(3, -1)
        z = torch.sigmoid(xz + yz)
        return (1 - z) * torch.tanh(xn + torch.sigmoid(xr + yr) * yn) + z * h, c
    i, f, g, o = (x + y).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def recurrent(kind):
    def run(input, h0, weight_ih, weight_hh, bias_ih=None, bias_hh=None, lengths=None, batch_first=False,
            reverse=False, c0=None):
        x = input.transpose(0, 1) if batch_first else input
        h, c, outputs = h0, c0, [None] * len(x)
        for t in reversed(range(len(x))) if reverse else range(len(x)):
            later = (F.linear(x[t], weight_ih, bias_ih), F.linear(h, weight_hh, bias_hh))
            new_h, new_c = recurrent_step(kind, later, h, c)
            on = (t < lengths if lengths is not None else torch.ones(len(h)).bool())[:, None]
            outputs[t] = torch.where(on, new_h, 0)
            h = torch.where(on, new_h, h)
            if c is not None: c = torch.where(on, new_c, c)
        y = torch.stack(outputs) if outputs else x.new_zeros(0, *h.shape)
        y = y.transpose(0, 1) if batch_first else y
        return (y, h.clone()) if c is None else (y, h.clone(), c.clone())
    return run


CASES = {
    "instance_norm": F.instance_norm, "rms_norm": F.rms_norm, "group_norm": F.group_norm,
    "celu": celu, "celu_": celu, "hardsigmoid": hardsigmoid, "hardsigmoid_": hardsigmoid,
    "rnn_sequence": recurrent("rnn"),
    "gru_sequence": recurrent("gru"),
    "lstm_sequence": recurrent("lstm"),
    "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
    "kl_div": F.kl_div,
    "ctc_loss": F.ctc_loss,
    "batch_norm": batch_norm,
    "scaled_dot_product_attention": attention,
    "packed_attention": packed_attention,
    "prod": product,
    "count_nonzero": count_nonzero,
    "argsort": lambda self, **a: torch.argsort(self, **{**a, "stable": True}),
    "part": lambda self, **where: self[region(self, **where)],
    "assign_": assign,
    "roll": lambda self, shifts, dims=(): torch.roll(self, shifts, dims) if self.dim() else self.clone(),
    "arange": lambda start, end=None, step=1, **a: torch.arange(*([start] if end is None else [start, end, step]), **a),
    "logical_and": lambda self, other: torch.logical_and(self, tensor(other, self)),
    "logical_or": lambda self, other: torch.logical_or(self, tensor(other, self)),
    "logical_xor": lambda self, other: torch.logical_xor(self, tensor(other, self)),
    "maximum": lambda self, other: torch.maximum(self, tensor(other, self)),
    "minimum": lambda self, other: torch.minimum(self, tensor(other, self)),
    "clamp": bounds,
    "clamp_": bounds,
    **{name + "_": lambda self, run=getattr(F, name), **a: run(self, **a) for name in (
        "silu", "mish", "elu", "selu", "leaky_relu", "hardtanh", "relu6", "hardswish", "threshold")},
    "view": lambda self, shape: self.view(shape),
    "movedim": lambda self, source, destination: torch.movedim(self, tuple(source), tuple(destination)),
    "expand": lambda self, **a: self.expand(*a.values()),
    "copy_": lambda self, src: self.clone().copy_(src),
    "embedding": lambda weight, padding_idx=None, **a: F.embedding(*a.values(), weight, padding_idx),
    "adaptive_max_pool1d": F.adaptive_max_pool1d,
    "adaptive_max_pool2d": F.adaptive_max_pool2d,
    "max_pool1d": F.max_pool1d,
    "max_pool2d": F.max_pool2d,
    "one_hot": lambda **a: F.one_hot(*a.values()),
}
