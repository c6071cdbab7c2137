--- transaction: a step over the groups of one optimizer or of a container of several.
--
-- First all that can fail: schedules, rules, states, norms. Then the commit, which cannot. Whatever is
-- raised before it leaves no parameter, state, count or number changed.
local core = require("optlua.core").hidden.optim

local function trace(self)
  local groups, updates, any = self._groups, self._clock.updates, false
  for i = 1, #groups do
    local group = groups[i]
    group:stage(updates)
    any = group:trace() or any
  end
  return any
end

local function prepare(self)
  local clip, groups = self._clip, self._groups
  local norm = core.prepare(clip.measure, clip.infinity, clip.max_norm)
  for i = 1, #groups do groups[i]:lend_numbers() end
  return norm
end

local function commit(self, norm)
  local groups = self._groups
  core.commit()
  for i = 1, #groups do groups[i]:commit() end
  self._clock.updates = self._clock.updates + 1
  self._norm = norm
end

local function run(self)
  if not trace(self) then return end
  commit(self, prepare(self))
  for _, group in ipairs(self._groups) do group:settle() end
end

--- Takes one step. Where no gradient is present, nothing happens and nothing is counted.
---@param self { _groups: optlua.optim.Group[], _clock: { updates: integer }, _clip: table }
local function step(self) core.transact(run, self) end

return { step = step }
