--- scheduler: moves hyperparameters as the updates go on.
--
-- A schedule is a pure function of the number of committed updates, asked at the start of each step:
-- nothing has to be stepped, and a step that was skipped or failed does not count. A function gives the
-- factor on the base value; a schedule object answers `object:at(updates)`, a factor too, or, where
-- `object.absolute` is true, the value itself.
local options = require "optlua.options"
local blame = require "optlua.blame"
local colon = require "optlua.colon"
local curve = require "optlua.schedule.curve"
local hyper = require "optlua.optim.hyper"
local params = require "optlua.optim.params"
local check_saved = require "optlua.optim.saved"

---@class optlua.optim.Scheduler
---@field steps integer how often `step` was called
local Scheduler = {}
Scheduler.__index = Scheduler
Scheduler.__name = "scheduler"

local intervals = { interval = { default = "step", choices = { "step", "epoch" },
  doc = "whether schedules count updates, or calls of scheduler:step()" } }

local function is_schedule(value) return type(value) == "table" and type(value.at) == "function" end

-- Whether a table holds schedules by group, though one of the groups is called "at".
local function is_by_group(optimizer, given)
  if type(given) ~= "table" or getmetatable(given) then return false end
  local names = {}
  for _, group in ipairs(optimizer._groups) do names[group.name] = true end
  for name in pairs(given) do
    if not names[name] then return false end
  end
  return true
end

-- A schedule for one hyperparameter of a group, from a function or a schedule object.
local function normalise(self, given, name, element)
  local entry = { name = name, element = element, what = self.what, given = given, offset = 0 }
  local object = is_schedule(given)
  entry.absolute = object and given.absolute and true or false
  function entry.at(_, updates, base)
    local count = (self.interval == "epoch" and self.steps or updates) - entry.offset
    if object then return given:at(count, base) end
    return given(count)
  end
  return entry
end

-- Which hyperparameter a name means, and which element of it: "betas[1]".
local function read_name(name)
  local list, element = name:match "^([%w_]+)%[(%d+)%]$"
  return list or name, math.tointeger(element)
end

-- The groups whose hyperparameter is moved, or what stands for the container as a whole, whose number it is.
local function holders(self)
  local whole = rawget(self.optimizer, "_whole")
  return whole and whole.class.hyper[self.hyper] and { whole } or self.optimizer._groups
end

