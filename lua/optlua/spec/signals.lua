--- signals: those that ask a run to end, or to read its files again, where the program catches them.
local found, host = pcall(require, "optlua.signals")

local signals = {}

local Watch = { __call = function() return host.stop() end, __close = function() host.release() end }
local Nothing = { __call = function() end, __close = function() end }

--- Notes SIGINT, SIGTERM and SIGHUP from here on, where this program can: a function that gives the signal that asks to end, to
--- be closed.
---@param notice string? said when a signal asks to end
---@return table
function signals.watch(notice)
  if not found then return setmetatable({}, Nothing) end
  host.catch(notice)
  return setmetatable({}, Watch)
end

--- How many SIGHUPs came.
---@return integer
function signals.hangups() return found and host.hangups() or 0 end

return signals
