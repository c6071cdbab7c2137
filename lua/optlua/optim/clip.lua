--- clip: scales the gradients of tensors down to a norm. It writes them; the container's option
--- max_norm does not.
local core = require("optlua.core").hidden.optim
local optlua = require "optlua"
local options = require "optlua.options"
local blame = require "optlua.blame"
local params = require "optlua.optim.params"

local schema = { norm_type = { default = 2, choices = { 2, math.huge } } }

-- The tensors, each once, and their names.
local function read(given)
  local list, problem = params.list(optlua.is_tensor(given) and { given } or given, 1)
  if problem then blame("clip_grad_norm_: " .. problem) end
  local tensors, names, seen = {}, {}, {}
  for _, entry in ipairs(list) do
    if not seen[entry[2]] then
      tensors[#tensors + 1], names[#names + 1] = entry[2], entry[1]
      seen[entry[2]] = true
    end
  end
  return tensors, names
end

--- Scales the gradients of parameters (a module, an iterator, a list, or one tensor) down so that their
--- norm together is at most max_norm; math.huge only measures. Options: norm_type, 2 or math.huge (the
--- largest absolute value). Gradients that are absent are left out; with none the norm is 0. A gradient
--- that is not finite is an error, and then none has changed.
---@param parameters any
---@param max_norm number
---@param opts? { norm_type?: number }
---@return number # the norm before
local function clip_grad_norm_(parameters, max_norm, opts)
  local checked, problems = options.collect(opts, schema)
  local limit, problem = options.value("max_norm", max_norm, { required = true, type = "number", min = 0 })
  problems[#problems + 1] = problem
  if #problems > 0 then blame("clip_grad_norm_: " .. problems[1]) end
  local tensors, names = read(parameters)
  local taken = core.taken(tensors)
  if taken then
    blame(("clip_grad_norm_: parameter '%s' is updated in backward (in_backward), and its gradient is gone"):format(names[taken]))
  end
  local norm, culprit = core.norm(tensors, checked.norm_type == math.huge)
  if culprit then
    blame(("clip_grad_norm_: the gradient of parameter '%s' is not finite; nothing was changed"):format(names[culprit]))
  end
  core.clip(tensors, norm, limit)
  return norm
end

return clip_grad_norm_
