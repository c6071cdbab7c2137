-- SAM around other classes: against recorded numbers of another package (golden/sam.txt); what it does with the parameters.
local optlua = require "optlua"
local nn, optim = optlua.nn, optlua.optim

local fails = require("fails").matching
local valleys = require "valleys"

local STEPS, SEEN = 30, { 1, 10, 30 }
local TOLERANCE = 1e-12

local function read_golden()
  local next_line = io.lines(os.getenv "ROOT" .. "/tests/golden/sam.txt")
  local golden = { version = next_line() }
  for head in next_line do
    local name, class, first, second = head:match "^(%S+) (%S+) (%b{}) (%b{})$"
    local case = { name = name, class = class, text = first .. " " .. second, seen = {} }
    case.first, case.second = load("return " .. first)(), load("return " .. second)()
    for i in ipairs(SEEN) do case.seen[i] = valleys.numbers(next_line()) end
    golden[#golden + 1] = case
  end
  return golden
end

-- One optimizer with a group for each of the two tensors.
local function make(case, dtype)
  local named, tensors = valleys.parameters(valleys.start, dtype)
  local groups = { { name = "first", params = { named[1] } }, { name = "second", params = { named[2] } } }
  for name, value in pairs(case.first) do groups[1][name], groups[2][name] = value, value end
  for name, value in pairs(case.second) do groups[2][name] = value end
  local optimizer = optim.sam(case.class)(groups)
  return optimizer, tensors, valleys.closure(optimizer, case.name, tensors)
end

local golden = read_golden()

describe("SAM of " .. golden.version, function()
  for _, case in ipairs(golden) do
    it(("on %s, %s, %s"):format(case.name, case.class, case.text), function()
      local optimizer, tensors, closure = make(case)
      local checked = 0
      for t = 1, STEPS do
        optimizer:step(closure)
        for k, seen in ipairs(SEEN) do
          if seen == t then
            local size, worst = 0, 0
            for i, x in ipairs(valleys.values(tensors)) do
              size, worst = math.max(size, math.abs(x)), math.max(worst, math.abs(x - case.seen[k][i]))
            end
            assert.is_true(worst / size <= TOLERANCE, ("step %d: %g"):format(t, worst / size))
            checked = checked + 1
          end
        end
      end
      assert.equal(#SEEN, checked)
    end)
  end
end)

local function bits(optimizer, tensors)
  local list = { table.concat(valleys.values(tensors), " ") }
  for name, value in pairs(optimizer:state_dict()) do
    if optlua.is_tensor(value) then value = table.concat(value:reshape(-1):totable(), " ") end
    list[#list + 1] = name .. "=" .. (type(value) == "table" and table.concat(value, " ") or tostring(value))
  end
  table.sort(list)
  return table.concat(list, "\n")
end

local some = { name = "valley", class = "AdamW", first = { lr = 0.1, rho = 0.5 }, second = {} }

describe("SAM", function()
  it("climbs by rho, and comes back bit for bit before the rule", function()
    local optimizer, tensors = make({ name = "valley", class = "SGD", first = { lr = 0, rho = 0.5 }, second = {} }, "float32")
    local inner, seen = valleys.closure(optimizer, "valley", tensors), {}
    optimizer:step(function()
      seen[#seen + 1] = valleys.values(tensors)
      return inner()
    end)
    assert.same(seen[1], valleys.values(tensors)) -- lr is 0
    local distance = 0
    for i, x in ipairs(seen[2]) do distance = distance + (x - seen[1][i]) ^ 2 end
    assert.is_near(0.5, math.sqrt(distance), 1e-6)
    assert.equal(2, #seen)
  end)

  it("is the class itself on the second gradients, bit for bit", function()
    local optimizer, tensors, closure = make(some)
    local named, others = valleys.parameters(valleys.start)
    local plain = optim.AdamW(named, { lr = 0.1 })
    for _ = 1, 5 do
      optimizer:step(closure)
      for i, p in ipairs(others) do p.grad = tensors[i].grad:clone() end
      plain:step()
      assert.same(valleys.values(others), valleys.values(tensors))
    end
  end)

  it("is saved and goes on bit for bit", function()
    local optimizer, tensors, closure = make(some)
    for _ = 1, 3 do optimizer:step(closure) end
    local state, at = optimizer:state_dict(), valleys.values(tensors)
    for key, value in pairs(state) do state[key] = optlua.is_tensor(value) and value:clone() or value end
    optimizer:step(closure)
    local again, others, other_closure = make(some)
    again:load_state_dict(state)
    optlua.no_grad(function()
      for i, p in ipairs(others) do p:copy_(optlua.tensor(table.move(at, 3 * i - 2, 3 * i + (i == 1 and 0 or -1), 1, {}), { dtype = "float64" })) end
    end)
    again:step(other_closure)
    assert.equal(bits(optimizer, tensors), bits(again, others))
  end)

  it("changes nothing when a pass fails, the rule fails, or a gradient is not finite", function()
    local optimizer, tensors, closure = make(some)
    optimizer:step(closure)
    local before = bits(optimizer, tensors)
    for at = 1, 2 do
      local calls = 0
      local message = fails("boom", optimizer.step, optimizer, function()
        calls = calls + 1
        if calls == at then error "boom" end
        return closure()
      end)
      assert.matches("SAM%(AdamW%), gradients of update 2", message)
      assert.equal(before, bits(optimizer, tensors))
    end
    for _, nonfinite in ipairs { "error", "skip" } do
      local model = nn.Linear(2, 1)
      local container = optim.container(model, "SAM(SGD)", { lr = 0.1, nonfinite = nonfinite })
      local old = model.weight:detach():clone()
      local function bad()
        container:zero_grad()
        local loss = (model.weight * (0 / 0)):sum()
        loss:backward()
        return loss
      end
      local ok = pcall(container.step, container, bad)
      assert.equal(nonfinite == "skip", ok)
      assert.is_true(model.weight:detach():equal(old))
      assert.same({ 0, nonfinite == "skip" and 1 or 0 }, { container:stats().updates, container:stats().skipped })
    end
  end)

  it("leaves frozen parameters alone, and those without a gradient", function()
    local optimizer, tensors = make(some)
    tensors[2].requires_grad = false
    local old = valleys.values { tensors[2] }
    local unused = optlua.ones({ 2 }, { dtype = "float64", requires_grad = true })
    optimizer:add_group { name = "unused", params = { { "u", unused } } }
    optimizer:step(valleys.closure(optimizer, "valley", tensors))
    assert.same(old, valleys.values { tensors[2] })
    assert.same({ 1, 1 }, unused:detach():totable())
    local state = optimizer:state_dict()
    assert.same({ 1, 0, 0, 1, 0 }, { state["state.x.step"], state["state.y.step"], state["state.u.step"], state["group.first.step"],
      state["group.unused.step"] })
  end)

  it("is clipped by the norm of the second gradients, in a container with groups", function()
    local model = nn.Linear(3, 1)
    local optimizer = optim.container(model, {
      { name = "bias", match = "*.bias", class = optim.sam(optim.SGD), rho = 0 },
      { name = "rest", match = "*", class = "SAM(SGD)" },
    }, { lr = 1, max_norm = 0.5 })
    local old = { model.weight:detach():clone(), model.bias:detach():clone() }
    local x = optlua.randn { 4, 3 }
    optimizer:step(function()
      optimizer:zero_grad()
      local loss = 100 * model(x):square():mean()
      loss:backward()
      return loss
    end)
    local moved = (model.weight:detach() - old[1]):square():sum():item() + (model.bias:detach() - old[2]):square():sum():item()
    assert.is_near(0.5, math.sqrt(moved), 1e-5)
    assert.is_true(optimizer:stats().grad_norm > 0.5)
    assert.equal(1, #optimizer.optimizers) -- one class, whichever way it is named
  end)

  it("stands around a class with a rho of its own", function()
    local p = optlua.tensor({ 3 }, { requires_grad = true })
    local optimizer = optim.sam "Adadelta" ({ p }, { rho = 0.5, sam_rho = 0.25 })
    local seen = {}
    optimizer:step(function()
      seen[#seen + 1] = p:item()
      optimizer:zero_grad()
      local loss = (p * p):sum()
      loss:backward()
      return loss
    end)
    assert.same({ 3, 3.25 }, seen)
    fails("the inner class has one of that name", optim.sam, optim.sam "Adadelta")
  end)

  it("needs a closure and a class", function()
    local optimizer = make(some)
    fails("SAM%(AdamW%): step: SAM%(AdamW%) needs a closure", optimizer.step, optimizer)
    fails("optim.sam: unknown optimizer \"Adamm\"", optim.sam, "Adamm")
    fails("the inner class has one of that name", optim.sam, optim.sam "SGD")
    fails("optim.sam: SAM cannot stand around LBFGS, which has a step of its own", optim.sam, "LBFGS")
    fails("rho: expected a number at least 0", optim.sam "SGD", { optlua.ones({ 1 }, { requires_grad = true }) }, { rho = -1 })
    assert.equal(optim.sam "SGD", optim.sam(optim.SGD))
    assert.equal(optim.sam "SGD", optim.resolve "SAM(SGD)")
  end)
end)

describe("a spec", function()
  local process = require "process"
  local script = [[
local optlua = require "optlua"
local nn, points = optlua.nn, optlua.testing.points { n = 36 }
return optlua.spec {
  name = "closures",
  config = { seed = 1, steps = 8, batch_size = 6, checkpoint_every = 4, log_every = 1, optimizer = { class = "AdamW" } },
  build_model = function()
    return nn.Sequential { nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3) }
  end,
  build_data = function() return points end,
  build_loss = function() return nn.CrossEntropyLoss() end,
  on_step = function(state)
    local order = {}
    for name in pairs(state.model:state_dict()) do order[#order + 1] = name end
    table.sort(order)
    local sum = 0
    for i, name in ipairs(order) do sum = sum + i * state.model:state_dict()[name]:to("float64"):sum():item() end
    print(("STEP %d %.17g %.17g %d"):format(state.step, state.loss, sum, state.model[2].num_batches_tracked:item()))
  end,
}
]]

  local place
  before_each(function()
    place = process.folder()
    local file = assert(io.open(place .. "/train.lua", "w"))
    file:write(script)
    file:close()
  end)
  after_each(function() process.remove(place) end)

  local function steps_of(text)
    local list = {}
    for line in text:gmatch "STEP [^\n]*" do list[#list + 1] = line end
    return list
  end

  for name, options in pairs {
    ["LBFGS"] = "--optimizer=LBFGS --optimizer.lr=0.1 --optimizer.max_iter=4",
    ["LBFGS, with a line search, over windows"] = "--optimizer=LBFGS --optimizer.line_search_fn=strong_wolfe --accumulate=2",
    ["SAM around AdamW"] = "'--optimizer=SAM(AdamW)' --optimizer.rho=0.2 --optimizer.max_norm=1 --optimizer.ema=0.9",
  } do
    it("trains with " .. name .. ", and is resumed bit for bit", function()
      local whole = process.run(place, ("optlua train.lua --out a %s"):format(options))
      local list = steps_of(whole.out)
      assert.equal(8, #list, whole.err)
      local batches = options:find "accumulate" and 2 or 1
      for k, line in ipairs(list) do assert.equal(k * batches, tonumber(line:match "%d+$")) end -- statistics move once a batch
      process.run(place, ("optlua train.lua --out b --steps 4 %s"):format(options))
      local rest = process.run(place, ("optlua train.lua --resume b --steps 8 %s"):format(options))
      assert.same({ list[5], list[6], list[7], list[8] }, steps_of(rest.out), rest.err)
    end)
  end

  it("gives the closure the same random numbers each time", function()
    local changed = script:gsub("build_loss = function", [[
  train_step = function(state, batch)
    state.draws = state.draws or {}
    table.insert(state.draws, optlua.rand(1):item())
    state:log("draw", state.draws[#state.draws])
    return nn.functional.cross_entropy(state.model(batch[1]), batch[2]), 6
  end,
  on_start = function(state) state.draws = {} end,
  on_validation = nil,
  build_loss = function]]):gsub("local order = {}", [[
    local first = state.draws[1]
    for _, draw in ipairs(state.draws) do assert(draw == first) end
    assert(state.logged.draw == first)
    print("DRAWS", #state.draws)
    state.draws = {}
    local order = {}]])
    local file = assert(io.open(place .. "/train.lua", "w"))
    file:write(changed)
    file:close()
    local result = process.run(place, "optlua train.lua --steps 3 --optimizer=LBFGS --optimizer.lr=0.1 --optimizer.max_iter=4")
    local _, count = result.out:gsub("DRAWS\t[2-5]\n", "")
    assert.equal(3, count, result.out .. result.err)
  end)

  it("skips an update whose loss is not finite, and raises without leave to", function()
    local changed = script:gsub("build_loss = function", [[
  train_step = function(state, batch)
    local loss = nn.functional.cross_entropy(state.model(batch[1]), batch[2])
    state.seen = (state.seen or 0) + 1
    return state.seen == 1 and loss * (0 / 0) or loss, 6
  end,
  build_loss = function]])
    local file = assert(io.open(place .. "/train.lua", "w"))
    file:write(changed)
    file:close()
    local options = "--steps 3 --optimizer=LBFGS --optimizer.lr=0.1"
    local skipped = process.run(place, "optlua train.lua --optimizer.nonfinite=skip " .. options)
    assert.equal(3, #steps_of(skipped.out), skipped.out .. skipped.err)
    local failed = process.run(place, "optlua train.lua " .. options)
    assert.matches("the loss is nan at update 0", failed.err)
    local refused = process.run(place, "optlua train.lua --optimizer.max_norm=1 " .. options)
    assert.matches("max_norm: LBFGS has a step of its own", refused.err)
  end)
end)
