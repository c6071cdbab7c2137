-- What the library's optimizers stand on, called with arguments that make no sense and in no order: each
-- call returns or raises; nothing crashes, and a step still works afterwards.
local optlua = require "optlua"
local core = require("optlua.core").hidden.optim

local state = tonumber(os.getenv "TORTURE_SEED") or 1
local function random(low, high)
  state = (state * 1103515245 + 12345) % 2147483648
  return low + state // 65536 % (high - low + 1)
end
local function pick(list) return list[random(1, #list)] end

local function names_of(functions)
  local names = {}
  for name, value in pairs(functions) do
    if type(value) == "function" and name ~= "transact" then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

local function param()
  local p = optlua.randn(random(0, 3))
  p.requires_grad = true
  if random(1, 2) == 1 then p.grad = optlua.randn(p.shape) end
  return p
end

local function make_group()
  local group = core.group({ "a", "b" }, { param(), param() })
  if random(1, 2) == 1 then
    local of_shape = {}
    for i in ipairs((group:shapes())) do of_shape[i] = 1 end
    group:layouts({ { { name = "m" }, { name = "v", init = "param" } } }, of_shape)
  end
  return group
end

local function some_rule(a, b, s)
  if random(1, 3) == 1 then
    pcall(function()
      s.m = s.m + b
      s.v = a
    end)
  end
  return random(1, 4) == 1 and a - b or a
end

describe("the machinery of optimizers survives", function()
  local groups, caches = {}, {}
  for i = 1, 5 do groups[i], caches[i] = make_group(), core.cache(i) end
  local makers = {
    function() return pick(groups) end, function() return pick(groups) end, function() return pick(groups):twin() end,
    function() return pick(caches) end, param, function() return { param(), param() } end,
    function() return { "a", "b" } end, function() return random(-3, 5) end, function() return 0.5 end,
    function() return { 1, 1, 1 } end, function() return {} end, function() return "x" end, function() return true end,
    function() return nil end, function() return some_rule end,
    function()
      return { { { name = "m", shape = { random(-1, 3) }, dtype = pick { "float32", "x", "bfloat16" }, init = pick { 0, 1, "param" } } } }
    end,
  }
  local methods = { "bytes", "count", "exchange", "grow", "layouts", "restore", "set_context", "set_totals", "shapes", "shrink", "state", "totals", "twin", "zero_grad" }

  local function call(fn, first)
    local given, count = {}, random(0, 8)
    for i = 1, count do given[i] = pick(makers)() end
    if first then given[1], count = first, math.max(count, 1) end
    return pcall(fn, table.unpack(given, 1, count))
  end

  local actions = {
    function() return call(core[pick(names_of(core))]) end,
    function()
      local group = pick(groups)
      return call(group[pick(methods)], group)
    end,
    function() return call(core.operations[pick(names_of(core.operations))]) end,
    function()
      local group = pick(groups)
      pcall(core.collect, group)
      pcall(group.set_context, group, pick(caches), {}, {}, nil, nil, "label")
      return pcall(core.trace, group, some_rule)
    end,
    function() return pcall(core.prepare) and pcall(core.commit) end,
  }

  it("arguments and orders that make no sense", function()
    local good = 0
    local function round()
      for _ = 1, 30 do
        if pick(actions)() then good = good + 1 end
      end
    end
    for _ = 1, 200 do
      if random(1, 3) > 1 then pcall(core.transact, round) else round() end
    end
    assert.is_true(good > 100)
    local p = optlua.tensor({ 1 }, { requires_grad = true })
    p.grad = optlua.ones(1)
    optlua.optim.SGD({ p }, { lr = 0.5 }):step()
    assert.equal(0.5, p:item())
  end)
end)
