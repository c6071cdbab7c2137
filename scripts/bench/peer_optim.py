"""The work of peers.lua in PyTorch; see peer.py. Names are `optimizer, parameters`; phases are ways to do it."""
import torch


def gpt2():
    """The shapes of GPT-2's parameters: 148 tensors, 124 million elements."""
    width, layers = 768, 12
    block = [(width,), (width,), (3 * width, width), (3 * width,), (width, width), (width,)]
    block += [(width,), (width,), (4 * width, width), (4 * width,), (width, 4 * width), (width,)]
    return [(50257, width), (1024, width)] + layers * block + [(width,), (width,)]


PARAMETERS = {"GPT-2": gpt2, "10,000 x 1,000": lambda: [(1000,)] * 10000}


def parameters(name):
    result = [torch.nn.Parameter(torch.randn(shape)) for shape in PARAMETERS[name]()]
    for p in result:
        p.grad = torch.randn(p.shape)
    return result


def adamw(params):
    ways = {"fused": dict(fused=True), "foreach": dict(foreach=True), "for-loop": dict(foreach=False)}
    steps = {way: torch.optim.AdamW(params, lr=1e-5, **options).step for way, options in ways.items()}
    steps["compiled"] = torch.compile(torch.optim.AdamW(params, lr=1e-5, foreach=True).step)
    return steps


def clipped_and_averaged(params):
    def with_extras(step):
        averages = [p.detach().clone() for p in params]

        def run():
            torch.nn.utils.clip_grad_norm_(params, 1.0, foreach=True)
            step()
            with torch.no_grad():
                torch._foreach_lerp_(averages, params, 1e-3)

        return run

    return {way: with_extras(step) for way, step in adamw(params).items() if way != "compiled"}


def lion(p, g, m):
    direction = torch.lerp(m, g, 0.1).sign_()
    p.mul_(1 - 1e-7).sub_(direction, alpha=1e-5)
    m.lerp_(g, 0.01)


def adabelief(p, g, m, s):
    m.lerp_(g, 0.1)
    surprise = g - m
    s.mul_(0.999).addcmul_(surprise, surprise, value=1e-3).add_(1e-16)
    p.mul_(1 - 1e-7).addcdiv_(m, (s.sqrt() * 2).add_(1e-8), value=-1e-5)


def adan(p, g, m, v, n, before):
    difference = g - before
    m.lerp_(g, 0.02)
    v.lerp_(difference, 0.08)
    look = g + 0.92 * difference
    n.mul_(0.99).addcmul_(look, look, value=0.01)
    denominator = (n.sqrt() * 2).add_(1e-8)
    p.addcdiv_(m, denominator, value=-1e-5).addcdiv_(v, denominator, value=-0.92e-5)
    p.div_(1 + 1e-7)
    before.copy_(g)


def lion_foreach(ps, gs, ms):
    directions = torch._foreach_lerp(ms, gs, 0.1)
    torch._foreach_sign_(directions)
    torch._foreach_mul_(ps, 1 - 1e-7)
    torch._foreach_add_(ps, directions, alpha=-1e-5)
    torch._foreach_lerp_(ms, gs, 0.01)


def adabelief_foreach(ps, gs, ms, ss):
    torch._foreach_lerp_(ms, gs, 0.1)
    surprises = torch._foreach_sub(gs, ms)
    torch._foreach_mul_(ss, 0.999)
    torch._foreach_addcmul_(ss, surprises, surprises, value=1e-3)
    torch._foreach_add_(ss, 1e-16)
    denominators = torch._foreach_sqrt(ss)
    torch._foreach_mul_(denominators, 2)
    torch._foreach_add_(denominators, 1e-8)
    torch._foreach_mul_(ps, 1 - 1e-7)
    torch._foreach_addcdiv_(ps, ms, denominators, value=-1e-5)


def adan_foreach(ps, gs, ms, vs, ns, befores):
    differences = torch._foreach_sub(gs, befores)
    torch._foreach_lerp_(ms, gs, 0.02)
    torch._foreach_lerp_(vs, differences, 0.08)
    looks = torch._foreach_add(gs, differences, alpha=0.92)
    torch._foreach_mul_(ns, 0.99)
    torch._foreach_addcmul_(ns, looks, looks, value=0.01)
    denominators = torch._foreach_sqrt(ns)
    torch._foreach_mul_(denominators, 2)
    torch._foreach_add_(denominators, 1e-8)
    torch._foreach_addcdiv_(ps, ms, denominators, value=-1e-5)
    torch._foreach_addcdiv_(ps, vs, denominators, value=-0.92e-5)
    torch._foreach_div_(ps, 1 + 1e-7)
    torch._foreach_copy_(befores, gs)


CUSTOM = {
    "Lion": (lion, lion_foreach, 1),
    "AdaBelief": (adabelief, adabelief_foreach, 2),
    "Adan": (adan, adan_foreach, 4),
}


def custom(name):
    """Updates as people write them: a loop over the parameters, each with its states; the same over lists; the
    update of a parameter compiled."""
    update, over_lists, count = CUSTOM[name]

    def make(params):
        states = [[torch.zeros_like(p) for _ in range(count)] for p in params]
        lists = [list(column) for column in zip(*states)]

        def over(one):
            @torch.no_grad()
            def step():
                for p, state in zip(params, states):
                    one(p, p.grad, *state)

            return step

        @torch.no_grad()
        def foreach():
            over_lists(params, [p.grad for p in params], *lists)

        return {"eager": over(update), "foreach": foreach, "compiled": over(torch.compile(update, dynamic=True))}

    return make


WORK = {"AdamW": adamw, "AdamW, clip + EMA": clipped_and_averaged}


def work(name):
    """The ways to make an update, as functions."""
    optimizer, _, tensors = name.partition(" of ")
    make = WORK.get(optimizer) or custom(optimizer)
    return make(parameters(tensors))
