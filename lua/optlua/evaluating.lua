--- evaluating: runs a model without training it.
local optlua = require "optlua"

local function traceback(err) return type(err) == "string" and debug.traceback(err, 2) or err end

--- Calls fn(...) while a model is in evaluation mode and no gradients are recorded. The mode of each module is as
--- before afterwards, also after an error, which is raised again.
---@param model nn.Module
---@param fn function
---@param ... any
---@return any ... what fn returns
local function evaluating(model, fn, ...)
  local modes = {}
  for _, module in model:named_modules() do modes[module] = module.training end
  local function restore(ok, ...)
    for module, mode in pairs(modes) do rawset(module, "training", mode) end
    if not ok then error((...), 0) end
    return ...
  end
  model:eval()
  return restore(xpcall(optlua.no_grad, traceback, fn, ...))
end

return evaluating
