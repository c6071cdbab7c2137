-- What updates in backward refuse, and errors in them.
local optlua = require "optlua"
local core = require "optlua.core"
local process = require "process"
local nn, optim = optlua.nn, optlua.optim

local fails = require("fails").matching
local help = require "in_backward"

local live, bits, network, hold = help.live, help.bits, help.network, help.hold

local function values(tensor) return tensor:detach():totable() end

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
