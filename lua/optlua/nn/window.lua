--- window: sizes of layers that slide windows over lines or images: one integer for all dimensions or a list
--- of one each.
local blame = require "optlua.blame"

local window = {}

--- An integer, or a list of integers, of at least `min`.
---@param min integer
---@param default? integer
function window.sizes(min, default)
  return { type = "integer|list", integer = true, min = min, default = default, required = false }
end

--- The same, which must be given.
function window.wanted(min) return { type = "integer|list", integer = true, min = min, required = true } end

--- A list of one number for each dimension.
---@param what string
---@param name string
---@param value integer|integer[]
---@param spatial integer how many dimensions
---@return integer[]
function window.each(what, name, value, spatial)
  local list = {}
  if type(value) == "table" and #value ~= 1 and #value ~= spatial then
    blame(("%s: %s: expected %s, got %d"):format(what, name, spatial == 1 and "1 number" or "1 or 2 numbers", #value))
  end
  for d = 1, spatial do list[d] = type(value) == "table" and (value[d] or value[1]) or value end
  return list
end

--- "3", "(3, 5)", "(3,)", as PyTorch prints numbers and tuples.
---@param value any
---@return string
function window.text(value)
  if type(value) ~= "table" then return tostring(value) end
  return ("(%s%s)"):format(table.concat(value, ", "), #value == 1 and "," or "")
end

return window
