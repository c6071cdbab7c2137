-- The optimizers beyond PyTorch's against recorded numbers: other authors' packages on the same gradients
-- (golden/optim_field.txt).
local goldens = require "goldens"
local optlua = require "optlua"
local optim = optlua.optim

local fails = require("fails").containing

local golden = goldens.read("optim_field.txt", 3)

-- The parameters of a class after all the gradients.
local function reached(class, options)
  local last
  goldens.run(golden, class, options, "float64", function(_, values) last = values end)
  return last
end

-- The beta whose half-life is a part of the way from that of one to that of another.
local function between(from, to, progress)
  local function half_life(beta) return math.log(0.5) / math.log(beta) - 1 end
  return 0.5 ^ (1 / ((1 - progress) * half_life(from) + progress * half_life(to) + 1))
end

-- AdEMAMix as in the paper, one number at a time.
local function naive_ademamix(o)
  local p, fast, slow, v = table.move(golden.start, 1, #golden.start, 1, {}), {}, {}, {}
  for t, gradient in ipairs(golden.steps) do
    local b1, b2, b3, alpha = o.betas[1], o.betas[2], o.betas[3], o.alpha
    if t < (o.alpha_warmup or 0) then alpha = alpha * t / o.alpha_warmup end
    if t < (o.beta3_warmup or 0) then b3 = between(b1, b3, t / o.beta3_warmup) end
    for i, g in ipairs(gradient) do
      fast[i] = b1 * (fast[i] or 0) + (1 - b1) * g
      slow[i] = b3 * (slow[i] or 0) + (1 - b3) * g
      v[i] = b2 * (v[i] or 0) + (1 - b2) * g * g
      local step = (fast[i] / (1 - b1 ^ t) + alpha * slow[i]) / (math.sqrt(v[i] / (1 - b2 ^ t)) + 1e-8)
      p[i] = p[i] - o.lr * (step + o.weight_decay * p[i])
    end
  end
  return p
end

-- A parameter of one number, with a gradient.
local function single(value, gradient)
  local p = optlua.tensor({ value }, { dtype = "float64", requires_grad = true })
  p.grad = optlua.tensor({ gradient }, { dtype = "float64" })
  return p
end

describe("AdEMAMix", function()
  for _, warmups in ipairs { { alpha = 70 }, { beta3 = 70 }, { alpha = 30, beta3 = 500 } } do
    it(("equals the paper's algorithm, alpha_warmup %s, beta3_warmup %s"):format(warmups.alpha, warmups.beta3), function()
      local o = { lr = 0.01, betas = { 0.8, 0.95, 0.999 }, alpha = 5, weight_decay = 0.1, alpha_warmup = warmups.alpha,
        beta3_warmup = warmups.beta3 }
      local want = naive_ademamix(o)
      assert.is_true(goldens.worst(reached(optim.AdEMAMix, o), want) <= 1e-12)
    end)
  end

  it("keeps no fast average with a first beta of 0, and warms up from there", function()
    local optimizer = optim.AdEMAMix({ { "p", single(1, -3) } }, { betas = { 0, 0.9, 0.99 } })
    optimizer:step()
    assert.is_nil(optimizer:state_dict()["state.p.exp_avg_fast"])
    local values = reached(optim.AdEMAMix, { betas = { 0, 0.9, 0.99 }, beta3_warmup = 50 })
    for _, x in ipairs(values) do assert.is_true(x == x) end
  end)
end)

local function after_step(class, value, gradient, options)
  local p = single(value, gradient)
  class({ p }, options):step()
  return p:detach():totable()[1]
end

describe("a ratio of lengths", function()
  it("is 1 for a parameter of zeros", function()
    assert.near(-0.5, after_step(optim.LAMB, 0, 3, { lr = 0.5, eps = 0 }), 1e-12)
    assert.near(-1.5, after_step(optim.LARS, 0, 3, { lr = 0.5, momentum = 0 }), 1e-12)
  end)

  it("is 1 for a gradient of zeros", function()
    assert.equal(2, after_step(optim.LAMB, 2, 0, { lr = 0.5, weight_decay = 0 }))
    assert.equal(2, after_step(optim.LARS, 2, 0, { lr = 0.5, weight_decay = 0, eps = 0 }))
  end)

  it("is that of the lengths else", function()
    assert.near(2 - 0.5 * 2, after_step(optim.LAMB, 2, 30, { lr = 0.5 }), 1e-12)
    assert.near(2 - 0.5 * 1.5, after_step(optim.LAMB, 2, 30, { lr = 0.5, clamp_value = 1.5 }), 1e-12)
    assert.near(2 - 0.5 * 0.1 * 2, after_step(optim.LARS, 2, 30, { lr = 0.5, trust_coefficient = 0.1, weight_decay = 0 }), 1e-9)
  end)
end)

describe("Signum", function()
  it("keeps nothing without momentum", function()
    local p = single(1, -3)
    local optimizer = optim.Signum({ { "p", p } }, { momentum = 0 })
    optimizer:step()
    assert.equal(1.01, p:detach():totable()[1])
    assert.is_nil(optimizer:state_dict()["state.p.momentum_buffer"])
  end)
end)

describe("the optimizers beyond PyTorch's", function()
  it("refuse what is out of range, by name", function()
    local p = { single(1, 1) }
    fails("LAMB: group 'default': clamp_value: expected a number at least 0", optim.LAMB, p, { clamp_value = -1 })
    fails("LARS: group 'default': trust_coefficient: expected a number at least 0", optim.LARS, p, { trust_coefficient = -1 })
    fails("AdaBelief: group 'default': eps: expected a number at least 0", optim.AdaBelief, p, { eps = -1 })
    fails("AdEMAMix: group 'default': betas: expected 3 values", optim.AdEMAMix, p, { betas = { 0.9, 0.99 } })
    fails("Adan: group 'default': betas[3]: expected a number at least 0 and below 1", optim.Adan, p, { betas = { 0.9, 0.9, 1 } })
    fails("Signum: group 'default': momentum: expected a number at least 0 and below 1", optim.Signum, p, { momentum = 1 })
  end)
end)
