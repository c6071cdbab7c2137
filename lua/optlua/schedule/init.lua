--- schedule: how hyperparameters move over the updates.
--
-- A schedule is a pure function of the number of committed updates. `schedule.NAME { arguments }` makes one:
-- those of this library in short.lua, PyTorch's in torch.lua, and those that scripts register. They are
-- given to optim.lr_scheduler and optim.scheduler, and can be chosen by name in a config. PyTorch's count
-- updates too, not epochs, unless they are made with interval = "epoch".
local factory = require "optlua.factory"
local options = require "optlua.options"
local blame = require "optlua.blame"
local curve = require "optlua.schedule.curve"

---@class optlua.schedule
local schedule, made = factory.module "schedule"

schedule.Schedule = curve.Schedule
schedule.is_schedule = curve.is
schedule._factory = made

-- What to write where the optimizer or a function stands first, as in PyTorch.
function made.hint(name, args)
  if type(args) == "function" and made:find(name).args.lr_lambda then
    return ("its function has a name: schedule.%s { lr_lambda = … }"):format(name)
  end
  if type(args) == "table" and args.zero_grad then
    return ("a schedule does not take the optimizer: optim.lr_scheduler(optimizer, schedule.%s { … })"):format(name)
  end
end

-- What a constructor makes of checked arguments: a schedule, also where a function comes out.
local function wrap(name, make)
  return function(args, fail)
    for _, key in ipairs(options.names(args)) do
      if args[key] == math.huge or args[key] == -math.huge then fail(key .. ": a finite number expected, got " .. args[key]) end
    end
    local result = make(args, fail)
    if curve.is(result) then return result end
    if not options.is_callable(result) then fail("what is registered returns a function or a schedule, not a " .. type(result)) end
    return curve.new(name, result)
  end
end

--- Adds a kind of schedules under a name: `schedule.NAME { … }` makes one, and configs can choose it.
---
---     local schedule = require("optlua").schedule
---     schedule.register("halving", { every = { default = 10, integer = true, min = 1 } }, function(args)
---       return function(updates) return 0.5 ^ (updates // args.every) end
---     end)
---     print(schedule.halving { every = 2 }:at(4)) --> 0.25
---     schedule.unregister "halving"
---@param name string
---@param args table<string, any> what it takes, as `options` describes it: defaults, or { default =, min = … }
---@param make fun(args: table, fail: fun(problem: string)): function|optlua.Schedule a function of the updates that gives the factor, or a schedule
function schedule.register(name, args, make)
  made:register(name, args, type(make) == "function" and wrap(name, make) or make)
end

--- A schedule that gives the values of a function of the updates, not factors on the base.
---@param fn fun(updates: integer, base: number): number
---@return optlua.Schedule
function schedule.value(fn)
  if type(fn) ~= "function" then blame("schedule.value: a function expected, got a " .. type(fn)) end
  return curve.new("value", fn, { absolute = true })
end

for _, file in ipairs { "short", "torch" } do
  for _, kind in ipairs(require("optlua.schedule." .. file)) do
    for name in kind.name:gmatch "%S+" do
      schedule.register(name, kind.args, kind.make)
      made:find(name).doc = kind.doc
    end
  end
end

return schedule
