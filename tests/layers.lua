-- The layers of nn and their samples.
--
-- A class says `Class.samples`: an expression that lists samples, each { { constructor arguments … },
-- inputs …, eval = true, without = "why PyTorch has no number", without_differences = "why not" }, in
-- the words of samples.lua.
local nn = require("optlua").nn
local kind = require "optlua.nn.kind"
local samples = require "samples"

local layers = {}

-- What is no layer: has no samples, or nothing of its own to compute.
local others = { Module = true, Sequential = true, ModuleList = true, ModuleDict = true, TransformerEncoder = true }

--- All classes of layers and losses, by name.
---@return table[]
function layers.all()
  local list = {}
  for name, class in pairs(nn) do
    if kind.is_class(class) and not others[name] then list[#list + 1] = class end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

--- The samples of a class, with fresh tensors of dtype.
---@return { arguments: any[], inputs: any[], eval?: boolean, without?: string, without_differences?: string }[]
function layers.samples(class, dtype)
  local list = {}
  local expression = { name = class.name, samples = "{" .. class.samples .. "}" }
  for n, sample in ipairs(samples.of(expression, dtype)) do
    sample.arguments, sample.inputs = sample[1], table.move(sample, 2, #sample, 1, {})
    list[n] = sample
  end
  return list
end

--- The layer of a sample, in its mode.
function layers.build(class, sample, dtype)
  local layer = class(table.unpack(sample.arguments)):to(dtype)
  return layer:train(not sample.eval)
end

--- The tensors among what a layer returns, in order, those in tables too.
---@return optlua.Tensor[]
function layers.call(layer, sample)
  return samples.tensors { layer(table.unpack(sample.inputs)) }
end

return layers
