--- gradcheck: compares the gradients of a function with finite differences.

local blame = require "optlua.blame"
local core = require "optlua.core"
local options = require "optlua.options"

local schema = {
  eps = { default = 1e-6, above = 0, doc = "half the distance of the two points of a difference" },
  atol = { default = 1e-5, min = 0, doc = "absolute tolerance" },
  rtol = { default = 1e-3, min = 0, doc = "relative tolerance" },
}

-- The position of element `linear` (from 1) of a tensor of this shape, as a key for indexing.
local function position(shape, linear)
  local key, rest = {}, linear - 1
  for d = #shape, 1, -1 do
    key[d] = rest % shape[d] + 1
    rest = rest // shape[d]
  end
  return key
end

-- The outputs of fn in a list, as float64 tables of their elements.
local function evaluate(fn, inputs)
  local values = {}
  local outputs = table.pack(core.no_grad(fn, table.unpack(inputs)))
  for k = 1, outputs.n do values[k] = outputs[k]:reshape(-1):totable() end
  return values
end

-- The derivatives of every element of every output with respect to one element of an input.
local function differences(fn, inputs, input, key, eps)
  local view = input:detach()
  local element = view[key]:item()
  view[key] = element + eps
  local above = evaluate(fn, inputs)
  view[key] = element - eps
  local below = evaluate(fn, inputs)
  view[key] = element
  for k, output in ipairs(above) do
    for i in ipairs(output) do output[i] = (output[i] - below[k][i]) / (2 * eps) end
  end
  return above
end

local function check_inputs(inputs)
  if core.is_tensor(inputs) then inputs = { inputs } end
  local any = false
  for i, input in ipairs(inputs) do
    any = any or core.is_tensor(input) and input.requires_grad
    if core.is_tensor(input) and input.requires_grad and (input.dtype ~= "float64" or not input.is_leaf) then
      blame(("gradcheck: input %d: a float64 leaf expected, got %s%s"):format(i, input.dtype,
        input.is_leaf and "" or ", the result of " .. input.grad_fn))
    end
  end
  if not any then blame("gradcheck: no input requires a gradient; there is nothing to check") end
  return inputs
end

local function check_outputs(outputs)
  for k = 1, outputs.n do
    if outputs[k].requires_grad then return end
  end
  blame("gradcheck: no output requires a gradient; there is nothing to check")
end

-- The gradients of the inputs for a seed of 1 at element i of output k.
local function backward(fn, inputs, k, i)
  local output = select(k, fn(table.unpack(inputs)))
  local seed = core.tensor(output:detach()):zero_()
  seed[position(output.shape, i)] = 1
  for _, input in ipairs(inputs) do
    if core.is_tensor(input) then input.grad = nil end
  end
  output:backward(seed)
end

--- Raises when a gradient of fn differs from its central difference; else returns true. The gradients
--- of the inputs are left absent.
---@param fn fun(...): optlua.Tensor, ... what is checked
---@param inputs optlua.Tensor[]|optlua.Tensor its arguments; gradients are checked for float64 leaves that require one
---@param given { eps: number?, atol: number?, rtol: number? }?
---@return boolean
local function gradcheck(fn, inputs, given)
  local option = options.check("gradcheck", given, schema)
  inputs = check_inputs(inputs)
  local numeric = {}                                       -- [input][element][output][element]
  for n, input in ipairs(inputs) do
    numeric[n] = {}
    if core.is_tensor(input) and input.requires_grad then
      for e = 1, input:numel() do
        numeric[n][e] = differences(fn, inputs, input, position(input.shape, e), option.eps)
      end
    end
  end
  local outputs = table.pack(fn(table.unpack(inputs)))
  check_outputs(outputs)
  for k = 1, outputs.n do
    for i = 1, outputs[k].requires_grad and outputs[k]:numel() or 0 do
      backward(fn, inputs, k, i)
      for n, input in ipairs(inputs) do
        for e, expected in ipairs(numeric[n]) do
          local key, number = position(input.shape, e), expected[k][i]
          local own = input.grad and input.grad[key]:item() or 0
          local near = math.abs(own - number) <= option.atol + option.rtol * math.abs(number)
          if not near then
            blame(("gradcheck: output %d, element %d, by input %d, element %d: backward says %.9g, the difference %.9g")
              :format(k, i, n, e, own, number))
          end
        end
      end
    end
  end
  for _, input in ipairs(inputs) do
    if core.is_tensor(input) then input.grad = nil end
  end
  return true
end

return gradcheck
