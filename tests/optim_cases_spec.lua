-- Cases 22 and 26 to 32 of the list (see cases_spec) for every class of optimizers of the library, and their neighbours.
local fails = require("fails").containing
local classes = require "optlua.optim.classes"
local optlua = require "optlua"
local subject = require "optlua.optim.check.subject"
local optim, testing = optlua.optim, optlua.testing

-- Those that are rules.
local rules = {}
for _, name in ipairs(optim.list()) do
  local class = classes.builtin(name)
  if class and class.update then rules[#rules + 1] = class end
end

local function parameter(values, gradient, dtype)
  local p = optlua.tensor(values, { dtype = dtype or "float64", requires_grad = true })
  if gradient then p.grad = optlua.full(p.shape, gradient, { dtype = p.dtype }) end
  return p
end

-- Hyperparameters without what moves a parameter whose gradient is 0.
local function without_decay(class)
  local hypers = {}
  for _, name in ipairs { "weight_decay", "lambd" } do
    if class.hyper[name] then hypers[name] = 0 end
  end
  return hypers
end

-- A shape that a class accepts, of these.
local function accepted(class, ...)
  for _, shape in ipairs { ... } do
    if subject.accepts(class, shape) then return shape end
  end
end

-- Values beyond the bounds of a hyperparameter, as they would be given.
local function out_of_range(option)
  local bad = {}
  if option.min then bad[#bad + 1] = option.min - 1 end
  if option.max then bad[#bad + 1] = option.max + 1 end
  if option.above then bad[#bad + 1] = option.above end
  if option.below then bad[#bad + 1] = option.below end
  if type(option.default) == "number" then bad[#bad + 1] = 0 / 0 end
  if option.choices then bad[#bad + 1] = "no such choice" end
  for k, value in ipairs(bad) do
    if type(option.default) == "table" then
      bad[k] = { table.unpack(option.default) }
      bad[k][#bad[k]] = value
    end
  end
  return bad
end

describe("of every optimizer:", function()
  it("case 22: a hyperparameter that is misspelt or out of range in a group is an error, as at construction", function()
    local tried = 0
    for _, class in ipairs(rules) do
      local p = parameter(optlua.ones(accepted(class, { 2, 2 }, { 2 })):totable(), 0)
      local function refused(said, name, value)
        fails(said, class, { p }, { [name] = value })
        fails(said, class, { { name = "all", params = { p }, [name] = value } })
        fails(said, optim.container, coroutine.wrap(function() coroutine.yield("p", p) end), { { name = "all", match = "*", class = class, [name] = value } })
        tried = tried + 1
      end
      for _, name in ipairs(class.hyper_names) do
        refused('"' .. name .. 'x"', name .. "x", 1)
        for _, bad in ipairs(out_of_range(class.hyper[name])) do refused(name, name, bad) end
      end
    end
    assert.is_true(tried > 5 * #rules)
  end)

  it("case 26: of sizes 1, 0, 1, 0 both that are not empty are updated, alike; so is a parameter of no dimension", function()
    for _, class in ipairs(rules) do
      local list = {}
      for k, n in ipairs { 1, 0, 1, 0 } do
        list[k] = optlua.ones(accepted(class, { n }, { n, n }), { requires_grad = true })
        list[k].grad = list[k]:detach():clone()
      end
      if subject.accepts(class, {}) then list[5] = parameter(1, 1, "float32") end
      local optimizer = class(list)
      for _ = 1, 3 do optimizer:step() end
      assert.is_true(list[1]:sum():item() ~= 1, class.name)
      testing.same_bits(list[1], list[3])
      if list[5] then testing.same_bits(list[1]:reshape {}, list[5]) end
    end
  end)

  it("case 27: a gradient that is a slice or a transpose updates as its copy does", function()
    local wide = optlua.arange(24, { dtype = "float32" }):sin():reshape { 4, 6 }
    local views = { wide:t(), wide:narrow(2, 2, 3), wide:select(1, 2), wide:narrow(1, 3, 2):t(), optlua.ones({ 1 }):expand { 5 } }
    for _, class in ipairs(rules) do
      for _, gradient in ipairs(views) do
        local function run(g)
          local p = optlua.ones(g.shape, { requires_grad = true })
          local optimizer = class { p }
          for _ = 1, 2 do
            p.grad = g
            optimizer:step()
          end
          return p
        end
        if subject.accepts(class, gradient.shape) then testing.same_bits(run(gradient:contiguous()), run(gradient)) end
      end
    end
  end)

  it("case 28: the count of updates is a whole number of its own, beyond what a state could hold", function()
    for _, class in ipairs(rules) do
      for _, dtype in ipairs { "float32", "bfloat16", "8bit-all" } do
        local p = parameter(optlua.ones(accepted(class, { 2, 2 }, { 2 })):totable(), 0.5, "float32")
        local optimizer = class({ p }, { state_dtype = dtype })
        optimizer:step()
        local state = optimizer:state_dict()
        for _, count in ipairs { 256, 2048, 1 << 24, 1 << 53 } do
          state["state.param1.step"], state["group.default.step"], state.updates = count, count, count
          optimizer:load_state_dict(state)
          optimizer:step()
          local after = optimizer:state_dict()
          for _, key in ipairs { "state.param1.step", "group.default.step", "updates" } do
            assert.equal("integer", math.type(after[key]))
            assert.equal(count + 1, after[key], class.name .. ": " .. key)
          end
        end
      end
    end
  end)

  it("case 31: a gradient of 0 moves nothing and divides nothing by 0", function()
    for _, class in ipairs(rules) do
      for _, dtype in ipairs { "float64", "float32" } do
        for _, value in ipairs { 1, 0 } do
          local p = parameter(optlua.full(accepted(class, { 2, 2 }, { 2 }), value):totable(), nil, dtype)
          p.grad = optlua.zeros(p.shape, { dtype = dtype })
          local optimizer = class({ p }, without_decay(class))
          for _ = 1, 3 do optimizer:step() end
          for _, x in ipairs(p:detach():reshape(-1):totable()) do assert.equal(value, x, class.name) end
        end
      end
    end
  end)

  it("case 32: a save before the first step and a load are no step", function()
    for _, class in ipairs(rules) do
      local function trained(loads)
        local p = optlua.ones(accepted(class, { 2, 2 }, { 2 }), { requires_grad = true })
        local optimizer = class { p }
        if loads then
          local state = class({ p }):state_dict()
          assert.same({ 0, 0, 0 }, { state.updates, state["state.param1.step"], state["group.default.step"] })
          optimizer:load_state_dict(state)
        end
        for k = 1, 2 do
          p.grad = p:detach() * k
          optimizer:step()
        end
        return p
      end
      testing.same_bits(trained(false), trained(true))
    end
  end)
end)

describe("case 28:", function()
  -- Where a parameter is after updates with a gradient of 0.1, from 1.
  local function after(class, updates, dtype, options)
    local p = parameter(optlua.ones(options.state_dtype and 4096 or 1):totable(), 0.1, dtype)
    local optimizer = class({ p }, options)
    for _ = 1, updates do optimizer:step() end
    assert.equal(updates, optimizer:state_dict()["state.param1.step"])
    return p:detach():mean():item()
  end

  it("Adam arrives after 1,000 steps of 0.001, in whatever the states are stored", function()
    assert.near(1e-7, after(optim.Adam, 1000, "float64", { lr = 1e-3 }), 1e-8)
    assert.near(0, after(optim.Adam, 1000, "float32", { lr = 1e-3 }), 1e-4)
    for _, class in ipairs { optim.AdamW, optim.NAdam, optim.Adamax } do
      assert.near(0, after(class, 1000, "float32", { lr = 1e-3, weight_decay = 0 }), 0.005, class.name)
    end
    for _, dtype in ipairs { "bfloat16", "8bit" } do -- frozen at 256 it would be at 0.2041
      assert.near(0, after(optim.Adam, 1000, "float32", { lr = 1e-3, state_dtype = dtype }), 0.05)
    end
  end)
end)

describe("case 29:", function()
  it("the variance of centered RMSprop never is negative, and nothing is not finite", function()
    local naive = {} -- what the formula gives in float32 without a guard: below 0 near step 1,200
    local square, mean, one, rest, g = optlua.zeros { 1 }, optlua.zeros { 1 }, 0.99, 1 - 0.99, optlua.full({ 1 }, 0.1)
    for step = 1, 1500 do
      square, mean = one * square + rest * (g * g), one * mean + rest * g
      naive[step] = (square - mean * mean):item()
    end
    assert.is_true(math.min(table.unpack(naive)) < 0)
    for _, options in ipairs { {}, { momentum = 0.9 }, { alpha = 0.9 }, { alpha = 0.999 }, { eps = 0.1 } } do
      options.centered = true
      for _, dtype in ipairs { "float32", "bfloat16" } do
        options.state_dtype = dtype
        local values = {}
        for k = 1, 8 do values[k] = 0.1 * k end
        local p = optlua.zeros({ 8 }, { requires_grad = true })
        p.grad = optlua.tensor(values)
        local optimizer = optim.RMSprop({ p }, options)
        for _ = 1, 4000 do optimizer:step() end
        assert.equal(1, p:detach():isfinite():all():item(), dtype)
      end
    end
  end)
end)
