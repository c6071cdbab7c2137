--- evaluation: what the model of a run holds while it is validated, or saved to be used: averages of the weights, or the form for
--- evaluation, where an optimizer has some, with running statistics of batch norms that belong to them.
local optlua = require "optlua"
local closing = require "optlua.closing"
local forms = require "optlua.optim.forms"
local statistics = require "optlua.optim.statistics"

local evaluation = {}

local BATCHES = 100 -- of the training set, for running statistics

-- The optimizers of this library that a run has.
local function optimizers_of(state)
  local list = {}
  for _, optimizer in pairs(state.manual and state.optimizers or { state.optimizers }) do
    if optimizer._groups then list[#list + 1] = optimizer end
  end
  return list
end

-- Computes running statistics for the weights that the model holds now, where the batches are those of a usual train_step.
local function update_statistics(state)
  if state.spec:replaces "train_step" then return end
  local size = state.config.batch_size
  local loader = optlua.data.loader(state.train, { batch_size = size, shuffle = true, seed = state.config.seed,
    drop_last = state.train.n > size }) -- the last one could be of one item
  statistics.update_bn(loader, state.model, { batches = BATCHES })
end

-- Functions of the script may have handed parameters alone to the optimizer: it does not know the modules then.
local function keeping_statistics(state, fn, ...)
  local restore = statistics.keep { model_parts = { state.model } }
  local _ <close> = closing(restore)
  update_statistics(state)
  local results = table.pack(fn(...))
  return table.unpack(results, 1, results.n)
end

--- Calls a function while the model holds what is to be evaluated. Afterwards, also after an error, all is as before. Averages that
--- `ema` keeps go with the running statistics of the weights, as in PyTorch's AveragedModel; those of optim.swa, and the form for
--- evaluation, with statistics of up to 100 batches of the training set.
---@param state optlua.State
---@param fn function
---@return any ... what it returns
function evaluation.around(state, fn, ...)
  if state.step == 0 then return fn(...) end
  local list, are_new = optimizers_of(state), false
  for _, optimizer in ipairs(list) do are_new = are_new or forms.are_new(optimizer) end
  if are_new then
    local inner = fn
    fn = function(...) return keeping_statistics(state, inner, ...) end
  end
  for _, optimizer in ipairs(list) do
    local inner = fn
    fn = function(...) return optimizer:with_eval(inner, ...) end
  end
  return fn(...)
end

--- When a run is over: leaves parameters that have one in the form for evaluation, and running statistics that belong to it, unless
--- averages are what is to be used.
---@param state optlua.State
function evaluation.finish(state)
  if state.step == 0 then return end
  local changed = false
  for _, optimizer in ipairs(optimizers_of(state)) do
    if forms.mode(optimizer) == "train" and not forms.average(optimizer) then
      optimizer:eval()
      changed = true
    end
  end
  if changed then update_statistics(state) end
end

return evaluation
