-- Optimizers as objects: what they are made of, hyperparameters, fields.
local optlua = require "optlua"
local optim, nn = optlua.optim, optlua.nn

local fails = require("fails").matching
local process = require "process"

local function values(tensor) return tensor:detach():flatten():totable() end

local function param(value, gradient, dtype)
  local p = optlua.tensor(value, { dtype = dtype or "float64" })
  p.requires_grad = true
  if gradient then p.grad = optlua.tensor(gradient, { dtype = p.dtype }) end
  return p
end

local function model() return nn.Sequential { nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2) } end

describe("an optimizer takes", function()
  it("a list of tensors, named by number", function()
    local optimizer = optim.SGD({ param { 1 }, param { 2 } }, { lr = 0.1 })
    assert.same({ "param1", "param2" }, optimizer.groups.default.names)
  end)

  it("a list of names and tensors, a module, an iterator", function()
    assert.same({ "a", "b" }, optim.SGD({ { "a", param { 1 } }, { "b", param { 2 } } }).groups.default.names)
    local net = model()
    local names = { "0.weight", "0.bias", "2.weight", "2.bias" }
    assert.same(names, optim.SGD(net).groups.default.names)
    assert.same(names, optim.SGD(net:named_parameters(), { lr = 0.1 }).groups.default.names)
    assert.same({ "param1", "param2", "param3", "param4" }, optim.SGD(net:parameters()).groups.default.names)
  end)

  it("groups with hyperparameters of their own", function()
    local optimizer = optim.SGD({
      { name = "fast", params = { param { 1 } }, lr = 0.5 },
      { params = { param { 1 }, { "x", param { 1 } } } },
      { params = {} },
    }, { lr = 0.1, momentum = 0.9 })
    assert.equal(3, #optimizer.groups)
    assert.equal(0.5, optimizer.groups.fast.lr)
    assert.equal(0.9, optimizer.groups.fast.momentum)
    assert.equal(0.1, optimizer.groups[2].lr)
    assert.equal("group2", optimizer.groups[2].name)
    assert.same({ "param2", "x" }, optimizer.groups.group2.names)
    assert.same({}, optimizer.groups[3].params)
    local seen = {}
    for i, group in pairs(optimizer.groups) do seen[i] = group.name end
    assert.same({ "fast", "group2", "group3" }, seen)
  end)

  it("groups of modules, whose parameters may bear the same names", function()
    local a, b, c = nn.Linear(1, 1), nn.Linear(1, 1), nn.Linear(1, 1)
    local optimizer = optim.SGD({ { params = a }, { name = "head", params = b } }, { momentum = 0.9 })
    assert.same({ "weight", "bias" }, optimizer.groups[1].names)
    assert.same({ "head.weight", "head.bias" }, optimizer.groups.head.names)
    optimizer:add_group { params = c }
    assert.same({ "group3.weight", "group3.bias" }, optimizer.groups.group3.names)
    c.bias.grad = optlua.ones(1)
    optimizer:step()
    assert.equal(1, optimizer:state_dict()["state.group3.bias.momentum_buffer"]:item())
    fails("parameters 'weight' and 'weight' are the same tensor", optim.SGD, { { params = a }, { params = a } })
    fails('give them names of their own', optim.SGD, { { "a", param { 1 } }, { "a", param { 1 } } })
  end)

  it("nothing without an order", function()
    fails("no order", optim.SGD, { w = param { 1 }, b = param { 2 } })
    fails("no order", optim.SGD, { param { 1 }, b = param { 2 } })
    fails("pairs gives parameters in no order", optim.SGD, (pairs { a = param { 1 } }))
    fails("no order", optim.SGD, { { name = "g", params = { w = param { 1 } } } })
  end)

  it("nothing twice", function()
    local x, net = param({ 0 }, { 1 }), model()
    fails("'param1' and 'param2' are the same tensor", optim.SGD, { x, x }, { lr = 0.1 })
    fails("'a' and 'b' are the same tensor", optim.SGD, { { "a", x }, { "b", x } })
    fails("'param1' and 'param2' are the same tensor", optim.SGD, { { params = { x } }, { params = { x } } })
    fails("two parameters are named 'a'", optim.SGD, { { "a", x }, { "a", param { 1 } } })
    fails("two groups are named 'g'", optim.SGD, { { name = "g", params = {} }, { name = "g", params = {} } })
    local base = param { 1, 2, 3, 4 }
    local part = base:detach():narrow(1, 2, 2)
    part.requires_grad = true
    fails("'param1' and 'param2' share memory", optim.SGD, { base, part })
    local optimizer = optim.SGD(net)
    fails("are the same tensor", optimizer.add_group, optimizer, { params = { net:parameters()[1] } })
    assert.equal(1, #optimizer.groups)
    optim.SGD({ base:detach():narrow(1, 1, 2), base:detach():narrow(1, 3, 2) }) -- side by side
  end)

  it("nothing else", function()
    fails("one tensor is no list", optim.SGD, param { 1 })
    fails("parameters expected", optim.SGD)
    fails("not a number", optim.SGD, 1)
    fails("item 2 of the parameters", optim.SGD, { param { 1 }, 2 })
    fails("'param1' is int64", optim.SGD, { optlua.tensor({ 1 }, { dtype = "int64" }) })
    fails("'param1' is bfloat16", optim.SGD, { optlua.tensor({ 1 }):to "bfloat16" })
    fails("'param1' is the result of an operation", optim.SGD, { param { 1 } * 2 })
    fails("'param1' is expanded", optim.SGD, { param({ 1 }):detach():expand(3) })
    fails("item 2 is no group", optim.SGD, { { params = {} }, param { 1 } })
    fails("hyperparameters are a table", optim.SGD, { param { 1 } }, 0.1)
    fails("an iterator gives a name", optim.SGD, coroutine.wrap(function() coroutine.yield(1, 2) end))
  end)

  it("no parameters at all: it does nothing, and counts nothing", function()
    local optimizer = optim.AdamW({}, { lr = 0.1 })
    optimizer:zero_grad()
    optimizer:step()
    assert.equal(0, optimizer:stats().updates)
    assert.equal(0, optimizer:stats().grad_norm)
    local state = optimizer:state_dict()
    local other = optim.AdamW({}, { lr = 1 })
    other:load_state_dict(state)
    assert.equal(0.1, other.groups.default.lr)
    other:step()
    assert.is_truthy(tostring(other):find "0 parameters")
  end)
end)

describe("hyperparameters", function()
  it("are checked at construction, in groups and when assigned, alike", function()
    local bad = {
      { { wieght_decay = 1 }, 'unknown hyperparameter "wieght_decay" %(did you mean "weight_decay"%?%)' },
      { { lr = -1 }, "lr: expected a number at least 0, got %-1" },
      { { lr = 0 / 0 }, "lr: expected a number" },
      { { lr = "fast" }, "lr: expected a number" },
      { { weight_decay = -1 }, "weight_decay: expected" },
      { { betas = { 1.0, 0 } }, "betas%[1%]: expected a number at least 0 and below 1, got 1.0" },
      { { betas = { 0.9 } }, "betas: expected 2 values, got 1" },
      { { betas = 0.9 }, "betas: expected a list" },
      { { amsgrad = 1 }, "amsgrad: expected a boolean" },
      { { lr = function() end }, "optim.scheduler.*schedule.value" },
    }
    local optimizer = optim.AdamW({ param { 1 } })
    for _, case in ipairs(bad) do
      fails(case[2], optim.AdamW, { param { 1 } }, case[1])
      local group = { name = "g", params = { param { 1 } } }
      local name, value = next(case[1])
      group[name] = value
      local message = fails(case[2], function() local _ = optim.AdamW { group } end)
      assert.is_truthy(message:find "^tests[^:]*:%d+: AdamW: group 'g': ", message)
      message = fails(case[2], function() optimizer.groups.default[name] = value end)
      assert.is_truthy(message:find "^tests[^:]*:%d+: AdamW: group 'default': ", message)
    end
    assert.equal(0.001, optimizer.groups.default.lr)
  end)

  it("are all complained about at once, at the script's line", function()
    local message = fails("lr: expected", function()
      local _ = optim.AdamW({ param { 1 } }, { lr = -1, eps = -1, foo = 1 })
    end)
    assert.is_truthy(message:find "^tests/optim_optimizer_spec.lua:")
    assert.is_truthy(message:find "eps: expected")
    assert.is_truthy(message:find 'unknown hyperparameter "foo"')
  end)

  it("can be read and set while running", function()
    local p = param({ 1 }, { 1 })
    local optimizer = optim.SGD({ p }, { lr = 0.5 })
    local group = optimizer.groups.default
    optimizer:step()
    group.lr = 0.25
    assert.equal(0.25, group.lr)
    optimizer:step()
    assert.same({ 0.25 }, values(p))
    local copy = {}
    for name, value in pairs(group) do copy[name] = value end
    assert.equal(0.25, copy.lr)
    assert.equal(0, copy.momentum)
  end)

  it("come in lists that are set as a whole", function()
    local optimizer = optim.AdamW({ param { 1 } })
    local group = optimizer.groups.default
    fails("assign the whole list", function() group.betas[1] = 0.5 end)
    group.betas = { 0.5, 0.6 }
    assert.equal(0.5, group.betas[1])
    assert.equal(2, #group.betas)
    local other = optim.AdamW({ param { 1 } }, { betas = group.betas })
    assert.equal(0.6, other.groups.default.betas[2])
    fails('unknown field "beta" %(did you mean "betas"%?%)', function() return group.beta end)
    fails('unknown group "defualt" %(did you mean "default"%?%)', function() return optimizer.groups.defualt end)
    fails("add_group", function() optimizer.groups.more = {} end)
    assert.is_nil(optimizer.groups[2])
  end)

  it("do not change with the script's tables", function()
    local betas = { 0.9, 0.99 }
    local optimizer = optim.AdamW({ param { 1 } }, { betas = betas })
    betas[1] = 5
    assert.equal(0.9, optimizer.groups.default.betas[1])
  end)
end)

describe("printing", function()
  it("shows groups and hyperparameters of any class alike", function()
    local optimizer = optim.SGD({ { name = "w", params = { param { 1, 2 } }, lr = 0.5 }, { params = {} } })
    assert.equal([[
SGD (
  w: 1 parameter, 2 elements
    dampening = 0
    lr = 0.5
    maximize = false
    momentum = 0
    nesterov = false
    weight_decay = 0
  group2: 0 parameters, 0 elements
    dampening = 0
    lr = 0.001
    maximize = false
    momentum = 0
    nesterov = false
    weight_decay = 0
)]], tostring(optimizer))
  end)
end)

describe("what is handed over in another form", function()
  it("is told where it stands", function()
    local p = param { 1 }
    fails("AdamW: the parameters stand first, alone: optim.AdamW%(parameters, { lr = 0.1 }%)", optim.AdamW, { params = { p }, lr = 1 })
    fails("hyperparameters are a table, { lr = 0.1 }, not a number", optim.AdamW, { p }, 1e-3)
    fails("hyperparameters are a table, { lr = 0.1 }, not a module", optim.AdamW, model(), model())
    fails("a list of groups expected, got a module", optim.container, model(), model())
    fails("a list of groups expected, got an optimizer", optim.container, model(), optim.SGD { p })
    fails("a table of them by group expected, got module", optim.lr_scheduler, optim.SGD { p }, model())
    fails("schedule.LambdaLR { lr_lambda = … }", optlua.schedule.LambdaLR, function() return 1 end)
  end)
end)

describe("a field of an optimizer", function()
  it("is its own, or an error that says where the values are", function()
    local one = optim.AdamW(model(), { lr = 0.1 })
    local container = optim.container(model(), { { name = "all", match = "*", class = "AdamW" } })
    local Mine = optim.container:extend { count = function(self) self.counted = 1 return self.counted end }
    local mine = Mine(model(), optim.SGD)
    for group, optimizer in pairs { default = one, all = container } do
      local where = "optimizer.groups." .. group
      fails("lr is no field of the optimizer; .*" .. where .. ".lr", function() optimizer.lr = 0.5 end)
      fails("lr is no field of the optimizer; .*" .. where .. ".lr", function() return optimizer.lr end)
      fails("betas is no field .*" .. where .. ".betas", function() optimizer.betas = { 0, 0 } end)
      fails("param_groups is no field .*groups.NAME.lr", function() return optimizer.param_groups end)
      fails("has no field learning_rate; .*groups.NAME.lr", function() optimizer.learning_rate = 1 end)
      fails("'ema' is an option, which is given when the container is made: optim.container%(model, …, { ema = … }%)", function()
        optimizer.ema = 0.9
      end)
      fails("'clip_value' is an option", function() return optimizer.clip_value end)
      fails("clip_value can be set where it was given when the optimizer was made", function()
        optimizer.groups[group].clip_value = 1
      end)
      assert.is_nil(optimizer.save)
    end
    fails("lr is no field", function() mine.lr = 1 end)
    assert.equal(1, mine:count())
  end)

  it("has nothing to train when there is no parameter, which is said unless a list is meant to be empty", function()
    local folder = process.folder()
    process.write(folder .. "/a.lua", [[
local optlua = require "optlua"
local empty = optlua.nn.ReLU()
optlua.optim.SGD(empty)
optlua.optim.AdamW(empty:named_parameters())
optlua.optim.container(empty, "Adam")
optlua.optim.SGD {}
optlua.optim.SGD(optlua.nn.Linear(1, 1))
]])
    local told = process.run(folder, "optlua a.lua")
    process.remove(folder)
    assert.same({ 0, "" }, { told.code, told.out })
    local expected = {}
    for i, name in ipairs { "SGD", "AdamW", "optim.container" } do
      expected[i] = ("optlua: %s: there are no parameters; nothing will be trained\n"):format(name)
    end
    assert.equal(table.concat(expected), told.err)
  end)
end)

describe("a method called with a dot", function()
  it("says how it is called, at the script's line", function()
    local function at(pattern, call) fails("^tests/optim_optimizer_spec.lua:%d+: " .. pattern, call) end
    local wanted = ": an optimizer expected, got nothing; methods are called with a colon: optimizer:"
    for _, optimizer in ipairs { optim.SGD(model()), optim.container(model(), "AdamW") } do
      for _, name in ipairs { "step", "zero_grad", "state_dict", "plan", "add_group", "with_eval", "stats" } do
        at(name .. wanted .. name .. "%(…%)", function() optimizer[name]() end)
      end
      at("step: an optimizer expected, got a function", function() optimizer.step(print) end)
      local scheduler = optim.lr_scheduler(optimizer, function() return 1 end)
      at("step: a scheduler expected, got nothing; .* scheduler:step%(…%)", function() scheduler.step() end)
    end
  end)
end)

describe("infinity", function()
  it("comes into averages of squares where PyTorch's have it, and not before", function()
    for _, name in ipairs { "Adam", "AdamW", "NAdam", "RAdam", "AdEMAMix", "LAMB", "Adan", "AdaBelief", "RMSprop", "Adadelta",
      "ScheduleFreeAdamW" } do
      local p = optlua.ones({ 2 }, { requires_grad = true })
      p.grad = optlua.full({ 2 }, 2e19) -- its square is infinite, a tenth of it is not
      local optimizer = optim[name]({ { "p", p } })
      optimizer:step()
      p.grad = optlua.ones(2)
      optimizer:step()
      for key, value in pairs(optimizer:state_dict()) do
        if key ~= "state.p.param" and optlua.is_tensor(value) then assert.equal(value:numel(), value:isfinite():sum():item(), name .. " " .. key) end
      end
    end
  end)

  it("is a value of hyperparameters where it is the default or the maximum", function()
    local p = { optlua.ones({ 1 }, { requires_grad = true }) }
    for _, x in ipairs { math.huge, -math.huge } do fails("lr: ", optim.AdamW, p, { lr = x }) end
    fails("betas", optim.AdamW, p, { betas = { 0.9, math.huge } })
    fails("eps: a finite number expected, got inf", optim.AdamW, p, { eps = math.huge })
    local optimizer = optim.AdamW(p)
    fails("lr: a finite number expected, got inf", function() optimizer.groups[1].lr = math.huge end)
    assert.equal(1e-3, optimizer.groups[1].lr)
    assert.equal(math.huge, optim.Prodigy(p).groups[1].growth_rate)
    local Open = optim.define { name = "Open", hyper = { most = { default = 1, max = math.huge } }, update = function(q) return q end }
    assert.equal(math.huge, Open(p, { most = math.huge }).groups[1].most)
    fails("grad_scale: expected", optim.container, optlua.nn.Linear(1, 1), "SGD", { grad_scale = math.huge })
  end)
end)

describe("add_group", function()
  it("is a list without holes, as groups and parameters are", function()
    fails("item 2 of the groups is nil", optim.SGD, { { params = { param { 1 } } }, nil, { params = { param { 1 } } } })
    fails("item 1 of the parameters is nil", optim.SGD, { nil, param { 1 } })
    fails("item 2 of the groups is nil", optim.container, nn.Linear(1, 1),
      { { match = "*", class = "SGD" }, nil, { match = "*", class = "SGD" } })
    fails("match: glob 2 is nil", optim.container, nn.Linear(1, 1), { { match = { "bias", nil, "*" }, class = "SGD" } })
  end)

  it("adds parameters with hyperparameters of their own", function()
    local optimizer = optim.SGD({ param({ 1 }, { 1 }) }, { lr = 0.5 })
    optimizer:step()
    local p = param({ 1 }, { 1 })
    optimizer:add_group { params = { p }, momentum = 0.9 }
    optimizer:step()
    assert.equal(0.5, p:item())
    assert.equal(0.5, optimizer.groups.group2.lr)
    assert.same({ "param2" }, optimizer.groups.group2.names)
    fails("params expected", optimizer.add_group, optimizer, { param { 1 } })
    fails("group 'none' has no parameters", optimizer.add_group, optimizer, { name = "none", params = {} })
    fails("momentum: expected", optimizer.add_group, optimizer, { params = {}, momentum = -1 })
    fails("two groups are named 'group2'", optimizer.add_group, optimizer, { name = "group2", params = {} })
    assert.equal(2, #optimizer.groups)
  end)
end)
