--- annotations: what lua-language-server needs to know of the C part: the ops and methods of tensors, as
--- LuaCATS definitions made from the registry.
local core = require "optlua.core"

local types = {
  tensor = "optlua.Tensor", operand = "optlua.Tensor|number", tensors = "optlua.Tensor[]",
  number = "number", data = "integer", index = "integer", sizes = "integer[]|integer",
  dims = "integer[]|integer", flag = "boolean", dtype = "optlua.dtype", any = "any",
}

local function type_of(param)
  if not param.choices then return types[param.kind] end
  local words = '"' .. param.choices:gsub("|", '"|"') .. '"'
  return param.kind == "choice" and words or types[param.kind] .. "|" .. words
end

local reserved = { ["end"] = true, ["repeat"] = true, ["and"] = true, ["or"] = true, ["not"] = true }

--- A name that may stand in a definition.
local function safe(name) return reserved[name] and name .. "_" or name end

--- One function: its comment, its parameters from `first` on, its line.
local function define(lines, op, line, first)
  local names = {}
  lines[#lines + 1] = "--- " .. (op.doc or ""):gsub("\n", " ")
  for p = first, #op.params do
    local param = op.params[p]
    names[#names + 1] = safe(param.name)
    lines[#lines + 1] = ("---@param %s%s %s%s"):format(safe(param.name), param.optional and "?" or "",
      type_of(param), param.doc and " # " .. param.doc or "")
  end
  if not op.native then
    local results = {}
    for k = 1, op.outputs do results[k] = "optlua.Tensor" end
    lines[#lines + 1] = "---@return " .. table.concat(results, ", ")
  end
  lines[#lines + 1] = line:format(table.concat(names, ", "))
  lines[#lines + 1] = ""
end

local head = [[
---@meta optlua.core
-- Made by `make docs` from the registry of ops.

---@alias optlua.dtype "float32"|"float64"|"int64"|"uint8"|"bfloat16"

---@class optlua.Tensor
---@field shape integer[] sizes of the dimensions
---@field ndim integer
---@field dtype optlua.dtype
---@field requires_grad boolean
---@field grad optlua.Tensor|nil
---@field is_leaf boolean
---@operator add(optlua.Tensor|number): optlua.Tensor
---@operator sub(optlua.Tensor|number): optlua.Tensor
---@operator mul(optlua.Tensor|number): optlua.Tensor
---@operator div(optlua.Tensor|number): optlua.Tensor
---@operator pow(optlua.Tensor|number): optlua.Tensor
---@operator mod(optlua.Tensor|number): optlua.Tensor
---@operator idiv(optlua.Tensor|number): optlua.Tensor
---@operator unm: optlua.Tensor
---@operator len: integer
local Tensor = {}

---@class optlua
local optlua = {}
]]

local annotations = {}

--- The definitions, as the text of a meta file.
---@return string
function annotations.text()
  local lines = { head }
  for _, family in ipairs(core.registry()) do
    for _, op in ipairs(family.ops) do
      if not op.hidden then
        if op.method then define(lines, op, "function Tensor:" .. op.name .. "(%s) end", 2) end
        if op.module then define(lines, op, "function optlua." .. op.name .. "(%s) end", 1) end
      end
    end
  end
  lines[#lines + 1] = "return optlua"
  return table.concat(lines, "\n")
end

return annotations
