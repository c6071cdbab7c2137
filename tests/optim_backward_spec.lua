-- Updates in backward: the bits of ordinary updates, in the memory of one layer's gradients.
local optlua = require "optlua"
local process = require "process"
local nn, optim = optlua.nn, optlua.optim

local fails = require("fails").matching
local help = require "in_backward"
local Bag = nn.class "Bag"

local live, bits, network, hold = help.live, help.bits, help.network, help.hold

local function matrices()
  local model = Bag()
  model.a = nn.Parameter(optlua.randn { 4, 3 })
  model.b = nn.Parameter(optlua.randn { 3, 5 })
  model.c = nn.Parameter(optlua.randn { 5, 5 })
  return model, function(x) return ((x:matmul(model.a):tanh():matmul(model.b):matmul(model.c)):matmul(model.c)):square():mean() end
end

local function train(make, what, opts, steps)
  optlua.manual_seed(3)
  local model, loss = make()
  local optimizer = optim.container(model, what, opts)
  optim.lr_scheduler(optimizer, function(update) return 1 / (1 + update) end)
  for _ = 1, steps or 5 do
    loss(optlua.randn { 5, 4 }):backward()
    optimizer:step()
    optimizer:zero_grad()
  end
  return bits(optimizer, model), optimizer
end

local function both(make, what, opts)
  local plain, inside = {}, { in_backward = true }
  for key, value in pairs(opts or {}) do plain[key], inside[key] = value, value end
  local want = train(make, what, plain)
  assert.is_truthy(next(want))
  assert.same(want, (train(make, what, inside)))
end

local function values(tensor) return tensor:detach():totable() end

