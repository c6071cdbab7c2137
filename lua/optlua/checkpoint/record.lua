--- record: tables of plain values as JSON that gives back the same: integers, floats of all kinds, lists, words.
local core = require("optlua.core").hidden
local optlua = require "optlua"

local record = {}

-- JSON has no word for these floats.
local words = { ["inf"] = math.huge, ["-inf"] = -math.huge, ["nan"] = 0 / 0 }

local function pack_number(value)
  if value ~= value then return { ["$float"] = "nan" } end
  if value == math.huge then return { ["$float"] = "inf" } elseif value == -math.huge then return { ["$float"] = "-inf" } end
  return value
end

local function refuse(place, value)
  error(("%s: a %s cannot be saved"):format(place, optlua.is_tensor(value) and "tensor" or type(value)), 0)
end

-- What stands for a tensor, which is in a file under a name.
local Reference = {}

--- What stands for a tensor in a record.
---@param name string of the tensor in its file
---@return table
function record.reference(name) return setmetatable({ name = name }, Reference) end

--- The name of the tensor that a value stands for; nil where it stands for none.
---@param value any
---@return string?
function record.referred(value) return getmetatable(value) == Reference and value.name or nil end

local DEEPEST = 99 -- tables in tables; JSON reads one more, which a float without a word takes

local pack

-- A name as a key of JSON; names of our own begin with a $.
local function pack_name(key, place)
  if type(key) ~= "string" then error(("%s: a key that is a %s cannot be saved"):format(place, type(key)), 0) end
  if not utf8.len(key) then error(("%s: a key that is no UTF-8 cannot be saved: %q"):format(place, key), 0) end
  if key:find("\0", 1, true) then error(("%s: a key with a byte 0 cannot be saved: %q"):format(place, key), 0) end
  return key:find "^%$" and "$" .. key or key
end

-- `above`: the tables that this one stands in, and how many.
local function pack_table(value, place, above)
  if record.referred(value) then return { ["$tensor"] = value.name } end
  if getmetatable(value) then refuse(place, value) end
  if above[value] then error(place .. ": a table that contains itself cannot be saved", 0) end
  if above.count == DEEPEST then error(("%s: tables that nest deeper than %d cannot be saved"):format(place, DEEPEST), 0) end
  above[value], above.count = true, above.count + 1
  local result, positions, has_names = {}, 0, false
  for key, item in pairs(value) do
    local is_position = math.type(key) == "integer" and key >= 1 and key <= #value
    if is_position then positions = positions + 1 else key, has_names = pack_name(key, place), true end
    result[key] = pack(item, ("%s.%s"):format(place, tostring(key)), above)
  end
  above[value], above.count = nil, above.count - 1
  if positions < #value then error(place .. ": a list with holes cannot be saved", 0) end
  if positions > 0 and has_names then error(place .. ": a table with both a list and names cannot be saved", 0) end
  return result
end

function pack(value, place, above)
  local kind = type(value)
  if kind == "number" then return pack_number(value) end
  if kind == "string" and not utf8.len(value) then error(place .. ": a text that is no UTF-8 cannot be saved", 0) end
  if kind == "string" or kind == "boolean" then return value end
  if kind == "table" then return pack_table(value, place, above) end
  refuse(place, value)
end

local function unpack_value(value)
  if type(value) ~= "table" then return value end
  if value["$float"] then return words[value["$float"]] end
  if value["$tensor"] then return record.reference(value["$tensor"]) end
  local result = {}
  for key, item in pairs(value) do
    if type(key) == "string" then key = key:gsub("^%$%$", "$") end
    result[key] = unpack_value(item)
  end
  return result
end

--- Values as JSON; what cannot be saved (a function, a tensor …) raises and is named.
---@param what string where the values stand, for messages
---@param value table
---@return string
function record.encode(what, value) return core.json_encode(pack(value, what, { count = 0 }), 2) .. "\n" end

--- The values of what encode wrote.
---@param text string
---@return table? value
---@return string? problem
function record.decode(text)
  local value, problem = core.json_decode(text)
  if type(value) ~= "table" then return nil, problem or "no table" end
  return unpack_value(value)
end

return record
