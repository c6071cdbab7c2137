--- shown: values as the prompt shows them: tables with what is in them, one level deep.

local MOST, WIDTH = 100, 100 -- entries of a table, columns of a line

local function is_opaque(value)
  local meta = debug.getmetatable(value)
  return type(value) ~= "table" or meta ~= nil and (meta.__tostring ~= nil or meta.__name ~= nil)
end

-- A value in a table; tables are not opened.
local function inner(value)
  if type(value) == "string" then return ("%q"):format(value) end
  if is_opaque(value) then return (tostring(value):gsub("\n.*", " …")) end
  return next(value) == nil and "{}" or "{ … }"
end

-- Numbers before words, each in their order.
local function before(a, b)
  if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then return a < b end
  if type(a) == "number" or type(b) == "number" then return type(a) == "number" end
  return tostring(a) < tostring(b)
end

local function entries(value)
  local keys, list = {}, {}
  for key in next, value do keys[#keys + 1] = key end
  table.sort(keys, before)
  for k, key in ipairs(keys) do
    if k > MOST then
      list[k] = ("… and %d more"):format(#keys - MOST)
      break
    end
    local word = type(key) == "string" and key:find "^[%a_][%w_]*$" and key or ("[%s]"):format(inner(key))
    list[k] = (key == k and "" or word .. " = ") .. inner(rawget(value, key))
  end
  return list
end

--- The text that the prompt shows for a table; other values, and objects that print as something, come back as they are.
---@param value any
---@return any
local function shown(value)
  if is_opaque(value) then return value end
  local list = entries(value)
  local line = "{ " .. table.concat(list, ", ") .. " }"
  if #list == 0 then return "{}" end
  if (utf8.len(line) or #line) <= WIDTH then return line end
  return "{\n  " .. table.concat(list, ",\n  ") .. ",\n}"
end

return shown
