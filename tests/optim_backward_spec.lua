-- Updates in backward: the bits of ordinary updates, in the memory of one layer's gradients; what is refused; errors.
local optlua = require "optlua"
local core = require "optlua.core"
local process = require "process"
local nn, optim = optlua.nn, optlua.optim

local fails = require("fails").matching
local Bag = nn.class "Bag"

local function live()
  collectgarbage()
  collectgarbage()
  return core.hidden.memory()
end

-- Everything that an optimizer and a model hold, by name, as text.
local function bits(optimizer, model)
  local found = {}
  local function add(name, value)
    if optlua.is_tensor(value) then value = value:detach():reshape(-1):totable() end
    for i, x in ipairs(type(value) == "table" and value or { value }) do
      found[name .. "." .. i] = type(x) == "number" and ("%.17g"):format(x) or tostring(x)
    end
  end
  optimizer:step() -- closes an update that may be open
  for name, value in pairs(optimizer:state_dict()) do add(name, value) end
  for name, value in pairs(model:state_dict()) do add("model." .. name, value) end
  return found
end

local function matrices()
  local model = Bag()
  model.a = nn.Parameter(optlua.randn { 4, 3 })
  model.b = nn.Parameter(optlua.randn { 3, 5 })
  model.c = nn.Parameter(optlua.randn { 5, 5 })
  return model, function(x) return ((x:matmul(model.a):tanh():matmul(model.b):matmul(model.c)):matmul(model.c)):square():mean() end
end

local function network()
  local model = nn.Sequential { nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3) }
  return model, function(x) return model(x):square():mean() end
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

-- A module of some parameters, and an optimizer that updates them in backward.
local function hold(tensors, class, opts)
  local model = Bag()
  for _, name in ipairs { "a", "b", "c" } do
    if tensors[name] then model[name] = nn.Parameter(tensors[name]) end
  end
  opts = opts or { lr = 0.5 }
  opts.in_backward = true
  return model, optim.container(model, class or "SGD", opts)
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

