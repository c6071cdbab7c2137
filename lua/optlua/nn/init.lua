--- nn: layers. One file a family; each returns a table of classes, which are all gathered here.
local options = require "optlua.options"
local guard = require "optlua.nn.guard"
local module = require "optlua.nn.module"

local nn = {
  Module = module.Module,
  Parameter = module.Parameter,
  class = module.class,
  is_module = module.is_module,
  functional = require "optlua.nn.functional",
  init = require "optlua.nn.initialization",
  utils = require "optlua.nn.utils",
}

for _, family in ipairs {
  "containers", "linear", "convolution", "pooling", "padding", "upsample", "flatten", "activation", "dropout", "normalization", "batchnorm",
  "embedding", "loss", "similarity",
  "attention", "transformer", "recurrent",
} do
  for name, class in pairs(require("optlua.nn." .. family)) do
    nn[name] = class
    if class.forward ~= module.Module.forward then guard.watch(class) end
  end
end

return options.strict("nn", nn)
