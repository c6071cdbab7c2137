"""Work in PyTorch, on request: reads lines `name <tab> phase <tab> threads <tab> count`, and answers each with
the seconds that it took, or with `unknown`.

    python peer.py MODULE        (one that has work(name): functions by phase, or None)
"""
import importlib
import sys
import time

import torch


def main():
    work = importlib.import_module(sys.argv[1]).work
    phases, name = None, None
    print("torch", torch.__version__, flush=True)
    for line in sys.stdin:
        wanted, phase, threads, count = line.rstrip("\n").split("\t")
        torch.set_num_threads(int(threads))
        if wanted != name:
            phases = None
            phases, name = work(wanted), wanted
        if phases is None or phase not in phases:
            print("unknown", flush=True)
            continue
        run = phases[phase]
        start = time.perf_counter()
        for _ in range(int(count)):
            run()
        print(time.perf_counter() - start, flush=True)


main()
