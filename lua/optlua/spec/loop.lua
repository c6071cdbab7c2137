--- loop: trains: windows of batches, updates, validations, limits.
local optlua = require "optlua"
local blame = require "optlua.blame"
local closing = require "optlua.closing"
local metrics = require "optlua.metrics"
local evaluation = require "optlua.spec.evaluation"
local keeper = require "optlua.spec.keeper"
local rollback = require "optlua.spec.rollback"
local stepping = require "optlua.optim.stepping"

local clock = require("optlua.core").clock

local loop = {}

-- One batch ----------------------------------------------------------------------------------------------------

-- What train_step returned: a loss of one element, and a count.
local function check_loss(loss, count)
  if not optlua.is_tensor(loss) or loss:numel() ~= 1 then
    blame(("train_step returns a loss, a tensor of one element, and how many items it is the mean of; got %s")
      :format(optlua.is_tensor(loss) and "a tensor of " .. loss:numel() or "a " .. type(loss)))
  end
  if count ~= nil and (type(count) ~= "number" or not (count > 0 and count < math.huge)) then
    blame(("train_step: the count of items is a number above 0, not %s"):format(tostring(count)))
  end
  return count or 1
end

local function all_finite(tensor) return tensor:isfinite():sum():item() == tensor:numel() end

local function zero_grad(state)
  if not state.manual then return state.optimizers:zero_grad() end
  for _, optimizer in pairs(state.optimizers) do optimizer:zero_grad() end
end

-- The first parameter that is not finite, or whose gradient of this loss is not, in words. Leaves no gradients. Where backward would
-- update, gradients are not looked at.
local function blame_parameter(state, loss)
  for name, tensor in state.model:named_parameters() do
    if not all_finite(tensor) then return (": parameter '%s' is not finite"):format(name) end
  end
  if state.manual then return "" end -- its gradients have been there
  local found = ""
  if state.optimizers._updater then return ": the parameters are finite" end
  state.optimizers:zero_grad()
  if loss.requires_grad then loss:backward() end
  for name, tensor in state.model:named_parameters() do
    if tensor.grad and not all_finite(tensor.grad) then
      found = (": the parameters are finite; of their gradients that of '%s' is the first that is not"):format(name)
      break
    end
  end
  state.optimizers:zero_grad()
  return found
end

-- A loss that is not finite: an error, or the whole window is dropped. Gives what is wrong then.
local function check_finite(state, loss, value)
  if value == value and math.abs(value) < math.huge or state.nonfinite == "off" then return nil end
  local problem = ("the loss is %s at update %d (epoch %d)%s"):format(value ~= value and "nan" or tostring(value), state.step, state.epoch,
    blame_parameter(state, loss))
  if state.nonfinite == "error" then error(problem, 0) end
  return problem
end

-- Computes a batch of the window: its gradients, weighted by its count where the window has several.
local function compute(state, window, batch)
  local loss, count = state.spec:call("train_step", state, batch)
  count = check_loss(loss, count)
  local value = loss:item()
  if not window.again then window.bad = window.bad or check_finite(state, loss, value) end
  if window.bad then return end
  if state.accumulate > 1 then loss = loss * count end
  loss:backward()
  window.sum, window.count = window.sum + value * count, window.count + count
end

local function new_window() return { sum = 0, count = 0, batches = 0 } end

-- Adds a batch to the window. What an optimizer computes itself, by a closure, is computed at the end of the window.
local function add_batch(state, window, batch)
  window.batches = window.batches + 1
  if stepping.needs_closure(state.optimizers) then window[window.batches] = batch else compute(state, window, batch) end
end

-- Gradients of sums become those of the mean over the window.
local function normalise(state, window)
  if state.accumulate == 1 then return end
  optlua.no_grad(function()
    for _, group in pairs(state.optimizers.groups) do
      for _, tensor in ipairs(group.params) do
        if tensor.grad then tensor.grad:mul_(1 / window.count) end
      end
    end
  end)
end

-- Closures -----------------------------------------------------------------------------------------------------

local BAD = {} -- raised by a closure whose loss is not finite

-- Computes a window anew, with the random numbers of the first time. What train_step notes then is dropped.
local function compute_again(state, window, random)
  local again, logged, tensors = new_window(), state.logged, state.tensors
  again.again, again.batches, state.logged, state.tensors = true, window.batches, {}, {}
  optlua.set_rng_state(random)
  for k = 1, window.batches do compute(state, again, window[k]) end
  state.logged, state.tensors = logged, tensors
  return again
