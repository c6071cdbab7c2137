--- hooks: functions of the script that are called before and after each step.
local blame = require "optlua.blame"

local hooks = {}

---@class optlua.optim.Hook
---@field remove fun(self: optlua.optim.Hook) takes the hook away

local Hook = {}
Hook.__index = Hook

--- Takes the hook away; a second time does nothing.
function Hook:remove()
  for i, hook in ipairs(self.list) do
    if hook == self then table.remove(self.list, i) end
  end
end

--- Adds a function to a list of hooks.
---@param what string
---@param list table
---@param fn function
---@return optlua.optim.Hook
function hooks.add(what, list, fn)
  if type(fn) ~= "function" then blame(("%s: a function expected, got a %s"):format(what, type(fn))) end
  local hook = setmetatable({ list = list, fn = fn }, Hook)
  list[#list + 1] = hook
  return hook
end

--- Calls a function while the optimizer cannot step, and has the groups and states that it has.
---@param optimizer table
---@param fn function
function hooks.busy(optimizer, fn, ...)
  local before = optimizer._busy
  optimizer._busy = "its own step"
  local _ <close> = setmetatable({}, { __close = function() optimizer._busy = before end })
  fn(...)
end

--- Calls the hooks of a list in their order. Meanwhile the optimizer is busy.
---@param optimizer table
---@param list table
function hooks.run(optimizer, list)
  if #list == 0 then return end
  local current = table.move(list, 1, #list, 1, {}) -- a hook may take itself away
  optimizer._busy = "a hook of its step"
  local _ <close> = setmetatable({}, { __close = function() optimizer._busy = nil end })
  for _, hook in ipairs(current) do hook.fn(optimizer) end
end

--- Raises while the optimizer is busy.
---@param optimizer table
---@param what string
function hooks.refuse(optimizer, what)
  if optimizer._busy then blame(("%s: %s: not from %s"):format(optimizer._name, what, optimizer._busy)) end
end

return hooks
