-- The cases of other systems' bug reports that are about saving and going on, through processes: one trains and saves, another
-- goes on. The numbers are those of the cases.
local process = require "process"

local SCRIPT = [[
local optlua = require "optlua"
local optim, schedule, checkpoint, nn = optlua.optim, optlua.schedule, optlua.checkpoint, optlua.nn
local name, from, to = arg[1], tonumber(arg[2]), tonumber(arg[3])
local function rate(base, made, opts)
  return function()
    local model = nn.Linear(1, 1, { bias = false })
    local optimizer = optim.SGD(model, { lr = base })
    local parts = { model = model, optimizer = optimizer, scheduler = optim.lr_scheduler(optimizer, made(), opts) }
    if from > 0 then checkpoint.load(name, parts) end
    for t = from, to - 1 do
      model(optlua.ones { 1, 1 }):sum():backward()
      optimizer:step()
      print(("%.15g"):format(optimizer.groups.default.lr))
      if opts then parts.scheduler:step() end
    end
    checkpoint.save(name, parts)
  end
end
local cases = {
  cosine = rate(1e-3, function() return schedule.CosineAnnealingLR { T_max = 100 } end),
  sequence = rate(1, function()
    return schedule.SequentialLR { schedulers = { schedule.ConstantLR { factor = 0.1, total_iters = 100 },
      schedule.ExponentialLR { gamma = 0.9 } }, milestones = { 3 } }
  end),
  lambda = rate(0.01, function() return function(t) return 0.5 ^ t end end),
  one_cycle = rate(0.004, function() return schedule.OneCycleLR { max_lr = 0.1, total_steps = 10 } end),
  inverse_time = rate(0.1, function() return schedule.inverse_time { decay = 0.01 } end, { interval = "epoch" }),
}
function cases.first_step()
  local model = nn.Linear(1, 1, { bias = false })
  local optimizer = optim.Adam(model, { lr = 1e-3 })
  optlua.no_grad(function() model.weight:fill_(1) end)
  local parts = { model = model, optimizer = optimizer }
  if from > 0 then checkpoint.load(name, parts) end
  if to > 1 then
    model.weight.grad = optlua.tensor { { 1e-3 } }
    optimizer:step()
  end
  checkpoint.save(name, parts)
  print(("%.7f %d"):format(model.weight:item(), optimizer:stats().updates))
end
function cases.same_file()
  if from == 0 then optlua.save("t.safetensors", { t = optlua.tensor { 1, 2, 3 } }) end
  local loaded = optlua.load "t.safetensors"
  optlua.save("t.safetensors", loaded)
  print(table.concat(optlua.load("t.safetensors").t:totable(), " "))
end
function cases.views()
  local a = optlua.arange(0, 6):reshape(2, 3)
  if from == 0 then optlua.save("v.safetensors", { turned = a:t(), left = a:narrow(2, 1, 2), right = a:narrow(2, 2, 2) }) end
  local loaded = optlua.load "v.safetensors"
  for _, key in ipairs { "turned", "left", "right" } do print(table.concat(loaded[key]:reshape(-1):totable(), " ")) end
end
function cases.order()
  optlua.manual_seed(3)
  local parts = { loader = optlua.data.loader({ n = 10, get = function(i) return i end }, { batch_size = 2, shuffle = true }) }
  if from > 0 then checkpoint.load(name, parts) end
  local batches = parts.loader:batches()
  for _ = from + 1, to do
    local batch = batches()
    if not batch then
      batches = parts.loader:batches()
      batch = batches()
    end
    print(table.concat(batch:totable(), " "), table.concat(optlua.ones(8):dropout(0.5, true):totable(), " "))
  end
  checkpoint.save(name, parts)
end
function cases.memory()
  for _ = 1, 10000 do optlua.zeros({ 10000 }, { dtype = "float64" }) end
  for line in io.lines "/proc/self/status" do
    local peak = line:match "VmHWM:%s+(%d+)"
    if peak then print(tonumber(peak) < 400000) end
  end
end
function cases.skipped()
  local values, model = { 0 / 0, 1, 1, 1 }, nn.Linear(1, 1, { bias = false })
  optlua.no_grad(function() model.weight:fill_(0) end)
  local optimizer = optim.container(model, "SGD", { lr = 1, momentum = 0.5, nonfinite = "skip" })
  local parts = { model = model, optimizer = optimizer }
  if from > 0 then checkpoint.load(name, parts) end
  for window = from, to - 1 do
    optimizer:zero_grad()
    for k = 1, 2 do (model.weight * values[2 * window + k] / 2):sum():backward() end
    optimizer:step()
  end
  checkpoint.save(name, parts)
  print(("%g %d"):format(model.weight:item(), optimizer:stats().updates))
end
function cases.closure() checkpoint.save(name, { extra = { on_best = function() end } }) end
cases[name]()
]]

