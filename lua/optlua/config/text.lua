--- text: values of a config as text: read from the command line, and written as Lua data.
local core = require "optlua.core"
local uninterrupted = core.hidden.uninterrupted

local text = {}

text.null = setmetatable({}, { __tostring = function() return "null" end }) -- deletes what it is given for

-- JSON's null, at any depth, as ours.
local function from_json(value)
  if type(value) == "userdata" then return text.null end
  if type(value) ~= "table" then return value end
  for key, item in pairs(value) do value[key] = from_json(item) end
  return value
end

local floats = { inf = math.huge, ["-inf"] = -math.huge }

--- The words of a list with commas; one behind the last word may end it.
---@param word string
---@return string[]
function text.split(word)
  local list = {}
  for item in word:gsub(",%s*$", ""):gmatch "[^,]+" do list[#list + 1] = item:match "^%s*(.-)%s*$" end
  return list
end

-- A number as Lua and YAML write some, and JSON does not: ".5", "1.", "+2"; nil where it is something else.
local function number(word)
  local value = word:find "^[-+]?[%d.]" and not word:find "^[-+]?0[%dxX]" and tonumber(word)
  return value and value - value == 0 and value or nil
end

-- Numbers with commas between them: "0.9,0.999"; nil where it is something else.
local function numbers(word)
  if not word:find "^[^,]+," then return nil end
  local list = text.split(word)
  for i, item in ipairs(list) do
    list[i] = floats[item] or number(item)
    if not list[i] then return nil end
  end
  return list
end

-- What Lua data may name.
local constants = setmetatable({ null = text.null }, { __index = function(_, name) error("no name: " .. tostring(name)) end })

-- Data in Lua's words: "{ 0.9, 0.999 }"; nil where it is something else.
local function from_lua(word)
  local chunk = word:find "^%s*{" and load("return " .. word, "=data", "t", constants)
  if not chunk or word:find "[()]" or word:find "%f[%a]function%f[%A]" then return nil end
  local ok, value = uninterrupted(pcall, chunk)
  return ok and value or nil
end

--- The value that a word of the command line means: JSON or Lua data where it is some, a number, numbers with commas between
--- them, else the word itself.
---@param word string
---@return any
function text.read(word)
  local value = core.hidden.json_decode(word)
  if value ~= nil then return from_json(value) end
  value = floats[word] or number(word) or numbers(word)
  if value == nil then value = from_lua(word) end
  return value == nil and word or value
end

--- Reads a JSON document.
---@param source string
---@return any value
---@return string? problem
function text.json(source)
  local value, problem = core.hidden.json_decode(source)
  if value == nil then return nil, problem end
  return from_json(value)
end

local reserved = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return
  then true until while]]):gmatch "%a+" do reserved[word] = true end

local function key_text(key)
  if type(key) == "string" and key:find "^[%a_][%w_]*$" and not reserved[key] then return key end
  return ("[%s]"):format(type(key) == "string" and ("%q"):format(key) or tostring(key))
end

local function number_text(value)
  if value == math.huge then return "1/0" elseif value == -math.huge then return "-1/0" end
  if math.type(value) == "integer" then return tostring(value) end
  for digits = 15, 17 do
    local short = ("%." .. digits .. "g"):format(value)
    if tonumber(short) == value then return short:find "[.einf]" and short or short .. ".0" end
  end
end

local function sorted_keys(value)
  local keys = {}
  for key in pairs(value) do
    if math.type(key) ~= "integer" then keys[#keys + 1] = key end
  end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end

local write

local function is_flat(value)
  for _, item in pairs(value) do
    if type(item) == "table" and not item.name then return false end
  end
  return true
end

-- A table in one line, where all in it are plain and it has no keys; else a line for each entry.
local function table_text(value, indent)
  local items, keys = {}, sorted_keys(value)
  for _, item in ipairs(value) do items[#items + 1] = write(item, indent .. "  ") end
  for _, key in ipairs(keys) do
    items[#items + 1] = ("%s = %s"):format(key_text(key), write(value[key], indent .. "  "))
  end
  if #items == 0 then return "{}" end
  local line = "{ " .. table.concat(items, ", ") .. " }"
  if (#keys == 0 or #line < 60) and is_flat(value) and #line < 100 and not line:find "\n" then return line end
  local gap = "\n" .. indent .. "  "
  return "{" .. gap .. table.concat(items, "," .. gap) .. ",\n" .. indent .. "}"
end

--- What stands for a value that is no data: a class by its name.
local function name_of(value)
  local name = type(value) == "table" and getmetatable(value) and rawget(value, "name")
  return type(name) == "string" and name or nil
end

function write(value, indent)
  if type(value) == "string" then return (("%q"):format(value):gsub("\\\n", "\\n")) end
  if type(value) == "number" then return number_text(value) end
  if type(value) == "boolean" then return tostring(value) end
  if value == text.null then return "null" end
  if name_of(value) then return ("%q"):format(name_of(value)) end
  if type(value) == "table" and not getmetatable(value) then return table_text(value, indent) end
  return ("nil --[[%s of the script]]"):format(type(value))
end

--- A value as Lua data.
---@param value any
---@return string
function text.write(value) return write(value, "") end

return text
