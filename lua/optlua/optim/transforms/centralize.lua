--- centralize: gradient centralisation (Yong et al., 2020, "Gradient centralization: a new optimization technique for deep neural
--- networks", equation 1) around any class.
local optim = require("optlua.core").hidden.optim.operations
local transforms = require "optlua.optim.transforms"

local definition = {}

-- The mean over all dimensions but the first takes one after the other: all means of a dimension are over equally many.
function definition.update(p, g, _, _, inner_update)
  local mean = g
  for dim = 2, p.ndim do mean = optim.mean(mean, dim) end
  return inner_update(p, p.ndim > 1 and g - mean or g)
end

--- Makes a class from a class: of the gradient of a parameter with two dimensions or more, the mean over all but the first (what
--- leads to one output) is taken away before the class sees it, ahead of weight decay and momentum.
---
---     local optlua = require "optlua"
---     local optim = optlua.optim
---     local w = optlua.tensor({ { 0, 0 }, { 0, 0 } }, { requires_grad = true })
---     w.grad = optlua.tensor { { 1, 3 }, { 2, 2 } }
---     optim.centralize(optim.SGD)({ w }, { lr = 1 }):step()
---     print(w) --> tensor([[ 1., -1.], [ 0., 0.]], requires_grad=true)
---
--- In configs the class is named "Centralize(SGD)".
---@param class optlua.optim.Class|string
---@return optlua.optim.Class
local function centralize(class, ...) return transforms.around("Centralize", definition, class, ...) end

return centralize
