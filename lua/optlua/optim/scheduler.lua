--- scheduler: moves hyperparameters as the updates go on.
--
-- A schedule is a pure function of the number of committed updates, asked at the start of each step:
-- nothing has to be stepped, and a step that was skipped or failed does not count. A function gives the
-- factor on the base value; a schedule object answers `object:at(updates)`, a factor too, or, where
-- `object.absolute` is true, the value itself.
local options = require "optlua.options"
local blame = require "optlua.blame"
local hyper = require "optlua.optim.hyper"

---@class optlua.optim.Scheduler
local Scheduler = {}
Scheduler.__index = Scheduler
Scheduler.__name = "scheduler"

local function is_schedule(value) return type(value) == "table" and type(value.at) == "function" end

-- A schedule for one hyperparameter, from a function or a schedule object.
local function normalise(given, name, what)
  local schedule = { name = name, what = what }
  if is_schedule(given) then
    schedule.absolute = given.absolute and true or false
    function schedule:at(updates) return given:at(updates) end
  else
    schedule.absolute = false
    function schedule:at(updates) return given(updates) end
  end
  return schedule
end

local function check_hyper(group, name)
  local option = group.class.hyper[name]
  if not option then return options.unknown("hyperparameter", name, group.class.hyper_names) end
  if type(option.default) ~= "number" then return ("%s is no number; it cannot be moved"):format(name) end
end

-- One schedule for every group that has the hyperparameter; groups that are added later follow.
local function plan_all(self, given)
  local plan, reasons = {}, {}
  for _, group in ipairs(self.optimizer._groups) do
    local problem = check_hyper(group, self.hyper)
    if not problem then
      plan[#plan + 1] = { group, given }
    else
      reasons[#reasons + 1] = ("group '%s': %s"):format(group.name, problem)
    end
  end
  if #plan == 0 and #reasons > 0 then return nil, reasons[1] end
  return plan
end

local function plan_named(self, given)
  local plan, names, left = {}, {}, {}
  for name in pairs(given) do left[name] = true end
  for i, group in ipairs(self.optimizer._groups) do
    local one = given[group.name]
    names[i], left[group.name] = group.name, nil
    if one ~= nil then
      local problem = check_hyper(group, self.hyper)
      if problem or type(one) ~= "function" and not is_schedule(one) then
        return nil, ("group '%s': %s"):format(group.name, problem or "a function or a schedule expected, got " .. type(one))
      end
      plan[#plan + 1] = { group, one }
    end
  end
  local unknown = next(left)
  if unknown ~= nil then return nil, options.unknown("group", unknown, names) end
  return plan
end

-- Attaches schedules to groups, once each has given something legal for the next update.
local function attach(self, plan)
  for _, item in ipairs(plan) do
    item.schedule = normalise(item[2], self.hyper, self.what)
    item[1]:try(item.schedule)
  end
  for _, item in ipairs(plan) do item[1]:attach(item.schedule) end
end

-- Groups that are added later follow a schedule for all.
local function follow(self, given)
  self.optimizer._followers[self.hyper] = function(group)
    if not check_hyper(group, self.hyper) then attach(self, { { group, given } }) end
  end
end

local function make(what, optimizer, name, given)
  if type(optimizer) ~= "table" or type(optimizer._groups) ~= "table" then
    blame(("%s: an optimizer or a container expected, got %s"):format(what, type(optimizer)))
  end
  if type(name) ~= "string" then blame(what .. ": the name of a hyperparameter expected, got " .. type(name)) end
  local self = setmetatable({ optimizer = optimizer, hyper = name, what = what }, Scheduler)
  local single = type(given) == "function" or is_schedule(given)
  if not single and type(given) ~= "table" then
    blame(("%s: a function, a schedule, or a table of them by group expected, got %s"):format(what, type(given)))
  end
  local plan, problem = (single and plan_all or plan_named)(self, given)
  if problem then blame(("%s: %s"):format(what, problem)) end
  attach(self, plan)
  if single then follow(self, given) end
  return self
end

--- Moves the learning rate: `schedule` is a function of the number of updates so far (from 0) that returns the
--- factor on the base, or a schedule object, for all groups, also those that are added later; or a table
--- of such by the names of groups (those that are left out keep theirs).
---
---     local optlua = require "optlua"
---     local optim = optlua.optim
---     local w = optlua.tensor({ 1 }, { requires_grad = true })
---     w.grad = optlua.ones(1)
---     local optimizer = optim.SGD({ w }, { lr = 0.5 })
---     optim.lr_scheduler(optimizer, function(updates) return 1 / (1 + updates) end)
---     for _ = 1, 2 do optimizer:step() end
---     print(optimizer.groups.default.lr) --> 0.25
---
--- The schedule is asked at the start of each step; nothing has to be stepped. It is asked once here for
--- the next update: what is no number raises, and nothing has changed. groups.<name>.lr is the value that the
--- last update used (before the first one, and after an assignment, the one that the next will use);
--- assigning to it sets the base, and the factor applies to the base. A schedule for a group that has one
--- takes its place: `function() return 1 end` gives the base back.
---@param optimizer optlua.optim.Optimizer
---@param schedule function|table
---@return optlua.optim.Scheduler
local function lr_scheduler(optimizer, schedule)
  return make("optim.lr_scheduler", optimizer, "lr", schedule)
end

--- Moves any hyperparameter that is a number, as lr_scheduler does the learning rate.
---@param optimizer optlua.optim.Optimizer
---@param name string
---@param schedule function|table
---@return optlua.optim.Scheduler
local function scheduler(optimizer, name, schedule)
  return make("optim.scheduler", optimizer, name, schedule)
end

--- The values that the last update used, by group in their order; before the first one, those that it
--- will use.
---@return any[]
function Scheduler:get_last_value()
  local values = {}
  for i, group in ipairs(self.optimizer._groups) do
    values[i] = group.class.hyper[self.hyper] and hyper.thaw(group:read(self.hyper)) or false
  end
  return values
end

--- The learning rates that the last update used, as get_last_value.
---@return number[]
function Scheduler:get_last_lr() return self:get_last_value() end

--- Does nothing: schedules follow the updates. Here for loops that were written for PyTorch.
function Scheduler:step() end

--- Nothing: all that a schedule needs is the number of updates, which the optimizer saves.
---@return table
function Scheduler:state_dict() return {} end

--- Takes what state_dict gave.
---@param state table
function Scheduler:load_state_dict(state)
  if type(state) ~= "table" then blame("a scheduler's state is a table, not a " .. type(state)) end
  local key = next(state)
  if key ~= nil then blame("a scheduler's state: " .. options.unknown("entry", key, {})) end
end

return { lr_scheduler = lr_scheduler, scheduler = scheduler }
