--- utils: what is done to the parameters of a model as a whole.
local utils = {}

--- Scales the gradients of all parameters together so that their norm is at most max_norm; writes the
--- gradients. The same as optim.clip_grad_norm_, which says more.
---@param parameters any
---@param max_norm number
---@param opts? { norm_type?: number }
---@return number # the norm before
function utils.clip_grad_norm_(parameters, max_norm, opts)
  return require("optlua.optim").clip_grad_norm_(parameters, max_norm, opts)
end

return utils