describe("an update in backward", function()
  for _, name in ipairs(optim.list()) do
    local class = optim.resolve(name)
    if class.after or class.definition.step then
      it("is refused for " .. name, function()
        fails("in_backward: group 'default': " .. name .. " cannot be updated in backward", optim.container, (matrices()), name,
          { in_backward = true })
      end)
    else
      it("has the bits of an ordinary one: " .. name, function() both(matrices, name) end)
    end
  end

  it("has them with averages, narrow states, groups, decay, frozen parameters and each dtype", function()
    both(network, "AdamW", { ema = 0.9, nonfinite = "error" })
    both(network, "AdamW", { state_dtype = "bfloat16", weight_decay = 0.1 })
    local function wide()
      local model = nn.Sequential { nn.Linear(4, 1100), nn.Tanh(), nn.Linear(1100, 5) }
      return model, function(x) return model(x):square():mean() end
    end
    for _, make in ipairs { optim.lookahead, optim.swa, optim.centralize } do both(network, make(optim.AdamW)) end
    for _, dtype in ipairs { "8bit", "8bit-all", "bfloat16" } do both(wide, "AdamW", { state_dtype = dtype, ema = 0.9 }) end
    both(network, "AdamW", { grad_scale = 8, clip_value = 1e-3, agc = 0.01, zero = true })
    both(network, {
      { name = "late", match = "0.*", class = "SGD", momentum = 0.9, lr = 0.1, unfreeze_at = 3 },
      { name = "norm", match = { role = "norm" }, class = "NAdam", lr = 0.1 },
      { name = "rest", match = "*", class = "AdamW", lr_scale = 0.5 },
    })
    both(function()
      local model, loss = network()
      model:to "float64"
      return model, function(x) return loss(x:to "float64") end
    end, "Adam")
  end)

  it("has them for tied parameters, which are updated once, and for those of no, one and strided elements", function()
    both(function()
      local model = Bag()
      model.first, model.second = nn.Linear(4, 4), nn.Linear(4, 4)
      model.second.weight = model.first.weight
      model.empty, model.one = nn.Parameter(optlua.zeros { 0, 3 }), nn.Parameter(optlua.tensor(2))
      model.strided = nn.Parameter(optlua.randn({ 3, 4 }):t():detach())
      return model, function(x)
        local y = model.second(model.first(x):tanh()):matmul(model.strided) * model.one
        return y:square():mean() + model.empty:sum() + model.first.weight:square():sum()
      end
    end, "AdamW", { lr = 0.1 })
  end)

  it("leaves parameters without a gradient alone", function()
    local model, optimizer = hold { a = optlua.ones { 2 }, b = optlua.ones { 2 } }
    model.a:sum():backward()
    optimizer:step()
    assert.same({ 0.5, 0.5 }, values(model.a))
    assert.same({ 1, 1 }, values(model.b))
    assert.is_nil(model.a.grad)
    assert.equal(0, optimizer:state_dict()["state.b.step"])
  end)

  it("frees each gradient before the next is computed", function()
    local LAYERS = 12
    local function peak(size, in_backward)
      local layers, most = {}, 0
      for i = 1, LAYERS do layers[i] = nn.Linear(size, size, { bias = false }) end
      local model = nn.Sequential(layers)
      local before = live().live_bytes
      local optimizer = optim.container(model, "SGD", { in_backward = in_backward })
      local loss = model(optlua.randn { 2, size }):square():mean()
      for _, weight in model:named_parameters() do
        weight:register_hook(function() most = math.max(most, live().live_bytes - before) end)
      end
      loss:backward()
      optimizer:step()
      return most / (4 * size * size)
    end
    for _, size in ipairs { 128, 256 } do -- with memory in slabs and without
      assert.is_true(peak(size, true) < 3, peak(size, true))
      assert.is_true(peak(size, false) > LAYERS - 2)
    end
  end)

  it("keeps a weight's old values for what a function of the script hands on as a gradient", function()
    local function product()
      local times = optlua.func {
        name = "times",
        forward = function(ctx, x, w)
          ctx:save(x, w)
          return x * w
        end,
        backward = function(ctx) return ctx.saved[2], ctx.saved[1] end, -- of its sum
      }
      local model = Bag()
      model.w, model.x = nn.Parameter(optlua.tensor { 2, 3 }), nn.Parameter(optlua.tensor { 5, 7 })
      return model, function() return times(model.x * 2, model.w):sum() end
    end
    both(product, "SGD", { lr = 0.1 })
  end)

  it("works in a coroutine, and in a backward inside another", function()
    local model, optimizer = hold { a = optlua.ones { 2 }, b = optlua.ones { 2 } }
    local inner = optlua.func {
      name = "inner",
      forward = function(_, x) return x * 2 end,
      backward = function(_, grad)
        optlua.enable_grad(function() (model.b * 3):sum():backward() end)
        return grad * 2
      end,
    }
    coroutine.wrap(function() inner(model.a):sum():backward() end)()
    optimizer:step()
    assert.same({ 0, 0 }, values(model.a))
    assert.same({ -0.5, -0.5 }, values(model.b))
    assert.equal(1, optimizer:stats().updates)
  end)

  it("shows the gradient to hooks, and takes what they return", function()
    local model, optimizer = hold { a = optlua.ones { 2 } }
    model.a:register_hook(function(grad) return grad * 10 end)
    model.a:sum():backward()
    optimizer:step()
    assert.same({ -4, -4 }, values(model.a))
  end)

  it("ends with its optimizer", function()
    local model = hold { a = optlua.ones { 2 } }
    live()
    model.a:sum():backward()
    assert.same({ 1, 1 }, model.a.grad:totable())
    assert.same({ 1, 1 }, values(model.a))
  end)

  it("ends with the making of another for its parameters", function()
    for _, in_backward in ipairs { false, true } do
      local model, old = hold { a = optlua.ones { 1 } }
      local new = optim.container(model, "SGD", { lr = 0.25, in_backward = in_backward })
      model.a:sum():backward()
      fails("step: an optimizer that was made later has the gradients of parameter 'a'", old.step, old)
      new:step()
      assert.equal(0.75, model.a:item())
    end
  end)

  it("is in the plan", function()
    local _, optimizer = hold { a = optlua.ones { 1 } }
    assert.matches("each parameter is updated in backward", optimizer:plan())
  end)

  it("takes groups that are added", function()
    local model, optimizer = hold { a = optlua.ones { 2 } }
    local b = optlua.ones({ 2 }, { requires_grad = true })
    optimizer:add_group { name = "more", params = { { "b", b } }, lr = 2 }
    local sum = model.a + b
    sum:sum():backward()
    optimizer:step()
    assert.same({ -1, -1 }, values(b))
    assert.equal(1, optimizer.groups.more.params[1] == b and 1)
    assert.equal(1, optimizer:stats().groups.more.updates)
  end)
end)

