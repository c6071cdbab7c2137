"""twin_gpt: the model of scripts/char_gpt.lua in PyTorch, trained on the same batches from the same first
weights. The losses after training must agree within 2 % (PyTorch 2.13: all agree to four digits, in the end 2.1520).
Run by hand, beside the script:

  bible -f 'ge1:1-re22:21' >/tmp/bible.txt                     (Debian: bible-kjv, bible-kjv-text)
  optlua scripts/char_gpt.lua --text /tmp/bible.txt --steps 0 --save /tmp/first.safetensors
  optlua tests/golden/twin_gpt.lua /tmp/bible.txt 500 /tmp/batches.safetensors
  python tests/golden/twin_gpt.py /tmp/first.safetensors /tmp/batches.safetensors
  optlua scripts/char_gpt.lua --text /tmp/bible.txt
"""

import math
import sys
import time

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, LAYERS, CONTEXT = 128, 4, 4, 64


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):  # (B,T,C)
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, HEADS, c // HEADS).transpose(1, 2) for part in self.c_attn(x).split(WIDTH, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.ln2 = nn.LayerNorm(WIDTH)
        self.fc = nn.Linear(WIDTH, 4 * WIDTH)
        self.proj = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.proj(F.gelu(self.fc(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, WIDTH)
        self.wpe = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids):  # (B,T) -> (B,T,V)
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def loss_of(model, ids, targets):
    return F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())


def factor(step, steps):
    warmup = steps // 10
    if step < warmup:
        return (step + 1) / warmup
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


def optimizer_of(model):
    matrices = [p for p in model.parameters() if p.ndim == 2]
    vectors = [p for p in model.parameters() if p.ndim != 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))


def train(model, batches):
    steps, total = len(batches["ids"]), 0
    optimizer = optimizer_of(model)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor(step, steps))
    for step, (ids, targets) in enumerate(zip(batches["ids"], batches["targets"]), 1):
        loss = loss_of(model, ids, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        total += loss.item()
        if step % 50 == 0:
            print(f"step {step:4d}  loss {total / 50:.4f}", flush=True)
            total = 0


@torch.no_grad()
def validate(model, ids, targets):
    total = 0
    for x, y in zip(ids.split(256), targets.split(256)):
        total += loss_of(model, x, y).item() * len(x)
    return total / len(ids)


def main(weights, batches):
    state, batches = load_file(weights), load_file(batches)
    model = GPT(len(state["wte.weight"]))
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert missing in ([], ["head.weight"]) and unexpected == [], (missing, unexpected)
    began = time.time()
    train(model, batches)
    trained = time.time() - began
    loss = validate(model, batches["validation_ids"], batches["validation_targets"])
    print(f"validation loss {loss:.4f} after {len(batches['ids'])} steps")
    print(f"{trained:.1f} s for training, {time.time() - began - trained:.1f} s for validation")


main(*sys.argv[1:])
