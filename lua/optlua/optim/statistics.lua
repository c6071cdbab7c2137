--- statistics: running statistics of batch norms, which belong to the weights that were in the model when they were gathered.
local optlua = require "optlua"
local blame = require "optlua.blame"
local closing = require "optlua.closing"
local options = require "optlua.options"
local params = require "optlua.optim.params"

local statistics = {}

-- The modules that an optimizer knows: those of a container's parts, or the owners of its parameters.
local function modules_of(self)
  local list = {}
  for _, part in ipairs(rawget(self, "model_parts") or {}) do
    for _, module in part:named_modules() do list[#list + 1] = module end
  end
  if #list > 0 then return list end
  for _, group in ipairs(self._groups) do
    for _, module in ipairs(group.modules) do
      if module then list[#list + 1] = module end
    end
  end
  return list
end

local buffers = { "running_mean", "running_var", "num_batches_tracked" }

local function copies(modules)
  local kept = {}
  for _, module in ipairs(modules) do
    for _, name in ipairs(buffers) do
      local tensor = module[name]
      if optlua.is_tensor(tensor) and not kept[tensor] then kept[tensor] = tensor:clone() end
    end
  end
  return kept
end

local function put_back(kept)
  optlua.no_grad(function()
    for tensor, copy in pairs(kept) do tensor:copy_(copy) end
  end)
end

--- Copies the running statistics of the modules that an optimizer knows: a function that brings them back.
---@param self table the optimizer
---@return fun()
function statistics.keep(self)
  local kept = copies(modules_of(self))
  return function() put_back(kept) end
end

--- The batch norms in a model that track statistics.
---@param model nn.Module
---@return nn.BatchNorm[]
function statistics.batch_norms(model)
  local list = {}
  for _, module in model:named_modules() do
    if module.averages_batches and module.running_mean then list[#list + 1] = module end
  end
  return list
end

-- Functions over the batches of a loader, a dataset, or what iterates over batches itself.
local function batches_of(source)
  if type(source) == "table" and type(source.batches) == "function" then return source:batches() end
  if options.is_callable(source) then return source end
  blame(("optim.update_bn: a loader expected, or a function that gives batches, got %s"):format(type(source)))
end

-- Sends batches through a model: of each the last value is the target, unless there is but one.
local function run(model, next_batch, limit)
  local count = 0
  while count < limit do
    local batch = table.pack(next_batch())
    if batch[1] == nil then break end
    count = count + 1
    model(table.unpack(batch, 1, math.max(1, batch.n - 1)))
  end
  return count
end

--- Computes the running statistics of a model's batch norms anew, as the averages over the batches of a loader, with the weights
--- that it has now: averages of weights (see optimizer:with_swa) have statistics of their own. As PyTorch's
--- torch.optim.swa_utils.update_bn. Of a batch the last value is the target, the others are the model's inputs. Modes of modules
--- and the generator are as before afterwards; after an error the statistics too. A loader without a batch is an error.
---
---     local optlua = require "optlua"
---     local model = optlua.nn.BatchNorm1d(1, { eps = 0 })
---     local loader = optlua.data.loader(optlua.data.tensors(optlua.tensor { { 1 }, { 3 }, { 5 }, { 7 } }), { batch_size = 2 })
---     optlua.optim.update_bn(loader, model)
---     print(model.running_mean, model.running_var) --> tensor([4.]) tensor([2.])
---@param loader data.Loader|function what has a method `batches`, or is called for each batch
---@param model nn.Module
---@param opts? { batches?: integer } at most so many batches; default: all
function statistics.update_bn(loader, model, opts)
  if not params.is_module(model) then blame("optim.update_bn: model: a module expected, got a " .. type(model)) end
  opts = options.check("optim.update_bn", opts, { batches = { default = math.maxinteger, min = 1, integer = true } })
  local norms, next_batch = statistics.batch_norms(model), batches_of(loader)
  if #norms == 0 then return end
  local modes, momenta, kept, rng, done = {}, {}, copies(norms), optlua.get_rng_state(), false
  for _, module in model:named_modules() do modes[module] = module.training end
  for i, norm in ipairs(norms) do momenta[i] = norm.momentum end
  local _ <close> = closing(function()
    for module, mode in pairs(modes) do rawset(module, "training", mode) end
    for i, norm in ipairs(norms) do norm.momentum = momenta[i] end
    optlua.set_rng_state(rng)
    if not done then put_back(kept) end
  end)
  for _, norm in ipairs(norms) do
    norm:reset_running_stats()
    norm.momentum = false
  end
  model:train()
  if optlua.no_grad(run, model, next_batch, opts.batches) == 0 then blame "optim.update_bn: the loader gives no batch" end
  done = true
end

return statistics
