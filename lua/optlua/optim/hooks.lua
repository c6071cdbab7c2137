--- hooks: functions of the script that are called before and after each step.
local blame = require "optlua.blame"
local phase = require "optlua.optim.phase"

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

--- Calls the hooks of a list in their order, in a phase of the optimizer.
---@param optimizer table
---@param list table
---@param name "before"|"after"
function hooks.run(optimizer, list, name)
  if #list == 0 then return end
  local current = table.move(list, 1, #list, 1, {}) -- a hook may take itself away
  phase.during(optimizer, name, function()
    for _, hook in ipairs(current) do hook.fn(optimizer) end
  end)
end

return hooks
