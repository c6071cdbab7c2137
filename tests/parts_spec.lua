-- A model in parts, as a trainer of large models cuts it: one container over all of them, whatever the cut.
local optlua = require "optlua"
local nn, optim, schedule = optlua.nn, optlua.optim, optlua.schedule

local fails = require("fails").matching

local layers = { "embed", "norm", "head" }
local Part = nn.class "Part"

local function layer(name)
  if name == "embed" then return nn.Embedding(5, 4) end
  if name == "norm" then return nn.LayerNorm(4) end
  return nn.Linear(4, 3)
end

--- The same layers in the same order, cut in so many parts (1 or 3), with the same weights.
local function cut(count)
  optlua.manual_seed(7)
  local parts = {}
  for i, name in ipairs(layers) do
    if i == 1 or count == 3 then parts[#parts + 1] = Part() end
    parts[#parts][name] = layer(name)
  end
  return parts
end

local function each(parts)
  local list = {}
  for _, part in ipairs(parts) do
    for name, p in part:named_parameters() do list[#list + 1] = { name, p } end
  end
  return list
end

-- Gradients that depend on the name and the update only.
local function give_gradients(parts, update)
  for k, pair in ipairs(each(parts)) do
    pair[2].grad = optlua.full(pair[2].shape, math.sin(13 * k + update))
  end
end

local function train(optimizer, parts, from, to)
  for update = from, to do
    give_gradients(parts, update)
    optimizer:step()
    optimizer:zero_grad()
  end
end

local function weights(parts)
  local result = {}
  for _, pair in ipairs(each(parts)) do result[pair[1]] = pair[2]:detach():flatten():totable() end
  return result
end

local groups = {
  { name = "tables", match = { role = "embedding" }, class = "SGD", lr = 0.1, momentum = 0.9 },
  { name = "small", match = "*.bias|norm.*", class = "AdamW", lr = 0.05, weight_decay = 0 },
  { name = "rest", match = "*", class = "Lion", lr = 0.01 },
}

local function mixed(parts) return optim.container(parts, groups) end

describe("a container over parts", function()
  it("mixes types: one optimizer a class, over the parameters of all parts", function()
    for _, count in ipairs { 1, 3 } do
      local optimizer = mixed(cut(count))
      assert.equal(count, #optimizer.model_parts)
      assert.equal(3, #optimizer.optimizers)
      assert.same({ "embed.weight" }, optimizer.groups.tables.names)
      assert.same({ "norm.weight", "norm.bias", "head.bias" }, optimizer.groups.small.names)
      assert.same({ "head.weight" }, optimizer.groups.rest.names)
    end
  end)

  it("gives each parameter to the first group that matches, in the groups' order, not the parts'", function()
    local optimizer = optim.container(cut(3), {
      { name = "everything", match = "*", class = "SGD" },
      { name = "late", match = "head.*", class = "SGD", optional = true },
    })
    assert.equal(5, #optimizer.groups.everything.names)
    assert.equal(0, #optimizer.groups.late.names)
  end)

  it("has every trainable parameter exactly once", function()
    local parts = cut(3)
    parts[3].again = parts[3].head -- a layer that stands there twice is one
    for _, optimizer in ipairs { mixed(parts), optim.container(parts, "AdamW") } do
      local seen, count = {}, 0
      for _, group in pairs(optimizer.groups) do
        for _, p in ipairs(group.params) do
          assert.is_nil(seen[p])
          seen[p], count = true, count + 1
        end
      end
      assert.equal(5, count)
      for _, pair in ipairs(each(parts)) do assert.is_true(seen[pair[2]], pair[1]) end
    end
    fails("'head.weight' matches no group", optim.container, cut(3), { { match = "embed.*|norm.*|*.bias", class = "SGD" } })
  end)

  it("may have patterns that only one part knows; one that no part knows is an error, once", function()
    mixed(cut(3))
    for _, count in ipairs { 1, 3 } do
      local message = fails("group 'dead' matches no parameter", optim.container, cut(count),
        { { name = "dead", match = "encoder.*", class = "SGD" }, { name = "rest", match = "*", class = "SGD" } })
      assert.equal(1, select(2, message:gsub("dead", "")))
    end
  end)

  it("trains alike however the model is cut", function()
    local one, three = cut(1), cut(3)
    train(mixed(one), one, 1, 4)
    train(mixed(three), three, 1, 4)
    assert.same(weights(one), weights(three))
  end)

  it("saves by full names, and goes on in another cut, bit for bit", function()
    for _, way in ipairs { { 1, 3 }, { 3, 1 } } do
      local straight = cut(way[1])
      train(mixed(straight), straight, 1, 6)
      local before, after = cut(way[1]), cut(way[2])
      local first = mixed(before)
      train(first, before, 1, 3)
      local state, values = first:state_dict(), {}
      for _, pair in ipairs(each(before)) do values[pair[1]] = pair[2] end
      optlua.no_grad(function()
        for _, pair in ipairs(each(after)) do pair[2]:copy_(values[pair[1]]) end
      end)
      local second = mixed(after)
      second:load_state_dict(state)
      assert.equal(3, second:state_dict()["state.head.bias.step"])
      train(second, after, 4, 6)
      assert.same(weights(straight), weights(after))
    end
  end)

  it("needs names for parts that clash, which belong to what is saved", function()
    local twins = { nn.Linear(2, 2), nn.Linear(2, 2) }
    fails("parts 1 and 2 both have a parameter 'weight'", optim.container, twins, "SGD")
    local named = optim.container({ { "a", twins[1] }, { "b", twins[2] } }, "SGD", { momentum = 0.5 })
    give_gradients(twins, 1)
    named:step()
    fails("a.weight", function() optim.container(nn.Linear(2, 2), "SGD", { momentum = 0.5 }):load_state_dict(named:state_dict()) end)
  end)

  it("is moved by one shared lambda, by one clock", function()
    local parts = cut(3)
    local optimizer, asked = mixed(parts), {}
    optim.lr_scheduler(optimizer, function(updates)
      asked[updates] = true
      return 1 / (1 + updates)
    end)
    train(optimizer, parts, 1, 3)
    local rates = {}
    for i, group in pairs(optimizer.groups) do rates[i] = group.lr end
    assert.same({ 0.1 * (1 / 3), 0.05 * (1 / 3), 0.01 * (1 / 3) }, rates)
    assert.same({ [0] = true, true, true }, { [0] = asked[0], asked[1], asked[2] })
  end)

  it("is moved by a lambda for each group", function()
    local parts = cut(3)
    local optimizer = mixed(parts)
    optim.lr_scheduler(optimizer, { tables = function(t) return t + 1 end, rest = function(t) return 0.5 ^ t end })
    train(optimizer, parts, 1, 2)
    assert.same({ 0.2, 0.05, 0.005 }, { optimizer.groups.tables.lr, optimizer.groups.small.lr, optimizer.groups.rest.lr })
    fails('unknown group "tabels" %(did you mean "tables"%?%)', optim.lr_scheduler, optimizer, { tabels = print })
  end)

  it("decays in three forms, each to a virtual last step after the last update (case 12)", function()
    local shape = {
      linear = function(x) return 1 - x end,
      sqrt = function(x) return 1 - math.sqrt(x) end,
      cosine = function(x) return (1 + math.cos(math.pi * x)) / 2 end,
    }
    for _, decay_type in ipairs { "linear", "sqrt", "cosine" } do
      for _, low in ipairs { 0, 0.25 } do
        local parts = cut(1)
        local optimizer = optim.container(parts, "SGD", { lr = 1 })
        optim.lr_scheduler(optimizer, schedule.warmup_stable_decay { warmup_steps = 2, total_steps = 10,
          decay_type = decay_type, min_lr_factor = low })
        local rates = {}
        for update = 1, 12 do
          train(optimizer, parts, update, update)
          rates[update] = optimizer.groups.default.lr
        end
        assert.same({ 0.5, 1, 1 }, { rates[1], rates[2], rates[3] }) -- the warm-up ignores the minimum
        for k = 1, 7 do assert.near(low + (1 - low) * shape[decay_type](k / 8), rates[k + 3], 1e-15) end
        assert.is_true(rates[10] > low)
        assert.same({ low, low }, { rates[11], rates[12] })
      end
    end
  end)

  it("saved before its first step has made no step (case 32)", function()
    local straight = cut(1)
    train(mixed(straight), straight, 1, 2)
    for _, count in ipairs { 1, 3 } do
      local state = mixed(cut(count)):state_dict()
      for key, value in pairs(state) do
        if key:find "%.step$" then assert.equal(0, value, key) end
      end
      local parts = cut(3)
      local optimizer = mixed(parts)
      optimizer:load_state_dict(state)
      assert.equal(0, optimizer:stats().updates)
      train(optimizer, parts, 1, 2)
      assert.same(weights(straight), weights(parts))
    end
  end)
end)