end

-- What an optimizer is given that calls for gradients itself: the mean loss over a window, and its gradients.
local function closure_over(state, window)
  local random, now
  return function()
    state.optimizers:zero_grad()
    if random then
      now = compute_again(state, window, random)
    else
      random, now = optlua.get_rng_state(), window
      for k = 1, window.batches do compute(state, window, window[k]) end
      if window.bad then error(BAD, 0) end
    end
    normalise(state, now)
    return now.sum / now.count
  end
end

-- A step of the optimizer; what is wrong where it cannot be made.
local function step(state, window)
  local optimizers = state.optimizers
  local before = optimizers._skipped
  if stepping.needs_closure(optimizers) then
    local ok, problem = pcall(optimizers.step, optimizers, closure_over(state, window))
    if not ok and problem ~= BAD then error(problem, 0) end
  elseif not window.bad then
    normalise(state, window)
    optimizers:step()
  end
  return window.bad or optimizers._skipped ~= before and optimizers._problem or nil
end

-- Updates ------------------------------------------------------------------------------------------------------

-- Counts a loss in the mean of the epoch.
local function add_loss(state, sum, count)
  local of_epoch = state.of_epoch
  of_epoch.sum, of_epoch.count = of_epoch.sum + sum, of_epoch.count + count
end

-- What one update was, for the log.
local function record_of(state, began)
  local record = { step = state.step, epoch = state.epoch, loss = state.loss, seconds = clock() - began }
  local groups = state.optimizers.groups
  if groups then
    for _, group in pairs(groups) do
      local known, lr = pcall(function() return group.lr end)
      if known then record["lr." .. group.name] = lr end
    end
    record.grad_norm = state.optimizers._norm or nil
  end
  return record
end

-- Writes a record with what train_step and callbacks noted.
local function write_record(state, record)
  for name, value in pairs(state.logged) do record[name] = value end
  state.log_file:write(record)
  state.log_file:histograms(state.step, state.tensors)
end

local function drop_notes(state) state.logged, state.tensors = {}, {} end

-- What was noted outside of steps and validations has a record of its own.
local function write_notes(state, event)
  if next(state.logged) or next(state.tensors) then
    write_record(state, { event = event, step = state.step, epoch = state.epoch })
  end
  drop_notes(state)
end

local function finish_update(state)
  state.step, state.updated_in = state.step + 1, state.epoch
  do
    local _ <close> = keeper.guard(state)
    state.spec:callback("on_step", state)
  end
  if state.step % state.config.log_every == 0 or state.step == 1 then write_record(state, record_of(state, state.began)) end
  drop_notes(state)
end

-- No update is made of a window; too many in a row end the run.
local function skip(state, problem)
  zero_grad(state)
  state.skipped = state.skipped + 1
  if state.skipped >= state.config.max_skipped then
    error(("%d updates in a row were skipped for losses or gradients that are not finite; the last: %s")
      :format(state.skipped, problem), 0)
  end
  if state.nonfinite == "rollback" then rollback.restore(state, problem) end
end

-- The end of a window: an update, unless a loss or a gradient in it is not finite. Going back counts until the next state
-- is kept, or a run could go round in a circle for ever.
local function update(state, window)
  local problem = step(state, window)
  if problem then return skip(state, problem) end
  state.optimizers:zero_grad()
  if state.nonfinite ~= "rollback" then state.skipped = 0 end
  state.loss = window.sum / window.count
  add_loss(state, window.sum, window.count)
  finish_update(state)
end

-- How many updates the optimizers have skipped, and the last reason.
local function count_skipped(state)
  local count, problem = 0, nil
  for _, optimizer in pairs(state.optimizers) do
    count, problem = count + (rawget(optimizer, "_skipped") or 0), problem or rawget(optimizer, "_problem")
  end
  return count, problem
end

-- Where the model made several optimizers, train_step makes the updates itself: what is not finite is seen after it.
local function manual_update(state, batch)
  local before = count_skipped(state)
  local loss = state.spec:call("train_step", state, batch)
  local value = loss
  if optlua.is_tensor(loss) then value = loss:item() end
  if value ~= nil and type(value) ~= "number" then blame "train_step returns a loss, or nothing, where it makes the updates itself" end
  local problem = value and check_finite(state, loss, value)
  local skipped, reason = count_skipped(state)
  if problem or skipped > before then return skip(state, problem or reason) end
  if state.nonfinite ~= "rollback" then state.skipped = 0 end
  state.loss = value
  if value then add_loss(state, value, 1) end
  finish_update(state)
