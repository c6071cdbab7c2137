"""Makes tests/golden/layers/CLASS.safetensors: what PyTorch's layers compute for the samples that dump_layers.lua
prints, with their own initial state.

    python make_layers.py <samples.jsonl

Tensors are named N.state.NAME, N.output.K, N.input.K (the gradient of the K-th input that has one), N.grad.NAME
(of a parameter) and N.buffer.NAME (after the call), for sample N. States are exact in float32. The tests never
run this: the files are committed, with the version that made them."""
import json, os, sys
import torch
from safetensors.torch import save_file
import layers_special
from make_ops import TYPES, tensors, weights

HERE = os.path.dirname(os.path.abspath(__file__))


def decode(value):
    if isinstance(value, dict) and "tensor" in value:
        t = torch.tensor(value["tensor"], dtype=TYPES[value["dtype"]]).reshape(value["shape"])
        return t.requires_grad_() if value["grad"] else t
    if isinstance(value, dict): return {key: decode(v) for key, v in value["named"].items()}
    if isinstance(value, list): return [decode(v) for v in value]
    return value


def build(name, args):
    """PyTorch's layer of that name; the last argument may be a table of options."""
    options = args.pop() if args and isinstance(args[-1], dict) else {}
    args = [tuple(a) if isinstance(a, list) else a for a in args]
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    return layers_special.LAYERS.get(name, getattr(torch.nn, name, None))(*args, **options)


def vary(layer):
    """Moves what starts as a constant, so that it shows in the outputs; values stay exact in float32."""
    for t in list(layer.parameters()) + list(layer.buffers()):
        if t.is_floating_point() and t.numel() and (t == t.flatten()[0]).all():
            with torch.no_grad(): t.add_(torch.randint(1, 64, t.shape) / 256)


def compute(line):
    torch.manual_seed(line["sample"])
    layer = build(line["class"], decode(line["args"]))
    vary(layer)
    layer = layer.double().train(not line["eval"])
    found = {"state." + n: t.detach().clone() for n, t in layer.state_dict().items()}
    inputs = decode(line["inputs"])
    call = layers_special.CALLS.get(line["class"], lambda layer, *inputs: layer(*inputs))
    outputs = list(tensors(call(layer, *inputs)))
    total = sum((o * weights(o.shape)).sum() for o in outputs if o.requires_grad)
    if torch.is_tensor(total): total.backward()
    for k, o in enumerate(outputs): found["output.%d" % (k + 1)] = o.detach()
    leaves = [t for t in tensors(inputs) if t.requires_grad]
    for k, t in enumerate(leaves): found["input.%d" % (k + 1)] = torch.zeros_like(t) if t.grad is None else t.grad
    for n, p in layer.named_parameters():
        found["grad." + n] = torch.zeros_like(p) if p.grad is None else p.grad
    for n, b in layer.named_buffers(): found["buffer." + n] = b
    return {"%d.%s" % (line["sample"], n): t.detach().contiguous().clone() for n, t in found.items()}


def main():
    classes, failures = {}, []
    for text in sys.stdin:
        line = json.loads(text)
        found = classes.setdefault(line["class"], {})
        try:
            found.update(compute(line))
        except Exception as e:
            failures.append("%s/%d: %s: %s" % (line["class"], line["sample"], type(e).__name__, str(e).split("\n")[0]))
    for name, found in classes.items():
        save_file(found, os.path.join(HERE, "layers", name + ".safetensors"), {"torch": torch.__version__})
    print("%d classes" % len(classes), *failures, sep="\n", file=sys.stderr)


if __name__ == "__main__": main()
