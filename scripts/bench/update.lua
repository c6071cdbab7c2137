-- update: updates as contenders of a benchmark, and floors over the very arrays that they work on: where
-- memory lies changes how fast it is.
local optlua = require "optlua"
local floors = require "floors"
local timing = require "timing"

local nn = optlua.nn

local update = {}

--- A contender that calls a function.
function update.times(fn)
  return function(n)
    for _ = 1, n do fn() end
  end
end

--- A parameter with a gradient; a number of elements, or a shape.
function update.parameter(shape)
  if type(shape) == "number" then shape = { shape } end
  local p = optlua.randn(shape)
  p.requires_grad = true
  p.grad = optlua.randn(shape)
  return p
end

--- An optimizer of parameters with the options of containers: max_norm, ema, state_dtype …
function update.container(params, class, options)
  local model = nn.class "Parameters"()
  for k, p in ipairs(params) do model["param" .. k] = p end
  return optlua.optim.container(model, class, options)
end

--- A contender that steps.
function update.stepper(optimizer)
  return update.times(function() optimizer:step() end)
end

--- The states of the only parameter that are as large as it, by their names.
local function states(optimizer, p)
  local found, names = {}, {}
  for key, value in pairs(optimizer:state_dict()) do
    local slot = key:match "^state%.param1%.(.+)$"
    if slot and optlua.is_tensor(value) and value:numel() == p:numel() and value.dtype == p.dtype then
      found[slot], names[#names + 1] = value, slot
    end
  end
  table.sort(names)
  return found, names
end

--- Contenders that move the bytes of passes: lists of "p", "g" or states, written and read.
local function bytes(p, found, passes)
  local all = {}
  local function tensor(name) return name == "p" and p or name == "g" and p.grad or assert(found[name], name) end
  local function tensors(list)
    local result = {}
    for i, name in ipairs(list or {}) do result[i] = tensor(name) end
    return result
  end
  for i, pass in ipairs(passes) do all[i] = floors.arrays(tensors(pass.writes), tensors(pass.reads)) end
  return { "bytes", function(n)
    for _ = 1, n do
      for _, pass in ipairs(all) do floors.copy(pass, 1) end
    end
  end }
end

--- A line: an update of one parameter of n elements against its bytes, and against a loop written by hand.
---   class, options: of the optimizer
---   passes: { { writes = { "p", … }, reads = { "g", … } }, … }; default one in which all states are written
---   fused: the name of a loop in updates.c; states: in the order in which it takes them
---@return number[] medians
function update.report(title, n, what, opts)
  local p = update.parameter(n)
  local optimizer = update.container({ p }, what.class, what.options)
  for _ = 1, 2 do optimizer:step() end
  local found, names = states(optimizer, p)
  local contenders = {}
  if what.passes ~= false then
    contenders[1] = bytes(p, found, what.passes or { { writes = { "p", table.unpack(names) }, reads = { "g" } } })
  end
  if what.fused then
    local own = { p }
    for i, name in ipairs(what.states or names) do own[i + 1] = assert(found[name], name) end
    local list = floors.arrays(own, { p.grad })
    contenders[#contenders + 1] = { "fused C", function(k) floors.fused(what.fused, list, k) end }
  end
  contenders[#contenders + 1] = { "step", update.stepper(optimizer) }
  local medians = timing.report(title, contenders, opts)
  assert(p:detach():isfinite():all():item() ~= 0, title .. ": the parameter is not finite any more")
  return medians
end

--- 10,000 tensors of 1,000 elements, over one of the same size.
function update.small_tensors(class)
  local list = {}
  for k = 1, 10000 do list[k] = update.parameter(1000) end
  timing.report(class.name .. ", 10,000 tensors of 1,000", {
    { "one tensor", update.stepper(class { update.parameter(10000 * 1000) }) },
    { "many", update.stepper(class(list)) },
  })
end

--- What one group more costs: its tracing and look-up.
function update.tracing(class)
  local function groups(count)
    local list = {}
    for k = 1, count do list[k] = { name = "g" .. k, params = { { "p" .. k, update.parameter(16) } } } end
    return update.stepper(class(list))
  end
  local medians = timing.interleaved { { "1", groups(1) }, { "11", groups(11) } }
  print(("%-34s %s a group and step; a step of one group %s"):format("tracing, look-up, " .. class.name,
    timing.text((medians[2] - medians[1]) / 10), timing.text(medians[1])))
end

return update
