--- keeper: the checkpoints of a run: what is in them, when they are written, which are kept.
local checkpoint = require "optlua.checkpoint"
local closing = require "optlua.closing"
local host = require("optlua.core").hidden
local optlua = require "optlua"
local joined = require "optlua.spec.joined"

local keeper = {}

--- The folder of a run's checkpoints.
---@param state optlua.State
---@return string
function keeper.place_of(state) return state.out .. "/checkpoints" end

--- The checkpoint of a step.
---@param state optlua.State
---@param step integer
---@return string
function keeper.path_of(state, step) return ("%s/step-%08d"):format(keeper.place_of(state), step) end

-- What a run knows of itself besides its parts.
local function progress(state, config_text)
  local usual = state.usual or state
  return { step = state.step, epoch = state.epoch, best = state.best, reached = state.reached, waited = state.waited,
    skipped = state.skipped, validated = usual.validated, loss = state.loss, of_epoch = state.of_epoch, results = usual.results,
    config = config_text }
end

--- What a run saves: its model and loader, its optimizer and scheduler, or, where there are several, those joined.
---@param state optlua.State
---@return table
function keeper.parts(state)
  local scheduler = state.lr_schedulers
  return {
    model = state.model, loader = state.loader,
    optimizer = state.manual and joined.optimizers(state.optimizers) or state.optimizers,
    scheduler = scheduler and (type(scheduler.state_dict) == "function" and scheduler or joined.schedulers(scheduler)),
  }
end

-- Whether a message is that of the file system: it begins with the path of a folder or of what is in it, as that is spelt or as
-- it is from the root.
local function is_of_files(problem, path)
  for _, text in ipairs { problem, (problem:gsub("^[^\n]-:%d+: ", "", 1)) } do -- with its position in Lua, or without
    for _, place in ipairs { path, host.real_path(path) } do
      if text:sub(1, #place) == place and text:find("^[/:]", #place + 1) then return true end
    end
  end
  return false
end

--- Calls a function that writes into a folder. What the file system refuses is returned; other errors are raised.
---@param path string
---@return boolean ok
---@return string? problem
function keeper.try(path, fn, ...)
  local ok, problem = pcall(fn, ...)
  if ok or is_of_files(tostring(problem), path) then return ok, problem end
  error(problem, 0)
end

-- What the checkpoint of now is measured by, where it was.
local function value_of(state)
  return state.validated == state.step and state.results[state.monitor] or nil
end

-- Leaves the last few checkpoints, and the best; what was removed.
local function prune(state, last)
  local best = state.config.keep_best and state.monitor_mode or nil
  local removed, problems = checkpoint.prune(keeper.place_of(state), { last = last, best = best })
  if problems[1] then state.log_file:fail(keeper.place_of(state), problems[1]) end
  return removed
end

-- Writes the checkpoint of now. On a full disk the oldest give way, but not the last.
local function write(state, parts)
  local path, last = keeper.path_of(state, state.step), state.config.keep_last
  while true do
    local saved, problem = keeper.try(state.out, checkpoint.save, path, parts)
    if saved or not tostring(problem):find("No space left", 1, true) then return saved, problem end
    repeat -- fewer may be there than are kept
      last = last - 1
      if last < 1 then return saved, problem end
    until #prune(state, last) > 0
  end
end

--- Writes a checkpoint, and the time that it took into the log. One that cannot be written is said, and the run goes on.
---@param state optlua.State
function keeper.save(state)
  state.best_due = nil
  if not state.out or state.saved == state.step then return end
  local parts, began = keeper.parts(state), optlua.clock()
  parts.extra, parts.value = progress(state, state.config_text), value_of(state)
  local saved, problem = write(state, parts)
  state.saved_at = optlua.clock()
  if not saved then return state.log_file:fail(keeper.place_of(state), problem) end
  state.saved = state.step
  state.log_file:write { event = "checkpoint", step = state.step, epoch = state.updated_in or state.epoch, seconds = state.saved_at - began }
  prune(state, state.config.keep_last)
end

local FIRST = 1 -- minutes until the first checkpoint, at most

--- Writes a checkpoint when it is time: every so many updates or minutes, the first after a minute at most.
---@param state optlua.State
function keeper.after_update(state)
  local every, minutes = state.config.checkpoint_every, state.config.checkpoint_minutes
  if not state.saved then minutes = math.min(minutes or FIRST, FIRST) end
  if state.best_due or every and state.step % every == 0 then keeper.save(state) end
  if minutes and optlua.clock() - (state.saved_at or state.began) >= 60 * minutes then keeper.save(state) end
end

--- What a script's error would lose is saved, when this is closed by one. The state is one to go on from as long as it is open.
---@param state optlua.State
---@return table
function keeper.guard(state)
  return closing(function(problem)
    if problem == nil or not state.out or state.saved == state.step then return end
    if pcall(keeper.save, state) and state.saved == state.step then
      state:say("step %d is saved; --resume %s goes on with it", state.step, state.out)
    end
  end)
end

--- Writes the first checkpoint of a run, if there is none yet, when an epoch has ended.
---@param state optlua.State
function keeper.after_epoch(state)
  if not state.saved then keeper.save(state) end
end

return keeper
