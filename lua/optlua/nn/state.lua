--- state: a module's tensors by full name, taken out and put in; copies; conversion.
local blame = require "optlua.blame"
local optlua = require "optlua"
local options = require "optlua.options"
local kinds = require "optlua.nn.kind"
local members = require "optlua.nn.members"
local shape = require "optlua.shape"
local uninterrupted = require("optlua.core").hidden.uninterrupted

local methods = {} -- of modules

local saved = { parameter = true, buffer = true }

--- All parameters and persistent buffers by full name, sharing memory with the module. A tied
--- parameter stands under each of its names, as in PyTorch.
---@return table<string, optlua.Tensor>
function methods:state_dict()
  local state = {}
  for name, tensor in members.each(members.tensors(self, saved, true)) do state[name] = tensor:detach() end
  return state
end

--- Compares a state with a module: missing names in the module's order, others sorted.
local function compare(self, state)
  local missing, differing, unexpected, known = {}, {}, {}, {}
  for name, tensor in members.each(members.tensors(self, saved, true)) do
    local other = state[name]
    known[name] = true
    if other == nil then
      missing[#missing + 1] = name
    elseif not optlua.is_tensor(other) then
      differing[#differing + 1] = ("%s: tensor expected, got %s"):format(name, type(other))
    elseif not shape.same(tensor, other) then
      differing[#differing + 1] = ("%s: %s expected, got %s"):format(name,
        shape.describe(tensor.dtype, tensor.shape), shape.describe(other.dtype, other.shape))
    end
  end
  for name in pairs(state) do
    if not known[name] then unexpected[#unexpected + 1] = tostring(name) end
  end
  table.sort(unexpected)
  return missing, unexpected, differing
end

local function report(self, missing, unexpected, differing)
  local lines = { ("%s: the state does not fit; nothing was loaded"):format(self:type()) }
  if #missing > 0 then lines[#lines + 1] = "  missing: " .. table.concat(missing, ", ") end
  if #unexpected > 0 then lines[#lines + 1] = "  unexpected: " .. table.concat(unexpected, ", ") end
  for _, line in ipairs(differing) do lines[#lines + 1] = "  differing: " .. line end
  return table.concat(lines, "\n")
end

--- Copies a state into the module. Names that are missing or unexpected, and shapes that differ, are
--- all listed in one error, and nothing is changed.
---@param state table<string, optlua.Tensor>
---@param opts? { strict?: boolean } strict = false: missing and unexpected names are allowed
---@return { missing: string[], unexpected: string[] }
function methods:load_state_dict(state, opts)
  opts = options.check("load_state_dict", opts, { strict = true })
  if type(state) ~= "table" then
    blame(("load_state_dict: table of tensors expected, got %s"):format(type(state)))
  end
  local missing, unexpected, differing = compare(self, state)
  if #differing > 0 or (opts.strict and #missing + #unexpected > 0) then
    blame(report(self, missing, unexpected, differing))
  end
  local copies = {} -- made first: the state may be the module's own tensors in another order
  for name, tensor in members.each(members.tensors(self, saved, true)) do
    if state[name] then copies[name] = state[name]:detach():to(tensor.dtype):clone() end
  end
  uninterrupted(function()
    optlua.no_grad(function()
      for name, tensor in members.each(members.tensors(self, saved, true)) do
        if copies[name] then tensor:copy_(copies[name]) end
      end
    end)
  end)
  return { missing = missing, unexpected = unexpected }
end

-- Copying -------------------------------------------------------------------------------------------

--- Copies a value; tensors through `tensor`, tables in depth, each once, so that ties stay ties.
local function copy(value, done, tensor)
  if done[value] ~= nil then return done[value] end
  if optlua.is_tensor(value) then
    done[value] = tensor(value)
  elseif type(value) == "table" and not kinds.is_class(value) then
    local result = {}
    done[value] = result
    for key, item in next, value do result[copy(key, done, tensor)] = copy(item, done, tensor) end
    setmetatable(result, getmetatable(value))
  else
    return value
  end
  return done[value]
end

local function clone_tensor(tensor)
  local result = tensor:detach():clone()
  kinds.declare_copy(tensor, result)
  if tensor.is_leaf then result.requires_grad = tensor.requires_grad end
  return result
end

--- A copy of the module with tensors of its own; parameters that are tied stay tied. Gradients are
--- not copied.
---@return nn.Module
function methods:clone() return copy(self, {}, clone_tensor) end

--- Converts all parameters and floating-point buffers to a dtype, in the module itself. They become
--- new tensors: build the optimizer afterwards.
---@param dtype "float32"|"float64"
---@return nn.Module self
function methods:to(dtype)
  local converted, changes = {}, {} -- all are made before one is put in
  for _, module in self:named_modules() do
    for key, tensor in members.of(module) do
      if optlua.is_tensor(tensor) and tensor.dtype:find "float" then
        local new = converted[tensor]
        if not new then
          new = tensor:detach():to(dtype)
          kinds.declare_copy(tensor, new)
          new.requires_grad = tensor.requires_grad
          converted[tensor] = new
        end
        changes[#changes + 1] = { module, key, new }
      end
    end
  end
  for _, change in ipairs(changes) do rawset(table.unpack(change)) end
  return self
end

return methods
