--- sam: sharpness-aware minimisation (Foret et al., 2021, "Sharpness-aware minimization for efficiently improving
--- generalization") around any class; with `adaptive`, ASAM (Kwon et al., 2021, "ASAM: adaptive sharpness-aware minimization").
local transforms = require "optlua.optim.transforms"

local EPS = 1e-12 -- the authors'

-- The gradient whose length counts: with `adaptive`, times the size of the weight.
local function weigh(p, group) return group.adaptive and p:abs() * p.grad or p.grad end

-- The norm of all gradients of all groups.
local function measure(groups)
  local sum = 0
  for _, group in ipairs(groups) do
    for _, p in ipairs(group.params) do
      if p.grad then sum = sum + weigh(p, group):to("float64"):square():sum():item() end
    end
  end
  return math.sqrt(sum)
end

-- Goes to where the loss is worst nearby: uphill by rho, which is a hyperparameter of this name.
local function climb(groups, rho)
  local norm = measure(groups)
  for _, group in ipairs(groups) do
    for _, p in ipairs(group.params) do
      if p.grad then
        local direction = group.adaptive and p:square() * p.grad or p.grad
        p:add_(direction, { alpha = group[rho] / (norm + EPS) })
      end
    end
  end
end

-- What is around a class, with a name for rho.
local function define(rho)
  return {
    hyper = {
      [rho] = { default = 0.05, min = 0, doc = "the distance at which the gradient is taken" },
      adaptive = { default = false, doc = "whether the distance of each weight is in proportion to its size" },
    },
    needs_closure = true,
    gradients = function(_, groups, closure)
      closure()
      climb(groups, rho)
      closure()
    end,
  }
end

local ordinary, beside = define "rho", define "sam_rho"

--- Makes a class from a class: its steps take the gradient where the loss is largest within a distance rho of the
--- parameters, which leads to minima that are flat. A step needs a closure and calls it twice; the norm is that of the gradients of
--- all groups of the class. The container's max_norm clips the second gradient.
---
---     local optlua = require "optlua"
---     local optim = optlua.optim
---     local w = optlua.tensor({ 3 }, { requires_grad = true })
---     local optimizer = optim.sam(optim.SGD)({ w }, { lr = 0.1, rho = 0.5 })
---     optimizer:step(function()
---       optimizer:zero_grad()
---       local loss = (w * w):sum()
---       loss:backward()
---       return loss
---     end)
---     print(w) --> tensor([2.3000], requires_grad=true)
---
--- Hyperparameters besides those of the class: rho = 0.05, the distance; adaptive = false: whether the distance of each weight is
--- in proportion to its size (ASAM; its authors use ten times the rho). In configs the class is named "SAM(SGD)".
--- Around a class with a rho of its own, as Adadelta's, the distance is named sam_rho.
---@param class optlua.optim.Class|string
---@return optlua.optim.Class
local function sam(class, ...)
  local inner = require("optlua.optim.classes").resolve(class)
  local taken = inner and inner.hyper.rho
  return transforms.around("SAM", taken and beside or ordinary, class, ...)
end

return sam
