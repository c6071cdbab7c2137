--- transaction: a step over the groups of one optimizer or of a container of several.
--
-- First all that can fail: schedules, rules, states, norms. Then the commit, which cannot. Whatever is
-- raised before it leaves no parameter, state, count or number changed.
-- It runs once for every update of a small network, so functions and fields are looked up early.
local core = require("optlua.core").hidden.optim
local Group = require "optlua.optim.group"
local uninterrupted = require("optlua.core").hidden.uninterrupted

local transact, prepare_step, commit_step = core.transact, core.prepare, core.commit
local stage_group, trace_group, commit_group = Group.stage, Group.trace, Group.commit

--- Evaluates schedules, and asks for states where that is needed.
---@param self table
local function stage(self)
  local groups, updates, whole = self._groups, self._clock.updates, self._whole
  if whole and whole.schedules[1] then whole:move(updates) end
  for i = 1, #groups do stage_group(groups[i], updates) end
end

--- Evaluates schedules and runs rules on symbols; false where no gradient is present, or awaited.
---@param self table
---@param visit? integer
local function trace(self, visit)
  local groups, updates, whole = self._groups, self._clock.updates, self._whole
  local special, any = self._special, false
  if whole and whole.schedules[1] then whole:move(updates) end
  for i = 1, #groups do
    local group = groups[i]
    stage_group(group, updates)
    if special and group.class.step then any = group.stepped or any else any = trace_group(group, visit) or any end
  end
  return any
end

--- Whether gradients are measured before an update, and have to be finite.
---@param self table
---@return boolean
local function measures(self)
  local clip, whole = self._clip, self._whole
  return clip.measure or clip.max_norm ~= nil or whole and whole.scheduled.max_norm ~= nil
end

-- Raises, or with `skip` returns nothing, when a gradient is not finite.
local function prepare(self)
  local clip = self._clip
  if not (clip.measure or clip.max_norm) then return prepare_step(clip.grad_scale) end -- schedules have set theirs
  return prepare_step(clip.grad_scale, clip.max_norm or math.huge, clip.infinity, clip.skip)
end

-- Makes gradients absent.
local function zero_grad(groups)
  for i = 1, #groups do groups[i].handle:zero_grad() end
end

--- Notes what an update that was made has used, and counts it. Cannot fail.
---@param self table
---@param norm? number
local function note(self, norm)
  local groups, clock, whole = self._groups, self._clock, self._whole
  clock.updates = clock.updates + 1
  for i = 1, #groups do
    local group = groups[i]
    commit_group(group)
    if group.sleeps then group:wake() end
  end
  if whole then
    if whole.schedules[1] then whole:note_schedules() end
    whole.last = "used"
  end
  if self._clip.zero then zero_grad(groups) end
  self._norm = norm or false
  if self._idle == "once" then self._idle = false end
end

-- Whether a parameter could be updated.
local function has_awake(groups)
  for _, group in ipairs(groups) do
    for _, tensor in ipairs(group.params) do
      if tensor.requires_grad then return true end
    end
  end
  return false
end

--- Notes that a step has found no gradient at all. Once may be meant; where the next one finds none either, it is said on stderr.
---@param self table
local function note_idle(self)
  if self._idle == "said" or #self._members > 0 or not has_awake(self._groups) then return end
  if not self._idle then
    self._idle = "once"
    return
  end
  self._idle = "said"
  io.stderr:write(("optlua: %s: step: none of its parameters has a gradient, so nothing is updated; was backward called, and are "
    .. "they those of the model? After model:to(…) they are others, and an optimizer is made anew\n"):format(self._name))
end

-- Runs what is to see the numbers of groups after an update.
local function conclude(groups)
  for i = 1, #groups do
    if groups[i].has_numbers then groups[i]:conclude() end
  end
end

-- Makes the update.
local function commit(self, norm)
  commit_step()
  note(self, norm)
end

local function take(self, others)
  if not trace(self) then
    if others then uninterrupted(note, self) else note_idle(self) end
    return
  end
  local norm, problem = prepare(self)
  if problem then
    self._skipped, self._problem = self._skipped + 1, problem
    return zero_grad(self._groups)
  end
  uninterrupted(commit, self, norm)
  if self._has_numbers then conclude(self._groups) end
end

local function run_form(self, name)
  local any = false
  for _, group in ipairs(self._groups) do
    local rule = group.class.rules[name]
    if rule then any = group:trace_form(rule) or any end
  end
  if not any then return end
  prepare_step()
  commit_step()
end

--- Runs a named rule of the groups whose class has it.
---@param self { _groups: optlua.optim.Group[] }
---@param name string
local function run(self, name) transact(run_form, self, name) end

--- Takes one step. Where no gradient is present, nothing happens and nothing is counted, unless others are part of the update.
---@param self { _groups: optlua.optim.Group[], _clock: { updates: integer }, _clip: table }
---@param others? boolean
local function step(self, others) transact(take, self, others) end

return { measures = measures, stage = stage, step = step, run = run, trace = trace, note = note, note_idle = note_idle }
