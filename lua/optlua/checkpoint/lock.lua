--- lock: a folder that one process has for itself.
local folder = require "optlua.checkpoint.folder"
local host = require("optlua.core").hidden

---@class optlua.checkpoint.Lock
---@field held userdata? nil when it has been closed
local Lock = {}
Lock.__index = Lock

--- Gives the folder free. A lock that is collected does so too, and the end of the process.
function Lock:close()
  local held <close> = self.held -- luacheck: ignore
  self.held = nil
end

Lock.__close = Lock.close

--- Locks a folder, which is made where there is none.
---@param path string
---@return optlua.checkpoint.Lock? lock nil where another process has it
return function(path)
  folder.make(path)
  local held = host.lock(path .. "/lock")
  return held and setmetatable({ held = held }, Lock)
end