local function check_hyper(group, what)
  local name, element = read_name(what)
  local option = group.class.hyper[name]
  if not option then return options.unknown("hyperparameter", name, group.class.hyper_names) end
  local default = option.default
  if type(default) == "table" and type(default[1]) == "number" then
    if not element then return ("%s is a list; one of its elements can be moved: %q"):format(name, name .. "[1]") end
    if not default[element] then return ("%s has %d elements"):format(name, #default) end
  elseif element or type(default) ~= "number" then
    return ("%s is no %s; it cannot be moved"):format(name, element and "list" or "number")
  end
end

-- A plan: a list of { group, hyperparameter, schedule }, with the schedules of others that belong to one.
local function add_plan(plan, group, hyper_name, given)
  plan[#plan + 1] = { group, hyper_name, given }
  for other, companion in pairs(type(given) == "table" and given.others or {}) do
    local name = other
    if other == "momentum" and not group.class.hyper.momentum then name = "betas[1]" end
    local problem = check_hyper(group, name)
    if problem then return ("%s belongs to this schedule: %s"):format(other, problem) end
    plan[#plan + 1] = { group, name, companion }
  end
end

-- One schedule for every group that has the hyperparameter; groups that are added later follow.
local function plan_all(self, given)
  local plan, reasons = {}, {}
  for _, group in ipairs(holders(self)) do
    local problem = check_hyper(group, self.hyper)
    if not problem then
      problem = add_plan(plan, group, self.hyper, given)
      if problem then return nil, ("group '%s': %s"):format(group.name, problem) end
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
  if holders(self) ~= self.optimizer._groups then
    return nil, self.hyper .. " is a number of the container as a whole: a function or a schedule expected, not a table by group"
  end
  for i, group in ipairs(self.optimizer._groups) do
    local one = given[group.name]
    names[i], left[group.name] = group.name, nil
    if one ~= nil then
      local problem = check_hyper(group, self.hyper)
      if not problem and type(one) ~= "function" and not is_schedule(one) then
        problem = "a function or a schedule expected, got " .. type(one)
      end
      problem = problem or add_plan(plan, group, self.hyper, one)
      if problem then return nil, ("group '%s': %s"):format(group.name, problem) end
    end
  end
  local unknown = next(left)
  if unknown ~= nil then return nil, options.unknown("group", unknown, names) end
  return plan
end

-- Attaches schedules to groups, once each has given something legal for the next update.
local function attach(self, plan)
  for _, item in ipairs(plan) do
    item.entry = normalise(self, item[3], read_name(item[2]))
    item[1]:try(item.entry)
  end
  for _, item in ipairs(plan) do
    item[1]:attach(item.entry)
    self.entries[#self.entries + 1] = { group = item[1].name, hyper = item[2], entry = item.entry }
  end
end

-- Groups that are added later follow a schedule for all.
local function follow(self, given)
  self.optimizer._followers[self.hyper] = function(group)
    if check_hyper(group, self.hyper) then return end
    local plan = {}
    local problem = add_plan(plan, group, self.hyper, given)
    if problem then blame(("%s: group '%s': %s"):format(self.what, group.name, problem)) end
    attach(self, plan)
  end
end

local function make(what, optimizer, name, given, opts)
  if type(optimizer) ~= "table" or type(optimizer._groups) ~= "table" then
    blame(("%s: an optimizer or a container expected, got %s"):format(what, type(optimizer)))
  end
  if type(name) ~= "string" then blame(what .. ": the name of a hyperparameter expected, got " .. type(name)) end
  local checked, problems = options.collect(opts, intervals)
  if #problems > 0 then blame(what .. ": " .. table.concat(problems, "; ")) end
  local self = setmetatable({ optimizer = optimizer, hyper = name, what = what, interval = checked.interval, steps = 0,
    entries = {} }, Scheduler)
  local single = type(given) == "function" or is_schedule(given) and not is_by_group(optimizer, given)
  if not single and params.kind(given) ~= "table" then
    blame(("%s: a function, a schedule, or a table of them by group expected, got %s"):format(what, params.kind(given)))
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
---
--- PyTorch's schedules count calls of scheduler.step(), most often epochs; here they count updates: a StepLR that is to go down
--- each 30 epochs has step_size = 30 * #loader, or is made with { interval = "epoch" } and scheduler:step() after each epoch.
---@param optimizer optlua.optim.Optimizer
---@param schedule function|table
---@param opts? { interval?: "step"|"epoch" } epoch: the schedule counts calls of scheduler:step(), not updates
---@return optlua.optim.Scheduler
local function lr_scheduler(optimizer, schedule, opts)
  return make("optim.lr_scheduler", optimizer, "lr", schedule, opts)
end

--- Moves any hyperparameter that is a number, or, as "betas[1]", one of a list, as lr_scheduler does the
--- learning rate; and max_norm or grad_scale of a container, by one schedule for all of it. The name is that of a
--- hyperparameter of the class (optlua --doc AdamW lists them); as for lr_scheduler, the schedule may be a table by group.
---
---     local optlua = require "optlua"
---     local nn, optim = optlua.nn, optlua.optim
---     local optimizer = optim.container(nn.Linear(2, 2), optim.groups.no_decay(), { class = "AdamW", weight_decay = 0.5 })
---     optim.scheduler(optimizer, "weight_decay", { decay = function(updates) return 0.5 ^ updates end })
---     optim.scheduler(optimizer, "betas[1]", optlua.schedule.value(function(updates) return updates < 10 and 0.5 or 0.9 end))
---     print(optimizer.groups.decay.weight_decay, optimizer.groups.decay.betas[1]) --> 0.5 0.5
---@param optimizer optlua.optim.Optimizer
---@param name string
---@param schedule function|table
---@param opts? { interval?: "step"|"epoch" }
---@return optlua.optim.Scheduler
local function scheduler(optimizer, name, schedule, opts)
  return make("optim.scheduler", optimizer, name, schedule, opts)
end

--- The values that the last update used, by group in their order; before the first one, those that it
--- will use.
---@return any[]
function Scheduler:get_last_value()
  local values = {}
  local name, element = read_name(self.hyper)
  for i, group in ipairs(holders(self)) do
    local value = group.class.hyper[name] and hyper.thaw(group:read(name)) or false
    values[i] = value and element and value[element] or value
  end
  return values
end

--- The learning rates that the last update used, as get_last_value.
---@return number[]
function Scheduler:get_last_lr() return self:get_last_value() end

-- What in a schedule remembers: a part of it, or an object of the script's itself.
local function source_of(given)
  if type(given) ~= "table" then return nil end
  return given.source or (given.advance or given.memory) and given or nil
end

-- Says once that calls do nothing, where they come less often than updates: they are meant for epochs then.
local function note_idle(self)
  local updates, before = self.optimizer._clock.updates, self.seen
  self.seen = updates
  if self.warned or self:needs_step() or not before or updates - before < 2 then return end
  self.warned = true
  local _, line = pcall(blame, ("scheduler:step() does nothing: schedules count updates, here %d between two calls, by themselves; "
    .. 'one that is to count calls is made with { interval = "epoch" }'):format(updates - before))
  io.stderr:write("optlua: ", line, "\n")
end

--- Counts an epoch for schedules that were made with interval = "epoch", and hands a metric to those that
--- need one (ReduceLROnPlateau). Others follow the updates by themselves: for them this does nothing, which is said once on
--- stderr where it is not called after each update.
---@param metric? number
function Scheduler:step(metric)
  local done = {}
  note_idle(self)
  for _, item in ipairs(self.entries) do
    local source = source_of(item.entry.given)
    if source and source.advance and not done[source] then
      done[source] = true
      source.advance(metric)
    end
  end
  self.steps = self.steps + 1
end

--- Whether calls of step move something: schedules count them, or wait for a metric.
---@return boolean
function Scheduler:needs_step() return self.interval == "epoch" or self:mode() ~= nil end

--- Which metrics are better for a schedule that needs one: "min" or "max"; nil where none does.
---@return string?
function Scheduler:mode()
  for _, item in ipairs(self.entries) do
    local source = source_of(item.entry.given)
    if source and source.advance then return source.mode or "min" end
  end
end

-- What moves, and by what.
function Scheduler:__tostring()
  local lines = {}
  for i, item in ipairs(self.entries) do
    local given = item.entry.given
    lines[i] = ("\n  %s.%s: %s"):format(item.group, item.hyper, type(given) == "function" and "function" or tostring(given))
  end
  return ("scheduler (%s)"):format(#lines > 0 and table.concat(lines) .. "\n" or "")
end

-- The state ------------------------------------------------------------------------------------------------

local function key_of(item) return item.group .. "." .. item.hyper end

-- What is saved of one schedule: samples of it, where it began, what it remembers.
local function save_entry(item)
  local entry, saved = item.entry, { offset = item.entry.offset }
  saved.fingerprint = curve.of(item.hyper, entry.given):fingerprint()
  local source = source_of(entry.given)
  if source and source.memory then
    saved.memory = {}
    for key, value in pairs(source.memory) do saved.memory[key] = check_saved(key_of(item) .. ": memory." .. key, value) end
  end
  return saved
end

--- What a scheduler needs to go on: its count of epochs and, by group and hyperparameter, what schedules
--- remember, and samples by which an edited schedule is noticed. The count of updates is the optimizer's.
---@return table
function Scheduler:state_dict()
  local state = { steps = self.steps, schedules = {} }
  for _, item in ipairs(self.entries) do state.schedules[key_of(item)] = save_entry(item) end
  return state
end

-- The first sample in which a schedule differs from a saved one, as text; nil when none does.
local function difference(item, saved)
  if saved.memory then return nil end -- it gives what it remembers
  local now, points = curve.of(item.hyper, item.entry.given):fingerprint()
  for k, value in ipairs(now) do
    local before = saved.fingerprint[k]
    if before ~= value then
      return ("%s: another schedule than when it was saved: for a base of 1, update %d has %.14g now, and had %.14g")
        :format(key_of(item), points[k], value or 0 / 0, before or 0 / 0)
    end
  end
end

local function check_state(self, state)
  if type(state) ~= "table" then blame("a scheduler's state is a table, not a " .. type(state)) end
  for key in pairs(state) do
    if key ~= "steps" and key ~= "schedules" then
      blame("a scheduler's state: " .. options.unknown("entry", key, { "schedules", "steps" }))
    end
  end
  if math.type(state.steps) ~= "integer" or type(state.schedules) ~= "table" then
    blame "a scheduler's state: steps (an integer) and schedules (a table) expected"
  end
  for _, item in ipairs(self.entries) do
    local saved = state.schedules[key_of(item)]
    if saved ~= nil and (type(saved) ~= "table" or type(saved.fingerprint) ~= "table" or math.type(saved.offset) ~= "integer") then
      blame(("a scheduler's state: schedules[%q] is no saved schedule"):format(key_of(item)))
    end
  end
end

--- Takes what state_dict gave. A schedule that is not the one that was saved is noticed; `resume` says what
--- then happens: "config", it goes on at the count of updates; "rebase", it begins at its own update 0 now; "error".
---@param state table
---@param opts? { resume?: "config"|"rebase"|"error" } default "config"
---@return string[] differences
function Scheduler:load_state_dict(state, opts)
  local resume = options.check("load_state_dict", opts,
    { resume = { default = "config", choices = { "config", "rebase", "error" } } }).resume
  check_state(self, state)
  local differences = {}
  for _, item in ipairs(self.entries) do
    local saved = state.schedules[key_of(item)]
    item.differs = saved and difference(item, saved)
    differences[#differences + 1] = item.differs
  end
  if resume == "error" and #differences > 0 then blame(self.what .. ": " .. table.concat(differences, "\n")) end
  self.steps = state.steps
  for _, item in ipairs(self.entries) do
    local saved, entry = state.schedules[key_of(item)], item.entry
    if saved then
      entry.offset = saved.offset
      if item.differs and resume == "rebase" then
        entry.offset = self.interval == "epoch" and self.steps or self.optimizer._clock.updates
      end
      local source = source_of(entry.given)
      if saved.memory and source then source.memory = saved.memory end
    end
  end
  return differences
end

colon.watch(Scheduler, function(value) return type(value) == "table" and getmetatable(value) == Scheduler end, "scheduler")

return { lr_scheduler = lr_scheduler, scheduler = scheduler }
