--- joined: several optimizers, or schedulers, as one, to be saved and loaded.
local loading = require "optlua.checkpoint.loading"
local options = require "optlua.options"

local joined = {}

-- Optimizers -------------------------------------------------------------------------------------------------

---@class optlua.JoinedOptimizers
---@field list table<string, optlua.optim.Optimizer>
---@field names string[]
local Optimizers = {}
Optimizers.__index = Optimizers

--- Joins optimizers: their states stand behind their names, "generator/state.…".
---@param list table<string, optlua.optim.Optimizer>
---@return optlua.JoinedOptimizers
function joined.optimizers(list)
  return setmetatable({ list = list, names = options.names(list) }, Optimizers)
end

-- The name, which may have slashes itself, that a key stands behind: the longest that fits.
local function owner_of(names, key)
  local found
  for _, name in ipairs(names) do
    if key:sub(1, #name + 1) == name .. "/" and (not found or #name > #found) then found = name end
  end
  return found
end

-- What of a joined state belongs to each name; what belongs to none stands at "".
local function shares(names, state)
  local own = { [""] = {} }
  for _, name in ipairs(names) do own[name] = {} end
  for key, value in pairs(state) do
    local name = owner_of(names, key)
    if name then own[name][key:sub(#name + 2)] = value else table.insert(own[""], key) end
  end
  table.sort(own[""])
  return own
end

--- All states.
---@return table<string, any>
function Optimizers:state_dict()
  local state = {}
  for _, name in ipairs(self.names) do
    for key, value in pairs(self.list[name]:state_dict()) do state[name .. "/" .. key] = value end
  end
  return state
end

-- As that of an optimizer: what is wrong, what was missing or unexpected, and a function that loads.
function Optimizers:_prepare(state, strict)
  local own = shares(self.names, state)
  local problems, found, commits = {}, { missing = {}, unexpected = own[""] }, {}
  if strict and #own[""] > 0 then problems[1] = "unexpected: " .. table.concat(own[""], ", ") end
  for k, name in ipairs(self.names) do
    local problem, report, commit = loading.prepare_optimizer(self.list[name], own[name], strict)
    commits[k] = { optimizer = self.list[name], commit = commit }
    if problem then problems[#problems + 1] = name .. ": " .. problem end
    for kind, keys in pairs(found) do
      for _, key in ipairs(report[kind]) do keys[#keys + 1] = name .. "/" .. key end
    end
  end
  return #problems > 0 and table.concat(problems, "\n") or nil, found, function() loading.commit_optimizers(commits) end
end

--- Loads the states of all, or raises and has changed nothing.
---@param state table<string, any>
function Optimizers:load_state_dict(state)
  local problem, _, commit = self:_prepare(state, true)
  if problem then error(problem, 0) end
  commit()
end

-- Calls a function while all that have two forms are in that for evaluation.
function Optimizers:_evaluated(fn)
  for _, name in ipairs(self.names) do
    local inner, optimizer = fn, self.list[name]
    if optimizer._evaluated then fn = function() return optimizer:_evaluated(inner) end end
  end
  return fn()
end

-- The form of those that have two.
function Optimizers:_mode()
  for _, name in ipairs(self.names) do
    local optimizer = self.list[name]
    local mode = optimizer._mode and optimizer:_mode()
    if mode then return mode end
  end
end

--- Goes back to the form for training.
function Optimizers:train()
  for _, name in ipairs(self.names) do
    local optimizer = self.list[name]
    if optimizer._mode then optimizer:train() end
  end
end

-- Schedulers -------------------------------------------------------------------------------------------------

---@class optlua.JoinedSchedulers
---@field list table<string|integer, optlua.optim.Scheduler>
local Schedulers = {}
Schedulers.__index = Schedulers

--- Joins schedulers: their states stand under their names, or numbers.
---@param list table<string|integer, optlua.optim.Scheduler>
---@return optlua.JoinedSchedulers
function joined.schedulers(list) return setmetatable({ list = list }, Schedulers) end

--- The states of those that have some.
---@return table<string, table>
function Schedulers:state_dict()
  local state = {}
  for name, scheduler in pairs(self.list) do state[tostring(name)] = scheduler.state_dict and scheduler:state_dict() end
  return state
end

--- Loads the states of all.
---@param state table<string, table>
---@param opts? { resume?: string } see scheduler:load_state_dict
---@return string[] differences
function Schedulers:load_state_dict(state, opts)
  local differences = {}
  for name, scheduler in pairs(self.list) do
    local own = state[tostring(name)]
    if own == nil and scheduler.state_dict then error(("scheduler %s was not saved"):format(tostring(name)), 0) end
    local found = own and scheduler:load_state_dict(own, opts) or {}
    table.move(found, 1, #found, #differences + 1, differences)
  end
  return differences
end

return joined
