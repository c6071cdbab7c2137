--- stepping: the order of what a step does: closure, hooks, classes with a step of their own, optimizers of other make, rules.
--
-- Rules are a transaction by themselves. What is not runs before them, on copies of all that it may change; they come back when
-- it, or anything after it, raises or makes no update.
local attempt = require "optlua.optim.attempt"
local blame = require "optlua.blame"
local closing = require "optlua.closing"
local hooks = require "optlua.optim.hooks"
local memory = require "optlua.optim.memory"
local members = require "optlua.optim.members"
local optlua = require "optlua"
local options = require "optlua.options"
local phase = require "optlua.optim.phase"
local statistics = require "optlua.optim.statistics"
local transaction = require "optlua.optim.transaction"
local uninterrupted = require("optlua.core").hidden.uninterrupted

local stepping = {}

local SKIP = {} -- raised where a step is not made because of a gradient that is not finite

-- Rules --------------------------------------------------------------------------------------------------

local function skip(self, problem)
  self._skipped, self._problem = self._skipped + 1, problem
  self:zero_grad()
  return false
end

-- The groups' rules, where others may be part of the update; whether it was made.
local function step_rules(self, others)
  local skipped = self._skipped
  transaction.step(self, others)
  local made = self._skipped == skipped
  if not made or self._clip.zero then self:zero_grad() end
  return made
end

-- The same with what steps beside the groups.
local function step_with_members(self)
  if #self._members == 0 then return step_rules(self) end
  local name = members.nonfinite(self)
  if not name then return members.step(self, step_rules) end
  local problem = ("the gradient of parameter '%s' is not finite"):format(name)
  if not self._clip.skip then blame(problem) end
  return skip(self, problem)
end

-- Closures -----------------------------------------------------------------------------------------------

-- The loss that a closure returned, as a number.
local function number_of(self, loss)
  local value = optlua.is_tensor(loss) and loss:numel() == 1 and loss:item() or loss
  if type(value) == "number" then return value end
  blame(("%s: step: the closure returns the loss, a number or a tensor of one element, not %s"):format(self._name,
    optlua.is_tensor(loss) and "a tensor of " .. loss:numel() or type(loss)))
end

local function all_finite(tensor) return tensor:isfinite():sum():item() == tensor:numel() end

-- No update is to be made, because of something that is not finite.
local function refuse(self, problem)
  if not self._clip.skip then blame(problem) end
  skip(self, problem)
  error(SKIP, 0)
end

-- Looks at the gradients of a class, or at its parameters, where the optimizer looks at gradients.
local function check_finite(self, class, what)
  if not transaction.measures(self) then return end
  for _, group in ipairs(class.groups) do
    for i, p in ipairs(group.params) do
      local tensor
      if what == "gradient" then tensor = p.grad else tensor = p end
      if tensor and not all_finite(tensor) then
        refuse(self, what == "gradient" and ("the gradient of parameter '%s' is not finite"):format(group.names[i])
          or ("%s made parameter '%s' not finite"):format(group.label, group.names[i]))
      end
    end
  end
end

-- The closure as classes see it. What its first call returns is what the step returns; only that call moves running statistics.
local function wrap_closure(run)
  return function()
    local self = run.optimizer
    run.calls = run.calls + 1
    local first = run.calls == 1
    local _ <close> = not first and closing(statistics.keep(self)) or nil
    local loss = optlua.enable_grad(run.closure)
    if first then run.loss = loss end
    for _, work in ipairs(run.works) do
      if work.opened then memory.note_present(work.opened) end
    end
    if run.unchecked then check_finite(self, run.unchecked, "gradient") end
    run.unchecked = nil
    return run.strict and number_of(self, loss) or nil
  end
end

-- Classes that do more than rules do ---------------------------------------------------------------------

