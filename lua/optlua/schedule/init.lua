--- schedule: how hyperparameters move over the updates.
--
-- A schedule is a pure function of the number of committed updates. `schedule.NAME { arguments }` makes one:
-- those of this library in short.lua, PyTorch's in torch.lua, and those that scripts register. They are
-- given to optim.lr_scheduler and optim.scheduler, and can be chosen by name in a config.
local options = require "optlua.options"
local registry = require "optlua.registry"
local blame = require "optlua.blame"
local curve = require "optlua.schedule.curve"

local known = registry.new "schedule"

---@class optlua.schedule
local schedule = { Schedule = curve.Schedule, is_schedule = curve.is }

--- Makes a constructor: checks its arguments, and makes the schedule.
local function constructor(name, schema, make)
  return setmetatable({ name = name, args = schema }, {
    __call = function(_, args)
      local checked, problems = options.collect(args, schema)
      local what = "schedule." .. name
      if #problems > 0 then blame(what .. ": " .. table.concat(problems, "\n" .. what .. ": ")) end
      local made = make(checked, function(problem) blame(what .. ": " .. problem) end)
      return curve.is(made) and made or curve.new(name, made)
    end,
    __tostring = function() return "schedule." .. name end,
  })
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
---@param make fun(args: table): function|optlua.Schedule a function of the updates that gives the factor, or a schedule
function schedule.register(name, args, make)
  if type(args) ~= "table" or type(make) ~= "function" then
    blame("schedule.register: a name, a table of arguments and a function expected")
  end
  local problem = known:add(name, constructor(name, args, make))
  if problem then blame("schedule.register: " .. problem) end
end

--- Forgets a kind of schedules.
---@param name string
function schedule.unregister(name)
  local problem = known:remove(name)
  if problem then blame("schedule.unregister: " .. problem) end
end

--- The names of all kinds, sorted.
---@return string[]
function schedule.list() return known:names() end

--- The constructor of a name: { name =, args = schema }, to be called with arguments. An unknown name raises.
---@param name string
---@return table
function schedule.resolve(name)
  local found = type(name) == "string" and known:lookup(name)
  if not found then blame("schedule.resolve: " .. options.unknown("schedule", name, known:names())) end
  return found
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
    for name in kind.name:gmatch "%S+" do known:add(name, constructor(name, kind.args, kind.make)) end
  end
end

return setmetatable(schedule, {
  __index = function(_, name)
    if type(name) ~= "string" or name:find "^_" then return nil end
    local found = known:lookup(name)
    if not found then blame("schedule." .. name .. " does not exist: " .. options.unknown("schedule", name, known:names())) end
    return found
  end,
})
