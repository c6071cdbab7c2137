--- blame: raises errors at the line of the script that called into the library.

local library = debug.getinfo(1, "S").source:match "^(.*)blame%.lua$"

local function belongs_to_library(info)
  return info.what == "C" or info.source:sub(1, #library) == library
end

--- Raises a message with the position of the innermost function that is not the library's.
---@param message string
local function blame(message)
  local level = 2
  local info = debug.getinfo(level, "S")
  while info and belongs_to_library(info) do
    level = level + 1
    info = debug.getinfo(level, "S")
  end
  error(message, info and level or 0)
end

return blame
