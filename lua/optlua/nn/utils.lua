--- utils: what is done to the parameters of a model as a whole, and weights that are computed from others.
local optlua = require "optlua"
local blame = require "optlua.blame"
local signature = require "optlua.signature"
local weightnorm = require "optlua.nn.weightnorm"
local shape_text = require("optlua.shape").text

local utils = { rnn = require "optlua.nn.packing" }

for name, value in pairs(weightnorm) do utils[name] = value end

--- The tensors of a module, an iterator or a list, or one tensor.
local function tensors_of(what, given)
  local list, problem = require("optlua.optim.params").list(optlua.is_tensor(given) and { given } or given, 1)
  if problem then blame(what .. ": " .. problem) end
  local tensors = {}
  for i, entry in ipairs(list) do tensors[i] = entry[2] end
  return tensors
end

-- Gradients ---------------------------------------------------------------------------------------------

--- Scales the gradients of all parameters together so that their norm is at most max_norm; writes the
--- gradients. The same as optim.clip_grad_norm_, which says more.
---@param parameters any
---@param max_norm number
---@param opts? { norm_type?: number }
---@return number # the norm before
function utils.clip_grad_norm_(parameters, max_norm, opts)
  return require("optlua.optim").clip_grad_norm_(parameters, max_norm, opts)
end

local read_clip_value = signature.reader("clip_grad_value_",
  { { "clip_value", { required = true, type = "number", min = 0 } } })

--- Moves every element of the gradients into ±clip_value; writes the gradients. Those that are absent are
--- left out.
---@param parameters any a module, an iterator, a list of tensors, or one tensor
---@param clip_value number
function utils.clip_grad_value_(parameters, clip_value)
  clip_value = read_clip_value(clip_value)
  local tensors = tensors_of("clip_grad_value_", parameters)
  if require("optlua.core").hidden.optim.taken(tensors) then
    blame "clip_grad_value_: a parameter is updated in backward (in_backward), and its gradient is gone"
  end
  optlua.no_grad(function()
    for _, tensor in ipairs(tensors) do
      if tensor.grad then tensor.grad:clamp_(-clip_value, clip_value) end
    end
  end)
end

local read_norm = signature.reader("get_total_norm",
  { { "norm_type", { default = 2, above = 0 } }, { "error_if_nonfinite", false } })

--- The norm of all elements of some tensors together; of none it is 0.
---@param tensors optlua.Tensor[]|optlua.Tensor
---@param norm_type? number|table default 2; math.huge: the largest absolute value; or the options
---@param error_if_nonfinite? boolean default false
---@return number
function utils.get_total_norm(tensors, norm_type, error_if_nonfinite)
  norm_type, error_if_nonfinite = read_norm(norm_type, error_if_nonfinite)
  local total = 0
  optlua.no_grad(function()
    for _, tensor in ipairs(tensors_of("get_total_norm", tensors)) do
      local norm = tensor:norm(norm_type):item()
      if norm_type == math.huge then
        total = (norm ~= norm or total ~= total) and 0 / 0 or math.max(total, norm)
      else
        total = total + norm ^ norm_type
      end
    end
  end)
  if norm_type ~= math.huge then total = total ^ (1 / norm_type) end
  if error_if_nonfinite and (total ~= total or total == math.huge) then blame("get_total_norm: the norm is not finite") end
  return total
end

-- Parameters as one vector ------------------------------------------------------------------------------

--- All elements of parameters, one after the other; gradients flow.
---@param parameters any a module, an iterator, or a list of tensors
---@return optlua.Tensor
function utils.parameters_to_vector(parameters)
  local parts = tensors_of("parameters_to_vector", parameters)
  if #parts == 0 then return optlua.zeros(0) end
  for i, tensor in ipairs(parts) do parts[i] = tensor:reshape(-1) end
  return optlua.cat(parts, 1)
end

--- Writes a vector back into the parameters that parameters_to_vector made it of.
---@param vector optlua.Tensor of as many elements as the parameters have together
---@param parameters any
function utils.vector_to_parameters(vector, parameters)
  if not optlua.is_tensor(vector) then
    blame(("vector_to_parameters: vector: tensor expected, got %s"):format(type(vector)))
  end
  local tensors, count = tensors_of("vector_to_parameters", parameters), 0
  for _, tensor in ipairs(tensors) do count = count + tensor:numel() end
  if vector.ndim ~= 1 or vector:numel() ~= count then
    blame(("vector_to_parameters: vector has shape %s, wants (%d): the elements of all parameters"):format(
      shape_text(vector), count))
  end
  optlua.no_grad(function()
    local copy, place = vector:detach():clone(), 1 -- the vector may share memory with a parameter
    for _, tensor in ipairs(tensors) do
      tensor:copy_(copy:narrow(1, place, tensor:numel()):reshape(tensor.shape))
      place = place + tensor:numel()
    end
  end)
end

return utils