describe("in_backward refuses", function()
  local function make(opts, what)
    opts.in_backward = true
    return optim.container((network()), what or "AdamW", opts)
  end

  it("options and classes that need all gradients at once, with the reason, all together", function()
    fails("max_norm: not with in_backward: the norm of several gradients", make, { max_norm = 1 })
    fails("group 'default': not with max_group_norm: the norm", make, { max_group_norm = 1 })
    fails("group 'b': not with max_group_norm: the norm", make, {},
      { { name = "a", match = "0.*", class = "SGD" }, { name = "b", match = "*", class = "SGD", max_group_norm = 1 } })
    fails("in_backward: not with track_updates: its sums", make, { track_updates = true })
    local message = fails("nonfinite = \"skip\" or \"rollback\": an update of which a part", make, { nonfinite = "skip", max_norm = 1 })
    assert.matches("max_norm: not with", message)
    fails("group 'default': 'in_backward' is an option of the container: optim.container%(model, \"SGD\", { in_backward = … }%)",
      optim.SGD, (network()), { in_backward = true, max_norm = 1 })
    local optimizer = make {}
    fails("max_norm: not with in_backward", function() optimizer.max_norm = 1 end)
    local Summing = optim.define { name = "Summing", hyper = { lr = 1 }, group = { x = 0 }, after = function() end,
      update = function(p, g, _, h) return p - h.lr * g end }
    fails("group 'default': Summing cannot be updated in backward: its `after` needs sums", make, {}, Summing)
    fails("in_backward: expected a boolean, got 1", optim.container, (network()), "SGD", { in_backward = 1 })
  end)

  it("wrappers whose optimizers are not of this library, or have the option themselves", function()
    local Own = optim.wrapper { name = "Own", build = function() return { step = function() end, zero_grad = function() end,
      state_dict = function() return {} end, load_state_dict = function() end } end }
    fails("group 'default': an optimizer that is not of this library makes its own steps", make, {}, Own)
    local Inner = optim.wrapper { name = "Inner", build = function(named) return optim.container(named, "SGD", { in_backward = true }) end }
    fails("what build returned has the option in_backward", optim.container, (network()), Inner, {})
  end)

  it("rules with group_add, when the first gradient is on its way", function()
    local Adding = optim.define { name = "Adding", hyper = { lr = 1 }, group = { x = 0 },
      update = function(p, g, _, h)
        optim.group_add("x", g)
        return p - h.lr * g
      end }
    local model, optimizer = hold({ a = optlua.ones { 1 } }, Adding)
    fails("the rule of parameter 'a' uses group_add", function() model.a:sum():backward() end)
    optimizer:step()
    assert.equal(1, model.a:item())
    assert.equal(0, optimizer:stats().updates)
  end)

  it("closures, hooks before a step, gradients from elsewhere, clipping afterwards", function()
    local model, optimizer = hold { a = optlua.ones { 1 } }
    fails("step: no closure with in_backward", optimizer.step, optimizer, function() end)
    fails("register_step_pre_hook: with in_backward no gradient is there", optimizer.register_step_pre_hook, optimizer, print)
    model.a.grad = optlua.ones { 1 }
    fails("parameter 'a' has a gradient that no backward has brought", optimizer.step, optimizer)
    fails("parameter 'a' has a gradient already, to which none can be added", function() model.a:sum():backward() end)
    optimizer:zero_grad()
    model.a:sum():backward()
    fails("parameter 'a' is updated in backward", optim.clip_grad_norm_, model, 1)
    fails("a parameter is updated in backward", nn.utils.clip_grad_value_, model, 1)
  end)

  it("averages in the place of weights", function()
    local model, optimizer = hold({ a = optlua.ones { 1 } }, "SGD", { lr = 0.5, ema = 0.5 })
    model.a:sum():backward()
    optimizer:step()
    fails("backward: not inside with_ema", optimizer.with_ema, optimizer, function() model.a:sum():backward() end)
    assert.equal(0.5, model.a:item())
  end)

  it("what a hook might do to it while backward runs", function()
    for _, method in ipairs { "step", "load_state_dict" } do
      local model, optimizer = hold { a = optlua.ones { 1 } }
      local saved = optimizer:state_dict()
      model.a:register_hook(function() optimizer[method](optimizer, method ~= "step" and saved or nil) end)
      fails(method .. ": not while backward updates parameters", function() model.a:sum():backward() end)
      assert.equal(1, model.a:item())
    end
  end)
end)

