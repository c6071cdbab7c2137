--- utils: what is done to the parameters of a model as a whole.
local utils = {}

--- Scales the gradients of all parameters together so that their norm is at most max_norm; writes the
--- gradients. See optlua.optim.clip.
---@return number # the norm before
function utils.clip_grad_norm_(...) return require("optlua.optim").clip_grad_norm_(...) end

return utils
