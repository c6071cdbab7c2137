--- arg: a value of a config that is described: its type, range, meaning.
--
--     width = optlua.arg { default = 128, min = 1, doc = "width of the hidden layer" },
--     text  = optlua.arg { type = "string", doc = "the text to learn" },      -- may be left out
local options = require "optlua.options"
local blame = require "optlua.blame"

local fields = {
  default = "any", type = "string", choices = "table", min = "number", max = "number", above = "number",
  below = "number", integer = "boolean", doc = "string", required = "boolean",
}

---@class optlua.Arg: optlua.Option
local Arg = { __name = "arg" }

--- Describes a value of a config. It has the type of its default, unless `type` says otherwise: "number",
--- "integer", "string", "boolean", "list". Without a default it may be left out, unless `required` is true.
---
---     local width = require("optlua").arg { default = 128, min = 1, doc = "width of the hidden layer" }
---     print(width.default, width.doc) --> 128 width of the hidden layer
---@param given { default?: any, type?: string, choices?: any[], min?: number, max?: number, above?: number, below?: number, integer?: boolean, doc?: string, required?: boolean }
---@return optlua.Arg
local function arg(given)
  if type(given) ~= "table" then blame("optlua.arg: a table expected, got a " .. type(given)) end
  local self = {}
  for key, value in pairs(given) do
    if not fields[key] then blame("optlua.arg: " .. options.unknown("field", key, options.names(fields))) end
    if fields[key] ~= "any" and type(value) ~= fields[key] then
      blame(("optlua.arg: %s: a %s expected, got a %s"):format(key, fields[key], type(value)))
    end
    self[key] = value
  end
  if self.default == nil and self.required == nil then self.required = false end
  if self.default ~= nil then
    local _, problem = options.value("default", self.default, self)
    if problem then blame("optlua.arg: " .. problem) end
  end
  return setmetatable(self, Arg)
end

return arg