describe("an error in an update in backward", function()
  -- b is used first: a is updated before it.
  local function make(opts, class)
    local model, optimizer = hold({ a = optlua.ones { 2 }, b = optlua.ones { 2 } }, class, opts)
    return model, optimizer, function() return ((model.b * 2) * model.a):sum() end
  end

  it("of a rule or a schedule changes nothing, and says where", function()
    local broken = false
    local Broken = optim.define { name = "Broken", hyper = { lr = 1 }, state = { m = 0 }, update = function(p, g, s, h)
      if broken and p.ndim == 1 then error "the rule is broken" end
      s.m = s.m + g
      return p - h.lr * s.m
    end }
    local model, optimizer, loss = make({}, Broken)
    broken = true
    fails("the rule is broken.*Broken, group 'default', parameter '[ab]', update 1", function() loss():backward() end)
    broken = false
    assert.same({ 1, 1, 1, 1 }, { model.a[1]:item(), model.a[2]:item(), model.b[1]:item(), model.b[2]:item() })
    assert.equal(0, optimizer:stats().state_bytes)
    optim.lr_scheduler(optimizer, function() return broken and 0 / 0 or 1 end)
    broken = true
    fails("the schedule gives NaN", function() loss():backward() end)
    optimizer:step()
    assert.equal(0, optimizer:stats().updates)
  end)

  it("of a hook leaves what would have come after it; what came before stays, and step() counts it", function()
    local model, optimizer, loss = make { lr = 0.5, momentum = 0.5 }
    local hook = model.b:register_hook(function() error "the hook is broken" end)
    fails("the hook is broken", function() loss():backward() end)
    assert.same({ 0, 0 }, values(model.a))
    assert.same({ 1, 1 }, values(model.b))
    optimizer:step()
    local state = optimizer:state_dict()
    assert.same({ 1, 0, 1 }, { state["state.a.step"], state["state.b.step"], state.updates })
    hook:remove()
    loss():backward()
    optimizer:step()
    assert.equal(2, optimizer:state_dict()["state.a.step"])
  end)

  it("leaves a parameter that was put to sleep since alone", function()
    local model, optimizer = hold { a = optlua.ones { 1 }, b = optlua.ones { 1 }, c = optlua.ones { 1 } }
    local first, second = ((model.b * 2) * model.a):sum(), (model.b * 3 + model.c):sum()
    local hook = model.b:register_hook(function() error "the hook is broken" end)
    fails("the hook is broken", function() first:backward() end)
    hook:remove()
    model.b.requires_grad = false
    second:backward()
    optimizer:step()
    assert.same({ 0, 1, 0.5 }, { model.a:item(), model.b:item(), model.c:item() })
  end)

  it("of a gradient that is not finite names the parameter and leaves it", function()
    local model, optimizer, loss = make { lr = 0.5, nonfinite = "error" }
    optlua.no_grad(function() model.a:fill_(math.huge) end)
    fails("the gradient of parameter 'b' is not finite", function() loss():backward() end)
    assert.same({ 1, 1 }, values(model.b))
    optimizer:step()
    assert.equal(0, optimizer:state_dict()["state.b.step"])
  end)

  it("of a value that backward still needs is said", function()
    local model = make()
    local loss = ((model.b * model.a:detach()) * model.a):sum()
    fails("changed in place", function() loss:backward() end)
    assert.same({ 1, 1 }, values(model.b))
  end)

  it("of memory, whichever allocation fails, leaves each parameter before or after its update", function()
    local function make_all()
      optlua.manual_seed(5)
      local model, loss = network()
      return model, optim.container(model, "AdamW", { in_backward = true, ema = 0.9, nonfinite = "error" }), loss
    end
    local x = optlua.randn { 2, 4 }
    local first, optimizer_of_first, loss_of_first = make_all()
    local before = bits(optimizer_of_first, first)
    loss_of_first(x):backward()
    local after, failed, k = bits(optimizer_of_first, first), 0, 0
    repeat
      local model, optimizer, loss = make_all()
      local value = loss(x)
      core.hidden.fail_allocations(k, false)
      local ok, message = pcall(value.backward, value)
      local reached = core.hidden.fail_allocations(-1) < 0
      if reached then
        failed = failed + 1
        assert.is_false(ok)
        assert.matches("memory", message)
        local got = bits(optimizer, model)
        for name in model:named_parameters() do
          local steps = got[("state.%s.step.1"):format(name)]
          local wanted = steps == "1" and after or before
          for key, text in pairs(got) do
            if key:find("." .. name .. ".", 1, true) then assert.equal(wanted[key], text, ("%d %s"):format(k, key)) end
          end
        end
      end
      k = k + 1
    until not reached
    assert.is_true(failed > 40, failed)
  end)

  it("gives gradients back when it is dropped, wherever the collector is", function()
    local result = process.run("/", process.quote(process.optlua) .. [=[ -e '
      local optlua = require "optlua"
      collectgarbage("incremental", 200, 4, 10) -- in many small steps
      local model, junk = optlua.nn.Linear(4, 1), {}
      for i = 1, 5000 do junk[i] = { i } end
      local function backward() model(optlua.ones { 1, 4 }):sum():backward() end
      for _ = 1, 20 do
        do
          local optimizer = optlua.optim.container(model, "SGD", { lr = 0.1, in_backward = true })
          backward()
          optimizer:step()
        end
        for _ = 1, 300 do
          collectgarbage("step", 0)
          pcall(backward) -- refused while the optimizer is not known to be dead
          model:zero_grad()
        end
      end
      collectgarbage()
      backward()
      print(model.weight.grad:sum():item())
    ']=])
    assert.same({ 0, "4.0" }, { result.code, result.out:match "^%S*" }, result.err)
  end)

  it("leaves no memory behind", function()
    local function once()
      local model, _, loss = make { lr = 0.5, momentum = 0.5 }
      model.b:register_hook(function() error "broken" end)
      pcall(function() loss():backward() end)
    end
    once()
    local blocks = live().live_blocks
    for _ = 1, 5 do once() end
    assert.equal(blocks, live().live_blocks)
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
