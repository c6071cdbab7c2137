--- swa: stochastic weight averaging (Izmailov et al., 2018, "Averaging weights leads to wider optima and better generalization",
--- algorithm 1) around any class: the average of the weights after some of the updates, all alike, as PyTorch's AveragedModel.
local optim = require("optlua.core").hidden.optim.operations
local transforms = require "optlua.optim.transforms"

local definition = {
  hyper = {
    swa_start = { default = 1, min = 1, integer = true, doc = "the update whose weights are the first to be averaged" },
    swa_every = { default = 1, min = 1, integer = true, doc = "and then those of every so many updates" },
  },
  state = { swa = { init = "param", exact = true } },
}

function definition.update(p, g, s, h, inner_update)
  local new = inner_update(p, g)
  local since = h.step - h.swa_start
  if since <= 0 then
    s.swa = new -- until there is an average it is the weights themselves
  elseif since % h.swa_every == 0 then
    s.swa = optim.lerp(s.swa, new, 1 / (since // h.swa_every + 1))
  end
  return new
end

--- Exchanges weights and averages.
function definition.swap_swa(p, s)
  local average = s.swa
  s.swa = p
  return average
end

--- Makes a class from a class: it keeps the average of the weights after update `swa_start` and each `swa_every`-th one from there
--- on. The training does not see it; optimizer:with_swa(fn) calls fn with the averages in the model, and a spec validates and
--- saves them. Batch norms need statistics of the averages: optim.update_bn. The rate is usually kept high meanwhile:
--- schedule.SWALR.
---
---     local optlua = require "optlua"
---     local optim = optlua.optim
---     local w = optlua.tensor({ 3 }, { requires_grad = true })
---     local optimizer = optim.swa(optim.SGD)({ w }, { lr = 1, swa_start = 2 })
---     for _ = 1, 3 do
---       w.grad = optlua.ones(1)
---       optimizer:step()
---     end
---     print(w, optimizer:with_swa(function() return w:item() end)) --> tensor([0.], requires_grad=true) 0.5
---
--- Hyperparameters besides those of the class: swa_start = 1, swa_every = 1. In configs the class is named "SWA(SGD)".
---@param class optlua.optim.Class|string
---@return optlua.optim.Class
local function swa(class, ...) return transforms.around("SWA", definition, class, ...) end

return swa
