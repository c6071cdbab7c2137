--- containers: modules made of a list of modules. Children are named 0, 1, … as in PyTorch, and
--- reached as model[1], model[2], …
local module = require "optlua.nn.module"

--- Checks that an item can be a child, and adds it at the end.
local function append(self, item, level)
  if not module.is_module(item) then
    error(("%s: item %d is a %s; a module was expected"):format(self:type(), #self + 1, type(item)), level + 1)
  end
  self[#self + 1] = item
end

local function fill(self, items)
  if items == nil then return end
  if type(items) ~= "table" or module.is_module(items) then
    error(("%s: a list of modules expected, as in nn.%s { a, b }"):format(self:type(), self:type()), 4)
  end
  for key in pairs(items) do
    if math.type(key) ~= "integer" or key < 1 or key > #items then
      error(("%s: a list of modules expected, got the key %s"):format(self:type(), tostring(key)), 4)
    end
  end
  for _, item in ipairs(items) do append(self, item, 4) end
end

--- A list of modules that calls itself in order: nn.Sequential { nn.Linear(2, 3), nn.ReLU() }.
---@class nn.Sequential: nn.Module
local Sequential = module.class "Sequential"

---@param items? nn.Module[]
function Sequential:init(items) fill(self, items) end

--- Adds a module at the end.
---@param item nn.Module
---@return nn.Sequential self
function Sequential:append(item)
  append(self, item, 2)
  return self
end

--- The output of each child is the input of the next.
function Sequential:forward(...)
  local n = #self
  if n == 0 then return ... end
  local x = self[1](...)
  for i = 2, n do x = self[i](x) end
  return x
end

--- A list of modules that a forward of one's own goes through: `for _, block in ipairs(self.blocks)`.
---@class nn.ModuleList: nn.Module
local ModuleList = module.class "ModuleList"

---@param items? nn.Module[]
function ModuleList:init(items) fill(self, items) end

--- Adds a module at the end.
---@param item nn.Module
---@return nn.ModuleList self
function ModuleList:append(item)
  append(self, item, 2)
  return self
end

return { Sequential = Sequential, ModuleList = ModuleList }
