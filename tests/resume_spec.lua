-- Every schedule, resumed after each update: the rates that follow are those of the run that went on, bit for bit.
local optlua = require "optlua"
local optim, schedule = optlua.optim, optlua.schedule
local process = require "process"

local schedules = require "schedules"
local samples, build, UPDATES = schedules.samples, schedules.build, schedules.updates

--- A parameter, its optimizer and its scheduler; what is loaded stands in `saved`, in the order asked for.
local function start(make, opts, saved, scheduler_first, momentum)
  local p = optlua.tensor({ 0 }, { dtype = "float64", requires_grad = true })
  p.grad = optlua.ones({ 1 }, { dtype = "float64" })
  local optimizer = optim.SGD({ p }, { lr = saved and 123 or 0.4, momentum = momentum or 0.5 })
  if saved and scheduler_first == "before" then optimizer:load_state_dict(saved.optimizer) end
  local scheduler = optim.lr_scheduler(optimizer, make(), opts)
  if saved and scheduler_first == true then scheduler:load_state_dict(saved.scheduler) end
  if saved and scheduler_first ~= "before" then optimizer:load_state_dict(saved.optimizer) end
  if saved and scheduler_first ~= true then scheduler:load_state_dict(saved.scheduler) end
  return { optimizer = optimizer, scheduler = scheduler }
end

-- A metric that falls, then stays, then falls.
local function metric(update) return math.max(1 / update, update < 15 and 0.2 or 0.1) end

--- The rate and the momentum that the next update uses; an epoch is two updates.
local function advance(run, update)
  run.optimizer:step()
  local group = run.optimizer.groups.default
  if update % 2 == 0 then run.scheduler:step(metric(update)) end
  return { group.lr, group.momentum }
end

local function check(make, opts, momentum)
  local run, want, saves = start(make, opts, nil, nil, momentum), {}, {}
  for update = 1, UPDATES do
    saves[update] = { optimizer = run.optimizer:state_dict(), scheduler = run.scheduler:state_dict() }
    want[update] = advance(run, update)
  end
  for from = 1, UPDATES do
    for _, order in ipairs { true, false, "before" } do
      local again = start(make, opts, saves[from], order, momentum)
      for update = from, UPDATES do
        local got = advance(again, update)
        if got[1] ~= want[update][1] or got[2] ~= want[update][2] then
          assert.same(want[update], got, ("update %d, resumed at %d"):format(update, from))
        end
      end
    end
  end
end

describe("resumed after every update, in either order of loading,", function()
  for _, name in ipairs(schedules.names()) do
    it(name .. " goes on as if nothing had been", function()
      assert(samples[name], "this specification needs arguments for " .. name)
      check(function() return build(name) end)
    end)

    it(name .. " does so counting epochs", function() check(function() return build(name) end, { interval = "epoch" }) end)
  end

  it("so does a momentum that only the schedule switches on", function()
    for _, name in ipairs { "OneCycleLR", "CyclicLR" } do check(function() return build(name) end, {}, 0) end
  end)

  it("so does a schedule that began anew", function()
    local function linear(to) return function() return schedule.linear { to = to, steps = 8 } end end
    local old = start(linear(0), {})
    for update = 1, 4 do advance(old, update) end
    local function rebased()
      local run = start(linear(0.5), {})
      run.optimizer:load_state_dict(old.optimizer:state_dict())
      run.scheduler:load_state_dict(old.scheduler:state_dict(), { resume = "rebase" })
      return run
    end
    local straight, stopped = rebased(), rebased()
    for update = 5, 6 do assert.same(advance(straight, update), advance(stopped, update)) end
    local again = start(linear(0.5), {}, { optimizer = stopped.optimizer:state_dict(), scheduler = stopped.scheduler:state_dict() }, true)
    for update = 7, 12 do assert.same(advance(straight, update), advance(again, update)) end
  end)

  it("so do combinations, values and plain functions", function()
    check(function() return schedule.warmup { steps = 3 }:for_steps(3):next(schedule.cosine { steps = 9, to = 0.2 }) end)
    check(function() return schedule.warmup { steps = 3 } * schedule.inverse_time { decay = 0.1 } end)
    check(function() return (schedule.linear { to = 0, steps = 9 }):clamp(0.2) end)
    check(function() return schedule.value(function(t) return 0.3 / (1 + t) end) end)
    check(function() return function(t) return 0.9 ^ t end end)
  end)
end)

describe("every optimizer and every schedule", function()
  local here = process.run(".", "pwd").out:gsub("\n", "")

  it("goes on bit for bit in another process", function()
    local place = process.run("/", "mktemp -d -p /dev/shm 2>/dev/null || mktemp -d").out:gsub("\n", "")
    local function run(from, to)
      local result = process.run(here, ("optlua tests/resumed.lua %s %d %d"):format(place, from, to))
      assert.equal(0, result.code, result.err)
      return result.out
    end
    local whole = run(0, 20)
    for _, stop in ipairs { 7, 12 } do
      run(0, stop)
      assert.equal(whole, run(stop, 20))
    end
    process.remove(place)
    for _, name in ipairs(optim.list()) do assert.matches("\n" .. name .. " ", "\n" .. whole) end
    for _, name in ipairs(schedules.names()) do assert.matches(" " .. name .. ": ", whole) end
  end)
end)
