--- lookahead: slow weights that follow those of any class (Zhang et al., 2019, "Lookahead optimizer: k steps forward, 1 step
--- back", algorithm 1). The states of the class stay as they are when the weights go back.
local optim = require("optlua.core").hidden.optim.operations
local transforms = require "optlua.optim.transforms"

local definition = {
  hyper = {
    k = { default = 5, min = 1, integer = true, doc = "updates of the class between two of the slow weights" },
    slow_step = { default = 0.5, min = 0, max = 1, doc = "how far the slow weights go (alpha in the paper)" },
  },
  state = { slow = { init = "param", exact = true } },
}

function definition.update(p, g, s, h, inner_update)
  local fast = inner_update(p, g)
  if h.step % h.k ~= 0 then return fast end
  s.slow = optim.lerp(s.slow, fast, h.slow_step)
  return s.slow
end

--- Makes a class from a class: after each k updates the weights go back to slow ones, which have followed them a part of the way.
---
---     local optlua = require "optlua"
---     local optim = optlua.optim
---     local w = optlua.tensor({ 3 }, { requires_grad = true })
---     local optimizer = optim.lookahead(optim.SGD)({ w }, { lr = 1, k = 2 })
---     for _ = 1, 2 do
---       w.grad = optlua.ones(1)
---       optimizer:step()
---     end
---     print(w) --> tensor([2.], requires_grad=true)
---
--- Hyperparameters besides those of the class: k = 5; slow_step = 0.5, the paper's alpha. In configs the class is named
--- "Lookahead(SGD)".
---@param class optlua.optim.Class|string
---@return optlua.optim.Class
local function lookahead(class, ...) return transforms.around("Lookahead", definition, class, ...) end

return lookahead
