--- kind: what a value is to a module: another module, a parameter, or a plain field.
local blame = require "optlua.blame"
local optlua = require "optlua"
local options = require "optlua.options"

local kind = {}

local classes = setmetatable({}, { __mode = "k" }) -- every class
local declared = setmetatable({}, { __mode = "k" }) -- tensors that nn.Parameter made

--- Whether a value is a module.
---@param value any
---@return boolean
function kind.is_module(value)
  return type(value) == "table" and classes[getmetatable(value)] == true
end

--- Whether a value is a class of modules.
---@param value any
---@return boolean
function kind.is_class(value) return classes[value] == true end

--- Whether a value is a tensor that a module would take as its parameter: one made by nn.Parameter,
--- or any leaf that requires a gradient.
local function is_parameter(value)
  return optlua.is_tensor(value) and (declared[value] or (value.requires_grad and value.is_leaf)) or false
end

--- Makes a tensor a parameter: a leaf that requires a gradient (unless told otherwise) and that a
--- module it is assigned to counts among its parameters.
---@param tensor optlua.Tensor
---@param opts? { requires_grad?: boolean }
---@return optlua.Tensor # the same tensor, or a detached one where it has a history
function kind.parameter(tensor, opts)
  opts = options.check("nn.Parameter", opts, { requires_grad = true })
  if not optlua.is_tensor(tensor) then
    blame("nn.Parameter: tensor expected, got " .. type(tensor))
  end
  if not tensor.is_leaf then tensor = tensor:detach() end
  tensor.requires_grad = opts.requires_grad
  declared[tensor] = true
  return tensor
end

--- Notes that a table is a class of modules.
function kind.declare_class(class) classes[class] = true end

--- Lets a copy of a parameter be a parameter.
function kind.declare_copy(tensor, copy) declared[copy] = declared[tensor] end

function kind.holds_module(value)
  if type(value) ~= "table" or kind.is_module(value) then return false end
  for _, item in pairs(value) do
    if kind.is_module(item) then return true end
  end
  return false
end

--- The kind of member that a value is, or nil for a plain field.
function kind.of(value)
  if kind.is_module(value) then return "module" end
  if is_parameter(value) then return "parameter" end
end

return kind
