--- source: whether the source of a rule compares symbols with == or asks whether they are true, which Lua answers by itself.
local files = require "optlua.files"
local traps = require "optlua.tools.traps"

-- The functions of a class, each with the place of its states among the arguments: those of the classes inside a transform too.
local function functions_of(class, found)
  local definition = class.written or class.definition
  if definition.update then found[#found + 1] = { definition.update, 3 } end
  for name in pairs(class.rules) do
    if definition[name] then found[#found + 1] = { definition[name], 2 } end
  end
  if class.inner then functions_of(class.inner, found) end
  return found
end

-- The text that a function stands in, and its name.
local function text_of(info)
  if info.source:sub(1, 1) == "@" then
    local text = files.read(info.source:sub(2))
    return text and text:gsub("^#[^\n]*", "")
  end
  return info.source:sub(1, 1) ~= "=" and info.source or nil
end

--- Looks into the rules of a class.
---@param subject table
local function look(subject)
  local class, read = subject.class, false
  if not class.update then return false, subject.why end
  for _, pair in ipairs(functions_of(class, {})) do
    local info = debug.getinfo(pair[1], "S")
    local text = text_of(info)
    read = read or text ~= nil
    local trap = text and traps.rule(text, info.linedefined, info.lastlinedefined, pair[2])[1]
    if trap then error(("%s:%d: %s"):format(info.short_src, trap.line, trap.message), 0) end
  end
  if not read then return false, "its source cannot be read" end
end

return look
