--- blame: raises errors at the line of the script that called into the library.

local library = debug.getinfo(1, "S").source:match "^(.*)blame%.lua$"

local function belongs_to_library(info)
  return info.what == "C" or info.source:sub(1, #library) == library
end

-- The first function of a script, in the order of its lines, among a value and what a plain table holds.
local function first_function(value, best)
  if type(value) == "function" then
    local info = debug.getinfo(value, "S")
    local is_first = not best or info.source == best.source and info.linedefined < best.linedefined
    return not belongs_to_library(info) and is_first and info or best
  end
  if type(value) ~= "table" or getmetatable(value) then return best end
  for _, item in next, value do
    if type(item) == "function" then best = first_function(item, best) end
  end
  return best
end

-- The file of a chunk that the function at a level of the caller loads, if that is `require`, or runs, if nothing is further out.
local function file_of_chunk(level)
  local info = debug.getinfo(level + 1, "f")
  if info and info.func == require then
    local _, name = debug.getlocal(level + 1, 1)
    return type(name) == "string" and package.searchpath(name, package.path) or nil
  end
  for outer = level + 1, math.huge do
    info = debug.getinfo(outer, "S")
    if not info then return _G.arg and _G.arg[0] end
    if info.what ~= "C" then return nil end
  end
end

-- A tail call, as in `return optim.define { … }`, leaves no trace of its line. Where a chunk that C runs (require, pcall …) has so
-- called the library's function at a level of the caller, and is not the script that is blamed else: the place of the first
-- function that it handed over, or else its file.
local function tail_place(level, script)
  local inner, outer = debug.getinfo(level + 1, "ut"), debug.getinfo(level + 2, "S")
  if not inner.istailcall or outer and outer.what ~= "C" then return nil end
  local given
  for k = 1, inner.nparams do
    local _, value = debug.getlocal(level + 1, k)
    given = first_function(value, given)
  end
  local file
  if not given then file = file_of_chunk(level + 2) end
  if not given or script and script.source == given.source then return file end
  return given.linedefined > 0 and ("%s:%d"):format(given.short_src, given.linedefined) or given.short_src
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
  for inner = 2, level - 1 do
    local place = debug.getinfo(inner, "S").what ~= "C" and tail_place(inner, info)
    if place then error(place .. ": " .. message, 0) end
  end
  error(message, info and level or 0)
end

return blame
