--- functional: the layers' arithmetic as functions of tensors. They are the ops of the runtime,
--- gathered under the names that PyTorch gives them in torch.nn.functional, and a few made of them.
local optlua = require "optlua"
local options = require "optlua.options"
local measure = require "optlua.nn.measure"

local functional = {}

for _, name in ipairs {
  "linear", "relu", "gelu", "tanh", "sigmoid", "silu", "softplus", "leaky_relu", "elu", "softmax",
  "log_softmax", "dropout", "layer_norm", "batch_norm", "embedding", "one_hot", "cross_entropy", "nll_loss", "mse_loss",
  "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div",
} do
  functional[name] = optlua[name]
end

--- A function of the tensors of a measure and its options, by position or in a last table.
local function checked(name, entry)
  local schema, inputs = {}, #entry.inputs
  for _, option in ipairs(entry.options) do schema[option[1]] = option[2] end

  --- The options among the arguments that follow the tensors.
  local function read(...)
    local given, named = table.pack(...), {}
    local last = given[given.n]
    if type(last) == "table" and not optlua.is_tensor(last) then
      for key, value in pairs(last) do named[key] = value end
      given.n = given.n - 1
    end
    if given.n > #entry.options then
      error(("%s: at most %d arguments expected, got %d"):format(name, inputs + #entry.options, inputs + given.n), 3)
    end
    for k = 1, given.n do named[entry.options[k][1]] = given[k] end
    return options.check(name, named, schema, 4)
  end

  return function(...)
    local arguments = table.pack(...)
    for k, input in ipairs(entry.inputs) do
      if not optlua.is_tensor(arguments[k]) and not (input == "var" and type(arguments[k]) == "number") then
        error(("%s: %s: tensor expected, got %s"):format(name, input, type(arguments[k])), 2)
      end
    end
    local opts = read(select(inputs + 1, ...))
    for k, option in ipairs(entry.options) do arguments[inputs + k] = opts[option[1]] end
    return entry.run(table.unpack(arguments, 1, inputs + #entry.options))
  end
end

for name, entry in pairs(measure) do functional[name] = checked(name, entry) end

return options.strict("nn.functional", functional)
