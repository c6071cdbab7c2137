--- backward: updates in backward: a parameter is updated as soon as its gradient is complete, and the gradient's memory is freed
--- before the next one is computed.
--
-- An update begins with the first backward that reaches a parameter. Before that computes anything, schedules are evaluated
-- and rules run on symbols, for all parameters that it reaches; then the core updates each when its gradient is there. The
-- optimizer's step() ends the update: it counts it, and the clock goes on.
local core = require("optlua.core").hidden.optim
local blame = require "optlua.blame"
local phase = require "optlua.optim.phase"
local transaction = require "optlua.optim.transaction"
local uninterrupted = require("optlua.core").hidden.uninterrupted

local backward = {}

local NORM = "the norm of several gradients is known only when those that came first are used and gone"
local SKIP = "an update of which a part has been made cannot be skipped; nonfinite = \"error\" keeps a gradient that is not finite "
  .. "from its parameter"

-- What of a group needs all gradients at once.
local function check_group(name, class, max_group_norm, problems)
  local function refuse(why) problems[#problems + 1] = ("in_backward: group '%s': %s"):format(name, why) end
  if class.after then refuse(class.name .. " cannot be updated in backward: its `after` needs sums over all gradients of the group") end
  if class.step then refuse(class.name .. " cannot be updated in backward: its step sees all parameters at once") end
  if class.gradients then refuse(class.name .. " cannot be updated in backward: it makes its gradients out of all of them") end
  if max_group_norm then refuse("not with max_group_norm: " .. NORM) end
end

local function check_plan(plan, options, problems)
  if plan.class then
    check_group(plan.name, plan.class, plan.settings.max_group_norm or options.max_group_norm, problems)
  end
  for _, optimizer in ipairs(plan.built or {}) do
    for _, group in ipairs(optimizer._groups or {}) do
      check_group(plan.name .. "." .. group.name, group.class, group.max_group_norm or options.max_group_norm, problems)
    end
    if not optimizer._groups then
      problems[#problems + 1] = ("in_backward: group '%s': an optimizer that is not of this library makes its own steps"):format(plan.name)
    end
  end
end

--- Adds what a container cannot keep of its promise when it updates in backward.
---@param self table
---@param plans table[] groups to be
---@param problems string[]
function backward.check(self, plans, problems)
  local options = self._options
  if not options.in_backward then return end
  local problem = self._whole:refuse("max_norm", "not with in_backward: " .. NORM)
  if problem then problems[#problems + 1] = problem end
  if options.track_updates then problems[#problems + 1] = "in_backward: not with track_updates: its sums need all gradients of a group" end
  if options.nonfinite == "skip" then
    problems[#problems + 1] = ("in_backward: not with nonfinite = \"skip\" or \"rollback\": %s"):format(SKIP)
  end
  for _, plan in ipairs(plans) do check_plan(plan, options, problems) end
end

-- Within a transaction: everything but the gradients. Numbers of a group are prepared until one of its parameters is updated.
local function open(self, visit)
  local counts = { self._updater:counts() }
  for i, group in ipairs(self._groups) do group.begun = counts[i] > 0 end
  if transaction.trace(self, visit) then self._updater:open(visit, self._clip.grad_scale or 1) end
end

-- A backward has reached parameters.
local function begin(self, visit)
  phase.check(self, "backward")
  core.transact(open, self, visit)
end

--- Lets the parameters of groups be updated in backward from now on.
---@param self table
---@param groups optlua.optim.Group[]
function backward.attach(self, groups)
  if not self._updater then
    self._updater = core.updater(function(visit) begin(self, visit) end, transaction.measures(self))
  end
  for _, group in ipairs(groups) do self._updater:add(group.handle) end
end

--- Raises while a backward runs.
---@param self table
---@param what string
function backward.refuse_running(self, what)
  if self._updater and self._updater:is_running() then
    blame(("%s: %s: not while backward updates parameters"):format(self._name, what))
  end
end

--- Raises when a parameter was, or is being, updated and the update is not closed.
---@param self table
---@param what string
function backward.refuse_open(self, what)
  if not self._updater then return end
  local begun = self._updater:is_running()
  for _, count in ipairs { self._updater:counts() } do begun = begun or count > 0 end
  if begun then blame(("%s: %s: backward has begun an update; call step() first, which ends it"):format(self._name, what)) end
end

--- Forgets an update that has begun.
---@param self table
function backward.drop(self)
  if self._updater then self._updater:close() end
end

-- Gradients that no backward has brought would be lost, and those that went elsewhere are.
local function check_gradients(self)
  local lost = self._updater:lost()
  if lost then
    blame(("%s: step: an optimizer that was made later has the gradients of parameter '%s'"):format(self._name, lost))
  end
  for _, group in ipairs(self._groups) do
    local name = group.handle:present()
    if name then
      blame(("%s: step: parameter '%s' has a gradient that no backward has brought; in_backward updates only in backward")
        :format(self._name, name))
    end
  end
end

-- Counts what backward has updated.
local function close(self)
  local counts, any = { self._updater:close() }, false
  for i, group in ipairs(self._groups) do
    group.present = counts[i] > 0
    any = any or group.present
    if group.present and group.has_numbers then group:lend_numbers() end
  end
  if any then transaction.note(self) else transaction.note_idle(self) end
end

--- Ends an update: counts it, with the clock of schedules. Without a parameter that was updated since the last one nothing is counted.
---@param self table
---@param closure any
function backward.step(self, closure)
  if closure ~= nil then
    blame(self._name .. ": step: no closure with in_backward: its backward has made the update before anything can be compared")
  end
  backward.refuse_running(self, "step")
  check_gradients(self)
  uninterrupted(close, self)
end

return backward
