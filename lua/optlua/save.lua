--- save: writes named tensors to a file.
local optlua = require "optlua"
local blame = require "optlua.blame"
local safetensors = require "optlua.safetensors"

local PLAIN = "; the state of an optimizer, and plain values, are saved by optlua.checkpoint.save(path, "
  .. "{ optimizer = optimizer, extra = { … } })"

local function refuse(name, value, got)
  local hint = require("optlua.nn").is_module(value) and "; a module saves itself: module:save(path)"
    or (type(value) ~= "table" or got) and PLAIN or ""
  blame(("optlua.save: %s: a tensor or a table of tensors expected, got %s%s"):format(name, got or type(value), hint))
end

-- The keys of a table of tensors, sorted.
local function names_in(value, name)
  local names = {}
  for key, item in pairs(value) do
    if math.type(key) == "integer" and not optlua.is_tensor(item) then refuse(name, value, "a list") end
    if type(key) ~= "string" then blame(("optlua.save: %s: names are strings, got %s"):format(name, tostring(key))) end
    names[#names + 1] = key
  end
  table.sort(names)
  return names
end

--- Lists the tensors of nested tables by dotted names.
local function collect(value, name, found, above)
  if optlua.is_tensor(value) then
    if found[name] then blame(("optlua.save: two tensors have the name %s"):format(name)) end
    found[name] = value
    return
  end
  if type(value) ~= "table" or getmetatable(value) then refuse(name, value) end
  if above[value] then blame(("optlua.save: %s: a table cannot contain itself"):format(name)) end
  above[value] = true
  for _, key in ipairs(names_in(value, name)) do collect(value[key], name == "tensors" and key or name .. "." .. key, found, above) end
  above[value] = nil
end

--- Writes tensors to a safetensors file, whole or not at all: until the new file is complete, an old one
--- of that name stays. Strided tensors are packed. Tensors that share all their elements are written
--- once, under the first name in sorted order, and come back under all names. Hugging Face's
--- transformers want the metadata { format = "pt" }. What is no tensor, as in optimizer:state_dict(), is saved by
--- optlua.checkpoint.save.
---
---     local optlua, path = require "optlua", os.tmpname()
---     optlua.save(path, { x = optlua.zeros(2), y = { z = optlua.ones(3) } }, { made = "today" })
---     local tensors, metadata = optlua.load(path)
---     print(tensors["y.z"].shape[1], metadata.made) --> 3	today
---     os.remove(path)
---@param path string
---@param tensors table<string, optlua.Tensor|table> by name; tables in it give dotted names
---@param metadata? table<string, string>
local function save(path, tensors, metadata)
  local found, names, list = {}, {}, {}
  if type(path) ~= "string" and type(tensors) == "string" then blame "optlua.save: the path comes first: optlua.save(path, tensors)" end
  if type(tensors) ~= "table" or getmetatable(tensors) then refuse("tensors", tensors) end
  collect(tensors, "tensors", found, {})
  for name in pairs(found) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do list[i] = found[name] end
  safetensors.write("optlua.save", path, names, list, metadata)
end

return save
