"""Writes print.txt: what PyTorch prints for tensors, with suffixes spelt as optlua spells them.

    python tests/golden/print.py        (needs PyTorch)
"""
import os
import re

import torch
import torch._tensor_str as printing

add_suffixes = printing._add_suffixes


def spelt(suffix):
    suffix = suffix.replace("torch.", "").replace("True", "true")
    return re.sub(r"grad_fn=<MulBackward0>", "grad_fn=<mul>", suffix)



def add_spelt(text, suffixes, indent, force_newline):
    return add_suffixes(text, [spelt(s) for s in suffixes], indent, force_newline)


printing._add_suffixes = add_spelt

# A case: the Lua expression, the Python expression.
cases = [
 ("optlua.tensor({ 1, 2, 3 })", "torch.tensor([1.,2,3])"),
 ("optlua.tensor({ 0.7, -1.7, 2.7 }, { requires_grad = true })", "torch.tensor([0.7,-1.7,2.7],requires_grad=True)"),
 ("optlua.tensor({ { 1, 2.5 }, { -3, 4 } })", "torch.tensor([[1,2.5],[-3,4]])"),
 ("optlua.tensor(3.5)", "torch.tensor(3.5)"),
 ("optlua.tensor(-2)", "torch.tensor(-2.)"),
 ("optlua.tensor(7, { dtype = \"int64\" })", "torch.tensor(7)"),
 ("optlua.tensor({})", "torch.tensor([])"),
 ("optlua.tensor({}, { dtype = \"int64\" })", "torch.tensor([],dtype=torch.int64)"),
 ("optlua.tensor({}, { dtype = \"float64\" })", "torch.tensor([],dtype=torch.float64)"),
 ("optlua.zeros(0, 3)", "torch.zeros(0,3)"),
 ("optlua.zeros(2, 0, 3, { dtype = \"uint8\" })", "torch.zeros(2,0,3,dtype=torch.uint8)"),
 ("optlua.zeros(3)", "torch.zeros(3)"),
 ("optlua.zeros(2, 3, { dtype = \"float64\" })", "torch.zeros(2,3,dtype=torch.float64)"),
 ("optlua.tensor({ 0 / 0, 1, 1 / 0, -1 / 0 })", "torch.tensor([float('nan'),1,float('inf'),-float('inf')])"),
 ("optlua.tensor({ 0 / 0, 1.5, 1 / 0, -1 / 0 })", "torch.tensor([float('nan'),1.5,float('inf'),-float('inf')])"),
 ("optlua.tensor({ 0 / 0, 0 })", "torch.tensor([float('nan'),0])"),
 ("optlua.tensor({ 1e-5, 1 })", "torch.tensor([1e-5,1])"),
 ("optlua.tensor({ 1e9, 1 })", "torch.tensor([1e9,1])"),
 ("optlua.tensor({ 123456, 0.5 })", "torch.tensor([123456,0.5])"),
 ("optlua.tensor({ 1e8, 2e8 })", "torch.tensor([1e8,2e8])"),
 ("optlua.tensor({ 1e8 })", "torch.tensor([1e8])"),
 ("optlua.tensor({ 1e-4, 2e-4 })", "torch.tensor([1e-4,2e-4])"),
 ("optlua.tensor({ 1e-4, 2e-4 }, { dtype = \"float64\" })", "torch.tensor([1e-4,2e-4],dtype=torch.float64)"),
 ("optlua.tensor({ 1000, 1.5 })", "torch.tensor([1000,1.5])"),
 ("optlua.tensor({ 1001, 1 })", "torch.tensor([1001.,1])"),
 ("optlua.tensor({ 1e-10, 0, 0 / 0 })", "torch.tensor([1e-10,0,float('nan')])"),
 ("optlua.tensor({ -0.0, 0.5 })", "torch.tensor([-0.0,0.5])"),
 ("optlua.tensor({ -0.0 })", "torch.tensor([-0.0])"),
 ("optlua.tensor({ 99999.99999 })", "torch.tensor([99999.99999])"),
 ("optlua.tensor({ 0.99999 })", "torch.tensor([0.99999])"),
 ("optlua.tensor({ 3.4e38 })", "torch.tensor([3.4e38])"),
 ("optlua.tensor({ 1e300, 1e-300 }, { dtype = \"float64\" })", "torch.tensor([1e300,1e-300],dtype=torch.float64)"),
 ("optlua.tensor({ true, false })", "torch.tensor([1,0],dtype=torch.uint8)"),
 ("optlua.tensor({ 1, -20, 300 }, { dtype = \"int64\" })", "torch.tensor([1,-20,300])"),
 ("optlua.tensor({ math.maxinteger, math.mininteger }, { dtype = \"int64\" })", "torch.tensor([2**63-1,-2**63])"),
 ("optlua.tensor({ 1, 2.5 }, { dtype = \"bfloat16\" })", "torch.tensor([1,2.5],dtype=torch.bfloat16)"),
 ("optlua.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = \"float64\", requires_grad = true })", "torch.tensor([[1.,2],[3,4]],dtype=torch.float64,requires_grad=True)"),
 ("optlua.arange(20)", "torch.arange(20)"),
 ("optlua.arange(30)", "torch.arange(30)"),
 ("optlua.arange(1000)", "torch.arange(1000)"),
 ("optlua.arange(1001)", "torch.arange(1001)"),
 ("optlua.arange(5000):reshape(50, 100)", "torch.arange(5000).reshape(50,100)"),
 ("optlua.arange(1200):reshape(10, 10, 12)", "torch.arange(1200).reshape(10,10,12)"),
 ("optlua.arange(1200):reshape(2, 3, 200)", "torch.arange(1200).reshape(2,3,200)"),
 ("optlua.arange(1200):reshape(6, 200)", "torch.arange(1200).reshape(6,200)"),
 ("optlua.arange(1400):reshape(7, 200)", "torch.arange(1400).reshape(7,200)"),
 ("optlua.arange(24):reshape(2, 3, 4)", "torch.arange(24).reshape(2,3,4)"),
 ("optlua.arange(48):reshape(2, 2, 3, 4)", "torch.arange(48).reshape(2,2,3,4)"),
 ("optlua.arange(48):reshape(2, 2, 3, 4):to(\"float32\") / 7", "torch.arange(48).reshape(2,2,3,4)/7"),
 ("optlua.arange(60):to(\"float32\") / 7", "torch.arange(60)/7"),
 ("optlua.arange(60):to(\"float64\"):reshape(3, 20) / 7", "torch.arange(60).to(torch.float64).reshape(3,20)/7"),
 ("optlua.arange(12):reshape(3, 4):t()", "torch.arange(12).reshape(3,4).t()"),
 ("optlua.arange(2000):to(\"float32\"):exp():sqrt()", "torch.arange(2000).float().exp().sqrt()"),
 ("optlua.arange(3000):to(\"float32\"):reshape(3, 1000) / 1000", "torch.arange(3000).float().reshape(3,1000)/1000"),
 ("optlua.zeros(1, 1, 1)", "torch.zeros(1,1,1)"),
 ("optlua.zeros(2, 1, { dtype = \"float64\", requires_grad = true })", "torch.zeros(2,1,dtype=torch.float64,requires_grad=True)"),
 ("optlua.tensor({ 1.5 }):expand(3)", "torch.tensor([1.5]).expand(3)"),
 ("optlua.ones(2, 2, { requires_grad = true }) * 2", "torch.ones(2,2,requires_grad=True)*2"),
 ("(optlua.ones(11, { requires_grad = true }) * 0.12345)", "torch.ones(11,requires_grad=True)*0.12345"),
 ("(optlua.ones(7, { requires_grad = true, dtype = \"float64\" }) * 0.12345)", "torch.ones(7,requires_grad=True,dtype=torch.float64)*0.12345"),
 ("(optlua.ones({}, { requires_grad = true }) * 2)", "torch.ones([],requires_grad=True)*2"),
 ("optlua.ones(1, 9, { requires_grad = true }) * 0.5 ", "torch.ones(1,9,requires_grad=True)*0.5"),
]
modes = [("", {}), ("precision = 2", dict(precision=2)), ("precision = 8, linewidth = 40", dict(precision=8,linewidth=40)),
  ("threshold = 10, edgeitems = 1", dict(threshold=10,edgeitems=1)), ("sci_mode = true", dict(sci_mode=True)), ("sci_mode = false, precision = 6", dict(sci_mode=False,precision=6)), ("profile = \"short\"", dict(profile="short")),
  ("threshold = 3, edgeitems = 0", dict(threshold=3, edgeitems=0)), ("precision = 0", dict(precision=0))]
lines = [
    f"# Texts of tensors, made with PyTorch {torch.__version__} by print.py. A case: options of",
    "# set_printoptions, a Lua expression, the text, a point; the first two and the last on lines of their own.",
]
for lua_options, options in modes:
    torch.set_printoptions(profile="default")
    torch.set_printoptions(**options)
    for lua, python in cases:
        tensor = eval(python)
        if options and tensor.numel() > 2000:
            continue
        lines += ["options: " + lua_options, "lua: " + lua, str(tensor), "."]
with open(os.path.join(os.path.dirname(__file__), "print.txt"), "w") as file:
    file.write("\n".join(lines) + "\n")
