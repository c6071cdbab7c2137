-- Whole trainings: the scripts as users run them, flat memory, and a step in which every allocation fails.
local core = require "optlua.core"
local optlua = require "optlua"
local process = require "process"
local nn, optim = optlua.nn, optlua.optim

local function resident_mib()
  local file = assert(io.open "/proc/self/statm")
  local pages = file:read("a"):match "%d+ (%d+)"
  file:close()
  return tonumber(pages) * 4096 / 2 ^ 20
end

--- Leaves a test of memory out under sanitizers, which keep what is freed.
local function needs_plain_memory()
  if os.getenv "ASAN_OPTIONS" then pending "sanitizers hold on to memory" end
end

local function network()
  return nn.Sequential { nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3) }
end

--- A small problem and its training step.
local function problem(class, options)
  optlua.manual_seed(3)
  local model, loss_fn = network(), nn.CrossEntropyLoss()
  local optimizer = optim.container(model, class, options)
  local x, y = optlua.randn { 8, 6 }, optlua.randint(0, 3, { 8 })
  local function step()
    local loss = loss_fn(model(x), y)
    optimizer:zero_grad()
    loss:backward()
    optimizer:step()
    return loss:item()
  end
  return { model = model, optimizer = optimizer, step = step }
end

describe("the scripts", function()
  it("01_quickstart reaches 0.96 on the digits", function()
    local result = process.run(".", "optlua scripts/01_quickstart.lua")
    assert.equal("", result.err)
    assert.is_true(tonumber(result.out:match "test accuracy ([%d.]+)") >= 0.96)
    local _, epochs = result.out:gsub("epoch", "")
    assert.equal(20, epochs)
  end)

  it("02_custom_optimizer moves each element by three tenths", function()
    local result = process.run(".", "optlua scripts/02_custom_optimizer.lua")
    assert.equal("", result.err)
    assert.is_truthy(result.out:find("tensor([ 0.7000, -1.7000,  2.7000], requires_grad=true)", 1, true))
    assert.matches("Lion: float32, 1 pass, 2 instructions, 20 bytes an element", result.out)
  end)
end)

describe("a training", function()
  it("learns", function()
    local p = problem(optim.AdamW, { lr = 0.05 })
    local first = p.step()
    for _ = 1, 200 do p.step() end
    assert.is_true(p.step() < first / 20)
  end)

  it("is the same on every run and any number of threads that BLAS has", function()
    local function run()
      local p = problem(optim.AdamW, { lr = 0.05 })
      for _ = 1, 20 do p.step() end
      return p.model[1].weight:totable()
    end
    assert.same(run(), run())
  end)

  it("needs no more memory after 50,000 steps than after 10,000", function()
    needs_plain_memory()
    local p = problem(optim.AdamW, { lr = 1e-3, max_norm = 1 })
    for _ = 1, 10000 do p.step() end -- through some cycles of the collector
    local before = resident_mib()
    for _ = 1, 40000 do p.step() end
    assert.is_true(resident_mib() - before < 8, ("grew by %.1f MiB"):format(resident_mib() - before))
  end)

  it("stays small while 1 MiB is dropped 20,000 times", function()
    needs_plain_memory()
    local x = optlua.ones(262144)
    for _ = 1, 20000 do optlua.zeros(262144):add_(x) end
    assert.is_true(resident_mib() < 100, ("%.1f MiB"):format(resident_mib()))
  end)

  it("bounds 10,000 dropped tensors of 10,000 doubles without being told", function()
    needs_plain_memory()
    for _ = 1, 10000 do optlua.zeros({ 10000 }, { dtype = "float64" }):fill_(1) end
    assert.is_true(resident_mib() < 100, ("%.1f MiB"):format(resident_mib()))
  end)
end)

--- Everything that a step may change, as numbers.
local function snapshot(p)
  local values = {}
  for name, tensor in pairs(p.model:state_dict()) do values[name] = tensor:totable() end
  return { model = values, optimizer = p.optimizer:state_dict() }
end

local function flatten(value)
  if optlua.is_tensor(value) then return value:totable() end
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, item in pairs(value) do copy[key] = flatten(item) end
  return copy
end

describe("a step in which an allocation fails", function()
  for _, setup in ipairs { { "AdamW", { max_norm = 1 } }, { "SGD", { momentum = 0.9 } }, { "Lion", {} } } do
    it("leaves everything as it was, for " .. setup[1], function()
      for _, warm in ipairs { 0, 2 } do -- before and after the state is there
        local p = problem(optim[setup[1]], setup[2])
        for _ = 1, warm do p.step() end
        local before = flatten(snapshot(p))
        local at, failures = 0, 0
        while true do
          core.hidden.fail_allocations(at)
          local ok, message = pcall(p.step)
          core.hidden.fail_allocations(-1)
          if ok then break end
          failures = failures + 1
          assert.matches("out of memory", tostring(message))
          assert.same(before, flatten(snapshot(p)))
          at = at + 1
        end
        assert.is_true(failures > 20)
        assert.not_same(before, flatten(snapshot(p)))
      end
    end)
  end

  it("leaks nothing", function()
    local function run()
      local p = problem(optim.AdamW, { lr = 1e-3 })
      for at = 0, 200, 7 do
        core.hidden.fail_allocations(at)
        pcall(p.step)
        core.hidden.fail_allocations(-1)
      end
    end
    run()
    collectgarbage()
    collectgarbage()
    local blocks = core.hidden.memory().live_blocks
    run()
    collectgarbage()
    collectgarbage()
    assert.equal(blocks, core.hidden.memory().live_blocks)
  end)
end)
