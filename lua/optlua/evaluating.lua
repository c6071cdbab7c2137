--- evaluating: runs a model without training it.
local optlua = require "optlua"
local closing = require "optlua.closing"

--- Calls fn(...) while a model is in evaluation mode and no gradients are recorded. The mode of each module is as
--- before afterwards, also after an error, which is raised again.
---@param model nn.Module
---@param fn function
---@param ... any
---@return any ... what fn returns
local function evaluating(model, fn, ...)
  local modes = {}
  for _, module in model:named_modules() do modes[module] = module.training end
  local _ <close> = closing(function()
    for module, mode in pairs(modes) do rawset(module, "training", mode) end
  end)
  model:eval()
  return optlua.no_grad(fn, ...)
end

return evaluating
