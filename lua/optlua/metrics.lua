--- metrics: what evaluation counts. A metric has update(output, target), compute() and reset().
local options = require "optlua.options"

--- A metric that is a mean: measure(output, target) returns a sum and how many items it is of.
local function mean(name, measure)
  local sum, count = 0, 0
  local metric = {}

  --- Counts one batch.
  function metric.update(_, output, target)
    local s, n = measure(output, target)
    sum, count = sum + s, count + n
  end

  --- The mean over everything since the last reset; NaN when there was nothing.
  function metric.compute() return sum / count end

  --- Forgets everything.
  function metric.reset() sum, count = 0, 0 end

  return setmetatable(metric, { __tostring = function() return name end })
end

local metrics = {}

--- The share of items whose largest logit stands at the target's class. Outputs (N, C) or (N, C, …),
--- targets int64 (N) or (N, …).
---@param opts? { ignore_index?: integer } targets with this value are not counted
function metrics.accuracy(opts)
  opts = options.check("metrics.accuracy", opts, { ignore_index = { required = false, type = "integer" } })
  return mean("accuracy", function(output, target)
    local right = output:argmax(2):eq(target):to "int64"
    if not opts.ignore_index then return right:sum():item(), target:numel() end
    local counted = target:ne(opts.ignore_index):to "int64"
    return (right * counted):sum():item(), counted:sum():item()
  end)
end

--- The mean of a loss over items; loss_fn must give the mean over a batch.
---@param loss_fn fun(output: optlua.Tensor, target: any): optlua.Tensor
function metrics.loss(loss_fn)
  return mean("loss", function(output, target)
    local n = output.shape[1] or 1
    return loss_fn(output, target):item() * n, n
  end)
end

return options.strict("metrics", metrics)