describe("step() after an update in backward", function()
  it("moves the clock and calls hooks; without an update it counts nothing", function()
    local model, optimizer = hold { a = optlua.ones { 1 } }
    local rates, calls = {}, 0
    optim.lr_scheduler(optimizer, function(update) return 1 / 2 ^ update end)
    optimizer:register_step_post_hook(function() calls = calls + 1 end)
    optimizer:step()
    assert.equal(0, optimizer:stats().updates)
    for i = 1, 3 do
      model.a:sum():backward()
      optimizer:step()
      rates[i] = optimizer.groups.default.lr
    end
    assert.same({ 0.5, 0.25, 0.125 }, rates)
    assert.same({ 0.125 }, values(model.a))
    assert.equal(3, optimizer:stats().updates)
    assert.equal(4, calls)
    assert.is_nil(optimizer:stats().grad_norm)
  end)

  it("must be called before the next backward of the same parameter, not of another", function()
    local model, optimizer = hold { a = optlua.ones { 1 }, b = optlua.ones { 1 } }
    model.a:sum():backward()
    fails("parameter 'a' was updated by a backward before; call the optimizer's step%(%) after each backward", function()
      (model.a + model.b):sum():backward()
    end)
    assert.same({ 0.5, 1 }, { model.a:item(), model.b:item() })
    model.b:sum():backward()
    optimizer:step()
    assert.same({ 0.5, 0.5 }, { model.a:item(), model.b:item() })
    assert.equal(1, optimizer:stats().updates)
    model.a:sum():backward()
    assert.equal(0, model.a:item())
  end)

  it("closes what several backwards made: numbers of the group are prepared once", function()
    local calls = 0
    local Counting = optim.define { name = "Counting", hyper = { lr = 0.5 }, group = { n = 0 },
      before = function(group, h)
        calls = calls + 1
        group.n = group.n + h.step
      end,
      update = function(p, g, _, h, group) return p - h.lr * group.n * g end }
    local model, optimizer = hold({ a = optlua.ones { 1 }, b = optlua.ones { 1 } }, Counting)
    for _ = 1, 2 do
      model.a:sum():backward()
      model.b:sum():backward()
      optimizer:step()
    end
    assert.same({ -1, -1 }, { model.a:item(), model.b:item() })
    assert.equal(3, optimizer:state_dict()["group.default.n"])
    assert.equal(2, calls)
  end)

  it("must come before a state is saved; loading forgets the update", function()
    local model, optimizer = hold({ a = optlua.ones { 1 } }, "SGD", { lr = 0.5, momentum = 0.5 })
    local saved = optimizer:state_dict()
    model.a:sum():backward()
    fails("state_dict: backward has begun an update; call step%(%) first", optimizer.state_dict, optimizer)
    optimizer:load_state_dict(saved)
    assert.equal(0, optimizer:state_dict()["state.a.step"])
    optimizer:step()
    assert.equal(0, optimizer:stats().updates)
    model.a:sum():backward()
    optimizer:step()
    assert.equal(1, optimizer:state_dict()["state.a.step"])
  end)

  it("has not begun an update that has updated nothing", function()
    local seen = {}
    local Noted = optim.define {
      name = "Noted", hyper = { lr = 0.5 }, group = { rate = 0 },
      before = function(group, h)
        seen[#seen + 1] = h.lr
        group.rate = h.lr
      end,
      update = function(p, g, _, _, group) return p - group.rate * g end,
    }
    local model, optimizer = hold({ a = optlua.ones { 1 } }, Noted, { nonfinite = "error" })
    fails("not finite", function() (model.a * (0 / 0)):sum():backward() end)
    assert.equal(0, optimizer:state_dict()["state.a.step"])
    optimizer.groups.default.lr = 0.25
    model.a:sum():backward()
    fails("state_dict: backward has begun an update", optimizer.state_dict, optimizer)
    optimizer:step()
    assert.same({ { 0.5, 0.25 }, 0.75 }, { seen, model.a:item() })
  end)

  it("resumes exactly", function()
    local function make(saved)
      optlua.manual_seed(1)
      local model, loss = network()
      local optimizer = optim.container(model, "NAdam", { in_backward = true, ema = 0.5 })
      if saved then
        model:load_state_dict(saved.model)
        optimizer:load_state_dict(saved.optimizer)
      end
      return model, optimizer, function(i)
        optlua.manual_seed(i)
        loss(optlua.randn { 3, 4 }):backward()
        optimizer:step()
      end
    end
    local model, optimizer, update = make()
    for i = 1, 3 do update(i) end
    local copy = require "optlua.snapshot"
    local again, other, repeated = make { model = copy(model:state_dict()), optimizer = copy(optimizer:state_dict()) }
    for i = 4, 6 do
      update(i)
      repeated(i)
    end
    assert.same(bits(optimizer, model), bits(other, again))
  end)
end)

describe("a spec with optimizer.in_backward", function()
  local SCRIPT = [[
    local optlua = require "optlua"
    return optlua.spec {
      name = "inback",
      config = { epochs = 3, batch_size = 4, seed = 2, checkpoint_every = 5, log_every = 1, optimizer = { class = "AdamW", lr = 0.05 },
        lr_scheduler = "cosine" },
      build_model = function() return optlua.nn.Sequential { optlua.nn.Linear(4, 8), optlua.nn.ReLU(), optlua.nn.Linear(8, 3) } end,
      build_data = function() return optlua.testing.points { n = 32 } end,
      build_loss = function() return optlua.nn.CrossEntropyLoss() end,
    }
  ]]
  local place
  before_each(function()
    place = process.run("/", "mktemp -d").out:gsub("\n", "")
    process.write(place .. "/s.lua", SCRIPT)
  end)
  after_each(function() process.remove(place) end)

  it("trains to the same bits, resumes exactly, and says what it cannot", function()
    local function train_to(out, words)
      local result = process.run(place, ("optlua s.lua --out %s %s && sha256sum < %s/last.safetensors"):format(out, words, out))
      assert.equal(0, result.code, result.err)
      return result.out:match "(%x+)  %-"
    end
    local want = train_to("plain", "")
    assert.equal(want, train_to("inside", "--optimizer.in_backward=true"))
    assert.equal(want, train_to("again", "--optimizer.in_backward=true --resume inside/checkpoints/step-00000015"))
    local plan = process.run(place, "optlua s.lua --optimizer.in_backward=true --plan").out
    assert.matches("gradients 128 bytes at a time", plan)
    assert.equal(0, process.run(place, "optlua s.lua --optimizer.in_backward=true --find-lr").code)
    local function refused(words, why)
      local result = process.run(place, "optlua s.lua --optimizer.in_backward=true --out x " .. words)
      assert.equal(1, result.code)
      assert.matches(why, result.err)
    end
    refused("--accumulate=2", "in_backward: not with accumulate = 2")
    refused("--optimizer.max_norm=1", "max_norm: not with in_backward")
    refused("--optimizer.nonfinite=rollback", "in_backward: not with nonfinite")
  end)

  it("says of a loss that is not finite what it can, and updates nothing", function()
    local model = nn.Linear(1, 1)
    local spec = optlua.spec {
      name = "nan", config = { steps = 2, optimizer = { class = "SGD", in_backward = true } },
      build_model = function() return model end,
      build_data = function() return optlua.data.tensors(optlua.ones { 4, 1 }, optlua.ones { 4, 1 }) end,
      build_loss = function() return function(output) return output:sum() * (0 / 0) end end,
    }
    local weight = model.weight:item()
    fails("the loss is %-?nan at update 0 %(epoch 1%): the parameters are finite", spec.run, spec, {})
    assert.equal(weight, model.weight:item())
  end)
end)
