--- rollback: the last good state of a run, kept in memory: what losses or gradients that are not finite go back to.
--
-- Weights, buffers, states, schedules, what is frozen and the generator go back, and with them the count of updates; the data
-- go on, so that the batches that did the harm are not met again at once.
local optlua = require "optlua"
local copy = require "optlua.snapshot"
local keeper = require "optlua.spec.keeper"

local rollback = {}

local function wanting(model)
  local list = {}
  for name, tensor in model:named_parameters() do list[name] = tensor.requires_grad end
  return list
end

--- Keeps the state of now.
---@param state optlua.State
function rollback.keep(state)
  if state.nonfinite ~= "rollback" then return end
  local parts = keeper.parts(state)
  state.kept = {
    step = state.step, loss = state.loss, rng = optlua.get_rng_state(), model = copy(parts.model:state_dict()),
    optimizer = copy(parts.optimizer:state_dict()), scheduler = parts.scheduler and copy(parts.scheduler:state_dict()),
    wanting = wanting(parts.model),
  }
  state.skipped = 0
end

--- Keeps the state of now when it is time, or when it was saved.
---@param state optlua.State
function rollback.after_update(state)
  if state.nonfinite ~= "rollback" or state.kept.step == state.step then return end
  if state.saved == state.step or state.step % state.config.rollback_every == 0 then rollback.keep(state) end
end

--- Goes back to the state that was kept.
---@param state optlua.State
---@param why string
function rollback.restore(state, why)
  local parts, kept, from = keeper.parts(state), state.kept, state.step
  parts.optimizer:load_state_dict(kept.optimizer)
  parts.model:load_state_dict(kept.model)
  for name, tensor in parts.model:named_parameters() do tensor.requires_grad = kept.wanting[name] end
  if parts.scheduler then parts.scheduler:load_state_dict(copy(kept.scheduler)) end
  optlua.set_rng_state(kept.rng)
  state.step, state.loss = kept.step, kept.loss
  if state.validated and state.validated > kept.step then state.validated = nil end
  state.log_file:write { event = "rollback", step = kept.step, from = from, epoch = state.epoch, why = why }
  state:say("rollback from step %d to %d: %s", from, kept.step, why)
end

return rollback