-- The places in a group of the parameters that its class can be given.
local function find_places(group)
  local places = {}
  for i, p in ipairs(group.params) do
    if p.requires_grad and (group.class.needs_closure or p.grad) then places[#places + 1] = i end
  end
  return places
end

-- The classes of an optimizer with their groups, in the order of their first groups.
local function list_classes(self)
  local list, of = {}, {}
  for _, group in ipairs(self._groups) do
    local key = group.class.base or group.class
    if not of[key] then
      of[key] = { groups = {}, definition = group.class }
      list[#list + 1] = of[key]
    end
    table.insert(of[key].groups, group)
  end
  return list
end

-- What a step or `gradients` sees of a group: hyperparameters, numbers, and the fields given.
local function face(group, fields)
  local class, names = group.class, group.class.number_names
  return setmetatable(fields, {
    __index = function(_, key)
      if group.numbers[key] ~= nil then return group.numbers[key] end
      if class.hyper[key] then return group.values[key] end
      blame(("%s: %s"):format(group.title, options.unknown("field", key,
        table.move(names, 1, #names, #class.hyper_names + 1, table.move(class.hyper_names, 1, #class.hyper_names, 1, {})))))
    end,
    __newindex = function(_, key, value)
      if group.numbers[key] == nil then blame(("%s: %s"):format(group.title, options.unknown("number of the group", key, names))) end
      if type(value) ~= "number" or value ~= value then
        blame(("group.%s: a number expected, got %s"):format(key, value ~= value and "NaN" or type(value)))
      end
      group.numbers[key] = 1.0 * value
    end,
  })
end

-- Begins with a group: what can be put back, and what its class sees.
local function begin_group(run, group)
  local work = { group = group, places = find_places(group), params = {}, names = {}, old = {}, numbers = {} }
  for k, i in ipairs(work.places) do
    work.params[k], work.names[k] = group.params[i], group.names[i]
    work.old[k] = work.params[k]:detach():clone()
  end
  for name, value in pairs(group.numbers) do work.numbers[name] = value end
  if group.memory then work.opened = memory.new(group, work.places) end
  table.insert(run.works, work)
  if work.opened then memory.open(work.opened) end
  work.face = face(group, { name = group.name, params = work.params, names = work.names, state = group.memory, step = group.updates + 1 })
  return work
end

local function restore_params(work)
  for k, p in ipairs(work.params) do p:copy_(work.old[k]) end
end

local function undo_work(work)
  restore_params(work)
  work.group.numbers, work.group.stepped = work.numbers, false
  if work.opened then memory.undo(work.opened) end
end

-- Puts everything back.
local function undo(run)
  optlua.no_grad(function()
    for _, work in ipairs(run.works) do undo_work(work) end
  end)
  if run.put_back then run.put_back() end
end

-- Calls a function that computes gradients anew for one class; those of the others stay as they are.
local function isolate(run, class, fn)
  local list = {}
  for _, other in ipairs(run.classes) do
    for _, group in ipairs(other == class and {} or other.groups) do
      for _, p in ipairs(group.params) do list[#list + 1] = { p, p.grad and p.grad:clone() } end
    end
  end
  local _ <close> = closing(function()
    for _, pair in ipairs(list) do
      if pair[2] and pair[1].grad then pair[1].grad:copy_(pair[2]) else pair[1].grad = pair[2] end
    end
  end)
  fn()
end

-- Another number after each write into parameters of a class.
local function stamp(class)
  local sum = 0
  for _, group in ipairs(class.groups) do
    for i in ipairs(group.params) do sum = sum + group.handle:version(i) end
  end
  return sum
end

-- The closure for `gradients` of a class. Where it was called for other classes, the first call gives what that has given,
-- as long as the class has not moved.
local function first_known(run, class)
  local known, before = run.known, stamp(class)
  return function()
    local loss = known
    known = nil
    if loss == nil or stamp(class) ~= before then return run.evaluate() end
    check_finite(run.optimizer, class, "gradient")
    run.unchecked = nil
    return loss
  end
end

-- Lets a class compute the gradients that its rule is given.
local function find_gradients(run, class)
  local works, faces, count = {}, {}, 0
  for i, group in ipairs(class.groups) do
    works[i] = begin_group(run, group)
    faces[i], count = works[i].face, count + #works[i].places
  end
  if count == 0 then return end
  local definition = class.definition
  run.place = ("%s, gradients of update %d"):format(definition.name, run.optimizer._clock.updates + 1)
  if definition.needs_closure then
    run.unchecked = class
    isolate(run, class, function() definition.gradients(run.optimizer, faces, first_known(run, class)) end)
  else
    check_finite(run.optimizer, class, "gradient")
    definition.gradients(run.optimizer, faces)
  end
  for _, work in ipairs(works) do restore_params(work) end
end

-- Steps one group of a class with a step of its own.
local function step_group(run, group)
  local work, class = begin_group(run, group), group.class
  if #work.places == 0 then return end
  if not class.needs_closure then memory.note_present(work.opened) end
  run.place = ("%s, update %d"):format(group.label, group.updates + 1)
  class.step(run.optimizer, work.face, class.needs_closure and run.evaluate or nil)
  memory.close(work.opened)
  memory.settle(work.opened)
  group.stepped = #work.opened.counted > 0
  if not group.stepped then undo_work(work) end -- no gradient was there: nothing happens
end

local function step_class(run, class)
  local self, needs = run.optimizer, class.definition.needs_closure
  local function step_groups()
    for _, group in ipairs(class.groups) do step_group(run, group) end
  end
  if needs then
    run.unchecked = class
    isolate(run, class, step_groups)
  else
    check_finite(self, class, "gradient")
    step_groups()
  end
  check_finite(self, class, "parameter")
end

-- Whether a group has a parameter that is not frozen.
local function is_awake(group)
  for _, p in ipairs(group.params) do
    if p.requires_grad then return true end
  end
  return false
end

-- Whether one class that needs a closure has everything that can be updated: nobody else wants its gradients.
local function is_alone(run)
  local found
  for _, class in ipairs(run.classes) do
    for _, group in ipairs(class.groups) do
      if is_awake(group) then
        if found and found ~= class then return false end
        found = class
      end
    end
  end
  return found ~= nil and found.definition.needs_closure and #run.optimizer._members == 0
end

-- Calls a function for the classes that have a field, within the step; nothing is recorded.
local function for_classes(run, field, fn)
  for _, class in ipairs(run.classes) do
    if class.definition[field] then phase.during(run.optimizer, "step", optlua.no_grad, fn, run, class) end
  end
  run.place = nil
end

-- Counts the updates that were made without the machine.
local function count_updates(run)
  for _, work in ipairs(run.works) do
    local group = work.group
    if group.stepped then
      memory.count(work.opened)
      group.updates, group.stepped = group.updates + 1, false
      run.optimizer._norm = false -- of the rules alone
    end
  end
end

local function take(run)
  local self = run.optimizer
  transaction.stage(self)
  if run.closure and not is_alone(run) then phase.during(self, "step", function() run.known = run.evaluate() end) end
  for_classes(run, "gradients", find_gradients)
  hooks.run(self, self._before, "before")
  for_classes(run, "step", step_class)
  if not step_with_members(self) then error(SKIP, 0) end
  uninterrupted(count_updates, run)
end

-- Where `after` of a rule has raised the update has been made; else nothing was.
local function fail(run)
  if run.optimizer._clock.updates > run.updates then count_updates(run) else undo(run) end
end

-- A step of an optimizer that has more than rules; what the closure returned first.
local function step_specially(self, closure)
  local run = { optimizer = self, closure = closure, classes = list_classes(self), works = {}, calls = 0,
    updates = self._clock.updates, skipped = self._skipped }
  for _, class in ipairs(run.classes) do
    local definition = class.definition
    run.strict = run.strict or definition.needs_closure
    if definition.needs_closure and not closure then
      blame(("%s: step: %s needs a closure, which computes the gradients anew and returns the loss: optimizer:step(function() "
        .. "optimizer:zero_grad() … loss:backward() return loss end)"):format(self._name, definition.name))
    end
  end
  if closure then run.evaluate, run.put_back = wrap_closure(run), statistics.keep(self) end
  local ok, problem = attempt(function() take(run) end, function() fail(run) end, function() return run.place end)
  if not ok and problem ~= SKIP then error(problem, 0) end
  if self._skipped > run.skipped then self:zero_grad() end -- also those that came back
  return run.loss
end

-- The step -----------------------------------------------------------------------------------------------

local function step_plainly(self)
  if self._before[1] then hooks.run(self, self._before, "before") end
  if self._members[1] then step_with_members(self) else transaction.step(self) end
end

-- A step of an optimizer that has only rules; what the closure returned. Where no update is made it moves no running statistics.
local function step_with_closure(self, closure)
  local updates, skipped, made, put_back = self._clock.updates, self._skipped, false, statistics.keep(self)
  local _ <close> = phase.closing(function()
    if not made and self._clock.updates == updates then put_back() end
  end)
  local loss = phase.during(self, "step", optlua.enable_grad, closure)
  step_plainly(self)
  made = self._skipped == skipped
  return loss
end

--- Whether a step of an optimizer needs a closure.
---@param self table
---@return boolean
function stepping.needs_closure(self)
  for _, group in ipairs(rawget(self, "_groups") or {}) do
    if group.class.needs_closure then return true end
  end
  return false
end

--- Takes a step: of the rules, and of what else there is.
---@param self table the optimizer
---@param closure? fun(): any
---@return any # what the closure returned, at its first call
function stepping.step(self, closure)
  local loss
  if closure ~= nil and not options.is_callable(closure) then
    blame(("%s: step: a closure is a function, not a %s"):format(self._name, type(closure)))
  end
  if self._special then
    loss = step_specially(self, closure)
  elseif closure then
    loss = step_with_closure(self, closure)
  else
    step_plainly(self)
  end
  if self._after[1] then hooks.run(self, self._after, "after") end
  return loss
end

return stepping
