--- attempt: something that may fail, and is undone then.
local phase = require "optlua.optim.phase"

--- Calls a function; when it raises, calls `undo`, and gives false and what was raised, with a traceback in a message. A coroutine
--- that is closed or dropped within the function undoes, too.
---@param fn fun(): any
---@param undo fun()
---@param place? fun(): string? what was being done, for messages
---@return boolean ok
---@return any result
local function attempt(fn, undo, place)
  local ok, result = false
  local _ <close> = phase.closing(function()
    if not ok then undo() end
  end)
  ok, result = xpcall(fn, function(message)
    if type(message) ~= "string" then return message end
    local where = place and place()
    return debug.traceback(where and ("%s (%s)"):format(message, where) or message, 2)
  end)
  return ok, result
end

return attempt
