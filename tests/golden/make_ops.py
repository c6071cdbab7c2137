"""Makes tests/golden/ops/FAMILY.bin and .lua: what PyTorch computes for the samples that dump_ops.lua prints.

    python make_ops.py <samples.jsonl

The .bin holds doubles, little-endian; the .lua says where the outputs and gradients of each sample lie. The
tests never run this: the files are committed, with the version that made them."""
import json, os, struct, sys
import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {"float64": torch.float64, "int64": torch.int64, "uint8": torch.uint8, "float32": torch.float32}
MASKS = {"logical_and", "logical_or", "logical_xor", "logical_not", "where", "masked_fill", "masked_fill_",
         "masked_select", "all", "any"}


def lcg(seed):
    state = seed * 65536 + 0x330E
    while True:
        state = (state * 25214903917 + 11) & 0xFFFFFFFFFFFF
        yield state / 0x1000000000000


def weights(shape):
    random = lcg(11)
    n = 1
    for size in shape: n *= size
    values = [int((0.5 + next(random)) * 1024 + 0.5) / 1024 for _ in range(n)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def index(k): return k - 1 if k > 0 else k


def decode(value, kind, op, place=True):
    if isinstance(value, dict) and "tensor" in value:
        t = torch.tensor(value["tensor"], dtype=TYPES[value["dtype"]]).reshape(value["shape"])
        if value["dtype"] == "uint8" and op in MASKS: t = t.bool()
        return t.requires_grad_() if value["grad"] else t
    if isinstance(value, list):
        return [decode(v, kind, op, False) for v in value]
    if kind == "dims" and place: return [index(int(value))]
    if kind in ("index", "dims"): return index(int(value))
    if kind == "dtype": return TYPES[value]
    if kind in ("data", "sizes") and not isinstance(value, str): return int(value)
    return value


def arguments(line):
    names = [p[0] for p in line["params"]]
    kinds = dict(map(tuple, line["params"]))
    given, named, args = {}, {}, list(line["args"])
    if args and isinstance(args[-1], dict) and "named" in args[-1]: named = args.pop()["named"]
    lists = [n for n in names if kinds[n] in ("sizes", "dims")]
    if len(args) > len(names):
        place = names.index(lists[0])  # a list that is written out
        args[place:] = [args[place:]]
    for place, value in enumerate(args): given[names[place]] = decode(value, kinds[names[place]], line["op"])
    for name, value in sorted(named.items()): given[name] = decode(value, kinds[name], line["op"])
    return given


def tensors(value):
    if torch.is_tensor(value): yield value
    elif isinstance(value, (list, tuple)):
        for v in value: yield from tensors(v)


def apply(op, a):
    """Calls PyTorch's function of that name; special cases say what differs in form only."""
    import ops_special
    if op in ops_special.CASES: return ops_special.CASES[op](**a)
    name, a = op, dict(a)
    first = a.pop("self", None)
    if op.endswith("_"): first = first.clone()
    if first is None: return getattr(torch, name, None)(**a) if hasattr(torch, name) else getattr(F, name)(**a)
    if hasattr(first, name): return getattr(first, name)(**a)
    return getattr(torch, name)(first, **a) if hasattr(torch, name) else getattr(F, name)(first, **a)


class Family:
    """The numbers of one family of ops, as they are written."""

    def __init__(self): self.data, self.entries = bytearray(), []

    def put(self, t):
        flat = t.detach().to(torch.float64).reshape(-1).tolist()
        place = len(self.data) // 8
        self.data.extend(struct.pack("<%dd" % len(flat), *flat))
        return "{%d,%s}" % (place, "{" + ",".join(map(str, t.shape)) + "}")

    def add(self, line):
        given = arguments(line)
        outputs = list(tensors(apply(line["op"], given)))
        total = sum(((o * weights(o.shape)).sum() for o in outputs if o.requires_grad), torch.zeros(()))
        if total.requires_grad: total.backward()
        grads = [t.grad if t.grad is not None else torch.zeros_like(t)
                 for t in tensors(list(given.values())) if t.is_leaf and t.requires_grad]
        self.entries.append('  ["%s/%d"] = { outputs = {%s}, grads = {%s} },' % (
            line["op"], line["sample"], ",".join(map(self.put, outputs)), ",".join(map(self.put, grads))))

    def write(self, name):
        path = os.path.join(HERE, "ops", name)
        with open(path + ".bin", "wb") as f: f.write(self.data)
        with open(path + ".lua", "w") as f:
            f.write("-- Made by make_ops.py with PyTorch %s: places (from 0) and shapes of doubles in the .bin.\n" % torch.__version__)
            f.write("return {\n" + "\n".join(self.entries) + "\n}\n")


def main():
    families, failures = {}, []
    for text in sys.stdin:
        line = json.loads(text)
        family = families.setdefault(line["family"], Family())
        try:
            family.add(line)
        except Exception as e:
            failures.append("%s/%d: %s: %s" % (line["op"], line["sample"], type(e).__name__, str(e).split("\n")[0]))
    for name, family in families.items(): family.write(name)
    print("%d samples" % sum(len(f.entries) for f in families.values()), *failures, sep="\n", file=sys.stderr)


if __name__ == "__main__": main()