end

-- Validation ---------------------------------------------------------------------------------------------------

--- Saves the weights into the folder of the run, if there is one. What cannot be written is said, and the run goes on.
---@param state optlua.State
---@param name string
function loop.save(state, name)
  if not state.out then return true end
  local path = state.out .. "/" .. name
  local saved, problem = keeper.try(state.out, state.model.save, state.model, path)
  if not saved then state.log_file:fail(path, problem) end
  return saved
end

-- Whether patience is over.
local function has_waited(state)
  local patience = state.config.patience
  return patience ~= nil and state.waited ~= nil and state.waited >= patience
end

local function stop_waiting(state)
  state:stop(("no better %s in %d validations"):format(state.monitor, state.waited))
end

local function is_better(state, value, best)
  if value ~= value then return false end
  if not best then return true end
  if state.monitor_mode == "max" then return value > best end
  return value < best
end

-- Keeps the best weights, and counts validations without a better value. An extra one, that a longer run would not make, does not
-- count.
local function note_best(state, is_extra)
  local value = state.results[state.monitor]
  if value == nil then
    local names = {}
    for name in pairs(state.results) do names[#names + 1] = name end
    table.sort(names)
    blame(("monitor: validation has no %q; it has %s"):format(state.monitor, table.concat(names, ", ")))
  end
  if is_better(state, value, state.best and state.best.value) then
    state.best_due = state.config.keep_best
    if loop.save(state, "best.safetensors") then state.best = { step = state.step, value = value } end
  end
  if is_extra then return end
  if is_better(state, value, state.reached) then
    state.waited, state.reached = 0, value
  else
    state.waited = state.waited + 1
  end
  if has_waited(state) then stop_waiting(state) end
end

-- What a metric has measured, as a number.
local function number_of(name, value)
  if optlua.is_tensor(value) and value:numel() == 1 then value = value:item() end
  if type(value) ~= "number" then
    blame(("metrics: %s: compute returns a number, not %s"):format(name,
      optlua.is_tensor(value) and ("a tensor of %d"):format(value:numel()) or "a " .. type(value)))
  end
  return value
end

--- Validates the model as it is: the loss and the spec's metrics over the validation set.
---@param state optlua.State
---@return table<string, number>
function loop.validate(state)
  local measured = { loss = metrics.loss(state.loss_fn) }
  for name, metric in pairs(state.spec.metrics or {}) do measured[name] = metric end
  local results = optlua.evaluate(state.model, state.validation, measured, { batch_size = state.config.batch_size })
  for name, value in pairs(results) do results[name] = number_of(name, value) end
  return results
end

-- One line, with the mean loss of the epoch so far, unless the last is less than a second old and there is nothing new to say.
local function print_line(state, place)
  local now = clock()
  if state.printed and now - state.printed < 1 and state.validated ~= state.step then return end
  state.printed = now
  local words = { place, ("step %d"):format(state.step) }
  local of_epoch = state.of_epoch
  if of_epoch.count > 0 then words[#words + 1] = ("loss %.4f"):format(of_epoch.sum / of_epoch.count) end
  local names = {}
  for name in pairs(state.results) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do words[#words + 1] = ("validation %s %.4f"):format(name, state.results[name]) end
  words[#words + 1] = ("%.1f s"):format(clock() - state.began)
  state:say("%s", table.concat(words, "  "))
end

-- Validates, where there is something to do it with. A run that goes on from behind an extra validation, which it would not have
-- made without an end there, knows nothing of it but the best weights.
local function validate(state, is_extra)
  if not state.validation then return end
  local _ <close> = keeper.guard(state)
  if is_extra then state.usual = { results = state.results, validated = state.validated } end
  evaluation.around(state, function()
    state.results = loop.validate(state)
    state.validated = state.step
    note_best(state, is_extra)
  end)
  local record = { event = "validation", step = state.step, epoch = state.epoch }
  for name, value in pairs(state.results) do record[name] = value end
  state.spec:callback("on_validation", state)
  write_record(state, record)
  drop_notes(state)
end

-- The run ------------------------------------------------------------------------------------------------------

--- Whether all updates, or epochs, have been made.
---@param state optlua.State
---@return boolean
function loop.is_complete(state)
  local epochs = state.config.epochs
  return epochs and state.epoch > epochs or state.resumed_at and has_waited(state) or state.step >= math.min(state.training_steps, state.limit or math.maxinteger)
end

local function is_over(state)
  local minutes = state.config.max_minutes
  if minutes and clock() - state.began > 60 * minutes then state:stop(("%.14g minutes are over"):format(minutes)) end
  return state.stopped or loop.is_complete(state)
end

local function after_update(state)
  local every = state.config.eval_every
  if every and state.step % every == 0 and state.validated ~= state.step then
    validate(state)
    print_line(state, ("epoch %2d"):format(state.epoch))
  end
  if state.reload then state.reload(state) end
end

-- Between two updates: a checkpoint when it is time, and the end when a signal came.
local function save_or_stop(state)
  if state.out then keeper.after_update(state) end
  rollback.after_update(state)
  state.signal = state.signal or state.signalled and state.signalled()
  if state.signal then state:stop(("signal %d%s"):format(state.signal, state.signal == 2 and " (Ctrl-C)" or "")) end
end

-- What a schedule is told that waits for a metric: what is monitored, if it is better in the same direction, else the loss. NaN is
-- worse than anything.
local function metric_for(state, mode)
  local value = mode == state.monitor_mode and state.results[state.monitor] or state.results.loss or state.loss
  if value ~= value then return mode == "max" and -math.huge or math.huge end
  return value
end

-- An epoch is over for schedulers that count epochs, or wait for a metric.
local function step_schedulers(state)
  if state.manual or state.step == 0 then return end
  local list = state.lr_schedulers or {}
  if type(list.step) == "function" then list = { list } end
  for _, scheduler in pairs(list) do
    if scheduler.get_last_lr and scheduler:needs_step() then scheduler:step(metric_for(state, scheduler:mode())) end
  end
end

-- Whether the last batch of an epoch has been taken and its end is due: a run that was asked to end there goes on with it.
local function has_ended(state) return state.loader.position >= #state.loader end

-- One epoch; the last window may be shorter. Tells whether it came to its end: a limit may be reached in the middle of it.
local function run_epoch(state, next_batch)
  local window = new_window()
  while not has_ended(state) and (window.batches > 0 or not is_over(state)) do
    local batch, before = { next_batch() }, state.step
    if batch[1] == nil then return true end -- the script went through the loader meanwhile
    if state.manual then
      manual_update(state, batch)
    else
      add_batch(state, window, batch)
      if window.batches >= state.accumulate or has_ended(state) then
        update(state, window)
        window = new_window()
      end
    end
    if state.step > before then
      after_update(state)
      save_or_stop(state)
    end
  end
  return not state.signal and has_ended(state) -- a signal waits for no validation
end

-- What follows the last batch of an epoch.
local function finish_epoch(state, next_batch)
  step_schedulers(state)
  next_batch() -- the loader goes over to the next epoch
  local guard <close> = keeper.guard(state) -- luacheck: ignore
  local following = state.epoch + 1
  local over <close> = closing(function() state.epoch, state.of_epoch = following, { sum = 0, count = 0 } end) -- luacheck: ignore
  state.spec:callback("on_epoch", state)
  write_notes(state, "epoch")
  print_line(state, ("epoch %2d"):format(state.epoch))
end

--- Trains until a limit is reached.
---@param state optlua.State
function loop.run(state)
  if state.resumed_at and has_waited(state) then
    stop_waiting(state)
  elseif state.is_passed or state.resumed_at and loop.is_complete(state) and not has_ended(state) then
    state:say("nothing is left to do: %d updates of %d are made; more epochs or steps go on", state.step, state.training_steps)
  end
  state.began, state.skipped, state.waited = clock(), state.skipped or 0, state.waited or 0
  rollback.keep(state)
  state.spec:callback("on_start", state)
  write_notes(state, "start")
  while not state.is_passed and (has_ended(state) or not is_over(state)) do
    local next_batch = state.loader:batches()
    local ended = run_epoch(state, next_batch)
    if state.signal then break end
    if not state.config.eval_every and state.validated ~= state.step then validate(state, not ended) end
    if ended then finish_epoch(state, next_batch) else print_line(state, ("epoch %2d"):format(state.epoch)) end
    save_or_stop(state)
    if ended then keeper.after_epoch(state) end
  end
  if state.validation and state.validated ~= state.step and not state.signal and not state.is_passed then validate(state, true) end
  keeper.save(state) -- before on_end, which may draw numbers that a run without this end does not
  evaluation.finish(state)
  if state.stopped then state:say("stopped: %s", state.stopped) end
  state.spec:callback("on_end", state)
  write_notes(state, "end")
end

return loop
