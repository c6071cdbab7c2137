--- evaluate: runs a model over data without training it.
local blame = require "optlua.blame"
local options = require "optlua.options"
local data = require "optlua.data"
local evaluating = require "optlua.evaluating"

--- The batches of a loader, or of a dataset in order.
local function batches_of(source, batch_size)
  if type(source) == "table" and type(source.batches) == "function" then return source:batches() end
  return data.loader(source, { batch_size = batch_size }):batches()
end

--- Goes through the batches; the last value of each is the target, the others are the model's inputs.
local function run(model, batches, metrics)
  local function visit(...)
    local count = select("#", ...)
    if ... == nil then return false end
    local values = { ... }
    local output = model(table.unpack(values, 1, math.max(1, count - 1)))
    for _, metric in pairs(metrics) do metric:update(output, values[count]) end
    return true
  end
  while visit(batches()) do end
end

--- Evaluates a model: in evaluation mode, without gradients; modes are as before afterwards, also after
--- an error.
---@param model nn.Module
---@param source data.Dataset|data.Loader
---@param metrics table<string, table> by name: objects with update(output, target), compute() and reset()
---@param opts? { batch_size?: integer } for a dataset; default 256
---@return table<string, number> # what each metric computes
local function evaluate(model, source, metrics, opts)
  opts = options.check("optlua.evaluate", opts, { batch_size = { default = 256, min = 1, integer = true } })
  if type(model) ~= "table" or type(model.named_modules) ~= "function" then
    blame(("optlua.evaluate: model: a module expected, got %s"):format(type(model)))
  end
  if type(metrics) ~= "table" then
    blame(("optlua.evaluate: metrics: a table of metrics by name expected, got %s"):format(type(metrics)))
  end
  if metrics.update then
    blame "optlua.evaluate: metrics: a table of metrics by name expected, got a metric; write { accuracy = metrics.accuracy() }"
  end
  for name, metric in pairs(metrics) do
    if type(metric) ~= "table" or not (metric.update and metric.compute and metric.reset) then
      blame(("optlua.evaluate: metric %q needs update, compute and reset"):format(name))
    end
    metric:reset()
  end
  evaluating(model, run, model, batches_of(source, opts.batch_size), metrics)
  local result = {}
  for name, metric in pairs(metrics) do result[name] = metric:compute() end
  return result
end

return evaluate
