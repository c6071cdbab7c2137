--- key: the keys of a config, and what stands at them.
local key = {}

--- A word in which a path is written.
---@param path string[]
---@return string
function key.name(path) return table.concat(path, ".") end

--- A path with one key more.
---@param path string[]
---@param last string
---@return string[]
function key.append(path, last)
  local longer = table.move(path, 1, #path, 1, {})
  longer[#longer + 1] = last
  return longer
end

--- Whether a value is a description, as optlua.arg makes it.
---@param value any
---@return boolean
function key.is_description(value)
  local meta = type(value) == "table" and getmetatable(value)
  return meta and meta.__name == "arg" or false
end

--- Whether a value is a table of further keys.
---@param value any
---@return boolean
function key.is_section(value) return type(value) == "table" and not getmetatable(value) and value[1] == nil end

return key