local place
before_each(function()
  place = process.folder()
  process.write(place .. "/case.lua", SCRIPT)
end)
after_each(function() process.remove(place) end)

local function run(name, from, to)
  local result = process.run(place, ("optlua case.lua %s %d %d"):format(name, from, to))
  assert.equal(0, result.code, result.err)
  return result.out
end

-- The rates of updates that two processes made.
local function rates(name, stop, to)
  local list = {}
  for line in (run(name, 0, stop) .. run(name, stop, to)):gmatch "[^\n]+" do list[#list + 1] = tonumber(line) end
  return list
end

local function check(wanted, list, first)
  for i, value in ipairs(wanted) do assert.near(value, list[first + i], 5e-6 * value) end
end

describe("saved by one process, another goes on:", function()
  it("a cosine (case 1)", function() check({ .000578217232520, .000562666616782 }, rates("cosine", 45, 47), 45) end)
  it("a constant before an exponential (case 4)", function() check({ .1, .1, .1, 1, .9, .81 }, rates("sequence", 4, 6), 0) end)
  it("a lambda (case 8)", function() check({ .000625 }, rates("lambda", 3, 5), 4) end)
  it("one cycle (case 11)", function()
    check({ .004, .052, .1, .0950485, .0811746, .0611262, .0388742, .0188258, .00495194, 4e-7 }, rates("one_cycle", 5, 10), 0)
  end)
  it("inverse time, epochs apart (case 13)", function() check({ .1, .0990099, .0980392, .0970874 }, rates("inverse_time", 2, 4), 0) end)
  it("a save before the first step is no step (case 32)", function()
    assert.equal("1.0000000 0\n", run("first_step", 0, 1))
    assert.equal("0.9990000 1\n", run("first_step", 1, 2))
  end)
  it("a window that was skipped (case 44; 45 is tests/c/crash_test.c)", function()
    assert.equal("0 0\n", run("skipped", 0, 1))
    assert.equal("-1 1\n", run("skipped", 1, 2))
  end)
  it("a file that is loaded and saved again (case 46)", function()
    assert.equal("1 2 3\n", run("same_file", 0, 1):gsub("%.0", ""))
    assert.equal("1 2 3\n", run("same_file", 1, 2):gsub("%.0", ""))
  end)
  it("views that overlap, and a transposed one (case 47)", function()
    for from = 0, 1 do assert.equal("0 3 1 4 2 5\n0 1 3 4\n1 2 4 5\n", run("views", from, 0)) end
  end)
  it("the order of data and dropout inside an epoch (case 48)", function()
    local whole = run("order", 0, 14)
    for _, stop in ipairs { 7, 5, 10 } do assert.equal(whole, run("order", 0, stop) .. run("order", stop, 14)) end
  end)
  it("memory stays bounded (case 49)", function() assert.equal("true\n", run("memory", 0, 0)) end)
  it("a closure is refused by name (case 50)", function()
    local result = process.run(place, "optlua case.lua closure 0 0; ls")
    assert.matches("checkpoint.save.extra.on_best: a function cannot be saved", result.err)
    assert.equal("case.lua\n", result.out)
  end)
end)
