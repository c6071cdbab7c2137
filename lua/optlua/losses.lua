--- losses: losses by name, for configs: `loss = { class = "cross_entropy", label_smoothing = 0.1 }`.
local factory = require "optlua.factory"

local losses, made = factory.module "loss"
losses._factory = made

local reduction = { default = "mean", choices = { "mean", "sum" } }

-- A loss of nn, made with the options that are given.
local function layer(name)
  return function(args) return require("optlua.nn")[name](args) end
end

losses.register("cross_entropy", { label_smoothing = { default = 0.0, min = 0, max = 1 },
  ignore_index = { default = -100, integer = true }, reduction = reduction }, layer "CrossEntropyLoss")
losses.register("mse", { reduction = reduction }, layer "MSELoss")
losses.register("l1", { reduction = reduction }, layer "L1Loss")
losses.register("bce_with_logits", { reduction = reduction }, layer "BCEWithLogitsLoss")

return losses
