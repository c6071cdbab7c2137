--- members: optimizers that are not of this library, inside a container: whatever a wrapper built that can step.
--
-- They step first, on a snapshot of their parameters and states, which comes back when anything after it fails: a step of the
-- container stays a transaction. Their gradients are looked at where those of the groups are; they are not clipped.
local attempt = require "optlua.optim.attempt"
local core = require("optlua.core").hidden.optim
local copy = require "optlua.snapshot"
local optlua = require "optlua"
local transaction = require "optlua.optim.transaction"

local members = {}

local function tensors_of(self)
  local list, names = {}, {}
  for _, member in ipairs(self._members) do
    for _, entry in ipairs(member.entries) do
      list[#list + 1], names[#names + 1] = entry[2], entry[1]
    end
  end
  return list, names
end

-- Everything as it is now: a function that brings it back.
local function snapshot(self)
  local tensors, kept, states = tensors_of(self), {}, {}
  for i, tensor in ipairs(tensors) do kept[i] = tensor:detach():clone() end
  for i, member in ipairs(self._members) do states[i] = copy(member.optimizer:state_dict()) end
  return function()
    optlua.no_grad(function()
      for i, tensor in ipairs(tensors) do tensor:copy_(kept[i]) end
    end)
    for i, member in ipairs(self._members) do member.optimizer:load_state_dict(states[i]) end
  end
end

--- The name of a parameter of theirs whose gradient is not finite, where the container looks at gradients.
---@param self table
---@return string?
function members.nonfinite(self)
  if not transaction.measures(self) then return nil end
  local tensors, names = tensors_of(self)
  local _, culprit = core.norm(tensors, false)
  return culprit and names[culprit]
end

-- Whether one of their gradients is present.
local function are_present(self)
  for _, tensor in ipairs((tensors_of(self))) do
    if tensor.grad then return true end
  end
  return false
end

--- Makes all their steps, and then calls `rest`; when a step or the rest raises, or the rest says that it made no update, all is as
--- it was.
---@param self table
---@param rest fun(self: table, any: boolean): boolean whether the update was made; `any`: whether they are part of it
---@return boolean made
function members.step(self, rest)
  local restore, updates, any = snapshot(self), self._clock.updates, are_present(self)
  local ok, made = attempt(function()
    for _, member in ipairs(self._members) do member.optimizer:step() end
    return rest(self, any)
  end, function()
    if self._clock.updates == updates then restore() end -- else the update has been made, and `after` of a rule raised
  end)
  if not ok then error(made, 0) end
  if not made then restore() end
  return made
end

--- Lets each load its state, where there is one; when one of them raises, those before it have their own again.
---@param self table
---@param states table<integer, any> by place
function members.load(self, states)
  local before = {}
  local ok, problem = pcall(function()
    for i, member in ipairs(self._members) do
      if states[i] ~= nil then
        before[i] = copy(member.optimizer:state_dict())
        member.optimizer:load_state_dict(states[i])
      end
    end
  end)
  if ok then return end
  for i, state in pairs(before) do self._members[i].optimizer:load_state_dict(state) end
  error(problem, 0)
end

return members
