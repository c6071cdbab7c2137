--- containers: modules made of modules. Children of lists are named 0, 1, … as in PyTorch, and reached as
--- model[1], model[2], …
local blame = require "optlua.blame"
local module = require "optlua.nn.module"
local options = require "optlua.options"

--- Checks that an item can be a child, and adds it at the end.
local function append(self, item)
  if not module.is_module(item) then
    blame(("%s: item %d is a %s; a module was expected"):format(self:type(), #self + 1, type(item)))
  end
  self[#self + 1] = item
end

local function fill(self, items)
  if items == nil then return end
  if type(items) ~= "table" or module.is_module(items) then
    blame(("%s: a list of modules expected, as in nn.%s { a, b }"):format(self:type(), self:type()))
  end
  for key in pairs(items) do
    if math.type(key) ~= "integer" or key < 1 then
      blame(("%s: a list of modules expected, got the key %s"):format(self:type(), tostring(key)))
    end
  end
  local hole = options.hole(items)
  if hole then blame(("%s: item %d is nil; a module was expected"):format(self:type(), hole)) end
  for _, item in ipairs(items) do append(self, item) end
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
  append(self, item)
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
  append(self, item)
  return self
end

--- Modules by name, for a forward of one's own: `self.parts.encoder(x)`. It is made of pairs, because a
--- table by name has no order: nn.ModuleDict { { "encoder", a }, { "decoder", b } }; assigning to a new
--- name adds one, and named_children goes through all.
---@class nn.ModuleDict: nn.Module
local ModuleDict = module.class "ModuleDict"

---@param pairs? { [1]: string, [2]: nn.Module }[]
function ModuleDict:init(pairs)
  if pairs == nil then return end
  local list = options.argument("nn.ModuleDict", "pairs", pairs, { required = true, type = "list" })
  for i, pair in ipairs(list) do
    if type(pair) ~= "table" or type(pair[1]) ~= "string" or not module.is_module(pair[2]) then
      blame(("nn.ModuleDict: pair %d: { name, module } expected"):format(i))
    end
    if rawget(self, pair[1]) ~= nil then blame(("nn.ModuleDict: %q is there twice"):format(pair[1])) end
    self[pair[1]] = pair[2]
  end
end

return { Sequential = Sequential, ModuleList = ModuleList, ModuleDict = ModuleDict }
