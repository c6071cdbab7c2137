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

--- Calls the hooks of a list in their order. Meanwhile the optimizer cannot step, and has the groups that it has.
---@param optimizer table
---@param list table
function hooks.run(optimizer, list)
  if #list == 0 then return end
  local current = table.move(list, 1, #list, 1, {}) -- a hook may take itself away
  optimizer._hooked = true
  local _ <close> = setmetatable({}, { __close = function() optimizer._hooked = nil end })
  for _, hook in ipairs(current) do hook.fn(optimizer) end
end

--- Raises when a hook is running.
---@param optimizer table
---@param what string
function hooks.refuse(optimizer, what)
  if optimizer._hooked then blame(("%s: %s: not from a hook of its step"):format(optimizer._name, what)) end
end

return hooks
