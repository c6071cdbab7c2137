"""Writes the files in models/: a ResNet-18 and a GPT-2 as PyTorch saves them, what they compute, and the
losses of ten steps of AdamW.

    python tests/golden/make_models.py        (needs PyTorch and safetensors)

models/NAME.safetensors        the model's state
models/NAME_data.safetensors   outputs (evaluation mode, of the first batch), losses, trained (outputs
                               again, after the steps), batches of inputs and targets

The models are small: width 8 instead of 64, 2 layers of width 64.
"""
import os

import safetensors
import torch
from torch import nn
from torch.nn import functional as F
from safetensors.torch import save_file, save_model

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
STEPS = 10


# The names and the order of torchvision's resnet18.
def conv3x3(inputs, outputs, stride=1):
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = conv3x3(inputs, outputs, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(outputs, outputs)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self, width=8, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(BasicBlock(width, width, 1), BasicBlock(width, width, 1))
        self.layer2 = nn.Sequential(BasicBlock(width, 2 * width, 2), BasicBlock(2 * width, 2 * width, 1))
        self.layer3 = nn.Sequential(BasicBlock(2 * width, 4 * width, 2), BasicBlock(4 * width, 4 * width, 1))
        self.layer4 = nn.Sequential(BasicBlock(4 * width, 8 * width, 2), BasicBlock(8 * width, 8 * width, 1))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8 * width, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


# The names of Hugging Face's and nanoGPT's GPT-2, with nn.Linear's layout.
class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.c_attn(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(b, t, c))


class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.gelu = nn.GELU(approximate="tanh")
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(self.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = MLP(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    def __init__(self, vocabulary=256, context=64, layers=2, width=64, heads=4):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocabulary, width),
                "wpe": nn.Embedding(context, width),
                "h": nn.ModuleList([Block(width, heads) for _ in range(layers)]),
                "ln_f": nn.LayerNorm(width),
            }
        )
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.transformer.wte.weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, ids):
        x = self.transformer.wte(ids) + self.transformer.wpe(torch.arange(ids.shape[1]))
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))


def image_batches():
    """Noise with a mark that tells the class. (10,8,3,32,32), (10,8)"""
    targets = torch.randint(0, 10, (STEPS, 8))
    images = torch.randint(0, 128, (STEPS, 8, 3, 32, 32))
    for step in range(STEPS):
        for item in range(8):
            images[step, item, targets[step, item] % 3, :, 3 * targets[step, item] :][:, :4] += 100
    return images.to(torch.uint8), targets


def text_batches():
    """Windows of the licence's text. (10,4,64), (10,4,64)"""
    text = torch.tensor(list(open(os.path.join(os.path.dirname(FOLDER), "..", "..", "LICENSE"), "rb").read()))
    begin = torch.randint(0, len(text) - 65, (STEPS, 4))
    window = begin[:, :, None] + torch.arange(64)
    return text[window].to(torch.uint8), text[window + 1]


MODELS = {"resnet18": (ResNet18, image_batches), "gpt2": (GPT2, text_batches)}


def prepared(inputs, dtype=torch.float32):
    """Pixels become -1 … 1; ids become int64."""
    return inputs.to(dtype) / 127.5 - 1 if inputs.ndim == 4 else inputs.long()


def output_of(model, inputs, dtype=torch.float32):
    model.eval()
    with torch.no_grad():
        return model(prepared(inputs, dtype))


def train(model, inputs, targets, dtype=torch.float32):
    """Ten steps of AdamW, one a batch; the losses."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for x, y in zip(inputs, targets):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(prepared(x, dtype)).flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def make(name):
    torch.manual_seed(1)
    build, batches = MODELS[name]
    model, (inputs, targets) = build(), batches()
    if name == "resnet18":  # running statistics that are not those of a new model
        train(model, inputs.flip(0), targets.flip(0))
    model.eval()
    save_model(model, os.path.join(FOLDER, name + ".safetensors"))
    twin = build().double()
    twin.load_state_dict(model.state_dict())
    outputs = output_of(model, inputs[0])
    losses = train(model, inputs, targets)
    trained = output_of(model, inputs[0])
    save_file(
        {"inputs": inputs, "targets": targets.to(torch.uint8), "outputs": outputs, "losses": losses, "trained": trained},
        os.path.join(FOLDER, name + "_data.safetensors"),
        metadata={"made with": f"PyTorch {torch.__version__}, safetensors {safetensors.__version__}"},
    )
    # How much of the numbers is rounding: the same in float64.
    exact = output_of(twin, inputs[0], torch.float64)
    exact_losses = train(twin, inputs, targets, torch.float64)
    print(name, sum(p.numel() for p in model.parameters()), "parameters; losses", losses.numpy().round(4))
    print("  outputs differ from float64's by", (outputs - exact).abs().max().item())
    print("  losses by", (losses - exact_losses).abs().max().item())
    print("  trained outputs by", (trained - output_of(twin, inputs[0], torch.float64)).abs().max().item())


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    os.makedirs(FOLDER, exist_ok=True)
    for model_name in MODELS:
        make(model_name)
